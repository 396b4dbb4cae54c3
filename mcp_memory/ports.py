"""Every seam of the system on one page: what services need, said without naming who provides it.

Implementations are named in `app.py` alone. All of them are safe to call from several threads at once, and translate
their libraries' errors into `McpMemoryError`. Vectors are float32 and of unit length; higher scores are better.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from mcp_memory.domain.contexts import ContextReport
from mcp_memory.domain.queries import Query, Vector
from mcp_memory.domain.records import Entity, Instant, Record, Relation
from mcp_memory.domain.scopes import Caller, RecordFilter
from mcp_memory.domain.tasks import Task

if TYPE_CHECKING:  # numpy takes a tenth of a second to import, and the handshake needs none of it.
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[np.float32]"
"""Shape [windows, dimensions], one unit row per window of a text, windows >= 1."""
Clock = Callable[[], Instant]
RecordOrder = Literal["created", "occurred", "accessed", "important"]


class Embedder(Protocol):
    """Turns text into unit vectors. A text's vectors depend on nothing but the text and `id`."""

    @property
    def id(self) -> str:
        """Names model, weights and windowing; vectors of different ids are never compared."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, text: str) -> Vectors:
        """Vectors of a text to be stored, one per window. Raises StoreUnavailable where the model cannot run."""
        ...

    def embed_query(self, text: str) -> Vector:
        """One vector for a whole query, however long."""
        ...


class TokenCounter(Protocol):
    """Counts tokens of one public encoding."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int:
        """Tokens of the text; 0 for "". Text that looks like a special token counts as plain text."""
        ...

    def truncate(self, text: str, max_tokens: int) -> str:
        """The longest prefix of at most `max_tokens`, never ending inside a character."""
        ...


class Redactor(Protocol):
    """Finds secrets."""

    def redact(self, text: str) -> tuple[str, int]:
        """The text with each secret replaced by a marker that names its type, and how many there were."""
        ...


class DateReader(Protocol):
    """Reads dates and phrases about time."""

    def read(self, phrase: str, now: Instant) -> tuple[Instant, Instant] | None:
        """The span [start, end) that an ISO date, a time or a phrase ("last week") names; None where it names none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorChange:
    """One record's state in the vectors' view of the truth. `vectors` is None where the record was erased."""

    change: int
    id: str
    scope: str
    is_live: bool
    vectors: Vectors | None


class Transaction(Protocol):
    """One atomic write: each change takes the next number of the sequence, and nothing is visible before the exit."""

    def next_id(self, prefix: str) -> str:
        """A new id: short, never used again, and sorting after every earlier one of that prefix."""
        ...

    def get(self, record_id: str) -> Record | None: ...

    def find_text(self, scope: str, digest: str) -> Record | None:
        """The record of this scope, outside the log, that has exactly this text now."""
        ...

    def find_corrected(self, scope: str, digest: str) -> Record | None:
        """The record, outside the log, that said this until it was replaced, proven wrong or changed.

        The digest is that of the normalised text. None where a record that holds says the same.
        """
        ...

    def find_alike(self, scope: str, digest: str) -> Sequence[str]:
        """Ids of live records equal after normalising case, space and punctuation."""
        ...

    def insert(
        self, record: Record, vectors: Vectors, entities: Iterable[Entity], relations: Iterable[Relation]
    ) -> None: ...

    def update(self, record: Record, vectors: Vectors | None = None) -> None:
        """Replace a record's fields. With `vectors` its text changed: the old version is kept and indexes follow."""
        ...

    def confirm(self, record: Record, session_id: str) -> bool:
        """Note that this session met the record again. False where the session had already been counted."""
        ...

    def erase(self, record_ids: Sequence[str]) -> None:
        """Remove records and all that was derived from them, leaving tombstones without text."""
        ...

    def add_task(self, task: Task) -> None: ...

    def update_task(self, task: Task) -> None: ...

    def set_place(self, caller: Caller, task_id: str | None) -> None:
        """Move the caller to a task, or out of the tree."""
        ...

    def tasks(self, namespace: str) -> Sequence[Task]:
        """The namespace's tasks in the order they were made."""
        ...

    def open_branches(self) -> frozenset[str]:
        """Tasks of any namespace that hide their records from the trunk for the time being."""
        ...

    def places(self, caller: Caller) -> Mapping[str, str]:
        """Where the caller's agent stands: session name ('' for the agent's own) to task id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSummary:
    """What status shows of the store. Counts cover only what the caller may see."""

    path: str
    schema_version: int
    revision: int
    embedder: str
    records: Mapping[str, int]
    statuses: Mapping[str, int]
    sessions: int
    tasks: Mapping[str, int]
    file_bytes: int


class RecordStore(Protocol):
    """The truth. A write is acknowledged only after it is on disk, with its vectors, links and change number.

    Reads see everything committed by any process before the call. Raises StoreUnavailable (busy, full, read-only,
    damaged, of a newer schema) from any method. Filters apply before ranking and limits.
    """

    def write(self) -> AbstractContextManager[Transaction]:
        """Begin an atomic write, waiting a bounded time for other processes; commit at exit, roll back on error."""
        ...

    def revision(self) -> int:
        """The newest change number. Counters and other telemetry do not advance it."""
        ...

    def get(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Record]:
        """Those of the records that exist in these scopes, whatever their status."""
        ...

    def find_texts(self, texts: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which (scope, text digest) pairs are stored at present."""
        ...

    def matching_ids(self, where: RecordFilter) -> frozenset[str]:
        """Ids of every record that passes the filter."""
        ...

    def ids_in_branches(self, branches: Collection[str]) -> frozenset[str]:
        """Ids of the records that these branches hold."""
        ...

    def keyword_search(self, terms: Sequence[str], where: RecordFilter, limit: int) -> Mapping[str, float]:
        """Ids and BM25 scores (> 0) of records with any of the terms, best first."""
        ...

    def list(self, where: RecordFilter, order: RecordOrder, limit: int, offset: int = 0) -> Sequence[Record]:
        """Records that pass, newest or highest first, ties by newest."""
        ...

    def list_ids(self, where: RecordFilter, order: RecordOrder, limit: int) -> Sequence[str]:
        """Like `list`, the ids alone."""
        ...

    def neighbours(self, record_ids: Collection[str]) -> Mapping[str, Sequence[str]]:
        """For each dialogue turn, the turns directly before and after it in its session."""
        ...

    def successors(self, record_ids: Collection[str]) -> Mapping[str, str]:
        """For each superseded record, the id of the last record in its chain of successors."""
        ...

    def links(self, record_id: str) -> tuple[Sequence[Entity], Sequence[Relation]]:
        """The entities a record mentions, with what it says of each, and the relations it is evidence of."""
        ...

    def old_texts(self, record_id: str) -> Sequence[tuple[Instant, str]]:
        """Earlier texts of a record with the time each was replaced, newest first."""
        ...

    def vector_changes(self, since: int, embedder: str) -> Iterator[VectorChange]:
        """Vectors and liveness of what changed after `since`, in order of change."""
        ...

    def tasks(self, namespace: str) -> Sequence[Task]:
        """The namespace's tasks in the order they were made."""
        ...

    def open_branches(self) -> frozenset[str]:
        """Tasks of any namespace that hide their records from the trunk for the time being."""
        ...

    def places(self, caller: Caller) -> Mapping[str, str]:
        """Where the caller's agent stands: session name ('' for the agent's own) to task id."""
        ...

    def touch(self, record_ids: Collection[str], at: Instant) -> None:
        """Note that records were opened. Telemetry: may be lost, never waits, never advances the revision."""
        ...

    def keep_context(self, report: ContextReport, caller: Caller, at: Instant) -> None:
        """Keep what was decided about an assembled context (ids and reasons, no text). Telemetry."""
        ...

    def context(self, context_id: str, caller: Caller) -> ContextReport | None: ...

    def summarize(self, caller: Caller, hidden_branches: frozenset[str]) -> StoreSummary: ...

    def embedder_id(self) -> str | None:
        """The embedder whose vectors the store holds; None before the first vector."""
        ...

    def purge(self) -> None:
        """Make erased text unrecoverable from the store's files; nothing to do where nothing was erased.

        Raises StoreBusy where others never paused; what was not purged then is purged by the next call, of any process.
        """
        ...

    def backup(self, target: str) -> None:
        """A consistent copy into a new file, while others write."""
        ...

    def unembedded(self, embedder: str, limit: int) -> Sequence[tuple[str, int, str]]:
        """(id, change, searchable text) of records that have no vectors by this embedder yet."""
        ...

    def add_vectors(self, embedder: str, vectors: Mapping[tuple[str, int], Vectors]) -> None:
        """Add vectors by another embedder for (id, change) pairs that have not changed since."""
        ...

    def adopt_embedder(self, embedder: str) -> bool:
        """Make this embedder the store's, atomically, once no record lacks its vectors. False where some still do."""
        ...

    def close(self) -> None: ...


class VectorStore(Protocol):
    """Searches the truth's vectors by meaning. Complete up to the newest committed change at the time of the call."""

    def search(
        self,
        vector: Vector,
        scopes: Sequence[str],
        limit: int,
        only: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Ids and cosines in [-1, 1], best first; a record counts by its best window.

        Without `only`, live records alone are searched; with it, exactly those ids, whatever their status.
        """
        ...

    def similarities(self, vector: Vector, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, float]:
        """Cosines of the given records, those unknown left out."""
        ...


class Source(Protocol):
    """One way to find candidates for a query."""

    @property
    def name(self) -> str: ...

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        """Ids and scores, best first, at most `limit`, all of them passing `where`. May raise StoreUnavailable."""
        ...

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        """This source's scores of records that another source found; those it cannot score are left out."""
        ...
