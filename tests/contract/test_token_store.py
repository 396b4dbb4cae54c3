"""The contract of `TokenStore`: who comes in over HTTP, for every process of the memory."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.domain.model.scopes import Grant
from mcp_memory.errors import Conflict
from mcp_memory.ports.access import Token, TokenStore
from mcp_memory.stores.records import SqliteRecordStore

ANN = Token(
    id="aa",
    digest="aa11",
    name="ann",
    grant=Grant(agent="coder", person="ann", namespaces=("shop", "grüße/west"), right="write"),
    created_at=1.0,
    expires_at=9.5,
)
BOB = Token(
    id="bb",
    digest="bb22",
    name="bob",
    grant=Grant(agent="tester", person="bob", namespaces=("shop",), right="admin"),
    created_at=2.0,
)
STORES = {"sqlite": SqliteRecordStore}


@pytest.fixture(params=sorted(STORES))
def open_tokens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], TokenStore]]:
    """Opens the same tokens, again and again, as further processes would."""
    opened: list[SqliteRecordStore] = []

    def open_it() -> TokenStore:
        opened.append(STORES[request.param](tmp_path, "e"))
        return opened[-1].tokens()

    yield open_it
    for store in opened:
        store.close()


def test_what_was_added_is_known_to_all_processes(open_tokens: Callable[[], TokenStore]) -> None:
    """S4.2."""
    first, second = open_tokens(), open_tokens()
    assert (first.has_any(), list(first.tokens()), first.get("aa")) == (False, [], None)
    second.add(BOB)
    second.add(ANN)
    assert first.has_any()
    assert list(first.tokens()) == [ANN, BOB]
    assert (first.get("aa"), first.get("bb"), first.get("aa11")) == (ANN, BOB, None)
    assert [first.person_of(agent) for agent in ("coder", "tester", "nobody")] == ["ann", "bob", ""]


def test_what_was_revoked_stays_known_as_such(open_tokens: Callable[[], TokenStore]) -> None:
    """S4.2: its name is free again, its agent stays its person's."""
    tokens = open_tokens()
    tokens.add(ANN)
    assert not open_tokens().revoke("bob", 3.0)
    assert open_tokens().revoke("ann", 3.0)
    assert not tokens.revoke("ann", 4.0)
    assert tokens.get("aa") == replace(ANN, revoked_at=3.0)
    assert tokens.has_any()
    assert tokens.person_of("coder") == "ann"
    again = replace(ANN, id="cc", digest="cc33", created_at=5.0)
    tokens.add(again)
    assert list(tokens.tokens()) == [replace(ANN, revoked_at=3.0), again]
    assert tokens.revoke("ann", 6.0)
    assert tokens.get("aa") == replace(ANN, revoked_at=3.0)


def test_a_name_belongs_to_one_token_and_an_agent_to_one_person(open_tokens: Callable[[], TokenStore]) -> None:
    """S4.1, S4.2: private records are an agent's; of two persons one would read the other's."""
    tokens = open_tokens()
    tokens.add(ANN)
    with pytest.raises(Conflict, match="There is a token 'ann' already"):
        tokens.add(replace(BOB, name="ann"))
    tokens.revoke("ann", 2.0)
    with pytest.raises(Conflict, match="Agent 'coder' works for 'ann'"):
        tokens.add(replace(BOB, grant=replace(BOB.grant, agent="coder")))
    assert [each.id for each in tokens.tokens()] == ["aa"]


def test_a_token_is_valid_until_it_expires_or_is_revoked() -> None:
    """S4.2."""
    assert [ANN.is_valid(at) for at in (1.0, 9.4, 9.5)] == [True, True, False]
    assert BOB.is_valid(1e12)
    assert not replace(BOB, revoked_at=3.0).is_valid(2.5)
