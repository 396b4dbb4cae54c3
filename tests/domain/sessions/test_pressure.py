"""How full a log is, what it is full of, and what both ask of compaction."""

from dataclasses import replace

import pytest

from mcp_memory.domain.model.session_log import PRESETS, CompactionOptions, Entry, EntryKind, Form, Role, SessionLog
from mcp_memory.domain.sessions.pressure import CROWDED_ENTRIES, adapted, aimed, makeup, pressure, warnings

DEFAULT = PRESETS["default"]
NOTHING = makeup(SessionLog(()))


def _entry(tokens: int, kind: EntryKind = "message", role: Role = "assistant", form: Form = "original") -> Entry:
    return Entry(
        id="r000001", kind=kind, role=role, text="", tokens=tokens, at=0.0, covers=("r000001",),
        original_tokens=tokens, form=form,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tokens", "level"),
    [
        (0, "calm"),
        (49_999, "calm"),
        (50_000, "notice"),
        (69_999, "notice"),
        (70_000, "idle"),
        (79_999, "idle"),
        (80_000, "forced"),
        (90_000, "forced"),
        (90_001, "ceiling"),
    ],
)
def test_each_level_begins_at_its_share_of_the_window(tokens: int, level: str) -> None:
    """D1.1: 50 % notice, 70 % when idle, 80 % forced, never beyond 90 %."""
    assert pressure(tokens, DEFAULT).level == level


def test_a_conservative_log_is_forced_at_the_ceiling_only() -> None:
    """E3.1: forced at 90 %."""
    assert [pressure(tokens, PRESETS["conservative"]).level for tokens in (89_999, 90_000)] == ["idle", "forced"]


def test_an_aggressive_log_is_forced_sooner() -> None:
    """E3.1: 75 % of 150,000."""
    assert pressure(112_500, PRESETS["aggressive"]).level == "forced"


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (10_000, None),
        (50_000, "from 70% on it is compacted when idle"),
        (70_000, "at 80% it is forced"),
        (80_000, "it has to be compacted"),
        (95_000, "more than 90%"),
    ],
)
def test_a_warning_says_what_the_level_asks_for(tokens: int, said: str | None) -> None:
    """D1.3."""
    found = warnings(pressure(tokens, DEFAULT), DEFAULT, 1)
    assert len(found) == (said is not None)
    assert all(said and said in one for one in found)


def test_from_the_second_compaction_on_the_count_is_told() -> None:
    """D1.2."""
    assert not warnings(pressure(0, DEFAULT), DEFAULT, 1)
    (warning,) = warnings(pressure(0, DEFAULT), DEFAULT, 2)
    assert "compacted 2 times" in warning


def test_the_make_up_of_a_log_sums_to_one() -> None:
    log = SessionLog(
        (
            _entry(50, "tool_result", "tool"),
            _entry(20, role="user"),
            _entry(10),
            _entry(20, form="summary", role="user"),
        )
    )
    assert makeup(log) == {"tool_output": 0.5, "user": 0.2, "assistant": 0.1, "summaries": 0.2}


def test_what_dominates_a_log_bends_the_options() -> None:
    """E8.2."""
    same, nothing_said = adapted(DEFAULT, NOTHING, None)
    assert (replace(same, summary_tokens=DEFAULT.summary_tokens), nothing_said) == (DEFAULT, "")

    output, why = adapted(DEFAULT, {**NOTHING, "tool_output": 0.6}, None)
    assert output.least_output < DEFAULT.least_output
    assert "tool output is 60%" in why

    users, why = adapted(DEFAULT, {**NOTHING, "user": 0.5}, None)
    assert users.fold_material
    assert "instructions stay" in why

    summaries, why = adapted(DEFAULT, {**NOTHING, "summaries": 0.6}, None)
    assert "goal_batch" not in summaries.passes
    assert summaries.threshold == DEFAULT.idle
    assert "merged" in why


def test_summaries_found_wanting_make_the_next_ones_longer() -> None:
    """E8.2."""
    usual, _ = adapted(DEFAULT, NOTHING, 0.2)
    longer, why = adapted(DEFAULT, NOTHING, 0.75)
    assert longer.summary_tokens > usual.summary_tokens
    assert "75% of the judged summaries did not help" in why


@pytest.mark.parametrize(("window", "tokens"), [(1_000, 250), (10_000, 1_000), (100_000, 5_000), (10_000_000, 12_000)])
def test_a_summary_takes_a_share_of_the_window(window: int, tokens: int) -> None:
    assert adapted(CompactionOptions(window=window), NOTHING, None)[0].summary_tokens == tokens


def _turn(entries: int, tokens: int) -> SessionLog:
    """One prompt, and so many entries after it of so many tokens each."""
    return SessionLog((_entry(10, role="user"), *[_entry(tokens) for _ in range(entries)]))


def test_a_long_turn_is_brought_to_half_at_least() -> None:
    """P1.1."""
    assert aimed(DEFAULT, _turn(100, 600), is_forced=False).target == pytest.approx(0.3, abs=0.001)
    assert aimed(DEFAULT, _turn(100, 400), is_forced=False) == DEFAULT
    assert aimed(DEFAULT, _turn(100, 400), is_forced=True).target == pytest.approx(0.2, abs=0.001)
    assert aimed(DEFAULT, SessionLog(()), is_forced=True) == DEFAULT


def test_few_of_the_last_entries_stay_where_all_of_them_would_fill_the_log_again() -> None:
    """D1.1: the ceiling is held by a summary rather than by the marks of single messages."""
    assert aimed(DEFAULT, _turn(19, 5_000), is_forced=False).end_entries == CROWDED_ENTRIES
    assert aimed(DEFAULT, _turn(19, 4_000), is_forced=False).end_entries == DEFAULT.end_entries
    assert aimed(DEFAULT, _turn(1_000, 100), is_forced=False).end_entries == DEFAULT.end_entries
    turns = SessionLog(tuple(each for _ in range(8) for each in _turn(1, 12_000).entries))
    assert aimed(DEFAULT, turns, is_forced=False).end_entries == CROWDED_ENTRIES
