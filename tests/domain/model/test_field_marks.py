"""O3.1: marks say once what the program does with a field; those of words are tried where texts are cleaned."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest

from mcp_memory.domain.model import field_marks
from mcp_memory.domain.model.field_marks import NoArgument, Size, Told, arguments, marked, unmarked
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.requests import TOOL_REQUESTS

PAGE = Path(__file__).parents[3] / "docs" / "adding-a-field.md"


def texts(wanted: Any, limits: int = 0) -> list[int]:
    """The number of limits on each text inside a type; a text that is one of a few words has no need of any."""
    limits += sum(isinstance(mark, Size) for mark in getattr(wanted, "__metadata__", ()))
    value = unmarked(wanted)
    if value is str:
        return [limits]
    if get_origin(value) is Literal:
        return []
    return [found for part in get_args(value) if part is not Ellipsis for found in texts(part, limits)]


@pytest.mark.parametrize("tool", TOOL_REQUESTS)
def test_every_text_of_a_call_has_a_limit(tool: str) -> None:
    types = {each.name: each.type for each in fields(TOOL_REQUESTS[tool])}
    taken_beside = {"strategy"}  # In another form, whose limit is that of wire.py.
    for name in set(arguments(TOOL_REQUESTS[tool])) - taken_beside:
        assert all(texts(types[name])), name


def test_no_two_fields_are_told_in_the_same_place() -> None:
    places = [told.place for told in marked(Record, Told).values()]
    assert sorted(places) == list(range(len(places)))


def test_a_mark_is_found_where_it_stands_and_nowhere_else() -> None:
    assert [*marked(Record, Told)][:2] == ["visibility", "kind"]
    assert "found" not in arguments(NewRecord)
    assert "files" in marked(NewRecord, NoArgument)
    assert unmarked(Annotated[int, Told(1)]) is unmarked(int) is int


def test_the_page_for_newcomers_explains_marks_that_there_are() -> None:
    named = set(re.findall(r"`([A-Z]\w+)\(", PAGE.read_text("utf-8")))
    assert named >= {"CallerWords", "Told", "MergedBy", "Fixed", "Unversioned", "Derived"}
    assert all(hasattr(field_marks, name) for name in named)
