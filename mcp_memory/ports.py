"""Every seam of the system on one page: what services need, said without naming who provides it.

Implementations are named in `app.py` alone. All of them are safe to call from several threads at once, and translate
their libraries' errors into `McpMemoryError`. Vectors are float32 and of unit length; higher scores are better.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
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

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        """`embed` for each of the texts, in as few requests as a service takes; all or none."""
        ...

    def embed_query(self, text: str) -> Vector:
        """One vector for a whole query, however long. Raises StoreUnavailable where the model cannot run."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TermChange:
    """One record's state in the keywords' view of the truth.

    `terms` is what `domain.text.packed_terms` makes of its text, None where the record was erased; `session` that of a
    dialogue turn, None for anything else.
    """

    change: int
    id: str
    scope: str
    is_live: bool
    terms: bytes | None
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """One record's links as they are now; none where it was erased. Entities go by their keys.

    `aliases` pairs an entity with its other name; `relations` hold source, type, target, weight.
    """

    change: int
    id: str
    scope: str
    is_live: bool
    is_erased: bool = False
    branch_id: str | None = None
    task_id: str | None = None
    superseded_by: str | None = None
    mentions: Sequence[str] = ()
    aliases: Sequence[tuple[str, str]] = ()
    relations: Sequence[tuple[str, str, str, float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLink:
    """A task, the scope that sees it, and the task it is part of."""

    id: str
    scope: str
    parent_id: str | None


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
        self, record: Record, vectors: Vectors | None, entities: Iterable[Entity], relations: Iterable[Relation]
    ) -> None:
        """Add a record. `vectors` is None where the embedder could not be asked; `add_vectors` brings them later."""
        ...

    def update(self, record: Record, vectors: Vectors | None = None, found: Iterable[Entity] = ()) -> None:
        """Replace a record's fields. With `vectors` its text changed: the old version is kept and indexes follow.

        `found` are the entities found in the new text, in the place of those found in the old one.
        """
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What ranking needs to know of a record: who spoke, and what replaced it."""

    role: str | None
    superseded_by: str | None


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

    def count(self, where: RecordFilter) -> int:
        """How many records pass the filter."""
        ...

    def ids_in_branches(self, branches: Collection[str]) -> frozenset[str]:
        """Ids of the records that these branches hold."""
        ...

    def list(self, where: RecordFilter, order: RecordOrder, limit: int, offset: int = 0) -> Sequence[Record]:
        """Records that pass, newest or highest first, ties by newest."""
        ...

    def list_ids(self, where: RecordFilter, order: RecordOrder, limit: int) -> Sequence[str]:
        """Like `list`, the ids alone."""
        ...

    def outlines(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Outline]:
        """What ranking needs to know of those of the records that exist in these scopes, whatever their status."""
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

    def term_changes(self, since: int) -> Iterator[TermChange]:
        """Terms and liveness of what changed after `since`, in order of change."""
        ...

    def link_changes(self, since: int) -> Iterator[LinkChange]:
        """Links and liveness of what changed after `since`, in order of change."""
        ...

    def task_links(self, since: int) -> Sequence[TaskLink]:
        """Tasks that changed after `since`, in the order they were made."""
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

    def identity(self) -> str:
        """A random name that this store keeps for ever, so that what is derived from it elsewhere can be told apart."""
        ...

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

    def unembedded(self, embedder: str, limit: int, passed_over: Set[str] = ...) -> Sequence[tuple[str, int, str]]:
        """(id, change, searchable text) of records that have no vectors by this embedder yet, without those ids."""
        ...

    def count_unembedded(self) -> int:
        """How many records were stored while the embedder could not be asked, and have no vectors since."""
        ...

    def add_vectors(self, embedder: str, vectors: Mapping[tuple[str, int], Vectors]) -> None:
        """Add vectors for (id, change) pairs that have not changed since.

        Those by the store's own embedder are found from now on, by every process: they advance the revision.
        """
        ...

    def adopt_embedder(self, embedder: str, passed_over: Set[str] = ...) -> bool:
        """Make this embedder the store's, atomically, once no record lacks its vectors. False where some still do.

        Those ids may lack them; they count as unembedded from then on.
        """
        ...

    def defects(self) -> Sequence[str]:
        """What is wrong with the store's files themselves, a few words each; empty where they are sound."""
        ...

    def stale_terms(self) -> Sequence[str]:
        """Ids of records, in all scopes, whose terms are missing or not what `packed_terms` makes of their text.

        Reads every text.
        """
        ...

    def renew_terms(self, record_ids: Sequence[str]) -> None:
        """Write the terms of these records anew. They advance the revision, so that every index reads them again."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualCosine:
    """Mean and mean square of the cosines between a query and the records of a store; both 0 where there are none."""

    mean: float
    mean_square: float


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

    def usual_cosine(self, vector: Vector, scopes: Sequence[str]) -> UsualCosine:
        """What cosines the live records of these scopes have to a query, over all or a fair sample of their windows.

        Depends on nothing but the records, so that all processes tell the same.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """How the index behind vector search stands, as this process sees it.

    `applied` is the newest change it holds for certain, `pending` how many records changed since, `answered` how many
    searches it has had a part in. `reason` says why it `failed`; the exact search answers then.
    """

    mode: Literal["off", "embedded", "http", "cloud"]
    state: Literal["off", "building", "ready", "failed"]
    applied: int = 0
    pending: int = 0
    records: int = 0
    answered: int = 0
    directory: str | None = None
    bytes: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDifference:
    """How many vectors of a scope the index lacks, and how many it holds that it should not."""

    missing: int
    extra: int


class VectorIndex(Protocol):
    """The disposable index behind a `VectorStore`, which it makes faster and whose answers it never changes."""

    def start(self) -> None:
        """Begin to build it and to keep it current, in the background; once."""
        ...

    def settle(self, seconds: float) -> bool:
        """Wait until it holds everything committed before the call. False where that took longer, or it is off."""
        ...

    def state(self) -> IndexState: ...

    def check(self) -> Mapping[str, IndexDifference]:
        """By scope, how it differs from the truth at present; {} where it does not, or where it is not open."""
        ...

    def rebuild(self) -> None:
        """Empty it and fill it from the truth, in the background. Nothing is embedded anew."""
        ...

    def erase(self, record_ids: Collection[str]) -> None:
        """Leave nothing of records that the truth has erased in any file of any index, of whichever process.

        What a server holds of them is deleted as soon as it can be reached.
        """
        ...

    def close(self) -> None:
        """Stop keeping it. Also when the process ends without this, nothing is lost."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check-up says of one part of the memory.

    `says` holds a few words, of ids and counts alone; `remedy` is the reader's next move, empty where none is needed.
    """

    part: str
    state: Literal["ok", "wrong", "mended"]
    says: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDirectory:
    """An index directory by its own account. One that is not `clean` is being written, or was left half-written."""

    name: str
    clean: bool
    applied: int
    bytes: int


class IndexExaminer(Protocol):
    """Looks at what all processes of this memory keep of indexes, where none of them is using it at present."""

    def directories(self) -> Sequence[IndexDirectory]:
        """Every index directory there is, looked at from outside."""
        ...

    def examine(self, *, mend: bool) -> Iterator[Finding]:
        """Compare every index with the truth; with `mend` drop what is wrong. Nothing else changes.

        What is dropped is made anew by the next server, without embedding. Raises StoreUnavailable where that cannot
        be told, EmbedderMismatch where the truth's vectors are another embedder's.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rarity:
    """How many live records there are, and how much information a query's words are together, in nats."""

    records: int
    information: float


class KeywordStore(Protocol):
    """Ranks records by the words they share with a query. Complete up to the newest committed change at the call.

    Terms are words as `domain.text.query_terms` finds them. Their stems are what counts, and words of one stem count
    once. How rare a word is and how long records are is taken over the live records of the given scopes together. A
    dialogue turn is read on: words said directly before or after it, in its session, count for it in part.
    """

    def search(
        self,
        terms: Sequence[str],
        scopes: Sequence[str],
        limit: int,
        only: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Ids and nats of information (> 0, at most all of the query's), best first, of equal ones the newest first.

        Without `only`, live records alone are searched; with it, exactly those ids, whatever their status.
        """
        ...

    def scores(
        self,
        terms: Sequence[str],
        scopes: Sequence[str],
        record_ids: Collection[str],
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Scores of the given records, those left out that are unknown or have none of the terms.

        What is excluded, here as in `search`, is not read on into either.
        """
        ...

    def rarity(self, terms: Sequence[str], scopes: Sequence[str]) -> Rarity:
        """How much the terms would tell, if a record had all of them."""
        ...

    def neighbours(self, record_ids: Collection[str]) -> Mapping[str, Sequence[str]]:
        """For each dialogue turn, the live turns directly before and after it in its session; no others are named."""
        ...


GraphNode: TypeAlias = tuple[Literal["entity", "record", "task"], str]
"""A kind and a key: an entity's `domain.mentions.entity_key`, a record's or a task's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A record near another one. `path` is what lies between the two, from near to far; empty where nothing does."""

    id: str
    activation: float
    path: tuple[GraphNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSummary:
    """How much of the graph a caller sees."""

    records: int
    entities: int
    relations: int
    tasks: int


class GraphStore(Protocol):
    """Entities, relations, records and tasks as a graph. Complete up to the newest committed change at the call.

    Every method sees live records of the given scopes alone, and of those none that a hidden branch holds: others
    neither come out nor are walked through, nor do they count. Entities of one key in several scopes are one thing.
    """

    def mentioned(self, text: str, scopes: Sequence[str], hidden: Collection[str] = ()) -> Mapping[str, float]:
        """Keys of the entities that a text names, by name or alias, in any case, with weights in (0, 1].

        Of overlapping names the longest counts. The fewer records mention an entity, the higher its weight; one that
        is mentioned everywhere is left out.
        """
        ...

    def activate(
        self,
        seeds: Mapping[str, float],
        scopes: Sequence[str],
        limit: int,
        hidden: Collection[str] = (),
        only: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Ids of the records that these entities (key to weight) lead to and their activations in (0, 1], best first.

        Ties by newest. `only` and `exclude` narrow what comes out, not what is walked through. Bounded work, whatever
        the size of the graph.
        """
        ...

    def neighbourhood(
        self, record_id: str, scopes: Sequence[str], limit: int, hidden: Collection[str] = ()
    ) -> Sequence[Connection]:
        """The records nearest to this one, nearest first; none where it is not seen itself."""
        ...

    def summarize(self, scopes: Sequence[str], hidden: Collection[str] = ()) -> GraphSummary: ...

    def check(self) -> Sequence[str]:
        """What differs from a graph made anew from the truth, a few words each; empty where it is sound."""
        ...

    def rebuild(self) -> None:
        """Forget everything; the next call reads it anew from the truth."""
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
