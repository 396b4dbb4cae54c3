"""The truth: reading it, following it, and keeping it sound. How it is written is in `transaction`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.health import Assembled, Tally
from mcp_memory.domain.model.records import Entity, Instant, Kind, Outcome, Record, Relation, Status
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.ports.changes import ChangeFeed
from mcp_memory.ports.text import Vectors
from mcp_memory.ports.transaction import TaskReader, Transaction
from mcp_memory.ports.transfer import Transfer

RecordOrder = Literal["created", "occurred", "accessed", "important"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSummary:
    """What status shows of the store. Counts cover only what the caller may see."""

    path: str
    engine: str
    schema_version: int
    revision: int
    embedder: str
    records: Mapping[str, int]
    statuses: Mapping[str, int]
    sessions: int
    tasks: Mapping[str, int]
    file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What ranking needs to know of a record: what it is, who spoke, and what replaced it."""

    kind: Kind
    role: str | None
    superseded_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """What a record says of an entity, whose key is `key`."""

    key: str
    entity: Entity
    record_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRelation:
    """A relation, and the record that says so."""

    relation: Relation
    record_id: str


class RecordReader(Protocol):
    """Reads records. Filters apply before ranking and limits."""

    def get(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Record]:
        """Those of the records that exist in these scopes, whatever their status."""
        ...

    def list(self, where: RecordFilter, order: RecordOrder, limit: int, offset: int = 0) -> Sequence[Record]:
        """Records that pass, newest or highest first, ties by newest."""
        ...

    def list_ids(
        self,
        where: RecordFilter,
        order: RecordOrder | Literal["balanced"],
        limit: int,
        *,
        at: Instant = 0.0,
        decay_hours: float = 1.0,
    ) -> Sequence[str]:
        """Like `list`, the ids alone; also `balanced`: by importance / (1 + age / decay_hours), the age as it is then.

        That order no index has: it reads all that pass.
        """
        ...

    def count(self, where: RecordFilter) -> int:
        """How many records pass the filter."""
        ...

    def count_all(self) -> int:
        """How many records there are, of everybody."""
        ...

    def matching_ids(self, where: RecordFilter) -> frozenset[str]:
        """Ids of every record that passes the filter."""
        ...

    def ids_in_branches(self, branches: Collection[str]) -> frozenset[str]:
        """Ids of the records that these branches hold."""
        ...

    def outlines(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Outline]:
        """What ranking needs to know of those of the records that exist in these scopes, whatever their status."""
        ...

    def successors(self, record_ids: Collection[str]) -> Mapping[str, str]:
        """For each superseded record, the id of the last record in its chain of successors."""
        ...

    def recent_sessions(self, where: RecordFilter, limit: int) -> Sequence[str]:
        """The sessions that the newest records that pass were stored in, the latest first; a bounded look back.

        What maintenance extracted from an episode was stored in none.
        """
        ...

    def best_of_sessions(self, where: RecordFilter, sessions: Sequence[str], each: int) -> Sequence[str]:
        """Of each of the sessions its newest summary or, where it has none, its most important records that pass."""
        ...

    def to_maintain(self, kind: Kind, statuses: Collection[Status], until: Instant) -> Iterator[Record]:
        """Records of all scopes, of this kind and one of these statuses, that occurred by then; in no order."""
        ...


class StatementReader(Protocol):
    """Reads the statements of records: texts, entities, relations, confidences."""

    def find_texts(self, texts: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which (scope, text digest) pairs are stored at present."""
        ...

    def find_learnt(self, said: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], Collection[str | None]]:
        """Which (scope, normalised text digest) pairs are known outside the log and the episodes, whatever the status.

        Each with the branches it is known in; None is the trunk.
        """
        ...

    def old_texts(self, record_id: str) -> Sequence[tuple[Instant, str]]:
        """Earlier texts of a record with the time each was replaced, newest first."""
        ...

    def links(self, record_id: str) -> tuple[Sequence[Entity], Sequence[Relation]]:
        """The entities a record mentions, with what it says of each, and the relations it is evidence of."""
        ...

    def mentions(self, keys: Collection[str], where: RecordFilter, found_by: Collection[str] = ()) -> Sequence[Mention]:
        """What records that pass and are not superseded say of these entities, by when they occurred, newest last.

        Of what was only found in a text, as there is much of it, no more than what the records `found_by` mention.
        """
        ...

    def statements(self, keys: Collection[str], where: RecordFilter, limit: int) -> Sequence[StatedRelation]:
        """Relations that one of these entities is an end of, by records that pass and are not superseded.

        The strongest first, of equal ones the latest stored. No more than `limit` are looked at.
        """
        ...

    def judged_confidences(self, where: RecordFilter) -> Sequence[tuple[float, Outcome]]:
        """How sure of its newest decisions somebody was, in [0, 1], and what came of them; at most a thousand.

        Of those that pass the filter, where both is known; an outcome that is pending is none.
        """
        ...


class Telemetry(Protocol):
    """Keeps accesses and accounts of contexts, which may be lost and advance no revision; and counts."""

    def touch(self, record_ids: Collection[str], at: Instant) -> None:
        """Note that records were opened. Telemetry: may be lost, never waits, never advances the revision."""
        ...

    def keep_context(self, report: ContextReport, caller: Caller, at: Instant, *, anew: bool = True) -> None:
        """Keep what was decided about an assembled context (ids and reasons, no text). Telemetry.

        A context that is given again takes the place of its earlier account; that it was given again is counted. Not
        `anew`, it is counted alone: the account of what the client still shows stays as it is.
        """
        ...

    def context(self, context_id: str, caller: Caller) -> ContextReport | None: ...

    def assembled(self, caller: Caller, since: Instant) -> Assembled:
        """What `keep_context` was told for the caller's agent in its namespace since then; two weeks at most.

        What an account's metadata does not say (picked, relevance, utilisation, follow_up, cached, assembly_ms) counts
        for nothing.
        """
        ...

    def tally(self, where: RecordFilter, since: Instant) -> Tally:
        """Counts over the records that pass; of `stored` only those that were stored since then.

        What maintenance extracted is not new to the store, and no part of `stored`.
        """
        ...

    def summarize(self, caller: Caller, hidden_branches: frozenset[str]) -> StoreSummary: ...


class EmbeddingQueue(Protocol):
    """Holds the records that wait for vectors."""

    def embedder_id(self) -> str | None:
        """The embedder whose vectors the store holds; None before the first vector."""
        ...

    def unembedded(self, embedder: str, limit: int, after: str = "") -> Sequence[tuple[str, int, str]]:
        """(id, change, searchable text) of records without vectors by this embedder whose texts it has not refused.

        The oldest first, of those stored after the record `after`: whoever goes on from there need not look again at
        all that has its vectors. From the beginning where there is no such record.
        """
        ...

    def may_lack_vectors(self) -> bool:
        """False where no record waits for vectors; True where some do, or did lately. Looks at no record."""
        ...

    def count_unembedded(self, where: RecordFilter | None = None) -> int:
        """How many records were stored while the embedder could not be asked, and have no vectors since.

        Of everybody, or only in the scopes of a filter and outside of its hidden branches; nothing else of it counts.
        Those whose texts it refused wait for nothing, and do not count.
        """
        ...

    def add_vectors(self, embedder: str, vectors: Mapping[tuple[str, int], Vectors | None]) -> None:
        """Add vectors for (id, change) pairs that have not changed since; None where the embedder refuses the text.

        Those by the store's own embedder are found from now on, by every process: they advance the revision. A record
        whose text is refused is no longer unembedded, until its text changes or the embedder does.
        """
        ...

    def count_refused(self, embedder: str) -> int:
        """How many records go without vectors by this embedder because it refuses their texts."""
        ...

    def forget_refusals(self, embedder: str) -> None:
        """Count the records whose texts this embedder refused as unembedded again: it may have learned to take them."""
        ...

    def adopt_embedder(self, embedder: str) -> bool:
        """Make this embedder the store's, atomically, once no record is unembedded. False where some still are."""
        ...


class StoreUpkeep(Protocol):
    """Keeps the store's files sound."""

    def purge(self, *, patiently: bool = True) -> None:
        """Make erased text unrecoverable from the store's files; nothing to do where nothing was erased.

        Raises StoreBusy where others never paused, or, not patiently, do not pause now; what was not purged then is
        purged by the next call, of any process.
        """
        ...

    def is_purge_pending(self) -> bool:
        """True where something was erased whose text may still be in the store's files."""
        ...

    def backup(self, target: str) -> None:
        """A consistent copy into a new file, while others write."""
        ...

    def defects(self) -> Sequence[str]:
        """What is wrong with the store's files themselves, a few words each; empty where they are sound."""
        ...

    def engine(self) -> str:
        """The database library and its version, with what is to be known of its bugs."""
        ...

    def stale_terms(self) -> Sequence[str]:
        """Ids of records, in all scopes, whose terms are missing or not what `packed_terms` makes of their text.

        Reads every text.
        """
        ...

    def renew_terms(self, record_ids: Sequence[str]) -> None:
        """Write the terms of these records anew. They advance the revision, so that every index reads them again."""
        ...

    def count_orphans(self) -> int:
        """How many entities are left that no record mentions any more. Nobody is shown them."""
        ...

    def drop_orphans(self) -> None: ...


class MemoryReader(RecordReader, StatementReader, TaskReader, ChangeFeed, Protocol):
    """Reads records, their statements, tasks and changes."""


class RecordStore(MemoryReader, Telemetry, EmbeddingQueue, StoreUpkeep, Protocol):
    """The truth. A write is acknowledged only after it is on disk, with its vectors, links and change number.

    Reads see everything committed by any process before the call; inside a snapshot, before its beginning. Raises
    StoreUnavailable (busy, full, read-only, damaged, of a newer schema) from any method.
    """

    def write(self, *, patiently: bool = True) -> AbstractContextManager[Transaction]:
        """Begin an atomic write, waiting a bounded time for other processes; commit at exit, roll back on error.

        Not patiently, it raises StoreBusy at once where anybody else is writing.
        """
        ...

    def identity(self) -> str:
        """A random name that this store keeps for ever, so that what is derived from it elsewhere can be told apart."""
        ...

    def transfer(self) -> Transfer:
        """The way out and in for the whole of it."""
        ...

    def close(self) -> None: ...
