"""The requests of callers. Each field is an argument of a tool with its limits, unless a mark says that it is none.

The request to store a record is `NewRecord` beside `Record`. `entrypoints/server/wire.py` adds what a tool takes beside
its request, such as the session of the call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from mcp_memory.domain.model.field_marks import Described, NoArgument, Range, Replaces, Size, Unlisted
from mcp_memory.domain.model.lifecycle import Feedback
from mcp_memory.domain.model.limits import (
    MAX_ITEMS,
    Goal,
    Id,
    Ids,
    LongText,
    Name,
    Names,
    OptionalId,
    OptionalName,
    SessionName,
    ShortText,
    Tags,
    Text,
    When,
    Words,
)
from mcp_memory.domain.model.records import (
    Confidence,
    Detail,
    Details,
    Importance,
    Instant,
    Json,
    Kind,
    NewRecord,
    Outcome,
    Status,
    Visibility,
)
from mcp_memory.domain.model.session_log import Trigger
from mcp_memory.domain.model.tasks import FinalStatus

Kinds = Annotated[tuple[Annotated[Kind, Unlisted()], ...], Size(20)]
"""The kinds are listed where records are made."""
SeenVersion = Annotated[int, Range(least=0), Described("As recalled; refused if newer")]
Order = Literal["best_first", "reverse", "edges"]
Occasion = Literal["call", "start", "compaction", "prompt"]
"""The event at which a block is given: an agent's call, or one of a client's hooks."""
Who = Literal["extractive", "model", "caller"]
"""The author of summaries: the server by itself, a configured model, or the caller in two steps."""
ForgetMode = Literal["retire", "erase", "restore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """A query, or ids to open: records and tasks, one assembled context, or one summary of a session's log.

    `since`, `until`, `as_of`, `valid_at` are times or phrases; as of a time are what was believed then, and the words
    of then. What was not true at `valid_at`, by default now or that time, ranks below what was.
    With `event_types` only events are found, of these types. `authors` are agents. With `only_looks` what is shown does
    not count as opened: a person who looks around changes no ranking. With `before` a list continues from that
    position, an answer's `next_before`, instead of at an offset; "" is its beginning.
    """

    query: Words = ""
    ids: Annotated[Ids, Described("Open these records, or a context's account, instead")] = ()
    limit: Annotated[int, Range(1, 100)] = 10
    detail: Detail = "summary"
    kinds: Kinds = ()
    event_types: Names = ()
    tags: Annotated[Tags, Described("any of these; +tag must, -tag must not")] = ()
    authors: Annotated[tuple[str, ...], NoArgument()] = ()
    statuses: Annotated[tuple[Status, ...], NoArgument()] = ()
    entities: Names = ()
    since: Annotated[When, Described('Date, time or phrase ("last week")')] | None = None
    until: When | None = None
    task_id: OptionalId | None = None
    session_id: SessionName | None = None
    pinned: Annotated[bool, NoArgument()] = False
    include_inactive: bool = False
    offset: Annotated[int, Range(0, 10_000_000)] = 0
    max_tokens: Annotated[int, Range(100, 1_000_000)] = 2000
    explain: bool = False
    only_looks: Annotated[bool, NoArgument()] = False
    as_of: Annotated[When, Described("What was believed then")] | None = None
    valid_at: Annotated[When, Described("What was true then")] | None = None
    before: Annotated[str | None, NoArgument()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """A request for a context. `max_tokens` is in the client's tokens; None means the configured default.

    `overrides` are fields of the strategy to change in this call. The `notice`, a fact about this memory that the
    reader needs, is always in the block; in a small one the `short_notice`. As of a time (`as_of`, a phrase) the block
    shows what was believed then, without tasks; `valid_at` is that of a recall. The `occasion` is what asks for it.
    With `only_looks` nobody works with the block: no account of it is kept, and what it shows is not known to its
    caller.
    """

    query: Annotated[Words, Described("What you are about to do")] = ""
    max_tokens: Annotated[int, Range(64, 1_000_000)] | None = None
    strategy: str | None = None
    overrides: Annotated[Mapping[str, Json], NoArgument()] = field(default_factory=dict[str, Json])
    task_id: OptionalId | None = None
    kinds: Kinds = ()
    event_types: Names = ()
    tags: Tags = ()
    entity_types: Names = ()
    since: When | None = None
    until: When | None = None
    exclude: Ids = ()
    additional_context: Annotated[LongText, Described("Text to include, such as the files at hand")] = ""
    order: Order = "best_first"
    decay_hours: Annotated[float, Range(above=0, most=1_000_000)] | None = None
    previous: Annotated[OptionalId, Described("Your last context's id: answers 'unchanged', or what is new")] | None = (
        None
    )
    compress: bool = False
    explain: bool = False
    notice: Annotated[str, NoArgument()] = ""
    short_notice: Annotated[str, NoArgument()] = ""
    as_of: When | None = None
    valid_at: When | None = None
    occasion: Annotated[Occasion, NoArgument()] = "call"
    only_looks: Annotated[bool, NoArgument()] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest:
    """A new goal, a plan of subtasks, or a planned, blocked or active task to enter.

    `parent_id` names the parent of a new goal or of a plan by itself; by default the current task. A task that
    somebody else is in is entered with `takeover` alone. The words of a planned step below the parent enter that step.
    """

    goal: ShortText = ""
    task_id: Annotated[OptionalId, Described("Enter this planned or blocked task instead")] | None = None
    parent_id: Annotated[OptionalId, Described("Where goal or plan goes, if not here")] | None = None
    plan: Annotated[tuple[Goal, ...], Size(100), Described("Goals of the steps ahead")] = ()
    success_criteria: Words | None = None
    inherit: Annotated[Ids, Described("Records the task should see")] = ()
    branch: Annotated[bool, Described("Keep what is stored here out of the trunk until popped")] = False
    takeover: Annotated[bool, Described("Enter though another is in it")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PopRequest:
    """The result of the current task, or of the named one."""

    result: Annotated[Text, Described("The result, in words the parent needs")]
    status: FinalStatus = "complete"
    artifacts: Annotated[tuple[ShortText, ...], Size(100), Described("Paths, links")] = ()
    task_id: Annotated[OptionalId, Described("If not the current; planned too")] | None = None
    cascade: Annotated[bool, Described("End its open subtasks too")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """A request to compact. `window` is in the client's tokens; None, "" and () leave a choice to the settings.

    With `summary` and the `span` it was asked for, that summary replaces the span. `force` summarises below the
    threshold too, and where masks alone would do. `instructions` extend the summary's prompt; `prompt` replaces it.
    `undo` undoes the latest compaction; where `number` is given, that one alone.
    """

    window: Annotated[int, Range(1_000, 100_000_000), Described("Yours, in tokens")] | None = None
    preset: Annotated[OptionalName, Described("default, aggressive, conservative")] | None = None
    passes: Annotated[tuple[Name, ...], Size(10), Described("mask, tool_calls, dialogue, threshold, goal_batch")] = ()
    summarizer: Who | None = None
    summary: LongText = ""
    span: OptionalName = ""
    instructions: Annotated[Words, Described("Added to the prompt")] = ""
    prompt: Annotated[Words, Described("Replaces it")] = ""
    force: Annotated[bool, Described("Summarise at any fill")] = False
    undo: Annotated[bool, Described("Take the latest back")] = False
    number: Annotated[int | None, NoArgument()] = None
    trigger: Annotated[Trigger, NoArgument()] = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Changes to a record; None leaves a field unchanged.

    The `details` take their places beside those that the record has, which only a person's command does. The reason is
    kept with the new version; `version` is that of the record as the caller saw it.
    """

    id: Id
    text: LongText | None = None
    importance: Annotated[Importance | None, Replaces()] = None
    confidence: Annotated[Confidence | None, Replaces()] = None
    tags: Annotated[Tags | None, Replaces()] = None
    outcome: Outcome | None = None
    status: Status | None = None
    feedback: Feedback | None = None
    supersedes: Annotated[Ids, Described("Records this one replaces")] = ()
    pinned: Annotated[bool | None, Replaces()] = None
    visibility: Visibility | None = None
    valid_from: Instant | None = None
    valid_until: Instant | None = None
    details: Annotated[Details | None, NoArgument()] = None
    reason: ShortText = ""
    version: SeenVersion | None = None

    @property
    def changes(self) -> "Revision":
        """The changes alone."""
        return replace(self, reason="", version=None)

    @property
    def is_evidence(self) -> bool:
        """True where it only counts a use, which takes nothing back."""
        return self.feedback not in (None, "wrong") and self.changes == Revision(id=self.id, feedback=self.feedback)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """Records to retire, to erase, or to restore; `version` is the newest that the caller saw of them."""

    ids: Annotated[tuple[Id, ...], Size(MAX_ITEMS, least=1)]
    mode: ForgetMode = "retire"
    version: SeenVersion | None = None


TOOL_REQUESTS: Mapping[str, type] = {
    "assemble_context": ContextRequest,
    "compact": CompactRequest,
    "forget": Forgetting,
    "pop_task": PopRequest,
    "push_task": PushRequest,
    "recall": RecallRequest,
    "remember": NewRecord,
    "revise": Revision,
}
