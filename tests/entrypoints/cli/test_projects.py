"""projects, projects rename and projects merge over a real memory."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.projects import own_namespace
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.settings import Settings

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

PORT = NewRecord(text="The gateway listens on port 9090.")


@pytest.fixture
def memory(open_memory: Callable[..., App]) -> App:
    app = open_memory()
    app.remember([PORT], app.caller())
    return app


def test_projects_are_listed_with_the_folders_they_are_in(run: "Run", settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "app"
    folder.mkdir(parents=True)
    app = open_app(settings.model_copy(update={"namespace": None}), folder=folder)
    app.remember([PORT], app.caller())
    app.close()
    name = own_namespace(str(folder))
    shown = {"namespace": name, "records": 1, "here": False, "folder": str(folder)}
    assert run("projects", "--json").json == [{**shown, "gone": False}]
    folder.rename(tmp_path / "work" / "renamed")
    assert run("projects", "--json").json == [{**shown, "gone": True}]
    printed = run("projects").out
    assert name in printed
    assert printed.startswith("Project ")


def test_a_project_is_renamed_and_back(run: "Run", memory: App) -> None:
    """P4.1."""
    memory.tokens.add("phone", Grant(agent="eve", person="", namespaces=("test",), right="write"), None)
    told = {"from": "test", "to": "shop", "records": 1, "not_live": 0, "tasks": 0, "tokens": ["phone"], "readers": []}
    assert run("projects", "rename", "test", "shop", "--json").json == told
    assert [each["namespace"] for each in run("projects", "--json").json] == ["shop"]
    assert run("projects", "--json").json[0]["here"]  # The setting still names it `test`.
    said = run("projects", "rename", "shop", "test").out
    assert said.startswith("shop is called test now (1 record, 0 tasks).")
    assert "`mcp-memory projects rename test shop` undoes it." in said
    assert "phone" in said


def test_a_project_and_a_person_are_limited(run: "Run", memory: App) -> None:
    """M3.3."""
    assert run("projects", "quota").out.strip() == "No project has a quota."
    run("projects", "quota", "test", "--bytes", "900")
    run("projects", "quota", "test", "--records", "1")
    told = run("projects", "quota", "ann", "--person", "--bytes", "10", "--json").json
    assert [(each["partition"], each["records"], each["used_records"]) for each in told] == [
        ("namespace/test", 1, 1), ("user/ann", None, 0),
    ]  # fmt: skip
    said = run("add", "The gateway is old.").err
    assert "The project 'test' holds 1 of at most 1 records, and this is 1 more" in said
    assert "Name the project" in run("projects", "quota", "--calls", "5").err
    run("projects", "quota", "test", "--none")
    assert run("projects", "quota", "test").out.strip() == "user/ann: 0 of 10 bytes"
    assert run("add", "The gateway is old.").code == 0


def test_it_is_told_which_tokens_read_more(run: "Run", memory: App) -> None:
    """P4.1, S4.2: those that held one of the two projects, in words and for programs; not one that has ended."""
    run("add", "The mixer is red.", "--namespace", "other")
    for name, *held in (("a", "test"), ("b", "other"), ("c", "test", "other"), ("d", "more"), ("ended", "other")):
        memory.tokens.add(name, Grant(agent=name, person="", namespaces=tuple(held), right="read"), None)
    memory.tokens.revoke("ended")
    said = run("projects", "merge", "test", "other").out
    assert "Tokens that held test hold other: a, c." in said
    assert "These tokens read more than before: a, b; `mcp-memory tokens revoke NAME` ends one." in said
    renamed = run("projects", "rename", "other", "more", "--json").json
    assert (renamed["tokens"], renamed["readers"]) == (["a", "b", "c", "ended"], ["d"])
    assert "read more" not in run("projects", "rename", "more", "again").out


def test_a_project_is_merged_into_another(run: "Run", memory: App) -> None:
    """P4.1."""
    run("add", "The mixer is red.", "--namespace", "other")
    refused = run("projects", "rename", "other", "test")
    assert (refused.code, "projects merge" in refused.err) == (1, True)
    assert run("projects", "merge", "other", "test").out == (
        "test holds what other held (1 record, 0 tasks)."
        " A merge cannot be undone: only a backup from before it has the two apart.\n"
    )
    assert len(run("list", "--json").json["results"]) == 2
    assert run("projects", "merge", "nobody", "test").code == 1


def test_an_export_of_no_project_names_near_ones(run: "Run", memory: App, tmp_path: Path) -> None:
    """U2.1: an old name leads to the project that took it in, as everywhere."""
    run("add", "The mixer is red.", "--namespace", "acme/tidewatch")
    refused = run("export", str(tmp_path / "one"), "--namespace", "tidewatc")
    assert (refused.code, list(tmp_path.glob("one*"))) == (1, [])
    assert "No project 'tidewatc' holds anything. Did you mean acme/tidewatch? `mcp-memory projects`" in refused.err
    assert "holds anything. `mcp-memory" in run("export", "--markdown", str(tmp_path), "--namespace", "xyz").err
    run("projects", "merge", "acme/tidewatch", "test")
    told = run("export", str(tmp_path / "two"), "--namespace", "acme/tidewatch", "--json").json
    assert told["pieces"] > 0
    assert b"mixer" in (tmp_path / "two").read_bytes()


def test_names_are_never_cut(run: "Run", memory: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """U2.1: they are there to be copied."""
    monkeypatch.setenv("COLUMNS", "40")
    name = f"@local/{'tidewatch-' * 5}u7tb3l2jixq4"
    run("add", "The mixer is red.", "--namespace", name)
    assert [name, "1"] in [line.split() for line in run("projects").out.splitlines()]


def test_all_commands_count_what_is_live(run: "Run", memory: App) -> None:
    """U2.1: a retired record is told apart, and a private one is the project's as well."""
    run("add", "The mixer is red.", "--visibility", "private")
    gone = run("add", "The mixer is blue.", "--json").json["id"]
    run("forget", gone)
    assert [each["records"] for each in run("projects", "--json").json] == [2]
    status = run("status", "--json").json
    assert (status["records"], status["statuses"]["retired"]) == ({"fact": 2}, 1)
    screen = " ".join(run("status").out.split())
    assert "Memories 2 facts Their stages 2 as first stored Not counted 1 retired Tasks" in screen
    status = run("status", "--agent", "bob", "--json").json
    assert (status["records"], status["private_to_others"]) == ({"fact": 1}, 1)
    screen = " ".join(run("status", "--agent", "bob").out.split())
    assert "Not counted 1 retired, 1 private to other agents Tasks" in screen
    assert run("projects", "merge", "test", "other").out == (
        "other holds what test held (2 records, 1 more retired or only noted, 0 tasks)."
        " A merge cannot be undone: only a backup from before it has the two apart.\n"
    )
