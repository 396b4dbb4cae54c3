"""The inspector of the protocol's makers, by its command line: a client that no one here wrote, in both eras."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.node_packages import NodePackages
from tests.clients.programs import Ran, environment, memory_in, run

pytestmark = pytest.mark.long

TOOLS = "remember recall assemble_context push_task pop_task compact revise forget".split()
ERAS = ("legacy", "modern")
REFUSED = 5
"""The inspector's exit code where a tool answers with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspector:
    """Asks one thing of a server per process."""

    command: list[str]
    home: Path
    target: list[str]

    def run(self, era: str, method: str, *options: str) -> Ran:
        asked = ["--cli", "--format", "json", "--protocol-era", era, "--method", method, *options, *self.target]
        variables = environment(self.home, MCP_CATALOG_PATH=str(self.home / "catalog.json"))
        return run([*self.command, *asked], variables, self.home)

    def ask(self, era: str, method: str, *options: str) -> Any:
        """The result of a request that has to succeed."""
        ran = self.run(era, method, *options)
        assert ran.code == 0, ran.err
        return json.loads(ran.out)["result"]

    def call(self, era: str, tool: str, **arguments: Any) -> Any:
        return self.ask(era, "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))

    def refused(self, era: str, tool: str, **arguments: Any) -> str:
        """What a tool answers that has to refuse."""
        ran = self.run(era, "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        assert ran.code == REFUSED, ran.err
        return json.loads(ran.out)["result"]["content"][0]["text"]


@pytest.fixture
def command(packages: NodePackages) -> list[str]:
    return packages.command("@modelcontextprotocol/inspector", "mcp-inspector")


def test_the_inspector_is_served_over_standard_streams(command: list[str], tmp_path: Path) -> None:
    """S5.2, S6.2: each answer from a process of its own, in either era, over one store."""
    server = [sys.executable, "-m", "mcp_memory"]
    variables = [word for name, value in memory_in(tmp_path).items() for word in ("-e", f"{name}={value}")]
    inspector = Inspector(command=command, home=tmp_path, target=[*variables, *server])
    assert [tool["name"] for tool in inspector.ask("legacy", "tools/list", "--strict")["tools"]] == TOOLS
    stored = inspector.call("legacy", "remember", text="Deploys leave on Tuesday")["structuredContent"]["records"]
    found = inspector.call("modern", "recall", query="When do deploys leave?")["structuredContent"]["results"]
    assert [one["id"] for one in found] == [one["id"] for one in stored]
    status = inspector.ask("legacy", "resources/read", "--uri", "memory://status")["contents"][0]
    assert json.loads(status["text"])["records"] == {"fact": 1}
    assert "limit" in inspector.refused("modern", "recall", limit=-4)


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_is_served_over_http(command: list[str], http_url: str, tmp_path: Path, era: str) -> None:
    """S4.2, S6.2: without a token, on loopback. What only reads is asked for in one era, each time by a new process."""
    inspector = Inspector(command=command, home=tmp_path, target=["--server-url", http_url, "--transport", "http"])
    assert [tool["name"] for tool in inspector.ask(era, "tools/list", "--strict")["tools"]] == TOOLS
    fact = f"In the {era} era the ferry leaves at nine"
    [stored] = inspector.call(era, "remember", text=fact)["structuredContent"]["records"]
    assert stored["id"] in {
        one["id"] for one in inspector.call(era, "recall", query="ferry")["structuredContent"]["results"]
    }
    assert "limit" in inspector.refused(era, "recall", limit=-4)
    if era == "modern":
        assert fact in inspector.call(era, "assemble_context", query="When does the ferry leave?")["content"][0]["text"]
        assert "memory://status" in {one["uri"] for one in inspector.ask(era, "resources/list")["resources"]}
        record = inspector.ask(era, "resources/read", "--uri", f"memory://record/{stored['id']}")["contents"][0]
        assert fact in record["text"]
