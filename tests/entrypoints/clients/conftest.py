"""A computer with a home folder of its own, on any platform, and the commands run on it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from typer.testing import CliRunner

from mcp_memory.entrypoints.cli import app as command_line
from mcp_memory.entrypoints.clients.catalogue import Places

VARIABLES = ("APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME")
Computer = Callable[..., Places]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str


class Run(Protocol):
    def __call__(self, *arguments: str) -> Ran: ...


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository, as far as its namespace goes."""
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/team/shop.git\n', "utf-8")
    return folder


@pytest.fixture
def computer(home: Path, project: Path) -> Computer:
    """`computer(platform, APPDATA=…)`: by default Linux, with no variable set."""

    def one(platform: Any = "linux", **variables: str) -> Places:
        return Places(home=home, project=project, platform=platform, variables=variables)

    return one


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command as a person would who stands in the project; an error that is no message fails the test."""
    for variable in (*VARIABLES, "MCP_MEMORY_NAMESPACE", "MCP_MEMORY_AGENT", "MCP_MEMORY_DATA_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("COLUMNS", "300")
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(home))
    monkeypatch.chdir(project)

    def run_command(*arguments: str) -> Ran:
        result = CliRunner().invoke(command_line, list(arguments))
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(code=result.exit_code, out=result.stdout, err=result.stderr)

    return run_command
