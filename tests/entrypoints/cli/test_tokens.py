"""tokens: add, list, revoke."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

ADD = ("tokens", "add", "laptop", "--agent", "coder", "--namespace", "shop", "--namespace", "base")


def test_a_secret_is_shown_once_and_opens(run: "Run", open_memory: Callable[..., App]) -> None:
    """S4.2, S7.1: alone on standard output, so that a script can take it."""
    ran = run(*ADD, "--right", "read", "--person", "ann", "--days", "30")
    assert ran.code == 0
    assert "shown only once" in ran.err
    token = open_memory().tokens.recognise(ran.out.strip())
    assert token is not None
    assert (token.name, token.grant.agent, token.grant.person) == ("laptop", "coder", "ann")
    assert (token.grant.namespaces, token.grant.right) == (("shop", "base"), "read")
    shown = run("tokens", "list")
    assert all(word in shown.out for word in ("laptop", "valid", "read", "coder", "ann", "shop, base"))
    assert ran.out.strip() not in shown.out + run("tokens", "list", "--json").out


def test_tokens_speak_json(run: "Run") -> None:
    """S7.1."""
    assert run(*ADD[:-4], "--namespace", "shop", "--json").json["secret"].startswith("mcpm_")
    [token] = run("tokens", "list", "--json").json
    assert token.keys() >= {"name", "id", "state", "right", "agent", "person", "namespaces", "created_at"}
    assert (token["state"], token["right"], token["expires_at"]) == ("valid", "write", None)
    assert run("tokens", "revoke", "laptop", "--json").json == {"revoked": "laptop"}
    assert [each["state"] for each in run("tokens", "list", "--json").json] == ["revoked"]


def test_a_token_that_has_expired_is_listed_as_such(run: "Run", open_memory: Callable[..., App]) -> None:
    run(*ADD)
    memory = open_memory(clock=lambda: 1_000.0)
    [grant] = [token.grant for token in memory.tokens.all()]
    memory.tokens.add("old", grant, 2_000.0)
    assert {each["name"]: each["state"] for each in run("tokens", "list", "--json").json} == {
        "old": "expired",
        "laptop": "valid",
    }


@pytest.mark.parametrize("days", ["inf", "1e7", "0"])
def test_a_token_expires_at_a_time_that_can_be_shown(run: "Run", days: str) -> None:
    """S4.2: else none is made, and the list is not spoilt for good."""
    run(*ADD)
    ran = run("tokens", "add", "odd", "--agent", "odd", "--namespace", "shop", "--days", days)
    assert (ran.code, "between now and the year 9999" in ran.err) == (1, True)
    assert [each["name"] for each in run("tokens", "list", "--json").json] == ["laptop"]


def test_what_cannot_be_done_is_said_with_the_next_move(run: "Run") -> None:
    assert "No memory at" in run("tokens", "list").err
    assert "the rights are read, write, admin" in run(*ADD, "--right", "all").err
    assert "this machine's own agents" in run("tokens", "add", "a", "--agent", "default", "--namespace", "shop").err
    assert run(*ADD[:-4]).code == 2
    run(*ADD)
    assert "There is a token 'laptop' already" in run(*ADD).err
    assert run("tokens", "revoke", "laptop").out == "Token laptop is revoked.\n"
    ran = run("tokens", "revoke", "laptop")
    assert (ran.code, "Token 'laptop' is revoked already" in ran.err) == (1, True)
    assert "There is no token 'desktop'" in run("tokens", "revoke", "desktop").err


def test_each_token_is_one_line_on_a_narrow_screen(run: "Run", monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1: with days for dates, and no word broken."""
    monkeypatch.setenv("COLUMNS", "80")
    add = ("tokens", "add", "laptop", "--namespace", "github.com/acme/shop", "--agent", "ann-coder", "--person")
    run(*add, "ann-coder", "--days", "30")
    run("tokens", "revoke", "laptop")
    run(*add, "ann-coder", "--days", "30")
    heading, revoked, valid = run("tokens", "list").out.splitlines()
    assert heading.split() == ["Name", "State", "Right", "Agent", "Projects"]
    assert re.fullmatch(r"laptop  revoked \d{4}-\d\d-\d\d   write  ann-coder  github.com/acme/shop", revoked)
    assert re.fullmatch(r"laptop  valid to \d{4}-\d\d-\d\d  write  ann-coder  github.com/acme/shop", valid)
    monkeypatch.setenv("COLUMNS", "20")
    assert len(run("tokens", "list").out.splitlines()) == 3


def test_a_memory_without_tokens_says_how_to_make_one(run: "Run", open_memory: Callable[..., App]) -> None:
    open_memory()
    assert "`mcp-memory tokens add`" in run("tokens", "list").out
    assert run("tokens", "list", "--json").json == []
