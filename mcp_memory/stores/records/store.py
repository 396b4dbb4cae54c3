"""The truth in one SQLite file: implements `RecordStore`."""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Literal

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.health import Assembled, Tally
from mcp_memory.domain.model.records import Entity, Instant, Kind, Outcome, Record, Relation, Status
from mcp_memory.domain.model.scopes import Caller, RecordFilter, scope_key
from mcp_memory.domain.model.tasks import Task
from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.ports.changes import RecordChange, TaskLink
from mcp_memory.ports.records import Mention, Outline, RecordOrder, StatedRelation, StoreSummary
from mcp_memory.ports.text import Clock, Vectors
from mcp_memory.stores.records import assemblies, backups, integrity, late_vectors, links, purge
from mcp_memory.stores.records.access import SqliteFolders, SqliteTokens
from mcp_memory.stores.records.database import WRITE_PATIENCE_SECONDS, Database, DatabaseSnapshot
from mcp_memory.stores.records.filters import where_clause
from mcp_memory.stores.records.rows import (
    change_from_row,
    record_from_row,
    task_from_row,
)
from mcp_memory.stores.records.session_logs import SqliteSessionLogs
from mcp_memory.stores.records.statements import statement
from mcp_memory.stores.records.transaction import SqliteTransaction, advance, learnt
from mcp_memory.stores.records.transfer import SqliteTransfer

CONTEXT_PATIENCE_SECONDS = 2.0
"""Seconds to keep a report: it is worth a short wait, never a late context."""
DECISIONS_JUDGED = 1000
LOOK_BACK = 500
"""Newest records among which the latest sessions are found."""
IDENTITY = "identity"
"""Name in `meta` of the id that tells this store from others; made on first use."""
_ORDERS: Mapping[RecordOrder, str] = {
    "created": "r.row DESC",
    "occurred": "r.occurred_at DESC, r.row DESC",
    "accessed": "r.accessed_at DESC, r.row DESC",
    "important": "r.importance DESC, r.occurred_at DESC, r.row DESC",
}
_ORDER_KEYS: Mapping[str, Sequence[str]] = {
    "balanced": ("rank", "occurred_at", "row"),
    "created": ("row",),
    "occurred": ("occurred_at", "row"),
    "accessed": ("accessed_at", "row"),
    "important": ("importance", "occurred_at", "row"),
}
"""The orders of `list_ids`, by the selected columns."""
_log = logging.getLogger(__name__)


class SqliteRecordStore:
    """Implements `RecordStore`; the port documents each method."""

    def __init__(self, folder: Path, embedder: str, clock: Clock = time.time) -> None:
        """Open or create the store. Raises StoreUnavailable with the remedy where it can do neither."""
        self._database = Database(folder)
        self._embedder = embedder
        self._clock = clock
        self._untold: dict[str, Instant] = {}
        self._untold_lock = threading.Lock()

    @contextmanager
    def write(self, *, patiently: bool = True) -> Generator[SqliteTransaction]:
        with self._database.write(WRITE_PATIENCE_SECONDS if patiently else 0) as connection:
            transaction = SqliteTransaction(connection, self._embedder, self._clock)
            yield transaction
            transaction.finish()

    def pin(self) -> DatabaseSnapshot:
        return self._database.pin()

    def snapshot(self) -> AbstractContextManager[int]:
        return self._database.snapshot()

    def revision(self) -> int:
        pinned = self._database.pinned_revision()
        return self._one("SELECT value FROM sequence")[0] if pinned is None else pinned

    def get(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Record]:
        parameters = {"ids": json.dumps(list(record_ids)), "scopes": json.dumps(list(scopes))}
        found = {row["id"]: record_from_row(row) for row in self._all(statement("get_records"), parameters)}
        return {record_id: found[record_id] for record_id in record_ids if record_id in found}

    def find_texts(self, texts: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        return {(row[0], row[1]) for row in self._all(statement("find_texts"), {"pairs": json.dumps(list(texts))})}

    def find_learnt(self, said: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], Collection[str | None]]:
        with self._database.read() as connection:
            return learnt(connection, said)

    def matching_ids(self, where: RecordFilter) -> frozenset[str]:
        clause, parameters = where_clause(where)
        rows = self._all(statement("matching_ids").replace("{where}", clause), parameters)
        return frozenset(row[0] for row in rows)

    def count(self, where: RecordFilter) -> int:
        clause, parameters = where_clause(where)
        return self._all(statement("count_matching").replace("{where}", clause), parameters)[0][0]

    def count_all(self) -> int:
        return self._one("SELECT count(*) FROM records")[0]

    def ids_in_branches(self, branches: Collection[str]) -> frozenset[str]:
        return frozenset(row[0] for row in self._all(statement("ids_in_branches"), (json.dumps(list(branches)),)))

    def list(self, where: RecordFilter, order: RecordOrder, limit: int, offset: int = 0) -> Sequence[Record]:
        clause, parameters = where_clause(where)
        sql = statement("list_records").replace("{where}", clause).replace("{order}", _ORDERS[order])
        return [record_from_row(row) for row in self._all(sql, {**parameters, "limit": limit, "offset": offset})]

    def list_ids(
        self,
        where: RecordFilter,
        order: RecordOrder | Literal["balanced"],
        limit: int,
        *,
        at: Instant = 0.0,
        decay_hours: float = 1.0,
    ) -> Sequence[str]:
        # Scope by scope, so that each is read in the order of an index and none is sorted as a whole.
        found: list[sqlite3.Row] = []
        given = {"limit": limit, "at": at, "decay_seconds": 3600 * decay_hours}
        for scope in dict.fromkeys(where.scopes):
            clause, parameters = where_clause(replace(where, scopes=(scope,)))
            sql = statement("list_balanced" if order == "balanced" else "list_ids").replace("{where}", clause)
            if order != "balanced":
                sql = sql.replace("{order}", _ORDERS[order])
            found += self._all(sql, {**parameters, **given})
        found.sort(key=itemgetter(*_ORDER_KEYS[order]), reverse=True)
        return [row["id"] for row in found[:limit]]

    def outlines(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Outline]:
        parameters = {"ids": json.dumps(list(record_ids)), "scopes": json.dumps(list(scopes))}
        rows = self._all(statement("outlines"), parameters)
        return {row[0]: Outline(kind=row[1], role=row[2], superseded_by=row[3]) for row in rows}

    def recent_sessions(self, where: RecordFilter, limit: int) -> Sequence[str]:
        clause, parameters = where_clause(where)
        sql = statement("recent_sessions").replace("{where}", clause)
        return list(dict.fromkeys(row[0] for row in self._all(sql, {**parameters, "look_back": LOOK_BACK})))[:limit]

    def best_of_sessions(self, where: RecordFilter, sessions: Sequence[str], each: int) -> Sequence[str]:
        clause, parameters = where_clause(where)
        sql = statement("best_of_sessions").replace("{where}", clause)
        rows = self._all(sql, {**parameters, "sessions": json.dumps(sessions), "each": each})
        summarized = {row["session_id"] for row in rows if row["kind"] == "summary"}
        return [
            row["id"]
            for row in rows
            if row["session_id"] not in summarized or (row["kind"] == "summary" and row["place"] == 1)
        ]

    def successors(self, record_ids: Collection[str]) -> Mapping[str, str]:
        rows = self._all(statement("successors"), (json.dumps(list(record_ids)),))
        return {row["start"]: row["id"] for row in rows}  # Rows come by step, so the last one of a chain stays.

    def to_maintain(self, kind: Kind, statuses: Collection[Status], until: Instant) -> Iterator[Record]:
        parameters = {"kind": kind, "statuses": json.dumps(list(statuses)), "until": until}
        with (
            self._database.read() as connection,
            closing(connection.execute(statement("to_maintain"), parameters)) as rows,
        ):
            for row in rows:
                yield record_from_row(row)

    def judged_confidences(self, where: RecordFilter) -> Sequence[tuple[float, Outcome]]:
        clause, parameters = where_clause(where)
        sql = statement("judged_confidences").replace("{where}", clause)
        return [(row[0], row[1]) for row in self._all(sql, {**parameters, "limit": DECISIONS_JUDGED})]

    def links(self, record_id: str) -> tuple[Sequence[Entity], Sequence[Relation]]:
        mentioned = self._all(statement("entities_of"), (record_id,))
        related = self._all(statement("relations_of"), (record_id,))
        entities = [
            Entity(name=row[0], type=row[1], properties=json.loads(row[2]), found=bool(row[3])) for row in mentioned
        ]
        return entities, [Relation(source=row[0], type=row[1], target=row[2], weight=row[3]) for row in related]

    def mentions(self, keys: Collection[str], where: RecordFilter, found_by: Collection[str] = ()) -> Sequence[Mention]:
        with self._database.read() as connection:
            return links.mentions(connection, keys, where, found_by)

    def statements(self, keys: Collection[str], where: RecordFilter, limit: int) -> Sequence[StatedRelation]:
        with self._database.read() as connection:
            return links.statements(connection, keys, where, limit)

    def old_texts(self, record_id: str) -> Sequence[tuple[Instant, str]]:
        return [(row["replaced_at"], row["text"]) for row in self._all(statement("old_texts"), (record_id,))]

    def changes(self, since: int, embedder: str = "") -> Iterator[RecordChange]:
        parameters = {"since": since, "embedder": embedder}
        with (
            self._database.read() as connection,
            # A cursor left half-read would hold its snapshot open.
            closing(connection.execute(statement("changes"), parameters)) as rows,
        ):
            for row in rows:
                yield change_from_row(row)

    def task_links(self, since: int) -> Sequence[TaskLink]:
        return [
            TaskLink(id=row[0], scope=scope_key("shared", row[1], ""), parent_id=row[2])
            for row in self._all(statement("task_links"), (since,))
        ]

    def tasks(self, namespace: str) -> Sequence[Task]:
        return [task_from_row(row) for row in self._all(statement("list_tasks"), (namespace,))]

    def open_branches(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._all(statement("open_branches")))

    def places(self, caller: Caller) -> Mapping[str, str]:
        rows = self._all(statement("list_places"), (caller.namespace, caller.agent))
        return {row["session_id"]: row["task_id"] for row in rows}

    def touch(self, record_ids: Collection[str], at: Instant) -> None:
        """Try once without waiting; accesses that could not be noted now are noted with the next touch."""
        with self._untold_lock:
            self._untold.update(dict.fromkeys(record_ids, at))
            untold, self._untold = self._untold, {}
        by_time: dict[Instant, list[str]] = {}
        for record_id, instant in untold.items():
            by_time.setdefault(instant, []).append(record_id)
        try:
            with self._database.write(patience=0, durable=False) as connection:
                for instant, ids in by_time.items():
                    connection.execute(statement("touch"), {"ids": json.dumps(ids), "at": instant})
        except StoreBusy:
            with self._untold_lock:
                self._untold = {**untold, **self._untold}
        except StoreUnavailable as error:
            _log.warning("could not note %d accesses: %s", len(untold), type(error).__name__)

    def keep_context(self, report: ContextReport, caller: Caller, at: Instant, *, anew: bool = True) -> None:
        try:
            with self._database.write(patience=CONTEXT_PATIENCE_SECONDS, durable=False) as connection:
                assemblies.keep(connection, report, caller, at, anew=anew)
        except StoreUnavailable as error:
            _log.warning("could not keep context %s: %s", report.id, type(error).__name__)

    def context(self, context_id: str, caller: Caller) -> ContextReport | None:
        with self._database.read() as connection:
            return assemblies.report_of(connection, context_id, caller)

    def assembled(self, caller: Caller, since: Instant) -> Assembled:
        with self._database.read() as connection:
            return assemblies.assembled(connection, caller, since)

    def tally(self, where: RecordFilter, since: Instant) -> Tally:
        clause, parameters = where_clause(where)
        row = self._all(statement("tally").replace("{where}", clause), {**parameters, "stored_since": since})[0]
        return Tally(**dict(row))

    def summarize(self, caller: Caller, hidden_branches: frozenset[str]) -> StoreSummary:
        where = RecordFilter(scopes=caller.scopes, hidden_branches=hidden_branches, include_inactive=True)
        clause, parameters = where_clause(where)

        def count(name: str) -> Sequence[sqlite3.Row]:
            return self._all(statement(name).replace("{where}", clause), parameters)

        return StoreSummary(
            path=str(self._database.path),
            engine=self.engine(),
            schema_version=self._database.schema_version,
            revision=self.revision(),
            embedder=self.embedder_id() or "",
            records={row[0]: row[1] for row in count("count_kinds")},
            statuses={row[0]: row[1] for row in count("count_statuses")},
            sessions=count("count_sessions")[0][0],
            tasks={row[0]: row[1] for row in self._all(statement("count_tasks"), (caller.namespace,))},
            file_bytes=sum(path.stat().st_size for path in self._database.path.parent.glob("memory.db*")),
        )

    def identity(self) -> str:
        rows = self._all(statement("get_meta"), (IDENTITY,))
        if not rows:
            with self._database.write() as connection:
                connection.execute(statement("add_meta"), (IDENTITY, secrets.token_hex(8)))
            rows = self._all(statement("get_meta"), (IDENTITY,))
        return rows[0]["value"]

    def session_logs(self) -> SqliteSessionLogs:
        """Return the logs of sessions in the same database."""
        return SqliteSessionLogs(self._database)

    def tokens(self) -> SqliteTokens:
        """Return the tokens in the same database."""
        return SqliteTokens(self._database)

    def folders(self) -> SqliteFolders:
        """Return the folders that may use a namespace, in the same database."""
        return SqliteFolders(self._database)

    def embedder_id(self) -> str | None:
        with self._database.read() as connection:
            return late_vectors.embedder_of(connection)

    def purge(self, *, patiently: bool = True) -> None:
        purge.purge(self._database, patiently=patiently)

    def is_purge_pending(self) -> bool:
        return purge.is_pending(self._database)

    def backup(self, target: str) -> None:
        backups.back_up(self._database, Path(target))

    def unembedded(self, embedder: str, limit: int, after: str = "") -> Sequence[tuple[str, int, str]]:
        with self._database.read() as connection:
            return late_vectors.unembedded(connection, embedder, limit, after)

    def may_lack_vectors(self) -> bool:
        with self._database.read() as connection:
            return late_vectors.may_lack(connection)

    def count_unembedded(self, where: RecordFilter | None = None) -> int:
        with self._database.read() as connection:
            return late_vectors.count_unembedded(connection, self._embedder, where)

    def add_vectors(self, embedder: str, vectors: Mapping[tuple[str, int], Vectors | None]) -> None:
        with self._database.write() as connection:
            late_vectors.add(connection, embedder, vectors)

    def count_refused(self, embedder: str) -> int:
        return self._one(statement("count_refused"), (embedder,))[0]

    def forget_refusals(self, embedder: str) -> None:
        with self._database.write() as connection:
            late_vectors.forget_refusals(connection, embedder)

    def adopt_embedder(self, embedder: str) -> bool:
        with self._database.write() as connection:
            return late_vectors.adopt(connection, embedder)

    def defects(self) -> Sequence[str]:
        with self._database.read() as connection:
            return integrity.defects(connection)

    def engine(self) -> str:
        return integrity.engine(sqlite3.sqlite_version_info)

    def stale_terms(self) -> Sequence[str]:
        with self._database.read() as connection:
            return integrity.stale_terms(connection)

    def renew_terms(self, record_ids: Sequence[str]) -> None:
        with self._database.write() as connection:
            integrity.renew_terms(connection, record_ids)
            advance(connection, record_ids)

    def count_orphans(self) -> int:
        return self._one(statement("count_orphans"))[0]

    def drop_orphans(self) -> None:
        with self._database.write() as connection:
            connection.execute(statement("drop_orphans"))

    def transfer(self) -> SqliteTransfer:
        return SqliteTransfer(self._database)

    def close(self) -> None:
        self._database.close()

    def _all(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[sqlite3.Row]:
        with self._database.read() as connection:
            return connection.execute(sql, parameters).fetchall()

    def _one(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Row:
        return self._all(sql, parameters)[0]
