"""The commands of how-to pages run as they stand, in a fresh home, and print what the pages show.

A block marked `sh` is run. One marked `bash` needs another machine, or stays: a server, a tunnel, a request to it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mcp_memory.entrypoints.cli import app as command_line
from tools.llms_txt import navigation

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
VARIES = re.compile(r"\d{4}-\d\d-\d\d|\br[0-9a-z]{6}\b|^\d\.\d\d(?= )|, \d+ records embedded", re.MULTILINE)
"""2026-11-29, r00000k, 0.92: the day, an id, and a chance, which depends on what else is stored."""
KEPT = re.compile(r'^(\w+)=\$\((.*?)\)( && echo "\$\1")?$')
"""ID=$(mcp-memory add "…") && echo "$ID"."""
PAGES = [
    "first-hour.md", "importing.md", "learning.md", "new-computer.md", "several-machines.md", "sharing.md",
    "team-server.md", "wrong-memory.md",
]  # fmt: skip
OF_CLONE = ("git clone ", "python3 ", ".venv/", "export PATH", '"$CLONE/', "mcp-memory stop")
"""Beginnings of the tutorial's lines that install the command, and play its agent and end its server."""
OBSERVED = '{"type":"entity","name":"tide gauge","entityType":"device","observations":["%s","%s"]}\n'
RELATED = '{"type":"relation","from":"tide gauge","to":"pier","relationType":"stands on"}\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home, with a project and files of proposals and of the reference server; nothing is configured."""
    for name in [name for name in os.environ if name.startswith(("MCP_MEMORY_", "XDG_", "CLAUDE_", "CODEX_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    subprocess.run(["git", "init", "-q", str(home / "your-project")], check=True)
    [proposed] = re.findall(
        r"^```json\n(.*?)^```", (ROOT / "docs" / "learning.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    (home / "proposals.jsonl").write_text(proposed, "utf-8")
    observed = OBSERVED % ("It is wound up on Mondays.", "It is of 1998.")
    (home / "memory.jsonl").write_text(observed + RELATED, "utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("MCP_MEMORY_IDLE_MINUTES", "0")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(home)
    return home


@pytest.mark.skipif(sys.platform == "win32", reason="the pages are for shells of Linux and macOS")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_how_to_prints_what_the_page_shows(
    home: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U3.2."""
    assert _follow(page, home, monkeypatch), "the page has commands"


@pytest.mark.skipif(sys.platform == "win32", reason="the pages are for shells of Linux and macOS")
def test_how_to_pages_run_one_after_the_other_behind_the_tutorial(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U3.2: in the order of the index, as a person with one memory reads them."""
    order = [page for pages in navigation().values() for page in pages]
    assert _follow("tutorial.md", home, monkeypatch)
    for page in sorted(PAGES, key=order.index):
        assert _follow(page, home, monkeypatch)


def test_what_the_page_about_loops_shows_stands_in_the_programs_that_it_names() -> None:
    """U3.2, D11.1: other tests run these."""
    page = (ROOT / "docs" / "agent-loop.md").read_text("utf-8")
    programs = [(ROOT / "docs" / name).read_text("utf-8") for name in re.findall(r"\((examples/\w+\.py)\)", page)]
    lines = [line for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    assert len(lines) == 9
    assert [line for line in lines if not any(line.strip() in program for program in programs)] == []


def _follow(page: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a page's commands, and hold what they print against what it shows; what the last of them printed."""
    printed, variables = "", dict[str, str]()
    for kind, block in BLOCK.findall((ROOT / "docs" / page).read_text("utf-8")):
        if kind == "sh":
            lines = [line for line in block.splitlines() if not line.startswith(OF_CLONE)]
            printed = "".join(_ran_line(line, variables, home, monkeypatch) for line in lines)
        elif page != "tutorial.md":  # Another test plays it whole.
            assert VARIES.sub("…", block).rstrip() in VARIES.sub("…", printed), page
    return printed


def _ran_line(line: str, variables: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in variables.items():
        line = line.replace(f'"${name}"', value)
    kept = KEPT.match(line)
    printed = "".join(
        _ran(shlex.split(each, comments=True), home, monkeypatch) for each in (kept[2] if kept else line).split(" && ")
    )
    if kept is None:
        return printed
    variables[kept[1]] = printed.strip()
    return printed if kept[3] else ""


def _ran(command: list[str], home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command printed; a page has no others than these seven."""
    program, *arguments = (re.sub(r"^~(?=/|$)|\$HOME\b", str(home), part) for part in command)
    match program:
        case "mkdir":
            Path(arguments[-1]).mkdir(parents=True, exist_ok="-p" in arguments)
        case "cd":
            monkeypatch.chdir(arguments[0])
        case "rm":
            shutil.rmtree(arguments[-1])
        case "rmdir":
            Path(arguments[0]).rmdir()
        case "export":
            monkeypatch.setenv(*arguments[0].split("=", 1))
        case "unset":
            monkeypatch.delenv(arguments[0])
        case _:
            assert program == "mcp-memory", command
            ran = CliRunner().invoke(command_line, arguments)
            assert ran.exit_code == 0, (command, ran.output)
            return ran.stdout
    return ""
