"""The current logs of sessions: implements `SessionLogStore`, reading the rows of replacements.py."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import Entry, PassName, SessionLog, in_order, role_of
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.session_logs import Compaction, LogSize, PassRun, PassTally, SaidEntry, StandIn
from mcp_memory.stores.records.database import Database
from mcp_memory.stores.records.replacements import of_session
from mcp_memory.stores.records.statements import statement

PASS_RUN_PATIENCE_SECONDS = 2.0
PASS_RUNS_KEPT_SECONDS = 14 * 86_400
REASONS_SHOWN = 10  # the commonest reasons why a pass did not run
_STORED = tuple(f.name for f in fields(Entry) if f.name not in ("covers", "failed", "pinned", "summary", "micro"))
_log = logging.getLogger(__name__)


class SqliteSessionLogs:
    """Implements `SessionLogStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def log(self, caller: Caller) -> SessionLog:
        with self._snapshot() as connection:
            originals = connection.execute(statement("live_originals"), of_session(caller)).fetchall()
            replacements = connection.execute(statement("live_replacements"), of_session(caller)).fetchall()
            covers = _covers(connection, replacements)
        return in_order([*map(_original, originals), *(_replacement(row, covers) for row in replacements)])

    def size(self, caller: Caller) -> LogSize:
        with self._database.read() as connection:
            return _size(connection, caller.namespace, caller.agent, caller.session_id)

    def sizes(self, since: Instant) -> Sequence[LogSize]:
        with self._snapshot() as connection:
            found = connection.execute(statement("agents_at_work"), {"since": since}).fetchall()
            return [_size(connection, *row) for row in found]

    def entries(self, entry_ids: Collection[str], caller: Caller) -> Mapping[str, Entry]:
        with self._snapshot() as connection:
            wanted = {**of_session(caller), "ids": json.dumps(list(entry_ids))}
            rows = connection.execute(statement("replacements_of"), wanted).fetchall()
            covers = _covers(connection, rows)
        return {row["id"]: _replacement(row, covers) for row in rows}

    def stand_ins(self, caller: Caller) -> Sequence[StandIn]:
        with self._snapshot() as connection:
            rows = connection.execute(statement("live_replacements"), of_session(caller)).fetchall()
            covers = _covers(connection, rows)
        found = {row["id"]: _stand_in(row, covers) for row in rows}
        return [found[entry.id] for entry in in_order(one.entry for one in found.values()).entries]

    def said(self, caller: Caller) -> Sequence[SaidEntry]:
        with self._database.read() as connection:
            return said(connection, caller, None)

    def compactions(self, caller: Caller) -> Sequence[Compaction]:
        with self._database.read() as connection:
            rows = connection.execute(statement("list_compactions"), of_session(caller)).fetchall()
        return [
            Compaction(number=number, at=at, trigger=asked_by, before=before, after=after, undone_at=undone_at)
            for number, at, asked_by, before, after, undone_at in rows
        ]

    def keep_pass_runs(self, runs: Sequence[PassRun], caller: Caller, at: Instant, compaction: int | None) -> None:
        kept = [{**asdict(run), **of_session(caller), "at": at, "compaction": compaction} for run in runs]
        try:
            with self._database.write(PASS_RUN_PATIENCE_SECONDS, durable=False) as connection:
                connection.executemany(statement("add_pass_run"), kept)
                connection.execute(statement("prune_pass_runs"), (at - PASS_RUNS_KEPT_SECONDS,))
        except StoreUnavailable as error:
            _log.warning("could not keep %d runs of passes: %s", len(kept), type(error).__name__)

    def pass_runs(self, caller: Caller, since: Instant) -> Sequence[PassTally]:
        whose = {**of_session(caller), "since": since}
        skipped: dict[str, dict[str, int]] = {}
        with self._snapshot() as connection:
            rows = connection.execute(statement("tally_passes"), whose).fetchall()
            for name, reason, times in connection.execute(statement("skipped_passes"), whose):
                reasons = skipped.setdefault(name, {})
                if len(reasons) < REASONS_SHOWN:
                    reasons[reason] = times
        return [PassTally(**dict(row), skipped=skipped.get(row["name"], {})) for row in rows]

    def fruitless(self, caller: Caller, revision: str) -> frozenset[PassName]:
        with self._database.read() as connection:
            rows = connection.execute(statement("fruitless_passes"), {**of_session(caller), "revision": revision})
            return frozenset(row["name"] for row in rows)

    @contextmanager
    def _snapshot(self) -> Generator[sqlite3.Connection]:
        """Let several statements see the same state."""
        with self._database.snapshot(), self._database.read() as connection:
            yield connection


def said(connection: sqlite3.Connection, caller: Caller, after: str | None) -> Sequence[SaidEntry]:
    """Return the log's originals stored after that one, see `Transaction.said_since`; all where it is None."""
    rows = connection.execute(statement("originals"), {**of_session(caller), "after": after}).fetchall()
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


def _covers(connection: sqlite3.Connection, replacements: Sequence[sqlite3.Row]) -> dict[int, list[str]]:
    """Return the ids of each replacement's originals, by its row, in their order."""
    rows = json.dumps([row["row"] for row in replacements])
    found: dict[int, list[str]] = {}
    for replacement, record_id in connection.execute(statement("covers"), (rows,)):
        found.setdefault(replacement, []).append(record_id)
    return found


def _original(row: Iterable[Any]) -> Entry:
    """Make an entry from a row of `live_originals`, by position: a log has thousands."""
    record_id, kind, role, text, tokens, at, summary, micro, tool, call_id, failed, pinned, importance = row
    return Entry(
        id=record_id,
        kind=kind,
        role=role_of(kind, role),
        text=text,
        tokens=tokens,
        at=at,
        covers=(record_id,),
        original_tokens=tokens,
        summary=summary,
        micro=micro,
        tool=tool,
        call_id=call_id,
        failed=bool(failed),
        pinned=bool(pinned),
        importance=importance,
    )


def _replacement(row: sqlite3.Row, covers: Mapping[int, Sequence[str]]) -> Entry:
    return Entry(
        **{name: row[name] for name in _STORED},
        covers=tuple(covers[row["row"]]),
        failed=bool(row["failed"]),
        pinned=bool(row["pinned"]),
    )


def _stand_in(row: sqlite3.Row, covers: Mapping[int, Sequence[str]]) -> StandIn:
    return StandIn(
        entry=_replacement(row, covers),
        compaction=row["compaction"],
        pass_name=row["pass_name"],
        made_at=row["made_at"],
        record_id=row["record_id"],
    )


def _size(connection: sqlite3.Connection, namespace: str, agent: str, session_id: str) -> LogSize:
    whose = {"namespace": namespace, "agent": agent, "session_id": session_id}
    return LogSize(**whose, **dict(connection.execute(statement("log_size"), whose).fetchone()))
