"""Micro and summary of a text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_memory.domain.detail import MICRO_TOKENS, SUMMARY_TOKENS, short_forms
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter

COUNTER = TiktokenCounter()
PIECES = [
    "The build fails. ",
    "word ",
    "e.g. ",
    "\n\n",
    "数据库在东京。",
    "🙂",
    "👩‍👩‍👧",
    ", ",
    "; then ",
    " — ",
    "x" * 50,
    "a\tb",
    "%$",
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), min_size=1, max_size=120).map("".join)


@given(TEXTS.filter(str.strip))
@example("x" * 5_000)
@example("\n".join(f"line {n} of three hundred" for n in range(300)))
@example("。" * 900)
@example("!" * 4_001 + " end")
@example("🙂" * 400)
@example("one two three " * 400)
def test_a_micro_has_at_most_20_tokens_and_a_summary_at_most_100(text: str) -> None:
    """C2.1: every record has both from the moment it is stored; neither is empty."""
    forms = short_forms(text, COUNTER.count, COUNTER.truncate)
    assert 0 < COUNTER.count(forms.micro) <= MICRO_TOKENS
    assert 0 < COUNTER.count(forms.summary) <= SUMMARY_TOKENS
    assert "\n" not in forms.micro
    if COUNTER.count(text.strip()) <= SUMMARY_TOKENS:
        assert forms.summary == text.strip()


def test_a_short_text_is_its_own_summary_and_micro() -> None:
    """C2.1: nothing is shortened that fits."""
    forms = short_forms("  Deploys go out on Tuesdays. ", COUNTER.count, COUNTER.truncate)
    assert forms.micro == forms.summary == "Deploys go out on Tuesdays."


def test_a_long_text_is_shortened_at_ends_of_sentences() -> None:
    """C2.1: whole sentences from the start, with a sign that more follows."""
    sentences = [f"Sentence number {n} speaks of the nightly build." for n in range(30)]
    forms = short_forms(" ".join(sentences), COUNTER.count, COUNTER.truncate)
    assert forms.micro == sentences[0]
    assert forms.summary.endswith("nightly build. …")
    assert " ".join(sentences).startswith(forms.summary.removesuffix(" …"))


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (
            "we moved the whole cluster over one long weekend in May, which went well until the last hour " * 3,
            "in May…",
        ),
        ("antidisestablishmentarianism " * 20, "ism…"),
        ("x1y2z3" * 60, "…"),
    ],
)
def test_one_long_sentence_is_cut_where_a_reader_would_pause(text: str, end: str) -> None:
    """C2.1: at a clause, else between words, else anywhere."""
    micro = short_forms(text, COUNTER.count, COUNTER.truncate).micro
    assert micro.endswith(end)
    assert text.startswith(micro.removesuffix("…"))


def test_a_text_that_is_long_by_its_blanks_alone_keeps_all_its_words() -> None:
    """C2.1: layout goes before words do."""
    text = "Step one." + "\n \t" * 200 + "Step two."
    assert short_forms(text, COUNTER.count, COUNTER.truncate).summary == "Step one. Step two. …"
