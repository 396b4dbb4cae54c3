"""Logs near their window are compacted without being asked."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcp_memory import extensions
from mcp_memory.app import App, Seat
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.sessions.summary import structured
from mcp_memory.ports.text import Summarized, Summarizer, SummaryRequest, TokenCounter
from mcp_memory.services.sessions import idle_compaction
from mcp_memory.services.sessions.compact import Compacted, CompactRequest
from mcp_memory.settings import Settings, at_work, working_for
from mcp_memory.wiring import WINDOWS_FOLDER
from tests.conftest import Clock
from tests.services.sessions.conversations import fed, session


def _kept_up(app: App) -> None:
    while app.idle_compaction.step():
        pass


@pytest.mark.parametrize(("share", "minutes", "is_compacted"), [(0.6, 60, False), (0.75, 1, False), (0.75, 6, True)])
def test_a_log_of_seventy_percent_is_compacted_once_its_session_is_silent(
    open_memory: Callable[..., App], clock: Clock, share: float, minutes: int, is_compacted: bool
) -> None:
    """D1.1: when idle, at 70 %."""
    probe = open_memory(folder=None)
    tokens = fed(probe, probe.caller("work"), 15).tokens
    app = open_memory(compaction_window=int(tokens / share))
    log = fed(app, app.caller("work"), 15)
    clock.advance(seconds=60 * minutes)
    _kept_up(app)
    compactions = app.logs.compactions(app.caller("work"))
    assert [one.trigger for one in compactions] == (["idle"] if is_compacted else [])
    assert (app.logs.size(app.caller("work")).tokens < log.tokens) == is_compacted


@pytest.mark.uncounted
def test_a_log_of_eighty_percent_is_compacted_at_once(open_memory: Callable[..., App]) -> None:
    """D1.1: forced; every session by itself, whoever serves."""
    app, other = open_memory(compaction_window=3_000), open_memory(agent="other", compaction_window=3_000)
    for caller in (app.caller("one"), app.caller("two"), other.caller("one")):
        fed(app, caller, 10)
    _kept_up(app)
    for caller in (app.caller("one"), app.caller("two"), other.caller("one")):
        assert [one.trigger for one in app.logs.compactions(caller)] == ["forced"]
        assert app.logs.size(caller).tokens <= 0.9 * 3_000


@pytest.mark.uncounted
def test_the_logs_of_others_are_sent_to_no_model(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.1, D7.1: what one agent has configured is not for another's words, nor for those of another project."""
    asked: list[str] = []

    class Model:
        name = "model"

        def summarize(self, request: SummaryRequest) -> Summarized:
            asked.append(request.entries[0].text)
            return Summarized(summary=structured({"goal": ["Every service on its new port."]}), by="model")

    def make_with_model(settings: Settings, counter: TokenCounter) -> Mapping[str, Summarizer]:
        return {**make(settings, counter), "model": Model()}

    make = extensions.summarizers
    monkeypatch.setattr(extensions, "summarizers", make_with_model)
    app = open_memory(compaction_window=2_000)
    others = [open_memory(agent="other"), open_memory(namespace="elsewhere")]
    for each in others:
        fed(each, each.caller("work"), 20, output_lines=2)
    _kept_up(app)
    assert asked == []
    assert all(each.logs.stand_ins(each.caller("work")) for each in others)
    fed(app, app.caller("work"), 20, output_lines=2)
    _kept_up(app)
    assert asked


@pytest.mark.uncounted
def test_the_model_is_asked_with_the_keys_of_the_client_whose_session_it_is(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.3: of the one that worked on the session last, by whatever way; else of the window with that session."""
    used: list[tuple[str, object]] = []

    class Model:
        name = "model"

        def summarize(self, request: SummaryRequest) -> Summarized:
            client = at_work()
            used.append((request.entries[0].text, client.variables() if client else None))
            return Summarized(summary=structured({"goal": ["Every service on its new port."]}), by="model")

    def make_with_model(settings: Settings, counter: TokenCounter) -> Mapping[str, Summarizer]:
        return {**make(settings, counter), "model": Model()}

    make = extensions.summarizers
    monkeypatch.setattr(extensions, "summarizers", make_with_model)
    app = open_memory(compaction_window=2_000)
    anns, bobs, eves = (app.settings.of_client({}, None, {"OPENAI_API_KEY": key}) for key in ("ann", "bob", "eve"))
    turns = session(20, output_lines=2)
    for name, client in (("one", anns), ("two", bobs), ("three", None)):
        with working_for(client):
            app.feed([NewRecord(kind="message", role="user", text=f"This is {name}."), *turns], app.caller(name))
    with app.seated(Seat(app, eves, None, session="four")):
        with working_for(eves), app.seated(Seat(app, bobs, None)):
            told = [NewRecord(kind="message", role="user", text="This is five.", session_id="five")]
            app.remember(told, app.caller())
        app.feed([NewRecord(kind="message", role="user", text="This is four."), *turns], app.caller("four"))
        app.feed(turns, app.caller("five"))
        _kept_up(app)
    keys = {text.removeprefix("This is "): given for text, given in used if text.startswith("This is ")}
    ann, bob, eve = anns.variables(), bobs.variables(), eves.variables()
    assert keys == {"one.": ann, "two.": bob, "three.": None, "four.": eve, "five.": eve}
    assert at_work() is None


def test_the_keys_of_clients_are_forgotten_with_the_last_one(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.3: and there are never those of many sessions."""
    monkeypatch.setattr("mcp_memory.app.SESSIONS_NOTED", 2)
    app = open_memory()
    app.seats = ()
    client = app.settings.of_client({}, None, {"OPENAI_API_KEY": "ann"})
    with app.seated(Seat(app, client, None)), working_for(client):
        for name in ("one", "two", "one", "three"):
            fed(app, app.caller(name), 1)
        assert [session for _, _, session in vars(app)["_worked_on"]] == ["one", "three"]
    assert not vars(app)["_worked_on"]


@pytest.mark.uncounted
def test_a_window_is_reckoned_in_the_clients_tokens(open_memory: Callable[..., App]) -> None:
    """D1.1: a client whose tokens are shorter fills its window sooner."""
    probe = open_memory(folder=None)
    tokens = fed(probe, probe.caller("work"), 10).tokens
    for factor, is_due in ((1.0, 0), (1.5, 1)):
        app = open_memory(folder=None, compaction_window=int(tokens / 0.6), token_factor=factor)
        fed(app, app.caller("work"), 10)
        assert app.idle_compaction.due() == is_due


def test_the_last_client_that_called_is_reckoned_for(open_memory: Callable[..., App]) -> None:
    app = open_memory()
    app.caller(client="claude-code")
    assert app.factor(app.caller()).factor > 1


@pytest.mark.uncounted
def test_automatic_compaction_can_be_switched_off(open_memory: Callable[..., App]) -> None:
    """D1.2."""
    app = open_memory(compaction="off", compaction_window=3_000)
    log = fed(app, app.caller("work"), 10)
    _kept_up(app)
    assert app.logs.log(app.caller("work")) == log


@pytest.mark.uncounted
def test_a_log_that_cannot_be_made_shorter_is_left_until_it_grows(open_memory: Callable[..., App]) -> None:
    """E1.3: or upkeep would never come to rest."""
    app = open_memory(compaction_window=1_000)
    caller = app.caller("work")
    fed(app, caller, 8)
    _kept_up(app)
    assert not app.idle_compaction.step()
    fed(app, caller, 12)
    assert app.idle_compaction.step()


def test_a_log_of_one_question_is_tried_once(open_memory: Callable[..., App]) -> None:
    """E1.3: nothing of it can go."""
    app = open_memory(compaction_window=1_000)
    app.feed([NewRecord(kind="message", role="user", text="word " * 850)], app.caller("work"))
    assert app.idle_compaction.due()
    _kept_up(app)
    assert not app.idle_compaction.due()
    assert not app.logs.compactions(app.caller("work"))


@pytest.mark.uncounted
def test_what_is_said_during_a_compaction_is_compacted_by_the_next(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D1.1: a log that grew meanwhile is not one that cannot be made shorter."""

    class Meanwhile:
        name = "extractive"

        def summarize(self, request: SummaryRequest) -> Summarized:
            if not said:
                said.append(app.feed(session(40, output_lines=2)[100:], app.caller("work")).stored)
            return Summarized(summary=structured({"goal": ["Every service on its new port."]}), by="extractive")

    said: list[int] = []

    def make_slow(_: Settings, __: TokenCounter) -> Mapping[str, Summarizer]:
        return {"extractive": Meanwhile()}

    monkeypatch.setattr(extensions, "summarizers", make_slow)
    app = open_memory(compaction_window=2_000)
    app.feed(session(40, output_lines=2)[:100], app.caller("work"))
    _kept_up(app)
    assert said
    assert app.logs.size(app.caller("work")).tokens <= 0.9 * 2_000
    assert not app.idle_compaction.due()


@pytest.mark.uncounted
def test_a_session_that_was_silent_for_days_is_left_alone(open_memory: Callable[..., App], clock: Clock) -> None:
    app = open_memory(compaction_window=3_000)
    log = fed(app, app.caller("work"), 10)
    clock.advance(days=3)
    _kept_up(app)
    assert app.logs.log(app.caller("work")) == log


@pytest.mark.uncounted
def test_a_step_tells_what_it_did(open_memory: Callable[..., App]) -> None:
    app = open_memory(compaction_window=3_000)
    fed(app, app.caller("work"), 10)
    told: list[str] = []
    assert app.idle_compaction.step(lambda done: told.append(done.session_id))
    assert told == ["work"]


@pytest.mark.uncounted
def test_a_log_that_a_call_is_at_work_on_is_left_to_it(open_memory: Callable[..., App]) -> None:
    """D12.1: passes that a call chose never race with those of any background, nor do they follow at once."""
    app, another = open_memory(compaction_window=3_000), open_memory(compaction_window=3_000)
    caller, other = app.caller("one"), app.caller("two")
    fed(app, caller, 10)
    with app.idle_compaction.kept_off(caller):
        assert app.idle_compaction.due()
        _kept_up(app)
        _kept_up(another)
        assert not app.logs.compactions(caller)
        fed(app, other, 10)
        _kept_up(app)
        assert [one.trigger for one in app.logs.compactions(other)] == ["forced"]
        app.compact(CompactRequest(passes=("mask",)), caller)
    _kept_up(app)
    _kept_up(another)
    assert {one.pass_name for one in app.logs.stand_ins(caller)} <= {"mask", "ceiling"}
    fed(app, caller, 30)
    _kept_up(app)
    assert app.logs.compactions(caller)[-1].trigger == "forced"


@pytest.mark.uncounted
def test_an_undone_compaction_stays_undone(open_memory: Callable[..., App]) -> None:
    """D3.2, D12.1: a background that saw the full log again would take it back at once, also after a restart."""
    app = open_memory(compaction_window=3_000)
    caller = app.caller("one")
    log = fed(app, caller, 10)
    _kept_up(app)
    with app.idle_compaction.kept_off(caller):
        app.compact(CompactRequest(undo=True), caller)
    _kept_up(open_memory(compaction_window=3_000))
    assert app.logs.log(caller) == log


def test_a_call_waits_only_for_a_while_and_not_where_locks_do_not_work(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D12.1: a process that was stopped keeps its lock; what is committed is checked against the log all the same."""
    app = open_memory(compaction_window=3_000)
    caller = app.caller("one")
    fed(app, caller, 10)
    monkeypatch.setattr(idle_compaction, "PATIENCE_SECONDS", 0.0)
    with app.idle_compaction.kept_off(caller), app.idle_compaction.kept_off(caller):
        assert not app.idle_compaction.step()
    fed(app, caller, 15)
    (app.settings.data_dir / WINDOWS_FOLDER).rename(app.settings.data_dir / "elsewhere")
    (app.settings.data_dir / WINDOWS_FOLDER).touch()
    with app.idle_compaction.kept_off(caller):
        assert app.idle_compaction.step()


@pytest.mark.uncounted
def test_a_call_waits_for_a_compaction_of_its_log_that_is_under_way(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D12.1: it then works on what that left, and is told of it."""
    app = open_memory(compaction_window=3_000)
    caller = app.caller("one")
    fed(app, caller, 10)
    in_pass, go_on, entered = threading.Event(), threading.Event(), threading.Event()
    make = extensions.passes

    def slow(*given: Any) -> Any:
        in_pass.set()
        assert go_on.wait(60)
        return make(*given)

    monkeypatch.setattr(extensions, "passes", slow)
    background = threading.Thread(target=app.idle_compaction.step)
    background.start()
    assert in_pass.wait(60)
    seen: list[Compacted] = []

    def call() -> None:
        with app.idle_compaction.kept_off(caller):
            entered.set()
            seen.append(app.compact(CompactRequest(passes=("mask",)), caller))

    calling = threading.Thread(target=call)
    calling.start()
    assert not entered.wait(0.2)
    go_on.set()
    calling.join(60)
    background.join(60)
    assert [one.trigger for one in seen[0].meanwhile] == ["forced"]
    assert seen[0].before.tokens == app.logs.compactions(caller)[0].after


@pytest.mark.uncounted
def test_who_feeds_faster_than_upkeep_compacts_holds_the_ceiling_itself(open_memory: Callable[..., App]) -> None:
    """P1.1, D1.1: after each call, though no step was taken."""
    app = open_memory(compaction_window=3_000)
    caller = app.caller("work")
    for record in session(15):
        app.remember([record], caller, advise=False, embed=False)
        assert app.logs.size(caller).tokens <= 0.9 * 3_000
    assert {one.trigger for one in app.logs.compactions(caller)} == {"forced"}


def test_a_ceiling_is_not_held_where_compaction_is_off(open_memory: Callable[..., App]) -> None:
    app = open_memory(compaction_window=2_000, compaction="off")
    app.remember(session(10), app.caller("work"), advise=False, embed=False)
    assert not app.logs.compactions(app.caller("work"))


@pytest.mark.uncounted
def test_a_log_that_another_call_compacted_meanwhile_is_left_alone(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_memory(compaction_window=2_000)
    caller = app.caller("work")
    fed(app, caller, 10)
    answers = iter([True, False])

    def is_over(_: Caller) -> bool:
        return next(answers)

    monkeypatch.setattr(app.idle_compaction, "_is_over", is_over)
    app.hold_ceiling(caller)
    assert not app.logs.compactions(caller)


def test_who_passes_a_ceiling_waits_for_nobody_at_work_on_the_log(open_memory: Callable[..., App]) -> None:
    """D1.1: a model's answer there may take minutes; what is stored after it is held again."""
    app = open_memory(compaction_window=2_000)
    caller = app.caller("work")
    with app.idle_compaction.kept_off(caller):
        app.remember(session(10), caller, advise=False, embed=False)
        assert not app.logs.compactions(caller)
    app.remember(session(20)[-10:], caller, advise=False, embed=False)
    assert app.logs.compactions(caller)
