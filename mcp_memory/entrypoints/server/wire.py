"""Arguments of the tools: the fields of a request, and what its tool takes beside it or in another form.

Free text is a plain string, "" where it was not given; ids and times too, so that a schema has no 'or null' in it.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BeforeValidator, Field, JsonValue, StringConstraints, WithJsonSchema, create_model

from mcp_memory.domain.model.field_marks import Described, Range, Size
from mcp_memory.domain.model.limits import (
    MAX_ITEMS,
    MAX_NAME_CHARS,
    MAX_TEXT_CHARS,
    Name,
    OptionalId,
    SessionName,
    ShortText,
    When,
)
from mcp_memory.domain.model.records import MAX_ASKED, GivenKind, NewRecord
from mcp_memory.domain.model.requests import (
    CompactRequest,
    ContextRequest,
    Forgetting,
    Order,
    PopRequest,
    PushRequest,
    RecallRequest,
    Revision,
)
from mcp_memory.domain.model.reviews import Way
from mcp_memory.entrypoints.server.arguments import Arguments
from mcp_memory.entrypoints.server.request_arguments import Before, arguments_of

MAX_MESSAGES: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InSession:
    """The session that a call names."""

    session_id: SessionName = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideItem:
    """Times in words, and questions, which a record keeps among its details."""

    kind: GivenKind = "fact"
    asked_as: Annotated[
        tuple[Name, ...], Size(MAX_ASKED), Described("Questions it answers, to find it by"), Before("supersedes")
    ] = ()
    occurred_at: Annotated[When, Described("ISO time, date or phrase; default now")] = ""
    valid_from: When = ""
    valid_until: When = ""


class StrategyArgument(Arguments):
    """A strategy by name, with what to do differently; what a field may hold is checked where strategies are read."""

    name: Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS)] = ""
    order: Order | None = None
    decay_hours: JsonValue = None
    half_life_hours: JsonValue = None
    weights: JsonValue = None
    shares: JsonValue = None
    priorities: JsonValue = None
    limits: JsonValue = None
    least: JsonValue = None
    layout: JsonValue = None
    depth: JsonValue = None
    failures: JsonValue = None


def _named(value: object) -> object:
    if not isinstance(value, (str, dict, StrategyArgument)):
        raise ValueError("must be a name or an object")
    return {"name": value} if isinstance(value, str) else cast("object", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideContext:
    """The session; and a strategy as a name or an object, whose order holds where the call names none."""

    strategy: Annotated[
        StrategyArgument | None,
        BeforeValidator(_named),
        WithJsonSchema(
            {
                "type": "string",
                "description": "auto, balanced, recent, important, clustered, decision, debugging, planning, question, "
                "creation, conversation, coding, support, research; or JSON {name, weights, limits, layout, order, …}",
            }
        ),
    ] = None
    session_id: Annotated[SessionName, Before("task_id")] = ""
    order: Order | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideCompact:
    """The session, its new part, a summary by the client's own model, and the tokens of the answer."""

    session_id: Annotated[SessionName, Before("window")] = ""
    messages: Annotated[
        tuple[dict[str, JsonValue], ...],
        Size(MAX_MESSAGES),
        WithJsonSchema(
            {
                "type": "array",
                "items": {"type": "object"},
                "description": "The conversation, or its new part, as your API has it",
            }
        ),
        Before("window"),
    ] = ()
    transcript: Annotated[str, Size(4_000), Described("Or your transcript's path"), Before("window")] = ""
    summarizer: Annotated[
        Literal["extractive", "model", "caller", "sampling"] | None,
        Described("caller: you get prompt and span; call again with summary and span"),
    ] = None
    max_tokens: Annotated[int, Range(500, 1_000_000)] = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideRevision:
    """Times in words; and a group of records to settle, or a change to undo, instead of a revision."""

    valid_from: When = ""
    valid_until: When = ""
    settle: Annotated[
        Literal[Way, "undo"] | None, Described("id is a group's; for undo a change's"), Before("reason")
    ] = None
    keep: Annotated[OptionalId, Before("reason")] = ""
    when: Annotated[ShortText, Before("reason")] = ""


ItemArgument = arguments_of("ItemArgument", NewRecord, BesideItem)
_ITEM_TUPLE: Any = cast("Any", tuple)[ItemArgument, ...]
_ITEMS: Any = Annotated[
    (
        _ITEM_TUPLE,
        Field(max_length=MAX_ITEMS, strict=False),
        WithJsonSchema(
            {
                "type": "array",
                "items": {"type": "object"},
                "description": "Instead of text: 1-500 objects of these fields; fields beside items are defaults",
            }
        ),
    )
]
RememberArguments = create_model(
    "RememberArguments",
    __base__=ItemArgument,
    text=(Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)], ""),
    items=(_ITEMS, ()),
)
RecallArguments = arguments_of("RecallArguments", RecallRequest)
ContextArguments = arguments_of("ContextArguments", ContextRequest, BesideContext)
PushArguments = arguments_of("PushArguments", PushRequest, InSession)
PopArguments = arguments_of("PopArguments", PopRequest, InSession)
CompactArguments = arguments_of("CompactArguments", CompactRequest, BesideCompact)
ReviseArguments = arguments_of("ReviseArguments", Revision, BesideRevision)
ForgetArguments = arguments_of("ForgetArguments", Forgetting)
