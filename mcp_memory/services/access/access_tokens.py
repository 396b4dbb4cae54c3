"""Tokens: creates, lists, revokes and recognises them by their secret. Knows no protocol that carries them."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.ports.access import Token, TokenStore
from mcp_memory.ports.text import Clock

PREFIX = "mcpm_"
"""Identifies a token to people, and to scanners for leaked secrets."""
SECRET_BYTES = 32
ID_DIGITS = 16
LATEST_EXPIRY: Instant = 253_402_300_799.0
"""The last second of the year 9999, the last that can be shown."""
OF_ISSUER = "oauth:"
"""Begins the name of an agent that came with a token of an OAuth issuer: `oauth:<client>:<person>`."""
CLIENT_CHARACTERS = 24
_NOT_OF_CLIENT = re.compile(r"[^A-Za-z0-9._-]+")  # e.g. the slashes of https://claude.ai/client
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")  # e.g. a line break in a name


class AccessTokens:
    """Manages the tokens that let clients in over HTTP. Thread-safe; a change by one process applies to all at once."""

    def __init__(self, store: TokenStore, clock: Clock, present: Callable[[str], str]) -> None:
        """`present` returns the name that a namespace has now."""
        self._store = store
        self._clock = clock
        self._present = present

    def add(self, name: str, grant: Grant, expires_at: Instant | None = None) -> tuple[str, Token]:
        """Make a token; return its secret, which is shown only here, and the token.

        Without a person it is the agent's name.

        Raises:
            InvalidRequest: a name is empty, too long or holds what it may not, there is no namespace, or no such time.
            Conflict: the name is taken, the agent works for another person, or a namespace has another name by now.
        """
        now = self._clock()
        grant = replace(grant, person=grant.person or grant.agent, namespaces=tuple(dict.fromkeys(grant.namespaces)))
        _check(name, grant)
        if expires_at is not None and not now < expires_at <= LATEST_EXPIRY:
            raise InvalidRequest("A token expires between now and the year 9999; choose another time, or none.")
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        digest = _digest(secret)
        token = Token(
            id=digest[:ID_DIGITS], digest=digest, name=name, grant=grant, created_at=now, expires_at=expires_at
        )
        self._store.add(token)
        return secret, token

    def recognise(self, secret: str) -> Token | None:
        """Return the valid token with this secret. Every wrong secret takes equally long. Raises StoreUnavailable."""
        digest = _digest(secret)
        token = self._store.get(digest[:ID_DIGITS])
        is_it = hmac.compare_digest(token.digest if token else "", digest)
        return token if token and is_it and token.is_valid(self._clock()) else None

    def namespace(self, token: Token, wanted: str) -> str:
        """Return the namespace that a request of the token's holder means: by any name it had, "" for the default.

        Raises:
            InvalidRequest: the token does not hold it, or holds it under a former name.
            StoreUnavailable: names cannot be read.
        """
        grant = token.grant
        held = grant.namespace(self._present(wanted) if wanted and wanted not in grant.namespaces else wanted)
        if self._present(held) != held:  # Whoever made it may not have meant the project that has the memory now.
            raise InvalidRequest(
                f"{held!r} has another name by now; ask who runs the server for a token that holds it."
            )
        return held

    def valid(self, token_id: str) -> Token | None:
        """Return the token with that id while it is valid: for somebody who was recognised by it before.

        Raises StoreUnavailable.
        """
        token = self._store.get(token_id)
        return token if token and token.is_valid(self._clock()) else None

    def all(self) -> Sequence[Token]:
        """Return every token ever made, revoked and expired ones too, oldest first. Raises StoreUnavailable."""
        return self._store.tokens()

    def revoke(self, name: str) -> None:
        """Revoke a token.

        Raises NotFound for an unknown name, Conflict where every token with that name is revoked already.
        """
        if not self._store.revoke(name, self._clock()):
            if any(token.name == name for token in self.all()):
                raise Conflict(f"Token {name!r} is revoked already; there is nothing left to do.")
            raise NotFound(f"There is no token {name!r}; `mcp-memory tokens list` shows those there are.")

    def are_asked_for(self) -> bool:
        """Return True once any token was made: revoking the last one does not open the memory to everyone."""
        return self._store.has_any()

    def person_of(self, agent: str) -> str:
        """Return the person an agent works for; "" is the owner of the memory. Raises StoreUnavailable."""
        if agent.startswith(OF_ISSUER):
            return agent.split(":", 2)[-1]
        return self._store.person_of(agent)


def agent_of_issuer(client: str, person: str) -> str:
    """Return the name of the agent that is a client of an OAuth issuer at work for a person.

    Private records belong to an agent, and many people use one client: so the person is part of the name. A client's
    name that is long or holds other signs than `A-Za-z0-9._-` is cut, with a digest at its end.
    """
    short = _NOT_OF_CLIENT.sub("-", client.removeprefix("https://"))[:CLIENT_CHARACTERS]
    if short != client:
        short = f"{short}-{_digest(client)[:8]}"
    return f"{OF_ISSUER}{short}:{person}"


def _digest(secret: str) -> str:
    """Hash a secret, unsalted and fast: 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _check(name: str, grant: Grant) -> None:
    if grant.agent.startswith(OF_ISSUER):
        raise InvalidRequest(f"Names that begin with {OF_ISSUER} are those of an issuer's clients; choose another.")
    if not grant.namespaces:
        raise InvalidRequest("Name at least one project; the first is the token's default.")
    for what, value in (("name", name), ("agent", grant.agent), ("person", grant.person)):
        if "/" in value:  # It separates the parts of a scope.
            raise InvalidRequest(f"The {what} must not hold a slash; choose another.")
    for what, value in (
        ("name", name), ("agent", grant.agent), ("person", grant.person),
        *(("namespace", each) for each in grant.namespaces),
    ):  # fmt: skip
        if not value.strip() or len(value) > 200 or _CONTROL_CHARACTER.search(value):
            raise InvalidRequest(f"The {what} must be 1 to 200 characters without control characters.")
