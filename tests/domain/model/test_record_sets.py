"""Sets of records by the numbers in their ids."""

from collections.abc import Set

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.ids import RecordSet, make_id

ids = st.sets(st.integers(1, 5_000).map(lambda number: make_id("r", number)))


@given(ids, ids)
def test_a_set_of_records_holds_just_those(members: Set[str], others: Set[str]) -> None:
    """B1.4: also of numbers beyond its last, and of what is no id."""
    held = RecordSet.of([*members, *members, "r-unknown"])
    assert len(held) == len(members)
    assert {record_id for record_id in members | others if record_id in held} == members
    assert "r-unknown" not in held
    assert held.flags[-1] == 0
