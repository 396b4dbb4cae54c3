"""Arguments of the tools: the one place that knows the protocol's words and their limits.

Free text is a plain string, "" where it was not given; ids and times too, so that a schema has no 'or null' in it.
"""

from dataclasses import fields
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints, WithJsonSchema

from mcp_memory.domain.model.lifecycle import Feedback
from mcp_memory.domain.model.records import (
    MAX_ASKED,
    MAX_NAME_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
    MAX_TEXT_CHARS,
    Detail,
    GivenKind,
    Kind,
    Outcome,
    Status,
    Visibility,
)
from mcp_memory.domain.model.reviews import Way
from mcp_memory.domain.model.tasks import FinalStatus
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.entrypoints.server.arguments import Arguments, Opened
from mcp_memory.services.memory.forget import ForgetMode

Order = Literal["best_first", "reverse", "edges"]

MAX_ITEMS = 500
MAX_MESSAGES = 50_000


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _no_controls(name: str) -> str:
    """Texts are cleaned; a name that was would be another name."""
    if without_controls(name)[1]:
        raise ValueError("must hold no control character")
    return name


Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS), AfterValidator(_not_blank)]
LongText = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]
Words = Annotated[str, StringConstraints(max_length=100_000)]
Goal = Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_not_blank)]
ShortText = Annotated[str, StringConstraints(max_length=2_000)]
NameText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS)]
OptionalName = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS)]
SessionName = Annotated[OptionalName, AfterValidator(_no_controls)]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TAG_CHARS), AfterValidator(_no_controls)]
ShortId = Annotated[str, StringConstraints(min_length=1, max_length=32), AfterValidator(_no_controls)]
OptionalShortId = Annotated[str, StringConstraints(max_length=32), AfterValidator(_no_controls)]
When = Annotated[str, StringConstraints(max_length=100)]

SeenVersion = Annotated[int, Field(ge=0, description="As recalled; refused if newer")]

ItemT = TypeVar("ItemT")
UpTo100 = Annotated[tuple[ItemT, ...], Field(strict=False, max_length=100), Opened]
TagTexts = Annotated[tuple[Tag, ...], Field(max_length=MAX_TAGS, strict=False), Opened]
ShortIds = Annotated[tuple[ShortId, ...], Field(max_length=MAX_ITEMS, strict=False), Opened]
Names = UpTo100[NameText]
# The kinds are listed where records are made; a filter's error names them.
KindNames = Annotated[
    tuple[Annotated[Kind, WithJsonSchema({"type": "string"})], ...], Field(strict=False, max_length=20), Opened
]
Properties = Annotated[dict[str, JsonValue], Field(max_length=100), Opened, WithJsonSchema({"type": "object"})]


class EntityArgument(Arguments):
    """A thing the record mentions."""

    name: NameText
    type: OptionalName = ""
    properties: Properties = Field(default_factory=dict)


class RelationArgument(Arguments):
    """`source --[type]--> target`, between names of entities."""

    source: NameText
    type: NameText
    target: NameText
    weight: Annotated[float, Field(gt=0, le=1)] = 1.0


class ItemArgument(Arguments):
    """One of several records."""

    text: Text
    kind: GivenKind = "fact"
    importance: Annotated[float, Field(ge=0, le=10)] = 1.0
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    tags: TagTexts = ()
    entities: UpTo100[EntityArgument] = ()
    relations: UpTo100[RelationArgument] = ()
    outcome: Outcome | None = None
    details: Annotated[
        Properties,
        WithJsonSchema(
            {
                "type": "object",
                "description": "procedure: name, description; censor: trigger, reason, action (warn|block), domain; "
                "decision: reasons, alternatives; event: type, path, command, stdout, stderr, message, stack",
            }
        ),
    ] = Field(default_factory=dict)
    asked_as: Annotated[
        tuple[NameText, ...],
        Field(max_length=MAX_ASKED, strict=False, description="Questions it answers, to find it by"),
        Opened,
    ] = ()
    supersedes: Annotated[ShortIds, Field(description="Records this one replaces")] = ()
    depends_on: ShortIds = ()
    reassert: Annotated[bool, Field(description="Store though a newer record superseded this text")] = False
    task_id: OptionalShortId = ""
    session_id: SessionName = ""
    occurred_at: Annotated[When, Field(description="ISO time, date or phrase; now where not given")] = ""
    valid_from: When = ""
    valid_until: When = ""
    pinned: Annotated[bool, Field(description="Always part of contexts")] = False
    visibility: Annotated[
        Visibility, Field(description="private: this agent; shared: this project; user: this person, in every project")
    ] = "shared"
    speaker: OptionalName = ""
    role: OptionalName = ""
    tool: OptionalName = ""
    call_id: OptionalName = ""


class RememberArguments(ItemArgument):
    """One record, or several that share the fields given beside them."""

    text: LongText = ""
    items: Annotated[
        tuple[ItemArgument, ...],
        Field(max_length=MAX_ITEMS, strict=False),
        Opened,
        WithJsonSchema(
            {
                "type": "array",
                "items": {"type": "object"},
                "description": "Instead of text: 1-500 objects of these fields; fields beside items are defaults",
            }
        ),
    ] = ()


class RecallArguments(Arguments):
    """A query, or ids to open."""

    query: Words = ""
    ids: Annotated[ShortIds, Field(description="Open these records, or a context's account, instead")] = ()
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    detail: Detail = "summary"
    kinds: KindNames = ()
    tags: TagTexts = ()
    entities: Names = ()
    since: Annotated[When, Field(description='Date, ISO time or phrase ("last week")')] = ""
    until: When = ""
    task_id: OptionalShortId = ""
    session_id: SessionName = ""
    include_inactive: bool = False
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    max_tokens: Annotated[int, Field(ge=100, le=1_000_000)] = 2000
    explain: bool = False
    as_of: Annotated[When, Field(description="What was believed then")] = ""


class StrategyArgument(Arguments):
    """A strategy by name, with what to do differently; what a field may hold is checked where strategies are read."""

    name: OptionalName = ""
    order: Order | None = None
    decay_hours: JsonValue = None
    half_life_hours: JsonValue = None
    weights: Annotated[JsonValue, Opened] = None
    shares: Annotated[JsonValue, Opened] = None
    priorities: Annotated[JsonValue, Opened] = None
    limits: Annotated[JsonValue, Opened] = None
    least: Annotated[JsonValue, Opened] = None
    layout: JsonValue = None
    depth: JsonValue = None
    failures: JsonValue = None


def _named(value: object) -> object:
    if not isinstance(value, str | dict | StrategyArgument):
        raise ValueError("must be a name or an object")
    return {"name": value} if isinstance(value, str) else cast("object", value)


class ContextArguments(Arguments):
    """The purpose of a context, and the choices for putting it together."""

    query: Annotated[Words, Field(description="What you are about to do")] = ""
    max_tokens: Annotated[int, Field(ge=64, le=1_000_000)] | None = None
    strategy: Annotated[
        StrategyArgument | None,
        BeforeValidator(_named),
        Opened,  # runs first
        WithJsonSchema(
            {
                "type": ["string", "object"],
                "description": "auto, balanced, recent, important, clustered, decision, debugging, planning, question, "
                "creation, conversation, coding, support, research; or {name, weights, limits, layout, order, …}",
            }
        ),
    ] = None
    session_id: SessionName = ""
    task_id: OptionalShortId = ""
    kinds: KindNames = ()
    tags: TagTexts = ()
    entity_types: Names = ()
    since: When = ""
    until: When = ""
    exclude: ShortIds = ()
    additional_context: Annotated[LongText, Field(description="Text to include, such as the files at hand")] = ""
    order: Order | None = None
    decay_hours: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    previous: Annotated[
        OptionalShortId, Field(description="Your last context's id: answers 'unchanged', or what is new")
    ] = ""
    compress: bool = False
    explain: bool = False
    as_of: When = ""


class PushArguments(Arguments):
    """A new task, a plan of subtasks, or an existing task to enter."""

    goal: Annotated[str, StringConstraints(max_length=2_000)] = ""
    task_id: Annotated[OptionalShortId, Field(description="Enter this planned or blocked task instead")] = ""
    parent_id: Annotated[OptionalShortId, Field(description="Where goal or plan goes, if not here")] = ""
    plan: Annotated[UpTo100[Goal], Field(description="Goals of the steps ahead")] = ()
    success_criteria: Words = ""
    inherit: Annotated[ShortIds, Field(description="Records the task should see")] = ()
    branch: Annotated[bool, Field(description="Keep what is stored here out of the trunk until popped")] = False
    takeover: Annotated[bool, Field(description="Enter though another is in it")] = False
    session_id: SessionName = ""


class PopArguments(Arguments):
    """The end of the current task, or of the one named."""

    result: Annotated[Text, Field(description="The result, in words the parent needs")]
    status: FinalStatus = "complete"
    artifacts: Annotated[UpTo100[ShortText], Field(description="Paths, links")] = ()
    task_id: Annotated[OptionalShortId, Field(description="If not the current; planned too")] = ""
    cascade: Annotated[bool, Field(description="End its open subtasks too")] = False
    session_id: SessionName = ""


class CompactArguments(Arguments):
    """The log to compact, the way, and the summarizer."""

    session_id: SessionName = ""
    messages: Annotated[
        tuple[dict[str, JsonValue], ...],
        Field(strict=False, max_length=MAX_MESSAGES),
        Opened,
        WithJsonSchema(
            {
                "type": "array",
                "items": {"type": "object"},
                "description": "The conversation, or its new part, as your API has it",
            }
        ),
    ] = ()
    transcript: Annotated[str, StringConstraints(max_length=4_000), Field(description="Or your transcript's path")] = ""
    window: Annotated[int, Field(ge=1_000, le=100_000_000, description="Yours, in tokens")] | None = None
    preset: Annotated[OptionalName, Field(description="default, aggressive, conservative")] = ""
    passes: Annotated[
        tuple[NameText, ...],
        Field(strict=False, max_length=10, description="mask, tool_calls, dialogue, threshold, goal_batch"),
        Opened,
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ] = ()
    summarizer: Annotated[
        Literal["extractive", "model", "caller", "sampling"] | None,
        Field(description="caller: you get prompt and span; call again with summary and span"),
    ] = None
    summary: LongText = ""
    span: OptionalName = ""
    instructions: Annotated[Words, Field(description="Added to the prompt")] = ""
    prompt: Annotated[Words, Field(description="Replaces it")] = ""
    force: Annotated[bool, Field(description="Summarise at any fill")] = False
    undo: Annotated[bool, Field(description="Take the latest back")] = False
    max_tokens: Annotated[int, Field(ge=500, le=1_000_000)] = 8000


class ReviseArguments(Arguments):
    """The changes to a record."""

    id: ShortId
    text: LongText = ""
    importance: Annotated[float, Field(ge=0, le=10)] | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    tags: TagTexts | None = None
    outcome: Outcome | None = None
    status: Status | None = None
    feedback: Feedback | None = None
    supersedes: Annotated[ShortIds, Field(description="Records this one replaces")] = ()
    pinned: bool | None = None
    visibility: Visibility | None = None
    valid_from: When = ""
    valid_until: When = ""
    settle: Annotated[Literal[Way, "undo"] | None, Field(description="id is a group's; for undo a change's")] = None
    keep: OptionalShortId = ""
    when: ShortText = ""
    reason: ShortText = ""
    version: SeenVersion | None = None


class ForgetArguments(Arguments):
    """Records to archive, to destroy, or to restore."""

    ids: Annotated[tuple[ShortId, ...], Field(strict=False, min_length=1, max_length=MAX_ITEMS), Opened]
    mode: ForgetMode = "retire"
    version: SeenVersion | None = None


RequestT = TypeVar("RequestT")


def request_of(shape: type[RequestT], arguments: Arguments, **others: object) -> RequestT:
    """Return the dataclass with the arguments of its fields' names; `others` are fields that differ.

    An empty text counts as not given: the dataclass's own default is used.
    """
    names = {field.name for field in fields(cast("Any", shape))} & type(arguments).model_fields.keys()
    same = {name: value for name in names if (value := getattr(arguments, name)) != ""}
    return shape(**{**same, **others})


def given(arguments: Arguments, *, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields that the call named, by name."""
    return {name: getattr(arguments, name) for name in arguments.model_fields_set - without}
