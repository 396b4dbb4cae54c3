"""What somebody else changed since a caller saw it is named before the caller changes it: N5.1."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_memory.app import App
from mcp_memory.domain.model.records import Json, NewRecord
from mcp_memory.domain.model.versions import CONFIRMED, TOLD, Version
from mcp_memory.entrypoints.server.record_answers import show_account
from mcp_memory.errors import Conflict, NotFound
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.review.enqueue import enqueue
from mcp_memory.services.review.settle import Settling
from mcp_memory.stores.own_shown import KEPT
from tests.conftest import Clock

Open = Callable[..., App]


def store(memory: App, text: str, **fields: Any) -> str:
    return memory.remember([NewRecord(text=text, **fields)], memory.caller())[0].id


def revise(memory: App, record_id: str, **fields: Any) -> None:
    memory.revise(Revision(id=record_id, **fields), memory.caller())


def look(memory: App, *ids: str) -> int:
    """Open the records; the version of the last one."""
    return int(str(memory.recall(RecallRequest(ids=ids), memory.caller()).results[-1]["version"]))


def listed(value: Json) -> list[Mapping[str, Json]]:
    """The objects of a JSON list."""
    assert isinstance(value, list)
    return [each for each in value if isinstance(each, dict)]


def text_of(memory: App, record_id: str) -> str:
    return memory.records.get([record_id], memory.caller().scopes)[record_id].text


@pytest.fixture
def ann(open_memory: Open) -> App:
    return open_memory(agent="ann")


@pytest.fixture
def bob(open_memory: Open) -> App:
    return open_memory(agent="bob")


def test_a_text_that_another_agent_changed_meanwhile_is_named_first(ann: App, bob: App, clock: Clock) -> None:
    """The error says what, by whom, when and what next; the same call then goes on. Nothing is lost either way."""
    port = store(ann, "The port is 80.")
    look(bob, port)
    clock.advance(hours=1)
    revise(bob, port, text="The port is 81.")
    with pytest.raises(Conflict) as raised:
        revise(ann, port, text="The port is 82.")
    assert str(raised.value) == (
        f"Record {port} was changed by bob at 2026-11-20T13:00Z (text), after you last saw it. It is new now and reads:"
        ' "The port is 81.". Nothing was done; if you still want it, repeat the call.'
    )
    assert text_of(ann, port) == "The port is 81."
    revise(ann, port, text="The port is 82.")
    revise(ann, port, text="The port is 83.")
    assert [version.agent for version in ann.records.versions([port])[port]] == ["bob", "ann", "ann"]


def test_another_window_of_the_same_agent_is_another(ann: App, open_memory: Open) -> None:
    """Each learns what the other one did."""
    other = open_memory(agent="ann")
    port = store(ann, "The port is 80.")
    revise(other, port, text="The port is 81.")
    with pytest.raises(Conflict, match="by another session of yours at"):
        revise(ann, port, importance=9.0)
    revise(ann, port, importance=9.0)
    with pytest.raises(Conflict, match="by another session of yours at"):
        revise(other, port, text="The port is 84.")


@pytest.mark.uncounted
@pytest.mark.parametrize("mode", ["retire", "erase"])
def test_nothing_is_forgotten_that_changed_unseen(ann: App, bob: App, mode: Literal["retire", "erase"]) -> None:
    """All of the call is refused, and its records count as seen."""
    ids = [store(ann, f"The port is {number}.") for number in (80, 90, 95)]
    for number, record_id in enumerate(ids[:2]):
        revise(bob, record_id, text=f"The port is {number}.")
    with pytest.raises(Conflict, match=rf"Record {ids[0]} was .* So were 1 more of these records\. Nothing was done"):
        ann.forget([*ids, "r-unknown"], mode, ann.caller())
    assert [text_of(ann, each) for each in ids] == ["The port is 0.", "The port is 1.", "The port is 95."]
    assert ann.forget(ids, mode, ann.caller()).done == tuple(ids)


def test_what_is_retired_already_is_retired_again_without_a_word(ann: App, bob: App) -> None:
    """Nothing would change; restoring it would."""
    port = store(ann, "The port is 80.")
    bob.forget([port], "retire", bob.caller())
    assert ann.forget([port], "retire", ann.caller()).done == (port,)
    with pytest.raises(Conflict, match=r"was changed by bob .* It is retired now"):
        ann.forget([port], "restore", ann.caller())
    assert ann.forget([port], "restore", ann.caller()).done == (port,)
    assert ann.forget([port], "restore", ann.caller()).done == (port,)


@pytest.mark.uncounted
@pytest.mark.parametrize("showing", ["ids", "query", "context"])
def test_what_the_session_was_shown_is_seen(ann: App, bob: App, showing: str) -> None:
    """Whichever call showed it."""
    port = store(ann, "The port of the server is 80.")
    revise(bob, port, text="The port of the server is 81.")
    caller = ann.caller()
    if showing == "context":
        ann.assemble_context(ContextRequest(query="port of the server"), caller)
    else:
        ids = (port,) if showing == "ids" else ()
        ann.recall(RecallRequest(query="" if ids else "port of the server", ids=ids), caller)
    revise(ann, port, text="The port of the server is 82.")


def test_confirmations_and_upkeep_are_no_conflict(ann: App, bob: App, open_memory: Open, clock: Clock) -> None:
    """They take nothing back, and nobody asked for what upkeep does."""
    port = store(ann, "The port is 80.")
    store(bob, "The port is 80.")
    revise(bob, port, feedback="used")
    story = store(ann, "We moved house.", kind="episode")
    clock.advance(days=40)
    bob.maintain(lambda done, total: None)
    statuses = [ann.records.get([each], ann.caller().scopes)[each].status for each in (port, story)]
    assert statuses == ["confirmed", "summarized"]
    revise(ann, port, text="The port is 81.")
    ann.forget([story], "retire", ann.caller())
    history = listed(show_account(ann.inspect.record(story, ann.caller()), ann.caller())["history"])
    assert [each["by"] for each in history] == ["ann", "upkeep", "ann"]
    assert [each["before"] for each in history] == [{}, {"status": "active"}, {"status": "summarized"}]


def test_feedback_that_only_counts_is_never_refused(ann: App, bob: App) -> None:
    """That a record is wrong may be said of the text that was seen alone."""
    port = store(ann, "The port is 80.")
    revise(bob, port, text="The port is 81.")
    revise(ann, port, feedback="ignored")
    with pytest.raises(Conflict, match="changed by bob"):
        revise(ann, port, feedback="wrong", version=1)


def test_a_version_that_is_given_has_to_be_the_newest(ann: App, bob: App) -> None:
    """For programs: whatever the session saw, and also for changes of its own."""
    port = store(ann, "The port is 80.")
    seen = look(ann, port)
    revise(ann, port, text="The port is 81.", version=seen)
    newer = look(ann, port)
    for call in (
        lambda: revise(ann, port, text="The port is 82.", version=seen),
        lambda: ann.forget([port], "erase", ann.caller(), seen),
    ):
        with pytest.raises(Conflict, match=f"repeat the call with version={newer}"):
            call()
    revise(ann, port, text="The port is 82.", version=newer)


@pytest.mark.uncounted
def test_a_session_that_goes_on_in_another_process_has_seen_its_own_changes(bob: App, open_memory: Open) -> None:
    """And none of another's since."""
    ann = open_memory(agent="ann", session="walk")
    port, name = store(ann, "The port is 80."), store(ann, "The name is Orion.")
    revise(ann, port, text="The port is 81.")
    revise(bob, name, text="The name is Vega.")
    again = open_memory(agent="ann", session="walk")
    revise(again, port, text="The port is 82.")
    with pytest.raises(Conflict, match="Vega"):
        revise(again, name, text="The name is Deneb.")


@pytest.mark.uncounted
def test_what_a_process_never_showed_was_seen_when_it_began(ann: App, bob: App, open_memory: Open) -> None:
    """Also what was shown so long ago that it is forgotten."""
    port, name = store(ann, "The port is 80."), store(ann, "The name is Orion.")
    revise(ann, port, text="The port is 81.")
    late = open_memory(agent="eve")
    revise(late, port, text="The port is 82.")
    revise(bob, name, text="The name is Vega.")
    look(late, name)
    ids = [(f"r{number}", "") for number in range(KEPT)]
    late._shown.note(late.caller(), ids, 1)  # noqa: SLF001
    with pytest.raises(Conflict, match="by bob"):
        revise(late, name, text="The name is Deneb.")


def test_only_its_owner_or_an_administrator_hides_a_shared_record(ann: App, bob: App) -> None:
    """N5.2: also between agents of one person. Its person may take it along into every project."""
    port = store(ann, "The port is 80.")
    with pytest.raises(Conflict, match="stored by 'ann'; only that agent, or an administrator, may hide it"):
        revise(bob, port, visibility="private")
    bob.revise(Revision(id=port, visibility="private"), replace(bob.caller(), is_admin=True))
    with pytest.raises(NotFound):
        revise(bob, port, pinned=True)
    assert ann.records.get([port], ann.caller().scopes)[port].scope == "private/ann/test"
    name = store(ann, "The name is Orion.")
    revise(bob, name, visibility="user")
    revise(ann, name, visibility="shared", version=look(ann, name))
    revise(ann, name, visibility="private")


def test_a_text_that_another_agent_rewrote_is_by_that_agent(ann: App, bob: App) -> None:
    """In results and contexts; its own once it is rewritten again."""
    port = store(ann, "The port of the server is 80.")
    revise(bob, port, text="The port of the server is 81.")
    assert ann.recall(RecallRequest(ids=(port,)), ann.caller()).results[0]["agent"] == "bob"
    assert f"[{port} 11-20 by bob]" in ann.assemble_context(ContextRequest(query="server port"), ann.caller()).text
    assert "agent" not in bob.recall(RecallRequest(ids=(port,)), bob.caller()).results[0]
    revise(ann, port, text="The port of the server is 82.")
    assert "agent" not in ann.recall(RecallRequest(ids=(port,)), ann.caller()).results[0]
    shown = show_account(ann.inspect.record(port, ann.caller()), ann.caller())
    earlier = [{key: each[key] for key in ("by", "text")} for each in listed(shown["earlier"])]
    assert earlier == [
        {"by": "bob", "text": "The port of the server is 81."}, {"by": "ann", "text": "The port of the server is 80."},
    ]  # fmt: skip
    assert [(each["by"], each["rewritten"]) for each in listed(shown["history"])] == [
        ("ann", False), ("bob", True), ("ann", True),
    ]  # fmt: skip


def test_guidance_that_another_agent_rewrote_is_no_longer_ones_own(bob: App, open_memory: Open) -> None:
    """S4.1: whoever may change a constraint must not speak in its owner's name."""
    ann = open_memory(agent="ann", guidance_from_others=False)
    rule = store(ann, "Never deploy on Fridays.", kind="censor")
    asked = ContextRequest(query="deploy the server")
    assert "Fridays" in ann.assemble_context(asked, ann.caller()).text
    revise(bob, rule, text="Always deploy on Fridays.")
    assert "Fridays" not in ann.assemble_context(asked, ann.caller()).text


Told = dict[str, Any]


@dataclass
class Window:
    """A caller, and what it was shown of each record last."""

    memory: App
    seen: dict[str, Told] = field(default_factory=dict[str, Told])
    group: str = "v000000"

    def told_of(self, record_id: str) -> Told:
        """The record as it is now, in what people are told of."""
        record = self.memory.records.get([record_id], self.memory.caller().scopes)[record_id]
        return {name: getattr(record, name) for name in ("text", *TOLD)}

    def act(self, what: str, record_id: str, ids: Sequence[str], number: int) -> str:
        """Do one step; the error that it is answered with, or nothing."""
        memory, caller = self.memory, self.memory.caller()
        now = {each: self.told_of(each) for each in ids}
        both = f"Both {number}: {' '.join(each['text'] for each in now.values())}"
        steps: Mapping[str, Callable[[], object]] = {
            "look": lambda: self.look([record_id]),
            "review": lambda: self.review(ids),
            "revise": lambda: revise(memory, record_id, text=f"The value of {record_id} is {number}."),
            "pin": lambda: revise(memory, record_id, pinned=not now[record_id]["pinned"]),
            "succeed": lambda: store(memory, f"Newer still: {number}.", supersedes=(record_id,)),
            "confirm": lambda: store(memory, now[record_id]["text"]),
            "retire": lambda: memory.forget([record_id], "retire", caller),
            "restore": lambda: memory.forget([record_id], "restore", caller),
            "merge": lambda: memory.settle(Settling(id=self.group, settle="merge", keep=record_id, text=both), caller),
            "replace": lambda: memory.settle(Settling(id=self.group, settle="supersedes", keep=record_id), caller),
            "undo": lambda: memory.undo(memory.records.versions([record_id])[record_id][-1].write, caller),
        }
        try:
            steps[what]()
        except (Conflict, NotFound, KeyError) as error:  # No such group any more; no version to undo.
            return str(error)
        return ""

    def look(self, ids: Sequence[str]) -> None:
        look(self.memory, *ids)
        self.seen |= {each: self.told_of(each) for each in ids}

    def review(self, ids: Sequence[str]) -> None:
        """Be shown a group of the records, where there is one."""
        with self.memory.records.write(self.memory.caller()) as transaction:
            group = enqueue("contradictions", ids, "They differ.", 1.0, transaction)
        if group is not None:
            self.group, self.seen = group.id, {each: self.told_of(each) for each in ids}


CHECKED_BY_VERSION = ("revise", "pin", "succeed", "confirm", "retire", "restore")
histories = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 1),
        st.sampled_from((*CHECKED_BY_VERSION, "look", "review", "merge", "replace", "undo")),
    ),
    min_size=3,
    max_size=14,
)


def check_and_learn(
    window: Window, windows: Sequence[Window], each: str, before: Told, made: Sequence[Version], *, takes_back: bool
) -> None:
    """Check one record after a window's step: the window was shown what it replaced. It knows its own change."""
    caller, after = window.memory.caller(), window.told_of(each)
    assert all((one.agent, one.session_id) == (caller.agent, caller.session_id) for one in made)
    changed = {name: after[name] for name in after if after[name] != before[name]}
    assert made or not changed
    is_confirmed = all(one.reason == CONFIRMED for one in made)
    if changed and not is_confirmed and not takes_back:
        assert all(window.seen[each][name] == before[name] for name in (*changed, "text"))
    for other in windows:
        known = {name: new for name, new in changed.items() if is_confirmed and other.seen[each][name] == before[name]}
        other.seen[each] = other.seen[each] | (changed if other is window else known)


@given(history=histories)
@settings(max_examples=15)
@example(history=[(1, 0, "revise"), (0, 0, "succeed")])
@example(history=[(1, 0, "retire"), (0, 0, "confirm")])
@example(history=[(0, 0, "review"), (1, 1, "revise"), (0, 0, "merge")])
@example(history=[(0, 0, "review"), (1, 0, "revise"), (0, 0, "replace"), (1, 0, "retire"), (0, 0, "restore")])
@example(history=[(1, 0, "retire"), (2, 0, "restore"), (1, 0, "pin"), (2, 0, "undo"), (1, 0, "revise")])
def test_no_acknowledged_change_disappears_without_being_named(
    history: Sequence[tuple[int, int, str]], open_memory: Open
) -> None:
    """N5.1: what a call of three windows replaces was shown to it, or it is refused with what changed and by whom.

    An undo names the change that it takes back. Each change stands in the history, with its author.
    """
    first = open_memory(folder=None, agent="ann")
    ids = [store(first, f"The value of {name} is 0.") for name in ("red", "blue")]
    others = (open_memory(folder=first.settings.data_dir.name, agent="bob") for _ in range(2))
    windows = [Window(memory) for memory in (first, *others)]
    for window in windows:
        window.seen = {each: window.told_of(each) for each in ids}
    written = {each: [windows[0].told_of(each)["text"]] for each in ids}
    for number, (who, which, what) in enumerate(history, start=1):
        window, record_id = windows[who], ids[which]
        before = {each: window.told_of(each) for each in ids}
        known = {each: len(first.records.versions([each]).get(each, ())) for each in ids}
        if refusal := window.act(what, record_id, ids, number):
            assert {each: window.told_of(each) for each in ids} == before
            if what in CHECKED_BY_VERSION:
                assert f"Record {record_id} was changed by " in refusal
                assert before[record_id]["text"] in refusal
                window.seen[record_id] = before[record_id]
            continue
        for each in ids:
            versions = first.records.versions([each]).get(each, ())
            made = versions[known[each] :]
            check_and_learn(window, windows, each, before[each], made, takes_back=what == "undo")
            after = window.told_of(each)["text"]
            written[each] += [after] if after != before[each]["text"] else []
            assert [*(str(one.before["text"]) for one in versions if "text" in one.before), after] == written[each]
    for window in windows:
        window.memory.close()
