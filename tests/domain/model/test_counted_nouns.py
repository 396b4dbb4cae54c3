"""Things are counted as English counts them."""

import pytest

from mcp_memory.domain.model.counted_nouns import counted


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [
        (0, "group", "0 groups"), (1, "memory", "1 memory"), (2, "memory", "2 memories"), (2, "day", "2 days"),
        (1_204, "log event", "1,204 log events"),
    ],
)  # fmt: skip
def test_a_noun_follows_its_number(number: int, noun: str, told: str) -> None:
    assert counted(number, noun) == told
