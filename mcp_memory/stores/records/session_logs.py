"""The current logs of sessions: implements `SessionLogStore`, reading the rows of replacements.py."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from math import inf
from typing import Any

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import Entry, PassName, SessionLog, in_order, role_of
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.session_logs import (
    Compaction,
    LogOutline,
    LogSize,
    PassRun,
    PassShare,
    PassTally,
    SaidEntry,
    StandIn,
)
from mcp_memory.stores.records.database import NO_PARTITION, Connection, Database, Row
from mcp_memory.stores.records.replacements import of_session, said
from mcp_memory.stores.records.write_checks import refuse_renamed

TELEMETRY_PATIENCE_SECONDS = 2.0
PASS_RUNS_KEPT_SECONDS = 14 * 86_400
REASONS_SHOWN = 10  # the commonest reasons why a pass did not run
_STORED = tuple(
    f.name for f in fields(Entry) if f.name not in ("covers", "failed", "pinned", "speaker", "summary", "micro")
)
_ORIGINAL = "id kind role text tokens at summary micro tool call_id speaker failed pinned importance".split()
_MAKING = ("compaction", "pass_name", "made_at", "record_id")
_log = logging.getLogger(__name__)


class SqlSessionLogs:
    """Implements `SessionLogStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def log(self, caller: Caller) -> SessionLog:
        with self._database.snapshot():
            originals = self._rows("live_originals", of_session(caller))
            replacements = self._entries("live_replacements", of_session(caller))
        return in_order([*map(_original, originals), *(entry for _, entry in replacements)])

    def size(self, caller: Caller) -> LogSize:
        return self._size(of_session(caller))

    def sizes(self, since: Instant) -> Sequence[LogSize]:
        with self._database.snapshot():
            return [self._size(dict(row)) for row in self._rows("agents_at_work", {"since": since})]

    def latest(
        self, caller: Caller, limit: int, before: tuple[Instant, str] | None = None, *, of_all: bool = False
    ) -> Sequence[LogOutline]:
        at, key = before or (inf, "")
        asked = {**of_session(caller), "of_all": of_all, "at": at, "key": key, "limit": limit}
        return [LogOutline(**dict(row)) for row in self._rows("latest_logs", asked)]

    def entries(self, entry_ids: Collection[str], caller: Caller) -> Mapping[str, Entry]:
        wanted = {**of_session(caller), "ids": json.dumps(list(entry_ids))}
        return {entry.id: entry for _, entry in self._entries("replacements_of", wanted)}

    def stand_ins(self, caller: Caller) -> Sequence[StandIn]:
        found = {one.entry.id: one for one in self._stand_ins("live_replacements", of_session(caller))}
        return [found[entry.id] for entry in in_order(one.entry for one in found.values()).entries]

    def made_in(self, caller: Caller, compaction: int, limit: int, offset: int = 0) -> Sequence[StandIn]:
        some = {"compaction": compaction, "limit": limit, "offset": offset}
        return self._stand_ins("replacements_in", {**of_session(caller), **some})

    def pass_shares(self, caller: Caller) -> Sequence[PassShare]:
        return [PassShare(**dict(row)) for row in self._rows("pass_shares", of_session(caller))]

    def said(self, caller: Caller) -> Sequence[SaidEntry]:
        with self._database.read() as connection:
            return said(connection, caller, None)

    def originals(self, caller: Caller, tools: Collection[str]) -> Sequence[Entry]:
        wanted = {**of_session(caller), "tools": json.dumps(sorted(tools))}
        return [*map(_original, self._rows("originals_with_text", wanted))]

    def compactions(self, caller: Caller) -> Sequence[Compaction]:
        return [Compaction(**dict(row)) for row in self._rows("list_compactions", of_session(caller))]

    def keep_pass_runs(self, runs: Sequence[PassRun], caller: Caller, at: Instant, compaction: int | None) -> None:
        kept = [{**asdict(run), **of_session(caller), "at": at, "compaction": compaction} for run in runs]

        def keep(connection: Connection) -> None:
            connection.run_each("add_pass_run", kept)
            connection.run("prune_pass_runs", (at - PASS_RUNS_KEPT_SECONDS,))

        self._keep(caller, keep)

    def leave(self, caller: Caller, tokens: int) -> None:
        left = {**of_session(caller), "tokens": tokens}
        self._keep(caller, lambda connection: connection.run("leave_log", left))

    def pass_runs(self, caller: Caller, since: Instant) -> Sequence[PassTally]:
        whose = {**of_session(caller), "since": since}
        skipped: dict[str, dict[str, int]] = {}
        with self._database.snapshot():
            rows = self._rows("tally_passes", whose)
            for name, reason, times in self._rows("skipped_passes", whose):
                reasons = skipped.setdefault(name, {})
                if len(reasons) < REASONS_SHOWN:
                    reasons[reason] = times
        return [PassTally(**dict(row), skipped=skipped.get(row["name"], {})) for row in rows]

    def fruitless(self, caller: Caller, revision: str) -> frozenset[PassName]:
        rows = self._rows("fruitless_passes", {**of_session(caller), "revision": revision})
        return frozenset(row["name"] for row in rows)

    def _keep(self, caller: Caller, write: Callable[[Connection], object]) -> None:
        """Write telemetry, which may be lost: wait not long, and log where the store is away."""
        try:
            with self._database.write(TELEMETRY_PATIENCE_SECONDS, durable=False, partition=NO_PARTITION) as connection:
                refuse_renamed(connection, caller)
                write(connection)
        except StoreUnavailable as error:
            _log.warning("could not keep what became of a log: %s", type(error).__name__)

    def _size(self, whose: Mapping[str, Any]) -> LogSize:
        return LogSize(**whose, **dict(self._rows("log_size", whose)[0]))

    def _stand_ins(self, name: str, parameters: Mapping[str, object]) -> list[StandIn]:
        rows = self._entries(name, parameters)
        return [StandIn(entry=entry, **{name: row[name] for name in _MAKING}) for row, entry in rows]

    def _entries(self, name: str, parameters: Mapping[str, object]) -> Sequence[tuple[Row, Entry]]:
        """Return replacements, each with its row; their originals are read in the same snapshot, in their order."""
        covers: dict[int, list[str]] = {}
        with self._database.snapshot():
            rows = self._rows(name, parameters)
            for replacement, record_id in self._rows("covers", (json.dumps([row["row"] for row in rows]),)):
                covers.setdefault(replacement, []).append(record_id)
        return [(row, _replacement(row, covers[row["row"]])) for row in rows]

    def _rows(self, name: str, parameters: Sequence[object] | Mapping[str, object]) -> list[Any]:
        return self._database.rows(name, parameters)


def _is_unsaid(text: str) -> bool:
    """Return True where no word is the user's own."""
    from mcp_memory.domain.memory.harness import heard  # Slow to load, and no part of a server's start.

    return not heard(text).words.strip()


def _original(row: Iterable[Any]) -> Entry:
    """Make an entry from a row of `live_originals`, by position: a log has thousands."""
    columns = dict(zip(_ORIGINAL, row, strict=True))
    for name in ("failed", "pinned"):
        columns[name] = bool(columns[name])
    role = columns["role"] = role_of(columns["kind"], columns["role"])
    if columns["kind"] == "message" and role == "user" and _is_unsaid(columns["text"]):
        columns["role"] = "tool"  # Stored by a version that took it for the user's words.
    return Entry(**columns, covers=(columns["id"],), original_tokens=columns["tokens"])


def _replacement(row: Row, covers: Sequence[str]) -> Entry:
    return Entry(
        **{name: row[name] for name in _STORED},
        covers=tuple(covers),
        failed=bool(row["failed"]),
        pinned=bool(row["pinned"]),
    )
