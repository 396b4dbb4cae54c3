"""Hooks run in this process over one memory, and a session's transcript as the client writes it."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.entrypoints.hooks.answering import run
from mcp_memory.settings import load_settings

SESSION = "0a1b2c3d-0000-4000-8000-000000000001"


class RunHook(Protocol):
    def __call__(self, name: str, settings: Mapping[str, object] | None = None, **payload: Any) -> str: ...


class Transcript:
    """A file to which lines are added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = 0

    def say(self, role: str, content: Any, **fields: Any) -> None:
        """Add a line in the user's or the assistant's role."""
        self._lines += 1
        line = {"type": role, "message": {"role": role, "content": content}, "uuid": f"u{self._lines}", **fields}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def call(self, call_id: str, tool: str, arguments: dict[str, str], output: str) -> None:
        """Add the call of a tool and its result."""
        self.say("assistant", [{"type": "tool_use", "id": call_id, "name": tool, "input": arguments}])
        self.say("user", [{"type": "tool_result", "tool_use_id": call_id, "content": output}])


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path / "transcript.jsonl")


@pytest.fixture
def run_hook(tmp_path: Path, transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> RunHook:
    """Run a hook of the session; what it prints."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))

    def run_one(name: str, settings: Mapping[str, object] | None = None, **payload: Any) -> str:
        told = {"session_id": SESSION, "transcript_path": str(transcript.path), "cwd": str(tmp_path), **payload}
        chosen = {"data_dir": tmp_path / "data", "namespace": "test", **(settings or {})}
        return run(name, json.dumps(told).encode(), chosen)

    return run_one


@pytest.fixture
def memory(tmp_path: Path, run_hook: RunHook) -> Iterator[App]:
    """The memory as the agent's server has it, in a session that nobody named."""
    app = open_app(load_settings(data_dir=tmp_path / "data", namespace="test"))
    yield app
    app.close()


@pytest.fixture
def context_of() -> Callable[[str], str]:
    """The text that a hook's output adds to the conversation."""

    def read(output: str) -> str:
        return json.loads(output)["hookSpecificOutput"]["additionalContext"]

    return read
