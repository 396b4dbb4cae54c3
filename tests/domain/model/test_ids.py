"""Ids made from change numbers."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.ids import is_globally_unique, is_id, make_id, number_of


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


@given(st.integers(1, 2**45), st.sampled_from("rtc"))
def test_the_number_of_an_id_is_read_back(change: int, prefix: str) -> None:
    """S1.2: indexes go by it."""
    assert number_of(make_id(prefix, change)) == change
    assert is_id(make_id(prefix, change), prefix)
    assert not is_id(make_id(prefix, change), prefix.upper())


@given(
    st.text(max_size=12)
    | st.sampled_from(["r1k", "r00001i", "R00001k", "r00001K", "r0000001", "r-unknown", "r00001k\n", "ri000000"])
)
def test_what_is_no_id_has_no_number(text: str) -> None:
    """S3.1: ids come from callers, too."""
    number = number_of(text)
    assert number == 0 or make_id(text[0], number) == text


def test_only_a_random_uuid_is_unique_beyond_one_conversation() -> None:
    """P2.1: other ids may be counted from 1 in each."""
    random = "0b9c1f64-2d3a-4e5f-8a71-c60f9d2e47b8"
    for named in (random, f"{random}/2", random.upper(), f"run--{random}-0"):
        assert is_globally_unique(named)
    for named in (
        "",
        "1",
        "m1",
        "run--0b",
        "2026-11-28T15:46:01",
        f"{random}0",
        "00000000-0000-4000-8000-000000000012",
    ):
        assert not is_globally_unique(named)
