"""Which entries are ours, and how the program is named so that a client finds it."""

import site
import sys
from pathlib import Path
from typing import Any

import pytest

import mcp_memory
from mcp_memory.entrypoints.clients.entries import is_ours, merged, running_command


@pytest.mark.parametrize(
    "words",
    [
        ["mcp-memory"],
        ["/opt/x/bin/mcp-memory", "--agent", "a"],
        [r"C:\Tools\mcp-memory.exe"],
        ["/usr/bin/python3.12", "-m", "mcp_memory"],
        ["python", "/src/mcp-memory"],
        ["uvx", "mcp-memory"],
        ["uvx", "mcp-memory-stack"],
        ["uvx", "--from", "mcp-memory-stack", "python", "-I", "-m", "mcp_memory"],
        ["mcp-memory-stack"],
        ["uvx", "mcp-memory-stack-core==0.1.0"],
        ["uv", "run", "--with", "mcp_memory_stack[openai]", "x"],
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


def test_it_is_started_by_its_own_python_which_looks_nowhere_else_for_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1, X1.1: by its full path, since clients have other PATHs; however it was started itself."""
    isolated = (sys.executable, "-I", "-m", "mcp_memory")
    for argv in (["/opt/x/bin/mcp-memory", "install", "cursor"], ["/src/mcp_memory/__main__.py"]):
        monkeypatch.setattr(sys, "argv", argv)
        assert running_command() == isolated


def test_a_package_that_was_installed_for_one_user_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """X1.1: `-I` would hide it; what the environment and the folder name stays out."""
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "USER_SITE", str(Path(mcp_memory.__file__).parents[1]))
    assert running_command()[1:] == ("-E", "-P", "-m", "mcp_memory")


def test_from_the_cache_of_uvx_it_is_uvx_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1, U3.1: that path is gone when the cache is cleaned; uvx makes it again, of what it was asked for.

    That is a name on the index, or the file or folder from which it was installed.
    """
    described = tmp_path / "mcp_memory_stack-9.dist-info"
    described.mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    python = program(tmp_path / "archive-v0" / "x" / "bin", "python")
    uvx = program(tmp_path / "bin", "uvx")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(uvx.parent))
    start = ("python", "-I", "-m", "mcp_memory")
    assert running_command() == (str(uvx), "--from", "mcp-memory-stack", *start)
    (described / "direct_url.json").write_text('{"url": "file:///x/mcp_memory_stack-9.whl", "archive_info": {}}')
    assert running_command() == (str(uvx), "--from", "file:///x/mcp_memory_stack-9.whl", *start)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert running_command() == (str(python), "-I", "-m", "mcp_memory")
