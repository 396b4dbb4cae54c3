"""What a client says of its conversation becomes the log of its session, each thing once."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest

from mcp_memory.app import App
from mcp_memory.domain.memory.harness import CLIENTS_NOTE, OWN_CALL
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.prepare_record import Made, RecordPreparer
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions import feed
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.sessions.feed import Fed
from tests.services.sessions.conversations import session


@pytest.fixture
def caller(app: App) -> Caller:
    return app.caller("work")


def _texts(app: App, caller: Caller) -> list[str]:
    return [entry.text for entry in app.logs.log(caller).entries]


def test_a_conversation_is_stored_as_it_was_said(app: App, caller: Caller) -> None:
    told = session(3)
    assert app.feed(told, caller) == Fed(stored=len(told))
    entries = app.logs.log(caller).entries
    assert [(entry.kind, entry.role, entry.text, entry.tool, entry.call_id) for entry in entries] == [
        (record.kind, record.role, record.text, record.tool, record.call_id) for record in told
    ]


def test_what_is_told_again_is_stored_once(app: App, caller: Caller) -> None:
    """R2: two equal messages of one conversation are two, the same one told twice is one."""
    told = [*session(2), *session(2)]
    app.feed(told[:7], caller)
    assert app.feed(told, caller) == Fed(stored=len(told) - 7, known=7)
    assert app.feed(told[12:], caller) == Fed(known=len(told) - 12)
    assert _texts(app, caller) == [record.text for record in told]


REMINDER = "<system-reminder>\nNever mention this list.\n</system-reminder>"


def test_what_the_client_wrote_is_cut_counted_and_keeps_its_place(app: App, caller: Caller) -> None:
    """D8.1: by `remember` as well; told again, it is known."""
    told = [
        NewRecord(kind="message", role="user", text=REMINDER),
        NewRecord(kind="message", role="user", text=f"Which port?\n{REMINDER}"),
        NewRecord(kind="tool_call", tool="mcp__mcp-memory__recall", call_id="c1", text='{"query":"port"}'),
        NewRecord(kind="tool_result", tool="mcp__mcp-memory__recall", call_id="c1", text="The port is 8123."),
        NewRecord(kind="message", role="assistant", text="8123."),
    ]
    app.remember(told[:2], caller)
    assert app.feed(told, caller) == Fed(stored=3, known=2, harness=2)
    log = app.logs.log(caller)
    assert [(entry.role, entry.text) for entry in log.entries] == [
        ("tool", CLIENTS_NOTE),
        ("user", "Which port?"),
        ("assistant", OWN_CALL),
        ("tool", OWN_CALL),
        ("assistant", "8123."),
    ]
    assert [log.covered_numbers(entry) for entry in log.entries] == ["1", "2", "3", "4", "5"]
    app.checkpoint(caller)
    checkpoint = app.checkpoints.latest(caller)
    assert checkpoint
    assert "Which port?" in checkpoint.text
    assert "Never mention" not in checkpoint.text


def test_a_clients_text_that_an_older_version_stored_is_not_read_as_the_users(
    app: App, caller: Caller, tmp_path: Path
) -> None:
    """D8.1."""
    app.feed([NewRecord(kind="message", role="user", text="Which port?")] * 2, caller)
    with closing(sqlite3.connect(tmp_path / "data" / "memory.db")) as database, database:
        database.execute("UPDATE records SET text = ? WHERE id = (SELECT min(id) FROM records)", (REMINDER,))
    assert [entry.role for entry in app.logs.log(caller).entries] == ["tool", "user"]


def test_a_conversation_of_many_batches_keeps_its_order(
    app: App, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "FED_AT_ONCE", 3)
    told = session(4)
    assert app.feed(told, caller).stored == len(told)
    assert _texts(app, caller) == [record.text for record in told]


@pytest.mark.uncounted
def test_what_remember_stored_is_known_when_the_whole_conversation_is_told(app: App, caller: Caller) -> None:
    told = session(2)
    app.remember(told[:4], caller)
    named = [replace(record, details={"message_id": f"m{place}"}) for place, record in enumerate(told)]
    assert app.feed(named, caller) == Fed(stored=len(told) - 4, known=4)
    assert app.feed(named, caller) == Fed(known=len(told))


def test_a_compacted_conversation_goes_on_where_it_stands(app: App, caller: Caller) -> None:
    """D3.1: a client that shows our replacements tells them back; they are no news."""
    app.feed(session(15), caller)
    app.compact(CompactRequest(window=2_000, force=True), caller)
    live = app.logs.log(caller)
    shown = [
        NewRecord(kind=entry.kind, role=entry.role, text=entry.text, tool=entry.tool, call_id=entry.call_id)
        for entry in live.entries
    ]
    new = NewRecord(kind="message", role="user", text="What is left to do?")
    assert app.feed([*shown, new], caller).stored == 1
    assert app.logs.log(caller).entries[:-1] == live.entries


def test_a_conversation_of_which_some_was_erased_is_not_told_twice(app: App, caller: Caller) -> None:
    """R9: nor one that an older client tells as it was some turns ago."""
    told = session(6)
    app.feed(told, caller)
    app.forget([app.logs.said(caller)[7].id], "erase", caller)
    assert app.feed([*told, *session(7)[30:]], caller) == Fed(stored=5, known=30)
    assert app.feed(told[:12], caller) == Fed(known=12)


@pytest.mark.uncounted
@pytest.mark.parametrize("has_ids", [False, True])
@pytest.mark.parametrize("behind", [0, 4, 18, 30])
def test_what_another_process_is_told_meanwhile_is_stored_once(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch, behind: int, has_ids: bool
) -> None:
    """R2, S1.1: the hook of a client and its server are told the same conversation at the same time."""
    monkeypatch.setattr(feed, "FED_AT_ONCE", 7)
    app, hook = open_memory(), open_memory()
    caller, told = app.caller("work"), session(6)
    if has_ids:
        told = [replace(record, details={"message_id": f"m{place}"}) for place, record in enumerate(told)]
    meanwhile = [told[: behind + 4], told[:behind], []]

    def make(self: RecordPreparer, items: Sequence[NewRecord], *, embedded: bool = True) -> list[Made]:
        if self is app_drafting and meanwhile and (others := meanwhile.pop()):
            hook.feed(others, caller)
        return original(self, items, embedded=embedded)

    original, app_drafting = RecordPreparer.make, app._drafting  # noqa: SLF001
    monkeypatch.setattr(RecordPreparer, "make", make)
    fed = app.feed(told, caller)
    assert fed.stored + fed.known == len(told)
    assert _texts(app, caller) == [record.text for record in told]


def test_secrets_are_cut_out_and_counted(app: App, caller: Caller) -> None:
    """R4."""
    secret = NewRecord(kind="tool_result", text="export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7QZKWMTR", call_id="c1")
    assert app.feed([secret], caller) == Fed(stored=1, redacted=1)
    assert "AKIA" not in _texts(app, caller)[0]
    assert app.feed([secret], caller) == Fed(known=1)


def test_what_was_fed_is_found_by_word_at_once_and_by_meaning_soon(app: App, caller: Caller) -> None:
    """R1: the vectors are made by the next steps of upkeep."""
    app.feed([NewRecord(kind="message", role="user", text="The canary deploys fail on Fridays.")], caller)
    (found,) = app.recall(RecallRequest(query="canary"), caller).results
    assert found["text"] == "The canary deploys fail on Fridays."
    while app.keep_up():
        pass
    meant = app.recall(RecallRequest(query="releases breaking at the end of the week"), caller)
    assert [result["id"] for result in meant.results] == [found["id"]]


def test_two_sessions_and_two_agents_have_logs_of_their_own(open_memory: Callable[..., App]) -> None:
    app, other = open_memory(agent="one"), open_memory(agent="two")
    for number, who in enumerate((app.caller("a"), app.caller("b"))):
        app.feed(session(1 + number), who)
    other.feed(session(3), other.caller("a"))
    sizes = [app.logs.size(app.caller("a")), app.logs.size(app.caller("b")), other.logs.size(other.caller("a"))]
    assert [size.entries for size in sizes] == [5, 10, 15]


def test_an_empty_entry_stores_nothing(app: App, caller: Caller) -> None:
    """S3.1."""
    with pytest.raises(InvalidRequest, match="empty"):
        app.feed([NewRecord(kind="message", text="Hello"), NewRecord(kind="message", text=" ")], caller)
    assert not _texts(app, caller)


@pytest.mark.uncounted
def test_a_replacement_that_was_replaced_meanwhile_is_no_news(app: App, caller: Caller) -> None:
    """D11.1: a server compacted the log once more before its client told it again."""
    told = session(15)
    app.feed(told, caller)
    app.compact(CompactRequest(window=2_000, passes=("mask",)), caller)
    shown = _shown(app, caller)
    app.compact(CompactRequest(window=2_000, force=True), caller)
    live = app.logs.log(caller)
    fed = app.feed(shown, caller)
    assert fed == Fed(known=len(shown))
    assert app.logs.log(caller) == live
    originals = [each.id for each in app.logs.said(caller)]
    assert {each for covers in app.held(fed, caller) for each in covers} == {*originals}
    again = app.feed(_shown(app, caller), caller)
    assert sorted(each for covers in app.held(again, caller) for each in covers) == originals


def test_a_text_that_quotes_a_replacement_is_news(app: App, caller: Caller) -> None:
    app.feed(session(1), caller)
    said = app.logs.said(caller)
    quoted = [f"[TOOL OUTPUT ARCHIVED id={each} tool=bash]" for each in (said[0].id, "r000zzz")]
    quoted.append("[GOAL BATCH x0123] 3 turns")
    told = [NewRecord(kind="tool_result", role="tool", text=text, call_id="new") for text in quoted]
    assert app.feed(told, caller).stored == 3


def _shown(app: App, caller: Caller) -> list[NewRecord]:
    return [
        NewRecord(kind=entry.kind, role=entry.role, text=entry.text, tool=entry.tool, call_id=entry.call_id)
        for entry in app.logs.log(caller).entries
    ]


def _copied(count: int) -> list[NewRecord]:
    """A conversation whose lines have the ids of a client's transcript."""
    ids = (str(uuid5(NAMESPACE_URL, str(n))) for n in range(count))
    return [replace(record, details={"message_id": i}) for record, i in zip(session(count), ids, strict=False)]


def _ids(app: App, caller: Caller) -> list[str]:
    return [entry.id for entry in app.logs.log(caller).entries]


@pytest.mark.parametrize("at_once", [3, 100])
def test_the_beginning_that_a_fork_copies_is_stored_once_and_found_in_both(
    app: App, caller: Caller, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """P2.1: in its order, by recall as well; what follows is the fork's own."""
    monkeypatch.setattr(feed, "FED_AT_ONCE", at_once)
    told, fork = _copied(8), app.caller("fork")
    own = NewRecord(kind="message", role="user", text="The fork exports credit notes.")
    app.feed(told, caller)
    assert app.feed([*told, own], fork) == Fed(stored=1, known=8)
    assert app.feed([*told, own], fork) == Fed(known=9)
    assert _texts(app, fork) == [*(record.text for record in told), own.text]
    assert _ids(app, fork)[:8] == _ids(app, caller)
    found = app.recall(RecallRequest(session_id="fork", limit=20), caller).results
    assert {str(each["id"]) for each in found} == set(_ids(app, fork))
    assert len(app.recall(RecallRequest(session_id="work", limit=20), caller).results) == 8


def test_a_line_that_its_agent_hides_leaves_the_logs_of_others(open_memory: Callable[..., App]) -> None:
    """P2.1: what it says from then on is for nobody else; who told it too may tell it again, as an own line."""
    app = open_memory(agent="alice")
    alice, resumed, bob = app.caller("work"), app.caller("resumed"), replace(app.caller("fork"), agent="bob")
    told = _copied(4)
    for caller in (alice, resumed, bob):
        app.feed(told, caller)
    hidden = _ids(app, alice)[1]
    app.revise(Revision(id=hidden, pinned=True), alice)
    assert hidden in _ids(app, bob)
    app.revise(Revision(id=hidden, visibility="private"), alice)
    app.revise(Revision(id=hidden, text="The safe opens with 4711."), alice)
    assert _texts(app, bob) == [told[0].text, *(record.text for record in told[2:])]
    assert "4711" not in str((app.logs.originals(bob, ()), app.logs.said(bob), app.carried_session(bob, None, (), 900)))
    assert (app.logs.size(bob).entries, _ids(app, resumed)) == (3, _ids(app, alice))
    assert app.feed(told, bob).stored == 1
    assert sorted(_texts(app, bob)) == sorted(record.text for record in told)


def _rewritten(place: int, text: str, told: Sequence[NewRecord]) -> list[NewRecord]:
    """The conversation as it is told with another text under the same id."""
    return [*told[:place], replace(told[place], text=text), *told[place + 1 :]]


_ACTS: dict[str, Callable[[App, Caller, Sequence[NewRecord]], object]] = {
    "compacts it": lambda app, work, told: app.compact(CompactRequest(window=800, force=True), work),
    "tells it edited": lambda app, work, told: app.feed(_rewritten(0, "Forget the port.", told), work),
    "makes it private": lambda app, work, told: app.feed(_rewritten(0, "Move it. <private>x</private>", told), work),
    "edits it in a third": lambda app, work, told: app.feed(
        _rewritten(0, "Forget the port.", told), app.caller("third")
    ),
    "takes it back": lambda app, work, told: app.take_back([str(told[0].details["message_id"])], work),
}


@pytest.mark.uncounted
@pytest.mark.parametrize("act", _ACTS)
def test_what_another_session_does_with_a_shared_line_leaves_it_as_it_was_told(
    app: App, caller: Caller, act: str
) -> None:
    """P2.1: in the log, its size, its originals and what a compaction of it covers; only the other log changes."""
    told, fork = _copied(32), app.caller("fork")
    app.feed(told, caller)
    app.feed(told, fork)

    def read() -> object:
        return app.logs.log(fork), app.logs.size(fork), app.logs.said(fork), app.logs.originals(fork, ("bash",))

    before = read()
    _ACTS[act](app, caller, told)
    assert read() == before
    app.compact(CompactRequest(window=800, force=True), fork)
    blocks = app.logs.stand_ins(fork)
    assert blocks
    records = app.records.get([each.id for each in app.logs.said(fork)], fork.scopes)
    assert [record.text for record in records.values()] == [record.text for record in told]


@pytest.mark.uncounted
@pytest.mark.parametrize("agent", ["alice", "bob"])
def test_a_line_that_is_corrected_is_so_in_every_log_and_in_forks_to_come(
    open_memory: Callable[..., App], agent: str
) -> None:
    """P2.1: one id has one text; who tells the former text under the line's id tells the same line."""
    app = open_memory(agent="alice")
    told, right = _copied(8), "Please move the service amber-relay to port 5499, as it is free."
    work, fork, later = app.caller("work"), app.caller("fork"), app.caller("later")
    for caller in (work, fork):
        app.feed(told, caller)
    app.revise(Revision(id=_ids(app, work)[0], text=right), replace(fork, agent=agent))
    assert app.feed(told, later) == Fed(known=8)
    for caller in (work, fork, later):
        assert _texts(app, caller) == [right, *(record.text for record in told[1:])]
        entries = app.logs.log(caller).entries
        assert app.logs.size(caller).tokens == sum(entry.tokens for entry in entries)
        assert app.held(app.feed(told, caller), caller) == [(entry.id,) for entry in entries]


def test_a_line_that_its_agent_hides_stays_hidden_in_forks_to_come(open_memory: Callable[..., App]) -> None:
    """P2.1: they have the line as corrected, and nobody else sees it; a session of another project tells it anew."""
    app = open_memory(agent="alice")
    told, work, fork = _copied(4), app.caller("work"), app.caller("fork")
    elsewhere = replace(app.caller("elsewhere"), namespace="other")
    app.feed(told, work)
    hidden = _ids(app, work)[1]
    app.revise(Revision(id=hidden, text="The safe opens with 4711."), work)
    app.revise(Revision(id=hidden, visibility="private"), work)
    assert app.feed(told, fork) == Fed(known=4)
    assert _ids(app, fork) == _ids(app, work)
    assert app.feed(told, elsewhere).stored == 4


def test_a_line_of_another_session_stands_where_it_is_told(app: App, caller: Caller) -> None:
    """P2.1: behind what is the session's own, or in another order, it is stored anew."""
    told, other, turned = _copied(4), app.caller("other"), app.caller("turned")
    own = NewRecord(kind="message", role="user", text="Something else first.")
    app.feed(told, caller)
    assert app.feed([told[2], told[1], told[3]], turned).stored == 2
    assert _texts(app, turned) == [told[2].text, told[1].text, told[3].text]
    assert app.feed([told[0], own, *told[1:]], other).stored == 4
    assert _texts(app, other) == [told[0].text, own.text, *(record.text for record in told[1:])]


def test_lines_whose_ids_are_counted_in_each_conversation_are_each_its_own(app: App, caller: Caller) -> None:
    """P2.1: "yes, go on" is message 3 of both; what is erased in one stays in the other, and may be told there."""
    words, other = ["Yes, go on.", "Done."], app.caller("other")
    told = [
        NewRecord(kind="message", role="user", text=text, details={"message_id": str(number)})
        for number, text in enumerate(words)
    ]
    app.feed(told, caller)
    assert app.feed(told, other).stored == 2
    app.forget(_ids(app, caller)[:1], "erase", caller)
    assert _texts(app, other) == words
