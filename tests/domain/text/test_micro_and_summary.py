"""Micro and summary of a text."""

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_memory.domain.model.records import KINDS, Kind, Outcome, Record
from mcp_memory.domain.text.micro_and_summary import (
    MICRO_TOKENS,
    SUMMARY_TOKENS,
    ShortForms,
    measured,
    remeasured,
    short_forms,
)
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from tests.tallied import TalliedCounter

COUNTER = TiktokenCounter()
PIECES = [
    "The build fails. ",
    "However, we decided (after a week) to use Redis, which is old, because it is never down. ",
    "Never push to main, unless the tests pass; ",
    "for example, 1,000 rows, 2 GB and `x_y`",
    "word ",
    "e.g. ",
    "\n\n",
    "\n",
    "# Title\n",
    "- item\n",
    "| a | b |\n",
    "```\n",
    "$ make\n",
    '  File "a/b.py", line 3, in f\n',
    "    at f (a.js:1:2)\n",
    "ValueError: no\n",
    '{"name": "x", "n": [1, {"port": 80}]}\n',
    "diff --git a/x b/x\n+++ b/x\n+added\n",
    "def f(a, b):\n    return a\n",
    "// a comment\n",
    "2026-05-12T02:11:04Z ERROR gone\n",
    "数据库在东京。",
    "因为连接池太小，所以服务不可用，",
    "データを移行しましたが、",
    "🙂",
    "👩‍👩‍👧",
    ", ",
    "; then ",
    " — ",
    "(",
    "`",
    "x" * 50,
    "a\tb",
    "%$",
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), min_size=1, max_size=120).map("".join)
_WORD = re.compile(r"\w+")


def forms_of(text: str, kind: Kind = "fact", outcome: Outcome | None = None) -> ShortForms:
    return short_forms(text, COUNTER.count, COUNTER.truncate, kind=kind, outcome=outcome)


def micro_of(text: str, kind: Kind = "fact") -> str:
    return forms_of(text, kind).micro


@given(TEXTS.filter(str.strip), st.sampled_from(KINDS), st.sampled_from([None, "failure"]))
@example("x" * 5_000, "fact", None)
@example("\n".join(f"line {n} of three hundred" for n in range(300)), "fact", "failure")
@example("。" * 900, "fact", None)
@example("-" * 900, "fact", "failure")
@example("!" * 4_001 + " end", "fact", None)
@example("🙂" * 400, "fact", "failure")
@example("one two three " * 400, "decision", None)
@example("0:0:\x950\x95𐀀データを移行しましたが、", "fact", None)
def test_a_micro_has_at_most_20_tokens_and_a_summary_at_most_100(
    text: str, kind: Kind, outcome: Outcome | None
) -> None:
    """C2.1: every record has both from the moment it is stored; neither is empty."""
    forms = forms_of(text, kind, outcome)
    assert 0 < COUNTER.count(forms.micro) <= MICRO_TOKENS
    assert 0 < COUNTER.count(forms.summary) <= SUMMARY_TOKENS
    assert len(forms.micro.splitlines()) == 1
    if not outcome and COUNTER.count(text.strip()) <= SUMMARY_TOKENS:
        assert forms.summary == text.strip()


@given(TEXTS.filter(str.strip), st.sampled_from(KINDS))
@example("2026-05-12T02:11:04Z ERROR gone\nThe build fails. 0002026-05-12T02:11:04Z ERROR gone\n", "fact")
@example(
    "The cache of the server (an old one)is cleared by the nightly job of the archive, and it is fast. " * 9, "fact"
)
def test_a_short_form_says_nothing_in_words_of_its_own(text: str, kind: Kind) -> None:
    """C2.1: each word of it stands in the text, apart from a capital at the start."""
    said = text.encode("utf-8", "replace").decode().lower()
    forms = forms_of(text, kind)
    for word in _WORD.findall(f"{forms.micro}\n{forms.summary}"):
        assert word.lower() in said


@given(TEXTS.filter(str.strip))
@example(", for example, 1,000 rows, 2 GB and `x_y`The build fails. ")
def test_a_short_form_is_its_own_short_form(text: str) -> None:
    """C2.1: what fits is left alone."""
    forms = forms_of(text)
    assert forms_of(forms.micro).micro == forms.micro
    assert forms_of(forms.summary).summary == forms.summary


def test_a_short_text_is_its_own_summary_and_micro() -> None:
    """C2.1: nothing is shortened that fits."""
    forms = forms_of("  Deploys go out on Tuesdays. ")
    assert forms.micro == forms.summary == "Deploys go out on Tuesdays."


def test_an_outcome_stands_behind_both_forms() -> None:
    """C2.2: what came of it shows at every detail; that it is waited for is no outcome."""
    assert forms_of("We chose Redis.", outcome="failure") == ShortForms(
        micro="We chose Redis. → failure", summary="We chose Redis. → failure"
    )
    long = forms_of("We decided to move the invoices to Redis because it is fast and simple. " * 20, outcome="partial")
    assert long.micro.endswith(" → partial")
    assert long.summary.endswith(" → partial")
    assert forms_of("We chose Redis.", outcome="pending").micro == "We chose Redis."


def test_what_is_measured_is_what_the_counter_counts() -> None:
    """C2.1: the tokens that are kept are those of the forms that are kept."""
    for text in ("Short.", "A sentence of the long story that goes on. " * 40, " spaced "):
        made = measured(text, COUNTER.count, COUNTER.truncate, kind="episode", outcome="success")
        assert (made.text_tokens, made.summary_tokens, made.micro_tokens) == (
            COUNTER.count(text), COUNTER.count(made.summary), COUNTER.count(made.micro),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("we moved the whole cluster over one long weekend in May which went well until the last hour " * 3, "hour…"),
        ("antidisestablishmentarianism " * 20, "ism…"),
        ("x1y2z3" * 60, "…"),
    ],
)
def test_one_long_sentence_ends_with_a_word(text: str, end: str) -> None:
    """C2.1: the last resort: with a word, else anywhere."""
    micro = micro_of(text)
    assert micro.endswith(end)


def test_a_text_that_is_long_by_its_blanks_alone_keeps_all_its_words() -> None:
    """C2.1: layout goes before words do."""
    text = "Step one." + "\n \t" * 200 + "Step two."
    assert forms_of(text).summary == "Step one. Step two."


def test_a_record_is_measured_anew_with_its_outcome(make_record: Callable[..., Record]) -> None:
    """C2.2: micro and summary, with their tokens; the text stays."""
    record = make_record("We chose Redis.", kind="decision", outcome="failure")
    again = remeasured(record, COUNTER.count, COUNTER.truncate)
    assert (again.text, again.micro, again.summary) == (record.text, "We chose Redis. → failure", again.micro)
    assert (again.text_tokens, again.micro_tokens) == (COUNTER.count(again.text), COUNTER.count(again.micro))


def test_of_a_long_text_the_beginning_is_told() -> None:
    """C2.1: on one line, and an ellipsis says that more follows."""
    text = "The export stops early.\n\n- The paginator counts rows.\n" + "And so on and so forth it went. " * 80_000
    counter = TalliedCounter()
    forms = short_forms(text, counter.count, counter.truncate)
    assert forms.micro == "The export stops early. - The paginator counts rows. And so on and so forth it…"
    assert forms.summary.startswith("The export stops early. - The paginator counts rows. And so on and so forth")
    assert forms.summary.endswith("…")
    assert counter.encoded < len(text) / 10
