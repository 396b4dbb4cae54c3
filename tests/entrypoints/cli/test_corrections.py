"""edit, supersede, pin, forget, restore; and the lists projects, sessions, contexts: a person's own hands."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import PushRequest
from mcp_memory.entrypoints.commands.console import Terminal, at, require_yes
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.retrieval.recall import RecallRequest

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

OLD, NEW = "The exporter listens on port 9000.", "The exporter listens on port 9001."


@pytest.fixture
def memory(open_memory: Callable[..., App]) -> App:
    return open_memory()


@pytest.fixture
def record_id(memory: App) -> str:
    return memory.remember([NewRecord(text=OLD)], memory.caller())[0].id


def found(memory: App) -> list[object]:
    answer = memory.recall(RecallRequest(query="exporter port"), memory.caller())
    return [result["text"] for result in answer.results]


def test_a_text_is_corrected_and_its_former_version_kept(run: "Run", memory: App, record_id: str) -> None:
    """U2.1."""
    shown = run("edit", record_id, "--text", NEW, "--tag", "ports", "--importance", "7", "--json").json
    assert (shown["text"], shown["tags"], shown["importance"]) == (NEW, ["ports"], 7)
    assert [version["text"] for version in shown["earlier"]] == [OLD]
    assert found(memory) == [NEW]
    told = run("edit", record_id, "--text", OLD).out
    run("undo", told.rpartition("mcp-memory undo ")[2].partition("`")[0])
    assert NEW in run("edit", record_id, "--feedback", "helpful").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["edit", "r000000"], "Nothing to change; name what to change: --text, --tag,"),
        (["edit", "r00000z", "--importance", "3"], "No record 'r00000z'"),
        (["edit", "r00000z", "--importance", "11"], "`importance` must be at most 10"),
        (["edit", "r00000z", "--outcome", "fine"], "`outcome` must be"),
        (["forget", "r00000z"], "No record r00000z here; nothing was changed."),
        (["restore", "r00000z"], "No record r00000z here"),
        (["restore", "nothing.db"], "'nothing.db' is neither a record's id, as r00001z, nor the file of a backup;"),
        (["restore", "r99"], "'r99' is neither a record's id"),
        (["restore", "r00000z", "copy.db"], "Give the ids of records, or one backup's file."),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(run: "Run", memory: App, arguments: list[str], says: str) -> None:
    """U2.1."""
    ran = run(*arguments)
    assert ran.code != 0
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_record_is_forgotten_brought_back_and_erased(run: "Run", memory: App, record_id: str) -> None:
    """U2.1."""
    forgotten = run("forget", record_id, "--json").json
    assert forgotten["retired"] == [record_id]
    assert found(memory) == []
    run("undo", str(forgotten["change"]))
    assert found(memory) == [OLD]
    assert "takes it back" in run("forget", record_id).out
    assert run("restore", record_id, "--json").json["restored"] == [record_id]
    assert run("restore", record_id).out == f"{record_id} is not retired.\n"
    assert run("restore", record_id, "--json").json == {"restored": []}
    assert found(memory) == [OLD]
    assert "--yes erases without a question. Nothing was changed." in run("forget", record_id, "--erase").err
    assert found(memory) == [OLD]
    assert run("forget", record_id, "r00000z", "--erase", "--yes").code != 0
    assert "r00000z" in run("forget", "r00000z").err
    assert found(memory) == []
    assert run("restore", record_id).code != 0


def test_what_exists_is_erased_though_another_id_does_not(run: "Run", memory: App, record_id: str) -> None:
    """U2.1: the error says so."""
    assert "the others are done" in run("forget", record_id, "r00000z").err
    assert found(memory) == []


def test_a_record_is_pinned_and_let_go(run: "Run", memory: App, record_id: str) -> None:
    """U2.1."""
    assert run("pin", record_id, "--json").json["pinned"] is True
    assert run("pin", record_id).out.strip() == f"{record_id} is pinned already."
    assert not run("pin", record_id, "--off", "--json").json.get("pinned")


def test_one_record_replaces_another(run: "Run", memory: App, record_id: str) -> None:
    """U2.1."""
    [newer] = memory.remember([NewRecord(text=NEW)], memory.caller())
    run("supersede", record_id, newer.id)
    assert f"Replaces\n{record_id}\n" in run("graph", newer.id).out
    assert run("graph", record_id, "--json").json["superseded_by"] == newer.id
    [said] = found(memory)
    assert str(said).startswith(f"{NEW} (before {record_id}, ")


def test_looking_changes_no_ranking(run: "Run", memory: App, record_id: str) -> None:
    """U2.1: neither a search nor a look at the record counts as opened."""
    assert run("search", "exporter port", "--json").json["results"][0]["id"] == record_id
    assert run("show", record_id, "--json").json["counters"]["accessed"] == 0


def test_projects_sessions_and_contexts_are_listed(run: "Run", memory: App, record_id: str) -> None:
    """U2.1: each with the id or name that other commands take."""
    assert run("projects", "--json").json == [
        {"namespace": "test", "records": 1, "here": True, "folder": None, "gone": False}
    ]
    [session] = run("sessions", "--json").json
    assert (session["session"], session["records"], session["latest"]) == (memory.caller().session_id, 1, OLD)
    assert run("contexts").out.strip() == "No context was assembled in the last two weeks."
    context = memory.assemble_context(ContextRequest(query="exporter port"), memory.caller())
    [listed] = run("contexts", "--json").json
    assert (listed["id"], listed["shown"]) == (context.report.id, 1)
    assert listed["id"] in run("contexts").out


def test_the_block_that_would_be_given_is_shown_and_kept_nowhere(run: "Run", memory: App, record_id: str) -> None:
    """U2.1: as the agent would read it in its task, whose window this is not; --why tells more beside it."""
    memory.remember([NewRecord(text="Paint the shed green.")], memory.caller())
    memory.tasks.push(PushRequest(goal="Move the exporter"), memory.caller())
    asked = ("context", "which port has the exporter?", "--max-tokens", "300")
    shown = run(*asked, "--json").json
    assert OLD in shown["block"]
    assert "Move the exporter" in shown["block"]
    assert shown["token_count"] <= 300
    assert run(*asked).out.splitlines()[1:] == shown["block"].splitlines()[1:]
    why = run(*asked, "--why").out
    [line] = [each for each in why.splitlines() if each.strip().startswith("recall, ")]
    assert ", score 0." in line
    assert " = relevance 0." in line
    assert "below the relevance floor. Paint the shed green." in why
    assert run("contexts", "--json").json == []
    assert run("show", record_id, "--json").json["counters"]["accessed"] == 0


def test_nothing_stored_is_said(run: "Run", tmp_path: Path, memory: App) -> None:
    """U2.1."""
    assert "No project holds a record yet." in run("projects").out
    assert "No session stored anything yet." in run("sessions").out


def test_erasing_asks_a_person(run: "Run", memory: App, record_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """U2.1: at a terminal, with the words of what goes; who says --yes is not asked."""
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)

    def answering(said: str) -> Terminal:
        keyboard = io.StringIO(said)
        monkeypatch.setattr(keyboard, "isatty", lambda: True)
        return Terminal(stdin=keyboard, stdout=screen, stderr=screen, environment={})

    for said in ("\n", "n\n", ""):
        with at(answering(said)), pytest.raises(InvalidRequest, match="Nothing was changed"):
            require_yes("Erase it for good?")
    with at(answering("YES\n")):
        require_yes("Erase it for good?")
    assert screen.getvalue() == "Erase it for good? [y/N] " * 4
    memory.feed([NewRecord(kind="message", role="user", text=OLD)], memory.caller())
    [said] = memory.logs.said(memory.caller())
    with at(answering("n\n")):
        assert run("forget", record_id, "--erase").code == 1
    says = f"mcp-memory: {record_id} says “{OLD}”.\nmcp-memory: With {record_id} goes {said.id} (says the same).\n"
    told = f"{says}Erase {record_id} for good? [y/N] "
    assert screen.getvalue().endswith(f"{told}mcp-memory: Nothing was changed.\n")
    assert found(memory) == [OLD]
    assert run("forget", record_id, "--erase", "--yes").code == 0
    assert found(memory) == []
