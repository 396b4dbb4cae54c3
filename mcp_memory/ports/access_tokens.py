"""The tokens of those who come over HTTP. Whoever reads them learns no secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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
