"""Follows the files that a session's calls change: edited, moved, removed, put back, put aside, checked, committed.

Independent of how calls are read, and of what anybody said.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mcp_memory.domain.sessions.shell_commands import paths_gone, paths_put_back, puts_all_back, stashes, within


class FileEdit(NamedTuple):
    """Holds what a call did to a file: its most telling line, and whether it made or removed the file."""

    path: str
    last: str
    is_new: bool = False
    is_gone: bool = False


@dataclass(slots=True, kw_only=True)
class FileChange:
    """Holds what was done to a file, by the places of its edits.

    `source` is the id of the last call that changed it. `works` is what a test or build said since, None where none
    ran, and `error` what it said. `committed` is the file as the last commit left it, None before one.
    """

    path: str
    source: str
    edits: tuple[int, ...] = ()
    is_new: bool = False
    is_gone: bool = False
    last: str = ""
    works: bool | None = None
    error: str = ""
    committed: "FileChange | None" = None


@dataclass(slots=True)
class ChangedFiles:
    """The files changed so far, in the order of their first change. `root` is the folder where commands run, or empty.

    A relative path is one of the root's, and a file there is shown by it: "/srv/app/src/a.py" and "src/a.py" are one.
    """

    root: str = ""
    _found: dict[str, FileChange] = field(default_factory=dict[str, FileChange])
    _aside: tuple[FileChange, ...] = ()

    @property
    def all(self) -> tuple[FileChange, ...]:
        """Return every file that was changed and not put back."""
        begin = f"{self.root}/" if self.root else ""
        return tuple(replace(each, path=each.path.removeprefix(begin)) for each in self._found.values())

    def edit(self, place: int, source: str, written: FileEdit, reported: str) -> None:
        """Take an edit by the call at `place`; `reported` is what a check behind it found."""
        whole = within(self.root, written.path)
        path = next((other for other in self._found if _bare(other) == _bare(whole)), whole)
        new = FileChange(path=path, source=source, is_new=written.is_new)
        change = self._found.setdefault(path, new)
        change.edits += (place,)
        change.source, change.last, change.is_gone = source, written.last, written.is_gone
        change.works, change.error = (False, reported) if reported else (None, "")

    def run(self, command: str, source: str) -> None:
        """Take what a command did to the files besides writing them."""
        for path in [*paths_gone(command, self._found)]:
            self._found[path].is_gone, self._found[path].source = True, source
        self._put_back(paths_put_back(command, self._found))
        # A new file git leaves alone.
        known = tuple(each for each in self._found.values() if not each.is_new or each.committed)
        is_stashed = stashes(command)
        if is_stashed:
            self._aside = known
        elif is_stashed is False:
            self._found |= {each.path: each for each in self._aside}
            self._aside = ()
        if is_stashed or puts_all_back(command):
            self._put_back(each.path for each in known)

    def judge(self, error: str | None) -> None:
        """Take the outcome of a check: its error, "" where it passed, None where nobody can tell."""
        for change in self._found.values():
            change.works, change.error = None if error is None else not error, error or ""

    def commit(self) -> None:
        """Forget what failed before a commit: it was repaired, or does not matter."""
        for change in self._found.values():
            change.works = change.works or None
            change.committed = replace(change, committed=None)

    def _put_back(self, paths: Iterable[str]) -> None:
        for path in [*paths]:
            before = self._found.pop(path).committed
            if before:
                self._found[path] = replace(before, committed=before)


def _bare(path: str) -> str:
    r"""Return a path in one spelling: "app\account\_.tsx" is "app/account_.tsx"."""
    return path.replace("\\_", "_").replace("\\", "/")
