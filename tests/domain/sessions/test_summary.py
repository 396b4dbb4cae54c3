"""Summaries by section: written and read back, merged, cut to size, and checked for what nobody said."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.ledger import Ledger
from mcp_memory.domain.sessions.summary import (
    StructuredSummary,
    fitted,
    instructions_in,
    ledger_in,
    left_out,
    merged,
    parsed,
    problems,
    rendered,
    structured,
    with_ledger,
)
from mcp_memory.domain.text.summary_sections import LISTED, SECTIONS, Section, quote, quoted_instructions
from mcp_memory.domain.text.words import normal_hash

GOOD = """\
## Goal
- Move billing to Postgres on port 5433.

## User instructions
> Keep the old API.
>
>   def f(): ...

## Key facts
- The pool size is 25.

## Current state
- Tests pass in `tests/test_pay.py`.

## Next steps
- Deploy to staging.

## Decisions
- Postgres, because of the joins.

## Dead ends
- none
"""
SOURCES = ["Move billing to Postgres, port 5433, pool size 25. Tests: /srv/app/tests/test_pay.py"]

line = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
tricky = st.sampled_from(
    [
        "## Goal",
        "- item",
        "> quoted",
        "**Files:** a.py",
        "none",
        "1. Goal",
        "a\n\n> b",
        "\n",
        "  in",
        "```",
        "a\r\nb",
        ">",
        "`x`",
    ]
)
lines = st.lists(line | tricky, max_size=4)
summaries = st.dictionaries(st.sampled_from(SECTIONS), lines).map(structured)


@pytest.fixture
def make_entry() -> Callable[..., Entry]:
    def make(text: str, **fields: Any) -> Entry:
        harmless: dict[str, Any] = {
            "id": "r000001",
            "kind": "message",
            "role": "user",
            "text": text,
            "tokens": words(text),
            "at": 0.0,
            "covers": ("r000001",),
            "original_tokens": words(text),
        }
        return Entry(**{**harmless, **fields})

    return make


def words(text: str) -> int:
    return len(text.split())


def of(**sections: tuple[str, ...]) -> StructuredSummary:
    return structured({section: sections[section] for section in SECTIONS if section in sections})


@given(summaries)
def test_what_is_rendered_is_read_back_the_same(summary: StructuredSummary) -> None:
    """D6.2: an anchor loses nothing however often it is merged."""
    assert parsed(rendered(summary)) == summary


@given(st.lists(line | tricky, min_size=1, max_size=5, unique=True))
def test_instructions_survive_to_the_byte(instructions: list[str]) -> None:
    """D6.1: the user's instructions are verbatim, whatever they hold."""
    summary = structured({"goal": ["## Goal"], "instructions": instructions, "values": ["> 3"]})
    assert parsed(rendered(summary)).of("instructions") == tuple(instructions)
    assert quoted_instructions(rendered(summary)) == tuple(instructions)


def test_blocks_quote_in_the_same_form() -> None:
    """E2.3: the user's direction is kept, also in batches of batches."""
    asked = ["Fix it.\n\n## Goal\n  - > not this", "> quoted"]
    block = f"[GOAL BATCH x1] 2 turns\n\n{quote(asked[0])}\n→ Done.\n\n{quote(asked[1])}\n→ Also done.\nValues: a=1"
    assert quoted_instructions(block) == tuple(asked)
    assert quoted_instructions("Nothing quoted.") == ()


def test_assent_that_a_batch_quotes_is_no_instruction(make_entry: Callable[..., Entry]) -> None:
    """D6.1: only what directs is kept from summary to summary."""
    block = f"[GOAL BATCH x1] 2 turns\n\n{quote('Go on.')}\n→ Done.\n\n{quote('Use tabs.')}\n→ Done."
    assert instructions_in([make_entry(block, form="batch", role="user")]) == ("Use tabs.",)


def test_only_sections_that_hold_something_are_shown_in_their_order() -> None:
    """D6.1: goal first, exact values last; "none" is no line."""
    summary = of(values=("port 5433",), goal=(" Ship\n it ",), completed=("None.", " "), instructions=("a\nb", "c"))
    assert rendered(summary) == (
        "## Goal\n- Ship it\n\n## User instructions\n> a\n> b\n\n> c\n\n## Exact values\n- port 5433"
    )
    assert rendered(structured({})) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Sure.\n# Session summary\nIt was long.\n### 1. Goal:\n* Ship it\n### 2. Next Steps\n1. Test\n2) Deploy\n",
        "**Goal:** Ship it\n\n**Next steps**\n- Test\n- Deploy",
        "```markdown\n## GOAL\nShip\n\n## Next Steps (in order)\n- Test\n- Deploy\n```".replace("Ship", "Ship it"),
        "Goal: Ship it\nNext steps:\n  - Test\n  - Deploy",
        "1. Goal\n- Ship it\n2. Next steps\n- Test\n- Deploy",
        "- **Goal:** Ship it\n- **Next steps:**\n  - Test\n  - Deploy",
        "## Goal: Ship\n   it\n## Next steps\n- Test\n\n- Deploy\n## Decisions\n- none\n## Dead ends\nN/A",
        "## Objective\n- Ship\n  it\n__Todo__:\n• Test\n+ Deploy",
    ],
)
def test_summaries_are_read_as_models_write_them(text: str) -> None:
    """D7.1: headings of any level, bold, numbered or plain; items of any mark; whatever stands around them."""
    summary = parsed(text)
    assert summary.of("next_steps") == ("Test", "Deploy")
    assert " ".join(summary.of("goal")) == "Ship it"


def test_other_headings_hold_facts_and_text_without_any_holds_nothing() -> None:
    """D6.2: what somebody wrote is not lost for its heading."""
    assert parsed("## Goal\n- A\n## Musings\n- It rained.\n").of("facts") == ("It rained.",)
    assert parsed("Just prose.\n\n- and an item") == structured({})


def test_artifacts_in_one_section_are_told_apart() -> None:
    """D6.1: files, commands and ids verbatim."""
    text = """## Artifacts
- **Files**: `src/app.py`, b.py
- Commands:
  - `just check`
## Exact values
- a, b = 1
## Artifacts
- `c/d.py`
- `just test`
- cus_9s8
- limit is 40
"""
    summary = parsed(text)
    assert summary.of("files") == ("src/app.py", "b.py", "c/d.py")
    assert summary.of("commands") == ("just check", "just test")
    assert summary.of("identifiers") == ("cus_9s8",)
    assert summary.of("values") == ("a, b = 1", "limit is 40")


def test_instructions_that_are_not_quoted_are_read_as_items() -> None:
    """D7.1: models forget the sign."""
    text = '## User instructions\n- "Keep the API."\n- none\n>No tabs.\n1. Use “uv”'
    assert parsed(text).of("instructions") == ("Keep the API.", "No tabs.", "Use “uv”")


def test_a_newer_summary_merges_into_the_anchor() -> None:
    """D6.2: the newer state, both histories, and the goal that was given up."""
    anchor = of(
        goal=("Ship it",),
        constraints=("No tabs",),
        instructions=("Do A.", "Do B."),
        facts=("The port is 5432.",),
        state=("Broken.",),
        completed=("Wrote the parser",),
        in_progress=("Fixing the login page",),
        next_steps=("Add tests", "Deploy to staging"),
        decisions=("Postgres",),
        dead_ends=("SQLite locks",),
        values=("port 5432", "limit 40"),
    )
    newer = of(
        goal=("Ship it in May",),
        constraints=("no tabs!",),
        instructions=("Do B.", "Do C."),
        facts=("The port is 5433.",),
        state=("Works.",),
        completed=("Fixed the login page",),
        decisions=("Redis for the cache",),
        values=("port 5433",),
    )
    both = merged(anchor, newer)
    assert both == of(
        goal=("Ship it in May",),
        constraints=("no tabs!",),
        instructions=("Do A.", "Do B.", "Do C."),
        facts=("The port is 5432.", "Earlier goal: Ship it", "The port is 5433."),
        state=("Works.",),
        completed=("Wrote the parser", "Fixed the login page"),
        next_steps=("Add tests", "Deploy to staging"),
        decisions=("Postgres", "Redis for the cache"),
        dead_ends=("SQLite locks",),
        values=("port 5432", "limit 40", "port 5433"),
    )


@given(summaries, summaries)
def test_merging_loses_nothing_but_what_is_replaced(anchor: StructuredSummary, newer: StructuredSummary) -> None:
    """D6.2: earlier summaries are never lost."""
    both = merged(anchor, newer)
    for section in SECTIONS:
        if section not in ("goal", "state", "in_progress", "next_steps", "open_items", "changes"):
            told = {normal_hash(each) for each in (*anchor.of(section), *newer.of(section))}
            assert told <= {normal_hash(each) for each in both.of(section)}
        if section == "instructions" or section in LISTED:
            assert {*anchor.of(section), *newer.of(section)} == set(both.of(section))
    assert merged(both, structured({})) == both


def test_a_summary_that_fits_is_left_alone() -> None:
    summary = parsed(GOOD)
    assert fitted(summary, 1_000, words) is summary


def test_the_oldest_of_what_is_done_goes_first_and_what_matters_stays() -> None:
    """D6.2: instructions, goal, constraints and the newest decision and dead end stay whatever the room."""
    summary = of(
        goal=("Ship it",),
        constraints=("No tabs",),
        instructions=("Do A.",),
        facts=tuple(f"fact {n}" for n in range(6)),
        state=("Works",),
        completed=tuple(f"step {n}" for n in range(6)),
        decisions=("old one", "new one"),
        dead_ends=("old end", "new end"),
        files=("a.py", "b.py"),
        values=("a=1",),
    )
    whole = words(rendered(summary))
    assert fitted(summary, whole - 3, words).of("completed") == summary.of("completed")[1:]
    assert fitted(summary, whole - 16, words).of("facts") == summary.of("facts")[3:]
    assert fitted(summary, whole - 20, words).of("files") == ("b.py",)
    least = fitted(summary, 1, words)
    assert least == of(
        goal=("Ship it",),
        constraints=("No tabs",),
        instructions=("Do A.",),
        decisions=("new one",),
        dead_ends=("new end",),
    )


@given(summaries, st.integers(0, 60))
def test_a_fitted_summary_fits_wherever_it_can(summary: StructuredSummary, most: int) -> None:
    kept = fitted(summary, most, words)
    least = fitted(summary, -1, words)
    assert words(rendered(kept)) <= max(most, words(rendered(least)))
    stays: tuple[Section, ...] = ("goal", "constraints", "instructions")
    assert all(kept.of(section) == summary.of(section) for section in stays)
    assert all(kept.of(section)[-1:] == summary.of(section)[-1:] for section in ("decisions", "dead_ends"))


def test_a_good_summary_has_no_problems() -> None:
    """D7.1: a path is known by its last part, "none" is an answer."""
    assert problems(GOOD, SOURCES, 200, words) == ()


def test_missing_sections_are_named() -> None:
    """D7.1: the error says what is missing."""
    found = problems("## Goal\n- Ship it\n## Decisions\n", [], 100, words)
    assert [problem.split('"')[1] for problem in found] == [
        "Key facts", "Current state", "Next steps", "Decisions", "Dead ends",
    ]  # fmt: skip
    assert found[0] == 'The section "Key facts" is missing; add "## Key facts", with "- none" where there is nothing.'


@pytest.mark.parametrize(
    "invention",
    [
        "src/made_up.py",
        "`git push --force`",
        "make_believe_name",
        "port 9999",
        "timeout is 77 s",
        "version 9.8.7",
        "commit 1234abcd",
        "ENOSPC",
        "https://example.org/nowhere",
        "INVENTED_LIMIT=on",
        "10.9.8.7",
        "db.internal:5433",
        "budget of 13,500 EUR",
    ],
)
def test_inventions_are_named(invention: str) -> None:
    """D7.1: no artifact that the span does not hold."""
    found = problems(GOOD.replace("The pool size is 25.", f"It has {invention} now."), SOURCES, 200, words)
    assert len(found) == 1
    assert "occurs nowhere in the messages; copy it exactly as it stands there, or leave it out." in found[0]


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("It took 3 retries, timeout of 5 s.", "Nothing."),
        ("See `app.py` in src/pay/app.py.", "cat pay/app.py"),
        ("Ran `pytest -q tests`.", "$ PYTEST -q -x tests/"),
        ("The limit is 4,200 EUR.", "limit: 4200"),
        ("The limit is 4200 EUR.", "limit: 4,200 €"),
        ("The timeout is 2 min, memory of 1.5 GB.", "timeout 120 s, 1536 MB"),
        ("The latency is 212 ms.", "p95 was 211.7 ms"),
        ("Due on 1 December 2026.", "due: 2026-12-01"),
        ("It fixed `Parser.read_all()` at last.", "def read_all(self):"),
        ("Calls `parse_it()` now.", "parse_it"),
        ("The accuracy is 91 %.", "accuracy=0.91"),
        ("> Use port 4711.", "Nothing."),
        ("Listens at example.org:8443 still.", "host example.org, port 8443"),
        ("Pinned to version 2.x, in 12 files.", "Nothing."),
        ("See https://example.org/a/.", "https://example.org/a"),
    ],
)
def test_there_is_no_false_alarm(claim: str, source: str) -> None:
    """D7.1: what the span holds in another form is no invention; nor are counts, dates and small numbers."""
    text = GOOD.replace("- The pool size is 25.", claim if claim.startswith(">") else f"- {claim}")
    assert problems(text, [*SOURCES, source], 200, words) == ()


def test_what_is_too_long_is_told_by_how_much() -> None:
    """D7.1: shorter than it may be."""
    tokens = words(GOOD)
    assert problems(GOOD, SOURCES, 10, words) == (f"It has {tokens} tokens, and may have 10; make it shorter.",)


def test_the_users_instructions_are_taken_mechanically(make_entry: Callable[..., Entry]) -> None:
    """D6.1: verbatim, in order, also from what was compacted before; the last of equal ones."""
    anchor = rendered(of(goal=("Ship it",), instructions=("Do A.", "Do D.")))
    entries = [
        make_entry(f"[CONTEXT SUMMARY x1]\n\n{anchor}", form="summary"),
        make_entry(f"[GOAL BATCH x2] 3 turns\n\n{quote('Do B.')}\n→ Done.", form="batch"),
        make_entry("Do C.\n  In src/app.py."),
        make_entry("I did so.", role="assistant"),
        make_entry("word " * 201),
        make_entry("[MESSAGE ARCHIVED r7]", form="external"),
        make_entry("Do A."),
    ]
    assert instructions_in(iter(entries)) == ("Do D.", "Do B.", "Do C.\n  In src/app.py.", "Do A.")
    assert instructions_in([]) == ()


@pytest.mark.parametrize(
    "assent",
    [
        "yes",
        "Continue.",
        "ok, thanks!",
        "go on",
        "继续",
        "好的，谢谢",
        "はい、お願いします",
        "ja, weiter",
        "👍",
        "...",
        "",
    ],
)
def test_mere_assent_is_no_instruction(make_entry: Callable[..., Entry], assent: str) -> None:
    """D6.1: a summary of a hundred turns does not quote "continue" a hundred times."""
    assert instructions_in([make_entry(assent)]) == ()


@pytest.mark.parametrize("said", ["no", "stop", "yes, but keep the API", "ok do it with uv", "42", "不要继续"])
def test_whatever_says_more_is_one(make_entry: Callable[..., Entry], said: str) -> None:
    """D6.1: the user's instructions are verbatim."""
    assert instructions_in([make_entry(said)]) == (said,)


def test_a_summary_takes_another_ledger() -> None:
    """D6.1: a ledger that was cut to size stands in the place of the whole."""
    summary = of(goal=("Ship it",), files=("a.py",), values=("x=1",))
    assert ledger_in(summary) == Ledger(files=("a.py",), values=("x=1",))
    other = Ledger(files=("b.py",), commands=("just check",), identifiers=("PAY-7",))
    assert with_ledger(summary, other) == of(
        goal=("Ship it",), files=("b.py",), commands=("just check",), identifiers=("PAY-7",)
    )


def test_of_a_file_the_newer_state_counts() -> None:
    """D9.1: what an earlier summary said of it is past."""
    earlier = of(changes=("src/clock.py: edited; a check fails since: boom", "src/hold.py: written"))
    now = of(changes=("src/clock.py: edited; a check passed since",))
    assert merged(earlier, now).of("changes") == ("src/hold.py: written", "src/clock.py: edited; a check passed since")


def test_a_summary_that_calls_done_what_is_open_says_so_and_a_whole_one_leaves_nothing_out() -> None:
    """D7.1, D11.2: what is missing, and what contradicts what was done."""
    known = of(goal=("Move the sailings to Postgres",), open_items=("Write the refund letter of ferry 12",))
    assert left_out(
        "## Goal\n- Sailings move to Postgres\n## Completed\n- Wrote the refund letter of ferry 12", known
    ) == ("“Completed” says what is still open: Write the refund letter of ferry 12",)
    assert left_out("## Goal\n- none", known) == (
        "“Goal” leaves out: Move the sailings to Postgres",
        "“Open items” leaves out: Write the refund letter of ferry 12",
    )
    assert left_out("## Goal\n- Sailings move to Postgres\n## Open items\n- The refund letter of ferry 12", known) == ()


def test_a_request_in_the_form_of_a_question_is_an_instruction(make_entry: Callable[..., Entry]) -> None:
    """P1.2: answered or not."""
    entries = [
        make_entry("Can you mend it?"),
        make_entry("Yes.", role="assistant"),
        make_entry("Could you please answer in German from now on?"),
        make_entry("¿Puedes usar pnpm en vez de npm?"),
        make_entry("Ok.", role="assistant"),
        make_entry("hm, looks good to me"),
        make_entry("Which port is free?"),
    ]
    asked = [entries[place].text for place in (0, 2, 3, 6)]
    assert instructions_in(entries) == tuple(asked)


def test_a_decision_that_a_later_summary_takes_back_is_replaced() -> None:
    anchor, newer = (
        of(decisions=("Use Redis for the cache.",)),
        of(decisions=("Use Memcached instead of Redis for the cache.",)),
    )
    assert merged(anchor, newer).of("decisions") == (
        "Use Memcached instead of Redis for the cache. (no longer: Use Redis for the cache.)",
    )


def test_commits_and_pushes_are_dropped_last() -> None:
    """P1.2: what is done for good is what who goes on must know."""
    done = ("Committed 3f2a1bc: Pool of 900", "Ran `git push` → main -> main")
    files = tuple(f"app/module_{number}.py: edited" for number in range(20))
    kept = fitted(of(completed=(*done, "cancel: id=1", "cancel: id=2"), changes=files), 30, len)
    assert kept.of("completed") == ()
    kept = fitted(
        of(completed=(*done, "cancel: id=1", "cancel: id=2"), changes=files),
        len(rendered(of(completed=done))) + 30,
        len,
    )
    assert (kept.of("completed"), kept.of("changes")) == (done, ())
