"""The truth in a database: implements `RecordStore`, but for what each engine does in its own way."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from mcp_memory.domain.memory.erased_text import ErasedMarks
from mcp_memory.domain.model.contexts import Exclusion
from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import ChangedGround, Entity, Instant, Kind, Outcome, Record, Relation, Status
from mcp_memory.domain.model.scopes import Caller, RecordFilter, RepeatableCall, partition_of, scope_key, session_key
from mcp_memory.domain.model.tasks import Task, TaskChange
from mcp_memory.domain.model.versions import Version
from mcp_memory.ports.changes import Columns, IndexPart, Place, RecordChange, TaskLink
from mcp_memory.ports.files import FileStore
from mcp_memory.ports.records import (
    ArrivedRecord,
    Footing,
    Mention,
    RecordOrder,
    StatedRelation,
    StoreFacts,
    StoreSummary,
)
from mcp_memory.ports.text import Clock
from mcp_memory.ports.transaction import TaskExtent
from mcp_memory.stores.records.access import SqlFolders, SqlQuotas, SqlReads, SqlTokens
from mcp_memory.stores.records.database import (
    NO_PARTITION,
    WRITE_PATIENCE_SECONDS,
    Database,
    DatabaseSnapshot,
    Row,
    meta,
)
from mcp_memory.stores.records.embedding_queue import SqlEmbeddingQueue
from mcp_memory.stores.records.erasures import erased_marks
from mcp_memory.stores.records.projects import SqlProjects
from mcp_memory.stores.records.reviews import SqlReviews
from mcp_memory.stores.records.rows import (
    PARTITION,
    change_from_row,
    record_from_row,
    task_change_from_row,
    task_from_row,
    version_from_row,
)
from mcp_memory.stores.records.session_logs import SqlSessionLogs
from mcp_memory.stores.records.sql_files import ENTERED
from mcp_memory.stores.records.telemetry import SqlTelemetry
from mcp_memory.stores.records.transaction import SqlTransaction, versions_by_record, versions_of_write
from mcp_memory.stores.records.upkeep import SqlUpkeep
from mcp_memory.stores.records.where_clause import where_clauses
from mcp_memory.stores.records.write_checks import WriteChecks, refuse_done

if TYPE_CHECKING:
    from mcp_memory.stores.records.leases import SqlLeases
    from mcp_memory.stores.records.pushed_vectors import PushedVectors
    from mcp_memory.stores.records.shown import SqlShown
    from mcp_memory.stores.records.transfer import SqlTransfer

DECISIONS_JUDGED = 1000
LATEST_ROWS = 2_000
"""Rows at the end of the table, among which the latest records are looked for first: a quarter of a millisecond."""
LOOK_BACK = 500
"""Records of a scope, those that happened last, among which the latest sessions are found."""
FOOTING_LOOKED_AT = 1_000
"""Grounds or dependents of one record that are looked at to show some of them."""
STEPS, PATHS, CHECKS_SHOWN = 5, 2_000, 3
"""The steps that a change reaches, from dependent to dependent; the paths that one reading follows; grounds named."""
IDENTITY = "identity"
"""Name in `meta` of the id that tells this store from others; made on first use."""
ROWS_AT_ONCE = 5_000
"""Rows that an index reads at once, 10 MB with their vectors."""
_CHANGED_SINCE = {
    "changed": "WHERE r.change > :since ORDER BY r.change",
    "of_changed": "WHERE record_id IN (SELECT id FROM records WHERE change > :since)",
    "of_scopes": "",
}
_CHANGED_IN = f"WHERE {PARTITION} = :partition AND r.change > :since"
_LINKED: frozenset[IndexPart] = frozenset({"vectors", "mentions", "aliases", "relations", "scopes"})
"""Parts that are found by their records: all of one, read in its own order, takes half the time."""
_FOLLOWED: Sequence[IndexPart] = (
    "vectors", "terms", "columns", "places", "mentions", "aliases", "relations", "erasures",
)  # fmt: skip
"""The parts that are read of what changed."""
_OF_PARTITION = {
    "changed": f"{_CHANGED_IN} ORDER BY r.change",
    "of_changed": f"WHERE record_id IN (SELECT r.id FROM records AS r {_CHANGED_IN})",  # noqa: S608
    "of_scopes": f"WHERE {PARTITION} = :partition",
}
_OF_LATEST = " AND r.row > (SELECT max(row) FROM records) - :latest"
_EXCLUSION = tuple(field.name for field in fields(Exclusion))
_ORDERS: Mapping[str, Sequence[str]] = {
    "created": ("row",),
    "occurred": ("occurred_at", "row"),
    "accessed": ("accessed_at", "row"),
    "updated": ("updated_at", "row"),
    "important": ("importance", "occurred_at", "row"),
}
"""The orders by their columns, all of them descending."""


class SqlRecordStore(SqlTelemetry, SqlEmbeddingQueue, SqlUpkeep):
    """Implements `RecordStore` but for what is the engine's own (`SqlUpkeep`); the port documents each method."""

    def __init__(self, database: Database, embedder: str, clock: Clock = time.time) -> None:
        super().__init__()
        self._database = database
        self._embedder = embedder
        self._clock = clock

    @contextmanager
    def write(
        self,
        by: Caller | None = None,
        reason: str = "",
        *,
        patiently: bool = True,
        alone: bool = False,
        partition: str | None = None,
    ) -> Generator[SqlTransaction]:
        patience = WRITE_PATIENCE_SECONDS if patiently else 0
        if by:
            partition = None if alone else self._partition_of(by)
        checks = WriteChecks(by)
        with self._database.write(patience, partition=partition, foreseen=checks.queries()) as connection:
            checks.before(connection)
            transaction = SqlTransaction(connection, self._embedder, self._clock, by, reason)
            yield transaction
            transaction.finish()
            checks.after(connection, transaction.grown, transaction.made, self._clock())
        if by and by.call:
            by.call.is_noted = True

    def _partition_of(self, caller: Caller) -> str | None:
        """Return the partition that a caller's write locks at its beginning; None for all of them."""
        return partition_of(caller.scope("shared"))

    def refuse_done(self, call: RepeatableCall) -> None:
        with self._database.read() as connection:
            refuse_done(connection, call)

    def pin(self, partitions: Collection[str] = ()) -> DatabaseSnapshot:
        return self._database.pin(*([("revisions", _named(partitions))] if partitions else []))

    def ahead(self, *reads: Callable[[], object]) -> bool:
        return self._database.read_ahead(reads)

    def snapshot(self) -> AbstractContextManager[int]:
        return self._database.snapshot()

    def revision(self) -> int:
        pinned = self._database.pinned()
        return pinned.revision if pinned else self._database.rows("newest_change")[0][0]

    def progress(self) -> int:
        return self._rows("progress")[0][0]

    def get(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Record]:
        pinned = self._database.pinned()
        # A request reads its best records several times: their texts, their threads, and what is shown.
        known: dict[str, Record | None] = pinned.read.setdefault(tuple(scopes), {}) if pinned else {}
        if unread := [record_id for record_id in record_ids if record_id not in known]:
            asked = {"ids": json.dumps(unread), "scopes": json.dumps(list(scopes))}
            self.ahead(lambda: self._rows("get_records", asked), lambda: self._changed_grounds(asked))
            rows = self._rows("get_records", asked)
            read = {record.id: record for record in self._checked(map(record_from_row, rows), asked)}
            known.update({record_id: read.get(record_id) for record_id in unread})  # At once: requests may share them.
        return {record_id: found for record_id in record_ids if (found := known[record_id])}

    def kept_files(self, namespace: str | None = None) -> Mapping[str, str]:
        return {row["digest"]: row["id"] for row in self._rows("kept_files", {"namespace": namespace})}

    def matching_ids(self, where: RecordFilter) -> frozenset[str]:
        return frozenset(row[0] for row in self._database.matching("matching_ids", where))

    def also_told_in(self, session_id: str) -> frozenset[str]:
        return frozenset(row["id"] for row in self._rows("also_told_in", (session_id,)))

    def count(self, where: RecordFilter) -> int:
        return self._database.matching("count_matching", where)[0][0]

    def count_all(self, partition: str = "") -> int:
        return self._rows("count_all", {"partition": partition})[0][0]

    def stored_by(self, where: RecordFilter, at: Instant, *, changed: bool) -> frozenset[str]:
        given = {"at": at, "changed": changed, "whatever_status": where.include_inactive}
        return frozenset(row[0] for row in self._database.matching("stored_by", where, **given))

    def ids_in_branches(self, branches: Collection[str]) -> frozenset[str]:
        return frozenset(row[0] for row in self._rows("ids_in_branches", (json.dumps(list(branches)),)))

    def list(self, where: RecordFilter, order: RecordOrder, limit: int, offset: int = 0) -> Sequence[Record]:
        # The ids first: sorting whole rows would read every text of the scopes.
        found = self.list_ids(where, order, limit + offset)[offset:]
        records = self.get(found, where.scopes) if found else dict[str, Record]()
        return [records[record_id] for record_id in found if record_id in records]

    def list_ids(self, where: RecordFilter, order: RecordOrder, limit: int) -> Sequence[str]:
        # Scope by scope, and kind by kind, so that each is read in the order of an index and none is sorted as a whole.
        # What a narrow filter finds is sorted anyway: each part would look for the lines of its session anew.
        is_narrow = bool(where.pinned or where.session_id or where.task_id)
        parts = [where] if is_narrow else [replace(where, scopes=(scope,)) for scope in dict.fromkeys(where.scopes)]
        if order in ("occurred", "important") and not is_narrow:
            parts = [replace(part, kinds=frozenset({kind})) for part in parts for kind in sorted(where.kinds)] or parts
        is_far = self.ahead(*(partial(self._first_ids, part, order, limit, is_narrow) for part in parts))
        if order == "created" and not is_narrow and not is_far:
            # No index of SQLite has the rows of some kinds in order: it would sort all of the scope.
            latest = self._first_ids(where, order, limit, is_narrow, of_latest=True)
            if len(latest) == limit:
                return [row["id"] for row in latest]
        found = [row for part in parts for row in self._first_ids(part, order, limit, is_narrow)]
        found.sort(key=itemgetter(*_ORDERS[order]), reverse=True)
        return [row["id"] for row in found[:limit]]

    def arrivals(self, where: RecordFilter, limit: int, offset: int = 0) -> Sequence[ArrivedRecord]:
        found = self.list_ids(where, "created", limit + offset)[offset:]
        rows = self._rows("arrivals", {"ids": json.dumps(found), "scopes": json.dumps(list(where.scopes))})
        arrived = {row["id"]: ArrivedRecord(**dict(row)) for row in rows}
        return [arrived[record_id] for record_id in found if record_id in arrived]

    def recent_sessions(self, where: RecordFilter, limit: int) -> Sequence[str]:
        rows = self._database.matching("recent_sessions", where, look_back=LOOK_BACK)
        return list(dict.fromkeys(row[0] for row in rows))[:limit]

    def best_of_sessions(self, where: RecordFilter, sessions: Sequence[str], each: int) -> Sequence[str]:
        rows = self._database.matching("best_of_sessions", where, sessions=json.dumps(sessions), each=each)
        summarized = {row["session_id"] for row in rows if row["kind"] == "summary"}
        return [
            row["id"]
            for row in rows
            if row["session_id"] not in summarized or (row["kind"] == "summary" and row["place"] == 1)
        ]

    def excluded(self, namespace: str, task_ids: Collection[str], agent: str) -> frozenset[str]:
        asked = {"namespace": namespace, "task_ids": json.dumps(list(task_ids)), "agent": agent}
        return frozenset(row["record_id"] for row in self._rows("excluded", asked))

    def erased(self, scopes: Iterable[str]) -> ErasedMarks:
        with self._database.read() as connection:
            return erased_marks(connection, scopes)

    def saying(self, word: str, scopes: Iterable[str], limit: int) -> Sequence[str]:
        asked = {"word": word, "scopes": json.dumps([*scopes]), "limit": limit}
        return [row["id"] for row in self._rows("saying", asked)]

    def exclusions(self, record_id: str, namespace: str) -> Sequence[Exclusion]:
        rows = self._rows("exclusions_of", {"id": record_id, "namespace": namespace})
        return [Exclusion(**{name: row[name] for name in _EXCLUSION}) for row in rows]

    def successors(self, record_ids: Collection[str]) -> Mapping[str, str]:
        rows = self._rows("successors", (json.dumps(list(record_ids)),)) if record_ids else ()
        return {row["start"]: row["id"] for row in rows}  # Rows come by step, so the last one of a chain stays.

    def predecessors(self, record_ids: Collection[str], where: RecordFilter) -> Mapping[str, Record]:
        if not record_ids:
            return {}
        rows = self._database.matching("predecessors", where, ids=json.dumps(list(record_ids)))
        return {str(old.superseded_by): old for old in map(record_from_row, rows)}  # The newest comes last.

    def tasks_without_result(self, namespace: str) -> Sequence[Task]:
        asked = {"namespace": namespace, "scope": scope_key("shared", namespace, "")}
        return [task_from_row(row) for row in self._rows("tasks_without_result", asked)]

    def expired(self, until: Instant) -> Iterator[Record]:
        return map(record_from_row, self._stream("expired", (until,)))

    def to_maintain(self, kind: Kind, statuses: Collection[Status], until: Instant) -> Iterator[Record]:
        with self._database.read() as connection:
            number, row, at = (meta(connection, ENTERED) or "0 0 0").split()
        asked = {"kind": kind, "statuses": json.dumps(list(statuses)), "until": until}
        rows = self._stream("to_maintain", {**asked, "entered_row": int(row), "entered_at": float(at)})
        for record in map(record_from_row, rows):
            is_of_import = number_of(record.id) <= int(number)
            yield replace(record, accessed_at=max(record.accessed_at, float(at))) if is_of_import else record

    def changes(self, since: int, embedder: str = "") -> Iterator[RecordChange]:
        return map(change_from_row, self._stream("changes", {"since": since, "embedder": embedder}))

    def index_rows(self, part: IndexPart, since: int, embedder: str = "", partition: str = "") -> Iterator[Columns]:
        if partition and not since and part in _LINKED and self._is_most(partition):
            partition = ""
        name, asked = f"index_{part}", {"since": since, "embedder": embedder, "partition": partition}
        parts = _OF_PARTITION if partition else {each: said if since else "" for each, said in _CHANGED_SINCE.items()}
        if part == "vectors" and not since:
            name = "index_partition_vectors" if partition else "index_all_vectors"
        elif part == "erasures" and partition:
            name = "index_partition_erasures"
        return self._database.columns(name, asked, ROWS_AT_ONCE, **parts)

    def changes_ahead(self, since: Place, partition: str, *, rows: bool) -> None:
        def read(part: IndexPart) -> object:
            return [*self.index_rows(part, since.revision, self._embedder if part == "vectors" else "", partition)]

        asked: list[Callable[[], object]] = [
            lambda: self.has_write(since.last_write), lambda: self.count_changed(since.revision, partition),
        ]  # fmt: skip
        if rows:
            asked += [self.embedder_id, lambda: self.task_links(since.revision, partition)]
            asked += [partial(read, part) for part in _FOLLOWED]
        self._database.read_ahead(asked, beyond=True)

    def settled(self) -> int:
        return self._database.settled()

    def _is_most(self, partition: str) -> bool:
        """Return True where reading all of the memory is quicker than reading a partition by its index."""
        return bool(self._rows("is_most", {"partition": partition}))

    def has_write(self, mark: str) -> bool:
        return True  # A file has one history.

    def revisions(self, partitions: Collection[str]) -> Mapping[str, Place]:
        pinned = self._database.pinned()
        known: dict[str, Place | None] = pinned.places if pinned else {}
        if unread := [name for name in partitions if name not in known]:
            rows = self._rows("revisions", _named(unread))
            read = {row["name"]: Place(row["newest"], row["last_write"]) for row in rows}
            known.update({name: read.get(name) for name in unread})  # At once: requests may share them.
        return {name: place for name in partitions if (place := known[name])}

    def count_changed(self, since: int, partition: str = "") -> int:
        name = "count_changed_in" if partition else "count_changed"
        return self._rows(name, {"since": since, "partition": partition})[0][0]

    def find_texts(self, texts: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        rows = self._rows("find_texts", {"pairs": json.dumps(list(texts))})
        return {(scope, digest) for scope, digest in rows}

    def versions(self, record_ids: Collection[str]) -> Mapping[str, Sequence[Version]]:
        return versions_by_record(self._rows("versions", (json.dumps(list(record_ids)),)))

    def latest_versions(self, record_id: str, limit: int, before: int | None = None) -> Sequence[Version]:
        asked = {"id": record_id, "limit": limit, "before": sys.maxsize if before is None else before}
        return [version_from_row(row) for row in self._rows("latest_versions", asked)]

    def latest_writes(self, where: RecordFilter, limit: int, by: Caller | None = None) -> Sequence[int]:
        whose = {"agent": by.agent, "client": by.client} if by else {"agent": "", "client": ""}
        rows = self._database.matching("latest_writes", where, of_all=int(by is None), limit=limit, **whose)
        return [row["write"] for row in rows]

    def written(self, write: int) -> Mapping[str, Sequence[Version]]:
        with self._database.read() as connection:
            return versions_of_write(connection, write)

    def links(self, record_id: str) -> tuple[Sequence[Entity], Sequence[Relation]]:
        self.ahead(lambda: self._rows("entities_of", (record_id,)), lambda: self._rows("relations_of", (record_id,)))
        mentioned = self._rows("entities_of", (record_id,))
        related = self._rows("relations_of", (record_id,))
        return [_entity(*row) for row in mentioned], [_relation(*row) for row in related]

    def mentions(self, keys: Collection[str], where: RecordFilter, found_by: Collection[str] = ()) -> Sequence[Mention]:
        named = {"keys": json.dumps(list(keys)), "found_by": json.dumps(list(found_by))}
        rows = self._database.matching("mentions_of", where, **named)
        return [Mention(key=key, entity=_entity(*entity), record_id=said_by) for key, *entity, said_by in rows]

    def statements(self, keys: Collection[str], where: RecordFilter, limit: int) -> Sequence[StatedRelation]:
        rows = self._database.matching("statements_about", where, keys=json.dumps(list(keys)), limit=limit)
        return [StatedRelation(relation=_relation(*relation), record_id=said_by) for *relation, said_by in rows]

    def grounds(self, record_id: str, where: RecordFilter, namespace: str, limit: int) -> tuple[Sequence[Footing], int]:
        asked = {"id": record_id, "namespace": namespace, "limit": limit, "looked_at": FOOTING_LOOKED_AT}
        return _footing(self._database.matching("grounds_shown", where, **asked))

    def dependents(self, record_id: str, where: RecordFilter, limit: int) -> tuple[Sequence[Footing], int]:
        asked = {"id": record_id, "limit": limit, "looked_at": FOOTING_LOOKED_AT}
        return _footing(self._database.matching("dependents_shown", where, **asked))

    def judged_confidences(self, where: RecordFilter) -> Sequence[tuple[float, Outcome]]:
        rows = self._database.matching("judged_confidences", where, limit=DECISIONS_JUDGED)
        return [(confidence, outcome) for confidence, outcome in rows]

    def task_links(self, since: int, partition: str = "") -> Sequence[TaskLink]:
        rows = self._rows("task_links_of" if partition else "task_links", {"since": since, "partition": partition})
        return [TaskLink(id=row[0], scope=scope_key("shared", row[1], ""), parent_id=row[2]) for row in rows]

    def partitions(self, least: int) -> Sequence[str]:
        return [row[0] for row in self._rows("large_partitions", (least,))]

    def newest_erasure(self) -> int:
        return self._rows("newest_erasure")[0][0]

    def tasks(self, namespace: str) -> Sequence[Task]:
        return [task_from_row(row) for row in self._rows("list_tasks", (namespace,))]

    def tasks_near(self, namespace: str, task_ids: Collection[str], extent: TaskExtent = "above") -> Sequence[Task]:
        asked = {"namespace": namespace, "ids": json.dumps(sorted(task_ids))}
        return [task_from_row(row) for row in self._rows(f"tasks_{extent}", asked)]

    def tree_at(self, caller: Caller) -> Sequence[Task]:
        asked = {"namespace": caller.namespace, "agent": caller.agent, "place": caller.place}
        return [task_from_row(row) for row in self._rows("tree_at", asked)]

    def open_branches(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._rows("open_branches"))

    def places(self, caller: Caller) -> Mapping[str, str]:
        rows = self._rows("list_places", (caller.namespace, caller.agent))
        return {row["session_id"]: row["task_id"] for row in rows}

    def last_moves(self, caller: Caller) -> Mapping[str, Instant]:
        return {row["session_id"]: row["at"] for row in self._rows("last_moves", (caller.namespace, caller.agent))}

    def news(self, caller: Caller) -> Sequence[TaskChange]:
        rows = self._rows("task_news", (caller.namespace, caller.agent, caller.place))
        return [task_change_from_row(row) for row in rows]

    def task_changes(self, namespace: str, task_ids: Collection[str], limit: int) -> Sequence[TaskChange]:
        rows = self._rows("task_changes", (namespace, json.dumps(list(task_ids)), limit))
        return [task_change_from_row(row) for row in rows]

    def facts(self, caller: Caller, hidden_branches: frozenset[str]) -> StoreFacts:
        return StoreFacts(**self._facts(caller, _all_seen(caller, hidden_branches)))

    def summarize(self, caller: Caller, hidden_branches: frozenset[str]) -> StoreSummary:
        where = _all_seen(caller, hidden_branches)
        return StoreSummary(
            **self._facts(caller, where),
            records=dict(self._database.matching("count_kinds", replace(where, include_inactive=False))),
            statuses=dict(self._database.matching("count_statuses", where)),
            promoted=self._database.matching("count_promoted", where)[0][0],
        )

    def _facts(self, caller: Caller, where: RecordFilter) -> dict[str, Any]:
        return {
            "path": self._database.location,
            "engine": self.engine(),
            "schema_version": self._database.schema_version,
            "revision": self.revision(),
            "embedder": self.embedder_id() or "",
            "sessions": self._database.matching("count_sessions", where)[0][0],
            "tasks": dict(self._rows("count_tasks", (caller.namespace,))),
            "file_bytes": self._database.size(),
        }

    def shared_namespaces(self) -> Sequence[str]:
        return [row[0] for row in self._rows("shared_namespaces")]

    def identity(self) -> str:
        rows = self._rows("get_meta", (IDENTITY,))
        if not rows and not self._database.pinned():
            with self._database.write(partition=NO_PARTITION) as connection:
                connection.run("add_meta", (IDENTITY, secrets.token_hex(8)))
            rows = self._rows("get_meta", (IDENTITY,))
        return rows[0]["value"] if rows else ""

    def files(self) -> FileStore | None:
        """Return the files in the same database; None where they are in a folder beside it."""
        return None

    def shown(self) -> SqlShown | None:
        """Return what clients were shown, in the same database; None where the one owner keeps that in memory."""
        return None

    def leases(self) -> SqlLeases | None:
        """Return what one server at a time does, in the same database; None for a file, which has one owner."""
        return None

    def pushed_vectors(self) -> PushedVectors | None:
        """Return the vectors of large scopes, in the same database; None where it has no pgvector."""
        return None

    def session_logs(self) -> SqlSessionLogs:
        """Return the logs of sessions in the same database."""
        return SqlSessionLogs(self._database)

    def reviews(self) -> SqlReviews:
        """Return the queue of groups to review in the same database."""
        return SqlReviews(self._database)

    def tokens(self) -> SqlTokens:
        """Return the tokens in the same database."""
        return SqlTokens(self._database)

    def folders(self) -> SqlFolders:
        """Return the folders that may use a namespace, in the same database."""
        return SqlFolders(self._database)

    def projects(self) -> SqlProjects:
        """Return where projects are and what they were called, in the same database."""
        return SqlProjects(self._database)

    def quotas(self) -> SqlQuotas:
        """Return the quotas in the same database."""
        return SqlQuotas(self._database)

    def reads(self) -> SqlReads:
        """Return the log of reads in the same database."""
        return SqlReads(self._database)

    def transfer(self) -> SqlTransfer:
        from mcp_memory.stores.records.transfer import SqlTransfer  # No server exports or imports by itself.

        return SqlTransfer(self._database, self._clock)

    def close(self) -> None:
        self._database.close()

    def _rows(self, name: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> Sequence[Any]:
        return self._database.rows(name, parameters)

    def _first_ids(
        self, where: RecordFilter, order: RecordOrder, limit: int, is_narrow: bool, *, of_latest: bool = False
    ) -> Sequence[Any]:
        # Few rows are found by what narrows most, and sorted ("+r.row" is in no index). SQLite would read all in order.
        columns = ", ".join(f"{'+' * is_narrow}r.{column} DESC" for column in _ORDERS[order])
        index = "INDEXED BY records_by_pin" if where.pinned else ""
        if not index and where.only is None and (where.task_id or where.session_id):
            # SQLite would read all of one kind.
            # The rows of a session are named, those that its log shares among them.
            index = "INDEXED BY records_by_task" if where.task_id else "NOT INDEXED"
        elif order == "important" and len(where.kinds) == 1 and not is_narrow:
            index = "INDEXED BY records_by_kind"
        parts, parameters = where_clauses(where)
        if of_latest:
            index, parameters = "NOT INDEXED", {**parameters, "latest": LATEST_ROWS}
            parts = {**parts, "where": parts["where"] + _OF_LATEST}
        return self._database.rows("list_ids", {**parameters, "limit": limit}, **parts, order=columns, index=index)

    def _checked(self, records: Iterable[Record], asked: Mapping[str, str]) -> Sequence[Record]:
        """Give each record that holds its changed grounds; nearly free where none has changed."""
        read = list(records)
        changed: dict[str, list[ChangedGround]] = {}
        found = self._changed_grounds(asked)
        hidden = json.dumps([row["ground"] for row in found if row["is_hidden"]])
        # What is erased is told, and what is another scope's is not.
        others = {row["id"] for row in self._rows("present", (hidden,))} if hidden != "[]" else frozenset[str]()
        for start, ground, at, _ in (row for row in found if row["ground"] not in others):
            changed.setdefault(start, []).append(ChangedGround(id=ground, at=at))
        if not changed:
            return read
        checks = {each.id: tuple(changed.get(each.id, ())[:CHECKS_SHOWN]) if each.holds else () for each in read}
        return [replace(each, check=checks[each.id]) for each in read]

    def _changed_grounds(self, asked: Mapping[str, str]) -> Sequence[Any]:
        return self._rows("changed_grounds", {**asked, "most_steps": STEPS, "most_paths": PATHS})

    def _stream(self, name: str, parameters: Sequence[object] | Mapping[str, object]) -> Iterator[Row]:
        with self._database.read() as connection:
            yield from connection.stream(name, parameters)


def _named(partitions: Collection[str]) -> Mapping[str, str]:
    return {"names": json.dumps(sorted(partitions))}


def _all_seen(caller: Caller, hidden_branches: frozenset[str]) -> RecordFilter:
    """Return the filter for all that the caller sees, retired ones too."""
    own = session_key(caller.agent, caller.session_id)
    return RecordFilter(scopes=caller.scopes, hidden_branches=hidden_branches, noted_in=own, include_inactive=True)


def _footing(rows: Sequence[Row]) -> tuple[Sequence[Footing], int]:
    shown = [Footing(id=row["id"], found=bool(row["found"]), changed=bool(row["changed"])) for row in rows]
    return shown, rows[0]["total"] if rows else 0


def _entity(name: str, kind: str, properties: str, found: int) -> Entity:
    return Entity(name=name, type=kind, properties=json.loads(properties), found=bool(found))


def _relation(source: str, kind: str, target: str, weight: float) -> Relation:
    return Relation(source=source, type=kind, target=target, weight=weight)
