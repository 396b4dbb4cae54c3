"""Which entries are ours, and how the program is named so that a client finds it."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.entrypoints.clients import Start, running_command
from mcp_memory.entrypoints.clients.entries import is_ours, merged


@pytest.mark.parametrize(
    "words",
    [
        ["mcp-memory"],
        ["/opt/x/bin/mcp-memory", "--agent", "a"],
        [r"C:\Tools\mcp-memory.exe"],
        ["/usr/bin/python3.12", "-m", "mcp_memory"],
        ["python", "/src/mcp-memory"],
        ["uvx", "mcp-memory"],
        ["uvx", "mcp-memory@latest"],
        ["/bin/uv", "run", "--with", "mcp-memory[openai]==0.1.0", "x"],
        ["uv", "run", "--directory", "/a/b", "mcp-memory"],
        [r"C:\uv.exe", "run", "mcp-memory"],
        ["pipx", "run", "mcp-memory"],
    ],
)
def test_an_entry_that_starts_mcp_memory_is_ours(words: list[str]) -> None:
    """S7.1."""
    assert is_ours({"command": words[0], "args": words[1:]})


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["-y", "mcp-memory"]},
        {"command": "npx", "args": ["-y", "@someone/mcp-memory"]},
        {"command": "uvx", "args": ["mcp-memory-service"]},
        {"command": "uv", "args": ["run", "--directory", "/src/mcp-memory-x", "server"]},
        {"command": "mcp-memory-service"},
        {"command": "docker", "args": ["run", "mcp-memory"]},
        {"url": "https://example.org/mcp-memory"},
        {"command": {"path": "mcp-memory"}},
        {"command": "python", "args": "mcp_memory"},
        "mcp-memory",
        None,
    ],
)
def test_a_server_of_another_maker_is_not(entry: Any) -> None:
    """S7.1: though its name be like ours."""
    assert not is_ours(entry)


def test_an_entry_is_brought_up_to_date_and_keeps_what_was_added_to_it() -> None:
    """S7.1: variables too."""
    former = {"command": "old", "args": ["x"], "alwaysAllow": ["recall"], "env": {"A": "1", "B": "1"}}
    fresh = {"command": "new", "args": list[str](), "env": {"B": "2"}}
    assert merged(former, fresh) == {
        "command": "new",
        "args": [],
        "alwaysAllow": ["recall"],
        "env": {"A": "1", "B": "2"},
    }
    assert merged({"command": "old"}, {"command": "new"}) == {"command": "new"}


def program(folder: Path, name: str = "mcp-memory") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name + (".exe" if sys.platform == "win32" else ""))
    path.write_text("#!/bin/sh\n", "utf-8")
    path.chmod(0o755)
    return path


def test_the_program_that_runs_is_named_by_its_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1: also where it was found on PATH, which a client may have another one of."""
    path = program(tmp_path / "bin")
    monkeypatch.setattr(sys, "argv", [str(path), "install", "cursor"])
    assert running_command() == Start(command=str(path))
    monkeypatch.setenv("PATH", str(path.parent) + os.pathsep + os.environ["PATH"])
    monkeypatch.setattr(sys, "argv", ["mcp-memory"])
    assert running_command() == Start(command=str(path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [os.path.join("bin", "mcp-memory")])  # noqa: PTH118 -- relative, as typed
    assert running_command() == Start(command=str(path))


def test_run_as_a_module_it_is_the_program_beside_python_or_that_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.1."""
    python = tmp_path / "venv" / "bin" / "python"
    monkeypatch.setattr(sys, "argv", ["/src/mcp_memory/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(python))
    assert running_command() == Start(command=str(python), arguments=("-m", "mcp_memory"))
    beside = program(python.parent)
    assert running_command() == Start(command=str(beside))


def test_from_the_cache_of_uvx_it_is_uvx_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1: that path is gone when the cache is cleaned."""
    cached = program(tmp_path / "archive-v0" / "x" / "bin")
    uvx = program(tmp_path / "bin", "uvx")
    monkeypatch.setattr(sys, "argv", [str(cached)])
    monkeypatch.setenv("PATH", str(uvx.parent))
    assert running_command() == Start(command=str(uvx), arguments=("mcp-memory",))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert running_command() == Start(command=str(cached))
