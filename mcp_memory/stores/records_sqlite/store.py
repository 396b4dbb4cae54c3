"""The truth in one SQLite file: implements `RecordStore`."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from mcp_memory.domain.contexts import ContextReport
from mcp_memory.domain.records import Entity, Instant, Record, Relation
from mcp_memory.domain.scopes import Caller, RecordFilter, scope_key
from mcp_memory.domain.tasks import Task
from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.ports import (
    Clock,
    FilterChange,
    LinkChange,
    Outline,
    RecordOrder,
    StoreSummary,
    TaskLink,
    TermChange,
    VectorChange,
    Vectors,
)
from mcp_memory.stores.records_sqlite import examining
from mcp_memory.stores.records_sqlite.database import Database, translated_errors
from mcp_memory.stores.records_sqlite.filters import where_clause
from mcp_memory.stores.records_sqlite.rows import (
    filter_change_from_row,
    link_change_from_row,
    record_from_row,
    report_from_json,
    report_to_json,
    task_from_row,
)
from mcp_memory.stores.records_sqlite.statements import statement
from mcp_memory.stores.records_sqlite.transaction import (
    UNEMBEDDED,
    UNPURGED,
    SqliteTransaction,
    refuse_other_dimensions,
)

CONTEXTS_KEPT_SECONDS = 14 * 86_400
CONTEXT_PATIENCE_SECONDS = 2.0
"""An account is worth a short wait, never a late context."""
PURGE_PATIENCE_SECONDS = 10.0
IDENTITY = "identity"
"""Name in `meta` of what tells this store from others; made when it is first asked for."""
_ORDERS: Mapping[RecordOrder, str] = {
    "created": "r.row DESC",
    "occurred": "r.occurred_at DESC, r.row DESC",
    "accessed": "r.accessed_at DESC, r.row DESC",
    "important": "r.importance DESC, r.occurred_at DESC, r.row DESC",
}
_log = logging.getLogger(__name__)


class SqliteRecordStore:
    """Implements `RecordStore`; see the port for what each method promises."""

    def __init__(self, folder: Path, embedder: str, clock: Clock = time.time) -> None:
        """Open or create the store. Raises StoreUnavailable with the remedy where that cannot be done."""
        self._database = Database(folder)
        self._embedder = embedder
        self._clock = clock
        self._untold: dict[str, Instant] = {}
        self._untold_lock = threading.Lock()

    @contextmanager
    def write(self) -> Generator[SqliteTransaction]:
        with self._database.write() as connection:
            transaction = SqliteTransaction(connection, self._embedder, self._clock)
            yield transaction
            transaction.finish()

    def revision(self) -> int:
        return self._one("SELECT value FROM sequence")[0]

    def get(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Record]:
        parameters = {"ids": json.dumps(list(record_ids)), "scopes": json.dumps(list(scopes))}
        found = {row["id"]: record_from_row(row) for row in self._all(statement("get_records"), parameters)}
        return {record_id: found[record_id] for record_id in record_ids if record_id in found}

    def find_texts(self, texts: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        return {(row[0], row[1]) for row in self._all(statement("find_texts"), {"pairs": json.dumps(list(texts))})}

    def matching_ids(self, where: RecordFilter) -> frozenset[str]:
        clause, parameters = where_clause(where)
        rows = self._all(statement("matching_ids").replace("{where}", clause), parameters)
        return frozenset(row[0] for row in rows)

    def count(self, where: RecordFilter) -> int:
        clause, parameters = where_clause(where)
        return self._all(statement("count_matching").replace("{where}", clause), parameters)[0][0]

    def ids_in_branches(self, branches: Collection[str]) -> frozenset[str]:
        return frozenset(row[0] for row in self._all(statement("ids_in_branches"), (json.dumps(list(branches)),)))

    def list(self, where: RecordFilter, order: RecordOrder, limit: int, offset: int = 0) -> Sequence[Record]:
        clause, parameters = where_clause(where)
        sql = statement("list_records").replace("{where}", clause).replace("{order}", _ORDERS[order])
        return [record_from_row(row) for row in self._all(sql, {**parameters, "limit": limit, "offset": offset})]

    def list_ids(self, where: RecordFilter, order: RecordOrder, limit: int) -> Sequence[str]:
        clause, parameters = where_clause(where)
        sql = statement("list_ids").replace("{where}", clause).replace("{order}", _ORDERS[order])
        return [row[0] for row in self._all(sql, {**parameters, "limit": limit})]

    def outlines(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Outline]:
        parameters = {"ids": json.dumps(list(record_ids)), "scopes": json.dumps(list(scopes))}
        rows = self._all(statement("outlines"), parameters)
        return {row[0]: Outline(role=row[1], superseded_by=row[2]) for row in rows}

    def successors(self, record_ids: Collection[str]) -> Mapping[str, str]:
        rows = self._all(statement("successors"), (json.dumps(list(record_ids)),))
        return {row["start"]: row["id"] for row in rows}  # Rows come by step, so the last one of a chain stays.

    def links(self, record_id: str) -> tuple[Sequence[Entity], Sequence[Relation]]:
        mentioned = self._all(statement("entities_of"), (record_id,))
        related = self._all(statement("relations_of"), (record_id,))
        entities = [
            Entity(name=row[0], type=row[1], properties=json.loads(row[2]), found=bool(row[3])) for row in mentioned
        ]
        return entities, [Relation(source=row[0], type=row[1], target=row[2], weight=row[3]) for row in related]

    def old_texts(self, record_id: str) -> Sequence[tuple[Instant, str]]:
        return [(row["replaced_at"], row["text"]) for row in self._all(statement("old_texts"), (record_id,))]

    def vector_changes(self, since: int, embedder: str) -> Iterator[VectorChange]:
        import numpy as np  # Only what searches vectors pays for importing it.

        with self._database.read() as connection:
            rows = connection.execute(statement("vector_changes"), {"since": since, "embedder": embedder})
            with closing(rows):  # A cursor left half-read would hold its snapshot open.
                for row in rows:
                    blob = row["vector"]
                    vectors = None if blob is None else np.frombuffer(blob, np.float32).reshape(row["windows"], -1)
                    yield VectorChange(
                        change=row["change"],
                        id=row["id"],
                        scope=row["scope"],
                        is_live=bool(row["is_live"]),
                        vectors=vectors,
                    )

    def term_changes(self, since: int) -> Iterator[TermChange]:
        with (
            self._database.read() as connection,
            closing(connection.execute(statement("term_changes"), (since,))) as rows,
        ):
            for change, record_id, scope, is_live, terms, session in rows:
                yield TermChange(
                    change=change, id=record_id, scope=scope, is_live=bool(is_live), terms=terms, session=session
                )

    def filter_changes(self, since: int) -> Iterator[FilterChange]:
        with (
            self._database.read() as connection,
            closing(connection.execute(statement("filter_changes"), (since,))) as rows,
        ):
            for row in rows:
                yield filter_change_from_row(row)

    def link_changes(self, since: int) -> Iterator[LinkChange]:
        with (
            self._database.read() as connection,
            closing(connection.execute(statement("link_changes"), {"since": since})) as rows,
        ):
            for row in rows:
                yield link_change_from_row(row)

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
        """Tries once without waiting; what could not be told now is told with the next touch."""
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

    def keep_context(self, report: ContextReport, caller: Caller, at: Instant) -> None:
        row = (caller.namespace, caller.agent, report.id, at, report_to_json(report))
        try:
            with self._database.write(patience=CONTEXT_PATIENCE_SECONDS, durable=False) as connection:
                connection.execute(statement("put_context"), row)
                connection.execute(statement("prune_contexts"), (at - CONTEXTS_KEPT_SECONDS,))
        except StoreUnavailable as error:
            _log.warning("could not keep context %s: %s", report.id, type(error).__name__)

    def context(self, context_id: str, caller: Caller) -> ContextReport | None:
        rows = self._all(statement("get_context"), (caller.namespace, caller.agent, context_id))
        return report_from_json(rows[0]["report"]) if rows else None

    def summarize(self, caller: Caller, hidden_branches: frozenset[str]) -> StoreSummary:
        where = RecordFilter(scopes=caller.scopes, hidden_branches=hidden_branches, include_inactive=True)
        clause, parameters = where_clause(where)

        def count(name: str) -> Sequence[sqlite3.Row]:
            return self._all(statement(name).replace("{where}", clause), parameters)

        return StoreSummary(
            path=str(self._database.path),
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

    def embedder_id(self) -> str | None:
        rows = self._all(statement("get_meta"), ("embedder",))
        return rows[0]["value"] if rows else None

    def purge(self) -> None:
        """Rewrites the file and empties its log.

        secure_delete zeroes the rows themselves, but not the copies that SQLite leaves in the slack of a page when it
        moves rows between pages; nor does it reach the log.
        """
        pending = self._all(statement("get_meta"), (UNPURGED,))
        if not pending:
            return
        deadline = time.monotonic() + PURGE_PATIENCE_SECONDS
        with self._database.outside_transaction() as connection:
            _retry(lambda: _vacuum(connection), deadline)
            _retry(lambda: not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0], deadline)
        with self._database.write() as connection:
            connection.execute(statement("drop_meta"), (UNPURGED, pending[0]["value"]))

    def backup(self, target: str) -> None:
        path = Path(target)
        if path.exists():
            raise StoreUnavailable(f"{path} exists already; name a new file.")
        with translated_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            try:
                with self._database.read() as connection:
                    # One snapshot, without the slack that may still hold what was erased.
                    connection.execute("PRAGMA query_only = OFF")
                    try:
                        connection.execute("VACUUM INTO ?", (str(path),))
                    finally:
                        connection.execute("PRAGMA query_only = ON")
                with path.open("rb+") as copy:
                    os.fsync(copy.fileno())
            except BaseException:
                path.unlink()
                raise

    def unembedded(self, embedder: str, limit: int) -> Sequence[tuple[str, int, str]]:
        rows = self._all(statement("unembedded"), {"embedder": embedder, "limit": limit})
        return [(row["id"], row["change"], record_from_row(tuple(row)[1:]).searchable_text) for row in rows]

    def count_unembedded(self) -> int:
        if not self._all(statement("get_meta"), (UNEMBEDDED,)):
            return 0  # Counting reads every record: only where one is known to lack its vectors.
        return self._one(statement("count_lacking"), (self.embedder_id() or self._embedder,))[0]

    def add_vectors(self, embedder: str, vectors: Mapping[tuple[str, int], Vectors | None]) -> None:
        with self._database.write() as connection:
            added = [key[0] for key, rows in vectors.items() if _add_vectors(connection, embedder, key, rows)]
            stored = connection.execute(statement("get_meta"), ("embedder",)).fetchone()
            if stored is not None and stored["value"] != embedder:
                return  # Of the next embedder: nothing is told before it is adopted.
            if added:  # Refusals alone do not make the store anybody's.
                connection.execute(statement("put_meta"), ("embedder", embedder))
                _advance(connection, added)
            if not connection.execute(statement("lacking"), (embedder,)).fetchone()[0]:
                connection.execute("DELETE FROM meta WHERE name = ?", (UNEMBEDDED,))

    def count_refused(self, embedder: str) -> int:
        return self._one(statement("count_refused"), (embedder,))[0]

    def forget_refusals(self, embedder: str) -> None:
        with self._database.write() as connection:
            if connection.execute(statement("forget_refusals"), (embedder,)).rowcount:
                change: int = connection.execute("SELECT value FROM sequence").fetchone()[0]
                connection.execute(statement("put_meta"), (UNEMBEDDED, str(change)))

    def adopt_embedder(self, embedder: str) -> bool:
        with self._database.write() as connection:
            if connection.execute(statement("lacking"), (embedder,)).fetchone()[0]:
                return False
            change = connection.execute("SELECT value FROM sequence").fetchone()[0] + 1
            connection.execute(statement("put_meta"), ("embedder", embedder))
            connection.execute("DELETE FROM meta WHERE name = ?", (UNEMBEDDED,))
            connection.execute(statement("drop_other_vectors"), (embedder,))
            connection.execute(statement("touch_all_changes"), (change,))
            connection.execute("UPDATE sequence SET value = ?", (change,))
        return True

    def defects(self) -> Sequence[str]:
        with self._database.read() as connection:
            return examining.defects(connection)

    def stale_terms(self) -> Sequence[str]:
        with self._database.read() as connection:
            return examining.stale_terms(connection)

    def renew_terms(self, record_ids: Sequence[str]) -> None:
        with self._database.write() as connection:
            examining.renew_terms(connection, record_ids)
            _advance(connection, record_ids)

    def close(self) -> None:
        self._database.close()

    def _all(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[sqlite3.Row]:
        with self._database.read() as connection:
            return connection.execute(sql, parameters).fetchall()

    def _one(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Row:
        return self._all(sql, parameters)[0]


def _retry(attempt: Callable[[], bool], deadline: float) -> None:
    """Attempt until it succeeds. Raises StoreBusy at the deadline."""
    while not attempt():
        if time.monotonic() > deadline:
            raise StoreBusy("Erased, but other processes kept the files in use; call forget again to purge them.")
        time.sleep(0.01)


def _add_vectors(connection: sqlite3.Connection, embedder: str, key: tuple[str, int], rows: Vectors | None) -> bool:
    """True where vectors were added; False where there are none, or the record has changed or is gone."""
    columns = {"embedder": embedder, "windows": 0, "vector": b"", "id": key[0], "change": key[1]}
    if rows is not None:
        refuse_other_dimensions(connection, embedder, rows)
        columns |= {"windows": len(rows), "vector": rows.tobytes()}
    return connection.execute(statement("put_vectors_if_unchanged"), columns).rowcount > 0 and rows is not None


def _advance(connection: sqlite3.Connection, record_ids: Sequence[str]) -> None:
    """Give each of the records the next change number, so that every index reads it again."""
    change: int = connection.execute("SELECT value FROM sequence").fetchone()[0]
    for record_id in record_ids:
        change += 1
        connection.execute(statement("touch_change"), (change, record_id))
    connection.execute("UPDATE sequence SET value = ?", (change,))


def _vacuum(connection: sqlite3.Connection) -> bool:
    """True when done; False where another process is writing."""
    try:
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if (error.sqlite_errorcode & 0xFF) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        return False
    return True
