"""Trust: decides each folder's namespace. The first folder to claim one gets it; others join by a person's command."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.domain.model.projects import Membership, Project, TrustedFolder
from mcp_memory.errors import InvalidRequest, NotFound, StoreBusy, StoreUnavailable
from mcp_memory.ports.access import FolderStore
from mcp_memory.ports.text import Clock


class Trust:
    """Decides by stored facts, never by a folder's claim alone. Thread-safe."""

    def __init__(self, folders: FolderStore, clock: Clock) -> None:
        self._folders = folders
        self._clock = clock

    def membership(self, project: Project, *, takes: bool) -> Membership:
        """Return a folder's namespace and the reason. With `takes`, it takes the claimed namespace if that is free.

        A folder whose repository does not name it back takes nothing. Where nothing can be written, nothing is taken.

        Raises StoreUnavailable.
        """
        if not project.claim:
            return Membership(namespace=project.own, state="own", project=project)
        if self._is_trusted(project) or (takes and project.is_proven and self._take(project)):
            return Membership(namespace=project.claim, state="joined", project=project)
        is_free = project.is_proven and not self._folders.is_taken(project.claim)
        return Membership(namespace=project.own, state="free" if is_free else "refused", project=project)

    def trust(self, project: Project) -> TrustedFolder:
        """Let a folder use the namespace that it claims, because a person says so.

        Raises:
            InvalidRequest: it claims none.
            StoreUnavailable: nothing was written.
        """
        if not project.claim:
            raise InvalidRequest(
                f"{project.folder} belongs to no shared project: its memory is its own, {project.own}. To use another,"
                " set MCP_MEMORY_NAMESPACE."
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
        raise NotFound(
            f"{folder} is not trusted with any namespace; `mcp-memory trust --list` shows which folders are."
        )

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
