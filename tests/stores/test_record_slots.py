"""Slots of records: the same whether a table over all numbers finds them or a sorted list of a part's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_memory.stores.record_numbers import NONE, RecordSlots

NUMBERS = st.lists(st.integers(1, 300) | st.integers(10**6, 10**6 + 300), unique=True, max_size=30)


@given(batches=st.lists(NUMBERS, max_size=8))
@example(batches=[[10**6], [*range(1, 301)], [*range(10**5)]])  # Few of all numbers, and then most.
@example(batches=[[*range(1, 301)], [10**6], [5, 10**6, 7]])
def test_each_number_keeps_the_slot_that_it_got_first(batches: Sequence[Sequence[int]]) -> None:
    """M1: counted from 0 in the order in which they came; unknown numbers have none."""
    slots, known = RecordSlots(), dict[int, int]()
    for batch in batches:
        numbers = np.array(batch, np.int64)
        if len(numbers):
            found = slots.add(numbers)
            for number in batch:
                known.setdefault(number, len(known))
            assert found.tolist() == [known[number] for number in batch]
        asked = [*list(known)[-50:], 0, 299, 301, 10**6 + 301, 10**7]
        expected = [known.get(number, NONE) for number in asked]
        assert slots.find(np.array(asked, np.int64)).tolist() == expected
        assert [slots.find_one(number) for number in asked] == expected
    assert slots.numbers[: slots.count].tolist() == list(known)
