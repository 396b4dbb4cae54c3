"""Reads from git's files which project a folder claims to be. Its author chose the claim, so nothing here trusts it.

Git itself is not run: a hostile repository can make it run programs. Only regular files of bounded size are read,
includes are not followed, and no path on another machine is looked at.
"""

import os
import re
import stat
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mcp_memory.bounded_files import read_regular
from mcp_memory.domain.model.projects import DEFAULT_NAMESPACE, Project, own_namespace, remote_namespace
from mcp_memory.errors import InvalidRequest

CONFIG_BYTES = 1_000_000
POINTER_BYTES = 16_384
"""Limit for a file that holds nothing but a path: `.git`, `gitdir`, `commondir`."""
_SECTION_HEADER = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)"\s*)?\]')
"""Section headers, e.g. `[core]` or `[remote "origin"]`; a key may follow on the same line."""
_ASSIGNMENT = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=(.*)")  # e.g. `url = git@host:a/b.git`
_ESCAPES: Mapping[str, str] = {"n": "\n", "t": "\t", "b": "\b"}
_MIXED = ("Desktop", "Documents", "Downloads")
_ON_ANOTHER_MACHINE = re.compile(r"[\\/]{2}")
"""e.g. `\\\\server\\share`: on Windows, looking at it tells that server who we are."""


def read_project(start: Path | None = None) -> Project:
    """Return the project that a folder, or the repository around it, claims to be; by default the working directory's.

    The home directory and the root of a file system have the namespace `default`, unless they are repositories.

    Raises:
        InvalidRequest: the working directory is gone, or the path cannot be one.
    """
    try:
        folder = Path(os.path.realpath(start or Path.cwd()))
    except (OSError, ValueError) as error:
        raise InvalidRequest(
            "The working directory is gone or has an impossible path; start in a folder that exists, or set"
            " MCP_MEMORY_NAMESPACE."
        ) from error
    around: list[Path] = []
    for top in (folder, *folder.parents):
        around.append(top)
        if os.path.lexists(top / ".git"):
            git_dir = _git_dir(top) if _is_of_owner(top / ".git", folder) else None
            if git_dir is not None:
                return _repository(top, git_dir)
            break
    if folder == folder.parent or folder == _home():
        return Project(folder=str(folder), root=str(folder), own=DEFAULT_NAMESPACE)
    return replace(_plain(folder), around=tuple(map(_plain, filter(_may_hold_work, around[1:]))))


def _plain(folder: Path) -> Project:
    """Return the project that a folder without git is."""
    return Project(folder=str(folder), root=str(folder), own=own_namespace(str(folder)), mark=_mark(folder))


def _may_hold_work(folder: Path) -> bool:
    """True for a folder that may be one project with all inside it.

    The root, the home directory, what is around it and the places in it where all kinds of things lie are not; nor are
    folders that everybody writes to, such as /tmp.
    """
    home = _home()
    if folder == folder.parent or (
        home and (home.is_relative_to(folder) or folder in {home / each for each in _MIXED})
    ):
        return False
    try:
        status = folder.stat()
    except OSError:
        return False
    is_open = hasattr(os, "getuid") and status.st_mode & stat.S_IWOTH and status.st_uid != os.getuid()
    return not is_open and not status.st_mode & stat.S_ISVTX


def _mark(*paths: Path) -> str:
    """Return the numbers that the file system gave to these, which stay when they are renamed; "" without any."""
    try:
        return ".".join(str(path.stat().st_ino) for path in paths)
    except (OSError, ValueError):
        return ""


def folder_exists(path: Path) -> bool:
    """True where a directory is at that path, links followed; False also where it may not be looked at."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def look_at(folder: str) -> str:
    """Return the mark of the folder at a path, as a project without git would have it; "" where there is none."""
    return _mark(Path(folder)) if folder_exists(Path(folder)) else ""


def _home() -> Path | None:
    try:
        return Path(os.path.realpath(Path.home()))
    except RuntimeError:
        return None


def _repository(top: Path, git_dir: Path) -> Project:
    common = git_dir if git_dir == top / ".git" else _common_dir(git_dir)
    config = parse_config(_read_text(common / "config", CONFIG_BYTES) or "")
    is_proven = _is_proven(top, git_dir, common, config)
    is_bare = common.name != ".git"
    main = common if is_bare else common.parent
    root = main if is_proven else top
    url = next(filter(None, config.get("remote.origin.url", ())), "")
    claim = remote_namespace(url, partial(_real_path, main))
    if not claim and not is_proven:
        claim = own_namespace(str(main), is_bare=is_bare)
    return Project(
        folder=str(top),
        root=str(root),
        own=own_namespace(str(root), is_bare=is_bare and is_proven),
        repository=str(common),
        claim=claim,
        is_proven=is_proven,
        mark=_mark(root, common) if root != common else _mark(root),
    )


def _git_dir(top: Path) -> Path | None:
    """Return the directory that `.git` is, or points to as a link or a file; None where that is no repository's.

    An empty `.git`, or a pipe instead of it, makes no repository of the folders below it.
    """
    dot_git = top / ".git"
    if folder_exists(dot_git):
        git_dir = Path(os.path.realpath(dot_git))
    else:
        text = _read_text(dot_git, POINTER_BYTES) or ""
        git_dir = _directory(top, text.removeprefix("gitdir:")) if text.startswith("gitdir:") else None
    is_used = git_dir is not None and any(os.path.lexists(git_dir / name) for name in ("HEAD", "config", "commondir"))
    return git_dir if is_used else None


def _is_of_owner(dot_git: Path, folder: Path) -> bool:
    """True for a `.git` that belongs to the folder's owner, to this user or to root.

    In a folder that everybody may write to, such as /tmp, anybody can plant one above other people's folders.
    """
    try:
        owner = dot_git.lstat().st_uid
        return owner in (folder.stat().st_uid, os.getuid() if hasattr(os, "getuid") else owner, 0)
    except OSError:
        return False


def _common_dir(git_dir: Path) -> Path:
    """Return the directory that all worktrees of a repository share."""
    return _directory(git_dir, _read_text(git_dir / "commondir", POINTER_BYTES) or "") or git_dir


def _is_proven(top: Path, git_dir: Path, common: Path, config: Mapping[str, Sequence[str]]) -> bool:
    """True where the repository is in the folder, or points back to it: as a worktree, or by `core.worktree`.

    The `.git` of a submodule or worktree is a file, so anybody can write one that claims to belong to a repository.
    """
    if git_dir == top / ".git":
        return True
    if git_dir.parent == common / "worktrees":
        folder, name = os.path.split((_read_text(git_dir / "gitdir", POINTER_BYTES) or "").strip())
        return name == ".git" and _real_path(git_dir, folder) == str(top)
    named = config.get("core.worktree", ())
    return git_dir == common and bool(named) and _real_path(git_dir, named[-1]) == str(top)


def _directory(base: Path, path: str) -> Path | None:
    """Return the real path of a directory that a file names; None where there is none."""
    real = _real_path(base, path.strip()) if path.strip() else ""
    return Path(real) if real and folder_exists(Path(real)) else None


def _real_path(base: Path, path: str) -> str:
    """Return the real path of `path`, relative to `base`; "" where it cannot be a path, or is on another machine."""
    try:
        return "" if _ON_ANOTHER_MACHINE.match(path) else os.path.realpath(base / path)
    except (OSError, ValueError):
        return ""


def _read_text(path: Path, most_bytes: int) -> str | None:
    """Return the text of a regular file; None where it is not one, is too long, or cannot be read. Never blocks."""
    try:
        return read_regular(path, most_bytes).decode("utf-8-sig")
    except (OSError, ValueError):
        return None


def parse_config(text: str) -> Mapping[str, Sequence[str]]:
    """Return the values of a git configuration by name, e.g. `remote.origin.url`, in their order.

    Section and key are in lower case, a subsection as it is written. Values over several lines end with their first.
    """
    values: defaultdict[str, list[str]] = defaultdict(list)
    section = ""
    for line in text.split("\n"):
        header = _SECTION_HEADER.match(line)
        if header:
            subsection = re.sub(r"\\(.)", r"\1", header[2] or "")
            section = header[1].lower() + (f".{subsection}" if subsection else "")
        if assignment := _ASSIGNMENT.match(line, header.end() if header else 0):
            values[f"{section}.{assignment[1].lower()}"].append(_value(assignment[2]))
    return values


def _value(raw: str) -> str:
    r"""Strip a value's quotes, escapes and comment: `"a \"b\"" ; c` becomes `a "b"`."""
    taken: list[str] = []
    is_quoted = False
    characters = iter(raw)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            taken.append(_ESCAPES.get(escaped, escaped))
        elif character == '"':
            is_quoted = not is_quoted
        elif character in "#;" and not is_quoted:
            break
        else:
            taken.append(character)
    return "".join(taken).strip()
