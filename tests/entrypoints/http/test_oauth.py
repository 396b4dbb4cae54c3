"""`serve --http --oauth`: tokens of an issuer beside the memory's own. M2."""

import base64
import gc
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from mcp_memory.entrypoints.http.issuer_requests import PAUSE_SECONDS
from tests.chroma import free_port
from tests.entrypoints.http.conftest import (
    ERAS,
    PATIENCE_SECONDS,
    HttpServer,
    command_line,
    connected,
    found,
    headers_of,
    make_token,
    open_session,
    post,
    revoke_token,
    text_of,
    web,
)
from tests.entrypoints.http.issuer import CLIENT, SECRET, LoopbackIssuer, issuing, rsa

RECALL = {"name": "recall", "arguments": {"query": "anything"}}


@dataclass(frozen=True)
class House:
    """A server, its issuer, and a secret of its own."""

    server: HttpServer
    issuer: LoopbackIssuer
    own: str

    @property
    def url(self) -> str:
        return self.server.url


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> Iterator[House]:
    data_dir, port = tmp_path_factory.mktemp("house") / "data", free_port()
    own = make_token(data_dir, "bob")
    audience = f"http://127.0.0.1:{port}/mcp"
    with issuing(audience) as issuer:
        settings = {
            "oauth_issuer": issuer.url,
            "oauth_audience": audience,
            "oauth_introspection_url": f"{issuer.url}/introspect",
            "oauth_introspection_client": CLIENT,
            "oauth_introspection_secret": SECRET,
        }
        yield House(start_http(data_dir, "--port", str(port), "--oauth", **settings), issuer, own)
    gc.collect()


def answer_to(house: House, token: str, namespace: str = "") -> httpx2.Response:
    return post(house.url, "tools/call", RECALL, headers_of(token, namespace))


def is_let_in(house: House, token: str) -> bool:
    """Whoever is let in lacks a session: the protocol's library says so."""
    status = answer_to(house, token).status_code
    assert status in (400, 401)
    return status == 400


def forged(header: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes | None = None) -> str:
    """A JWT written by hand; without a secret its signature is empty."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    signed = hmac.new(secret, b".".join(parts), hashlib.sha256).digest() if secret is not None else b""
    return b".".join([*parts, base64.urlsafe_b64encode(signed).rstrip(b"=")]).decode()


@pytest.mark.parametrize("era", ERAS)
async def test_people_of_the_issuer_are_served_beside_our_own(house: House, era: str) -> None:
    """M2: one client at work for two people is two agents."""
    ann, cid = house.issuer.token(), house.issuer.token(sub="cid")
    async with (
        connected(house.url, ann, era) as by_ann,
        connected(house.url, cid, era) as by_cid,
        connected(house.url, house.own, era) as by_bob,
    ):
        for name, client in (("ann", by_ann), ("cid", by_cid), ("bob", by_bob)):
            for visibility in ("private", "user", "shared"):
                text = f"{era} owl {name} {visibility}"
                await client.call_tool("remember", {"text": text, "visibility": visibility})
        shared = [f"{era} owl {name} shared" for name in ("ann", "bob", "cid")]
        for name, client in (("ann", by_ann), ("cid", by_cid), ("bob", by_bob)):
            assert await found(client, f"{era} owl") == sorted(
                [f"{era} owl {name} private", f"{era} owl {name} user", *shared]
            )


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": None},
        {"aud": ""},
        {"aud": []},
        {"aud": "account"},
        {"aud": ["https://other.example.com/mcp"]},
        {"aud": {"url": "x"}},
        {"exp": None},
        {"exp": 1_000_000_000},
        {"exp": "tomorrow"},
        {"exp": float("nan")},
        {"nbf": 4_000_000_000},
        {"nbf": "now"},
        {"iat": 4_000_000_000},
        {"iss": None},
        {"iss": "https://other.example.com"},
        {"iss": ["https://other.example.com"]},
    ],
    ids=str,
)
def test_a_token_that_is_not_for_here_and_now_is_refused(house: House, changed: dict[str, Any]) -> None:
    """M2: an issuer that leaves the audience out makes tokens for anybody."""
    answer = answer_to(house, house.issuer.token(**changed))
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert is_let_in(house, house.issuer.token())
    assert is_let_in(house, house.issuer.token(aud=f"{house.issuer.audience}/", nbf=None, iat=None))


def test_what_is_not_signed_by_the_issuer_is_refused(house: House) -> None:
    """M2: the algorithm comes from our list, not from the token."""
    issuer = house.issuer
    claims, other = issuer.claims(), rsa("first")
    public = issuer.key.as_pem(private=False)
    good = issuer.token()
    head, body, signature = good.split(".")
    more = base64.urlsafe_b64encode(json.dumps(issuer.claims(sub="chief")).encode()).decode().rstrip("=")
    for token in (
        forged({"alg": "none", "kid": "first"}, claims),
        forged({"alg": "None"}, claims),
        forged({"alg": "HS256", "kid": "first"}, claims, public),
        forged({"alg": "HS256", "kid": "first"}, claims, public.rstrip()),
        forged({"alg": "RS256", "kid": "first"}, claims, public),
        forged({"alg": ["RS256"], "kid": "first"}, claims, b""),
        issuer.token(other),
        issuer.token(other, {"kid": "nobody's"}),
        issuer.token(other, {"kid": None}),
        issuer.token(other, {"kid": "first", "jwk": dict(other.as_dict(private=False))}),
        issuer.token(ECKey.generate_key("P-256", {"kid": "first"})),
        issuer.token(header={"alg": "PS384"}),  # of a key of the issuer's, and not on the list
        issuer.token(header={"typ": "logout+jwt"}),
        issuer.token(header={"crit": ["exp"], "exp": 1}),
        f"{head}.{more}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}.{body}.{signature}.{signature}.{signature}",
        "..",
        "opaque",
    ):
        answer = answer_to(house, token)
        assert answer.status_code == 401, token
        assert "sign in again" in answer.json()["error"]["message"]
    assert is_let_in(house, issuer.token(header={"typ": "at+jwt", "x5t": "of a certificate", "of nobody": 1}))


def test_a_client_without_a_token_is_told_where_the_issuer_is(house: House) -> None:
    """RFC 9728, sections 3 and 5.1. Of OAuth's other pages there is none."""
    base = house.url.removesuffix("/mcp")
    where = f"{base}/.well-known/oauth-protected-resource/mcp"
    for path in ("/mcp", "/metrics", "/mcp/hook"):
        answer = web.get(f"{base}{path}")
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, f'Bearer resource_metadata="{where}"')
    told = web.get(where)
    assert told.status_code == 200
    assert told.headers["content-type"] == "application/json"
    assert told.json() == {
        "resource": house.url,
        "authorization_servers": [house.issuer.url],
        "bearer_methods_supported": ["header"],
    }
    for path in ("oauth-protected-resource", "oauth-authorization-server", "oauth-protected-resource/mcp/x"):
        assert web.get(f"{base}/.well-known/{path}").status_code == 404
    expired = answer_to(house, house.own + "x")
    challenge = f'Bearer error="invalid_token", resource_metadata="{where}"'
    assert (expired.status_code, expired.headers["www-authenticate"]) == (401, challenge)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"groups": None}, "lists no `mem:<namespace>:<right>`; ask who runs the server"),
        ({"groups": ""}, "This token grants nothing here"),
        (
            {"groups": ["staff", "mem:shop", "mem:shop:own", "MEM:shop:read", "mem::read", 5, None]},
            "grants nothing here",
        ),
        ({"groups": {"mem:shop:write": True}}, "grants nothing here"),
        ({"sub": None}, "This token names no person: it lacks the claim 'sub'"),
        ({"sub": "  "}, "This token names no person"),
        ({"sub": 7}, "401"),
        ({"sub": "a/b"}, "without a slash"),
        ({"sub": "a\nb"}, "printable characters"),
        ({"sub": "a" * 151}, "1 to 150"),
        ({"azp": None}, "This token names no client: it lacks the claim 'azp' or 'client_id'"),
    ],
    ids=str,
)
def test_a_token_that_grants_nothing_says_what_it_lacks(house: House, changed: dict[str, Any], said: str) -> None:
    """M2."""
    answer = answer_to(house, house.issuer.token(**changed))
    assert answer.status_code == (401 if said == "401" else 403)
    assert said == "401" or said in answer.json()["error"]["message"]


async def test_each_namespace_has_its_own_right(house: House) -> None:
    """M2: the default is the first by name, and of several rights the highest counts."""
    groups = ["mem:zoo:admin", "/mem:base:read", "mem:zoo:read", "mem:github.com/acme/a:b:write"]
    token = house.issuer.token(groups=groups, azp=None, client_id="https://claude.ai/oauth/client-metadata")
    async with connected(house.url, token) as client:
        told = text_of(await client.call_tool("remember", {"text": "A yak at the base."}))
        assert "This takes the right 'write'; your token has 'read'" in told
    async with connected(house.url, token, namespace="github.com/acme/a:b") as client:
        stored = await client.call_tool("remember", {"text": "A yak at acme."})
        assert not stored.is_error, text_of(stored)
        told = text_of(await client.call_tool("forget", {"ids": ["r000001"], "mode": "erase"}))
        assert "'admin'" in told
        assert await found(client, "yak") == ["A yak at acme."]
    refused = answer_to(house, token, "shop")
    assert refused.status_code == 403
    assert "it holds base, github.com/acme/a:b, zoo" in refused.json()["error"]["message"]
    base = house.url.removesuffix("/mcp")
    for namespace, status in (("zoo", 200), ("base", 403)):
        assert web.get(f"{base}/metrics", headers=headers_of(token, namespace)).status_code == status


def test_of_one_persons_sessions_another_takes_none(house: House) -> None:
    """M2, S4.2: not another person's with the same client, nor one's own with another client."""
    session = {"mcp-session-id": open_session(house.url, house.issuer.token())}
    again = house.issuer.token(jti="refreshed")
    for token, status in (
        (again, 200),
        (house.issuer.token(sub="cid"), 404),
        (house.issuer.token(azp="other"), 404),
        (house.own, 404),
        (house.issuer.token(exp=1), 401),
    ):
        answer = post(house.url, "tools/call", RECALL, {**headers_of(token), **session})
        assert answer.status_code == status, answer.text


def test_keys_that_rotate_are_found_and_old_ones_end(house: House) -> None:
    """M2: one fetch for an unknown key, and none for the next within the pause."""
    issuer, first = house.issuer, house.issuer.key
    assert is_let_in(house, issuer.token())
    time.sleep(PAUSE_SECONDS + 0.2)
    elliptic = ECKey.generate_key("P-256", {"kid": "second"})
    edwards = OKPKey.generate_key("Ed25519", {"kid": "third"})
    issuer.publish(elliptic, edwards)
    try:
        issuer.asked.clear()
        assert is_let_in(house, issuer.token(elliptic))
        assert is_let_in(house, issuer.token(edwards))
        assert not is_let_in(house, issuer.token(first))
        for number in range(5):
            assert not is_let_in(house, issuer.token(rsa_once(), {"kid": f"made up {number}"}))
        assert issuer.asked == ["/.well-known/oauth-authorization-server", "/keys"]
        issuer.publish(first)
        time.sleep(PAUSE_SECONDS + 0.2)
        assert is_let_in(house, issuer.token(first))
    finally:
        issuer.publish(first)


def rsa_once(made: list[RSAKey] = []) -> RSAKey:  # noqa: B006 - made once: it takes a while
    made[:] = made or [rsa("made up")]
    return made[0]


def test_while_the_issuer_is_down_known_keys_and_our_tokens_go_on(house: House) -> None:
    """M2: what cannot be told is 503, for it may be right; what is known to be wrong stays 401."""
    issuer = house.issuer
    assert is_let_in(house, issuer.token())
    opaque = issuer.opaque()
    issuer.is_down = True
    try:
        time.sleep(PAUSE_SECONDS + 0.2)
        for token in (issuer.token(rsa_once()), opaque):
            answer = answer_to(house, token)
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
            assert "The issuer of tokens cannot be reached" in answer.json()["error"]["message"]
        assert is_let_in(house, issuer.token())
        assert is_let_in(house, house.own)
        assert not is_let_in(house, issuer.token(aud=None))
        assert not is_let_in(house, forged({"alg": "none"}, issuer.claims()))
    finally:
        issuer.is_down = False
    assert is_let_in(house, opaque)
    assert "The keys of the OAuth issuer were not fetched" in house.server.log
    assert opaque not in house.server.log


def test_tokens_that_say_nothing_are_looked_up_and_end_when_revoked(house: House) -> None:
    """M2, RFC 7662: their audience is required as well."""
    issuer = house.issuer
    token = issuer.opaque(iss=None, exp=None)
    assert is_let_in(house, token)
    issuer.asked.clear()
    assert is_let_in(house, token)
    assert issuer.asked == []
    for changed in ({"aud": None}, {"aud": "account"}, {"exp": 5}, {"nbf": 4_000_000_000}, {"iss": "https://else.org"}):
        assert not is_let_in(house, issuer.opaque(**changed)), changed
    del issuer.active[token]
    time.sleep(5.1)
    assert not is_let_in(house, token)


def test_our_own_tokens_are_never_shown_to_the_issuer(house: House) -> None:
    house.issuer.asked.clear()
    spare = make_token(house.server.data_dir, "spare")
    assert is_let_in(house, spare)
    revoke_token(house.server.data_dir, "spare")
    assert not is_let_in(house, spare)
    assert not is_let_in(house, "mcpm_made-up")
    assert house.issuer.asked == []
    listed = command_line(house.server.data_dir, "tokens", "list", "--json").stdout
    assert {each["name"] for each in json.loads(listed)} == {"bob", "spare"}


class Kept:
    """Keeps what the library's client got."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_of_the_library_finds_the_issuer_and_signs_in(house: House, era: str) -> None:
    """M2: from the 401 by the metadata to a token for this server."""
    agreed: list[str] = []

    async def show(address: str) -> None:
        agreed.append(house.issuer.sign_in(address))

    async def come_back() -> AuthorizationCodeResult:
        query = httpx2.URL(agreed[-1]).params
        return AuthorizationCodeResult(code=query["code"], state=query["state"])

    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl("http://127.0.0.1:1/back")], client_name="desktop")
    provider = OAuthClientProvider(house.url, metadata, Kept(), show, come_back)
    async with (
        httpx2.AsyncClient(auth=provider, timeout=PATIENCE_SECONDS, verify=False) as signing_in,
        Client(streamable_http_client(house.url, http_client=signing_in), mode=era) as client,
    ):
        await client.call_tool("remember", {"text": f"An emu in the {era} era.", "visibility": "private"})
        assert await found(client, f"emu in the {era}") == [f"An emu in the {era} era."]
    assert len(agreed) == 1
