"""A whole memory on its way out or in, a piece at a time: all of its truth, and nothing that can be made from it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.model.records import Details, Instant, Record
from mcp_memory.domain.model.session_log import EntryKind, Form, PassName, Role
from mcp_memory.domain.model.tasks import Task
from mcp_memory.ports.session_logs import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where pieces come from: the schema of the store, the one namespace or None for all, and how many they are."""

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
    """Where an agent stands in the task tree; the session is "" for the agent's own place."""

    namespace: str
    agent: str
    session_id: str
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeEntity:
    """An entity of a scope, under the name it was first given."""

    scope: str
    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierText:
    """What a record said before it was corrected; the text is "" where it is kept to be recognised only."""

    text: str
    normal_hash: str
    replaced_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMentioned:
    """What a record says of an entity; `aliases` are the keys of its other names."""

    name: str
    type: str
    properties: Details
    found: bool
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationSaid:
    """A relation that a record says; its ends are entities that the record mentions."""

    source: str
    source_type: str
    type: str
    target: str
    target_type: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRecord:
    """A record with all that is kept of it: earlier texts, oldest first, sessions that met it again, what it says."""

    record: Record
    earlier: tuple[EarlierText, ...]
    confirmed_in: tuple[str, ...]
    mentions: tuple[EntityMentioned, ...]
    relations: tuple[RelationSaid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRecord:
    """The id of a record that was erased, which is never used again."""

    id: str
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCompaction:
    """A compaction of a session's log, and whose log that is."""

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
    """What stands, or stood, in a log for others.

    `covers` are the originals that it stands for; `replaces` the earlier replacements that it took the place of.
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
    """A record that sums up another, by a compaction that was undone."""

    record_id: str
    source_id: str


Piece = (
    Task | KnownSession | KnownPlace | WholeEntity | WholeRecord | ErasedRecord | WholeCompaction | WholeReplacement
    | UndoneSummary
)  # fmt: skip


class Transfer(Protocol):
    """Takes the truth out of a store, or into an empty one.

    Ids are kept, change numbers given anew. Not carried are vectors (`unembedded` names what lacks them) and telemetry:
    accounts of contexts, runs of passes.
    """

    def leave(self, namespace: str | None = None) -> Iterator[Origin | Piece]:
        """Where the pieces come from, then all of them, as they are at one moment, each after those it refers to.

        Of one namespace: what is shared or private in it; not what is kept for the user everywhere. In a fixed order,
        so that equal memories give equal pieces. Raises StoreUnavailable.
        """
        ...

    def is_empty(self) -> bool:
        """True where nothing was ever stored."""
        ...

    def enter(self, pieces: Iterable[Piece]) -> None:
        """Put all of the pieces into the store, in the order they come, or none.

        Raises:
            Conflict: the store is not empty.
            InvalidRequest: a piece is there twice, or refers to what did not come before it.
            StoreUnavailable: nothing was changed; the message names the remedy.
        """
        ...
