"""Access to a memory: tokens of HTTP clients, folders trusted with a namespace, quotas, locks of live windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.model.projects import FormerName, MovedProject, ProjectFolder, TrustedFolder
from mcp_memory.domain.model.quotas import Quota
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret: `digest` is the secret's SHA-256 in hexadecimal, `id` its beginning.

    A name belongs to one token at a time. You may reuse it once that token is revoked.
    """

    id: str
    digest: str
    name: str
    grant: Grant
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None

    def is_valid(self, now: Instant) -> bool:
        """Return True unless the token was revoked or has expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class TokenStore(Protocol):
    """Keeps tokens for all processes of the memory. Any method raises StoreUnavailable."""

    def add(self, token: Token) -> None:
        """Keep a new token.

        Raises Conflict where its name is taken, an earlier token has its agent work for another person, or a namespace
        has another name by now.
        """
        ...

    def get(self, token_id: str) -> Token | None:
        """Return the token with that id, valid or not."""
        ...

    def tokens(self) -> Sequence[Token]:
        """Return every token ever made, oldest first."""
        ...

    def has_any(self) -> bool:
        """Return True once a token was made, even if none is valid any more."""
        ...

    def person_of(self, agent: str) -> str:
        """Return the person that an agent works for by its tokens; "" means the owner of the memory."""
        ...

    def revoke(self, name: str, at: Instant) -> bool:
        """Revoke the token with that name; return False where there is none."""
        ...


class FolderStore(Protocol):
    """Keeps trusted folders for all processes of the memory. Any method raises StoreUnavailable."""

    def folders(self) -> Sequence[TrustedFolder]:
        """Return all trusted folders, sorted by namespace, then by the time of trust, earliest first."""
        ...

    def is_trusted(self, namespace: str, folder: str, repository: str) -> bool:
        """Return True where this folder with this repository may use the namespace."""
        ...

    def is_taken(self, namespace: str) -> bool:
        """Return True where a folder has or had the namespace, it holds or held anything, or a token names it."""
        ...

    def take(self, folder: TrustedFolder) -> bool:
        """Trust a folder with a namespace that is not taken; where it is, return False and change nothing.

        If several processes take a namespace at once, one succeeds.
        """
        ...

    def trust(self, folder: TrustedFolder) -> None:
        """Trust a folder, even where other folders use the namespace.

        A folder that is trusted already stays unchanged.
        """
        ...

    def revoke(self, folder: str, at: Instant) -> Sequence[TrustedFolder]:
        """Stop trusting a folder for any namespace or repository; return what that ended. Namespaces stay taken."""
        ...


class ProjectStore(Protocol):
    """Keeps where projects are, and what they were called. Any method raises StoreUnavailable."""

    def folders(self) -> Sequence[ProjectFolder]:
        """Return the folders in which namespaces were used, with those inside them, the one noted last first."""
        ...

    def note(self, folder: ProjectFolder) -> None:
        """Note that a namespace is used in a folder; write only where that or the mark is new."""
        ...

    def is_used(self, namespace: str) -> bool:
        """Return True where anybody stored something in the namespace, or plans in it, however much that is."""
        ...

    def live_records(self) -> Mapping[str, int]:
        """Count the live records of each namespace that has some, in order of the names.

        Live is what is neither retired nor proven wrong, and more than noted by one session.
        """
        ...

    def last_changes(self) -> Mapping[str, Instant]:
        """Return when a record of each namespace that has any was changed last, of all its agents."""
        ...

    def private_of_others(self, namespace: str, own: str) -> int:
        """Count the live private records of a namespace beyond those in the scope `own`."""
        ...

    def former(self, name: str) -> FormerName | None:
        """Return the present namespace of one that was renamed or merged; None where it was not."""
        ...

    def move(self, old: str, new: str, at: Instant, mark: str, *, merges: bool) -> MovedProject:
        """Give all that is of one namespace another, in one write, and note the former name; see `FormerName`.

        Ids, authors, visibility and dates stay; so does what is a person's own. Of an agent's places in both, the one
        in the other namespace stays.

        Raises:
            NotFound: the old one holds nothing.
            Conflict: the new one holds something, and the move does not merge.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Counts what a partition holds: its records, and the bytes of their texts in UTF-8."""

    records: int = 0
    bytes: int = 0


class QuotaStore(Protocol):
    """Keeps quotas for all processes of the memory. Any method raises StoreUnavailable."""

    def quotas(self) -> Sequence[Quota]:
        """Return every quota by its partition's name."""
        ...

    def put(self, quota: Quota) -> None:
        """Set the quota of a partition; one without limits is dropped."""
        ...

    def used(self, partition: str) -> Usage:
        """Return what the partition holds now."""
        ...


class ProcessLocks(Protocol):
    """Locks shared by all processes over one memory; each ends with its process, however that ends. Thread-safe."""

    def choice(self) -> AbstractContextManager[None]:
        """Keep every other process out while one chooses. Raises StoreUnavailable where locks do not work here."""
        ...

    def take(self, *name: str, patience: float = 0.0) -> Callable[[], None] | None:
        """Take the lock of that name; return what releases it, or None where anybody holds it, this process included.

        It waits for at most `patience` seconds.

        Raises:
            StoreUnavailable: locks do not work here.
        """
        ...
