"""Which folder may use a namespace, over a real store that several processes share."""

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.projects import Membership, Project, TrustedFolder
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.entrypoints.server.status_answers import show_folder
from mcp_memory.errors import InvalidRequest, NotFound, StoreBusy
from mcp_memory.services.access.folder_trust import Trust
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.stores.records import SqliteRecordStore
from mcp_memory.stores.records.access import SqlFolders
from mcp_memory.stores.records.database_sqlite import SqliteDatabase
from mcp_memory.stores.records.projects import SqlProjects

NAME = "example.org/team/shop"


def project(name: str, **changed: Any) -> Project:
    """A clone of the shop."""
    folder = f"/work/{name}"
    made = Project(folder=folder, root=folder, repository=f"{folder}/.git", own=f"{name}-own", claim=NAME)
    return replace(made, **changed)


FIRST, SECOND = project("shop"), project("copy")


@pytest.fixture
def trust(app: App) -> Trust:
    return app.trust


def state(trust: Trust, folder: Project, *, takes: bool = True) -> tuple[str, str]:
    membership = trust.membership(folder, takes=takes)
    return membership.state, membership.namespace


def test_the_first_folder_has_the_namespace_and_the_next_its_own(trust: Trust) -> None:
    """X2.1."""
    assert state(trust, FIRST) == ("joined", NAME)
    assert state(trust, SECOND) == ("refused", "copy-own")
    assert state(trust, replace(FIRST, folder="/work/tree")) == ("joined", NAME)
    assert state(trust, FIRST, takes=False) == ("joined", NAME)


def test_a_folder_that_claims_nothing_has_its_own(trust: Trust) -> None:
    """X2.2."""
    assert state(trust, project("notes", repository="", claim="")) == ("own", "notes-own")
    assert trust.folders() == []


def test_looking_takes_nothing(trust: Trust) -> None:
    """X2.1: but says that it is free."""
    assert state(trust, FIRST, takes=False) == ("free", "shop-own")
    assert trust.folders() == []
    assert state(trust, SECOND) == ("joined", NAME)
    assert state(trust, FIRST, takes=False) == ("refused", "shop-own")


@pytest.mark.parametrize("changed", [{"repository": "/work/other/.git"}, {"root": "/work/other"}])
def test_another_repository_at_a_trusted_path_is_another_folder(trust: Trust, changed: dict[str, Any]) -> None:
    """X2.1: and so is another folder that points to a trusted repository."""
    state(trust, FIRST)
    assert state(trust, replace(FIRST, **changed))[0] == "refused"


def test_a_folder_that_its_repository_does_not_name_takes_nothing(trust: Trust) -> None:
    """X2.1: not even what is free; a person may trust it."""
    pointing = replace(SECOND, repository=FIRST.repository, is_proven=False)
    assert state(trust, pointing) == ("refused", "copy-own")
    assert state(trust, FIRST) == ("joined", NAME)
    trust.trust(pointing)
    assert state(trust, pointing) == ("joined", NAME)


@pytest.mark.parametrize("use", ["record", "private", "task", "token"])
def test_what_a_person_named_is_no_first_comers(open_memory: Callable[..., App], use: str) -> None:
    """X2.1: a namespace in which something is stored, or that a token names, is given by command alone."""
    app = open_memory(namespace=NAME)
    if use == "task":
        app.tasks.push(PushRequest(goal="Sell"), app.caller())
    elif use == "token":
        app.tokens.add("laptop", Grant(agent="ann", person="ann", namespaces=("other", NAME), right="write"))
    else:
        item = NewRecord(text="Orders are CSV.", visibility="private" if use == "private" else "shared")
        app.remember([item], app.caller())
    assert state(app.trust, FIRST) == ("refused", "shop-own")
    app.trust.trust(FIRST)
    assert state(app.trust, FIRST) == ("joined", NAME)


def test_a_person_lets_another_folder_in_and_out(trust: Trust, app: App) -> None:
    """X2.1: twice is once; what a folder had stays taken."""
    state(trust, FIRST)
    given = trust.trust(SECOND)
    assert trust.trust(SECOND) == given
    assert state(trust, SECOND) == ("joined", NAME)
    first = TrustedFolder(
        namespace=NAME, folder=FIRST.root, repository=FIRST.repository, since=given.since, is_first=True
    )
    assert sorted(trust.folders(), key=lambda each: each.folder) == [given, first]
    assert trust.revoke(SECOND.root) == [given]
    assert trust.revoke(FIRST.root) == [first]
    assert state(trust, SECOND) == ("refused", "copy-own")
    assert state(trust, FIRST) == ("refused", "shop-own")
    assert trust.folders() == []
    trust.trust(FIRST)
    assert [each.is_first for each in trust.folders()] == [False]
    with pytest.raises(NotFound, match="trust --list"):
        trust.revoke("/nowhere")
    with pytest.raises(InvalidRequest, match=r"/work/notes belongs to no shared project.*notes-own"):
        trust.trust(project("notes", claim=""))


def test_of_processes_that_come_first_at_once_one_wins(tmp_path: Path) -> None:
    """X2.1: and all of them agree on it."""
    SqliteRecordStore(tmp_path, "e").close()
    claiming = [project(f"clone{number % 4}") for number in range(16)]
    told: dict[int, str] = {}
    together = threading.Barrier(len(claiming))

    def come(number: int) -> None:
        with closing(SqliteRecordStore(tmp_path, "e")) as store:
            together.wait()
            told[number] = (
                Trust(store.folders(), store.projects(), lambda: 1.0).membership(claiming[number], takes=True).state
            )

    threads = [threading.Thread(target=come, args=(number,)) for number in range(len(claiming))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    joined = {number % 4 for number, each in told.items() if each == "joined"}
    assert len(told) == len(claiming)
    assert len(joined) == 1
    assert sorted(told.values()) == ["joined"] * 4 + ["refused"] * 12


@contextmanager
def no_room() -> Generator[None]:
    """No file of this process may grow, as under a quota; what can be read still is."""
    if sys.platform == "win32":
        pytest.skip("limits of files are POSIX's")
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_where_nothing_can_be_written_nothing_is_taken(app: App) -> None:
    """X2.1: what can be read still is, and later it is taken after all."""
    with no_room():
        seen = state(app.trust, FIRST)
    assert seen == ("free", "shop-own")
    assert state(app.trust, FIRST) == ("joined", NAME)


class BusyFolders(SqlFolders):
    """A store that other processes write to without end."""

    def take(self, folder: TrustedFolder) -> bool:
        raise StoreBusy("The memory store is busy.")


def test_a_busy_store_is_asked_again(tmp_path: Path) -> None:
    """X2.1: working in the folder's own namespace meanwhile would divide its memory."""
    with closing(SqliteDatabase(tmp_path)) as database, pytest.raises(StoreBusy):
        Trust(BusyFolders(database), SqlProjects(database), lambda: 1.0).membership(FIRST, takes=True)


def test_the_status_says_what_a_person_may_do(trust: Trust) -> None:
    """X2.1."""
    first = show_folder(trust.membership(FIRST, takes=True))
    assert first == {
        "state": "joined", "namespace": NAME, "path": "/work/shop", "repository": "/work/shop/.git", "claims": NAME,
        "is_proven": True, "next_step": None,
    }  # fmt: skip
    second = show_folder(trust.membership(SECOND, takes=True))
    assert (second["namespace"], second["claims"]) == ("copy-own", NAME)
    assert "`mcp-memory trust`" in str(second["next_step"])
    alone = show_folder(trust.membership(project("notes", repository="", claim=""), takes=True))
    assert (alone["claims"], alone["repository"], alone["next_step"]) == (None, None, None)
    assert show_folder(Membership(namespace="n", state="named")) == {"state": "named", "namespace": "n"}


@pytest.mark.uncounted
@pytest.mark.parametrize("max_tokens", [64, 80, 1000])
def test_a_notice_is_in_every_block_and_counted(app: App, max_tokens: int) -> None:
    """X2.1, A3.1: in a small block a short one; the same request has the same block."""
    me = app.caller()
    app.remember([NewRecord(text=f"Fact {number}: orders are CSV in UTF-8.") for number in range(20)], me)
    noticed = ContextRequest(max_tokens=max_tokens, notice="Mind this: " + "well " * 30, short_notice="Mind this.")
    context = app.assemble_context(noticed, me)
    assert "- Mind this" in context.text
    assert ("well" in context.text) == (max_tokens == 1000)
    assert app.counter.count(context.text) == context.report.token_count <= max_tokens
    assert app.assemble_context(noticed, me).text == context.text
    assert "Mind this" not in app.assemble_context(replace(noticed, notice=""), me).text
    again = app.assemble_context(replace(noticed, previous=context.report.id), me)
    assert again.report.metadata["follow_up"] == "unchanged"


def test_a_process_keeps_its_namespace_once_it_has_one(
    open_memory: Callable[..., App], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2.1: but does not settle for its own where the claimed one could not be written down."""
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / ".git" / "config").write_text(f'[remote "origin"]\nurl = https://{NAME}', "utf-8")
    monkeypatch.chdir(tmp_path / "shop")
    app = open_memory(namespace=None)
    with no_room():
        namespace = app.caller().namespace
    assert namespace.startswith("shop-")
    assert app.caller().namespace == NAME
    app.trust.revoke(str(tmp_path / "shop"))
    assert app.caller().namespace == NAME
    assert open_memory(namespace=None).own.membership.is_refused


def test_the_former_name_of_a_project_is_nobodys_to_take(app: App, trust: Trust) -> None:
    """X2.1, P4.1: or the first folder that claims it would have what was stored by name."""
    app.remember([NewRecord(text="The port is 5432.")], replace(app.caller(), namespace=NAME))
    app.projects.rename(NAME, "shop")
    assert state(trust, FIRST) == ("refused", "shop-own")
    trust.trust(FIRST)
    assert state(trust, FIRST) == ("joined", "shop")
