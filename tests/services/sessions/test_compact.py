"""A session's log made shorter: what runs, in which order, what is kept, and how it comes back."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory import extensions
from mcp_memory.app import App
from mcp_memory.compaction.mask_tool_output import MaskToolOutput
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import PRESETS, CompactionOptions, PassName, PassPlan, SessionLog, applied
from mcp_memory.domain.sessions.summary import parsed, structured
from mcp_memory.entrypoints.server.record_answers import show_session
from mcp_memory.errors import Conflict, InvalidRequest, StoreBusy
from mcp_memory.ports.text import Summarized, Summarizer, SummaryRequest, TokenCounter
from mcp_memory.services.memory.forget import Forgotten
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions import summarize_span
from mcp_memory.services.sessions.commit_plan import Begun, Committed, PlanCommitter
from mcp_memory.services.sessions.compact import Compacted, CompactRequest
from mcp_memory.services.sessions.run_pass import PassStep
from mcp_memory.services.sessions.summarize_span import Written
from mcp_memory.settings import Settings
from tests.services.memory.outcomes import FIX, Sessions
from tests.services.sessions.conversations import covered, fed, session

if TYPE_CHECKING:
    from tests.conftest import Clock

EVERY = CompactRequest(force=True)


@pytest.fixture
def caller(app: App) -> Caller:
    return app.caller("work")


def _ran(done: Compacted) -> list[str]:
    return [run.name for run in done.runs if run.ran]


def _reason(done: Compacted, name: PassName) -> str:
    return next(run.reason for run in done.runs if run.name == name)


def _summary(app: App, caller: Caller) -> str:
    return next(entry.text for entry in app.logs.log(caller).entries if entry.form == "summary")


class TestPasses:
    @pytest.mark.uncounted
    def test_each_pass_says_whether_it_ran_and_why(self, app: App, caller: Caller) -> None:
        """E1.1, E6.2: the reason stands beside what it did, in the given order; the ceiling comes last."""
        log = fed(app, caller, 15)
        done = app.compact(CompactRequest(window=log.tokens), caller)
        assert [run.name for run in done.runs] == [
            "mask",
            "tool_calls",
            "dialogue",
            "threshold",
            "goal_batch",
            "ceiling",
        ]
        assert all(run.reason for run in done.runs)
        assert all(run.ran == (run.tokens_after < run.tokens_before) for run in done.runs)

    @pytest.mark.uncounted
    def test_tokens_are_counted_anew_between_passes(self, app: App, caller: Caller) -> None:
        """E1.1: a pass begins with what the one before it left."""
        log = fed(app, caller, 15)
        done = app.compact(replace(EVERY, window=log.tokens, passes=("tool_calls", "mask", "goal_batch")), caller)
        assert [run.name for run in done.runs][:3] == ["tool_calls", "mask", "goal_batch"]
        assert done.runs[0].tokens_before == log.tokens == done.before.tokens
        assert all(one.tokens_after == two.tokens_before for one, two in zip(done.runs, done.runs[1:], strict=False))
        assert app.logs.log(caller).tokens == done.after.tokens == done.runs[-1].tokens_after

    @pytest.mark.uncounted
    def test_masking_alone_may_be_enough(self, app: App, caller: Caller) -> None:
        """D4.2, D5.2: tool output goes first, and where that reaches the target nothing is summarised."""
        log = fed(app, caller, 15, output_lines=100)
        done = app.compact(CompactRequest(window=int(log.tokens * 1.1)), caller)
        assert _ran(done) == ["mask"]
        assert done.after.share <= 0.5
        assert "masking" in _reason(done, "threshold")
        assert {entry.form for entry in done.made} == {"mask"}

    @pytest.mark.uncounted
    def test_a_log_below_the_threshold_is_not_summarised_unless_asked(self, app: App, caller: Caller) -> None:
        """E2.2: at 80 % or more, else it says why not; D1.2: by hand it works all the same."""
        fed(app, caller, 12)
        assert "below" in _reason(app.compact(CompactRequest(), caller), "threshold")
        assert "threshold" in _ran(app.compact(replace(EVERY, window=2_500), caller))

    @pytest.mark.uncounted
    def test_a_full_log_comes_down_to_its_target(self, app: App, caller: Caller) -> None:
        """E2.2: to 50 % or less of a window that it fills with words."""
        log = fed(app, caller, 30, output_lines=2)
        done = app.compact(CompactRequest(window=log.tokens), caller)
        assert "threshold" in _ran(done)
        assert done.after.share <= 0.5
        assert done.after.level in ("calm", "notice")

    @pytest.mark.uncounted
    def test_a_full_log_is_not_left_just_below_its_threshold(self, app: App, caller: Caller) -> None:
        """E2.2: it would be compacted again and again, each time for little."""
        log = fed(app, caller, 20, output_lines=30)
        mask = MaskToolOutput(app.counter.count)

        def masked(window: int) -> float:
            plan = mask.plan(log, CompactionOptions(window=window, least_output=50))
            return applied(log, plan.replacements).tokens / window

        window = next(window for window in range(log.tokens, 0, -100) if masked(window) > 0.72)
        done = app.compact(CompactRequest(window=window, passes=("mask", "threshold")), caller)
        assert done.before.level == "ceiling"
        assert 0.7 <= done.runs[1].tokens_before / window < 0.8
        assert done.runs[1].ran
        assert done.after.share <= 0.5

    @pytest.mark.uncounted
    def test_finished_turns_become_batches_at_any_pressure(self, app: App, caller: Caller) -> None:
        """E2.3: by age and number."""
        fed(app, caller, 15)
        done = app.compact(CompactRequest(passes=("goal_batch",), window=10_000), caller)
        assert _ran(done) == ["goal_batch"]
        assert all(entry.text.startswith("[GOAL BATCH") for entry in done.made)

    @pytest.mark.uncounted
    def test_a_pass_that_fails_leaves_the_log_as_it_was(
        self, app: App, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """E1.2: it is reported, and the others run."""

        def fail(self: object, log: SessionLog, options: CompactionOptions) -> PassPlan:
            raise ZeroDivisionError

        monkeypatch.setattr("mcp_memory.compaction.mask_tool_output.MaskToolOutput.plan", fail)
        log = fed(app, caller, 15)
        steps: list[PassStep] = []
        done = app.compact(CompactRequest(passes=("mask", "goal_batch"), window=10_000), caller, steps.append)
        failed, batched, _ = done.runs
        assert (failed.error, failed.ran, failed.tokens_after) == ("ZeroDivisionError", False, log.tokens)
        assert batched.ran
        assert [step.event for step in steps if step.name == "mask"] == ["start", "error"]

    def test_a_pass_that_did_not_help_is_not_tried_again_on_the_same_log(
        self, app: App, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """E1.3: until the log, or what it is compacted by, is another one."""
        plans: list[int] = []

        def fail(self: object, log: SessionLog, options: CompactionOptions) -> PassPlan:
            plans.append(options.window)
            raise ZeroDivisionError

        monkeypatch.setattr("mcp_memory.compaction.mask_tool_output.MaskToolOutput.plan", fail)
        fed(app, caller, 3)
        request = CompactRequest(passes=("mask",))
        app.compact(request, caller)
        assert "did not make this very log shorter" in _reason(app.compact(request, caller), "mask")
        app.compact(replace(request, window=50_000), caller)
        fed(app, app.caller("work"), 4)
        app.compact(request, caller)
        assert plans == [100_000, 50_000, 100_000]

    @pytest.mark.uncounted
    def test_what_happens_is_told_as_it_happens(self, app: App, caller: Caller) -> None:
        """E5.1: start and end of each pass, with tokens, number and time."""
        log = fed(app, caller, 15)
        steps: list[PassStep] = []
        app.compact(CompactRequest(window=log.tokens), caller, steps.append)
        assert [(step.event, step.number) for step in steps] == [
            (event, number) for number in range(1, 7) for event in ("start", "complete")
        ]
        assert all(step.passes == 6 and step.total == log.tokens and step.at for step in steps)
        assert [step.run is None for step in steps] == [True, False] * 6

    def test_a_preset_brings_its_window_unless_one_is_given(self, app: App, caller: Caller) -> None:
        """E3.1."""
        windows = {preset: app.compact(CompactRequest(preset=preset), caller).after.window for preset in PRESETS}
        assert windows == {"default": 100_000, "aggressive": 150_000, "conservative": 100_000, "off": 100_000}
        assert app.compact(CompactRequest(preset="aggressive", window=9_000), caller).after.window == 9_000

    def test_the_settings_name_window_preset_and_passes(self, open_memory: Callable[..., App]) -> None:
        app = open_memory(compaction="aggressive", compaction_window=7_000, compaction_passes="goal_batch,mask")
        done = app.compact(CompactRequest(), app.caller("work"))
        assert (done.preset, done.after.window) == ("aggressive", 7_000)
        assert [run.name for run in done.runs] == ["goal_batch", "mask", "ceiling"]

    @pytest.mark.uncounted
    def test_off_compacts_by_hand_alone(self, open_memory: Callable[..., App]) -> None:
        """D1.2: automatic compaction is off, a call always works."""
        app = open_memory(compaction="off", compaction_window=3_000)
        caller = app.caller("work")
        fed(app, caller, 15)
        assert not app.keep_up() or app.logs.size(caller).tokens > 6_000
        assert app.compact(CompactRequest(), caller).after.share < 0.9

    @pytest.mark.uncounted
    def test_an_answer_tells_as_well_what_nobody_asked_for(self, app: App, caller: Caller) -> None:
        """D3.1: whoever holds the conversation has not seen what was compacted when idle."""
        fed(app, caller, 14)
        idle = app.compact(replace(EVERY, window=4_000, trigger="idle"), caller)
        fed(app, caller, 19)
        asked = app.compact(replace(EVERY, window=4_000, passes=("mask",)), caller)
        again = app.compact(replace(EVERY, window=4_000, passes=("mask",)), caller)
        assert {entry.id for entry in asked.made} > {entry.id for entry in idle.made}
        assert again.made == ()


class TestNothingIsLost:
    @pytest.mark.uncounted
    def test_every_original_is_covered_exactly_once(self, app: App, caller: Caller) -> None:
        """E2.4: however often passes run, in whatever order."""
        originals = covered(fed(app, caller, 20))
        for passes in (("mask",), ("goal_batch", "tool_calls"), ("threshold", "mask"), ("threshold",)):
            app.compact(replace(EVERY, passes=passes, window=3_000), caller)
            assert sorted(covered(app.logs.log(caller))) == sorted(originals)

    @pytest.mark.uncounted
    def test_undo_gives_back_the_log_to_the_byte(self, app: App, caller: Caller) -> None:
        """D3.2: one compaction after the other, the latest first."""
        logs = [fed(app, caller, 20)]
        for passes in (("mask",), ("tool_calls", "goal_batch"), ("threshold",)):
            app.compact(replace(EVERY, passes=passes, window=4_000), caller)
            logs.append(app.logs.log(caller))
        assert len({log.revision for log in logs}) == len(logs)
        for before in reversed(logs[:-1]):
            app.compact(CompactRequest(undo=True), caller)
            assert app.logs.log(caller) == before
        with pytest.raises(Conflict, match=r"nothing to undo.*give the session_id that compact answered with"):
            app.compact(CompactRequest(undo=True), caller)

    @pytest.mark.uncounted
    def test_what_was_said_since_stays_when_a_compaction_is_undone(self, app: App, caller: Caller) -> None:
        log = fed(app, caller, 15)
        app.compact(replace(EVERY, window=2_000), caller)
        app.feed([NewRecord(kind="message", role="user", text="And now the tests.")], caller)
        app.compact(CompactRequest(undo=True), caller)
        now = app.logs.log(caller)
        assert now.entries[:-1] == log.entries
        assert now.entries[-1].text == "And now the tests."

    def test_originals_are_found_and_opened_after_a_compaction(self, app: App, caller: Caller) -> None:
        """D3.2, T5.1: by a question, by the id of what stands for them, by their own."""
        fed(app, caller, 20)
        app.compact(replace(EVERY, window=2_000), caller)
        summary = next(entry for entry in app.logs.log(caller).entries if entry.form == "summary")
        found = app.recall(RecallRequest(query="which port did birch-relay move to?", detail="full"), caller)
        assert any("5401" in str(result["text"]) for result in found.results)

        opened: list[str] = []
        offset: int | None = 0
        while offset is not None:
            request = RecallRequest(ids=(summary.id,), detail="full", offset=offset, limit=20)
            page = app.recall(request, caller)
            opened += [str(result["id"]) for result in page.results]
            offset = page.next_offset
        assert tuple(opened) == summary.covers
        (one,) = app.recall(RecallRequest(ids=(summary.covers[0],), detail="full"), caller).results
        assert one["text"] == session(1)[0].text

    def test_several_stand_ins_open_side_by_side(self, app: App, caller: Caller) -> None:
        fed(app, caller, 15)
        done = app.compact(CompactRequest(passes=("goal_batch",), window=10_000), caller)
        ids = tuple(entry.id for entry in done.made[:2])
        shown = app.recall(RecallRequest(ids=(*ids, "x000"), max_tokens=8_000), caller)
        assert [(result["id"], result["form"]) for result in shown.results] == [(each, "batch") for each in ids]
        assert shown.not_found == ("x000",)

    @pytest.mark.uncounted
    def test_what_a_session_came_to_becomes_a_record_before_its_entries_go(
        self, app: App, caller: Caller, clock: "Clock"
    ) -> None:
        """D4.1: linked to the call that it comes from, each once."""
        Sessions(app, clock).mended(caller)
        fed(app, caller, 20)
        done = app.compact(replace(EVERY, window=2_000), caller)
        [fix] = app.records.get(done.extracted, caller.scopes).values()
        assert (fix.kind, fix.text) == ("fact", FIX)
        [source] = app.records.get([str(fix.details["source"])], caller.scopes).values()
        assert "pytest -q" in source.text

    def test_two_sessions_are_compacted_apart(self, app: App) -> None:
        one, two = app.caller("one"), app.caller("two")
        fed(app, one, 10)
        untouched = fed(app, two, 10)
        app.compact(replace(EVERY, window=1_500), one)
        assert app.logs.log(two) == untouched
        with pytest.raises(Conflict):
            app.compact(CompactRequest(undo=True), two)

    @pytest.mark.uncounted
    def test_a_log_that_another_process_compacted_meanwhile_is_planned_anew(
        self, open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two processes at one session: the later one sees that its plan is stale, and plans again."""
        app, other = open_memory(), open_memory()
        caller = app.caller("work")
        originals = covered(fed(app, caller, 15))
        read, stale = app.logs.log, [app.logs.log(caller)]

        def read_late(who: Caller) -> SessionLog:
            return stale.pop() if stale else read(who)

        monkeypatch.setattr(app.logs, "log", read_late)
        other.compact(replace(EVERY, window=2_000, passes=("mask",)), caller)
        app.compact(replace(EVERY, window=2_000), caller)
        assert sorted(covered(read(caller))) == sorted(originals)

    @pytest.mark.parametrize("times", [1, 9])
    def test_a_log_that_never_stands_still_is_left_to_the_others(
        self, app: App, caller: Caller, monkeypatch: pytest.MonkeyPatch, times: int
    ) -> None:
        """E1.2: a conflict is tried again, a few times; then the pass is reported as failed."""
        commit, conflicts = PlanCommitter.__call__, [Conflict("The log changed meanwhile.")] * times

        def late(self: PlanCommitter, plan: PassPlan, name: PassName, log: SessionLog, begun: Begun) -> Committed:
            if conflicts:
                raise conflicts.pop()
            return commit(self, plan, name, log, begun)

        monkeypatch.setattr(PlanCommitter, "__call__", late)
        log = fed(app, caller, 10)
        done = app.compact(replace(EVERY, window=2_000, passes=("mask",)), caller)
        assert done.runs[0].ran == (times == 1)
        assert done.runs[0].error == (None if times == 1 else "The log changed meanwhile.")
        assert (app.logs.log(caller) == log) == (times == 9 and not done.runs[1].ran)

    @pytest.mark.uncounted
    def test_a_store_that_is_away_ends_the_call(
        self, app: App, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S2.3: it is no fault of the pass's; the caller is told the remedy."""

        def fail(self: PlanCommitter, plan: PassPlan, name: PassName, log: SessionLog, begun: Begun) -> Committed:
            raise StoreBusy("Try again.")

        monkeypatch.setattr(PlanCommitter, "__call__", fail)
        fed(app, caller, 10)
        with pytest.raises(StoreBusy):
            app.compact(replace(EVERY, window=2_000), caller)

    @pytest.mark.uncounted
    def test_erasing_a_message_erases_what_says_the_same(self, app: App, caller: Caller) -> None:
        """D3.2: what stands for it goes, the others it stood for stand again."""
        log = fed(app, caller, 20)
        app.compact(replace(EVERY, window=2_000), caller)
        first = log.entries[0]
        forgotten = app.forget([first.id], "erase", caller)
        assert isinstance(forgotten, Forgotten)
        now = app.logs.log(caller)
        assert not any(first.text in entry.text for entry in now.entries)
        assert sorted(covered(now)) == sorted(set(covered(log)) - {first.id})


class TestSummaries:
    def test_a_summary_says_what_it_stands_for(self, app: App, caller: Caller) -> None:
        """D3.1: one message in the user's role, marked, with its counts, listed in the session's resource."""
        log = fed(app, caller, 20)
        done = app.compact(replace(EVERY, window=2_000), caller)
        summary = next(entry for entry in done.made if entry.form == "summary")
        assert summary.role == "user"
        assert summary.text.startswith(f"[CONTEXT SUMMARY {summary.id}] {len(summary.covers)} messages")
        page: Any = show_session(app.session_accounts.stored("work", caller), app.log_standing(caller), caller)
        (shown,) = [one for one in page["summaries"] if one["form"] == "summary"]
        assert shown["compacted_count"] == len(summary.covers)
        assert shown["original_token_count"] == summary.original_tokens <= log.tokens
        assert shown["summary_token_count"] == summary.tokens
        assert shown["compacted_at"].startswith("2026-11-20")

    @pytest.mark.uncounted
    def test_a_new_summary_grows_from_the_earlier_one(self, app: App, caller: Caller) -> None:
        """D6.2, E8.1: one anchor; the earlier summary is not lost, and its record stands behind the new one's."""
        fed(app, caller, 20)
        first = app.compact(replace(EVERY, window=3_000), caller)
        early = next(entry for entry in first.made if entry.form == "summary")
        app.feed([record for record in session(40) if record.text not in {r.text for r in session(20)}], caller)
        second = app.compact(replace(EVERY, window=3_000), caller)
        (late,) = [entry for entry in app.logs.log(caller).entries if entry.form == "summary"]
        assert set(early.covers) < set(late.covers)
        assert late.level >= early.level
        assert "amber-relay" in late.text
        assert app.logs.entries([early.id], caller)[early.id] == early
        records = app.recall(RecallRequest(kinds=("summary",), limit=5), caller).results
        assert [record.get("status") for record in records] == [None, "superseded"]
        assert second.compactions == 2
        assert any("compacted 2 times" in warning for warning in second.warnings)

        app.compact(CompactRequest(undo=True), caller)
        records = app.recall(RecallRequest(kinds=("summary",), limit=5), caller).results
        assert [record.get("status") for record in records] == [None]

    def test_of_summaries_that_grew_from_each_other_the_last_alone_is_found(self, app: App, caller: Caller) -> None:
        """D6.2, R8: it holds the others, which are found where what no longer holds is asked for."""
        for turns in (8, 14, 20):
            fed(app, caller, turns)
            app.compact(replace(EVERY, window=3_000, passes=("threshold",)), caller)
        asked = RecallRequest(query="Which services were moved to which port?", kinds=("summary",))
        [found] = app.recall(asked, caller).results
        assert "Please move the service" in str(found["text"])
        assert len(app.recall(replace(asked, include_inactive=True), caller).results) == 3

    def test_what_became_of_a_summary_s_record_does_not_matter_to_the_log(self, app: App, caller: Caller) -> None:
        """D3.2: it may be retired or erased; the log is compacted and restored all the same."""
        log = fed(app, caller, 20)
        app.compact(replace(EVERY, window=3_000), caller)
        (first,) = app.recall(RecallRequest(kinds=("summary",)), caller).results
        app.forget([str(first["id"])], "erase", caller)
        fed(app, caller, 30)
        app.compact(replace(EVERY, window=3_000), caller)
        (second,) = app.recall(RecallRequest(kinds=("summary",)), caller).results
        app.forget([str(second["id"])], "retire", caller)
        app.compact(CompactRequest(undo=True), caller)
        app.compact(CompactRequest(undo=True), caller)
        assert app.logs.log(caller).entries[: len(log.entries)] == log.entries

    @pytest.mark.uncounted
    def test_the_user_is_quoted_to_the_byte(self, app: App, caller: Caller) -> None:
        """D2.1, D6.1: instructions are kept as they were said."""
        log = fed(app, caller, 20)
        app.compact(replace(EVERY, window=2_000), caller)
        shown = "\n".join(entry.text for entry in app.logs.log(caller).entries)
        assert all(entry.text in shown for entry in log.entries if entry.is_users)

    @pytest.mark.uncounted
    def test_many_constraints_leave_room_for_what_was_decided(self, app: App, caller: Caller) -> None:
        """D6.2: the user's words that set them are quoted, so none is listed as well."""
        rules = [
            f"Never change the table orders_{number} without asking the team of floor {number}." for number in range(80)
        ]
        idle = "The relay was read once more, line by line. " * 8
        for begin in range(0, len(rules), 20):
            app.feed(
                [
                    NewRecord(kind="message", role=role, text=text)
                    for number, rule in enumerate(rules[begin : begin + 20], start=begin)
                    for role, text in (
                        ("user", rule),
                        ("assistant", f"Shall lamp {number} hang or stand? {idle}"),
                        ("user", "stand"),
                        ("assistant", idle),
                    )
                ],
                caller,
            )
            app.compact(replace(EVERY, window=5_000, passes=("threshold",)), caller)
        summary = parsed(_summary(app, caller))
        assert summary.of("goal") == (rules[0],)
        assert set(rules[1:35]) <= set(summary.of("instructions"))
        assert not summary.of("constraints")
        assert len(summary.of("decisions")) > 20

    def test_a_decision_says_what_it_replaces_beside_the_quotation(self, app: App, caller: Caller) -> None:
        """P1.2: a later decision replaces an earlier one about the same."""
        chosen = ("Let's go with half resolution.", "Actually, scrap the half resolution: use quarter resolution.")
        idle = "The relay was read once more, line by line. " * 8
        said = ["Mend the photo mode.", *chosen, *(f"Go on with lamp {number}." for number in range(10, 30))]
        turns = [(("user", text), ("assistant", idle)) for text in said]
        app.feed([NewRecord(kind="message", role=role, text=text) for turn in turns for role, text in turn], caller)
        app.compact(replace(EVERY, window=5_000, passes=("threshold",)), caller)
        decided = parsed(_summary(app, caller)).of("decisions")
        assert f"{chosen[1]} (no longer: {chosen[0]})" in decided

    @pytest.mark.uncounted
    def test_exact_values_stay_in_the_log(self, app: App, caller: Caller) -> None:
        """D6.1, E4.1: ports, files and errors are not paraphrased away."""
        fed(app, caller, 20)
        app.compact(replace(EVERY, window=3_000), caller)
        shown = "\n".join(entry.text for entry in app.logs.log(caller).entries)
        assert all(str(5400 + number) in shown for number in range(20))
        assert "PermissionError" in shown

    def test_earlier_summaries_found_wanting_make_the_next_one_longer(self, app: App, caller: Caller) -> None:
        """E8.2: feedback on a summary's record counts."""
        fed(app, caller, 20, output_lines=2)
        assert app.compact(replace(EVERY, window=5_000), caller).adapted == ""
        (summary,) = app.recall(RecallRequest(kinds=("summary",)), caller).results
        for _ in range(3):
            app.revise(Revision(id=str(summary["id"]), feedback="ignored"), caller)
        assert "did not help" in app.compact(replace(EVERY, window=5_000), caller).adapted


class TestCallersSummary:
    GOOD = (
        "## Goal\n- Move the services to their new ports.\n## Constraints\n- none\n## Key facts\n- none\n"
        "## Current state\n- The first services are moved.\n## Completed\n- amber-relay is on port 5400.\n"
        "## In progress\n- none\n## Next steps\n- Move the rest.\n## Decisions\n- Old ports stay open until March.\n"
        "## Dead ends\n- none\n"
    )

    def _ruled(self, app: App, caller: Caller, turns: int, *, output_lines: int = 40) -> SessionLog:
        """The log of a session with a rule that the summary does not tell."""
        app.feed([NewRecord(kind="message", role="user", text="Never touch the billing cluster.")], caller)
        return fed(app, caller, turns, output_lines=output_lines)

    def _insisted(self, app: App, caller: Caller, window: int, span: str) -> Compacted:
        """Send a summary that tells less than the span holds: it is refused once for that, then taken."""
        request = CompactRequest(window=window, summary=self.GOOD, span=span)
        with pytest.raises(InvalidRequest, match="the next one is taken"):
            app.compact(request, caller)
        return app.compact(request, caller)

    @pytest.mark.uncounted
    def test_the_caller_summarises_in_two_steps(self, app: App, caller: Caller) -> None:
        """D7.1: prompt and span first; the summary is taken for exactly that span."""
        log = self._ruled(app, caller, 20)
        asked = app.compact(replace(EVERY, window=3_000, summarizer="caller"), caller).asked
        assert asked
        assert "Decisions" in asked.prompt
        assert "amber-relay" in asked.text
        done = self._insisted(app, caller, 3_000, asked.span)
        assert _ran(done) == ["threshold"]
        assert done.compactions == 1
        summary = _summary(app, caller)
        assert "Move the rest." in summary
        assert log.entries[0].text in summary
        assert done.written is None

    def test_what_a_summary_leaves_out_is_named_and_one_that_tells_it_is_taken_at_once(
        self, open_memory: Callable[..., App]
    ) -> None:
        """D7.1, D11.2: a rule that is not told; the log stays as it was."""
        app = open_memory()
        caller = app.caller("work")
        self._ruled(app, caller, 20)
        asked = app.compact(replace(EVERY, window=3_000, summarizer="caller"), caller).asked
        assert asked
        before = app.logs.log(caller)
        with pytest.raises(InvalidRequest, match=r"“Constraints” leaves out: Never touch") as refused:
            app.compact(CompactRequest(window=3_000, summary=self.GOOD, span=asked.span), caller)
        assert app.logs.log(caller) == before
        missed = [part.split(" leaves out: ")[-1] for part in str(refused.value).split("; ")]
        whole = self.GOOD.replace("## Constraints\n- none", "## Constraints\n- " + "\n- ".join(missed))
        unaware = open_memory()
        assert unaware.compact(CompactRequest(window=3_000, summary=whole, span=asked.span), caller).compactions == 1

    @pytest.mark.uncounted
    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            (("## Next steps\n- Move the rest.\n", ""), "Next steps"),
            (("amber-relay is on port 5400.", "amber-relay is set in `config/invented_file.yaml`."), "invented_file"),
            (("Move the rest.", "Move the rest. " * 2_000), "hort"),
        ],
    )
    def test_a_summary_that_is_not_good_enough_is_sent_back(
        self, app: App, caller: Caller, change: tuple[str, str], complaint: str
    ) -> None:
        """D7.1: with what is missing; the log stays as it was."""
        fed(app, caller, 20)
        asked = app.compact(replace(EVERY, window=3_000, summarizer="caller"), caller).asked
        assert asked
        before = app.logs.log(caller)
        with pytest.raises(InvalidRequest, match=complaint):
            app.compact(CompactRequest(window=3_000, summary=self.GOOD.replace(*change), span=asked.span), caller)
        assert app.logs.log(caller) == before

    def test_what_was_put_away_since_is_no_longer_summarised(self, app: App, caller: Caller) -> None:
        fed(app, caller, 20)
        asked = app.compact(replace(EVERY, window=3_000, summarizer="caller"), caller).asked
        assert asked
        app.compact(replace(EVERY, window=3_000), caller)
        for span in (asked.span, "r1-r2-ff", "nonsense"):
            with pytest.raises(Conflict, match="call compact again"):
                app.compact(CompactRequest(window=3_000, summary=self.GOOD, span=span), caller)

    def test_of_a_long_span_the_beginning_is_shown_and_what_to_open(
        self, app: App, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """D7.1."""
        monkeypatch.setattr(summarize_span, "ASKED_TOKENS", 200)
        fed(app, caller, 12)
        asked = app.compact(replace(EVERY, window=2_000, summarizer="caller"), caller).asked
        assert asked
        *shown, last = asked.text.splitlines()
        assert "amber-relay" in shown[0]
        assert re.fullmatch(r"… and \d+ more, from \w+ on: open them with recall\.", last)

    def test_a_span_is_taken_for_exactly_what_was_asked(self, app: App, caller: Caller) -> None:
        fed(app, caller, 20)
        asked = app.compact(replace(EVERY, window=3_000, summarizer="caller"), caller).asked
        assert asked
        first, last, _ = asked.span.split("-")
        with pytest.raises(Conflict, match="call compact again"):
            app.compact(CompactRequest(window=3_000, summary=self.GOOD, span=f"{first}-{last}-00000000"), caller)

    def test_a_summary_that_makes_nothing_shorter_is_sent_back(self, app: App, caller: Caller) -> None:
        """D7.1: where the span is hardly more than the user's instructions, which are quoted."""
        said = [
            NewRecord(kind="message", role=role, text=text)
            for number in range(60)
            for role, text in (
                ("user", f"Put lamp {number} on shelf {number * 3}, and tell me when."),
                ("assistant", "Ok, yes."),
            )
        ]
        app.feed(said, caller)
        asked = app.compact(
            CompactRequest(window=1_000, force=True, summarizer="caller", passes=("mask",)), caller
        ).asked
        assert asked
        before = app.logs.log(caller)
        facts = "\n".join(
            f"- The room with the {word} lamp has a shelf of its own." for word in "red blue old new tall".split()
        )
        summary = self.GOOD.replace("## Key facts\n- none", f"## Key facts\n{facts}")
        with pytest.raises(InvalidRequest, match="not shorter"):
            app.compact(CompactRequest(window=1_000, summary=summary, span=asked.span), caller)
        assert app.logs.log(caller) == before

    def test_nothing_is_asked_where_masks_are_enough(self, app: App, caller: Caller) -> None:
        """D5.2."""
        log = fed(app, caller, 15, output_lines=100)
        done = app.compact(CompactRequest(window=int(log.tokens * 1.1), summarizer="caller"), caller)
        assert _ran(done) == ["mask"]
        assert done.asked is None

    def test_nothing_is_asked_where_nothing_need_be_summarised(self, app: App, caller: Caller) -> None:
        fed(app, caller, 3)
        assert app.compact(CompactRequest(summarizer="caller"), caller).asked is None

    @pytest.mark.uncounted
    def test_the_caller_is_asked_before_the_end_of_a_log_gives_way(self, app: App, caller: Caller) -> None:
        """D1.1: what is preserved gives way only where the summary does not help."""
        self._ruled(app, caller, 30, output_lines=2)
        first = app.compact(CompactRequest(window=2_500, summarizer="caller", passes=("threshold",)), caller)
        assert first.asked
        assert not _ran(first)
        done = self._insisted(app, caller, 2_500, first.asked.span)
        assert [run.name for run in done.runs] == ["threshold", "ceiling"]
        assert done.after.share <= 0.9
        assert app.compact(CompactRequest(undo=True), caller).after.tokens == first.before.tokens

    @pytest.mark.uncounted
    def test_the_second_step_knows_what_the_first_one_knew(self, app: App, caller: Caller) -> None:
        """D7.1: without its window, and though more was said since."""
        self._ruled(app, caller, 20)
        asked = app.compact(replace(EVERY, window=3_000, summarizer="caller"), caller).asked
        assert asked
        more = [NewRecord(kind="message", role="user", text="Now the next one."), *session(3)]
        app.feed(more, caller)
        request = CompactRequest(summary=self.GOOD, span=asked.span)
        with pytest.raises(InvalidRequest, match="the next one is taken"):
            app.compact(request, caller)
        done = app.compact(request, caller)
        assert (_ran(done)[0], done.after.window) == ("threshold", 3_000)
        assert "Move the rest." in _summary(app, caller)

    @pytest.mark.parametrize("nothing", ["none", "[to be filled in]", "Keine Angaben", "特になし"])
    def test_a_summary_that_says_nothing_is_sent_back(self, app: App, caller: Caller, nothing: str) -> None:
        """P2.2."""
        before = fed(app, caller, 20)
        asked = app.compact(replace(EVERY, window=3_000, summarizer="caller", passes=("threshold",)), caller).asked
        assert asked
        titles = ("Goal", "Key facts", "Current state", "Next steps", "Decisions", "Dead ends")
        summary = "\n".join(f"## {title}\n- {nothing}" for title in titles)
        with pytest.raises(InvalidRequest, match="It says nothing of these messages"):
            app.compact(CompactRequest(summary=summary, span=asked.span), caller)
        assert app.logs.log(caller) == before

    @pytest.mark.uncounted
    def test_a_summary_that_names_no_compaction_begins_one(self, app: App, caller: Caller) -> None:
        self._ruled(app, caller, 40)
        asked = app.compact(replace(EVERY, window=6_000, summarizer="caller"), caller).asked
        assert asked
        span, number, _ = asked.span.split("/")
        assert number == "1"
        done = self._insisted(app, caller, 6_000, f"{span}/99")
        assert (done.number, done.compactions) == (2, 2)

    def test_undo_and_a_summary_exclude_each_other(self, app: App, caller: Caller) -> None:
        with pytest.raises(InvalidRequest, match="undo or summary"):
            app.compact(CompactRequest(undo=True, summary="x", span="y"), caller)

    def test_a_model_that_is_not_configured_cannot_be_asked(self, app: App, caller: Caller) -> None:
        with pytest.raises(InvalidRequest, match="No model is configured"):
            app.compact(CompactRequest(summarizer="model"), caller)


class Costly:
    """A summarizer as a model would be: it takes tokens, and says in one line what matters."""

    name = "model"

    def __init__(self) -> None:
        self.requests: list[SummaryRequest] = []

    def summarize(self, request: SummaryRequest) -> Summarized:
        self.requests.append(request)
        return Summarized(summary=structured({"goal": ["Every service on its new port."]}), spent=1_234, by="costly")


class TestModel:
    @pytest.fixture
    def costly(self, monkeypatch: pytest.MonkeyPatch) -> Costly:
        costly = Costly()
        make = extensions.summarizers

        def make_with_costly(settings: Settings, counter: TokenCounter) -> Mapping[str, Summarizer]:
            return {**make(settings, counter), "model": costly}

        monkeypatch.setattr(extensions, "summarizers", make_with_costly)
        return costly

    @pytest.mark.uncounted
    def test_a_configured_model_summarises_by_itself(self, costly: Costly, open_memory: Callable[..., App]) -> None:
        """D7.1, E6.2: who wrote, and what it took, is told; the user's words and exact values do not depend on it."""
        app = open_memory()
        caller = app.caller()
        log = fed(app, caller, 20)
        done = app.compact(replace(EVERY, window=2_000, instructions="Mind the ports."), caller)
        assert done.written == Written(by="costly", note="", spent=1_234)
        (request,) = costly.requests
        assert "Mind the ports." in request.prompt
        summary = _summary(app, caller)
        assert "Every service on its new port." in summary
        assert log.entries[0].text in summary
        assert app.status(caller).passes["threshold"].spent == 1_234

    @pytest.mark.uncounted
    def test_the_extractive_one_is_there_beside_a_model(self, costly: Costly, open_memory: Callable[..., App]) -> None:
        app = open_memory()
        caller = app.caller()
        fed(app, caller, 20)
        done = app.compact(replace(EVERY, window=2_000, summarizer="extractive"), caller)
        assert done.written
        assert done.written.by == "extractive"
        assert not costly.requests

    @pytest.mark.uncounted
    def test_a_model_knows_the_earlier_summary_and_writes_only_what_came_since(
        self, costly: Costly, open_memory: Callable[..., App]
    ) -> None:
        """D6.2: merging is not the model's."""
        app = open_memory()
        caller = app.caller()
        fed(app, caller, 20)
        app.compact(replace(EVERY, window=3_000), caller)
        app.feed(session(40), caller)
        app.compact(replace(EVERY, window=3_000), caller)
        early, late = costly.requests
        assert early.earlier is None
        assert late.earlier
        assert late.earlier.of("goal") == ("Every service on its new port.",)
        assert not {entry.id for entry in early.entries} & {entry.id for entry in late.entries}


class TestStanding:
    def test_status_says_how_full_the_log_is_and_what_passes_did(self, app: App, caller: Caller) -> None:
        """D1.3, E6.2."""
        log = fed(app, app.caller(), 15, output_lines=100)
        app.compact(CompactRequest(window=log.tokens), app.caller())
        status = app.status(app.caller())
        assert (status.log.level, status.log.compactions) == ("calm", 1)
        mask, threshold = status.passes["mask"], status.passes["threshold"]
        assert (mask.ran, threshold.ran) == (1, 0)
        assert mask.saved > log.tokens // 2
        assert threshold.not_needed

    @pytest.mark.uncounted
    def test_a_full_log_is_warned_of(self, open_memory: Callable[..., App]) -> None:
        """D1.3: in status, before anybody compacts."""
        app = open_memory(compaction_window=6_000)
        fed(app, app.caller(), 20)
        assert app.status(app.caller()).log.warnings


class TestOnePrompt:
    """P1.1: a session of one order and hundreds of calls."""

    @staticmethod
    def _said(steps: int, first: int = 0) -> list[NewRecord]:
        prompt = NewRecord(
            kind="message", role="user", text="Work on the ticket until it is done. Never touch main.py."
        )
        made = session(first + steps)[5 * first :]
        return [*([] if first else [prompt]), *[each for each in made if each.role != "user"]]

    @pytest.mark.uncounted
    @pytest.mark.parametrize(
        "passes", [(), ("threshold",), ("tool_calls",), ("mask",), ("tool_calls", "goal_batch"), ("dialogue",)]
    )
    def test_it_is_compacted_inside_the_turn(self, app: App, caller: Caller, passes: tuple[PassName, ...]) -> None:
        app.feed(self._said(40), caller)
        before = app.logs.log(caller)
        done = app.compact(CompactRequest(window=before.tokens, passes=passes, force=True), caller)
        log = app.logs.log(caller)
        assert done.after.share <= 0.9
        if not passes:
            assert done.after.tokens <= before.tokens / 2
        assert log.entries[0] == before.entries[0]
        assert log.entries[-20:] == before.entries[-20:]
        assert sorted(covered(log)) == sorted(covered(before))
        assert not log.unanswered

    @pytest.mark.uncounted
    def test_round_after_round_every_original_is_covered_once(self, app: App, caller: Caller) -> None:
        fed_so_far: list[str] = []
        for number in range(6):
            app.feed(self._said(15, 15 * number), caller)
            done = app.compact(CompactRequest(window=6_000, force=number % 2 == 0), caller)
            log = app.logs.log(caller)
            assert done.after.share <= 0.9
            assert len(covered(log)) == len(set(covered(log))) > len(fed_so_far)
            assert sum(entry.form == "summary" for entry in log.entries) <= 1
            assert "Never touch main.py." in "".join(entry.text for entry in log.entries)
            fed_so_far = covered(log)

    @pytest.mark.parametrize("steps", [7, 15])
    def test_results_in_the_users_role_begin_no_turn_and_are_not_quoted(
        self, app: App, caller: Caller, steps: int
    ) -> None:
        """D2.1, P1.2: the prompt stays, and a summary comes where the last entries alone are above the ceiling."""
        prompt = f"Find the leak. {'The archive service is slow. ' * 60}"
        said = [NewRecord(kind="message", role="user", text=prompt)]
        for number in range(steps):
            call = f"Part {number} may drop rows, I look at it.\n```\ncat part{number}.log\n```"
            said.append(NewRecord(kind="message", role="assistant", text=call))
            output = "\n".join(f"row {number}-{line} of the archive" for line in range(40))
            said.append(NewRecord(kind="message", role="user", text=f"{output}\n(Open file: n/a)\nbash-$"))
        app.feed(said, caller)
        before = app.logs.log(caller)
        app.compact(CompactRequest(window=before.tokens // 2, force=True), caller)
        log = app.logs.log(caller)
        assert log.entries[0] == before.entries[0]
        assert sum(entry.form == "summary" for entry in log.entries) == 1
        assert not any("> row " in entry.text for entry in log.entries)
        assert log.tokens <= 0.9 * (before.tokens // 2)
        assert covered(log) == covered(before)

    @pytest.mark.uncounted
    def test_a_summary_does_not_repeat_the_prompt_that_stays(self, app: App, caller: Caller) -> None:
        """P1.2: it says what the work is for."""
        app.feed(self._said(40), caller)
        app.compact(CompactRequest(window=app.logs.log(caller).tokens, force=True), caller)
        assert "Work on the ticket" not in _summary(app, caller)
        app.feed(self._said(30, 40), caller)
        app.compact(CompactRequest(window=app.logs.log(caller).tokens, force=True), caller)
        assert "Work on the ticket" not in _summary(app, caller)

    def test_a_log_that_is_all_end_is_said_to_be(self, app: App, caller: Caller) -> None:
        app.feed(self._said(4), caller)
        done = app.compact(CompactRequest(window=2 * app.logs.log(caller).tokens, force=True), caller)
        assert _reason(done, "threshold") == (
            "nothing outside the preserved part: all 17 entries are the end of the log, the last 20 or 20 % of the"
            " window, or preserved with it"
        )
