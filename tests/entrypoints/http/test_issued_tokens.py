"""What claims amount to, when an issuer is asked for its keys, and what strange documents and tokens do."""

import random
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import OctKey

from mcp_memory.app import open_app
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.entrypoints.http import issuer_requests
from mcp_memory.entrypoints.http.exchange import Refused
from mcp_memory.entrypoints.http.issued_tokens import ClaimNames, Issuer, rights_in
from mcp_memory.entrypoints.http.issuer_requests import (
    FRESH_SECONDS,
    KEPT_ANSWER_SECONDS,
    KEPT_SECONDS,
    MAX_DOCUMENT_BYTES,
    MAX_KEPT_ANSWERS,
    PAUSE_SECONDS,
    Introspection,
    IssuerKeys,
    IssuerUnreachable,
    fetch_document,
)
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.access.access_tokens import AccessTokens, agent_of_issuer
from mcp_memory.settings import load_settings
from tests.entrypoints.http.conftest import PATIENCE_SECONDS, wait_until
from tests.entrypoints.http.issuer import LoopbackIssuer, issuing, rsa

AUDIENCE = "https://memory.example.com/mcp"


@dataclass
class Publisher:
    """What an issuer publishes, by a clock of our own."""

    keys: list[Any] = field(default_factory=list[Any])
    metadata: Any = None
    now: float = 0.0
    asked: list[str] = field(default_factory=list[str])
    hold: threading.Event | None = None

    def fetch(self, url: str) -> Any:
        self.asked.append(url)
        if self.hold:
            assert self.hold.wait(PATIENCE_SECONDS)
        if url.endswith("/keys"):
            return {"keys": self.keys}
        if self.metadata is None:
            raise IssuerUnreachable("404")
        return self.metadata

    def clock(self) -> float:
        return self.now


KEY = rsa("one")
PUBLIC = dict(KEY.as_dict(private=False))


@pytest.fixture
def publisher() -> Publisher:
    url = "https://id.example.com/realms/a"
    return Publisher([PUBLIC], {"issuer": url, "jwks_uri": f"{url}/keys"})


def keys_of(publisher: Publisher) -> IssuerKeys:
    return IssuerKeys("https://id.example.com/realms/a", publisher.fetch, publisher.clock)


def test_keys_are_fetched_once_and_unknown_ones_at_most_once_a_while(publisher: Publisher) -> None:
    keys = keys_of(publisher)
    assert publisher.asked == []
    assert keys.find("one")
    assert keys.find("")
    assert keys.find("two") is None
    assert len(publisher.asked) == 2
    publisher.now += PAUSE_SECONDS
    assert keys.find("two") is None
    assert keys.find("three") is None
    assert len(publisher.asked) == 4
    publisher.keys = [PUBLIC, {**PUBLIC, "kid": "two"}]
    publisher.now += PAUSE_SECONDS
    assert keys.find("two")
    assert keys.find("") is None  # Of several keys a token names its own.


def test_known_keys_go_on_for_a_day_while_the_issuer_is_away(publisher: Publisher) -> None:
    keys = keys_of(publisher)
    assert keys.find("one")
    publisher.metadata = None
    publisher.now += KEPT_SECONDS - 1
    assert keys.find("one")
    wait_until(lambda: len(publisher.asked) == 5)  # It looked for new ones beside, at each place for metadata.
    with pytest.raises(IssuerUnreachable):
        keys.find("two")
    publisher.now += 2
    with pytest.raises(IssuerUnreachable):
        keys.find("one")


def test_a_key_that_was_taken_back_ends(publisher: Publisher) -> None:
    keys = keys_of(publisher)
    assert keys.find("one")
    publisher.keys = [{**PUBLIC, "kid": "two"}]
    publisher.now += FRESH_SECONDS
    assert keys.find("one")
    wait_until(lambda: keys.find("one") is None)
    assert keys.find("two")


def test_while_keys_are_fetched_known_ones_do_not_wait(publisher: Publisher) -> None:
    """Who presents an unknown key meanwhile is told to come again."""
    keys = keys_of(publisher)
    assert keys.find("one")
    publisher.now += PAUSE_SECONDS
    publisher.hold = threading.Event()
    slow = threading.Thread(target=keys.find, args=("two",))
    slow.start()
    wait_until(lambda: len(publisher.asked) == 3)
    assert keys.find("one")
    with pytest.raises(IssuerUnreachable):
        keys.find("three")
    publisher.hold.set()
    slow.join(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [],
        "text",
        {"issuer": "https://id.example.com/realms/a/", "jwks_uri": "https://id.example.com/keys"},
        {"issuer": "https://id.example.com/realms/b", "jwks_uri": "https://id.example.com/keys"},
        {"issuer": "https://id.example.com/realms/a"},
        {"issuer": "https://id.example.com/realms/a", "jwks_uri": "http://id.example.com/keys"},
        {"issuer": "https://id.example.com/realms/a", "jwks_uri": "file:///keys"},
        {"issuer": "https://id.example.com/realms/a", "jwks_uri": 5},
    ],
    ids=str,
)
def test_metadata_of_another_issuer_or_without_usable_keys_is_refused(publisher: Publisher, metadata: Any) -> None:
    publisher.metadata = metadata
    with pytest.raises(IssuerUnreachable):
        keys_of(publisher).find("one")
    assert publisher.asked == [
        "https://id.example.com/.well-known/oauth-authorization-server/realms/a",
        "https://id.example.com/.well-known/openid-configuration/realms/a",
        "https://id.example.com/realms/a/.well-known/openid-configuration",
    ]


def test_keys_that_are_not_for_signatures_are_left_out(publisher: Publisher) -> None:
    shared = dict(OctKey.generate_key(256, {"kid": "shared"}).as_dict(private=True))
    publisher.keys = [
        shared, {**PUBLIC, "kid": "of letters", "use": "enc"}, {"kty": "AKP", "kid": "new"}, {"kid": "bare"}, 5, None,
        "text", {"kty": "RSA", "kid": "broken", "n": "!", "e": {}}, {"kty": "EC", "crv": "P-0", "x": "a", "y": "b"},
        {"kty": "RSA", "kid": "half", "n": "AQ"}, {**PUBLIC, "kid": 5}, PUBLIC,
    ]  # fmt: skip
    keys = keys_of(publisher)
    assert keys.find("one")
    for key_id in ("shared", "of letters", "new", "bare", "broken", "half", "5"):
        assert keys.find(key_id) is None, key_id
    publisher.keys = [shared]
    publisher.now += PAUSE_SECONDS
    with pytest.raises(IssuerUnreachable):
        keys.find("two")
    assert keys.find("one")


def test_only_a_whole_document_from_its_own_place_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with issuing(AUDIENCE) as issuer:
        assert fetch_document(f"{issuer.url}/keys")["keys"]
        large: dict[str, str] = {"x": "y" * MAX_DOCUMENT_BYTES}
        for answer in ((302, large), (404, large), (500, large), (200, large)):

            def get(_path: str, answer: tuple[int, dict[str, str]] = answer) -> tuple[int, dict[str, str]]:
                return answer

            monkeypatch.setattr(issuer, "get", get)
            with pytest.raises(IssuerUnreachable):
                fetch_document(f"{issuer.url}/keys")
    for url in (f"{issuer.url}/keys", "http://127.0.0.1:1/", "http://", "https://\x00/"):
        with pytest.raises(IssuerUnreachable):
            fetch_document(url)


def test_answers_about_tokens_are_kept_for_a_moment_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    now = [0.0]

    def answer(url: str, form: Mapping[str, str], login: object) -> object:
        asked.append(form["token"])
        if form["token"] == "odd":
            return [True]
        return {"active": {"yes": True, "text": "true"}.get(form["token"], False), "sub": "ann"}

    monkeypatch.setattr(issuer_requests, "fetch_document", answer)
    endpoint = Introspection("https://id.example.com/introspect", clock=lambda: now[0])
    for token, active in (("yes", True), ("no", False), ("text", False), ("yes", True), ("no", False)):
        assert bool(endpoint.claims(token)) is active
    assert asked == ["yes", "no", "text"]
    now[0] += KEPT_ANSWER_SECONDS
    assert endpoint.claims("yes")
    assert asked[3:] == ["yes"]
    with pytest.raises(IssuerUnreachable):
        endpoint.claims("odd")
    for number in range(MAX_KEPT_ANSWERS):
        endpoint.claims(f"made up {number}")
    assert endpoint.claims("yes")
    assert asked[-1] == "yes"


@pytest.fixture(scope="module")
def loopback() -> Iterator[LoopbackIssuer]:
    with issuing(AUDIENCE) as issuer:
        yield issuer


def issuer_of(loopback: LoopbackIssuer, names: ClaimNames = ClaimNames()) -> Issuer:  # noqa: B008 - it is frozen
    keys = IssuerKeys(loopback.url)
    return Issuer(AUDIENCE, names, ("RS256",), keys, None, loopback.url)


def test_claims_are_found_by_their_names_and_ways(loopback: LoopbackIssuer) -> None:
    """M2: the person and the client make the agent."""
    deep: dict[str, Any] = {
        "realm_access": {"roles": ["mem:shop:admin"]},
        "email": "ann@example.com",
        "app": "Cursor 2",
        "groups": None,
    }
    names = ClaimNames(person="email", agent="app", grants="realm_access.roles")
    token, rights = issuer_of(loopback, names).recognise(loopback.token(**deep))
    assert rights == {"shop": "admin"}
    assert (token.grant.person, token.grant.right) == ("ann@example.com", "admin")
    assert token.grant.agent == agent_of_issuer("Cursor 2", "ann@example.com")
    dotted: dict[str, Any] = {
        "https://example.com/groups": ["mem:zoo:read"],
        "scope": "openid mem:shop:write mem:base:read",
    }
    for claim, held in (("https://example.com/groups", ("zoo",)), ("scope", ("base", "shop"))):
        token, _ = issuer_of(loopback, ClaimNames(grants=claim)).recognise(loopback.token(**dotted))
        assert token.grant.namespaces == held
    for way in ("realm_access.none", "realm_access.roles.0", "sub.x", "realm_access"):
        with pytest.raises(Refused) as refused:
            issuer_of(loopback, ClaimNames(grants=way)).recognise(loopback.token(**deep))
        assert refused.value.status == 403


def test_the_same_person_and_client_stay_the_same_and_others_are_others(loopback: LoopbackIssuer) -> None:
    issuer = issuer_of(loopback)
    one, _ = issuer.recognise(loopback.token())
    assert issuer.recognise(loopback.token(jti="again", groups="mem:zoo:read"))[0].id == one.id
    changes: tuple[dict[str, Any], ...] = ({"sub": "cid"}, {"azp": "other"})
    for changed in changes:
        other, _ = issuer.recognise(loopback.token(**changed))
        assert other.id != one.id
        assert other.grant.agent != one.grant.agent


def test_the_highest_right_in_a_namespace_counts() -> None:
    listed = ["mem:a:read", "mem:a:admin", "mem:a:write", "mem:b:c:read", "x mem:d:read", "mem:e:read\n", "mem: :read"]
    assert rights_in(listed) == {"a": "admin", "b:c": "read"}
    assert rights_in(f"mem:{'n' * 201}:read mem:{'n' * 200}:read") == {"n" * 200: "read"}
    assert rights_in({"mem:a:read": 1}) == rights_in(None) == rights_in(7) == {}


def test_no_token_whatever_its_form_breaks_the_check(loopback: LoopbackIssuer) -> None:
    """A good token with bytes changed, and what only looks like one."""
    chance, issuer = random.Random(19), issuer_of(loopback)
    good = loopback.token()
    signs = "abcXYZ019-_.=é\x00 \ud800"
    for _ in range(2000):
        changed = list(good)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(changed))
            changed[place : place + chance.randint(0, 3)] = chance.choice(signs)
        if "".join(changed) == good:
            continue
        with pytest.raises(Refused) as refused:
            issuer.recognise("".join(changed))
        assert refused.value.status == 401
    for strange in ("", ".", "..", "a.b.c", f"{'W' * 100_000}.e30.", good * 3, "Ww.Ww.Ww", "e30.e30.e30"):
        with pytest.raises(Refused):
            issuer.recognise(strange)


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AccessTokens]:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    memory = open_app(load_settings(data_dir=tmp_path / "data", namespace="test"))
    yield memory.tokens
    memory.close()


def test_an_agent_of_the_issuer_works_for_its_person_in_upkeep_too(tokens: AccessTokens) -> None:
    """S4.1: what is done of it later, without a request, touches nobody else's records."""
    for client, person in (
        ("editor", "ann"),
        ("https://claude.ai/oauth/client", "5c4a-of:several parts"),
        ("a:b", "ann@example.com"),
        ("ü" * 300, "auth0|7"),
    ):
        agent = agent_of_issuer(client, person)
        assert tokens.person_of(agent) == person
        assert len(agent) <= 200
        assert "/" not in agent
    assert tokens.person_of("editor") == ""
    alike = {agent_of_issuer(client, "ann") for client in ("a/b", "a-b", "https://a/b", "https://a-b", "a:b")}
    assert len(alike) == 5


def test_names_of_the_issuers_agents_are_given_to_no_token(tokens: AccessTokens) -> None:
    with pytest.raises(InvalidRequest, match="begin with oauth:"):
        tokens.add("bob", Grant(agent=agent_of_issuer("editor", "ann"), person="bob", namespaces=("a",), right="read"))
