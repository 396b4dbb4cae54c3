"""Summaries of chosen sentences: what was planted comes out where it belongs, in any size, whatever the texts hold."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.compaction.goal_batch import GoalBatch
from mcp_memory.compaction.retell_tool_calls import RetellToolCalls
from mcp_memory.domain.model.session_log import PRESETS, Entry, SessionLog, applied
from mcp_memory.domain.sessions.slots import slots_of
from mcp_memory.domain.sessions.summary import StructuredSummary, parsed, rendered, structured
from mcp_memory.domain.text.segments import segments_of
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.ports.text import SummaryRequest
from mcp_memory.summarizers.extractive import MOST_RANKED, ExtractiveSummarizer
from tests.summarizers.spans import MIGRATION, PLANTED, TURNED, Line, Planted, entry, span_of
from tests.tallied import TalliedCounter


def asking(
    entries: tuple[Entry, ...], max_tokens: int = 2_000, earlier: StructuredSummary | None = None
) -> SummaryRequest:
    return SummaryRequest(entries=entries, earlier=earlier, max_tokens=max_tokens, prompt="")


def every_line(summary: StructuredSummary) -> str:
    return "\n".join(line for lines in summary.lines.values() for line in lines)


TOLD: tuple[Section, ...] = ("constraints", "decisions")
"""The sections that sentences fill, beside the goal and the state."""


def found(planted: Planted, summary: StructuredSummary) -> tuple[int, int]:
    """How many of the planted words stand in their section, and how many there are."""
    wanted: list[tuple[Section, str]] = [(each, words) for each in TOLD for words in planted.sections.get(each, ())]
    hits = [words for section, words in wanted if any(words in line for line in summary.of(section))]
    return len(hits), len(wanted)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_what_was_planted_comes_out_in_its_section(planted: Planted, extractive: ExtractiveSummarizer) -> None:
    """D7.1: goal, state, and every planted decision of the user's and constraint; no idle talk."""
    made = extractive.summarize(asking(planted.entries))
    assert (made.by, made.note, made.spent) == ("extractive", "", 0)
    assert planted.goal in made.summary.of("goal")[0]
    assert planted.state in made.summary.of("state")[0]
    hits, wanted = found(planted, made.summary)
    assert hits == wanted
    assert [words for words in planted.absent if words in every_line(made.summary)] == []


def test_where_nobody_says_anything_the_calls_are_told(extractive: ExtractiveSummarizer) -> None:
    """D3.1, T5.1: a span of calls alone is not summarised by silence."""
    calls: list[Line] = []
    for number in range(30):
        calls += [("call", f'{{"step":{number}}}'), ("result", f"step {number} is through\n" + "more of it\n" * 40)]
    [told] = extractive.summarize(asking(span_of(*calls, ("call", '{"step":30}')), 200)).summary.of("facts")
    assert told == 'shell called 31 times, last with {"step":30}; gave: step 29 is through'


ROUTINE = (
    "Let me open the next file.", "The file has {} lines and nothing unusual in it.", "I looked at it again.",
    "That seems fine so far.", "Now I check the {}th one.", "I'll read on from there.", "There are {} entries here.",
)  # fmt: skip


def in_routine(planted: Planted) -> Planted:
    """The same among three times as much talk that does not matter."""
    lines: list[Line] = []
    for n, line in enumerate(planted.lines):
        routine = [ROUTINE[(3 * n + k) % len(ROUTINE)].format(7 * n + k) for k in range(6)]
        lines += [line, ("assistant", " ".join(routine[:3])), ("assistant", " ".join(routine[3:]))]
    end = len(planted.lines) - 1
    return replace(planted, lines=[*lines[: 3 * end], planted.lines[end]])


def test_it_finds_more_than_first_and_last_sentences_do(
    extractive: ExtractiveSummarizer, counter: TiktokenCounter
) -> None:
    """D7.1: in the same number of tokens, wherever they stand."""
    ours = theirs = total = 0
    for planted in map(in_routine, PLANTED):
        wanted = [words for section in TOLD for words in planted.sections.get(section, ())]
        summary = rendered(extractive.summarize(asking(planted.entries, 400)).summary)
        spoken = [
            segment.text for who, text in planted.lines if who in ("user", "assistant") for segment in segments_of(text)
        ]
        plain = ""
        for first, last in zip(spoken, reversed(spoken), strict=True):
            if counter.count(plain + first + last) > counter.count(summary):
                break
            plain += f"{first}\n{last}\n"
        total += len(wanted)
        ours += len([words for words in wanted if words in summary])
        theirs += len([words for words in wanted if words in plain])
    assert ours > 0.75 * total
    assert theirs < 0.7 * total


def test_blocks_are_read_as_compaction_writes_them(extractive: ExtractiveSummarizer, counter: TiktokenCounter) -> None:
    """E8.1: what came of turns; their calls are no words."""
    noise = "".join(f"collected {n} of 90\n" for n in range(90))
    talk = " There is more to say about it, at length and in detail." * 30
    lines: list[Line] = []
    for n in range(4):
        lines += [
            ("user", f"Look into part {n} of the importer."),
            ("call", f'{{"command": "pytest tests/test_part_{n}.py"}}'),
            ("failed" if n == 1 else "result", noise + ("E   KeyError: 'tenant'\n1 failed" if n == 1 else "8 passed")),
            ("assistant", f"We decided to keep part {n} in SQLite because it is {n + 2} times as fast." + talk),
        ]
    log = SessionLog(span_of(*lines, *[("user", "Go on."), ("assistant", "Fine.")] * 15))
    options = replace(PRESETS["default"], window=1_000, old_turns=1)
    called = applied(log, RetellToolCalls(counter.count).plan(log, options).replacements)
    assert "tools" in {each.form for each in called.entries}
    summary = extractive.summarize(asking(called.entries)).summary
    assert "(open x" not in every_line(summary)
    batched = applied(called, GoalBatch(counter.count).plan(called, options).replacements)
    assert "batch" in {each.form for each in batched.entries}
    summary = extractive.summarize(asking(batched.entries)).summary
    assert "Look into part 0" in summary.of("goal")[0]


def test_two_files_whose_changes_look_alike_are_both_told(extractive: ExtractiveSummarizer) -> None:
    """D9.1: a file is no repetition of the one beside it."""
    files = ["internal/http/labels.go", "internal/http/labels_test.go"]
    edits = [line for name in files for line in (("call", f"sed -i 's/a/b/' {name}"), ("result", "ok"))]
    told = extractive.summarize(asking(span_of(("user", "Bound the labels."), *edits))).summary.of("changes")
    assert [line.partition(":")[0] for line in told] == files


def test_the_earlier_goal_holds_until_the_user_turns(extractive: ExtractiveSummarizer) -> None:
    """D6.2."""
    earlier = structured({"goal": ["Build a spaceship"]})
    going_on = span_of(("user", "Use titanium for the hull."), ("assistant", "The hull weighs 3 t now."))
    assert extractive.summarize(asking(going_on, earlier=earlier)).summary.of("goal") == ("Build a spaceship",)
    summary = extractive.summarize(asking(TURNED.entries, earlier=earlier)).summary
    assert "command line tool in Rust" in summary.of("goal")[0]


def test_the_goal_of_long_material_is_its_short_form_and_of_a_batch_what_it_quotes(
    extractive: ExtractiveSummarizer,
) -> None:
    """D6.1."""
    long = entry(0, "user", "Here is the specification. " * 90, summary="Implement the attached specification.")
    assert extractive.summarize(asking((long,))).summary.of("goal") == ("Implement the attached specification.",)
    batch = entry(
        0, "user", "[GOAL BATCH x1] 3 turns\n\n> Port the parser to Zig.\n\n→ The lexer is ported.", form="batch"
    )
    assert extractive.summarize(asking((batch,))).summary.of("goal") == ("Port the parser to Zig.",)


def test_values_that_differ_are_both_told(extractive: ExtractiveSummarizer) -> None:
    """D6.1: near in any embedding, and not the same; what differs in its wording alone is told once."""
    first = ("user", "Set up the database.")
    lines = [("user", f"We decided to use port {port} for it on host {host}.") for port, host in ((5432, 1), (5433, 2))]
    summary = extractive.summarize(asking(span_of(first, *lines, ("assistant", "Both are tested now.")))).summary
    assert len(summary.of("decisions")) == 2
    lines = [("user", "We decided to drop the slow build on the small runners."),
             ("user", "We decided to drop the slow build on small runners.")]  # fmt: skip
    summary = extractive.summarize(asking(span_of(first, *lines, ("assistant", "Caching is tested now.")))).summary
    assert len(summary.of("decisions")) == 1


@pytest.mark.parametrize("max_tokens", [60, 150, 400])
def test_it_keeps_to_its_tokens(max_tokens: int, extractive: ExtractiveSummarizer, counter: TiktokenCounter) -> None:
    """D3.1: decisions and constraints before facts."""
    for planted in PLANTED:
        summary = extractive.summarize(asking(planted.entries, max_tokens)).summary
        fixed = structured(
            {
                "goal": summary.of("goal"),
                "constraints": summary.of("constraints"),
                "decisions": summary.of("decisions")[-1:],
                "dead_ends": summary.of("dead_ends")[-1:],
            }
        )
        assert counter.count(rendered(summary)) <= max(max_tokens, counter.count(rendered(fixed)))


def test_the_same_span_gives_the_same_summary(extractive: ExtractiveSummarizer) -> None:
    """E2.4: in lines that can be read back."""
    first, second = (extractive.summarize(asking(MIGRATION.entries)).summary for _ in range(2))
    assert first == second == parsed(rendered(first))


def test_a_span_that_says_nothing_has_an_empty_summary(extractive: ExtractiveSummarizer) -> None:
    assert extractive.summarize(asking(())).summary == structured({})
    silent = span_of(("user", "ok"), ("result", "We decided to stop."), ("assistant", ""))
    assert extractive.summarize(asking(silent)).summary == structured({})


def test_what_a_tool_said_is_told_as_its_output_alone(extractive: ExtractiveSummarizer) -> None:
    """D7.1: whatever its words, it is no decision."""
    silent = span_of(("user", "ok"), ("call", "{}"), ("result", "We decided to stop."), ("assistant", ""))
    told = structured({"facts": ["shell called once, with {}; gave: We decided to stop."]})
    assert extractive.summarize(asking(silent)).summary == told


@given(
    lines=st.lists(st.tuples(st.sampled_from(["user", "assistant", "call", "result", "failed"]), st.text(max_size=200)))
)
def test_any_texts_give_a_summary_that_can_be_read_back(
    lines: list[tuple[str, str]], extractive: ExtractiveSummarizer
) -> None:
    """D3.1."""
    made = extractive.summarize(asking(span_of(*lines), 300))
    assert parsed(rendered(made.summary)) == made.summary


def _tallied(span: tuple[Entry, ...], max_tokens: int) -> tuple[StructuredSummary, int]:
    """The summary, and how many characters were encoded for it."""
    counter = TalliedCounter()
    return ExtractiveSummarizer(counter).summarize(asking(span, max_tokens)).summary, counter.encoded


@pytest.mark.uncounted
@pytest.mark.parametrize(
    ("opening", "unit"),
    [("", "x"), ("", "ok "), ("", "a. "), ("", "- "), ("", "[GOAL BATCH "), ("", "、"), ("", "must not "),
     ("", "I tried it "), ("", "\x00\ud800"), ("[SUMMARIZED", " ")],
    ids=lambda text: text.encode("ascii", "backslashreplace").decode(),
)  # fmt: skip
@pytest.mark.parametrize("form", ["original", "tools"])
def test_of_a_huge_text_a_bounded_part_is_read_and_counted(opening: str, unit: str, form: str) -> None:
    """E6.1: whoever says it, twice the characters make the same summary from no more counting."""
    for who in ("user", "assistant", "failed"):
        made: list[tuple[StructuredSummary, int]] = []
        for characters in (220_000, 440_000):
            half = unit * (characters // len(unit) // 2)
            text = f"{opening}{half}\n\nWe decided to use Redis.\n\n{half}"
            made.append(_tallied((*span_of(("user", "Fix the parser.")), entry(7, who, text, form=form)), 300))
        assert made[0] == made[1]
        assert "Redis" not in every_line(made[0][0])


@pytest.mark.uncounted
def test_of_a_long_span_a_bounded_number_of_slots_is_counted() -> None:
    """E6.1: the last decisions of a span make the same summary, from no more counting, whatever came before them."""
    chosen = [f"Decision: table t{n} is kept." for n in range(10_000, 10_300 + MOST_RANKED)]
    span, longer = (span_of(*(("assistant", text) for text in texts)) for texts in (chosen[200:], chosen))
    assert len(slots_of(span)) > MOST_RANKED
    summary, encoded = _tallied(span, 2_000)
    assert summary.of("decisions")[-1] == chosen[-1]
    assert (summary, encoded) == _tallied(longer, 2_000)
