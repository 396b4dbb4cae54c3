"""The ceiling pass: what gives way when a log is beyond its ceiling, and in which order."""

from typing import Any

import pytest

from mcp_memory.compaction.ceiling import Ceiling
from mcp_memory.domain.model.session_log import CompactionOptions, Entry, SessionLog, applied, in_order, preserved
from tests.compaction.conftest import a_log, an_entry, quarter

CEILING = Ceiling(quarter)
LONG = "There is much to be said about this, and here it is said at length, once more than is needed. " * 4
Said = tuple[str, str, dict[str, Any]]


def read(number: int, output: str = LONG, **fields: Any) -> list[Said]:
    call = {"call_id": f"c{number}", "tool": "read"}
    return [("call", '{"path": "src/app.py"}', call), ("result", output, call | fields)]


def run(log: SessionLog, options: CompactionOptions) -> tuple[SessionLog, list[Entry]]:
    """The log afterwards, and the new entries."""
    plan = CEILING.plan(log, options)
    return applied(log, plan.replacements), [one.entry for one in plan.replacements]


def window_for(log: SessionLog, share: float) -> CompactionOptions:
    """Options whose window the log fills to this share."""
    return CompactionOptions(window=round(log.tokens / share))


def test_up_to_the_ceiling_everything_stays() -> None:
    """D1.1, E1.1: it says how full the log is."""
    plan = CEILING.plan(a_log(("user", "x" * 360)), CompactionOptions(window=100))
    assert CEILING.name == "ceiling"
    assert plan == type(plan)(reason="90 % of 100 tokens, not above 90 %")


def test_above_it_outputs_are_masked_first_the_oldest_first_even_where_they_are_preserved() -> None:
    """D1.1, D4.2: as few as bring the log down to the threshold."""
    log = a_log(("user", "Read all of it."), *[said for number in range(8) for said in read(number)])
    options = window_for(log, 0.95)
    assert len(preserved(log, options)) == len(log.entries)
    after, made = run(log, options)
    assert CEILING.plan(log, options).reason.endswith("tokens, above 90 %")
    assert {entry.form for entry in made} == {"mask"}
    assert [entry.covers for entry in made] == [log.entries[place].covers for place in (2, 4, 6)]
    assert after.tokens <= options.tokens(0.8)
    assert after.exchanges == log.exchanges


def test_then_messages_are_put_away_assistants_first_then_pinned_the_users_and_the_systems_last() -> None:
    """D1.1: each names the id that opens it; the user's words are the last, the newest of them last of all."""
    log = a_log(
        ("system", LONG),
        ("user", LONG),
        ("assistant", LONG, {"pinned": True}),
        ("assistant", LONG),
        ("user", "Short words of mine"),
        ("call", LONG, {"call_id": "c"}),
        ("result", LONG, {"call_id": "c", "pinned": True}),
        ("user", LONG),
    )
    order: list[str] = []
    for percent in range(99, 20, -1):
        options = CompactionOptions(window=log.tokens, ceiling=percent / 100, threshold=percent / 100)
        after, _ = run(log, options)
        order += [
            entry.covers[0] for entry in after.entries if entry.form != "original" and entry.covers[0] not in order
        ]
    places = [next(place for place, entry in enumerate(log.entries) if entry.id == each) for each in order]
    assert places == [6, 3, 5, 2, 1, 0, 7]


def test_where_a_line_each_is_too_much_old_calls_are_put_away_together_before_the_users_words_are() -> None:
    """D1.1: a single turn of hundreds of calls. E2.5: with their results. E4.1: the last errors are told."""
    failed = read(0, "E   AssertionError: 3 != 4", failed=True)
    calls = [said for number in range(1, 200) for said in read(number, "so it says")]
    log = a_log(("user", "Read all of it."), *failed, *calls)
    options = CompactionOptions(window=log.tokens // 3)
    after, made = run(log, options)
    assert after.tokens <= options.tokens(0.8)
    assert after.entries[0] == log.entries[0]
    assert after.entries[-20:] == log.entries[-20:]
    assert [(entry.form, entry.level, len(entry.covers)) for entry in made] == [
        *[("tools", 1, 100)] * 3,
        ("tools", 1, 80),
    ]
    assert made[0].text == (
        "[SUMMARIZED] 100 messages, calls and results archived, 2026-11-20T12:02Z to 2026-11-20T13:41Z."
        f" calls: read 50. failed: AssertionError: 3 != 4. (open {made[0].id})"
    )


def test_a_call_whose_result_has_not_come_keeps_its_line() -> None:
    """E2.5: the result, when it comes, finds its call."""
    calls = [said for number in range(1, 30) for said in read(number, "so it says")]
    log = a_log(*calls[:30], ("call", "wait", {"call_id": "late", "tool": "wait"}), *calls[30:])
    after, made = run(log, CompactionOptions(window=log.tokens // 2))
    assert [len(entry.covers) for entry in made] == [30, 8]
    assert after.entries[1].call_id == "late"


def test_a_few_entries_between_the_users_words_are_not_put_away_together() -> None:
    said = [("user", "So?"), ("assistant", "It is."), ("assistant", "Indeed.")] * 20
    log = a_log(*said)
    assert run(log, CompactionOptions(window=log.tokens // 2))[1] == []
    silent = a_log(*said, *[("assistant", f"It is {number}.") for number in range(40)])
    [made] = run(silent, CompactionOptions(window=silent.tokens))[1]
    assert made.text.startswith("[SUMMARIZED] 22 messages, calls and results archived, ")


def test_what_is_put_away_says_whose_it_was_how_long_and_how_it_began() -> None:
    """D1.1, T5.1: with its id. E2.5: a call stays a call."""
    log = a_log(("user", LONG), ("call", LONG, {"call_id": "c", "tool": "write"}), ("result", "", {"call_id": "c"}))
    after, [call] = run(log, CompactionOptions(window=log.tokens, threshold=0.7, ceiling=0.7))
    assert call.text == (
        "[MESSAGE ARCHIVED id=r000002 role=assistant tokens=94]"
        " There is much to be said about this, and here it is said at length, once more t…"
    )
    assert (call.kind, call.call_id, call.tool, call.form, call.level) == ("tool_call", "c", "write", "external", 0)
    assert after.exchanges == log.exchanges


def test_the_users_words_go_last_and_are_still_theirs() -> None:
    """D1.1: of others' no more than the line that names them is left before."""
    log = a_log(("user", LONG), ("assistant", LONG))
    after, (said, answer) = run(log, CompactionOptions(window=log.tokens, threshold=0.4, ceiling=0.4))
    assert said.text.startswith("[MESSAGE ARCHIVED id=r000001 role=user tokens=94] There is")
    assert said.is_users
    assert after.turns == log.turns
    assert answer.text == "[MESSAGE ARCHIVED id=r000002 role=assistant tokens=94]"


def test_a_block_put_away_is_still_no_message_of_the_users() -> None:
    """It names the block, which opens what it stands for."""
    block = an_entry(
        1, LONG, id="x1", role="user", form="batch", level=1, covers=("r000001", "r000002"), original_tokens=900
    )
    log = in_order([block, an_entry(3, "And now?", role="user")])
    _, [made] = run(log, CompactionOptions(window=log.tokens, threshold=0.5, ceiling=0.5))
    assert made.text.startswith("[MESSAGE ARCHIVED id=x1 role=user tokens=900] There is")
    assert (made.form, made.level, made.is_users) == ("external", 1, False)


def test_where_that_is_not_enough_only_the_line_that_names_the_original_is_left() -> None:
    """D1.1: of a message, and of an output whose mask is too long still; a later run shortens what an earlier left."""
    log = a_log(("user", LONG), *read(1, LONG + "\nE   AssertionError: 3 != 4"), ("assistant", LONG))
    once, made = run(log, CompactionOptions(window=log.tokens, ceiling=0.6, threshold=0.6))
    assert [entry.form for entry in made] == ["external"] * 2
    twice, _ = run(once, CompactionOptions(window=log.tokens, ceiling=0.15, threshold=0.15))
    assert [entry.text for entry in twice.entries if entry.kind != "tool_call"] == [
        "[MESSAGE ARCHIVED id=r000001 role=user tokens=94]",
        "[MESSAGE ARCHIVED id=r000003 role=tool tokens=101]",
        "[MESSAGE ARCHIVED id=r000004 role=assistant tokens=94]",
    ]


def test_a_mask_put_away_shows_what_it_kept() -> None:
    """E4.1: the error, as long as there is room for words."""
    log = a_log(*read(1, LONG * 3 + "\nE   AssertionError: 3 != 4", failed=True), ("user", LONG))
    masked, _ = run(log, CompactionOptions(window=log.tokens, ceiling=0.7, threshold=0.7))
    assert masked.entries[1].form == "mask"
    away, made = run(masked, CompactionOptions(window=masked.tokens, ceiling=0.8, threshold=0.8))
    [line] = [entry.text for entry in made if entry.kind == "tool_result"]
    assert line.startswith("[MESSAGE ARCHIVED id=r000002 role=tool tokens=289] AssertionError: 3 != 4")
    assert away.entries[2] == log.entries[2]


@pytest.mark.parametrize("text", ["", "x", "Nothing that a line would make shorter."])
def test_where_every_entry_is_a_line_already_it_says_so(text: str) -> None:
    """E1.1: it is told why the log stays beyond its ceiling."""
    log = a_log(("user", text), ("assistant", "So be it, then."))
    plan = CEILING.plan(log, CompactionOptions(window=3))
    assert plan.replacements == ()
    assert plan.reason.endswith(
        f"above 90 %; no shorter than {log.tokens:,} tokens: the newest entries keep a line each"
    )


def test_the_summary_stays_where_the_rest_can_give_way() -> None:
    """D1.1, P1.2: it stands for all that it covers; only where the log is above its ceiling still, it goes too."""
    said: list[Said] = [("assistant", LONG, {}), ("user", LONG, {}), ("user", "Go on.", {})]
    log = a_log(("user", LONG * 2, {"form": "summary"}), *said)
    after, _ = run(log, window_for(log, 1.2))
    assert [entry.form for entry in after.entries] == ["summary", "external", "external", "original"]
    after, _ = run(log, window_for(log, 4))
    assert after.entries[0].form == "external"


def test_of_a_task_that_no_window_holds_the_beginning_stays_and_the_fresh_summary_whole() -> None:
    """D1.1, P1.2: and what was archived before it, where the window has room for it again."""
    said: list[Said] = [("user", LONG * 20, {}), ("user", LONG, {"form": "summary"}), ("assistant", LONG, {})]
    log = a_log(*said, ("assistant", LONG * 6, {}))
    after, made = run(log, window_for(log, 1.5))
    assert [entry.form for entry in after.entries] == ["external", "summary", "original", "external"]
    assert 1_000 < len(made[0].text) < 1_100
    assert after.tokens <= window_for(log, 1.5).tokens(0.9)


def test_the_summary_outlasts_a_systems_message_that_is_longer() -> None:
    """D1.1, P1.2: the client says it again with every request."""
    log = a_log(("system", LONG * 6), ("user", LONG), ("user", LONG, {"form": "summary"}), ("user", "Go on."))
    after, _ = run(log, window_for(log, 1.5))
    assert [entry.form for entry in after.entries] == ["external", "original", "summary", "original"]
