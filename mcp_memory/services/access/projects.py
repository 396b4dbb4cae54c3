"""Projects by their names: gives one another name, puts two together, and finds the memory of one that was renamed."""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.projects import (
    LOCAL,
    MAX_NAMESPACE,
    OWN_NAMESPACE,
    Membership,
    MovedProject,
    Project,
    ProjectFolder,
    own_namespace,
)
from mcp_memory.domain.model.records import LASTING_KINDS, Instant
from mcp_memory.domain.model.scopes import Caller, RecordFilter, scope_key
from mcp_memory.domain.text.control_characters import whole_characters
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.errors import InvalidRequest, NotFound
from mcp_memory.ports.access import ProjectStore
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock

NEAR_NAMED = 3
"""Projects that an error names for one that is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerMemory:
    """A memory that may be the one of a folder whose own is empty; `why` says so in words that follow "but"."""

    namespace: str
    records: int
    why: str


class Projects:
    """Reads and changes the names of projects. `look` returns the mark of the folder at a path, "" for none.

    Thread-safe.
    """

    def __init__(self, records: RecordStore, projects: ProjectStore, look: Callable[[str], str], clock: Clock) -> None:
        self._records = records
        self._projects = projects
        self._look = look
        self._clock = clock

    def names(self) -> Sequence[str]:
        """Return the names of the projects that hold a live shared record, in order."""
        return self._records.shared_namespaces()

    def live_records(self) -> Mapping[str, int]:
        """Count the live records of each project that holds some, of all its agents; in order of the names."""
        return self._projects.live_records()

    def last_changes(self) -> Mapping[str, Instant]:
        """Return when a record of each project was changed last, of all its agents."""
        return self._projects.last_changes()

    def private_of_others(self, caller: Caller) -> int:
        """Count the live records of the caller's project that are private to other agents."""
        return self._projects.private_of_others(caller.namespace, caller.scope("private"))

    def existing(self, name: str) -> str:
        """Return the present name of a project that a person names. Raises NotFound with names near it."""
        former = self._projects.former(name)
        present = former.namespace if former else name
        if self._projects.is_used(present):
            return present
        near = [each for each in self.names() if get_close_matches(name.lower(), _called(each), 1)]
        meant = f" Did you mean {' or '.join(map(one_line, near[:NEAR_NAMED]))}?" if near else ""
        raise NotFound(f"No project {name!r} holds anything.{meant} `mcp-memory projects` lists those that do.")

    def folders(self) -> Mapping[str, tuple[str, bool]]:
        """Return the folder in which each namespace was noted last, and whether it is still there."""
        known: dict[str, tuple[str, bool]] = {}
        for each in self._noted():
            known.setdefault(each.namespace, (each.folder, self._is_there(each)))
        return known

    def rename(self, old: str, new: str) -> MovedProject:
        """Give a project another name, under which nothing is stored; the same the other way round undoes it.

        Raises:
            InvalidRequest: the new name is none, or the old one.
            NotFound: there is no such project.
            Conflict: the new name is another project's.
            StoreUnavailable: nothing was changed.
        """
        return self._move(old, new, merges=False)

    def merge(self, old: str, new: str) -> MovedProject:
        """Put all that a project holds into another, where each record keeps its id, author, visibility and dates.

        Raises as `rename` does, but no Conflict.
        """
        return self._move(old, new, merges=True)

    def _move(self, old: str, new: str, *, merges: bool) -> MovedProject:
        if not new.strip() or len(new) > MAX_NAMESPACE or not new.isprintable():
            raise InvalidRequest(f"A project's name has 1 to {MAX_NAMESPACE} printable characters.")
        if new == old:
            raise InvalidRequest(f"{new!r} is its name already; name another one.")
        gone = [
            each.mark
            for each in self._noted()
            if each.namespace == old and own_namespace(each.folder) == old and not self._is_there(each)
        ]
        return self._projects.move(old, new, self._clock(), gone[0] if gone else "", merges=merges)

    def former(self, membership: Membership, caller: Caller) -> FormerMemory | None:
        """Return the memory that a folder had under another name or at another place, where its present one is empty.

        Lines of conversations do not count: the first session in the folder has some. None where a person named the
        namespace, or the folder was refused the one that it claims, which is told otherwise.
        """
        project = membership.project
        if project is None or membership.is_refused or caller.namespace != membership.namespace:
            return None
        where = _lasting_in(caller.namespace, caller.agent)
        if self._records.list_ids(where, "occurred", 1) or self._records.tasks(caller.namespace):
            return None
        for namespace, why in self._candidates(project, caller.namespace):
            if known := self._records.count(_lasting_in(namespace, caller.agent)):
                return FormerMemory(namespace=namespace, records=known, why=why)
        return None

    def hint(self, membership: Membership, caller: Caller) -> str:
        """Return a sentence about the memory that `former` finds, and the way to it; else ""."""
        if (former := self.former(membership, caller)) is None:
            return ""
        command = shlex.join(("mcp-memory", "projects", "merge", former.namespace, caller.namespace))
        held = f"{counted(former.records, 'record')} in {one_line(former.namespace)}"
        return whole_characters(  # The name of a folder may be no text.
            f"Nothing is stored under {one_line(caller.namespace)} yet, but {former.why} ({held}): if"
            f" it is the same project, the user brings them here by `{command}`."
        )

    def origin(self, project: Project) -> FormerMemory | None:
        """Return the memory of the folder on this computer that a project was cloned from, where it has another name.

        None where nothing is stored there.
        """
        prefix, _, own = project.claim.partition("/")
        if prefix != LOCAL:
            return None
        claimed = self._projects.former(project.claim)
        here = claimed.namespace if claimed else project.claim
        folders = (each for each in self._noted() if own_namespace(each.folder) == own and each.namespace != here)
        live = self.live_records()
        for each in folders:
            if known := live.get(each.namespace):
                why = f"{one_line(each.folder)}, from which it was cloned, has a memory of its own"
                return FormerMemory(namespace=each.namespace, records=known, why=why)
        return None

    def _candidates(self, project: Project, here: str) -> Iterator[tuple[str, str]]:
        """Yield namespaces, the surest first, and why each may be the project's."""
        if project.own != here:
            yield project.own, "this folder had a memory of its own before"
        elsewhere = [each for each in self._noted() if each.namespace != here]
        present = {each.namespace for each in elsewhere if self._is_there(each)}
        left = [each for each in elsewhere if each.namespace not in present]
        yield from (
            (each.namespace, "this folder had another name") for each in elsewhere if each.folder == project.root
        )
        for one, each in product((project, *project.around), left):
            if one.mark and each.mark == one.mark:
                yield each.namespace, f"{one_line(one.root)} was {one_line(each.folder)} before"
        for one, each in product((project, *project.around), left):
            if _name(each.folder) == _name(one.root):
                yield each.namespace, f"{one_line(each.folder)}, of the same name, is gone"
        yield from self._of_the_same_name(project, {here, *(each.namespace for each in elsewhere)})

    def _of_the_same_name(self, project: Project, known: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the memories of folders of the same name that were never seen here, as after an import."""
        mine = OWN_NAMESPACE.fullmatch(project.own)
        for namespace in self._records.shared_namespaces() if mine else ():
            other = OWN_NAMESPACE.fullmatch(namespace)
            if mine and other and namespace not in known and other["name"] == mine["name"]:
                yield namespace, "there is the memory of a folder of the same name"

    def _noted(self) -> list[ProjectFolder]:
        return [each for each in self._projects.folders() if each.mark]  # Without those that use the memory of another.

    def _is_there(self, noted: ProjectFolder) -> bool:
        """True where the folder is still at its path: it, and not another one."""
        return self._look(noted.folder) == noted.mark.partition(".")[0]


def _lasting_in(namespace: str, agent: str) -> RecordFilter:
    """Return the filter for what an agent's project holds beside the lines of conversations."""
    scopes = (scope_key("shared", namespace, ""), scope_key("private", namespace, agent))
    return RecordFilter(scopes=scopes, kinds=LASTING_KINDS)


def _called(namespace: str) -> tuple[str, str]:
    """Return the words by which a person may name a project: all of its name, or the last part."""
    whole = namespace.lower()
    return whole, whole.rpartition("/")[2]


def _name(folder: str) -> str:
    return re.split(r"[\\/]", folder.rstrip("\\/"))[-1]
