"""Asks an OAuth issuer, within bounds, for its keys and about tokens that say nothing by themselves (RFC 7662).

Keeps the keys for a day and other answers for a moment.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import quote_plus, urlsplit

import httpx2
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OctKey, OKPKey, RSAKey

from mcp_memory.entrypoints.server.remote_address import connection_options, is_near
from mcp_memory.entrypoints.server.strict_tool import log_defect

logger = logging.getLogger(__name__)

FETCH_SECONDS: Final = 5.0
"""Time that one document may take; the rest of a request waits for it."""
MAX_DOCUMENT_BYTES: Final = 1024 * 1024
PAUSE_SECONDS: Final = 5.0
"""Least time between two fetches of keys: tokens with made-up keys cause no more."""
FRESH_SECONDS: Final = 600.0
"""Age at which keys are fetched again, so that one that the issuer took back ends."""
KEPT_SECONDS: Final = 86_400.0
"""Age up to which keys go on while the issuer cannot be reached."""
KEPT_ANSWER_SECONDS: Final = 5.0
"""Time for which an answer holds; as long a token that was revoked may go on."""
MAX_KEPT_ANSWERS: Final = 1024

PublicKey = RSAKey | ECKey | OKPKey


class IssuerUnreachable(Exception):
    """The issuer gives no usable answer at present; the text is for the log."""


def fetch_document(url: str, form: Mapping[str, str] | None = None, login: tuple[str, str] | None = None) -> Any:
    """Return the JSON at an address; with a `form` it is posted there. Follows no redirect.

    Raises IssuerUnreachable.
    """
    until = time.monotonic() + FETCH_SECONDS
    method, body = ("GET", bytearray()) if form is None else ("POST", bytearray())
    accept = {"accept": "application/json"}
    try:
        with (
            httpx2.Client(timeout=FETCH_SECONDS, follow_redirects=False, **connection_options(url)) as client,
            client.stream(method, url, data=form, auth=login, headers=accept) as response,
        ):
            if response.status_code != 200:
                raise IssuerUnreachable(f"{url} answered with status {response.status_code}")
            for part in response.iter_bytes():
                body += part
                if len(body) > MAX_DOCUMENT_BYTES or time.monotonic() > until:
                    raise IssuerUnreachable(f"{url} sends more than 1 MiB, or takes longer than {FETCH_SECONDS:g} s")
        return json.loads(body)
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
        raise IssuerUnreachable(f"{url} cannot be read: {type(error).__name__}") from error
    except (ValueError, RecursionError) as error:
        raise IssuerUnreachable(f"{url} holds no JSON") from error


class IssuerKeys:
    """The public keys of an issuer, found by its metadata and kept. Thread-safe.

    A key that is known is returned at once, whatever the issuer does. One fetch is under way at a time.
    """

    def __init__(
        self, issuer: str, fetch: Callable[[str], Any] = fetch_document, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._fetching = threading.Lock()
        self._keys: Mapping[str, PublicKey] = {}
        self._fetched_at = self._tried_at = -KEPT_SECONDS
        self._has_failed = True

    def find(self, key_id: str) -> PublicKey | None:
        """Return the key with that id, "" for the only one; None where the issuer has no such key.

        Raises IssuerUnreachable where it cannot be asked.
        """
        age = self._clock() - self._fetched_at
        known = self._known(key_id) if age < KEPT_SECONDS else None
        if known:
            if age >= FRESH_SECONDS and self._may_try():
                threading.Thread(target=self.refresh, name="issuer-keys", daemon=True).start()
            return known
        is_settled = self.refresh()
        found = self._known(key_id) if self._clock() - self._fetched_at < KEPT_SECONDS else None
        if not found and not is_settled:
            raise IssuerUnreachable("the keys cannot be fetched at present")
        return found

    def refresh(self) -> bool:
        """Fetch the keys, unless that was just done; return False where they may not be the present ones."""
        if not self._fetching.acquire(blocking=not self._keys):
            return False
        try:
            if self._may_try():
                self._take()
            return not self._has_failed
        finally:
            self._fetching.release()

    def _known(self, key_id: str) -> PublicKey | None:
        keys = self._keys
        if not key_id:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(key_id)

    def _may_try(self) -> bool:
        return self._clock() - self._tried_at >= PAUSE_SECONDS

    def _take(self) -> None:
        try:
            keys = _keys_in(self._fetch(self._address()))
        except IssuerUnreachable as error:
            logger.warning("The keys of the OAuth issuer were not fetched: %.300a", str(error))
            self._has_failed = True
        except Exception as error:  # noqa: BLE001 - the edge: what a stranger's document does to a library
            log_defect("The keys of the OAuth issuer", error)
            self._has_failed = True
        else:
            self._keys, self._fetched_at, self._has_failed = keys, self._clock(), False
        finally:
            self._tried_at = self._clock()

    def _address(self) -> str:
        """Return the address of the keys, from the issuer's metadata. Raises IssuerUnreachable."""
        from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls

        why = IssuerUnreachable(f"{self._issuer} publishes no metadata")
        for url in build_oauth_authorization_server_metadata_discovery_urls(self._issuer, self._issuer):
            try:
                metadata = self._fetch(url)
            except IssuerUnreachable as error:
                why = error
                continue
            named, address = (_text(metadata, name) for name in ("issuer", "jwks_uri"))
            if named != self._issuer:  # Of a server that several issuers share, each has keys of its own.
                why = IssuerUnreachable(f"{url} is of the issuer {named!r}, and MCP_MEMORY_OAUTH_ISSUER names another")
            elif urlsplit(address).scheme != "https" and not is_near(address):
                why = IssuerUnreachable(f"{url} names keys at {address!r}, which is not https")
            else:
                return address
        raise why


class Introspection:
    """An endpoint of an issuer that says what a token is. Thread-safe."""

    def __init__(
        self, url: str, client: str = "", secret: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`client` and `secret` are this server's own there; without them it asks as nobody."""
        self._url = url
        self._login = (quote_plus(client), quote_plus(secret)) if client else None  # RFC 6749, section 2.3.1
        self._clock = clock
        self._answers: OrderedDict[bytes, tuple[float, Mapping[str, Any] | None]] = OrderedDict()
        self._changing = threading.Lock()

    def claims(self, secret: str) -> Mapping[str, Any] | None:
        """Return what the issuer claims for an active token; None for any other. Raises IssuerUnreachable."""
        digest = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
        with self._changing:
            until, kept = self._answers.get(digest, (0.0, None))
            if self._clock() < until:
                return kept
        said = self._asked(secret)
        with self._changing:
            self._answers[digest] = (self._clock() + KEPT_ANSWER_SECONDS, said)
            self._answers.move_to_end(digest)
            while len(self._answers) > MAX_KEPT_ANSWERS:
                self._answers.popitem(last=False)
        return said

    def _asked(self, secret: str) -> Mapping[str, Any] | None:
        answer = fetch_document(self._url, {"token": secret, "token_type_hint": "access_token"}, self._login)
        if not isinstance(answer, dict):
            raise IssuerUnreachable(f"{self._url} answers with no JSON object")
        said = cast("dict[str, Any]", answer)
        return said if said.get("active") is True else None


def _text(document: Any, name: str) -> str:
    value = cast("dict[str, Any]", document).get(name) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""


def _keys_in(document: Any) -> Mapping[str, PublicKey]:
    """Return the keys for signatures by their ids. Raises IssuerUnreachable where there is none."""
    listed = cast("dict[str, Any]", document).get("keys") if isinstance(document, dict) else None
    keys: dict[str, PublicKey] = {}
    for number, each in enumerate(cast("list[Any]", listed) if isinstance(listed, list) else []):
        if _text(each, "use") == "enc":
            continue
        try:
            key = JWKRegistry.import_key(each)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue  # RFC 7517, section 5: keys of an unknown kind are left out.
        if not isinstance(key, OctKey):
            keys.setdefault(_text(each, "kid") or f"#{number}", key)
    if not keys:
        raise IssuerUnreachable("the issuer publishes no key for signatures")
    return keys
