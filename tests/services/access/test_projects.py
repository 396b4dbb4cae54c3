"""Projects that are renamed, moved or merged, and the folders inside them, over a real memory."""

import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.projects import own_namespace
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import ContextRequest, RecallRequest
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.entrypoints.server.record_answers import show_account, show_connections
from mcp_memory.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable
from mcp_memory.stores.records.projects import SqlProjects
from tests.services.access.whole_projects import fill, plant, rows_with

Open = Callable[..., App]
At = Callable[[Path], App]
PORT = NewRecord(text="The gateway listens on port 9090.", kind="decision")


def store(app: App, *items: NewRecord) -> list[str]:
    return [each.id for each in app.remember(items, app.caller())]


def found(app: App, query: str = "Which port does the gateway listen on?") -> list[str]:
    return [str(each["id"]) for each in app.recall(RecallRequest(query=query), app.caller()).results]


def block(app: App) -> str:
    return app.assemble_context(ContextRequest(max_tokens=2_000), app.caller()).text


def git(folder: Path, origin: str = "") -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {origin}\n' if origin else "")
    return folder


def test_a_project_that_a_person_names_is_there_or_near_ones_are_named(app: App) -> None:
    """P4.1: under its present name; the last part of a name leads to it as well."""
    store(app, PORT, NewRecord(text="The gateway is old.", visibility="private"))
    app.projects.rename(app.caller().namespace, "acme/Tidewatch")
    assert app.projects.existing(app.caller().namespace) == app.projects.existing("acme/Tidewatch")
    with pytest.raises(NotFound, match=r"'tidewatc' holds anything\. Did you mean acme/Tidewatch\? `mcp-memory"):
        app.projects.existing("tidewatc")
    with pytest.raises(NotFound, match=r"'xyz' holds anything\. `mcp-memory projects`"):
        app.projects.existing("xyz")
    assert app.projects.private_of_others(app.caller()) == 0
    assert app.projects.private_of_others(replace(app.caller(), agent="bob")) == 1


# Folders inside a project


def test_a_folder_inside_a_plain_project_has_its_memory(at: At, tmp_path: Path) -> None:
    """P4.1."""
    [port] = store(at(tmp_path / "home" / "thesis"), PORT)
    inside = at(tmp_path / "home" / "thesis" / "chapters" / "one")
    assert (inside.own.membership.state, found(inside)) == ("inside", [port])
    [length] = store(inside, NewRecord(text="Chapter one has twelve pages."))
    assert length in found(at(tmp_path / "home" / "thesis"), "How many pages does chapter one have?")


@pytest.mark.uncounted
def test_a_folder_that_holds_projects_lends_its_memory_to_none(at: At, tmp_path: Path) -> None:
    """P4.1: what has a memory of its own keeps it, and lends it; what is beside it is a project of its own."""
    outer, inner = tmp_path / "home" / "clients", tmp_path / "home" / "clients" / "acme"
    [of_inner] = store(at(inner), PORT)
    [of_outer] = store(at(outer), replace(PORT, text="The gateway listens on port 8080."))
    assert (found(at(inner)), found(at(inner / "deep"))) == ([of_inner], [of_inner])
    for each in (outer / "rival", outer / "rival" / "deep"):
        assert (at(each).own.membership.state, found(at(each))) == ("own", [])
    assert found(at(outer)) == [of_outer]


@pytest.mark.parametrize("makes", [git, Path])
def test_what_was_lent_stays_so_when_projects_are_made_beside(
    at: At, tmp_path: Path, makes: Callable[[Path], Path]
) -> None:
    """P4.1: an agent that was opened beside and stored nothing is no project."""
    outer = tmp_path / "home" / "thesis"
    at(makes(outer / "started")).caller()
    [port] = store(at(outer), PORT)
    assert found(at(outer / "chapters")) == [port]
    store(at(git(outer / "tools")), NewRecord(text="The mixer is red."))
    assert found(at(outer / "chapters")) == [port]
    assert at(outer / "figures").own.membership.state == "own"
    app = at(outer)
    assert app.projects.folders()[app.caller().namespace] == (str(outer), True)
    app.projects.rename(app.caller().namespace, "thesis")
    assert found(at(outer / "chapters")) == [port]


def test_a_memory_is_lent_a_few_folders_down_and_from_where_it_was_used(
    at: At, tmp_path: Path, open_memory: Open
) -> None:
    """P4.1."""
    outer = tmp_path / "home" / "thesis"
    [port] = store(at(outer), PORT)
    assert found(at(outer / "a" / "b" / "c")) == [port]
    assert at(outer / "a" / "b" / "c" / "d").own.membership.state == "own"
    named = tmp_path / "home" / "named"
    store(open_memory(namespace=own_namespace(str(named))), PORT)
    assert at(named / "inside").own.membership.state == "own"


def test_a_repository_inside_a_plain_project_is_its_own(at: At, tmp_path: Path) -> None:
    store(at(tmp_path / "home" / "outer"), PORT)
    assert not found(at(git(tmp_path / "home" / "outer" / "repository")))
    assert not found(at(tmp_path / "home" / "outer" / "repository" / "src"))


@pytest.mark.uncounted
@pytest.mark.parametrize("swallower", ["home", ".", "home/Documents", "open"])
def test_no_folder_of_all_kinds_of_things_swallows_what_is_inside(at: At, tmp_path: Path, swallower: str) -> None:
    """P4.1: the home directory, what is around it, the places for everything in it, and those that all may write to."""
    around = tmp_path / swallower
    store(at(around), PORT)
    if swallower == "open":
        around.chmod(0o1777)
    inside = at(around / "project")
    assert (inside.own.membership.state, found(inside)) == ("own", [])


# A project that was renamed or moved


@pytest.mark.parametrize("makes", [git, Path])
@pytest.mark.parametrize("target", ["home/renamed", "home/deep/elsewhere/app"])
def test_a_renamed_or_moved_project_is_told_where_its_memory_is(
    at: At, tmp_path: Path, makes: Callable[[Path], Path], target: str
) -> None:
    """P4.1: once a session, as long as it has nothing else; then the command brings all of it."""
    before, after = tmp_path / "home" / "app", tmp_path / target
    [port] = store(at(makes(before)), PORT)
    after.parent.mkdir(parents=True, exist_ok=True)
    before.rename(after)
    app = at(after)
    told = block(app)
    old, new = own_namespace(os.path.realpath(before)), own_namespace(os.path.realpath(after))
    assert f"`mcp-memory projects merge {old} {new}`" in told
    assert f"was {before} before" in told
    assert "merge" not in block(app)
    assert "merge" in app.status(app.caller()).former
    assert app.former_memory(app.caller("another"))
    app.feed([NewRecord(text="Hello there.", kind="message", role="user")], app.caller())
    assert app.former_memory(app.caller("a third"))
    assert app.projects.merge(old, new).records == 1
    assert port in found(app)
    assert not app.former_memory(app.caller("a fourth"))
    assert found(at(before)) == []


def test_a_folder_moved_to_another_disk_is_known_by_its_name(at: At, tmp_path: Path) -> None:
    store(at(tmp_path / "home" / "app"), PORT)
    (tmp_path / "home" / "app").rename(tmp_path / "gone")
    app = at(tmp_path / "home" / "elsewhere" / "app")
    assert "of the same name, is gone" in app.former_memory(app.caller())


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are text there")
def test_a_folder_whose_name_was_no_text_is_named_in_characters(at: At, tmp_path: Path) -> None:
    """P4.1, X3.1: what is told goes out as UTF-8."""
    before = Path(os.fsdecode(os.fsencode(tmp_path / "home") + b"/gar\xe7on"))
    store(at(before), PORT)
    before.rename(tmp_path / "home" / "garcon")
    app = at(tmp_path / "home" / "garcon")
    told = app.former_memory(app.caller())
    assert "gar\N{REPLACEMENT CHARACTER}on before" in told
    assert told.encode()


def test_an_imported_memory_of_a_folder_of_that_name_is_told(at: At, open_memory: Open, tmp_path: Path) -> None:
    """P4.2: namespaces of folders name paths, which differ on another machine."""
    there = f"app-{'a' * 16}"
    other = open_memory(namespace=there)
    store(other, PORT)
    app = at(tmp_path / "home" / "app")
    assert f"projects merge {there} " in app.former_memory(app.caller())
    assert not (another := at(tmp_path / "home" / "another")).former_memory(another.caller())


def test_a_repository_that_gets_an_origin_is_told_of_its_own_memory(at: At, tmp_path: Path) -> None:
    folder = git(tmp_path / "home" / "app")
    store(at(folder), PORT)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/a/app.git\n')
    app = at(folder)
    assert "had a memory of its own before" in app.former_memory(app.caller())
    store(app, PORT)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/a/app2.git\n')
    app = at(folder)
    assert app.projects.hint(app.own.membership, app.caller())


def test_a_project_whose_folder_is_there_is_nobodys_former_one(at: At, tmp_path: Path) -> None:
    """P4.1: a copy, and another folder of the same name, begin with an empty memory of their own."""
    store(at(tmp_path / "home" / "app"), PORT)
    app = at(tmp_path / "home" / "copies" / "app")
    assert not app.former_memory(app.caller())


def test_who_named_the_namespace_is_told_of_no_other(open_memory: Open) -> None:
    app = open_memory(namespace="mine")
    assert not app.former_memory(app.caller())
    assert not app.former_memory(replace(app.caller(), namespace="elsewhere"))


# Renaming and merging


KEPT = [("former_namespaces", "name"), ("partitions", "name"), ("departures", "partition")]
"""What says how a project was called, and what followers of its changes have to hear."""


def test_a_renamed_project_keeps_everything_and_nothing_keeps_the_old_name(open_memory: Open, tmp_path: Path) -> None:
    """P4.1: also what another process holds in memory; renaming it back gives the same."""
    app, other = open_memory(namespace="old-name"), open_memory(namespace="elsewhere", agent="bob")
    ids = fill(app, "The gateway listens on port 9090.")
    app.tokens.add("phone", Grant(agent="eve", person="", namespaces=("old-name", "kept"), right="write"), None)
    replacements = [each.entry.id for each in app.logs.stand_ins(app.caller("s2"))]
    before = found(app)
    goals = [each.goal for each in app.records.tasks("old-name")]
    assert app.projects.names() == ["old-name"]
    shared = app.projects.live_records()["old-name"]
    moved = other.projects.rename("old-name", "new/name")
    assert app.projects.names() == ["new/name"]
    assert app.projects.live_records() == {"new/name": shared}
    assert app.projects.last_changes() == {"new/name": app.now()}
    assert moved.tokens == ("phone",)
    assert set(rows_with(tmp_path / "data", "old-name")) == {*KEPT}
    assert not app.records.defects()
    for each in (app, open_memory(namespace="new/name"), open_memory(namespace="old-name")):
        assert each.caller().namespace == "new/name"
        assert found(each) == before
        assert [task.goal for task in each.records.tasks("new/name")] == goals
        assert [one.entry.id for one in each.logs.stand_ins(each.caller("s2"))] == replacements
        assert show_connections(each.inspect.connections("Gateway", each.caller()))["records"]
    assert app.tokens.all()[0].grant.namespaces == ("new/name", "kept")
    assert app.records.get([ids["private"]], app.caller().scopes)
    stranger = open_memory(namespace="new/name", agent="bob")
    assert not stranger.records.get([ids["private"]], stranger.caller().scopes)
    other.projects.rename("new/name", "old-name")
    assert found(app) == found(open_memory(namespace="old-name")) == before
    assert set(rows_with(tmp_path / "data", "new/name")) == {*KEPT}


def test_no_table_of_the_file_keeps_the_old_name(app: App, tmp_path: Path) -> None:
    """P4.1: whatever tables there are, by the schema."""
    planted = plant(tmp_path / "data", "old-name")
    assert {table for table, _ in rows_with(tmp_path / "data", "old-name")} == planted > {"records", "tokens"}
    app.projects.rename("old-name", "new")
    assert rows_with(tmp_path / "data", "old-name") == KEPT


@pytest.mark.uncounted
def test_two_projects_become_one_though_sessions_and_entities_have_the_same_names(
    open_memory: Open, tmp_path: Path
) -> None:
    """P4.1: nothing is lost, and nothing is there twice."""
    one, two = open_memory(namespace="one-name"), open_memory(namespace="two-name")
    mine, yours = fill(one, "The gateway listens on port 9090."), fill(two, "The mixer listens on port 7070.")
    logs = [len(each.logs.log(each.caller("s2")).entries) for each in (one, two)]
    before = sum(len(each.logs.compactions(each.caller("s2"))) for each in (one, two))
    count = sum(row[0] for row in _rows(tmp_path, "SELECT count(*) FROM records"))
    moved = one.projects.merge("one-name", "two-name")
    assert (moved.records > 4, moved.tasks) == (True, 1)
    assert count == sum(row[0] for row in _rows(tmp_path, "SELECT count(*) FROM records"))
    assert set(rows_with(tmp_path / "data", "one-name")) == {*KEPT}
    assert not two.records.defects()
    for app in (one, two, open_memory(namespace="two-name")):
        assert {mine["shared"], yours["shared"]} <= set(found(app, "Which port does it listen on?"))
        assert len(app.logs.log(app.caller("s2")).entries) >= max(logs)
        assert sorted(each.number for each in app.logs.compactions(app.caller("s2"))) == [*range(1, before + 1)]
        shown: Any = show_connections(app.inspect.connections("gw", app.caller()))["records"]
        assert {each["id"] for each in shown} >= {mine["shared"], yours["shared"]}
    assert [row[0] for row in _rows(tmp_path, "SELECT count(*) FROM entities WHERE name_key = 'gateway'")] == [1]


def _rows(tmp_path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(tmp_path / "data" / "memory.db")) as connection:
        return connection.execute(sql).fetchall()


def test_a_change_of_visibility_is_undone_into_the_present_namespace(open_memory: Open) -> None:
    from mcp_memory.services.memory.revise import Revision

    app = open_memory(namespace="old-name")
    [port] = store(app, replace(PORT, visibility="private"))
    change = app.revise(Revision(id=port, visibility="shared"), app.caller())
    app.projects.rename("old-name", "new")
    assert change.id == port
    history: Any = show_account(app.inspect.record(port, app.caller()), app.caller())["history"]
    app.undo(history[-1]["write"], app.caller())
    assert app.records.get([port], app.caller().scopes)[port].scope == "private/default/new"


def test_names_that_led_on_lead_to_the_end(open_memory: Open) -> None:
    app = open_memory(namespace="a")
    [port] = store(app, PORT)
    app.projects.rename("a", "b")
    app.projects.rename("b", "c")
    assert found(open_memory(namespace="a")) == found(open_memory(namespace="b")) == [port]
    inheriting = open_memory(namespace="d", inherit=["a"])
    assert found(inheriting) == [port]


def test_a_merged_folder_goes_on_in_the_project_that_took_it_in(at: At, tmp_path: Path) -> None:
    one, two = at(tmp_path / "home" / "one"), at(tmp_path / "home" / "two")
    [port] = store(one, PORT)
    store(two, NewRecord(text="The mixer is red."))
    one.projects.merge(one.caller().namespace, two.caller().namespace)
    again = at(tmp_path / "home" / "one")
    assert (again.own.membership.state, found(again)) == ("joined", [port])
    assert found(at(tmp_path / "home" / "one" / "inside")) == [port]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("nobody", "new", NotFound),
        ("test", "taken", Conflict),
        ("test", "test", InvalidRequest),
        ("test", " ", InvalidRequest),
        ("test", "x" * 201, InvalidRequest),
        ("test", "a\nb", InvalidRequest),
    ],
)
def test_what_cannot_be_renamed_is_left_as_it_is(
    open_memory: Open, app: App, old: str, new: str, error: type[Exception]
) -> None:
    store(app, PORT)
    store(open_memory(namespace="taken"), PORT)
    with pytest.raises(error):
        app.projects.rename(old, new)
    assert len(found(app)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="Other systems let no folder have such a name")
def test_a_folder_whose_name_is_no_text_is_trusted_noted_and_found_again(at: At, tmp_path: Path) -> None:
    """X2.1, P4.1: SQLite keeps no such text."""
    clone = git(tmp_path / os.fsdecode(b"bad\xff"), "https://example.org/a/b.git")
    app = at(clone)
    assert app.own.membership.state == "joined"
    assert [each.folder for each in app.trust.folders()] == [str(clone)]
    assert at(clone).own.membership.state == "joined"
    assert app.trust.revoke(str(clone))
    plain = at(tmp_path / "home" / os.fsdecode(b"\xffplain"))
    store(plain, PORT)
    assert plain.projects.folders()[plain.caller().namespace] == (
        str(tmp_path / "home" / os.fsdecode(b"\xffplain")),
        True,
    )


def test_who_may_not_write_is_not_noted_and_works_all_the_same(
    at: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = at(tmp_path / "home" / "app")

    def full(*_: object) -> None:
        raise StoreUnavailable("The disk is full.")

    monkeypatch.setattr(SqlProjects, "note", full)
    assert app.own.membership.state == "own"


def test_a_memory_without_anything_that_lasts_is_nobodys_former_one(at: At, tmp_path: Path) -> None:
    before = tmp_path / "home" / "app"
    store(at(before), NewRecord(text="Hello there.", kind="message", role="user"))
    before.rename(tmp_path / "home" / "renamed")
    app = at(tmp_path / "home" / "renamed")
    assert not app.former_memory(app.caller())


def test_the_memory_of_the_folder_that_a_clone_comes_from_is_found(at: At, tmp_path: Path) -> None:
    """P4.1, X2.1: by its present name; not where it is shared already, nor of a remote."""
    first = at(git(tmp_path / "first"))
    clone, other = at(git(tmp_path / "clone", str(tmp_path / "first"))), at(git(tmp_path / "other", "https://a.b/c"))
    mine = clone.own.project()
    assert first.projects.origin(mine) is None
    assert first.caller().namespace == own_namespace(str(tmp_path / "first"))
    assert first.projects.origin(mine) is None  # Nothing is stored there yet.
    store(first, PORT)
    found = first.projects.origin(mine)
    assert found
    assert (found.namespace, found.records) == (first.caller().namespace, 1)
    assert found.why == f"{tmp_path / 'first'}, from which it was cloned, has a memory of its own"
    assert first.projects.origin(other.own.project()) is None
    assert first.projects.origin(first.own.project()) is None
    first.projects.rename(found.namespace, "store")
    assert getattr(first.projects.origin(mine), "namespace", "") == "store"
    first.projects.merge("store", mine.claim)
    first.projects.rename(mine.claim, "shared")
    assert first.projects.origin(mine) is None
