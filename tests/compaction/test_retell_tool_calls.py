"""The pass that tells old tool calls in a few sentences."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from mcp_memory.compaction.mask_tool_output import MaskToolOutput
from mcp_memory.compaction.retell_tool_calls import RetellToolCalls
from mcp_memory.domain.model.session_log import (
    PRESERVED_ENTRIES,
    CompactionOptions,
    CompactionPass,
    Entry,
    SessionLog,
    applied,
    preserved,
)
from tests.compaction.conftest import a_log, quarter, random_logs, random_options

OPTIONS = CompactionOptions(window=300, old_turns=3)
PASS: CompactionPass = RetellToolCalls(quarter)
AFTERWARDS = tuple(("user" if n % 2 else "assistant", f"Another thing, number {n}.") for n in range(1, 24))
NOISE = "some line of the log that tells nothing of value\n" * 20
FAILED = "E   AssertionError: assert {found} == 5433\n" + NOISE + "1 failed, 31 passed in 0.42s\n"
PASSED = NOISE + "32 passed in 0.40s\n"

Said = tuple[str, str] | tuple[str, str, dict[str, Any]]


def exchange(
    tool: str | None, arguments: object, output: str, *, call_id: str = "a", failed: bool = False
) -> list[Said]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    call = {"tool": tool, "call_id": call_id}
    return [("call", text, call), ("result", output, call | {"failed": failed, "micro": output.partition("\n")[0]})]


def a_session(*said: Said) -> SessionLog:
    """A session that began so, and went on about other things."""
    return a_log(("user", "Please fix the port."), *said, *AFTERWARDS)


def blocks(log: SessionLog, options: CompactionOptions = OPTIONS) -> list[Entry]:
    return [replacement.entry for replacement in PASS.plan(log, options).replacements]


def told(log: SessionLog) -> list[str]:
    """The blocks, without what all of them have."""
    texts = [block.text for block in blocks(log)]
    assert all(re.fullmatch(r"\[SUMMARIZED\] .+ \(open x[0-9a-f]{10}\)", text) for text in texts)
    return [text.removeprefix("[SUMMARIZED] ").rpartition(" (open ")[0] for text in texts]


def test_the_files_that_a_search_found_are_told() -> None:
    """E2.1, D6.1: all of them where they are few, whatever else the hits hold."""
    hits = "\n".join(f"src/part_{number}.py:{number + 7}:    connect(port=5433)" for number in range(4))
    [search] = told(a_session(*exchange("grep", {"pattern": "connect", "path": "src"}, f"{hits}\n{NOISE}")))
    assert all(f"src/part_{number}.py" in search for number in range(4))


def test_a_call_and_its_result_become_a_block_of_two_or_three_sentences() -> None:
    """E2.1: tool and purpose, key inputs, why, outcome."""
    log = a_session(
        ("assistant", "I see. Let me run the tests first:"),
        *exchange("Bash", {"command": "pytest -q", "timeout": 60}, FAILED.format(found=5432), failed=True),
    )
    (block,) = blocks(log)
    assert block.text == (
        "[SUMMARIZED] Ran `pytest -q` with Bash (timeout=60). Why: Let me run the tests first. "
        f"Failed: AssertionError: assert 5432 == 5433 · 1 failed, 31 passed in 0.42s. (open {block.id})"
    )
    assert (block.kind, block.role, block.form, block.level) == ("message", "assistant", "tools", 1)
    assert block.covers == tuple(entry.id for entry in log.entries[2:4])


@pytest.mark.parametrize(
    ("tool", "arguments", "output", "text"),
    [
        (
            "read_file",
            {"path": "src/app.py", "limit": 20},
            "PORT is read here.\n" + NOISE,
            "Read src/app.py with read_file (limit=20). Gave: PORT is read here.",
        ),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "x = 1\n", "new_string": "timeout=30s\ny"},
            "Updated.\n" + NOISE,
            "Edited a.py with Edit (1 line into 2 lines). Done: timeout=30s.",
        ),
        (
            "Write",
            {"file_path": "a.py", "content": "a\nb\nc\n"},
            "Written.\n" + NOISE,
            "Wrote a.py with Write (3 lines). Done.",
        ),
        (
            "Bash",
            {"command": "ls", "description": "See what is there"},
            NOISE,
            "Ran `ls` with Bash. Why: See what is there. Gave: some line of the log that tells nothing of value.",
        ),
        (
            "Bash",
            {"command": "make"},
            NOISE + "src/a.c:3:1: error: expected ';'\n" + NOISE,
            "Ran `make` with Bash. Showed an error: src/a.c:3:1: error: expected ';'.",
        ),
        (
            "mcp__tickets__create_issue",
            {"title": "Port clash"},
            "Created number 412.\n" + NOISE,
            "Called mcp__tickets__create_issue (title=Port clash). Gave: Created number 412.",
        ),
        ("think", {"thought": "long " * 200}, "", "Called think. Gave nothing more."),
    ],
)
def test_any_tool_is_told(tool: str, arguments: object, output: str, text: str) -> None:
    """E2.1: by what the words of its name and its arguments say."""
    assert told(a_session(*exchange(tool, arguments, output))) == [text]


def test_repeated_attempts_collapse_and_their_errors_stay() -> None:
    """E4.1: one block says how often, and how each ended."""
    log = a_session(
        *exchange("Bash", {"command": "pytest -q"}, FAILED.format(found=5432), call_id="a", failed=True),
        ("assistant", "Hm."),
        *exchange("Bash", {"command": "pytest -q"}, FAILED.format(found=1), call_id="b", failed=True),
        *exchange("Bash", {"command": "pytest -q"}, FAILED.format(found=1), call_id="c", failed=True),
        *exchange("Bash", {"command": "pytest -q"}, PASSED, call_id="d"),
    )
    failures = [f"AssertionError: assert {found} == 5433 · 1 failed, 31 passed in 0.42s" for found in (5432, 1)]
    tried = "Ran `pytest -q` 4 times with Bash. Failed 3 times"
    assert told(log) == [f"{tried} ({'; '.join(failures)}), then succeeded (32 passed in 0.40s)."]
    after = applied(log, PASS.plan(log, OPTIONS).replacements)
    assert [entry.text for entry in after.entries[2:3]] == ["Hm."]


def test_every_kind_of_failure_is_told_up_to_a_number() -> None:
    """E4.1: of very many, the first."""
    said = [
        each
        for n in range(9)
        for each in exchange("Bash", {"command": "make"}, FAILED.format(found=n), call_id=str(n), failed=True)
    ]
    (text,) = told(a_session(*said))
    assert text.startswith("Ran `make` 9 times with Bash. Failed 9 times (AssertionError: assert 0 == 5433 · ")
    assert text.endswith("; 3 more).")


def test_attempts_at_other_things_or_in_other_turns_are_told_apart() -> None:
    """E4.1: order stays chronological."""
    make = {"command": "make"}
    log = a_session(
        *exchange("Bash", make, PASSED, call_id="a"),
        *exchange("Bash", {"command": "make all"}, PASSED, call_id="b"),
        *exchange("Bash", make, PASSED, call_id="c"),
        ("user", "Once more."),
        *exchange("Bash", make, PASSED, call_id="d"),
    )
    assert len(blocks(log)) == 4
    assert [block.covers[0] for block in blocks(log)] == [log.entries[place].id for place in (1, 3, 5, 8)]


def test_calls_made_side_by_side_are_told_where_each_was_made() -> None:
    """E2.5: a block covers the call and its result, whatever stands between."""
    first, second = exchange("Read", {"path": "a.py"}, NOISE), exchange("Read", {"path": "b.py"}, NOISE, call_id="b")
    log = a_session(("assistant", "让我看看这两个文件。"), first[0], second[0], first[1], second[1])
    assert [text[:64] for text in told(log)] == snapshot(
        [
            "Read a.py with Read. Why: 让我看看这两个文件。 Gave: some line of the log ",
            "Read b.py with Read. Why: 让我看看这两个文件。 Gave: some line of the log ",
        ]
    )
    assert [block.covers for block in blocks(log)] == [
        (log.entries[2].id, log.entries[4].id),
        (log.entries[3].id, log.entries[5].id),
    ]


def test_what_a_mask_kept_is_told() -> None:
    """E4.1: errors survive both passes."""
    big = NOISE * 10 + FAILED.format(found=5432)
    log = a_session(
        *exchange("Bash", {"command": "make"}, big, call_id="a", failed=True),
        *exchange("Bash", {"command": "pytest"}, big, call_id="b"),
        *exchange("Read", {"path": "a.py"}, "PORT is read here.\n" + NOISE * 10, call_id="c"),
    )
    masked = applied(log, MaskToolOutput(quarter).plan(log, OPTIONS).replacements)
    ended = "AssertionError: assert 5432 == 5433 · 1 failed, 31 passed in 0.42s."
    assert told(masked) == [
        f"Ran `make` with Bash. Failed: {ended}",
        f"Ran `pytest` with Bash. Showed an error: {ended}",
        "Read a.py with Read. Gave: PORT is read here.",
    ]


def test_young_preserved_unanswered_and_short_calls_stay() -> None:
    """E1.1, D2.1: and the plan says why."""
    said = exchange("Bash", {"command": "make"}, PASSED)
    assert PASS.plan(a_session(*said), CompactionOptions(window=300, old_turns=13, target=2)).reason == snapshot(
        "no call 13 or more turns back with a result outside the preserved part"
    )
    assert PASS.plan(a_log(("user", "Go."), *said), OPTIONS).reason == snapshot(
        "no call 3 or more turns back with a result outside the preserved part"
    )
    assert PASS.plan(a_session(*exchange("Bash", "make", "ok")), OPTIONS).reason == snapshot(
        "no call 3 or more turns back is longer than what would say it"
    )
    assert PASS.plan(a_session(*said), OPTIONS).reason == snapshot(
        "calls 3 or more turns back, 255 tokens, told in 1 block of 20"
    )
    pinned = a_session(said[0], ("result", PASSED, {"call_id": "a", "pinned": True}))
    assert not blocks(pinned)
    assert not blocks(a_session(said[0], ("assistant", "It takes long.")))


def test_a_block_gives_up_reasons_before_it_is_left_out() -> None:
    """What is not shorter is no gain."""
    why = ("assistant", "Let me make everything that there is to be made in this project of ours.")
    assert told(a_session(why, *exchange("Bash", {"command": "make"}, "built it\n" + "as before\n" * 8))) == [
        "Ran `make` with Bash. Gave: built it."
    ]


def test_it_has_a_name() -> None:
    """E1.1: by which it is chosen and reported."""
    assert (MaskToolOutput(quarter).name, PASS.name) == ("mask", "tool_calls")


@given(random_logs(), random_options)
def test_blocks_are_shorter_and_cover_whole_exchanges(log: SessionLog, options: CompactionOptions) -> None:
    """E2.5, D2.1: nothing else changes; the same log gives the same plan."""
    plan = PASS.plan(log, options)
    after = applied(log, plan.replacements)
    assert plan == PASS.plan(log, options)
    gone = {entry_id for one in plan.replacements for entry_id in one.replaces}
    places = frozenset(place for place, entry in enumerate(log.entries) if entry.id in gone)
    assert log.within(places) == places
    assert places.isdisjoint(preserved(log, options))
    assert [entry for entry in after.entries if entry.form != "tools"] == list(
        log.at(set(range(len(log.entries))) - places)
    )
    for one in plan.replacements:
        assert one.entry.tokens < sum(entry.tokens for entry in log.entries if entry.id in one.replaces)
        assert one.entry.id in one.entry.text
    assert sorted(covered for entry in after.entries for covered in entry.covers) == sorted(e.id for e in log.entries)


@given(st.text(), st.text(), st.text(), st.booleans())
def test_any_text_is_told_in_one_line(tool: str, arguments: str, output: str, failed: bool) -> None:
    long = exchange(tool, arguments, output + NOISE * 4 + output, failed=failed)
    (text,) = told(a_session(("assistant", output), *long))
    assert len(text.splitlines()) == 1


def test_calls_of_a_long_turn_are_told_though_no_turn_began_after_them() -> None:
    """P1.1: but for its prompt and its end."""
    said = [line for _ in range(15) for line in exchange("Bash", {"command": "make"}, PASSED)]
    log = a_log(("user", "Go."), *said)
    replaced = {entry_id for made in PASS.plan(log, OPTIONS).replacements for entry_id in made.replaces}
    assert replaced
    assert log.entries[0].id not in replaced
    assert replaced.isdisjoint(entry.id for entry in log.entries[-PRESERVED_ENTRIES:])
    assert not PASS.plan(log, replace(OPTIONS, window=100_000)).replacements
