"""What folders say they are, read from repositories that git made and from files that were made to deceive."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_memory.domain.model.projects import Project, own_namespace
from mcp_memory.errors import InvalidRequest
from mcp_memory.projects import CONFIG_BYTES, parse_config, read_project

NAME = "example.org/team/shop"
ORIGIN = f"https://{NAME}.git"
PATIENCE_SECONDS = 30.0


def git(folder: Path, *arguments: str) -> None:
    options = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository without a remote."""
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init")
    git(folder, "commit", "--allow-empty", "-m", "first")
    return folder


@pytest.fixture
def victim(shop: Path) -> Path:
    """A repository with a remote."""
    git(shop, "remote", "add", "origin", ORIGIN)
    return shop


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    folder = tmp_path / "evil"
    folder.mkdir()
    return folder


def configure(folder: Path, text: str) -> Path:
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    (folder / ".git" / "config").write_text(text, "utf-8")
    return folder


def identity(project: Project) -> tuple[str, str, str]:
    return project.claim, project.root, project.repository


def test_a_repository_claims_what_its_origin_stands_for(victim: Path) -> None:
    """S4.1, X2.1."""
    assert read_project(victim) == Project(
        folder=str(victim),
        root=str(victim),
        own=own_namespace(str(victim)),
        repository=str(victim / ".git"),
        claim=NAME,
        mark=f"{victim.stat().st_ino}.{(victim / '.git').stat().st_ino}",
    )


def test_a_repository_without_an_origin_claims_nothing(shop: Path) -> None:
    """S4.1: it has a namespace of its own."""
    project = read_project(shop)
    assert (project.claim, project.own, project.is_proven) == ("", own_namespace(str(shop)), True)


def test_folders_inside_and_links_to_it_are_the_repository(victim: Path, tmp_path: Path) -> None:
    """S4.1, X2.1."""
    inside, link = victim / "src" / "deep", tmp_path / "link"
    inside.mkdir(parents=True)
    link.symlink_to(inside)
    git_inside = victim / ".git" / "hooks"
    assert read_project(inside) == read_project(link) == read_project(git_inside) == read_project(victim)


@pytest.mark.parametrize("origin", [ORIGIN, ""])
@pytest.mark.parametrize("relative", ["false", "true"])
def test_a_linked_worktree_is_proven_by_the_repository(shop: Path, tmp_path: Path, origin: str, relative: str) -> None:
    """S4.1, X2.1: with absolute and with relative links."""
    if origin:
        git(shop, "remote", "add", "origin", origin)
    git(shop, "worktree", "add", str(tmp_path / "tree"))
    if relative == "true":
        admin = shop / ".git" / "worktrees" / "tree"
        (tmp_path / "tree" / ".git").write_text("gitdir: ../shop/.git/worktrees/tree\n")
        (admin / "gitdir").write_text("../../../../tree/.git\n")
    tree = read_project(tmp_path / "tree")
    assert identity(tree) == identity(read_project(shop))
    assert (tree.is_proven, tree.own) == (True, read_project(shop).own)
    assert tree.folder == str(tmp_path / "tree")


def test_worktrees_of_a_bare_repository_are_one_project(shop: Path, tmp_path: Path) -> None:
    """X2.1: and two bare repositories in one folder are two."""
    for name in ("a", "b"):
        git(tmp_path, "clone", "--bare", str(shop), f"{name}.git")
        git(tmp_path / f"{name}.git", "remote", "remove", "origin")
        git(tmp_path / f"{name}.git", "worktree", "add", "-b", "one", str(tmp_path / f"{name}1"))
        git(tmp_path / f"{name}.git", "worktree", "add", "-b", "two", str(tmp_path / f"{name}2"))
    a1, a2, b1 = (read_project(tmp_path / name) for name in ("a1", "a2", "b1"))
    assert a1.is_proven
    assert a1.own == a2.own != b1.own


def test_a_submodule_is_proven_by_its_configuration(victim: Path, tmp_path: Path) -> None:
    """X2.1."""
    git(tmp_path, "clone", "--bare", str(victim), "part.git")
    git(victim, "submodule", "add", str(tmp_path / "part.git"), "part")
    part = read_project(victim / "part")
    assert part.is_proven
    assert part.repository == str(victim / ".git" / "modules" / "part")
    assert part.claim == f"@local/{own_namespace(str(tmp_path / 'part.git'))}"


def test_local_remotes_are_known_by_where_they_lie(shop: Path, tmp_path: Path) -> None:
    """X2.1: `../bare.git` is no name."""
    git(tmp_path, "clone", "--bare", str(shop), "bare.git")
    (tmp_path / "deep").mkdir()
    git(shop, "remote", "add", "origin", "../bare.git")
    git(tmp_path / "deep", "clone", str(tmp_path / "bare.git"), "clone")
    assert read_project(shop).claim == read_project(tmp_path / "deep" / "clone").claim != ""


def test_a_folder_without_git_is_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X2.2: but the home directory and the root are `default`."""
    home, notes = tmp_path / "home", tmp_path / "notes"
    home.mkdir()
    notes.mkdir()
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(home))
    assert read_project(notes).own == own_namespace(str(notes)) != read_project(tmp_path).own
    assert read_project(home).own == read_project(Path(home.anchor)).own == "default"
    assert read_project(home / "work").own != "default"
    assert {read_project(folder).claim for folder in (notes, home, tmp_path)} == {""}
    monkeypatch.chdir(notes)
    assert read_project() == read_project(notes)


def point_by_file(evil: Path, victim: Path) -> None:
    (evil / ".git").write_text(f"gitdir: ../{victim.name}/.git\n")


def point_by_link(evil: Path, victim: Path) -> None:
    (evil / ".git").symlink_to(victim / ".git")


def point_into_a_worktree(evil: Path, victim: Path) -> None:
    git(victim, "worktree", "add", str(victim.parent / "tree"))
    (evil / ".git").write_text(f"gitdir: {victim / '.git' / 'worktrees' / 'tree'}\n")


def point_by_link_to_a_worktrees_file(evil: Path, victim: Path) -> None:
    git(victim, "worktree", "add", str(victim.parent / "tree"))
    (evil / ".git").symlink_to(victim.parent / "tree" / ".git")


def name_a_common_directory(evil: Path, victim: Path) -> None:
    made = evil / "made"
    made.mkdir()
    (made / "commondir").write_text(str(victim / ".git"))
    (made / "gitdir").write_text(str(evil / ".git"))
    (evil / ".git").write_text("gitdir: made\n")


@pytest.mark.parametrize("has_origin", [True, False])
@pytest.mark.parametrize(
    "point",
    [point_by_file, point_by_link, point_into_a_worktree, point_by_link_to_a_worktrees_file, name_a_common_directory],
)
def test_a_pointer_to_another_repository_proves_nothing(
    shop: Path, evil: Path, point: Callable[[Path, Path], None], has_origin: bool
) -> None:
    """X2.1: what it claims is the repository's, what it is stays its own."""
    if has_origin:
        git(shop, "remote", "add", "origin", ORIGIN)
    point(evil, shop)
    project = read_project(evil)
    assert not project.is_proven
    assert (project.folder, project.root, project.own) == (str(evil), str(evil), own_namespace(str(evil)))
    assert project.claim == (NAME if has_origin else own_namespace(str(shop)))


@pytest.mark.parametrize(
    "config",
    [
        f'[remote "origin"]\n\turl = {ORIGIN}\n',
        f'[remote "origin"]\nurl = {ORIGIN}\n[core]\n\tworktree = ../../shop\n',
        f'[REMOTE "origin"] URL = "{ORIGIN}" ; comment\n',
        f'[remote "origin"]\n\tpushurl = https://example.org/other\n\turl =\n\turl = {ORIGIN}\n\turl = https://x.org/y\n',
        f'[url "https://evil.org/"]\n\tinsteadOf = {ORIGIN}\n[remote "origin"]\r\n\turl = {ORIGIN}\r\n',
    ],
)
def test_a_copied_origin_is_a_claim_of_a_folder_of_its_own(victim: Path, evil: Path, config: str) -> None:
    """X2.1: the first of several addresses, as git fetches it; nothing is rewritten."""
    project = read_project(configure(evil, config))
    assert (project.claim, project.root, project.repository) == (NAME, str(evil), str(evil / ".git"))
    assert project.own != read_project(victim).own


@pytest.mark.parametrize(
    "config",
    [
        '[remote "Origin"]\n\turl = {0}\n',
        '[remote "upstream"]\n\turl = {0}\n',
        "[include]\n\tpath = {1}\n",
        '[includeIf "gitdir:**"]\n\tpath = {1}\n',
        '[remote "origin"]\n\tfetch = {0}\n# url = {0}\n',
        '[remote "origin"]\n\turl\n',
        '[remote "origin"\n\turl = {0}\n',
        "url = {0}",
        "\x00\udcff",
    ],
)
def test_what_is_no_origin_is_no_claim(victim: Path, evil: Path, config: str) -> None:
    """X2.1: includes are not followed either."""
    configure(evil, "")
    text = config.format(ORIGIN, victim / ".git" / "config").encode("utf-8", "surrogateescape")
    (evil / ".git" / "config").write_bytes(text)
    assert read_project(evil).claim == ""


def test_a_configuration_is_read_as_git_reads_it(shop: Path) -> None:
    """X2.1."""
    values = {"one.a": "x", "two.b.c": 'a "b" ; c', "two.b.d": "tab\there \\ #", 'three.B "q.e': "spaced  out"}
    for name, value in values.items():
        git(shop, "config", name, value)
    told = parse_config((shop / ".git" / "config").read_text("utf-8"))
    assert {name: told[name][-1] for name in values} == values


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to(path.with_name("pipe"))


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.write(f'[remote "origin"]\n\turl = {ORIGIN}\n'.encode())
        file.truncate(CONFIG_BYTES + 1)


def unreadable(path: Path) -> None:
    path.write_bytes(b"gitdir: \xff\x00")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes and devices in folders")
@pytest.mark.parametrize("trap", [pipe, link_to_pipe, device, loop, huge, unreadable])
@pytest.mark.parametrize("place", [".git", "config", "commondir", "gitdir"])
def test_only_regular_files_of_bounded_size_are_read(
    victim: Path, evil: Path, trap: Callable[[Path], None], place: str
) -> None:
    """X2.1: whatever else lies in a file's place, nobody waits for it."""
    if place == ".git":
        trap(evil / ".git")
    elif place == "config":
        (evil / ".git").mkdir()
        trap(evil / ".git" / "config")
    else:
        admin = victim / ".git" / "worktrees" / "tree"
        git(victim, "worktree", "add", str(victim.parent / "tree"))
        evil = victim.parent / "tree"
        (admin / place).unlink()
        trap(admin / place)
    told: list[Project] = []
    reader = threading.Thread(target=lambda: told.append(read_project(evil)), daemon=True)
    reader.start()
    reader.join(PATIENCE_SECONDS)
    assert told, "it still waits"
    assert not (told[0].claim and told[0].is_proven)


@pytest.mark.parametrize(
    "pointer",
    ["", "gitdir:", "gitdir: ", "gitdir: gone", "gitdir: /etc/passwd", "gitdir: //server/share", "gitdir: a\x00b", "x"],
)
def test_a_pointer_to_nowhere_leaves_the_folder_alone(victim: Path, pointer: str) -> None:
    """X2.1: also below a repository, which it does not belong to any more."""
    folder = victim / "vendor"
    folder.mkdir()
    (folder / ".git").write_text(pointer)
    project = read_project(folder)
    assert (project.claim, project.own, project.repository) == ("", own_namespace(str(folder)), "")


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest, match="start in a folder that exists"):
        read_project(Path("a\x00b"))
    if sys.platform != "win32":  # It keeps a working directory from being removed.
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        with pytest.raises(InvalidRequest, match="MCP_MEMORY_NAMESPACE"):
            read_project()
        monkeypatch.chdir(tmp_path)


def test_files_of_a_working_tree_that_look_like_a_repository_prove_nothing(tmp_path: Path) -> None:
    """X2.1: anybody may write them who gets a change merged; what they name is never the folder that they lie in."""
    shop, evil = tmp_path / "shop", tmp_path / "evil"
    (shop / "worktrees" / "x").mkdir(parents=True)
    evil.mkdir()
    (shop / "config").write_text("[core]\n\tworktree = ../evil\n")
    (shop / "worktrees" / "x" / "HEAD").write_text("ref: refs/heads/main\n")
    (shop / "worktrees" / "x" / "commondir").write_text("../..\n")
    (shop / "worktrees" / "x" / "gitdir").write_text(f"{evil / '.git'}\n")
    for pointer in ("gitdir: ../shop\n", "gitdir: ../shop/worktrees/x\n"):
        (evil / ".git").write_text(pointer)
        assert read_project(evil).own not in (own_namespace(str(shop)), read_project(shop).own)
        assert not read_project(evil).claim


@pytest.mark.parametrize("planted", ["an empty directory", "a link to nowhere", "an empty file"])
def test_what_is_no_repository_joins_no_folders(tmp_path: Path, planted: str) -> None:
    """X2.2: however it came to lie above them."""
    dot_git = tmp_path / ".git"
    if planted == "an empty directory":
        dot_git.mkdir()
    elif planted == "a link to nowhere":
        dot_git.symlink_to(tmp_path / "gone")
    else:
        dot_git.touch()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert read_project(tmp_path / "a").own != read_project(tmp_path / "b").own


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a file away")
def test_what_another_user_planted_above_a_folder_is_not_its_repository(tmp_path: Path) -> None:
    """X2.1: as in /tmp, where everybody may write."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/team/shop.git\n')
    (tmp_path / "mine").mkdir()
    os.chown(tmp_path / ".git", 65_534, -1)
    assert not read_project(tmp_path / "mine").claim
