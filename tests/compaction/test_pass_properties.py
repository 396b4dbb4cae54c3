"""What holds for any log, whichever passes run on it, in any order and however often."""

from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.compaction.ceiling import Ceiling
from mcp_memory.compaction.condense_dialogue import CondenseDialogue
from mcp_memory.compaction.goal_batch import GoalBatch
from mcp_memory.compaction.mask_tool_output import MaskToolOutput
from mcp_memory.compaction.retell_tool_calls import RetellToolCalls
from mcp_memory.compaction.threshold import Threshold
from mcp_memory.domain.model.session_log import (
    INSTRUCTION_TOKENS,
    CompactionOptions,
    CompactionPass,
    Count,
    Entry,
    PassPlan,
    SessionLog,
    Span,
    applied,
    id_order,
    in_order,
    preserved,
)
from mcp_memory.domain.text.summary_sections import quote, quoted_instructions
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from tests.compaction.conftest import quarter, random_logs, random_options


def instructions(entries: Sequence[Entry]) -> dict[str, None]:
    """The user's short messages, as they stand in the log or as others quote them, each once, in order."""
    found: dict[str, None] = {}
    for entry in entries:
        is_said = entry.is_users and entry.form == "original"
        if is_said and entry.tokens <= INSTRUCTION_TOKENS:
            found[entry.text] = None
        elif not is_said and entry.role == "user":
            found |= dict.fromkeys(quoted_instructions(entry.text))
    return found


def quoting(span: Span) -> str:
    """A summary that says what the user asked for, and no more."""
    earlier = () if span.anchor is None else (span.anchor,)
    return "\n\n".join(quote(text) for text in instructions((*earlier, *span.entries)))


def passes(count: Count) -> dict[str, CompactionPass]:
    made: list[CompactionPass] = [
        MaskToolOutput(count),
        RetellToolCalls(count),
        CondenseDialogue(count),
        Threshold(count, quoting),
        GoalBatch(count),
        Ceiling(count),
    ]
    return {each.name: each for each in made}


PASSES = passes(quarter)
runs = st.lists(st.sampled_from(sorted(PASSES)), min_size=1, max_size=8)
gentle_runs = st.lists(st.sampled_from(sorted(set(PASSES) - {"ceiling"})), min_size=1, max_size=8)
Check = Callable[[str, SessionLog, PassPlan, SessionLog], None]
"""The pass, the log before it, what it would do, and the log afterwards."""


def run(log: SessionLog, options: CompactionOptions, names: Sequence[str], check: Check) -> SessionLog:
    for name in names:
        plan = PASSES[name].plan(log, options)
        after = applied(log, plan.replacements)
        check(name, log, plan, after)
        log = after
    return log


def nothing(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
    """For runs of which only the end matters."""


def covers_every_original_once(log: SessionLog) -> Check:
    """E2.4: however often passes run."""
    originals = [entry.id for entry in log.entries]

    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        covered = [covered for entry in after.entries for covered in entry.covers]
        assert sorted(covered, key=id_order) == originals
        replaced = [entry_id for one in plan.replacements for entry_id in one.replaces]
        assert len(set(replaced)) == len(replaced)
        assert len({entry.id for entry in after.entries}) == len(after.entries)
        assert sum(entry.original_tokens for entry in after.entries) == log.tokens

    return check


def keeps_a_call_and_its_results_together(log: SessionLog) -> Check:
    """E2.5: no tool call without its result, no result without its call: each has its own entry, or one block all."""
    exchanges = [[entry.id for entry in log.at(exchange)] for exchange in log.exchanges]
    originals = {entry.id: entry for entry in log.entries}
    # A call without an id may come to stand before a result without one, and be taken for answered.
    waiting = [entry.id for entry in log.at(log.unanswered) if entry.call_id]

    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        now = {covered: entry for entry in after.entries for covered in entry.covers}
        for exchange in exchanges:
            if len({now[part].id for part in exchange}) > 1:
                for part in exchange:
                    entry, original = now[part], originals[part]
                    assert entry.covers == (part,)
                    assert (entry.kind, entry.call_id) == (original.kind, original.call_id)
        assert all(now[call].covers == (call,) for call in waiting)

    return check


def shortens_the_log_or_leaves_it(log: SessionLog) -> Check:
    """E1.1, E1.3: each replacement is shorter than what it replaces, and every plan says why."""

    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        tokens = {entry.id: entry.tokens for entry in before.entries}
        for one in plan.replacements:
            assert one.entry.tokens < sum(tokens[entry_id] for entry_id in one.replaces)
            assert one.entry.tokens == quarter(one.entry.text)
        assert plan.reason

    return check


def keeps_the_order_of_what_happened(log: SessionLog) -> Check:
    """E4.1: by the first original that each entry covers."""

    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        firsts = [id_order(entry.covers[0]) for entry in after.entries]
        assert firsts == sorted(firsts)
        assert all(list(entry.covers) == sorted(entry.covers, key=id_order) for entry in after.entries)
        assert in_order(reversed(after.entries)) == after

    return check


def raises_the_level_with_each_telling(log: SessionLog) -> Check:
    """E8.1: a summary of summaries is one level higher; a mask is none."""

    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        levels = {entry.id: entry.level for entry in before.entries}
        for one in plan.replacements:
            highest = max(levels[entry_id] for entry_id in one.replaces)
            assert one.entry.level == highest + (one.entry.form not in ("mask", "external"))

    return check


def names_an_id_that_opens_each_replacement(log: SessionLog) -> Check:
    """T5.1: a block its own, or that of what it shortens; what stands for one message, the message's."""
    known = {entry.id for entry in log.entries}

    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        known.update(one.entry.id for one in plan.replacements)
        for one in plan.replacements:
            is_one = one.entry.form in ("mask", "external")
            assert any(entry_id in one.entry.text for entry_id in (known if is_one else {one.entry.id}))

    return check


PROMISES: Sequence[Callable[[SessionLog], Check]] = (
    covers_every_original_once,
    keeps_a_call_and_its_results_together,
    shortens_the_log_or_leaves_it,
    keeps_the_order_of_what_happened,
    raises_the_level_with_each_telling,
    names_an_id_that_opens_each_replacement,
)
"""What each pass promises of a log, from its originals on."""


@given(random_logs(), random_options, runs)
def test_every_pass_keeps_its_promises(log: SessionLog, options: CompactionOptions, names: list[str]) -> None:
    """E1.1, E1.3, E2.4, E2.5, E4.1, E8.1, T5.1: each of them, after each pass; one test, as runs take longer."""
    checks = [promise(log) for promise in PROMISES]

    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        for each in checks:
            each(name, before, plan, after)

    run(log, options, names, check)


@given(random_logs(), random_options, gentle_runs)
def test_what_is_preserved_stays_as_it_is(log: SessionLog, options: CompactionOptions, names: list[str]) -> None:
    """D2.1: the end of the log, the current turn, system and pinned messages; but the summary is written anew."""

    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        kept = [entry for entry in before.at(preserved(before, options)) if entry.form != "summary"]
        left = set(after.entries)
        assert [entry for entry in kept if entry not in left] == []

    run(log, options, names, check)


working_runs = st.lists(st.sampled_from(["goal_batch", "mask", "threshold", "tool_calls"]), min_size=1, max_size=8)


@given(random_logs(), random_options, working_runs)
def test_every_instruction_of_the_users_stands_to_the_byte(
    log: SessionLog, options: CompactionOptions, names: list[str]
) -> None:
    """D2.1: as a message, or quoted in a block; what a user asks for in a chat: test_condense_dialogue."""
    asked = instructions(log.entries)

    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        assert asked.keys() <= instructions(after.entries).keys()

    run(log, options, names, check)


@given(random_logs(), random_options, runs)
def test_the_same_log_gives_the_same_plan(log: SessionLog, options: CompactionOptions, names: list[str]) -> None:
    def check(name: str, before: SessionLog, plan: PassPlan, after: SessionLog) -> None:
        assert passes(quarter)[name].plan(SessionLog(before.entries), options) == plan

    run(log, options, names, check)


@given(random_logs(), random_options, st.permutations(sorted(PASSES)))
def test_running_every_pass_again_and_again_ends(log: SessionLog, options: CompactionOptions, names: list[str]) -> None:
    """E1.3: after a few rounds nothing changes any more."""
    for _ in range(20):
        after = run(log, options, names, nothing)
        if after == log:
            return
        log = after
    raise AssertionError("still changing after 20 rounds")


@given(random_logs(), random_options, runs)
def test_beyond_the_ceiling_only_lines_that_name_their_originals_are_left(
    log: SessionLog, options: CompactionOptions, names: list[str]
) -> None:
    """D1.1: never beyond 90 %, as far as a line for each entry allows."""
    before = run(log, options, names, nothing)
    plan = PASSES["ceiling"].plan(before, options)
    least = sum(
        min(
            entry.tokens,
            quarter(f"[MESSAGE ARCHIVED id={entry.id} role={entry.role} tokens={entry.original_tokens:,}]"),
        )
        for entry in before.entries
    )
    limit = options.tokens(options.ceiling)
    assert applied(before, plan.replacements).tokens <= max(limit, least)
    assert (plan.replacements == ()) or before.tokens > limit


@given(random_logs(), random_options, runs)
@settings(max_examples=8)
def test_all_of_it_holds_as_a_tokenizer_counts(log: SessionLog, options: CompactionOptions, names: list[str]) -> None:
    """D2.1, E2.4: tokens never grow, by the counter that is used in earnest."""
    count = TiktokenCounter("o200k_base").count
    for name in names:
        plan = passes(count)[name].plan(log, options)
        after = applied(log, plan.replacements)
        assert all(one.entry.tokens == count(one.entry.text) for one in plan.replacements)
        assert after.tokens <= log.tokens
        log = after
