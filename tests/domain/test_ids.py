"""Ids made from change numbers."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.ids import make_id


@given(st.integers(0, 2**45), st.integers(0, 2**45))
def test_later_changes_make_ids_that_sort_later_and_none_twice(first: int, second: int) -> None:
    """R1: ids sort by time, by length first."""
    one, other = make_id("r", first), make_id("r", second)
    assert (first < second) == ((len(one), one) < (len(other), other))
    assert (first == second) == (one == other)


def test_an_id_is_its_prefix_and_six_digits_without_lookalikes() -> None:
    """R1: short, and safe to read aloud."""
    assert [make_id("t", change) for change in (0, 31, 32)] == ["t000000", "t00000z", "t000010"]
    assert not set("ilou") & set("".join(make_id("", change) for change in range(2_000)))
