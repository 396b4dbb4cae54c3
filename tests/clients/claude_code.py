"""Claude Code itself, headless: one process, spoken to turn by turn. docs/claude-code-headless.md does it by hand."""

import contextlib
import json
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from tests.clients.programs import environment, memory_in, run, running

MARKETPLACE = Path(__file__).parents[2]
"""The folder whose list of plugins holds the one of this project."""
ALONE = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
}
"""Keeps it from speaking to anybody but the model."""


class Session:
    """A running Claude Code."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log
        self.id = ""

    def say(self, prompt: str) -> str:
        """The answer to a prompt, or what came of a command such as `/compact`."""
        message = {"type": "user", "message": {"role": "user", "content": prompt}}
        print(json.dumps(message), file=self._process.stdin, flush=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: Mapping[str, Any] = json.loads(line)
            self.id = event.get("session_id", self.id)
            if event["type"] == "result":
                assert not event["is_error"], event
                return event["result"]
        raise AssertionError(f"It ended with {self._process.wait()}:\n{self._log.read_text('utf-8')}")

    def end(self) -> int:
        """Its exit code, after its input has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait()


def install_plugin(claude: Path, home: Path) -> None:
    """Do what docs/claude-code.md tells a person to do."""
    marketplace = _marketplace()
    [plugin] = marketplace["plugins"]
    for asked in (["marketplace", "add", str(MARKETPLACE)], ["install", f"{plugin['name']}@{marketplace['name']}"]):
        ran = run([str(claude), "plugin", *asked], environment(home, **ALONE), home)
        assert ran.code == 0, ran.out + ran.err


def tool(name: str) -> str:
    """What Claude Code calls a tool of the plugin's server."""
    [plugin] = _marketplace()["plugins"]
    [server] = json.loads((MARKETPLACE / plugin["source"] / ".mcp.json").read_text("utf-8"))["mcpServers"]
    return f"mcp__plugin_{plugin['name']}_{server}__{name}"


def _marketplace() -> Any:
    return json.loads((MARKETPLACE / ".claude-plugin" / "marketplace.json").read_text("utf-8"))


@contextlib.contextmanager
def session(claude: Path, model_url: str, home: Path, resumed: str = "", also: str = "") -> Generator[Session]:
    """A new session in `home`, or one of before, with a memory there.

    It may use the plugin's tools unasked, and `also` another one.
    """
    allowed = [each for each in (tool("").removesuffix("__"), also) if each]
    command = [
        str(claude), "--print", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json",
        "--allowedTools", ",".join(allowed), *(["--resume", resumed] if resumed else []),
    ]  # fmt: skip
    model = {"ANTHROPIC_BASE_URL": model_url, "ANTHROPIC_API_KEY": "none"}
    variables = environment(home, **model, **ALONE, **memory_in(home))
    with running(command, variables, home) as process:
        yield Session(process, home / "err.log")
