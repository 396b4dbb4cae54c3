"""Trust: decides each folder's namespace. The first folder to claim one gets it; others join by a person's command.

What a person renamed, or merged, is found under its present name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath

from mcp_memory.domain.model.projects import Membership, Project, ProjectFolder, State, TrustedFolder
from mcp_memory.errors import InvalidRequest, NotFound, StoreBusy, StoreUnavailable
from mcp_memory.ports.access import FolderStore, ProjectStore
from mcp_memory.ports.text import Clock

LENT_LEVELS = 3
"""Folders above one that may lend it their memory, as in thesis/chapters/one/figures."""


class Trust:
    """Decides by stored facts, never by a folder's claim alone. Thread-safe."""

    def __init__(self, folders: FolderStore, projects: ProjectStore, clock: Clock) -> None:
        self._folders = folders
        self._projects = projects
        self._clock = clock

    def membership(self, project: Project, *, takes: bool) -> Membership:
        """Return a folder's namespace and the reason. With `takes`, it takes the claimed namespace if that is free.

        A folder whose repository does not name it back takes nothing. Where nothing can be written, nothing is taken,
        and it is not noted that the project is here.

        Raises StoreUnavailable.
        """
        decided = self._claimed(project, takes=takes) if project.claim else self._unclaimed(project)
        if takes and project.mark and decided.state in ("own", "joined", "inside"):
            noted = ProjectFolder(
                namespace=decided.namespace, folder=project.root, repository=project.repository,
                mark="" if decided.state == "inside" else project.mark, noted_at=self._clock(),
            )  # fmt: skip
            with suppress(StoreUnavailable):
                self._projects.note(noted)
        return decided

    def present(self, namespace: str) -> str:
        """Return the name that a namespace has now. Raises StoreUnavailable."""
        former = self._projects.former(namespace)
        return former.namespace if former else namespace

    def present_unless_used(self, namespace: str) -> str:
        """Return the same, but of a name that another project has by now that name itself. Raises StoreUnavailable."""
        return namespace if self._projects.is_used(namespace) else self.present(namespace)

    def followed(self, membership: Membership) -> Membership:
        """Return a membership under the name that its namespace has now. Raises StoreUnavailable."""
        former = self._projects.former(membership.namespace)
        if former is None or former.at == membership.renamed_at:
            return membership
        return replace(membership, namespace=former.namespace, renamed_at=None)

    def _claimed(self, project: Project, *, takes: bool) -> Membership:
        if self._is_trusted(project) or (takes and project.is_proven and self._take(project)):
            return Membership(namespace=self.present(project.claim), state="joined", project=project)
        is_free = project.is_proven and not self._folders.is_taken(project.claim)
        return self._in_own(project, "free" if is_free else "refused")

    def _unclaimed(self, project: Project) -> Membership:
        """A folder that has a memory keeps it; to another one the nearest folder around that has one may lend it."""
        own = self._in_own(project, "own")
        if own.namespace != project.own:
            return replace(own, state="joined")
        if project.around and not self._projects.is_used(own.namespace):
            for each in project.around:
                around = self._in_own(each, "inside")
                if self._projects.is_used(around.namespace):
                    return replace(around, project=project) if self._lends(each, around.namespace, project) else own
        return own

    def _lends(self, around: Project, namespace: str, inside: Project) -> bool:
        """Return True where a folder that has a memory is one project with the folder inside it, and holds no others.

        It was worked in, and is near. Once lent, its memory stays so, whatever projects are made beside.
        """
        noted = self._projects.folders()
        here = {(each.folder, each.mark) for each in noted if each.namespace == namespace}
        if (inside.root, "") in here:
            return True
        top = PurePath(around.root)
        others = {
            each.namespace
            for each in noted
            if each.mark and each.namespace != namespace and top in PurePath(each.folder).parents
        }
        is_near = top in PurePath(inside.root).parents[:LENT_LEVELS]
        return is_near and (around.root, around.mark) in here and not any(map(self._projects.is_used, others))

    def _in_own(self, project: Project, state: State) -> Membership:
        """Return a folder's membership in its own namespace, under the present name of that."""
        former = self._projects.former(project.own)
        if former is None:
            return Membership(namespace=project.own, state=state, project=project)
        if project.mark and former.mark not in ("", project.mark):  # Of another folder that was at this path.
            return Membership(namespace=project.own, state=state, project=project, renamed_at=former.at)
        return Membership(namespace=former.namespace, state=state, project=project)

    def trust(self, project: Project) -> TrustedFolder:
        """Let a folder use the namespace that it claims, because a person says so.

        Raises:
            InvalidRequest: it claims none.
            StoreUnavailable: nothing was written.
        """
        if not project.claim:
            raise InvalidRequest(
                f"{project.folder} belongs to no shared project: its memory is its own, {project.own}. If it was"
                f" renamed or moved, `mcp-memory projects merge OLD {project.own}` brings its memory here;"
                " to use another, set MCP_MEMORY_NAMESPACE."
            )
        trusted = self._trusted(project)
        self._folders.trust(trusted)
        return trusted

    def revoke(self, folder: str) -> Sequence[TrustedFolder]:
        """End a folder's use of claimed namespaces, from the next start of a process on; return what it could use.

        Raises:
            NotFound: it could use none.
            StoreUnavailable: nothing was written.
        """
        if revoked := self._folders.revoke(folder, self._clock()):
            return revoked
        raise NotFound(f"{folder} is not trusted with any project; `mcp-memory trust --list` shows which folders are.")

    def folders(self) -> Sequence[TrustedFolder]:
        """Return all trusted folders, by namespace. Raises StoreUnavailable."""
        return self._folders.folders()

    def _is_trusted(self, project: Project) -> bool:
        return self._folders.is_trusted(project.claim, project.root, project.repository)

    def _take(self, project: Project) -> bool:
        """Take the claimed namespace. Raises StoreBusy: a later call may take it."""
        try:
            return self._folders.take(self._trusted(project, is_first=True)) or self._is_trusted(project)
        except StoreBusy:
            raise
        except StoreUnavailable:  # A full disk, say: what can be read is still read, in the folder's own namespace.
            return False

    def _trusted(self, project: Project, *, is_first: bool = False) -> TrustedFolder:
        return TrustedFolder(
            namespace=project.claim,
            folder=project.root,
            repository=project.repository,
            since=self._clock(),
            is_first=is_first,
        )
