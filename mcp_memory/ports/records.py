"""The truth: reads it, follows it and keeps it sound. Port `transaction` writes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from mcp_memory.domain.memory.erased_text import ErasedMarks
from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.records import Entity, Instant, Kind, Outcome, Record, Relation, Status
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.tasks import Task, TaskChange
from mcp_memory.domain.model.versions import Version
from mcp_memory.ports.changes import ChangeFeed
from mcp_memory.ports.indexes import Finding
from mcp_memory.ports.text import Vectors
from mcp_memory.ports.transaction import ExclusionReader, TaskReader, Transaction, VersionReader

if TYPE_CHECKING:
    from mcp_memory.domain.model.health_figures import Assembled, Tally
    from mcp_memory.ports.transfer import Transfer

RecordOrder = Literal["created", "occurred", "accessed", "updated", "important"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """Facts of the store, and counts of the sessions that stored what the caller may see, and of tasks by status."""

    path: str
    engine: str
    schema_version: int
    revision: int
    embedder: str
    sessions: int
    tasks: Mapping[str, int]
    file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSummary(StoreFacts):
    """The facts with counts of the records that the caller may see.

    `records` counts live records by kind; `statuses` counts those as well that were retired or proven wrong.
    `promoted` counts the records that began as noted.
    """

    records: Mapping[str, int]
    statuses: Mapping[str, int]
    promoted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedRecord:
    """A record that came in: by which agent and client, when, and what it says about its import, None for nothing."""

    id: str
    agent: str
    client: str
    created_at: Instant
    imported_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A record's statement about the entity with the key `key`."""

    key: str
    entity: Entity
    record_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRelation:
    """A relation, and the record that states it."""

    relation: Relation
    record_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Footing:
    """One end of a record's dependence: the id of a ground or a dependent.

    `found` is True where a rule found the dependence, `changed` where the ground changed since anybody vouched.
    """

    id: str
    found: bool
    changed: bool


class RecordReader(Protocol):
    """Reads records. Filters apply before ranking and limits."""

    def get(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Record]:
        """Return the records with these ids that exist in these scopes, whatever their status."""
        ...

    def list(self, where: RecordFilter, order: RecordOrder, limit: int, offset: int = 0) -> Sequence[Record]:
        """Return the records that pass, newest or highest first; ties by newest."""
        ...

    def list_ids(self, where: RecordFilter, order: RecordOrder, limit: int) -> Sequence[str]:
        """Like `list`, but returns ids alone."""
        ...

    def arrivals(self, where: RecordFilter, limit: int, offset: int = 0) -> Sequence[ArrivedRecord]:
        """Return who stored the records that pass, and when, the last one first."""
        ...

    def count(self, where: RecordFilter) -> int:
        """Count the records that pass the filter."""
        ...

    def count_all(self, partition: str = "") -> int:
        """Count all records, of every user; those of one partition where it is named, see `partition_of`."""
        ...

    def kept_files(self, namespace: str | None = None) -> Mapping[str, str]:
        """Map the digest of each file that a record of the namespace, or any, names to the id of one that does."""
        ...

    def matching_ids(self, where: RecordFilter) -> frozenset[str]:
        """Return the ids of every record that passes the filter."""
        ...

    def also_told_in(self, session_id: str) -> frozenset[str]:
        """Return the ids of the lines in logs of that session which another session stored, in any scope."""
        ...

    def stored_by(self, where: RecordFilter, at: Instant, *, changed: bool) -> frozenset[str]:
        """Return the ids of passing records that were stored by then; those that changed since, or those that did not.

        Superseded records pass where the filter includes inactive ones.
        """
        ...

    def ids_in_branches(self, branches: Collection[str]) -> frozenset[str]:
        """Return the ids of the records in these branches."""
        ...

    def successors(self, record_ids: Collection[str]) -> Mapping[str, str]:
        """Map each superseded record to the id of the last record in its chain of successors."""
        ...

    def predecessors(self, record_ids: Collection[str], where: RecordFilter) -> Mapping[str, Record]:
        """Map each of the records that replaced another to the newest that passes; log records are left out."""
        ...


class SessionReader(Protocol):
    """Reads what sessions stored."""

    def recent_sessions(self, where: RecordFilter, limit: int) -> Sequence[str]:
        """Return the sessions in which the passing records happened last, latest first.

        A record that is dated ahead happened when it was stored. It looks back a bounded way in each of the filter's
        scopes.
        """
        ...

    def best_of_sessions(self, where: RecordFilter, sessions: Sequence[str], each: int) -> Sequence[str]:
        """For each session, return its newest summary or, without one, its most important records that pass."""
        ...


class UpkeepReader(Protocol):
    """Reads what waits for upkeep."""

    def expired(self, until: Instant) -> Iterator[Record]:
        """Yield the records of all scopes that hold, but say what was true only until then or earlier."""
        ...

    def to_maintain(self, kind: Kind, statuses: Collection[Status], until: Instant) -> Iterator[Record]:
        """Yield records of all scopes, of this kind and one of these statuses, stored and last opened by then.

        In no order. What a whole memory brought counts as opened when that was imported.
        """
        ...

    def tasks_without_result(self, namespace: str) -> Sequence[Task]:
        """Return the finished tasks with a result of which no record of kind `result` tells."""
        ...


class StatementReader(Protocol):
    """Reads the statements of records: texts, entities, relations, confidences."""

    def find_texts(self, texts: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return the (scope, text digest) pairs that are stored now."""
        ...

    def links(self, record_id: str) -> tuple[Sequence[Entity], Sequence[Relation]]:
        """Return the entities a record mentions, with its statements about each, and the relations it supports."""
        ...

    def mentions(self, keys: Collection[str], where: RecordFilter, found_by: Collection[str] = ()) -> Sequence[Mention]:
        """Return statements about these entities by passing records that are not superseded, ordered by `occurred_at`.

        The newest come last. Of the many mentions that were only found in a text, it returns those of the records
        `found_by`.
        """
        ...

    def statements(self, keys: Collection[str], where: RecordFilter, limit: int) -> Sequence[StatedRelation]:
        """Return relations with one of these entities at an end, stated by passing records that are not superseded.

        The strongest come first, then the latest stored. It reads at most `limit`.
        """
        ...

    def grounds(self, record_id: str, where: RecordFilter, namespace: str, limit: int) -> tuple[Sequence[Footing], int]:
        """Return at most `limit` grounds of a record: records that pass, and tasks of the namespace; and their number.

        It looks at a bounded number of them.
        """
        ...

    def dependents(self, record_id: str, where: RecordFilter, limit: int) -> tuple[Sequence[Footing], int]:
        """Return at most `limit` passing records that stand on a record, the latest first, and their number.

        It looks at a bounded number of them, the latest.
        """
        ...

    def judged_confidences(self, where: RecordFilter) -> Sequence[tuple[float, Outcome]]:
        """Return (confidence in [0, 1], outcome) of the newest decisions; at most 1,000.

        Only decisions that pass the filter and have both count; a pending outcome is none.
        """
        ...


class HistoryReader(VersionReader, Protocol):
    """Reads the history of a record, a page at a time, and that of tasks."""

    def latest_versions(self, record_id: str, limit: int, before: int | None = None) -> Sequence[Version]:
        """Return at most `limit` changes of a record, newest first, of those before that change. It checks no scope."""
        ...

    def latest_writes(self, where: RecordFilter, limit: int, by: Caller | None = None) -> Sequence[int]:
        """Return the numbers of at most `limit` writes in which somebody changed a passing record, newest first.

        Undos, confirmations and changes by upkeep are none. With `by`, only writes that stand and that its agent made
        with its client.
        """
        ...

    def task_changes(self, namespace: str, task_ids: Collection[str], limit: int) -> Sequence[TaskChange]:
        """Return at most `limit` changes of these tasks, newest first: one for each agent that hears about it.

        A change by an agent alone in its own task is none of them, before another agent changed that task.
        """
        ...


class Telemetry(Protocol):
    """Keeps accesses and reports of contexts, which may be lost and advance no revision; and counts."""

    def touch(self, record_ids: Collection[str], at: Instant) -> None:
        """Note that records were opened. Telemetry: may be lost, never waits, never advances the revision."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Make one journey of what this thread notes inside, accesses and what was shown, where the store is far.

        It is stored at the end; what is read inside does not find it.
        """
        ...

    def keep_context(self, report: ContextReport, caller: Caller, at: Instant, *, anew: bool = True) -> None:
        """Keep the decisions about an assembled context (ids and reasons, no text). Telemetry.

        The same context given again replaces its earlier report and raises its count. If it is not new, only the
        count rises: the report of what the client still shows stays unchanged.
        """
        ...

    def context(self, context_id: str, caller: Caller, *, of_all: bool = False) -> ContextReport | None:
        """Return the report of that id of the caller's agent in its namespace; with `of_all`, of any agent there."""
        ...

    def contexts(
        self, caller: Caller, limit: int, before: tuple[Instant, str] | None = None, *, of_all: bool = False
    ) -> Sequence[tuple[Instant, ContextReport]]:
        """Return the latest reports of the caller's agent in its namespace and when each was made, newest first.

        With `before`, those that come after the report of that time and id. With `of_all`, those of every agent.
        """
        ...

    def contexts_naming(
        self, record_id: str, caller: Caller, limit: int, *, of_all: bool = False
    ) -> Sequence[tuple[Instant, ContextReport]]:
        """Return those of the latest thousand reports that name a record, given or left out, newest first.

        With `of_all`, those of every agent in the caller's namespace.
        """
        ...

    def assembled(self, caller: Caller, since: Instant, *, of_all: bool = False) -> Assembled:
        """Total the reports by `keep_context` for the caller's agent in its namespace since then, at most two weeks.

        A report's missing metadata (picked, relevance, utilisation, follow_up, cached, assembly_ms) adds nothing.
        With `of_all`, those of every agent count.
        """
        ...

    def tally(self, where: RecordFilter, since: Instant) -> Tally:
        """Count the records that pass; `stored` counts only those stored since then.

        Records that were extracted from what was stored before are no part of `stored`.
        """
        ...

    def gauges(self) -> Mapping[str, float]:
        """Return figures of the database for monitoring, those that it tells at little cost; none of a file.

        `oldest_transaction_seconds`: the age of the oldest open transaction, which holds up what tidies. `standbys`:
        those that are connected; with any, `replica_lag_seconds` and `replica_lag_bytes`: by how much the slowest of
        them is behind.
        """
        ...

    def stored_by_period(self, where: RecordFilter, since: Instant, seconds: float) -> Mapping[int, int]:
        """Count the records that pass by when they were stored, in periods since then: the first is 0."""
        ...

    def facts(self, caller: Caller, hidden_branches: frozenset[str]) -> StoreFacts: ...

    def summarize(self, caller: Caller, hidden_branches: frozenset[str]) -> StoreSummary:
        """Return the facts with counts of records, each of which reads all that the caller sees."""
        ...

    def shared_namespaces(self) -> Sequence[str]:
        """Return the names of all namespaces that hold a live shared record, in order."""
        ...


class EmbeddingQueue(Protocol):
    """Holds the records that wait for vectors."""

    def embedder_id(self) -> str | None:
        """Return the id of the embedder whose vectors the store holds; None before the first vector."""
        ...

    def unembedded(self, embedder: str, limit: int, after: str = "") -> Sequence[tuple[str, int, str]]:
        """Return (id, change, searchable text) of records without vectors by this embedder, minus those it refused.

        The oldest come first, starting after the record `after`, so that a caller can continue without a second look at
        embedded records. An unknown `after` starts at the beginning.
        """
        ...

    def awaiting_vectors(self, limit: int, among: Collection[str] | None = None) -> Sequence[tuple[str, int, str]]:
        """Return (id, change, searchable text) of the oldest records that wait for vectors by the store's embedder.

        They are those stored, or changed, without. It looks at no other record. With `among`, only these ids.
        """
        ...

    def awaiting_vectors_in(self, scopes: Collection[str], limit: int) -> Sequence[tuple[str, int, str]]:
        """Return the same of these scopes."""
        ...

    def count_unembedded(self, where: RecordFilter | None = None) -> int:
        """Count the records that were stored while the embedder was unreachable and still have no vectors.

        Covers every user, or a filter's scopes minus its hidden branches; the rest of the filter is ignored. Records
        whose texts the embedder refused do not count.
        """
        ...

    def add_vectors(self, embedder: str, vectors: Mapping[tuple[str, int], Vectors | None]) -> None:
        """Add vectors for (id, change) pairs that have not changed since; None where the embedder refuses the text.

        Every process finds vectors by the store's own embedder from now on: they advance the revision. A record whose
        text is refused stops waiting until its text or the embedder changes.
        """
        ...

    def count_refused(self, embedder: str) -> int:
        """Count the records without vectors by this embedder because it refuses their texts."""
        ...

    def forget_refusals(self, embedder: str) -> None:
        """Queue the records whose texts this embedder refused again: a newer version may accept them."""
        ...

    def adopt_embedder(self, embedder: str) -> bool:
        """Make this embedder the store's, atomically, once no record waits for vectors. Return False where some do."""
        ...


class StoreUpkeep(Protocol):
    """Keeps the store's files sound."""

    def purge(self, *, patiently: bool = True) -> Sequence[str]:
        """Make erased text unrecoverable from the store's files; do nothing where nothing was erased.

        Return the names of copies beside the store that held it and were deleted.

        Raises StoreBusy where other processes never pause or, with `patiently` false, do not pause now. The next call
        of any process purges the rest.
        """
        ...

    def is_purge_pending(self) -> bool:
        """Return True where erased text may still be in the store's files."""
        ...

    def erased_remains(self) -> str:
        """Say, for people, where bytes of what was erased may still be, and until when; "" where they are nowhere."""
        ...

    def backup(self, target: str) -> None:
        """Write a consistent copy to a new file while other processes write."""
        ...

    def defects(self) -> Sequence[str]:
        """Return the defects of the store's files, a few words each; empty where they are sound."""
        ...

    def examine_server(self) -> Sequence[Finding]:
        """Return findings on the database's server; empty where there is none, as beside a file."""
        ...

    def engine(self) -> str:
        """Return the database library, its version and its known bugs."""
        ...

    def migrated(self) -> str:
        """Return what the last migrations counted, a few words; "" where they counted nothing."""
        ...

    def stale_terms(self) -> Sequence[str]:
        """Return ids of records, in all scopes, whose terms are missing or differ from those of their indexed text.

        It reads every text.
        """
        ...

    def catch_up_terms(self, limit: int) -> bool:
        """Renew the terms that an earlier version derived by another rule, of the next `limit` records.

        Return True where more are left. Once all are done, it reads no record.
        """
        ...

    def renew_terms(self, record_ids: Sequence[str]) -> None:
        """Rewrite the terms of these records. They advance the revision, so that every index reads them again."""
        ...

    def count_orphans(self) -> int:
        """Count the entities that no record mentions any more. No caller sees them."""
        ...

    def drop_orphans(self) -> None: ...


class ErasureReader(Protocol):
    """Reads what is left of erased text."""

    def erased(self, scopes: Iterable[str]) -> ErasedMarks:
        """Return the marks of what was erased in these scopes; false where nothing was."""
        ...

    def saying(self, word: str, scopes: Iterable[str], limit: int) -> Sequence[str]:
        """Return ids of the oldest records of these scopes that have a word, in lower case, in their text."""
        ...


class MemoryReader(
    RecordReader,
    SessionReader,
    UpkeepReader,
    StatementReader,
    HistoryReader,
    TaskReader,
    ExclusionReader,
    ErasureReader,
    ChangeFeed,
    Protocol,
):
    """Reads records, their statements and versions, tasks, exclusions and changes."""

    def ahead(self, *reads: Callable[[], object]) -> bool:
        """Make one journey of what these read, where the truth is far, within a snapshot: it is read again from here.

        No read may depend on what another one finds; calling them has no effect but that. Return False where the truth
        is near: they were not called.
        """
        ...

    def tasks(self, namespace: str) -> Sequence[Task]:
        """Return all tasks of the namespace in the order they were made, for a view of the whole tree."""
        ...


class RecordStore(MemoryReader, Telemetry, EmbeddingQueue, StoreUpkeep, Protocol):
    """The truth. A write returns only after it is on disk, with its vectors, links and change number.

    Reads see everything that any process committed before the call; inside a snapshot, before the snapshot began. Any
    method raises StoreUnavailable (busy, full, read-only, damaged, of a newer schema).
    """

    def write(
        self,
        by: Caller | None = None,
        reason: str = "",
        *,
        patiently: bool = True,
        alone: bool = False,
        partition: str | None = None,
    ) -> AbstractContextManager[Transaction]:
        """Begin an atomic write, waiting a bounded time for other processes; commit at exit, roll back on error.

        A caller's write changes its namespace and its person's scope, and upkeep's the `partition` that it names;
        others may write elsewhere meanwhile. One with neither, or `alone`, may change anything, and nobody else writes
        meanwhile.
        The versions it leaves name the caller and the reason; without a caller, upkeep. Pass the caller wherever the
        write puts anything into its namespace: where that was renamed since the caller was made, StoreBusy names the
        present one. With `patiently` false it raises StoreBusy at once where another process is writing.
        """
        ...

    def identity(self) -> str:
        """Return this store's permanent random name. It tells apart what is derived from different stores.

        Inside a snapshot, which writes nothing, it is empty until it was asked for outside of one.
        """
        ...

    def transfer(self) -> Transfer:
        """Return the export and import of the whole store."""
        ...

    def close(self) -> None: ...
