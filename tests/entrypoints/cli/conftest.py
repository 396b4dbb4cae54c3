"""The command line run in this process, over the same memory as the `app` fixture's."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from typer.testing import CliRunner

from mcp_memory.app import App, open_app
from mcp_memory.entrypoints.cli import app as command_line
from mcp_memory.settings import Settings, load_settings

INTERRUPTIBLE = """
import signal
from mcp_memory.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
"""The command line in a process that Ctrl+C reaches: where tests run in the background, their children ignore it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Everything on stdout as one JSON value."""
        assert self.code == 0, self.err
        return json.loads(self.out)


class Run(Protocol):
    def __call__(self, *arguments: str) -> Ran: ...


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What the commands find in their environment."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("MCP_MEMORY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("MCP_MEMORY_NAMESPACE", "test")
    monkeypatch.setenv("COLUMNS", "200")
    return load_settings()


@pytest.fixture
def run(settings: Settings) -> Run:
    """Run a command as a person would; an error that is no message fails the test."""

    def run_command(*arguments: str) -> Ran:
        result = CliRunner().invoke(command_line, list(arguments))
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(code=result.exit_code, out=result.stdout, err=result.stderr)

    return run_command


@pytest.fixture
def open_memory(settings: Settings, request: pytest.FixtureRequest) -> Callable[..., App]:
    """Opens the memory that the commands use, as a server would; closed at the end of the test."""

    def opened(chosen: Mapping[str, Any] | None = None, **options: Any) -> App:
        app = open_app(settings.model_copy(update=dict(chosen or {})), **options)
        request.addfinalizer(app.close)
        return app

    return opened
