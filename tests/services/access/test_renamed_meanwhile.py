"""Calls that are under way while another process renames their project: what they write is found, or they are told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.projects import own_namespace
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import CompactRequest, ContextRequest, RecallRequest
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.entrypoints.server.identity import RequestSender, asking, visited_by
from mcp_memory.errors import StoreBusy
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.sessions import feed
from tests.conftest import Clock
from tests.services.access.whole_projects import fill, rows_with
from tests.services.sessions.conversations import fed, session
from tests.services.tasks.moves import goals, pop, push

Open = Callable[..., App]
Write = Callable[[App, Caller, str], object]
PORT = NewRecord(text="The gateway listens on port 9090.", kind="decision")
LATER = NewRecord(text="The mixer listens on port 7070.", kind="decision")
HELLO = NewRecord(text="Hello there.", kind="message", role="user")
FORMER = [("former_namespaces", "name"), ("partitions", "name"), ("departures", "partition")]


def found(app: App) -> list[Any]:
    asked = RecallRequest(query="Which port does it listen on?", kinds=("decision",))
    answer = app.recall(asked, app.caller())
    return [each["text"] for each in answer.results]


WRITES: dict[str, Write] = {
    "remember": lambda app, caller, record: app.remember([LATER], caller),
    "feed": lambda app, caller, record: app.feed([HELLO], caller),
    "take back": lambda app, caller, record: app.take_back(["m1"], caller),
    "push": lambda app, caller, record: push(app, "Ship it again", caller),
    "pop": lambda app, caller, record: pop(app, "Done.", caller),
    "hand over": lambda app, caller, record: app.waiting_tasks.hand_over("task-1", "bob", caller),
    "reopen": lambda app, caller, record: app.waiting_tasks.reopen("task-1", caller),
    "exclude": lambda app, caller, record: app.exclusions.exclude(record, caller, agent="bob"),
    "revise": lambda app, caller, record: app.revise(Revision(id=record, visibility="private"), caller),
    "erase": lambda app, caller, record: app.forget([record], "erase", caller),
    "undo": lambda app, caller, record: app.undo(1, caller),
    "results": lambda app, caller, record: app.task_results(app.records.tasks("new"), caller),
}


def test_a_call_that_began_under_the_former_name_is_told_the_present_one(open_memory: Open, tmp_path: Path) -> None:
    """P4.1: nothing is written where nobody looks; the same call works when it comes again."""
    app, other = open_memory(namespace="old-name"), open_memory(namespace="elsewhere")
    record, caller = fill(app, PORT.text)["shared"], app.caller()
    other.projects.rename("old-name", "new")
    for name, write in WRITES.items():
        with pytest.raises(StoreBusy, match="'old-name' is called 'new' by now; call again"):
            write(app, caller, record)
        assert (name, rows_with(tmp_path / "data", "old-name")) == (name, FORMER)
    assert app.remember([LATER], app.caller())[0].status == "stored"
    assert LATER.text in found(app)
    assert goals(push(app, "Ship it once more"))[0] == f"Ship the {PORT.text}"


@pytest.mark.uncounted
def test_what_a_call_tells_about_itself_is_kept_under_no_former_name(open_memory: Open, tmp_path: Path) -> None:
    app = open_memory(namespace="old-name")
    fill(app, PORT.text)
    caller = app.caller("s3")
    app.feed(session(3), caller)
    open_memory(namespace="elsewhere").projects.rename("old-name", "new")
    app.assemble_context(ContextRequest(query="port"), caller)
    with app.idle_compaction.kept_off(caller):
        pass
    app.logs.keep_pass_runs((), caller, 0.0, None)
    assert rows_with(tmp_path / "data", "old-name") == FORMER


def test_a_compaction_under_way_leaves_the_log_whole(open_memory: Open, tmp_path: Path) -> None:
    app, other = open_memory(namespace="old-name"), open_memory(namespace="elsewhere")
    log = fed(app, app.caller("s1"), 10)

    def rename(step: object) -> None:
        if app.caller().namespace == "old-name":
            other.projects.rename("old-name", "new")

    with pytest.raises(StoreBusy):
        app.compact(CompactRequest(window=log.tokens), app.caller("s1"), rename)
    assert rows_with(tmp_path / "data", "old-name") == FORMER
    assert app.logs.log(app.caller("s1")) == log
    assert any(each.ran for each in app.compact(CompactRequest(window=log.tokens), app.caller("s1")).runs)


@pytest.mark.uncounted
def test_a_long_conversation_is_whole_once_it_is_told_again(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4.1: it is stored a number of lines at a time, and the project is renamed after the first of them."""
    monkeypatch.setattr(feed, "FED_AT_ONCE", 10)
    app, other = open_memory(namespace="old-name"), open_memory(namespace="elsewhere")
    lines = [NewRecord(text=f"Line {each} of a long talk.", kind="message", role="user") for each in range(25)]
    caller = app.caller("s1")
    app.feed(lines[:10], caller)
    other.projects.rename("old-name", "new")
    with pytest.raises(StoreBusy):
        app.feed(lines, caller)
    assert app.feed(lines, app.caller("s1")).stored == 15
    assert [each.text for each in app.logs.log(app.caller("s1")).entries] == [each.text for each in lines]
    assert rows_with(tmp_path / "data", "old-name") == FORMER


# A folder made anew at the path of a project that was moved and renamed


@pytest.mark.uncounted
def test_a_new_folder_at_the_old_path_writes_in_its_own_memory_and_the_running_server_in_the_renamed(
    at: Callable[[Path], App], clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4.1."""
    monkeypatch.setenv("MCP_MEMORY_COMPACTION_WINDOW", "2000")
    path = tmp_path / "home" / "app"
    old = at(path)
    old.remember([PORT], old.caller())
    under_way = old.caller()
    path.rename(tmp_path / "home" / "moved")
    old.projects.rename(own_namespace(str(path)), "shop")
    new = at(path)
    new.feed(session(10), new.caller("s1"))
    assert new.idle_compaction.step()
    new.remember([LATER], new.caller())
    assert (new.caller().namespace, found(new)) == (own_namespace(str(path)), [LATER.text])
    with visited_by(RequestSender(grant=None)):
        assert asking(new).namespace == own_namespace(str(path))
    assert (old.caller().namespace, found(old)) == ("shop", [PORT.text])
    assert under_way.renamed_at != new.caller().renamed_at
    clock.advance(seconds=1)
    new.projects.rename(own_namespace(str(path)), "mixer")
    assert (new.caller().namespace, found(new)) == ("mixer", [LATER.text])
