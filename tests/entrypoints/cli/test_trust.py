"""The command by which a person lets a folder use a project's memory."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.domain.model.projects import own_namespace
from mcp_memory.entrypoints.hooks.session_notes import Noted, SessionNotes

if TYPE_CHECKING:
    from mcp_memory.settings import Settings
    from tests.entrypoints.cli.conftest import Run

NAME = "example.org/team/shop"


def clone(folder: Path) -> Path:
    """A repository of the project, as far as its namespace goes."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(f'[remote "origin"]\n\turl = https://{NAME}.git\n', "utf-8")
    return folder


@pytest.fixture
def shop(tmp_path: Path, run: "Run", monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first clone, which has the memory; one stands in it, and no settings name a namespace."""
    folder = clone(tmp_path / "shop")
    monkeypatch.delenv("MCP_MEMORY_NAMESPACE")
    monkeypatch.chdir(folder)
    assert run("add", "Orders are CSV.").code == 0
    return folder


def test_trust_lets_a_folder_in_and_says_with_whom_it_shares(run: "Run", shop: Path, tmp_path: Path) -> None:
    """X2.1: once is as good as twice."""
    copy = clone(tmp_path / "copy")
    for _ in range(2):
        ran = run("trust", str(copy))
        assert ran.out.splitlines() == [
            f"{copy} uses the memory of {NAME} once a server starts in it again. It shares that memory with {shop}."
        ]
    listed = run("trust", "--list").out.splitlines()
    assert listed[0] == NAME
    assert [line.partition(",")[0] for line in listed[1:]] == [
        f"  {shop} (first to use it", f"  {copy} (let in by you",
    ]  # fmt: skip


def test_an_import_into_a_folder_that_is_refused_proposes_trust_alone(
    run: "Run", shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4.2: a merge would be for good."""
    run("export", str(tmp_path / "all.jsonl"))
    monkeypatch.chdir(clone(tmp_path / "copy"))
    told = run("import", str(tmp_path / "all.jsonl")).out
    assert "and `mcp-memory trust` lets this folder use the one that it says it is." in told
    assert "merge" not in told


def test_revoke_takes_a_folder_by_its_path_though_it_is_gone(run: "Run", shop: Path, tmp_path: Path) -> None:
    """X2.1."""
    copy = clone(tmp_path / "copy")
    run("trust", str(copy))
    shutil.rmtree(copy)
    assert run("trust", "--list").out.rstrip().endswith("gone)")
    [finding] = [each for each in run("doctor", "--json").json if each["part"] == "trust"]
    assert finding["state"] == "ok"
    assert str(copy) in finding["says"]
    assert run("trust", "--revoke", str(copy)).out.startswith(f"{copy} no longer uses the memory of {NAME}")
    ran = run("trust", "--revoke", str(copy))
    assert (ran.code, ran.out) == (1, "")
    assert "is not trusted with any project" in ran.err
    assert not [each for each in run("doctor", "--json").json if each["part"] == "trust"]
    inside = shop / "src"
    inside.mkdir()
    assert [each["folder"] for each in run("trust", "--revoke", str(inside), "--json").json] == [str(shop)]
    assert run("trust", "--list").out.startswith("No folder is trusted yet")
    assert run("trust", "--list", "--json").json == []


def test_revoking_a_folder_forgets_what_hooks_noted_in_its_namespace(
    run: "Run", shop: Path, tmp_path: Path, settings: "Settings"
) -> None:
    """X2.1: a session whose folder is gone would go on in the namespace that is noted; others keep theirs."""
    copy = clone(tmp_path / "copy")
    run("trust", str(copy))
    run("add", "The mixer is red.", "--namespace", NAME)
    assert run("projects", "rename", NAME, "store").code == 0
    ours, renamed, others = (SessionNotes(settings.data_dir, name) for name in ("ours", "renamed", "others"))
    ours.write(Noted(folder=str(copy), namespace=NAME, fed_until=10))
    renamed.write(Noted(folder=str(copy), namespace="store", fed_until=10))
    others.write(Noted(folder=str(tmp_path), namespace="elsewhere", fed_until=20))
    assert run("trust", "--revoke", str(copy)).code == 0
    assert ours.noted == renamed.noted == Noted()
    assert (others.noted.namespace, others.noted.fed_until) == ("elsewhere", 20)


def test_trust_says_what_it_cannot_do(run: "Run", shop: Path, tmp_path: Path) -> None:
    """X2.1, X2.2."""
    (tmp_path / "notes").mkdir()
    for arguments, why in (
        ([str(tmp_path / "notes")], "belongs to no shared project"),
        ([str(tmp_path / "nowhere")], "is not a folder"),
        (["--list", "--revoke"], "--list shows all folders"),
        (["--list", "."], "--list shows all folders"),
    ):
        ran = run("trust", *arguments)
        assert (ran.code, ran.out) == (1, "")
        assert why in ran.err


def test_a_clone_of_a_folder_is_told_that_its_origin_has_another_memory(
    run: "Run", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2.1, P4.1: and by which command the two become one, after which there is nothing to tell."""
    first, copy = clone(tmp_path / "first"), clone(tmp_path / "copy")
    (first / ".git" / "config").write_text("")
    (copy / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {first}\n')
    monkeypatch.delenv("MCP_MEMORY_NAMESPACE")
    monkeypatch.chdir(copy)
    assert "cloned" not in run("trust").out
    monkeypatch.chdir(first)
    assert run("add", "Orders are CSV.").code == 0
    monkeypatch.chdir(copy)
    own, claimed = own_namespace(str(first)), f"@local/{own_namespace(str(first))}"
    assert f"But {first}, from which it was cloned, has a memory of its own" in run("trust").out
    assert f"`mcp-memory projects merge {own} {claimed}` lets both folders share one" in run("trust").out
    assert run("trust", "--json").json["origin"]["records"] == 1
    assert run("projects", "merge", own, claimed).code == 0
    assert "cloned" not in run("trust").out
    assert [each["text"] for each in run("list", "--json").json["results"]] == ["Orders are CSV."]


def test_a_namespace_that_settings_name_wins(run: "Run", shop: Path, tmp_path: Path) -> None:
    """X2.1: and the command says so."""
    copy = clone(tmp_path / "copy")
    assert (
        "The settings name another project, mine, which takes precedence"
        in run("--namespace", "mine", "trust", str(copy)).out
    )


def test_status_says_whose_memory_it_is(
    run: "Run", shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2.1."""
    assert "the memory of the project it belongs to" in run("status").out
    assert "you: an option, a variable or the file of settings" in run("status", "--namespace", "mine").out
    copy = clone(tmp_path / "copy")
    monkeypatch.chdir(copy)
    out = run("status").out
    assert "its own memory, not that of the project it claims to be" in out
    assert f"{NAME}. If it is your project, run `mcp-memory trust` in this folder" in " ".join(out.split())
    monkeypatch.chdir(tmp_path)
    assert "claims" not in run("status").out
