"""Replacements in a session's log: writes and undoes them, and removes those of erased records."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, fields

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import Entry, PassName, Replacement
from mcp_memory.errors import Conflict
from mcp_memory.ports.session_logs import Trigger, Undone
from mcp_memory.stores.records.statements import statement

_ENTRY_COLUMNS = tuple(f.name for f in fields(Entry) if f.name not in ("covers", "summary", "micro"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """The origin of a replacement: the caller, its compaction, the pass and the time."""

    caller: Caller
    compaction: int
    pass_name: PassName
    at: Instant


def of_session(caller: Caller) -> dict[str, object]:
    """Return the parameters that name a caller's log."""
    return {"namespace": caller.namespace, "agent": caller.agent, "session_id": caller.session_id}


def begin(connection: sqlite3.Connection, caller: Caller, trigger: Trigger, at: Instant, before: int) -> int:
    """See `Transaction.begin_compaction`."""
    row = {**of_session(caller), "asked_by": trigger, "at": at, "before": before}
    return connection.execute(statement("add_compaction"), row).fetchone()["number"]


def require_latest(connection: sqlite3.Connection, caller: Caller, compaction: int) -> None:
    """Raise Conflict where it is not: undoing the latest alone must restore the state before it."""
    if _latest(connection, caller) != compaction:
        raise Conflict(
            "Another compaction of this session began meanwhile, or this one was undone; call compact again."
        )


def put(
    connection: sqlite3.Connection, replacement: Replacement, making: Making, change: int, record_id: str | None
) -> None:
    """See `Transaction.replace_entries`, for one replacement."""
    session = of_session(making.caller)
    wanted = {**session, "ids": json.dumps(replacement.replaces)}
    originals = connection.execute(statement("live_originals_among"), wanted).fetchall()
    replaced = connection.execute(statement("live_replacements_among"), wanted).fetchall()
    entry = replacement.entry
    columns = {
        **{name: getattr(entry, name) for name in _ENTRY_COLUMNS},
        **session,
        "change": change,
        "compaction": making.compaction,
        "pass_name": making.pass_name,
        "made_at": making.at,
        "record_id": record_id,
    }
    is_all_live = len(originals) + len(replaced) == len(replacement.replaces)
    added = connection.execute(statement("add_replacement"), columns).fetchone() if is_all_live else None
    if added is None:
        raise Conflict("The log changed meanwhile; call compact again.")
    _cover(connection, added["row"], [row["id"] for row in originals], [row["row"] for row in replaced])
    gone = sum(row["text_tokens"] for row in originals) + sum(row["tokens"] for row in replaced)
    saving = {**session, "compaction": making.compaction, "saved": gone - entry.tokens}
    connection.execute(statement("note_saving"), saving)


def undo(connection: sqlite3.Connection, caller: Caller, at: Instant) -> Undone:
    """See `Transaction.undo_compaction`."""
    number = _latest(connection, caller)
    if number is None:
        raise Conflict(
            "No compaction of this session stands, so there is nothing to undo; compact makes one. To undo that of"
            " another session, give the session_id that compact answered with."
        )
    which = {**of_session(caller), "compaction": number}
    connection.execute(statement("keep_sources"), which)
    dropped = connection.execute(statement("drop_compacted"), which).fetchall()
    connection.execute(statement("note_undone"), {**which, "at": at})
    record_ids = tuple(row["record_id"] for row in dropped if row["record_id"] is not None)
    return Undone(number=number, replacements=len(dropped), record_ids=record_ids)


def summaries_of(connection: sqlite3.Connection, record_ids: Sequence[str]) -> list[str]:
    """Return ids of records of kind summary that repeat any of these, in the order they were made."""
    given = frozenset(record_ids)
    rows = connection.execute(statement("saying_the_same"), (json.dumps(record_ids),))
    return [row["record_id"] for row in rows if row["record_id"] is not None and row["record_id"] not in given]


def drop_saying(connection: sqlite3.Connection, record_ids: Sequence[str]) -> None:
    """Remove every replacement that repeats any of these records; the entries it replaced are live again."""
    rows = connection.execute(statement("saying_the_same"), (json.dumps(record_ids),))
    saying = [row["replacement"] for row in rows if row["replacement"] is not None]
    connection.execute(statement("drop_replacements"), (json.dumps(saying),))


def _latest(connection: sqlite3.Connection, caller: Caller) -> int | None:
    return connection.execute(statement("latest_compaction"), of_session(caller)).fetchone()[0]


def _cover(connection: sqlite3.Connection, row: int, originals: list[str], replaced: list[int]) -> None:
    """Note the originals that a new replacement represents, and the replacements it supersedes."""
    given = {"replacement": row, "ids": json.dumps(originals), "replaced": json.dumps(replaced)}
    for name in ("cover_originals", "cover_what_those_cover", "put_successor"):
        connection.execute(statement(name), given)
