"""Markdown of stored texts is drawn, and nothing in a text becomes more than words, lists, code and links by http."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.page.markdown import MOST_DRAWN, drawn, has_markup, inline, words_of
from mcp_memory.entrypoints.page.memories import Match, match_of, show_memories
from mcp_memory.entrypoints.page.record import show_record
from tests.entrypoints.page.conftest import asked, memory_of


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[App]:
    made = memory_of(tmp_path / "data")
    yield made
    made.close()


def test_what_people_write_is_drawn() -> None:
    html = drawn(
        "# Release\n\n1. `just check`\n2. **Tag** it\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nSee [docs](https://a.example/b)."
    )
    for part in (
        '<p class="heading">Release</p>', "<ol>", "<code>just check</code>", "<strong>Tag</strong>", "<td>1</td>",
        '<a href="https://a.example/b" rel="noopener noreferrer nofollow">docs</a>',
    ):  # fmt: skip
        assert part in html
    assert has_markup(html)
    assert not has_markup(drawn("One line\nand another"))


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![picture](https://a.example/pixel.png)",
        "[run](javascript:alert(1))",
        "[run](JaVaScRiPt:alert(1))",
        "[run](data:text/html,x)",
        "[ours](/ui/record/r00001a)",
        "<javascript:alert(1)>",
        '[x](https://a.example/"onmouseover="alert(1))',
        "<a href=https://a.example onclick=alert(1)>x</a>",
        "[r]: javascript:alert(1)",
        "&lt;script&gt; \u202egnp.exe",
    ],
)
def test_no_text_becomes_more_than_words_and_links_by_http(hostile: str) -> None:
    """S3.1: no tag of its own, no attribute, no picture, and no link elsewhere than to the web."""
    html = drawn(hostile)
    tags = re.findall(r"<(\w+)([^>]*)>", html)
    assert {tag for tag, _ in tags} <= {"p", "a"}
    for tag, attributes in tags:
        assert re.fullmatch(r' href="https?://[^"<>]*" rel="[a-z ]*"', attributes) if tag == "a" else not attributes
    assert "\u202e" not in html


@pytest.mark.parametrize(
    "text", ["src/**/*.py and tests/**/*.py", "*.py, *.md", "2 * 3 * 4", "snake_case_name", "a&amp;b"]
)
def test_what_only_looks_like_emphasis_keeps_its_characters(text: str) -> None:
    for html in (drawn(text), inline(text)):
        assert re.sub("<[^>]*>", "", html).replace("&amp;", "&") == text


def test_words_of_a_question_are_marked_in_any_inflection() -> None:
    marked = inline("**Exports** of <b> & `exported` rows", words_of("how is it exported"))
    assert marked == (
        "<strong><mark>Exports</mark></strong> of &lt;b&gt; &amp; <code><mark>exported</mark></code> rows"
    )
    assert inline("All of it", words_of("")) == "All of it"


def test_a_search_tells_scores_and_marks_words_and_what_nothing_mentions(memory: App) -> None:
    """U1.1: as the gate of `recall` lets them through."""
    memory.remember([NewRecord(text="The ferry to the island leaves at nine.")], memory.caller())
    memory.remember([NewRecord(text="Bread is baked on Mondays.")], memory.caller())
    page = asked(memory, show_memories, query={"q": "at what time does the ferry leave"})
    assert "<mark>ferry</mark>" in page
    assert re.search(r'class="score"[^>]*><svg.*?</svg>close match<', page)
    assert "1 found, best first" in page
    assert "Bread" not in page
    both = {"q": "ferry bread"}
    assert "2 found, best first" in asked(memory, show_memories, query=both)
    assert "2 to 2, best first" in asked(memory, show_memories, query=both | {"offset": "1"})
    page = asked(memory, show_memories, query={"q": "Zanzibar ferry"})
    assert "Nothing here mentions Zanzibar." in page
    assert re.search(r'class="score"[^>]*><svg.*?</svg>weak match<', page), "as agents are told"


@pytest.mark.parametrize(
    ("query", "score", "told", "bar"),
    [
        ("when does the first ferry leave", 0.72, "close match", 0.72),
        ("when does the first ferry leave", 0.3, "fair match", 0.3),
        ("when does the first ferry leave", 0.19, "weak match", 0.19),
        ("island ferry", 0.05, "close match", None),
        ("banana ferry", 0.99, "fair match", None),
        ("banana ferry", 0.1, "weak match", None),
    ],
)
def test_a_match_is_told_by_a_word_and_never_as_a_chance(
    query: str, score: float, told: str, bar: float | None
) -> None:
    """U1.1: of one or two words only where the record has them all, in its text or its tags."""
    result = {"text": "The ferry leaves at nine.", "tags": ["island"], "score": score}
    assert match_of(result, words_of(query), is_nearest=False) == Match(words=told, bar=bar)
    assert match_of(result, words_of(""), is_nearest=False) is None
    assert match_of(result, words_of(query), is_nearest=True) == Match(words="weak match", bar=min(score, 0.2))


def test_a_record_is_drawn_and_shown_as_it_is_stored(memory: App) -> None:
    """U1.1: what is too long to be drawn is shown as it is stored."""
    [short, long] = memory.remember(
        [
            NewRecord(text="Run `just check`:\n\n- first\n- then"),
            NewRecord(text="`x`\n" + "so on " * (MOST_DRAWN // 6 + 1)),
        ],
        memory.caller(),
        advise=False,
        embed=False,
    )
    page = asked(memory, show_record, parts={"id": short.id})
    assert '<div class="prose" id="text"><p>Run <code>just check</code>:</p>\n<ul>' in page
    assert '<div class="prose plain">Run `just check`:\n\n- first\n- then</div>' in page
    assert '<div class="prose plain" id="text">`x`\nso on' in asked(memory, show_record, parts={"id": long.id})
