"""What a record says of itself."""

from collections.abc import Callable

import pytest

from mcp_memory.domain.model.records import NewRecord, Record, Status


def test_a_record_without_importance_has_1() -> None:
    """A2.1: the default."""
    assert NewRecord(text="x").importance == 1.0


def test_a_dialogue_turn_is_indexed_with_who_spoke(make_record: Callable[..., Record]) -> None:
    """R5: short turns match on the name of the person asked about."""
    assert make_record("I moved to Porto.", speaker="Ada").searchable_text == "Ada: I moved to Porto."
    assert make_record("I moved to Porto.").searchable_text == "I moved to Porto."


@pytest.mark.parametrize(
    ("status", "is_live"),
    [
        ("new", True),
        ("confirmed", True),
        ("core", True),
        ("active", True),
        ("superseded", True),
        ("inactive", False),
        ("retired", False),
    ],
)
def test_a_record_proven_wrong_or_forgotten_is_out_of_search(
    make_record: Callable[..., Record], status: Status, is_live: bool
) -> None:
    """C8.1: superseded ones stay searchable."""
    assert make_record(status=status).is_live is is_live
