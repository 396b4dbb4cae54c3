"""Decides who comes in, by the headers of a request alone: the host it names, its token, the namespace it wants."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mcp.server.transport_security import TransportSecuritySettings

from mcp_memory.entrypoints.http.exchange import Refused
from mcp_memory.entrypoints.server.identity import Visitor
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.ports.access import Token
    from mcp_memory.services.memory.access_tokens import Tokens

NAMESPACE_HEADER: Final = "mcp-memory-namespace"
SESSION_HEADER: Final = "mcp-session-id"
LABEL_DIGITS: Final = 12
MAX_NAMESPACE: Final = 200
SAID_ONCE: Final = ("authorization", NAMESPACE_HEADER, SESSION_HEADER)
"""Headers that say who comes, and where to: of two, a proxy might believe one and we the other."""
_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
_SCHEME: Final = "bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Who is let in, with the token they came with; None where none is asked for."""

    visitor: Visitor
    token: Token | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Lets in who has a valid token. Thread-safe.

    `is_loopback` says that only this machine reaches the server: then nobody needs a token while there never was one,
    nor where `anonymous` says so.
    """

    tokens: Tokens
    is_loopback: bool
    anonymous: bool

    def admit(self, headers: Mapping[str, str]) -> Admitted:
        """Who sent a request with these headers, whose names are lower case.

        Raises:
            Refused: they may not come in; says why.
            StoreUnavailable: tokens cannot be read.
        """
        wanted = unquote(headers.get(NAMESPACE_HEADER, ""))
        secret = _secret(headers)
        if not secret:
            self._check_open(headers)
            if len(wanted) > MAX_NAMESPACE or not wanted.isprintable():
                raise Refused(400, f"{NAMESPACE_HEADER} must be 1 to {MAX_NAMESPACE} printable characters.")
            return Admitted(visitor=Visitor(grant=None, namespace=wanted, session=_label(headers, None)), token=None)
        token = self.tokens.recognise(secret)
        if token is None:
            raise Refused(401, "This token is not known here, was revoked or has expired; ask who runs the server.")
        try:
            namespace = token.grant.namespace(wanted)
        except InvalidRequest as error:
            raise Refused(403, str(error)) from error
        visitor = Visitor(grant=token.grant, namespace=namespace, session=_label(headers, token))
        return Admitted(visitor=visitor, token=token)

    def _check_open(self, headers: Mapping[str, str]) -> None:
        """Raise Refused where a token is asked for. What a proxy passes on does not come from this machine."""
        is_near = self.is_loopback and not any(name in headers for name in _FORWARDED)
        if not is_near or (not self.anonymous and self.tokens.are_asked_for()):
            raise Refused(401, "Send a token as `Authorization: Bearer …`; `mcp-memory tokens add` makes one.")


def transport_security(host: str, allowed: Sequence[str]) -> TransportSecuritySettings:
    """Answer to the machine's own names, the address listened at, and the allowed names, with any port.

    A page in a browser reaches the server only from an origin of one of these names, which browsers write in lower
    case.
    """
    bracketed = f"[{host}]" if ":" in host else host
    given = (bracketed, *allowed)
    names = dict.fromkeys(("127.0.0.1", "localhost", "[::1]", *given, *(each.lower() for each in given)))
    hosts = [each for name in names for each in (name, f"{name}:*")]
    origins = [f"{scheme}://{each}" for scheme in ("http", "https") for each in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def _secret(headers: Mapping[str, str]) -> str:
    """The token's secret; "" where none is presented. Any other scheme presents a token that nobody has."""
    given = headers.get("authorization", "").strip()
    return given[len(_SCHEME) :].strip() or given if given.lower().startswith(_SCHEME) else given


def _label(headers: Mapping[str, str], token: Token | None) -> str:
    """What tells sessions apart in records: one per session of the protocol, or per token; not the session's own id."""
    session = headers.get(SESSION_HEADER)
    if session:
        return f"h{hashlib.sha256(session.encode()).hexdigest()[:LABEL_DIGITS]}"
    return f"t{token.id[:LABEL_DIGITS]}" if token else ""
