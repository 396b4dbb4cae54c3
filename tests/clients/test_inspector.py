"""The inspector of the protocol's makers, by its command line: a client that no one here wrote, in both eras."""

import json
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from mcp_memory.bridge.door import owner_of
from tests.clients.node_packages import NodePackages
from tests.clients.programs import environment, memory_in, running

pytestmark = pytest.mark.long

TOOLS = "remember recall assemble_context push_task pop_task compact revise forget".split()
ERAS = ("legacy", "modern")
REFUSED = 5
"""The inspector's exit code where a tool answers with an error."""
COMMAND_LINE = "@modelcontextprotocol/inspector/clients/cli/build/index.js"
"""The module of the inspector that its own launcher hands a command line to."""
PROGRAM = Path(__file__).parent / "inspector.mjs"


class Inspector:
    """Asks one thing of a server per connection."""

    def __init__(self, process: "subprocess.Popen[str]", target: list[str], log: Path) -> None:
        self._process = process
        self._target = target
        self._log = log

    def run(self, era: str, method: str, *options: str) -> tuple[int, Any]:
        """Return the exit code of a command line, and what it wrote."""
        asked = ["--format", "json", "--protocol-era", era, "--method", method, *options, *self._target]
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        out = ""
        for line in self._process.stdout:
            if line.startswith("ended with "):
                return int(line.split()[-1]), json.loads(out or "null")
            out += line
        raise AssertionError(f"The inspector has ended: {out}\n{self.log}")

    @property
    def log(self) -> str:
        """What it wrote into its log."""
        return self._log.read_text("utf-8", "replace")

    def ask(self, era: str, method: str, *options: str) -> Any:
        """The result of a request that has to succeed."""
        code, written = self.run(era, method, *options)
        assert code == 0, (era, method, options, self.log)
        return written["result"]

    def call(self, era: str, tool: str, **arguments: Any) -> Any:
        return self.ask(era, "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))

    def refused(self, era: str, tool: str, **arguments: Any) -> str:
        """What a tool answers that has to refuse."""
        code, written = self.run(era, "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        assert code == REFUSED, (era, tool, arguments, self.log)
        return written["result"]["content"][0]["text"]


OpenInspector = Callable[[list[str]], AbstractContextManager[Inspector]]


@pytest.fixture
def inspecting(packages: NodePackages, tmp_path: Path) -> OpenInspector:
    """The inspector for a `with` statement, in front of the server that a command line names."""
    command = [str(packages.node), str(PROGRAM), str(packages.modules / COMMAND_LINE)]
    variables = environment(tmp_path, MCP_CATALOG_PATH=str(tmp_path / "catalog.json"))

    @contextmanager
    def inspecting(target: list[str]) -> Generator[Inspector]:
        with running(command, variables, tmp_path) as process:
            yield Inspector(process, target, tmp_path / "err.log")

    return inspecting


def test_the_inspector_is_served_over_standard_streams(inspecting: OpenInspector, tmp_path: Path) -> None:
    """S5.2, S6.2: each answer through a server of its own, in either era, over one store that one process owns."""
    memory = memory_in(tmp_path) | {"MCP_MEMORY_IDLE_MINUTES": "5"}
    variables = [word for name, value in memory.items() for word in ("-e", f"{name}={value}")]
    with inspecting([*variables, sys.executable, "-m", "mcp_memory"]) as inspector:
        assert [tool["name"] for tool in inspector.ask("legacy", "tools/list", "--strict")["tools"]] == TOOLS
        try:
            stored = inspector.call("legacy", "remember", text="Deploys leave on Tuesday")["structuredContent"]
            found = inspector.call("modern", "recall", query="When do deploys leave?")["structuredContent"]["results"]
            assert [one["id"] for one in found] == [one["id"] for one in stored["records"]]
            status = inspector.ask("legacy", "resources/read", "--uri", "memory://status")["contents"][0]
            assert json.loads(status["text"])["records"] == {"fact": 1}
            assert "limit" in inspector.refused("modern", "recall", limit=-4)
        finally:
            psutil.Process(int(str(owner_of(memory["MCP_MEMORY_DATA_DIR"])["pid"]))).terminate()


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_is_served_over_http(inspecting: OpenInspector, http_url: str, era: str) -> None:
    """S4.2, S6.2: without a token, on loopback. What only reads is asked for in one era, each time on a new visit."""
    with inspecting(["--server-url", http_url, "--transport", "http"]) as inspector:
        assert [tool["name"] for tool in inspector.ask(era, "tools/list", "--strict")["tools"]] == TOOLS
        fact = f"In the {era} era the ferry leaves at nine"
        [stored] = inspector.call(era, "remember", text=fact)["structuredContent"]["records"]
        found = inspector.call(era, "recall", query="ferry")["structuredContent"]["results"]
        assert stored["id"] in {one["id"] for one in found}
        assert "limit" in inspector.refused(era, "recall", limit=-4)
        if era == "modern":
            [context, *_] = inspector.call(era, "assemble_context", query="When does the ferry leave?")["content"]
            assert fact in context["text"]
            assert "memory://status" in {one["uri"] for one in inspector.ask(era, "resources/list")["resources"]}
            record = inspector.ask(era, "resources/read", "--uri", f"memory://record/{stored['id']}")["contents"][0]
            assert fact in record["text"]
