"""Makes the model that reads a tool's arguments from the dataclasses of its request, with the limits marked there.

Knows no single tool.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import Field as DataclassField
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import AfterValidator, Field, JsonValue, WithJsonSchema, create_model

from mcp_memory.domain.model.field_marks import (
    Described,
    NoArgument,
    NoControls,
    NotBlank,
    Range,
    Size,
    Unlisted,
    marked,
    unmarked,
)
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.entrypoints.server.arguments import Arguments


@dataclass(frozen=True, slots=True)
class Before:
    """Puts an argument in front of another one, for those who read the schema."""

    name: str


def arguments_of(name: str, *shapes: type) -> type[Arguments]:
    """Return the model that reads the fields of these dataclasses, but those marked `NoArgument`.

    A field takes the place of the one of its name in an earlier dataclass. For example

        limit: Annotated[int, Range(1, 100)] = 10
        since: Annotated[When, Described("A date")] | None = None

    is read as these two fields of a model would be:

        limit: Annotated[int, Field(ge=1, le=100)] = 10
        since: Annotated[str, Field(max_length=100), Field(description="A date")] | None = None
    """
    sent: dict[str, Any] = {}
    for shape in shapes:
        inner, places = marked(shape, NoArgument), marked(shape, Before)
        for field in fields(shape):
            if field.name not in inner:
                sent[field.name] = (_as_sent(field.type), _default(field))
            if field.name in places:
                sent = _in_front(sent, field.name, places[field.name].name)
    return create_model(name, __base__=Arguments, **sent)


def _in_front(sent: Mapping[str, Any], name: str, other: str) -> dict[str, Any]:
    names = [each for each in sent if each != name]
    names.insert(names.index(other), name)
    return {each: sent[each] for each in names}


def _default(field: DataclassField[Any]) -> Any:
    """Return the value of an argument that is not given; a text's is "", for which `request_of` puts the real one."""
    if field.default_factory is not MISSING:
        return Field(default_factory=field.default_factory)
    if isinstance(field.default, str) and unmarked(field.type) is str:
        return ""
    return ... if field.default is MISSING else field.default


def _as_sent(wanted: Any) -> Any:
    """Return a field's type as a client sends it: a tuple as a list, a dataclass as an object, our marks as pydantic's.

    `as_meant` reads what clients send in another form.
    """
    value, *marks = get_args(wanted) if get_origin(wanted) is Annotated else (wanted,)
    limits = [_limit(mark) for mark in marks if isinstance(mark, Size | Range)]  # First: the rest may change the value.
    others = [_pydantic(mark) for mark in marks if not isinstance(mark, Size | Range)]
    origin: Any = get_origin(value)
    if origin is tuple:
        items = cast("Any", tuple)[_as_sent(get_args(value)[0]), ...]
        return Annotated[(items, Field(strict=False), *limits, *others)]
    if origin is Mapping:
        return Annotated[(dict[str, JsonValue], *limits, WithJsonSchema({"type": "object"}), *others)]
    if origin in (Union, UnionType):
        value = cast("Any", Union)[tuple(map(_as_sent, get_args(value)))]
    elif is_dataclass(value):
        value = arguments_of(cast("type", value).__name__, cast("type", value))
    return Annotated[(value, *limits, *others)] if marks else value


def _limit(mark: Size | Range) -> Any:
    if isinstance(mark, Size):
        return Field(min_length=mark.least or None, max_length=mark.most)
    return Field(ge=mark.least, le=mark.most, gt=mark.above)


def _pydantic(mark: Any) -> Any:
    """Return pydantic's mark for ours; its own are unchanged."""
    if isinstance(mark, Described):
        return Field(description=mark.text)
    if isinstance(mark, NotBlank):
        return AfterValidator(_not_blank)
    if isinstance(mark, NoControls):
        return AfterValidator(_no_controls)
    return WithJsonSchema({"type": "string"}) if isinstance(mark, Unlisted) else mark


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _no_controls(name: str) -> str:
    if without_controls(name)[1]:
        raise ValueError("must hold no control character")
    return name


RequestT = TypeVar("RequestT")


def request_of(shape: type[RequestT], arguments: Arguments, **others: object) -> RequestT:
    """Return the dataclass with the arguments of its fields' names; `others` are fields that differ.

    An empty text counts as not given, as None does: the dataclass's own default is used.
    """
    names = {field.name for field in fields(cast("Any", shape))} & type(arguments).model_fields.keys()
    same = {name: value for name in names if (value := getattr(arguments, name)) not in ("", None)}
    return shape(**{**same, **others})


def given(arguments: Arguments, *, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields that the call named, by name."""
    return {name: getattr(arguments, name) for name in arguments.model_fields_set - without}
