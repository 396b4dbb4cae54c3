"""Files by the digest of their bytes."""

from collections.abc import Collection
from typing import Protocol


class FileStore(Protocol):
    """Keeps files for all processes of the memory. Change it inside a write of the truth alone.

    A write that drops files has the memory for itself (docs/decisions/0113).
    """

    def keep(self, digest: str, content: bytes) -> None:
        """Store the bytes, unless they are there. Raises StoreUnavailable, and leaves nothing behind."""
        ...

    def read(self, digest: str) -> bytes | None:
        """Return the bytes; None where they are not there, or no longer what the digest says."""
        ...

    def digests(self) -> Collection[str]:
        """Return the name of everything that is there, unfinished files included."""
        ...

    def drop(self, digests: Collection[str]) -> None:
        """Delete these files. Raises StoreUnavailable."""
        ...
