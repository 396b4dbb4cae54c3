"""Servers that share a database keep nothing of their own that an answer depends on (docs/postgres.md)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import open_app
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.settings import load_settings
from tests.entrypoints.http.conftest import HttpServer, headers_of, post, web

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
HANDSHAKE = "2025-11-25"
"""The older era of the protocol, which has sessions elsewhere."""


class Agent:
    """Sends each message of the older era to the server that is named, with one token and no handshake."""

    def __init__(self, secret: str) -> None:
        self.headers = {
            **headers_of(secret), "mcp-session-id": "from elsewhere", "mcp-protocol-version": HANDSHAKE,
            "user-agent": "claude-code/2.1.0 (cli)",
        }  # fmt: skip

    def ask(self, server: HttpServer, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        response = post(server.url, method, params, self.headers)
        assert "mcp-session-id" not in response.headers
        lines = [line.removeprefix("data:") for line in response.text.splitlines() if line.startswith("data:")]
        return json.loads((lines or [response.text])[-1])

    def call(self, server: HttpServer, tool: str, **arguments: object) -> Any:
        """Return the structured answer, or else its text."""
        result = self.ask(server, "tools/call", {"name": tool, "arguments": arguments})["result"]
        return result.get("structuredContent") or result["content"][0]["text"]


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[HttpServer, HttpServer, str, str]]:
    """Two servers over one database, and the secrets of two agents."""
    from tests.postgres import new_database

    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    url = new_database()
    memory = open_app(load_settings(data_dir=tmp_path / "c", namespace="test", database_url=url))
    grants = [Grant(agent=name, person="", namespaces=("shop",), right="write") for name in ("ann", "bob")]
    ann, bob = (memory.tokens.add(grant.agent, grant)[0] for grant in grants)
    memory.close()
    one, two = (HttpServer(tmp_path / name, database_url=url) for name in ("a", "b"))
    yield one, two, ann, bob
    for server in (one, two):
        server.kill()


def test_any_server_goes_on_where_another_was(servers: tuple[HttpServer, HttpServer, str, str]) -> None:
    """M1.1, S8.1: in the older era too: a block, an echo, what a session has seen, and the name of its client."""
    one, two, *secrets = servers
    ann, bob = map(Agent, secrets)
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "any", "version": "1"}}
    assert not ann.ask(one, "initialize", hello)["result"]["capabilities"]["resources"]["subscribe"]
    stored = ann.call(one, "remember", items=[{"text": "The port of the database is 5432."}])["records"][0]["id"]

    question = {"query": "Which port has the database?"}
    block = bob.call(one, "assemble_context", **question)
    shown = block[len('<memory-context id="') :].partition('"')[0]
    bob.call(two, "remember", items=[{"text": "The database of the port runs on host db2."}])
    added = bob.call(two, "assemble_context", **question, previous=shown)
    assert ("5432" in block, "db2" in block) == (True, False)
    assert (f'adds-to="{shown}"' in added, "5432" in added, "db2" in added) == (True, False, True)
    shown = added[len('<memory-context id="') :].partition('"')[0]
    assert "\nunchanged\n" in bob.call(one, "assemble_context", **question, previous=shown)

    echo = bob.call(two, "remember", items=[{"text": "the port of the database is 5432!"}])["records"][0]
    assert (echo["id"], echo["status"]) == (stored, "confirmed")
    ann.call(two, "revise", id=stored, text="The port of the database is 5433.")
    assert "was changed by ann" in bob.call(one, "revise", id=stored, text="The port is 80.")
    assert "was changed" not in bob.call(two, "revise", id=stored, text="The port is 80.")
    told = bob.ask(two, "resources/read", {"uri": f"memory://record/{stored}"})["result"]["contents"][0]["text"]
    assert "claude-code" in told
    assert web.get(one.url, headers=bob.headers).status_code == 405
