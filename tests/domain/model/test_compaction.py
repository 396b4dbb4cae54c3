"""What a plan puts in the place of what, and what every pass leaves alone."""

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from mcp_memory.domain.model.session_log import (
    PRESETS,
    USUAL,
    CompactionOptions,
    CompactionPass,
    Passes,
    PassKind,
    PassName,
    PassPlan,
    SessionLog,
    applied,
    preserved,
    replacing,
    saved,
)
from tests.compaction.conftest import a_log, an_entry, quarter

Said = tuple[str, str, dict[str, Any]]


def kept(log: SessionLog, options: CompactionOptions) -> list[int]:
    return sorted(preserved(log, options))


def talk(entries: int, *first: Said, text: str = "word " * 8) -> SessionLog:
    return a_log(*first, ("user", "Go on."), *[("assistant", text)] * (entries - 1), ("user", "And now?"))


def test_shares_are_of_the_window() -> None:
    options = CompactionOptions(window=2_000)
    assert (options.share(500), options.tokens(0.8)) == (0.25, 1_600)


def test_a_preset_brings_its_window_unless_one_is_given() -> None:
    """E3.1: default, aggressive, conservative, off."""
    assert {name: (each.old_turns, each.threshold, each.window) for name, each in PRESETS.items() if each.passes} == {
        "default": (10, 0.8, 100_000),
        "aggressive": (5, 0.75, 150_000),
        "conservative": (20, 0.9, 100_000),
    }
    assert PRESETS["off"].passes == ()
    assert replace(PRESETS["aggressive"], window=8_000) == CompactionOptions(window=8_000, old_turns=5, threshold=0.75)


@dataclass(frozen=True)
class Idle:
    """A pass that does nothing."""

    name: PassName
    kind: PassKind = "rewording"

    def plan(self, log: SessionLog, options: CompactionOptions) -> PassPlan:
        return PassPlan(reason=f"{self.name} rests")


class OfOldTimes:
    """A pass from outside that says no kind."""

    def __init__(self, name: PassName) -> None:
        self.name = name

    def plan(self, log: SessionLog, options: CompactionOptions) -> PassPlan:
        return PassPlan(reason=f"{self.name} rests")


def test_a_pass_says_its_name_and_kind_and_its_row_its_place() -> None:
    """O3.1, D12.1: one from outside replaces ours of its name, and is of its kind unless it says another."""
    outside = cast("tuple[CompactionPass, ...]", (OfOldTimes("first"), OfOldTimes("new"), Idle("mine", "summarising")))
    passes = Passes(usual=(Idle("first"), Idle("second", "masking")), last=Idle("end", "other"), outside=outside)
    assert passes.named(("mine", USUAL, "end")) == ("mine", "first", "second", "end")
    assert passes.by_name["first"] is outside[0]
    kinds = {name: passes.kind_of(name) for name in passes.by_name}
    assert kinds == {
        "first": "rewording", "second": "masking", "end": "other", "new": "other", "mine": "summarising",
    }  # fmt: skip


def test_the_last_twenty_entries_stay_and_more_where_the_window_has_room() -> None:
    """D2.1: the last 20, or the last 20 % of the window, whichever is more."""
    log = talk(40)
    assert kept(log, CompactionOptions(window=100)) == list(range(21, 41))
    assert kept(log, CompactionOptions(window=1_500)) == list(range(11, 41))
    assert kept(log, CompactionOptions(window=100_000)) == list(range(41))


def test_the_current_turn_stays_and_of_one_that_exceeds_the_target_its_prompt_and_its_end() -> None:
    """D2.1, P1.1: also while passes have shortened it."""
    log = a_log(("user", "Old."), ("assistant", "Old."), ("user", "Now."), *[("assistant", "word " * 40)] * 30)
    assert kept(log, CompactionOptions(window=4_000)) == list(range(2, 33))
    assert kept(log, CompactionOptions(window=100)) == [2, *range(13, 33)]
    shorter = SessionLog(tuple(replace(entry, tokens=1) for entry in log.entries))
    assert kept(shorter, CompactionOptions(window=100)) == [2, *range(13, 33)]
    before_any = a_log(*[("assistant", "word " * 40)] * 30)
    assert kept(before_any, CompactionOptions(window=100)) == list(range(10, 30))


STAYING: list[Said] = [
    ("system", "Be brief.", {}),
    ("assistant", "Remember.", {"pinned": True}),
    ("call", "{}", {"call_id": "a"}),
    ("user", "x" * 804, {}),
]
GOING: list[Said] = [
    ("user", "x" * 800, {}),
    ("assistant", "x" * 804, {}),
    ("result", "{}", {"call_id": "a"}),
]


@pytest.mark.parametrize("said", STAYING)
def test_what_must_not_be_lost_stays(said: Said) -> None:
    """D2.1: system and pinned messages, calls whose results have not come, long messages of the user's."""
    assert 0 in preserved(talk(30, said), CompactionOptions(window=100))


@pytest.mark.parametrize("said", GOING)
def test_what_can_be_told_or_quoted_may_go(said: Said) -> None:
    assert 0 not in preserved(talk(30, said), CompactionOptions(window=100))


def test_long_messages_of_the_users_may_go_where_that_is_asked_for() -> None:
    log = talk(30, ("user", "x" * 804, {}))
    assert 0 not in preserved(log, CompactionOptions(window=100, fold_material=True))


def test_an_exchange_stays_as_a_whole() -> None:
    """E2.5: where its result stays, so does its call."""
    log = talk(30, ("call", "{}", {"call_id": "a"}), ("result", "", {"call_id": "a", "pinned": True}))
    assert kept(log, CompactionOptions(window=100))[:2] == [0, 1]


def test_a_block_stands_for_all_that_its_parts_stood_for() -> None:
    """E2.4, E8.1: covers in the order of what happened, sizes summed, one level up, its own id in its text."""
    block = an_entry(1, "block", id="x1", covers=("r000001", "r000003"), form="tools", level=2, original_tokens=90)
    one = an_entry(2, "two", failed=True, pinned=True, importance=4.0, tool="t", call_id="c")
    made = replacing((block, one), "summary", lambda entry_id: f"[{entry_id}]", quarter, role="user")
    assert made.replaces == ("x1", "r000002")
    entry = made.entry
    assert entry.id.startswith("x")
    assert entry.text == f"[{entry.id}]"
    assert entry.tokens == quarter(entry.text)
    assert entry.covers == ("r000001", "r000002", "r000003")
    assert (entry.kind, entry.role, entry.form, entry.level) == ("message", "user", "summary", 3)
    assert (entry.tool, entry.call_id, entry.pinned) == (None, None, False)
    assert (entry.failed, entry.importance, entry.original_tokens, entry.at) == (True, 4.0, 91, block.at)


@pytest.mark.parametrize("form", ["mask", "external"])
def test_what_stands_for_one_entry_stays_what_that_was(form: Any) -> None:
    """E2.5: a masked result is still the result of its call."""
    result = an_entry(2, "out", kind="tool_result", tool="read", call_id="c", pinned=True)
    entry = replacing((result,), form, lambda _: "put away", quarter, role="user").entry
    assert (entry.kind, entry.role, entry.level) == ("tool_result", "tool", 0)
    assert (entry.tool, entry.call_id, entry.pinned) == ("read", "c", True)


def test_ids_tell_replacements_apart_by_what_they_replace_and_what_they_say() -> None:
    one, other = an_entry(1, "a"), an_entry(2, "b")
    made = [
        replacing((one,), "mask", lambda _: "said", quarter),
        replacing((one,), "mask", lambda _: "said", quarter),
        replacing((one,), "mask", lambda _: "said otherwise", quarter),
        replacing((one,), "external", lambda _: "said", quarter),
        replacing((other,), "mask", lambda _: "said", quarter),
    ]
    assert made[0] == made[1]
    assert len({each.entry.id for each in made}) == 4


def test_a_replacement_takes_the_place_of_what_it_replaces() -> None:
    log = a_log(("user", "one"), ("assistant", "two " * 9), ("assistant", "three " * 9), ("user", "four"))
    made = replacing(log.entries[1:3], "tools", lambda _: "both", quarter)
    after = applied(log, [made])
    assert [entry.text for entry in after.entries] == ["one", "both", "four"]
    assert saved(log, [made]) == log.tokens - after.tokens == 22
    assert applied(log, []) == log


def test_what_somebody_called_important_stays() -> None:
    """E8.2: important messages are retained longest."""
    log = a_log(*[("assistant", f"Step {number}.", {"importance": float(number)}) for number in range(30)])
    kept = preserved(log, CompactionOptions(window=100))
    assert {place for place in kept if place < 10} == {5, 6, 7, 8, 9}
