"""Replacements in a session's log: writes and undoes them, and removes those of erased records."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller, scope_key
from mcp_memory.domain.model.session_log import Entry, PassName, Replacement, Trigger, role_of
from mcp_memory.errors import Conflict
from mcp_memory.ports.session_logs import MessageLine, SaidEntry, Undone
from mcp_memory.stores.records.database import Connection, Cursor, Write
from mcp_memory.stores.records.partitions import PartitionTally

_ENTRY_COLUMNS = tuple(f.name for f in fields(Entry) if f.name not in ("covers", "summary", "micro"))


class SqlLogWriter:
    """Implements `LogWriter` on a connection whose transaction has begun, and numbers the transaction's changes."""

    def __init__(self, connection: Write) -> None:
        self._db = connection
        self._change = 0
        """The number of the newest change of this write."""
        self._tally = PartitionTally()

    def said_since(self, entry_id: str | None, caller: Caller) -> Sequence[SaidEntry]:
        return said(self._db, caller, entry_id)

    def told_before(self, line: MessageLine, caller: Caller) -> str | None:
        row = self._run("told_before", {**of_session(caller), **asdict(line)}).fetchone()
        return row["id"] if row else None

    def share_line(self, record_id: str, caller: Caller) -> None:
        self._defer("share_line", {**of_session(caller), "id": record_id})

    def lines_named(self, message_ids: Collection[str], caller: Caller) -> Sequence[str]:
        asked = {**of_session(caller), "message_ids": json.dumps([*message_ids])}
        return [row["id"] for row in self._run("lines_named", asked)]

    def take_back(self, record_ids: Sequence[str], caller: Caller) -> Sequence[str]:
        gone: list[str] = []
        for record_id in record_ids:
            is_new = self._run("take_back", {**of_session(caller), "id": record_id}).rowcount > 0
            if is_new and not self._run("held_elsewhere", {"id": record_id}).fetchone():
                gone.append(record_id)
        return gone

    def stand_again(self, record_ids: Sequence[str], caller: Caller) -> Sequence[str]:
        each_of = ((record_id, {**of_session(caller), "id": record_id}) for record_id in record_ids)
        return [record_id for record_id, named in each_of if self._run("stand_again", named).rowcount]

    def begin_compaction(self, caller: Caller, trigger: Trigger, at: Instant, before: int) -> int:
        row = {**of_session(caller), "asked_by": trigger, "at": at, "before": before}
        return self._run("add_compaction", row).fetchone()["number"]

    def replace_entries(
        self,
        replacements: Sequence[Replacement],
        compaction: int,
        pass_name: PassName,
        caller: Caller,
        at: Instant,
        record_ids: Mapping[str, str],
    ) -> None:
        if self._latest(caller) != compaction:  # Undoing the latest alone must restore the state before it.
            raise Conflict(
                "Another compaction of this session began meanwhile, or this one was undone; call compact again."
            )
        made = {**of_session(caller), "compaction": compaction, "pass_name": pass_name, "made_at": at}
        for one in replacements:
            change = self._next_change_of(caller)
            self._replace(one, {**made, "change": change, "record_id": record_ids.get(one.entry.id)})

    def undo_compaction(self, caller: Caller, at: Instant, number: int | None = None) -> Undone:
        self._next_change_of(caller)
        latest = self._latest(caller)
        if number is not None and number != latest:
            raise Conflict(
                f"Compaction {number} is not the latest of this session any more: it was undone, or another came after"
                " it. Nothing was changed."
            )
        if latest is None:
            raise Conflict(
                "No compaction of this session stands, so there is nothing to undo; compact makes one. To undo that of"
                " another session, give the session_id that compact answered with."
            )
        which = {**of_session(caller), "compaction": latest}
        self._run("keep_sources", which)
        dropped = self._run("drop_compacted", which).fetchall()
        self._run("note_undone", {**which, "at": at})
        record_ids = tuple(row["record_id"] for row in dropped if row["record_id"] is not None)
        return Undone(number=latest, replacements=len(dropped), record_ids=record_ids)

    def _replace(self, replacement: Replacement, made: Mapping[str, object]) -> None:
        wanted = {**made, "ids": json.dumps(replacement.replaces)}
        originals = self._run("live_originals_among", wanted).fetchall()
        replaced = self._run("live_replacements_among", wanted).fetchall()
        columns = {**{name: getattr(replacement.entry, name) for name in _ENTRY_COLUMNS}, **made}
        is_all_live = len(originals) + len(replaced) == len(replacement.replaces)
        added = self._run("add_replacement", columns).fetchone() if is_all_live else None
        if added is None:
            raise Conflict("The log changed meanwhile; call compact again.")
        # The originals that it represents, and the replacements that it supersedes.
        given = {
            "replacement": added["row"],
            "ids": json.dumps([row["id"] for row in originals]),
            "replaced": json.dumps([row["row"] for row in replaced]),
        }
        for name in ("cover_originals", "cover_what_those_cover", "put_successor"):
            self._defer(name, given)
        gone = sum(row["text_tokens"] for row in originals) + sum(row["tokens"] for row in replaced)
        self._defer("note_saving", {**made, "saved": gone - replacement.entry.tokens})

    def _summaries_of(self, record_ids: Sequence[str]) -> list[str]:
        """Return ids of records of kind summary that repeat any of these, in the order they were made."""
        given = frozenset(record_ids)
        rows = self._run("saying_the_same", (json.dumps(record_ids),))
        return [row["record_id"] for row in rows if row["record_id"] is not None and row["record_id"] not in given]

    def _drop_saying(self, record_ids: Sequence[str]) -> None:
        """Remove every replacement that repeats any of these records; the entries it replaced are live again."""
        rows = self._run("saying_the_same", (json.dumps(record_ids),))
        saying = [row["replacement"] for row in rows if row["replacement"] is not None]
        self._run("drop_replacements", (json.dumps(saying),))

    def _latest(self, caller: Caller) -> int | None:
        return self._run("latest_compaction", of_session(caller)).fetchone()[0]

    def _run(self, name: str, parameters: Sequence[object] | Mapping[str, object]) -> Cursor:
        return self._db.run(name, parameters)

    def _defer(self, name: str, parameters: Sequence[object] | Mapping[str, object]) -> None:
        self._db.defer(name, parameters)

    def _next_change_of(self, caller: Caller) -> int:
        """Return a new number for a change of the caller's log, counted in the partition of its namespace."""
        self._tally.note(scope_key("shared", caller.namespace, ""), self._next_change())
        return self._change

    def _next_change(self) -> int:
        self._change = self._db.next_change()
        return self._change


def of_session(caller: Caller) -> dict[str, object]:
    """Return the parameters that name a caller's log."""
    return {"namespace": caller.namespace, "agent": caller.agent, "session_id": caller.session_id}


def said(connection: Connection, caller: Caller, after: str | None) -> Sequence[SaidEntry]:
    """Return the log's originals stored after that one, see `Transaction.said_since`; all where it is None."""
    rows = connection.run("originals", {**of_session(caller), "after": after}).fetchall()
    return [
        SaidEntry(
            id=record_id,
            kind=kind,
            role=role_of(kind, role),
            content_hash=digest,
            call_id=call_id,
            message_id=message_id,
        )
        for record_id, kind, role, digest, call_id, message_id in rows
    ]
