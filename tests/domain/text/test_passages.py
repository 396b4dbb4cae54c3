"""Which passages of a long text bear on a query, and how they are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.text.passages import Excerpt, Passages, best_part, passages

FILLER = [f"Sentence number {n} speaks of nothing in particular." for n in range(30)]
ANSWER = "The pump of the north well gives forty litres a minute."
TEXT = " ".join([*FILLER[:17], ANSWER, *FILLER[17:]])

NOTHING = Excerpt(text="", place="")


def words(text: str) -> int:
    """A count of tokens that is easy to follow."""
    return len(text.split())


def best(text: str, query: str, room: int = 12) -> str:
    return passages(text, query).excerpt(room, words).text


def test_the_sentence_that_holds_the_querys_words_is_shown_with_its_place() -> None:
    """F1.1: word for word, with an ellipsis for what is left out."""
    found = passages(TEXT, "How much does the pump of the well give?").excerpt(14, words)
    assert ANSWER in found.text
    assert found.text.startswith("… ")
    assert found.text.endswith(" …")
    assert found.place == "part 18 of 31"


def test_the_size_of_the_whole_is_told_and_counted() -> None:
    shown = passages(TEXT, "pump").shown(30, words, 250)
    assert shown.place == "part 18 of 31, 250 tokens"
    assert words(f"{shown.text} ({shown.place})") <= 30
    assert passages(TEXT, "pump").shown(8, words, 250) == NOTHING


def test_a_text_that_fits_is_its_own_best_part() -> None:
    """W1.1: whole where there is room."""
    assert best_part(TEXT, 250, "pump", 250, words) == Excerpt(text=TEXT, place="")
    assert best_part(TEXT, 250, "pump", 30, words) == passages(TEXT, "pump").shown(30, words, 250)


def test_a_word_of_every_sentence_tells_none_apart() -> None:
    """F1.1: rarity is measured within the text."""
    assert ANSWER in best(TEXT, "sentence number speaks of the pump", 14)


def test_room_that_is_left_widens_the_passage() -> None:
    assert f"{FILLER[16]} {ANSWER} {FILLER[17]}" in best(TEXT, "pump", 40)


def test_a_word_in_the_heading_counts_for_what_stands_below() -> None:
    text = "# Cold store\n\n" + " ".join(FILLER[:8]) + "\n\n# Pump house\n\nIt opens at six. " + " ".join(FILLER[8:16])
    assert "It opens at six." in best(text, "When does the pump house open?", 16)


def test_rows_are_shown_with_their_header() -> None:
    """F1.1."""
    rows = "\n".join(f"| rack {n} | {n * 7} kg |" for n in range(20))
    text = f"{FILLER[0]}\n\n| rack | load |\n|---|---|\n{rows}\n\n{FILLER[1]}"
    shown = best(text, "load of rack 13", 22)
    assert "| rack | load |" in shown
    assert "| rack 13 | 91 kg |" in shown


def test_rows_are_shown_with_a_header_that_says_nothing_of_the_query() -> None:
    text = "| shelf | load |\n|---|---|\n" + "\n".join(
        f"| {name} | 9 kg |" for name in ("oak", "elm", "ash", "yew", "fir")
    )
    assert "| shelf | load |" in best(text, "yew", 14)


def test_neighbours_of_what_does_not_fit_are_not_shown() -> None:
    """F1.1: alone they say nothing."""
    text = f"It rained. {ANSWER[:-1]} and {' '.join(['more'] * 20)}. It snowed."
    assert best(text, "pump", 12) == ""


def test_what_costs_more_joined_than_alone_is_not_shown() -> None:
    assert passages(TEXT, "pump").excerpt(20, lambda text: 1_000 if "…" in text else words(text)).text == ""


def test_code_that_nobody_closes_is_read_to_its_end() -> None:
    text = "```\n" + "\n".join(f"step {n} of the row" for n in range(60)) + "\nflash the pump\n\n\n"
    assert "flash the pump" in best(text, "flash", 120)
    assert "flash the pump" not in best("```\n" + "x" * 900 + "\n\n", "flash", 60)


def test_code_stays_whole_and_long_code_is_divided() -> None:
    """F1.1."""
    code = "```sh\nmake clean\nmake flash PORT=/dev/ttyUSB0\n```"
    text = "\n\n".join([*FILLER[:10], code, *FILLER[10:20]])
    assert "make clean\nmake flash PORT=/dev/ttyUSB0" in best(text, "how to flash", 16)
    long = "```\n" + "\n".join(f"step {n} of the row" for n in range(100)) + "\n```\n" + ANSWER
    assert ANSWER in best(long, "pump", 14)
    assert len(passages(long, "pump").units) > 2


def test_lines_of_a_log_and_items_stand_alone() -> None:
    log = "\n".join(f"2026-03-0{n} 10:00:00 INFO tick {n}" for n in range(1, 9))
    assert best(f"{log}\n2026-03-09 10:00:00 ERROR lock timeout", "timeout", 9).count("2026") == 1
    items = "\n".join(f"- item {n} is here" for n in range(9))
    assert "- item 7 is here" in best(f"{items}\n\n{FILLER[0]}", "item 7", 8)


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("Why did we drop the old pump?", "It would lose pressure every night, because the seal is porous."),
        ("How many bolts hold the pump?", "Eight bolts, M12, hold it: 8 in all."),
    ],
)
def test_what_is_asked_for_decides_among_equals(query: str, answer: str) -> None:
    """F1.1: a reason for why, a number for how many."""
    text = " ".join([*FILLER[:5], "We dropped the old pump.", answer, "It was painted green.", *FILLER[5:9]])
    assert answer in best(text.replace("number", "line"), query, 22)


def test_other_scripts_are_searched_by_their_signs() -> None:
    text = "今天天气很好。" * 10 + "水泵每分钟抽四十升水。" + "我们去散步。" * 10
    shown = passages(text, "水泵每分钟抽多少水？").excerpt(40, len).text
    assert "水泵每分钟抽四十升水。" in shown


def test_without_a_shared_word_the_beginning_is_shown() -> None:
    assert best(TEXT, "zebra", 11).startswith(FILLER[0])
    assert best(TEXT, "...", 11).startswith(FILLER[0])
    assert best("", "pump") == ""
    assert best("pump", "pump", 0) == ""


def test_a_text_without_words_has_no_passage() -> None:
    assert passages("-----\n" * 100, "pump").shown(50, words, 300) == NOTHING


def test_an_estimate_that_was_too_low_drops_the_weakest() -> None:
    """Joining may cost more than the sum of the parts."""
    sizes = iter(range(3, 1_000, 3))
    shown = Passages(text=TEXT, units=passages(TEXT, "pump").units, evidence=[1.0] * 31)
    assert words(shown.excerpt(40, lambda text: words(text) + next(sizes) // 50).text) <= 40


@given(st.text(alphabet="ab \n.#|-`x1", max_size=300), st.text(alphabet="ab x1", max_size=20), st.integers(0, 40))
def test_every_unit_is_of_the_text_and_every_excerpt_fits(text: str, query: str, room: int) -> None:
    found = passages(text, query)
    ends = [0, *(unit.end for unit in found.units)]
    assert all(before <= unit.start < unit.end <= len(text) for before, unit in zip(ends, found.units, strict=False))
    assert words(found.excerpt(room, words).text) <= max(room, 0)
