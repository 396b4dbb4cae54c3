"""Takes tokens of an OAuth issuer (`serve --http --oauth`): checks them, and reads from their claims who may do what.

A request with one asks the issuer for its keys at most, or about a token that is no JWT.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from joserfc import jws, jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings

from mcp_memory.domain.model.scopes import RIGHTS, Grant, Right
from mcp_memory.entrypoints.http.exchange import Refused
from mcp_memory.entrypoints.http.issuer_requests import Introspection, IssuerKeys, IssuerUnreachable
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.access import Token
from mcp_memory.services.access.access_tokens import ID_DIGITS, agent_of_issuer

if TYPE_CHECKING:
    from starlette.routing import Route

    from mcp_memory.settings import Settings

logger = logging.getLogger(__name__)

LEEWAY_SECONDS: Final = 30
"""By so much the issuer's clock and ours may differ."""
MAX_PERSON: Final = 150
MAX_NAMESPACE: Final = 200
_TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/jwt", "application/at+jwt"})
"""Kinds of JWT that may be access tokens (RFC 9068); others are, say, for a logout."""
_MAX_HEADER_BYTES: Final = 8192
_GRANT = re.compile(r"/?mem:(?P<namespace>.+):(?P<right>[a-z]+)")
"""`mem:github.com/acme/shop:write`; Keycloak writes a slash before a group."""
_ASK: Final = "ask who runs the server"
_UNKNOWN: Final = "This token is none of the server's issuer, was changed or was revoked; sign in again."
_EXPIRED: Final = "This token has expired; sign in again."
_NOT_OURS: Final = (
    "This token is not for this server, not from its issuer, or not valid yet; sign in again, for the resource {0}."
)
_AWAY: Final = "The issuer of tokens cannot be reached at present; call again in a few seconds."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames:
    """The claims that name the person and the client, and list what is granted; "" for the usual ones of a client."""

    person: str = "sub"
    agent: str = ""
    grants: str = "groups"


class Issuer:
    """An OAuth issuer whose tokens this server takes, where they name its `audience`. Thread-safe."""

    def __init__(
        self,
        audience: str,
        names: ClaimNames,
        algorithms: tuple[str, ...],
        keys: IssuerKeys,
        introspection: Introspection | None,
        issuer: str,
    ) -> None:
        self._audience = audience
        self._names = names
        self._algorithms = algorithms
        # RFC 7515, section 4: a header may say what nobody here knows, unless it is in `crit`.
        self._signatures = JWSRegistry(algorithms=algorithms, strict_check_header=False)
        self._signatures.max_header_length = _MAX_HEADER_BYTES
        self._keys = keys
        self._introspection = introspection
        self._issuer = issuer
        host = urlsplit(audience).hostname or ""
        self.host = f"[{host}]" if ":" in host else host
        # It keeps the addresses as they are written, where a URL of pydantic's would end in a slash.
        auth = AuthSettings.model_validate(
            {"issuer_url": issuer, "resource_server_url": audience, "validate_token_resource": True}
        )
        self._addresses = auth.resource_server_url or auth.issuer_url, auth.issuer_url
        self._metadata_url = build_resource_metadata_url(self._addresses[0])

    def routes(self) -> list[Route]:
        """Return the route of the metadata."""
        resource, issuer = self._addresses
        return create_protected_resource_routes(resource, [issuer])

    @property
    def metadata_path(self) -> str:
        """The path of the metadata by which clients find the issuer (RFC 9728)."""
        return urlsplit(str(self._metadata_url)).path

    def challenge(self, error: str = "") -> str:
        """Return the header that tells a client where to find the issuer, and what is wrong with its token."""
        what = f'error="{error}", ' if error else ""
        return f'Bearer {what}resource_metadata="{self._metadata_url}"'

    def warm(self) -> None:
        """Fetch the keys before they are needed."""
        self._keys.refresh()

    def recognise(self, secret: str) -> tuple[Token, Mapping[str, Right]]:
        """Return the token with this secret as one of the memory's, and its right in each namespace.

        The token's namespaces are in the order of the alphabet. The same person with the same client has the same id.

        Raises Refused: 401 where the token is not valid here, 403 where it grants nothing, 503 where that cannot be
        told because the issuer cannot be reached.
        """
        try:
            header = self._header(secret)
            claims = self._introspected(secret) if header is None else self._signed(secret, header)
        except ExpiredTokenError as error:
            raise self._refusal(_EXPIRED) from error
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            logger.info("Refused a token of the issuer: %s", type(error).__name__)
            raise self._refusal(_NOT_OURS.format(self._audience)) from error
        except IssuerUnreachable as error:
            logger.warning("A token cannot be checked: %.300a", str(error))
            raise Refused(503, _AWAY) from error
        return _token_from(claims, self._issuer, self._names)

    def _refusal(self, why: str) -> Refused:
        return Refused(401, why, challenge=self.challenge("invalid_token"))

    def _header(self, secret: str) -> Mapping[str, Any] | None:
        """Return the header of a JWT, which nobody has checked; None for a token of another form."""
        try:
            return jws.extract_compact(secret.encode("ascii"), registry=self._signatures).headers()
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def _signed(self, secret: str, header: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the claims of a JWT. Raises JoseError and the like, Refused, or IssuerUnreachable."""
        kind = header.get("typ", "")
        if header.get("alg") not in self._algorithms or not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise self._refusal(_UNKNOWN)
        key = self._keys.find(str(header.get("kid", "")))
        if key is None:
            raise self._refusal(_UNKNOWN)
        claims = jwt.decode(secret, key, algorithms=self._algorithms, registry=self._signatures).claims
        self._check(claims, is_signed=True)
        return claims

    def _introspected(self, secret: str) -> Mapping[str, Any]:
        """Return the claims of a token that is no JWT. Raises as `_signed` does."""
        claims = self._introspection.claims(secret) if self._introspection else None
        if claims is None:
            raise self._refusal(_UNKNOWN)
        self._check(dict(claims), is_signed=False)
        return claims

    def _check(self, claims: dict[str, Any], *, is_signed: bool) -> None:
        """Raise a JoseError for claims that are not of now, of this issuer and for this server.

        An issuer that is asked about a token need not name itself, nor an end.
        """
        ours = [self._audience.removesuffix("/"), f"{self._audience.removesuffix('/')}/"]
        JWTClaimsRegistry(
            leeway=LEEWAY_SECONDS,
            iss={"essential": is_signed, "value": self._issuer},
            exp={"essential": is_signed},
            aud={"essential": True, "values": ours},
        ).validate(claims)


def issuer_for(settings: Settings) -> Issuer:
    """Return the issuer that the settings name, asked nothing yet. Raises InvalidRequest where a setting is missing."""
    if not settings.oauth_issuer or not settings.oauth_audience:
        missing = "AUDIENCE" if settings.oauth_issuer else "ISSUER"
        raise InvalidRequest(
            f"--oauth needs the issuer of tokens and this server's address; set MCP_MEMORY_OAUTH_{missing}."
        )
    client, secret = settings.oauth_introspection_client or "", settings.oauth_introspection_secret
    if (secret and not client) or (client and not settings.oauth_introspection_url):
        missing = "URL" if client else "CLIENT"
        raise InvalidRequest(f"A client of introspection is incomplete; set MCP_MEMORY_OAUTH_INTROSPECTION_{missing}.")
    introspection = None
    if settings.oauth_introspection_url:
        known = secret.get_secret_value() if secret else ""
        introspection = Introspection(settings.oauth_introspection_url, client, known)
    return Issuer(
        audience=settings.oauth_audience,
        names=ClaimNames(
            person=settings.oauth_person_claim,
            agent=settings.oauth_agent_claim or "",
            grants=settings.oauth_grants_claim,
        ),
        algorithms=tuple(settings.oauth_algorithms),
        keys=IssuerKeys(settings.oauth_issuer),
        introspection=introspection,
        issuer=settings.oauth_issuer,
    )


def _token_from(claims: Mapping[str, Any], issuer: str, names: ClaimNames) -> tuple[Token, Mapping[str, Right]]:
    """Return the token that claims amount to, and its rights. Raises Refused with 403 where they grant nothing."""
    person = _name(claims, (names.person,), "person")
    client = _name(claims, (names.agent,) if names.agent else ("azp", "client_id"), "client")
    if len(person) > MAX_PERSON or "/" in person or not person.isprintable():
        raise Refused(
            403,
            f"The claim {names.person!r} must be 1 to {MAX_PERSON} printable characters without a slash; {_ASK} to set"
            " MCP_MEMORY_OAUTH_PERSON_CLAIM to another.",
        )
    rights = rights_in(_claim(claims, names.grants))
    if not rights:
        raise Refused(
            403,
            f"This token grants nothing here: its claim {names.grants!r} lists no `mem:<namespace>:<right>`; {_ASK} for"
            " a right.",
        )
    agent, namespaces = agent_of_issuer(client, person), tuple(sorted(rights))
    digest = hashlib.sha256(json.dumps([issuer, person, client]).encode()).hexdigest()
    grant = Grant(agent=agent, person=person, namespaces=namespaces, right=rights[namespaces[0]])
    return Token(id=digest[:ID_DIGITS], digest=digest, name=agent, grant=grant, created_at=0.0), rights


def _name(claims: Mapping[str, Any], names: tuple[str, ...], what: str) -> str:
    """Return the first of these claims that is a text. Raises Refused."""
    for value in (_claim(claims, name) for name in names):
        if isinstance(value, str) and value.strip():
            return value
    raise Refused(403, f"This token names no {what}: it lacks the claim {' or '.join(map(repr, names))}; {_ASK}.")


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by the way to it (`realm_access.roles`); None where there is none."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = cast("dict[str, Any]", value).get(part) if isinstance(value, Mapping) else None
    return value


def rights_in(listed: object) -> Mapping[str, Right]:
    """Return the highest right in each namespace from a list, or a text of words, of `mem:<namespace>:<right>`.

    What is of another form grants nothing.
    """
    words: list[Any] = listed.split() if isinstance(listed, str) else []
    words = cast("list[Any]", listed) if isinstance(listed, list) else words
    rights: dict[str, Right] = {}
    for match in (_GRANT.fullmatch(word) for word in words if isinstance(word, str)):
        if not match or match["right"] not in RIGHTS:
            continue
        namespace, right = match["namespace"], match["right"]
        if len(namespace) > MAX_NAMESPACE or not namespace.strip() or not namespace.isprintable():
            continue
        held = rights.get(namespace, right)
        rights[namespace] = right if RIGHTS.index(right) > RIGHTS.index(held) else held
    return rights
