"""Asks an OAuth issuer about tokens that say nothing by themselves (RFC 7662), and keeps its answers for a moment."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import quote_plus

from mcp_memory.entrypoints.http.issuer_keys import IssuerUnreachable, fetch_document

KEPT_ANSWER_SECONDS: Final = 5.0
"""Time for which an answer holds; as long a token that was revoked may go on."""
MAX_KEPT_ANSWERS: Final = 1024


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
        """Return what the issuer says of an active token, None of any other. Raises IssuerUnreachable."""
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
