"""The pass that puts tool outputs away: what the line in their place still says."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from mcp_memory.compaction.mask_tool_output import MaskToolOutput, mask
from mcp_memory.domain.model.session_log import CompactionOptions, CompactionPass, Entry, SessionLog, applied, preserved
from tests.compaction.conftest import a_log, quarter, random_logs, random_options

OPTIONS = CompactionOptions(window=300)
MASK: CompactionPass = MaskToolOutput(quarter)
AFTERWARDS = tuple(("user" if n % 2 else "assistant", f"Another thing, number {n}.") for n in range(1, 24))
TRACE = """============================= test session starts =============================
collected 32 items
{noise}
Traceback (most recent call last):
  File "src/app.py", line 12, in start
    connect(port=5433)
ConnectionError: refused at port 5433
{noise}
FAILED tests/test_app.py::test_start - ConnectionError: refused at port 5433
========================= 1 failed, 31 passed in 0.42s =========================
"""


def noise(characters: int) -> str:
    return "\n".join(["some line of the log that tells nothing of value"] * (characters // 50))


def a_session(output: str, *, failed: bool = False, arguments: str = '{"path":"src/app.py"}') -> SessionLog:
    """A session that began with one call and its output, and went on about other things."""
    call = {"tool": "read_file", "call_id": "a"}
    return a_log(
        ("user", "Please look at the start of the app."),
        ("call", arguments, call),
        ("result", output, call | {"failed": failed, "micro": output.strip().partition("\n")[0]}),
        *AFTERWARDS,
    )


def the_mask(log: SessionLog, options: CompactionOptions = OPTIONS) -> Entry:
    """The only one that is made."""
    (replacement,) = MASK.plan(log, options).replacements
    return replacement.entry


def test_a_mask_names_the_tool_its_arguments_the_size_the_time_and_the_id() -> None:
    """D5.1: and shows the first line."""
    log = a_session("\n\nfrom app import start\nport = 5433\n" + noise(1_000))
    assert the_mask(log).text == (
        '[TOOL OUTPUT ARCHIVED id=r000003 tool=read_file args={"path":"src/app.py"} tokens=254 lines=24 '
        "at=2026-11-20T12:03:00Z]\nFirst line: from app import start\nKept: port = 5433"
    )


def test_a_mask_stays_the_result_of_its_call() -> None:
    """E2.5: kind, role, tool and call are those of the output; the original is what it covers."""
    log = a_session(noise(1_000), failed=True)
    output, put_away = log.entries[2], the_mask(log)
    for field in ("kind", "role", "tool", "call_id", "failed", "at", "level"):
        assert getattr(put_away, field) == getattr(output, field)
    assert (put_away.form, put_away.covers) == ("mask", (output.id,))
    after = applied(log, MASK.plan(log, OPTIONS).replacements)
    assert after.exchanges == log.exchanges


def test_the_errors_of_an_output_survive() -> None:
    """E4.1: wherever in the output they stand, and what it all came to."""
    text = the_mask(a_session(TRACE.format(noise=noise(5_000)), failed=True)).text
    assert "outcome=failure" in text
    kept = text.split("\nKept: ")[1]
    assert "ConnectionError: refused at port 5433" in kept
    assert "1 failed, 31 passed" in kept


def test_an_error_in_the_middle_of_a_very_long_output_survives() -> None:
    """E4.1: also where nobody said that it failed."""
    text = noise(60_000) + "\n2026-11-20 12:00:03 ERROR [pool] lost the connection to db-7\n" + noise(60_000)
    assert "lost the connection to db-7" in the_mask(a_session(text)).text


def test_exact_values_are_kept() -> None:
    """D5.1: to the letter."""
    text = the_mask(a_session("The server is ready.\n" + noise(1_500) + "\nlistening on port 5433\n")).text
    assert "port 5433" in text.split("\nKept: ")[1]


def test_what_may_be_put_away_is_said_or_why_nothing_is() -> None:
    """E1.1: a pass says whether it runs, and why."""
    assert MASK.plan(a_session(noise(1_000)), OPTIONS).reason == snapshot("1 output of 245 tokens archived, 45 left")
    assert MASK.plan(a_session("ok"), OPTIONS).reason == snapshot(
        "no output of 100 tokens or more outside the preserved part"
    )
    call = {"tool": "mcp__a_server_of_ours__a_tool_with_a_rather_long_name_of_its_own", "call_id": "a"}
    output = "A number of words that say what there is in it, and somewhat more.\n" * 6
    short = a_log(
        ("call", '{"path": "src/app.py", "part": "the very beginning"}', call), ("result", output, call), *AFTERWARDS
    )
    assert MASK.plan(short, OPTIONS).reason == snapshot(
        "no output outside the preserved part that a mask would make a third shorter"
    )
    assert MASK.plan(a_log(), OPTIONS).reason == snapshot("no output of 100 tokens or more outside the preserved part")


def test_short_outputs_stay_and_short_failures_longer() -> None:
    """What a mask would hardly shorten is not worth a call to read it again."""
    text = "word " * 160  # 200 tokens.
    assert not MASK.plan(a_session(text), CompactionOptions(window=300, least_output=201)).replacements
    assert MASK.plan(a_session(text), OPTIONS).replacements
    assert MASK.plan(a_session(text, failed=True), OPTIONS).replacements
    assert not MASK.plan(a_session(text[:-4], failed=True), OPTIONS).replacements


def test_a_short_output_stays_where_not_all_that_is_exact_has_room() -> None:
    """D5.1: of a longer one as much as there is room for is kept."""
    files = "\n".join(f"src/module_of_some_length_{number}.py:{number}: connect()" for number in range(6))
    log = a_session(files + "\n" + noise(200))
    assert log.entries[2].tokens < 150
    assert not MASK.plan(log, OPTIONS).replacements
    assert mask(log, 2, quarter, at_most=90) is not None
    longer = the_mask(a_session(files + "\n" + noise(2_000))).text
    assert "src/module_of_some_length_5.py" in longer


def test_the_preserved_end_and_pinned_outputs_stay() -> None:
    """D2.1: and what is a mask already."""
    log = a_session(noise(1_000))
    assert not MASK.plan(SessionLog(log.entries[:10]), OPTIONS).replacements
    pinned = a_log(*AFTERWARDS[:1], ("result", noise(1_000), {"pinned": True}), *AFTERWARDS)
    assert not MASK.plan(pinned, OPTIONS).replacements
    assert not MASK.plan(applied(log, MASK.plan(log, OPTIONS).replacements), OPTIONS).replacements


def test_an_output_without_its_call_is_put_away_without_arguments() -> None:
    log = a_log(("user", "Hello."), ("result", noise(1_000), {"tool": None}), *AFTERWARDS)
    first = the_mask(log).text.split("\n")[0]
    assert " tool=unknown tokens=" in first


def test_where_there_is_little_room_only_the_errors_are_kept() -> None:
    """E4.1: the error is the last thing that is given up."""
    output = TRACE.format(noise="") + noise(300)
    log = a_session(output, failed=True)
    full = mask(log, 2, quarter, at_most=1_000)
    terse = mask(log, 2, quarter, at_most=full.entry.tokens - 1 if full else 0)
    assert full is not None
    assert terse is not None
    assert terse.entry.tokens < full.entry.tokens
    assert "ConnectionError: refused at port 5433" in terse.entry.text
    assert mask(log, 2, quarter, at_most=10) is None


@pytest.mark.uncounted
@pytest.mark.parametrize("unit", ["x", "[", "\n", "1 ", "失败"])
def test_of_a_huge_output_and_huge_arguments_a_bounded_part_is_read_and_counted(unit: str) -> None:
    """D5.1: four times the characters leave the same lines, and give the counter no more to count."""
    shown: list[str] = []
    counted: list[int] = []
    for characters in (250_000, 1_000_000):
        half = unit * (characters // len(unit) // 2)
        arguments = json.dumps({"path": "y" * characters})
        log = a_session(f"Begun.\n{half}\nValueError: port 5433\n{half}", failed=True, arguments=arguments)
        read: list[str] = []

        def tallied(text: str, read: list[str] = read) -> int:
            read.append(text)
            return quarter(text)

        made = mask(log, 2, tallied, at_most=300)
        assert made is not None
        shown.append(re.sub(r" (?:tokens|lines)=[\d,]+", "", made.entry.text))
        counted.append(sum(map(len, read)))
    assert shown[0] == shown[1]
    assert "5433" not in shown[0]
    assert max(counted) < 5_000


@given(random_logs(), random_options)
def test_masks_are_shorter_and_touch_nothing_else(log: SessionLog, options: CompactionOptions) -> None:
    """E2.5, D2.1: exchanges stay whole, preserved places as they are; the same log gives the same plan."""
    plan = MASK.plan(log, options)
    after = applied(log, plan.replacements)
    assert plan == MASK.plan(log, options)
    assert after.exchanges == log.exchanges
    for place, (old, new) in enumerate(zip(log.entries, after.entries, strict=True)):
        if new == old:
            continue
        assert place not in preserved(log, options)
        assert (old.kind, new.covers) == ("tool_result", (old.id,))
        assert new.tokens * 3 <= old.tokens * 2


@given(st.text(), st.text(), st.booleans())
def test_any_text_is_put_away_in_three_lines(arguments: str, text: str, failed: bool) -> None:
    """Whatever the output and the arguments hold, they cannot forge a line."""
    log = a_session(text + noise(4_000) + text, failed=failed, arguments=arguments)
    lines = the_mask(log).text.split("\n")
    assert [line.split(" ")[0] for line in lines] in (["[TOOL", "First", "Kept:"], ["[TOOL", "First"])
    assert all(len(line.splitlines()) <= 1 for line in lines)
