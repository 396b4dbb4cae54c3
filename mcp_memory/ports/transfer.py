"""Export and import of a whole memory, a piece at a time: all of its truth, and nothing derived from it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.model.records import Details, Instant, Record
from mcp_memory.domain.model.reviews import Review
from mcp_memory.domain.model.session_log import EntryKind, Form, PassName, Role, Trigger
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.model.versions import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of pieces: the store's schema, the one namespace or None for all, and the number of pieces."""

    schema: int
    namespace: str | None
    pieces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSession:
    """A session that stored something."""

    namespace: str
    id: str
    agent: str
    started_at: Instant
    last_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlace:
    """An agent's current task; the session is "" for the agent's own place."""

    namespace: str
    agent: str
    session_id: str
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeEntity:
    """An entity of a scope, under the name it was given first."""

    scope: str
    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMentioned:
    """A record's statement about an entity; `aliases` are the keys of its other names."""

    name: str
    type: str
    properties: Details
    found: bool
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationSaid:
    """A relation that a record states; the record mentions both ends."""

    source: str
    source_type: str
    type: str
    target: str
    target_type: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeGround:
    """A record or task that a record stands on: its state when somebody last vouched for the record, and its newest.

    `vouched` and `change` are the numbers of the changes that made them so.
    """

    ground_id: str
    found: bool
    vouched: int
    seen: str
    state: str
    change: int
    changed_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeExclusion:
    """A task, or else an agent, whose contexts give a record no more; `write` is the number of the change."""

    namespace: str
    task_id: str
    agent: str
    write: int
    at: Instant
    by_agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRecord:
    """A record with all that is kept of it: versions, oldest first, sessions that met it again, its statements.

    Versions keep their numbers; one with the number 0 is given the next at import. The record's `changed` is that of
    the last one. The sessions, as "agent/session", that have it as a line of their log as well, and those whose user
    took it back, are of its namespace.
    """

    record: Record
    versions: tuple[Version, ...]
    confirmed_in: tuple[str, ...]
    mentions: tuple[EntityMentioned, ...]
    relations: tuple[RelationSaid, ...]
    grounds: tuple[WholeGround, ...] = ()
    exclusions: tuple[WholeExclusion, ...] = ()
    also_told_in: tuple[str, ...] = ()
    taken_back_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRecord:
    """The id of an erased record, which is never reused."""

    id: str
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCompaction:
    """A compaction of a session's log, and the log's owner."""

    namespace: str
    agent: str
    session_id: str
    number: int
    at: Instant
    asked_by: Trigger
    tokens_before: int
    tokens_after: int
    undone_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeReplacement:
    """A live or former replacement of entries in a log.

    `covers` are the originals that it represents; `replaces` the earlier replacements that it superseded.
    """

    id: str
    namespace: str
    agent: str
    session_id: str
    compaction: int
    pass_name: PassName
    made_at: Instant
    form: Form
    kind: EntryKind
    role: Role
    text: str
    tokens: int
    original_tokens: int
    level: int
    tool: str | None
    call_id: str | None
    failed: bool
    pinned: bool
    importance: float
    at: Instant
    record_id: str | None
    covers: tuple[str, ...]
    replaces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneSummary:
    """A record that sums up another, made by an undone compaction."""

    record_id: str
    source_id: str


Piece = (
    Task | KnownSession | KnownPlace | WholeEntity | WholeRecord | ErasedRecord | WholeCompaction | WholeReplacement
    | UndoneSummary | Review
)  # fmt: skip


class Transfer(Protocol):
    """Takes the truth out of a store, or into an empty one.

    It keeps ids and assigns new change numbers. It leaves out vectors (`unembedded` names the records that lack them)
    and telemetry: reports of contexts, runs of passes.
    """

    def leave(self, namespace: str | None = None) -> Iterator[Origin | Piece]:
        """Yield the origin of the pieces, then all of them as of one moment, each after those it refers to.

        One namespace includes what is shared or private in it, not what is kept for the user everywhere. The order is
        fixed, so that equal memories give equal pieces. Raises StoreUnavailable.
        """
        ...

    def select(self, record_ids: Sequence[str]) -> Iterator[Origin | Piece]:
        """Yield the origin, the entities that these records mention, and the records, each as it is now, by id.

        Without its history, the sessions that confirmed it, what it stands on, its task, and a successor beyond them.
        Unknown ids are left out. Raises StoreUnavailable.
        """
        ...

    def is_empty(self) -> bool:
        """Return True where nothing was ever stored."""
        ...

    def enter(self, pieces: Iterable[Piece]) -> None:
        """Store all of the pieces, in the order they arrive, or none.

        Raises:
            Conflict: the store is not empty.
            InvalidRequest: a piece is there twice, or refers to what did not come before it.
            StoreUnavailable: nothing was changed; the message names the remedy.
        """
        ...
