"""What compact answers, within its budget, and what it tells on the way."""

import json
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.app import token_counter
from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.session_log import PRESETS, Entry
from mcp_memory.domain.sessions.pressure import pressure
from mcp_memory.entrypoints.server.compaction_answers import EXTRACTED_SHOWN, show_compacted, show_step
from mcp_memory.ports.session_logs import PassRun
from mcp_memory.services.sessions.compact import Compacted
from mcp_memory.services.sessions.run_pass import PassStep
from mcp_memory.services.sessions.summarize_span import Asked, Written

COUNTER = token_counter("o200k_base")
FED: dict[str, Json] = {"fed": {"stored": 900, "known": 100, "redacted": 3}}
LEAST = 326
"""The least that may be asked for, by the client whose tokens are the smallest."""
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=3_000) | st.text('"\\\n\t🙂ä', max_size=3_000)


def made(number: int, text: str) -> Entry:
    return Entry(
        id=f"x{number:010}",
        kind="message",
        role="assistant",
        text=text,
        tokens=COUNTER.count(text),
        at=1_795_176_000.0,
        covers=(f"r{2 * number:06}", f"r{2 * number + 1:06}"),
        original_tokens=10_000,
        form="tools",
        level=1,
    )


def run(name: str = "mask", *, ran: bool = True, error: str | None = None) -> PassRun:
    return PassRun(
        name="mask" if name == "mask" else "ceiling",
        revision="v1",
        ran=ran,
        reason="84 % of 100,000 tokens, at or above 80 %",
        tokens_before=84_000,
        tokens_after=50_000 if ran else 84_000,
        replaced=40 if ran else 0,
        milliseconds=12.4,
        error=error,
    )


DONE = Compacted(
    session_id="s-work",
    preset="default",
    factor=1.0,
    before=pressure(84_000, PRESETS["default"]),
    after=pressure(50_000, PRESETS["default"]),
    entries=120,
    number=3,
    compactions=3,
    runs=(run(), run("ceiling", ran=False)),
    extracted=tuple(f"r{number:06}" for number in range(200)),
    warnings=("The log fills 50% of its window; from 70% on it is compacted when idle.",),
    adapted="tool output is 60%: shorter outputs go too",
    written=Written(by="some-model", note="", spent=1_200),
)
ASKED = Asked(
    span="r1-r9-abcd", prompt="Summarise this. " * 40, text="A line of it.\n" * 400, entries=400, tokens=2_000
)


def tokens(answer: dict[str, Json]) -> int:
    return COUNTER.count(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))


def ids(answer: dict[str, Json]) -> list[str]:
    shown = answer.get("replacements", [])
    assert isinstance(shown, list)
    return [str(each["id"]) for each in shown if isinstance(each, dict)]


@given(
    texts=st.lists(TEXTS, max_size=20),
    max_tokens=st.integers(LEAST, 6_000),
    asked=st.none() | st.builds(replace, st.just(ASKED), prompt=TEXTS, text=TEXTS),
)
def test_an_answer_never_takes_more_than_it_may_and_tells_what_it_leaves_out(
    texts: list[str], max_tokens: int, asked: Asked | None
) -> None:
    done = replace(DONE, made=tuple(made(number, text) for number, text in enumerate(texts)), asked=asked)
    answer = show_compacted(done, FED, max_tokens, COUNTER)
    assert tokens(answer) <= max_tokens
    shown = answer.get("replacements", [])
    assert isinstance(shown, list)
    originals = {entry.id: entry.text for entry in done.made}
    assert all(isinstance(each, dict) and each["text"] == originals[str(each["id"])] for each in shown)
    assert ids(answer) == [one for one in originals if one in ids(answer)]
    assert answer.get("replacements_omitted", 0) == len(texts) - len(shown)
    omitted = answer.get("omitted", [])
    assert isinstance(omitted, list)
    assert {"warnings", "adapted", "passes", "extracted"} == set(omitted) | (
        {"warnings", "adapted", "passes", "extracted"} & set(answer)
    )


def test_all_of_it_is_told_where_there_is_room() -> None:
    answer = show_compacted(replace(DONE, made=(made(1, "a"), made(2, "b")), asked=ASKED), FED, 20_000, COUNTER)
    assert ids(answer) == ["x0000000001", "x0000000002"]
    assert not {"omitted", "replacements_omitted", "all_replacements"} & set(answer)
    assert answer["summarize"] == {
        "span": ASKED.span,
        "entries": 400,
        "tokens": 2_000,
        "prompt": ASKED.prompt,
        "text": ASKED.text,
    }
    extracted = answer["extracted"]
    assert isinstance(extracted, list)
    assert (len(extracted), answer["extracted_count"]) == (EXTRACTED_SHOWN, 200)
    assert (answer["summarized_by"], answer["spent"], answer["saved"]) == ("some-model", 1_200, 34_000)
    assert answer["fed"] == FED["fed"]


def test_a_replacement_that_is_too_long_is_left_out_for_those_after_it() -> None:
    """T5.1: half of one would stand for nothing."""
    done = replace(DONE, made=(made(1, "short"), made(2, "word " * 5_000), made(3, "short")))
    answer = show_compacted(done, {}, 2_000, COUNTER)
    assert ids(answer) == ["x0000000001", "x0000000003"]
    assert (answer["replacements_omitted"], answer["all_replacements"]) == (1, "memory://session/s-work")


def test_the_least_budget_still_says_how_the_log_stands() -> None:
    """D1.3."""
    answer = show_compacted(replace(DONE, made=(made(1, "word " * 1_000),)), FED, LEAST, COUNTER)
    assert answer["log"] == {"tokens": 50_000, "window": 100_000, "share": 0.5, "level": "notice", "entries": 120}
    assert answer["warnings"] == list(DONE.warnings)
    assert answer["omitted"] == ["extracted"]


@pytest.mark.parametrize("factor", [1.0, 1.53])
def test_a_prompt_that_does_not_fit_names_a_budget_in_which_it_does(factor: float) -> None:
    """D7.1."""
    done = replace(DONE, factor=factor, asked=ASKED)
    asked = show_compacted(done, FED, LEAST, COUNTER)["summarize"]
    assert isinstance(asked, dict)
    assert set(asked) == {"span", "entries", "tokens", "note"}
    [least] = [int(word) for word in str(asked["note"]).split() if word.isdigit()]
    answer = show_compacted(done, FED, int(least / factor), COUNTER)
    asked = answer["summarize"]
    assert isinstance(asked, dict)
    assert asked["prompt"] == ASKED.prompt
    assert COUNTER.count(str(asked["text"])) > 100
    assert tokens(answer) <= least / factor


@pytest.mark.parametrize(
    ("event", "of", "done", "says"),
    [
        ("start", None, 0.5, "mask: start, 15,300 of 153,000 tokens ("),
        ("complete", run(), 1, "mask: complete, 52,020 tokens saved, 15,300 of 153,000 tokens, 12 ms ("),
        ("complete", run(ran=False), 1, "mask: not needed, 84 % of 100,000 tokens, at or above 80 % ("),
        ("error", run(ran=False, error="ValueError"), 1, "mask: error, ValueError; the log is as it was ("),
    ],
)
def test_each_step_tells_how_far_it_is_in_the_clients_tokens(
    event: Literal["start", "complete", "error"], of: PassRun | None, done: float, says: str
) -> None:
    """E5.1, E1.2."""
    step = PassStep(event="start", name="mask", at=1_795_176_000.0, number=1, passes=5, tokens=10_000, total=100_000)
    step = replace(step, event=event, run=of)
    assert show_step(step, 1.53) == (done, 5, f"{says}2026-11-20T12:00:00Z)")
