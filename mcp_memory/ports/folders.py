"""The folders of this computer that may use a namespace, where nobody names one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mcp_memory.domain.model.projects import TrustedFolder
from mcp_memory.domain.model.records import Instant


class FolderStore(Protocol):
    """Keeps who was trusted, for all processes of the memory. Raises StoreUnavailable from any method."""

    def folders(self) -> Sequence[TrustedFolder]:
        """All that are trusted, by namespace, the one that was trusted first before the others."""
        ...

    def is_trusted(self, namespace: str, folder: str, repository: str) -> bool:
        """True where this folder with this repository may use the namespace."""
        ...

    def is_taken(self, namespace: str) -> bool:
        """True where a folder has or had the namespace, something is stored in it, or a token names it."""
        ...

    def take(self, folder: TrustedFolder) -> bool:
        """Trust a folder with a namespace that is not taken; False, and nothing changed, where it is.

        Of several processes that take a namespace at the same moment one succeeds.
        """
        ...

    def trust(self, folder: TrustedFolder) -> None:
        """Trust a folder, whoever else has the namespace. One that is trusted already stays as it was."""
        ...

    def revoke(self, folder: str, at: Instant) -> Sequence[TrustedFolder]:
        """Trust a folder no more, with any namespace or repository; what it was trusted with. Namespaces stay taken."""
        ...
