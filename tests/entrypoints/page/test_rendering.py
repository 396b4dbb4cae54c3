"""Values become HTML: hidden signs in sight, times in words, and texts compared by words in bounded time."""

from __future__ import annotations

import pytest

from mcp_memory.entrypoints.page import rendering
from mcp_memory.entrypoints.page.contexts import TONES
from mcp_memory.entrypoints.page.rendering import (
    COLOURS,
    MOST_STEPS,
    MOST_WORDS,
    DiffPart,
    WordDiff,
    assets,
    bar_of,
    day_in_words,
    environment,
    in_words,
    when,
    with_commands,
)
from mcp_memory.entrypoints.page.visits import safe_path

NOW = 1_795_486_421.0


def test_every_section_has_a_colour_of_its_own() -> None:
    """U1.1: the same in every context, whatever else stands there."""
    [alone] = bar_of([("Past Experience", 10)], 100, TONES)
    assert alone.tone == TONES["Past Experience"]
    tones = [part.tone for part in bar_of([(title, 10) for title in TONES], 1_000)]
    assert len({*tones}) == len(tones) == COLOURS
    assert bar_of([(str(number), 1) for number in range(COLOURS + 1)], 100)[-1].tone == 0
    rules = assets()["screens.css"].content.decode()
    colours = [rules.partition(f".tone{tone} {{")[2].partition("}")[0] for tone in tones]
    assert all(colours)
    assert len({*colours}) == COLOURS


def test_a_command_in_a_message_is_set_as_one_and_nothing_of_it_is_markup() -> None:
    assert (
        with_commands("<b> or `mcp-memory reindex`; `x\u202e<i>`.")
        == '&lt;b&gt; or <code class="long">mcp-memory reindex</code>; <code class="long">x⟦U+202E⟧&lt;i&gt;</code>.'
    )
    assert with_commands("a lone ` mark") == "a lone ` mark"


def told(parts: list[DiffPart]) -> str:
    """The difference in signs: [-old-][+new+]."""
    marks = {"same": "{}", "old": "[-{}-]", "new": "[+{}+]"}
    return "".join(marks[part.kind].format(part.text) for part in parts)


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("The API is on port 8080.", "The API is on port 18080.", "The API is on port [-8080-][+18080+]."),
        ("port 8080", "port 8081", "port [-8080-][+8081+]"),
        ("a b c d e", "a x c y e", "a [-b-][+x+] c [-d-][+y+] e"),
        ("one two three", "one three", "one [-two -]three"),
        ("same", "same", "same"),
        ("", "new words", "[+new words+]"),
        ("old words", "", "[-old words-]"),
        ("tea at four", "tea at four o'clock", "tea at four[+ o'clock+]"),
        ("we keep cats", "we do not keep dogs", "we [+do not +]keep [-cats-][+dogs+]"),
        ("Grüße 日本", "Grüße 日本語", "Grüße [-日本-][+日本語+]"),
    ],
)
def test_a_difference_is_told_in_whole_words(old: str, new: str, difference: str) -> None:
    assert told(WordDiff()(old, new)) == difference


def test_what_both_texts_share_is_cut_to_what_is_near_the_change() -> None:
    common = "word " * 1_000
    [before, old, new, after] = WordDiff()(f"{common}cats {common}", f"{common}dogs {common}")
    assert (old.text, new.text) == ("cats", "dogs")
    assert len(before.text) == len(after.text) == rendering.CONTEXT_CHARACTERS
    assert before.cut == 5_000 - rendering.CONTEXT_CHARACTERS


def test_a_change_within_an_endless_word_is_looked_for_at_its_edge_alone() -> None:
    """A text of a million letters without a blank was walked through, letter by letter, for each version."""
    for old, new in (("1", "2"), ("1" + "a" * 10_000, "2" + "a" * 10_000)):
        [before, was, now, *_] = WordDiff()("a" * 10_000 + old, "a" * 10_000 + new)
        assert before.cut == 10_000 - rendering.WORD_CHARACTERS - rendering.CONTEXT_CHARACTERS
        assert len(was.text) == len(now.text) <= 2 * rendering.WORD_CHARACTERS + 1


def test_texts_that_differ_much_are_compared_by_lines_and_then_as_wholes() -> None:
    many = [f"line {number} " + "x y z " * 20 for number in range(100)]
    changed = [*many[:50], "a new line", *many[50:]]
    changed[0], changed[-1] = "first", "last"
    parts = WordDiff()("\n".join(many), "\n".join(changed))
    assert DiffPart("new", "a new line\n") in parts
    whole = WordDiff()("a b " * 900, "b a " * 900 + "c")
    assert [part.kind for part in whole] == ["old", "new"]
    assert whole[0].cut == 3_600 - rendering.SHOWN_CHARACTERS


@pytest.mark.parametrize("words", ["a " * MOST_WORDS, "a b " * (MOST_WORDS // 2), "\n" * 100_000, "x" * 1_000_000])
def test_the_work_for_one_page_is_bounded_whatever_the_texts(words: str) -> None:
    """Equal words, of which each may answer to each, took a cubic time; one page compares fifty versions."""
    cells = 0

    class Counting(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal cells
            cells += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    compare = WordDiff()
    with pytest.MonkeyPatch.context() as patch:
        findall = rendering._PARTS.findall  # noqa: SLF001

        class Parts:
            @staticmethod
            def findall(text: str) -> list[str]:
                return [Counting(part) for part in findall(text)]

        patch.setattr(rendering, "_PARTS", Parts)
        for number in range(50):
            parts = compare(f"start {number} {words} end", f"begin {words}{number} {words} stop")
            assert {part.kind for part in parts} >= {"old", "new"}
    assert cells <= 3 * MOST_STEPS


def test_hidden_signs_are_spelled_out_and_nothing_else_is() -> None:
    render = environment().from_string("{{ text }}|{{ text|verbatim }}").render
    shown, verbatim = render(text="a\u202eb\u200b\u2800\U00013430\x9b <i>").split("|")
    assert shown == "a⟦U+202E⟧b⟦U+200B⟧⟦U+2800⟧⟦U+13430⟧⟦U+009B⟧ &lt;i&gt;"
    assert verbatim == "a\u202eb\u200b\u2800\U00013430\x9b &lt;i&gt;"
    assert render(text="naïve 日本\nnext") == "naïve 日本\nnext|naïve 日本\nnext"
    assert render(text='"\u202e" onclick="x').count('"') == 0


def test_times_are_told_in_words() -> None:
    ago = {0: "just now", 60: "1 minute ago", 7_300: "2 hours ago", 90_000: "1 day ago", 86_400 * 40: "2026-10-15"}
    assert {seconds: in_words(NOW - seconds, NOW) for seconds in ago} == ago
    days = {0: "Today", 86_400: "Yesterday", 86_400 * 2: "Nov 22", 86_400 * 340: "2025-12-19"}
    assert {seconds: day_in_words(NOW - seconds, NOW) for seconds in days} == days
    assert in_words(NOW + 7_300, NOW) == "in 2 hours"
    assert in_words(float("nan"), NOW) == in_words(1e300, NOW) == "at an unknown time"
    assert str(when(NOW, NOW)).startswith('<time datetime="2026-11-24T')
    assert "unknown" in when(None, NOW)


@pytest.mark.parametrize(
    "path",
    ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:1", "", "/" + "a" * 3_000, "/\u202e"],
)
def test_a_form_leads_back_to_a_page_of_ours_alone(path: str) -> None:
    assert safe_path(path) == "/"
    assert safe_path("/record/r000001?done=changed") == "/record/r000001?done=changed"
