"""What a kind needs beside its text."""

from typing import Any

import pytest
from inline_snapshot import snapshot

from mcp_memory.domain.model.records import Json, Kind, checked_details, map_strings
from mcp_memory.errors import InvalidRequest


def test_known_details_of_the_right_type_pass_as_they_are() -> None:
    """C2.0: procedure, censor, decision and event; other details and kinds are kept."""
    given: list[tuple[Kind, dict[str, Json]]] = [
        ("procedure", {"name": "deploy", "description": "how"}),
        ("censor", {"trigger": "rm -rf", "reason": "lost data", "action": "block", "domain": "ops"}),
        ("decision", {"reasons": ["fast", "known"], "alternatives": [], "cost": 3}),
        ("event", {"type": "command", "command": "ls", "stdout": "", "exit": 0}),
        ("fact", {"name": 7, "nested": {"a": [1, None, True]}}),
    ]
    for kind, details in given:
        assert checked_details(kind, details) == details


def test_one_text_becomes_a_list_where_a_list_is_meant() -> None:
    """C2.0: a decision with one reason."""
    assert checked_details("decision", {"reasons": "it is fast"}) == {"reasons": ["it is fast"]}


@pytest.mark.parametrize(
    ("kind", "details"),
    [
        ("procedure", {"name": 7}),
        ("censor", {"action": "explode"}),
        ("censor", {"action": ["block"]}),
        ("decision", {"reasons": [1, 2]}),
        ("decision", {"alternatives": {"a": "b"}}),
        ("event", {"path": None}),
    ],
)
def test_a_known_detail_of_another_type_is_refused_by_name(kind: Kind, details: dict[str, Any]) -> None:
    """C2.0: the message names the field."""
    with pytest.raises(InvalidRequest, match=rf"details\.{next(iter(details))} of a {kind} must be"):
        checked_details(kind, details)


def test_every_text_inside_details_is_reached_names_included() -> None:
    """R4: secrets hide at any depth."""
    changed = map_strings({"a": "x", "b": ["y", {"c": "z", "d": 1}], "e": None, "f": 2.5, "g": True}, str.upper)
    assert changed == snapshot({"A": "X", "B": ["Y", {"C": "Z", "D": 1}], "E": None, "F": 2.5, "G": True})
