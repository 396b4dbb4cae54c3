"""What a replaced text said otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.text.micro_and_summary import EARLIER_CHARACTERS, earlier_value


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        ("Retention is 90 days.", "Retention is 30 days.", "30 days"),
        ("The port is 6543, since the move.", "The port is 5432.", "5432"),
        ("Deploys run on Fridays at noon.", "deploys run on Mondays at noon", "Mondays"),
        ("We use SQLite for sessions.", "We use Redis and a cron job for sessions.", "Redis and a cron job"),
        ("The port is 6543 on staging.", "The port is 6543.", ""),
        ("Same.", "same", ""),
        ("Name since June: narwhal.", "The database is called penguin.", "The database is called penguin."),
        ("保留期是九十天。", "保留期是三十天。", "保留期是三十天。"),
    ],
)
def test_only_what_differs_is_said_where_that_is_short(now: str, before: str, said: str) -> None:
    """F7.2: else the beginning of the earlier text."""
    assert earlier_value(now, before) == said


def test_a_long_difference_is_cut() -> None:
    """F7.2: and a long text is not compared at all."""
    frame = "The release train leaves every other week from the main branch after the checks "
    assert len(earlier_value(frame + "and one review.", frame + "w " * 9)) <= EARLIER_CHARACTERS
    assert earlier_value("a b " * 600, "a b " * 599 + "c").startswith("a b a b")


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_two_texts_give_one_short_line(now: str, before: str) -> None:
    """F7.2."""
    said = earlier_value(now, before)
    assert len(said.splitlines()) <= 1
    assert earlier_value(before, before) == ""
