"""What a session holds when its client has compacted it, read from the log."""

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller


def told(app: App, caller: Caller, most: int = 800, summaries: tuple[str, ...] = ()) -> str:
    return app.carried_session(caller, app.checkpoints.latest(caller), summaries, most)


def feed(app: App, caller: Caller) -> None:
    report: dict[str, Any] = {"kind": "tool_result", "role": "tool", "tool": "Task", "call_id": "c1"}
    app.feed(
        [
            NewRecord(text="All amounts are in cents, everywhere.", kind="message", role="user"),
            NewRecord(text='{"description": "review"}', kind="tool_call", role="assistant", tool="Task", call_id="c1"),
            NewRecord(text="The lock is taken twice in queue.py:31.", **report),
            NewRecord(text="We decided to keep SQLite because it needs no server.", kind="message", role="assistant"),
        ],
        caller,
    )


def test_a_session_of_nothing_holds_nothing(app: App) -> None:
    assert told(app, app.caller("s1")) == ""


def test_it_holds_words_reports_choices_and_names_what_opens_the_rest(app: App) -> None:
    """P1.3."""
    me = app.caller("s1")
    feed(app, me)
    checkpoint = app.checkpoint(me)
    text = told(app, me, summaries=("r0sum",))
    for part in (
        '`recall` with session_id="s1"',
        "Its summaries: r0sum.",
        f"Where it stood before the compaction: {checkpoint}.",
        "- All amounts are in cents, everywhere.",
        "- review: The lock is taken twice in queue.py:31. (r",
        "- We decided to keep SQLite because it needs no server.",
    ):
        assert part in text
    assert text.count("in cents") == 1
    assert "## " not in text


def test_it_never_takes_more_room_than_it_has(app: App) -> None:
    me = app.caller("s1")
    feed(app, me)
    app.feed([NewRecord(text=f"Never touch table {n}.", kind="message", role="user") for n in range(90)], me)
    app.checkpoint(me)
    for most in (100, 200, 400):
        assert app.counter.count(told(app, me, most)) <= most
    assert "What the user said" not in told(app, me, 10)


def test_what_is_retired_or_erased_is_gone_from_it(app: App) -> None:
    """P1.3, G2: it is kept nowhere else."""
    me = app.caller("s1")
    feed(app, me)
    said = app.logs.originals(me, ())[0].id
    app.forget([said], "retire", me)
    assert "in cents" not in told(app, me)
    app.forget([said], "erase", me)
    assert "in cents" not in told(app, me)
    assert "SQLite" in told(app, me)


def test_a_fork_holds_what_it_was_copied_from_but_for_what_was_taken_back(app: App) -> None:
    """P1.3, P2.1: as it may still hold in another session, by the session's own mark."""
    me, fork = app.caller("s1"), app.caller("fork")
    rules = ("Amounts are in cents.", "Answer in French.", "Answer in Danish.")
    ids = [str(uuid5(NAMESPACE_URL, text)) for text in rules]
    said = [
        NewRecord(text=text, kind="message", role="user", details={"message_id": i})
        for text, i in zip(rules, ids, strict=True)
    ]
    app.feed(said, me)
    app.feed(said, fork)
    assert app.take_back(ids[1:2], fork) == 0
    assert [f"- {text}" in told(app, fork) for text in rules] == [True, False, True]
    assert [f"- {text}" in told(app, me) for text in rules] == [True, True, True]
