"""Who may use a memory: the tokens of those who come over HTTP, and the folders trusted with a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.model.projects import TrustedFolder
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret: `digest` is the secret's SHA-256 in hexadecimal, `id` its beginning.

    A name belongs to one token at a time, and may be given again once that is revoked.
    """

    id: str
    digest: str
    name: str
    grant: Grant
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None

    def is_valid(self, now: Instant) -> bool:
        """True where it was not revoked and has not expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class TokenStore(Protocol):
    """Keeps tokens, for all processes of the memory. Raises StoreUnavailable from any method."""

    def add(self, token: Token) -> None:
        """Keep a new token.

        Raises Conflict where its name is taken, or its agent works for another person by any earlier token.
        """
        ...

    def get(self, token_id: str) -> Token | None:
        """The token of that id, valid or not."""
        ...

    def tokens(self) -> Sequence[Token]:
        """All that were ever made, oldest first."""
        ...

    def has_any(self) -> bool:
        """True once a token was made, also if none is valid any more."""
        ...

    def person_of(self, agent: str) -> str:
        """The person that an agent works for by its tokens; "" where it has none: then the owner of the memory."""
        ...

    def revoke(self, name: str, at: Instant) -> bool:
        """Let the token of that name be valid no more; False where there is none."""
        ...


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
