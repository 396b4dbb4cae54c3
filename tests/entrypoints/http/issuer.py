"""An OAuth issuer on loopback: metadata, keys that rotate, introspection, and a sign-in that asks nobody."""

import base64
import json
import secrets
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.registry import Header

SigningKey = RSAKey | ECKey | OKPKey
CLIENT, SECRET = "memory server", "s3cret:/ of it"
"""Of the memory's server at the endpoint of introspection; they hold what must be encoded."""


def rsa(key_id: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": key_id, "use": "sig"})


class _AnyHeader(JWSRegistry):
    """Signs what no good issuer would."""

    def check_header(self, header: Header) -> None:
        """Find nothing wrong."""


class LoopbackIssuer:
    """What the issuer publishes, and what it was asked."""

    def __init__(self, url: str, audience: str) -> None:
        self.url = url
        self.audience = audience
        self.key: SigningKey = rsa("first")
        self.published: list[Mapping[str, Any]] = [{"kty": "made-up", "kid": "of another time"}]
        self.publish(self.key)
        self.asked: list[str] = []
        self.is_down = False
        self.active: dict[str, Mapping[str, Any]] = {}
        self.codes: dict[str, str] = {}

    def publish(self, *keys: SigningKey) -> None:
        self.published = [*self.published[:1], *(dict(key.as_dict(private=False)) for key in keys)]

    def claims(self, **changed: Any) -> dict[str, Any]:
        """The claims of a good token; None takes one away."""
        now = int(time.time())
        usual = {
            "iss": self.url,
            "aud": [self.audience, "account"],
            "exp": now + 300,
            "nbf": now - 5,
            "iat": now - 5,
            "sub": "ann",
            "azp": "editor",
            "groups": ["staff", "mem:shop:write"],
        }
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def token(self, key: SigningKey | None = None, header: Mapping[str, Any] | None = None, **changed: Any) -> str:
        key = key or self.key
        algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "Ed25519"}[key.key_type]
        said = {"alg": algorithm, "kid": key.kid, **(header or {})}
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, self.claims(**changed), key, registry=_AnyHeader(algorithms=[said["alg"]]))

    def opaque(self, **changed: Any) -> str:
        """A token that only introspection explains."""
        token = secrets.token_urlsafe(20)
        self.active[token] = self.claims(**changed)
        return token

    def get(self, path: str) -> tuple[int, Mapping[str, Any]]:
        if path in ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"):
            names = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
            ends = {name: f"{self.url}/{name}" for name in names}
            known = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **ends}
            return 200, known | {"code_challenge_methods_supported": ["S256"]}
        return (200, {"keys": self.published}) if path == "/keys" else (404, {})

    def post(self, path: str, login: str, body: bytes) -> tuple[int, Mapping[str, Any]]:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if path == "/introspect":
            wanted = base64.b64encode(b"memory+server:s3cret%3A%2F+of+it").decode()
            if login != f"Basic {wanted}":
                return 401, {}
            said = self.active.get(form["token"])
            return 200, {"active": True, **said} if said else {"active": False}
        if path == "/registration_endpoint":
            return 201, {**json.loads(body), "client_id": "desktop"}
        if path == "/token_endpoint":
            resource = self.codes.pop(form["code"])
            assert form["resource"] == resource
            granted = self.token(aud=resource, azp=form["client_id"])
            return 200, {"access_token": granted, "token_type": "Bearer", "expires_in": 300}
        return 404, {}

    def sign_in(self, address: str) -> str:
        """Where the browser goes once a person agreed."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked["resource"]
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    issuer: LoopbackIssuer


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(*self._issuer().get(self.path))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(*self._issuer().post(self.path, self.headers.get("Authorization", ""), body))

    def _issuer(self) -> LoopbackIssuer:
        assert isinstance(self.server, _Server)
        self.server.issuer.asked.append(self.path)
        return self.server.issuer

    def _answer(self, status: int, said: Mapping[str, Any]) -> None:
        status = 503 if self._is_down() else status
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _is_down(self) -> bool:
        assert isinstance(self.server, _Server)
        return self.server.issuer.is_down

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@contextmanager
def issuing(audience: str) -> Generator[LoopbackIssuer]:
    """An issuer that answers for as long as the block lasts."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.issuer = LoopbackIssuer(f"http://127.0.0.1:{server.server_port}", audience)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.issuer
        finally:
            server.shutdown()
            thread.join()
