"""O3.1: a tool's arguments follow from the fields of its request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from inline_snapshot import snapshot

from mcp_memory.domain.model.field_marks import Described, NoArgument, Range, Size
from mcp_memory.domain.model.limits import Goal, Tag, When
from mcp_memory.domain.model.records import Json
from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.request_arguments import Before, arguments_of, given, request_of
from mcp_memory.entrypoints.server.strict_tool import schema_of
from mcp_memory.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: Tag
    type: str = "thing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    goal: Goal
    limit: Annotated[int, Range(1, 100)] = 10
    share: Annotated[float, Range(above=0, most=1)] | None = None
    parts: Annotated[tuple[Part, ...], Size(2)] = ()
    details: Annotated[Mapping[str, Json], Size(3)] = field(default_factory=dict[str, Json])
    at: float | None = None
    inner: Annotated[int, NoArgument()] = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    at: Annotated[When, Described("A date")] = ""
    colour: Annotated[Literal["red", "green"], Before("limit")] = "red"


MODEL = arguments_of("Model", Request, Beside)


def test_a_field_is_an_argument_with_its_limits_and_its_description() -> None:
    assert schema_of(MODEL) == snapshot(
        {
            "properties": {
                "goal": {"type": "string"},
                "colour": {"default": "red", "enum": ["red", "green"], "type": "string"},
                "limit": {"default": 10, "maximum": 100, "minimum": 1, "type": "integer"},
                "share": {"maximum": 1, "type": "number"},
                "parts": {
                    "items": {
                        "properties": {"name": {"type": "string"}, "type": {"type": "string"}},
                        "required": ["name"],
                        "type": "object",
                    },
                    "type": "array",
                },
                "details": {"type": "object"},
                "at": {"description": "A date", "type": "string"},
            },
            "required": ["goal"],
            "type": "object",
        }
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"goal": " "}, "`goal` must not be empty."),
        ({"goal": "a", "limit": 101}, "`limit` must be at most 100."),
        ({"goal": "a", "share": 0.0}, "`share` must be more than 0."),
        ({"goal": "a", "parts": [{"name": "a\x07"}]}, "`parts[0].name` must hold no control character."),
        ({"goal": "a", "parts": [{"name": "a"}] * 3}, "`parts` has too many items: at most 2; split the call up."),
        (
            {"goal": "a", "parts": [{"nam": "a"}]},
            "There is no field `nam` in `parts[0]`; the nearest is `name`. Known: name, type.",
        ),
        ({"goal": "a", "at": 3.0}, "`at` must be a string."),
        ({"goal": "a", "inner": 3}, "There is no field `inner`."),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, object], error: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_arguments(MODEL, arguments)
    assert error.removesuffix(".") in str(raised.value)


def test_the_request_has_what_was_given_and_its_own_defaults_for_the_rest() -> None:
    read = read_arguments(MODEL, {"goal": "a", "parts": [{"name": "b", "type": ""}], "share": None, "at": ""})
    parts = given(read)["parts"]
    assert request_of(Request, read) == Request(goal="a", parts=parts)
    assert request_of(Part, parts[0]) == Part(name="b")
    assert request_of(Request, read, at=3.0).at == 3.0
