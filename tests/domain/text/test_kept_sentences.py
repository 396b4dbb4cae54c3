"""What of an agent's words is told where its work is told in short."""

import pytest

from mcp_memory.domain.text.statements import MAX_MESSAGE, telling

TOLD = (
    "We decided to use a queue, because two workers raced.",
    "Next step: add the index to the orders table.",
    "Still to do: rename the metric and then drop the old table.",
    "The export still needs its own lock.",
    "It turned out that the cache drops every row after a week.",
    "Worth knowing: the proxy reads its rules from the registry.",
    "The root cause is a missing lock in the writer.",
    "According to the log, Maria Novak wrote the exporter.",
    "下一步：给订单表加索引。",
    "原因在于缓存键缺少租户。",
)
UNTOLD = (
    "The queue is shared by both workers.",
    "Let me look at the tests first.",
    "I'll read the file next.",
    "Shall I go on with the export?",
    "There it goes again, as it did before.",
    "ok",
    "x = compute(3)",
    "",
)


@pytest.mark.parametrize("sentence", TOLD)
def test_what_was_decided_found_out_and_left_to_do_is_told(sentence: str) -> None:
    found = telling(f"Hello there. {sentence} There it goes again, as it did before.")
    assert sentence in [each.text for each in found]
    assert not any(each.is_dead_end for each in found)


@pytest.mark.parametrize("sentence", UNTOLD)
def test_plans_questions_and_chatter_are_not(sentence: str) -> None:
    assert sentence not in [each.text for each in telling(f"Hello there. {sentence}")]


def test_a_decision_tells_more_than_what_is_left_to_do() -> None:
    """In their order."""
    said = [TOLD[1], TOLD[0]]
    found = telling(f"The rest is fine. {' '.join(said)} And so on.")
    assert [each.text for each in found] == said
    assert found[0].worth < found[1].worth


def test_dead_ends_are_told_as_such() -> None:
    """E4.1: what led nowhere, also behind a "so"."""
    found = telling("So we tried a lock on the table, but it failed because the driver has none. It holds now.")
    assert [each.text for each in found if each.is_dead_end] == [
        "So we tried a lock on the table, but it failed because the driver has none."
    ]


def test_markup_makes_no_difference() -> None:
    found = telling("So, we decided to keep **the old** queue for [the export](https://example.org/a) alone.")
    assert [(each.text, each.worth == 3) for each in found] == [
        ("So, we decided to keep the old queue for the export alone.", True)
    ]


def test_a_label_makes_no_difference_either() -> None:
    found = telling("**Decision:** We chose Redis for the queue, because it is there.")
    assert [each.text for each in found if each.worth == 3] == [
        "Decision: We chose Redis for the queue, because it is there."
    ]


def test_what_no_piece_says_alike_is_told_as_it_was_stated() -> None:
    """E4.1: no dead end and no decision is lost to how a text is cut."""
    decided = "We decided [here](https://example.org/d) to keep the old queue for [all of it](https://example.org/a)."
    assert "We decided here to keep the old queue for all of it." in [each.text for each in telling(decided)]


@pytest.mark.uncounted
@pytest.mark.parametrize("unit", ["a", "Next step ", "We decided to go. ", "\n"])
def test_of_a_long_text_only_the_beginning_is_read(unit: str) -> None:
    begun = f"{TOLD[0]} {unit * (MAX_MESSAGE // len(unit))}"
    assert telling(begun + unit * 100_000 + TOLD[1]) == telling(begun[:MAX_MESSAGE])
