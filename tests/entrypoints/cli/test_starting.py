"""The program itself, as a process: what it prints, how it ends, on consoles of every kind."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.core
import typer.main
from mcp import Client, StdioServerParameters

from mcp_memory import __version__
from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.cli import app as command_line
from mcp_memory.entrypoints.cli.program import GROUPS
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.settings import load_settings
from tests.forked import PROGRAM, ForkedProcess, run_forked

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no broken pipes of this kind")
QUIET = {name: value for name, value in os.environ.items() if not name.startswith("MCP_MEMORY_")}


def start(tmp_path: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the program to its end over a memory of its own."""
    settings = {
        "MCP_MEMORY_DATA_DIR": str(tmp_path / "data"),
        "MCP_MEMORY_CONFIG": str(tmp_path / "none.toml"),
        "MCP_MEMORY_NAMESPACE": "test",
    }
    environment = QUIET | settings | variables
    if not any(name.startswith("PYTHON") for name in variables):
        return run_forked(*arguments, env=environment)
    return subprocess.run([*PROGRAM, *arguments], env=environment, capture_output=True, check=False)


def store(tmp_path: Path, text: str) -> None:
    """Put one text into that memory, as a record and as a goal."""
    memory = open_app(load_settings(data_dir=tmp_path / "data", namespace="test"))
    memory.remember([NewRecord(text=text)], memory.caller())
    memory.tasks.push(PushRequest(goal=text), memory.caller())
    memory.close()


def test_it_says_its_version(tmp_path: Path) -> None:
    """S7.1."""
    ran = start(tmp_path, "--version")
    assert ran.stdout.decode().split() == ["mcp-memory", __version__]
    assert ran.returncode == 0


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    """S7.1: help is quick, since it imports neither models nor protocol nor numbers."""
    heavy = {"mcp", "numpy", "onnxruntime", "tiktoken", "dateparser", "pydantic", "rich.console"}
    program = (
        "import sys; from mcp_memory.entrypoints.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: print('LOADED', *sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", program], env=QUIET, capture_output=True, check=True)
    assert b"reindex" in ran.stdout
    assert b"LOADED" in ran.stderr
    assert heavy & set(ran.stderr.decode().split()) == set()


async def test_serve_answers_a_client_over_stdio(tmp_path: Path) -> None:
    """S7.1; serving is also what options without a command mean."""
    settings = {
        "MCP_MEMORY_CONFIG": str(tmp_path / "none.toml"),
        "MCP_MEMORY_IDLE_MINUTES": "0",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    options = ["--data-dir", str(tmp_path / "data"), "--namespace", "chosen"]
    async with AsyncExitStack() as connections:
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        first = connections.enter_context(ForkedProcess("serve", *options, env=QUIET | settings, **streams))
        assert first.stdin
        assert first.stdout
        first.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        first.stdin.flush()
        first.stdout.readline()  # There is an owner now, which those that are really started find.
        for command in (["serve"], []):
            arguments = ["-m", "mcp_memory", *command, *options]
            server = StdioServerParameters(command=sys.executable, args=arguments, env=settings)
            client = await connections.enter_async_context(Client(server))
            [content] = (await client.read_resource("memory://status")).contents
            status = json.loads(content.model_dump()["text"])
            assert status["namespace"] == "chosen"
            assert status["store"]["path"] == str(tmp_path / "data" / "memory.db")


@pytest.mark.parametrize("command", [["serve"], ["status", "--json"], ["list"]])
def test_a_damaged_store_is_one_line_that_names_the_remedy(tmp_path: Path, command: list[str]) -> None:
    """S2.3, S7.1: no traceback, and nothing on stdout."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "memory.db").write_bytes(b"not a database " * 500)
    ran = start(tmp_path, *command)
    assert (ran.returncode, ran.stdout) == (1, b"")
    [line] = ran.stderr.decode().splitlines()
    assert line.startswith("mcp-memory: ")
    assert "mcp-memory restore-backup" in line


def test_a_damaged_file_of_settings_does_not_keep_a_process_from_being_stopped(tmp_path: Path) -> None:
    """S7.1, S3.1: every other command names the file."""
    (tmp_path / "config.toml").write_text("agent = [[", "utf-8")
    stopped = start(tmp_path, "stop", MCP_MEMORY_CONFIG=str(tmp_path / "config.toml"))
    assert "No process serves the memory in" in stopped.stderr.decode()


def test_no_console_is_too_poor_for_any_text(tmp_path: Path) -> None:
    """S7.1, S5.2: what a console cannot show becomes a question mark; JSON stays whole."""
    text = "Übung 练习 🎓 naïve"
    store(tmp_path, text)
    listed = start(tmp_path, "list", "--json", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert json.loads(listed.stdout.decode("ascii"))["results"][0]["text"] == text
    shown = start(tmp_path, "list", PYTHONUTF8="0", PYTHONIOENCODING="cp1252")
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert "Übung ?? ? naïve" in shown.stdout.decode("cp1252")


@pytest.mark.parametrize("columns", ["20", "400"])
def test_terminals_of_every_width_show_every_word(tmp_path: Path, columns: str) -> None:
    """S7.1."""
    words = "never flash the board over the radio link, said the engineer on the roof".split()
    store(tmp_path, " ".join(words))
    for command in ("list", "status"):
        ran = start(tmp_path, command, COLUMNS=columns)
        assert (ran.returncode, ran.stderr) == (0, b"")
        lines = ran.stdout.decode().splitlines()
        assert max(len(line.rstrip()) for line in lines) <= int(columns)
        assert set(words) <= set(ran.stdout.decode().split())


@posix_only
@pytest.mark.parametrize("command", ["demo", "list"])
def test_it_ends_quietly_when_nobody_reads_on(tmp_path: Path, command: str) -> None:
    """S7.1: as when its output goes to `head`."""
    reading, writing = os.pipe()
    os.close(reading)
    settings = {"MCP_MEMORY_DATA_DIR": str(tmp_path / "data"), "MCP_MEMORY_CONFIG": str(tmp_path / "none.toml")}
    with ForkedProcess(command, env=QUIET | settings, stdout=writing, stderr=subprocess.PIPE) as ran:
        os.close(writing)
        _, told = ran.communicate()
    assert b"Traceback" not in told
    assert b"Exception" not in told


def test_every_command_is_described() -> None:
    """S7.1: in docs/command-line.md; what is hidden is for scripts."""
    page = (Path(__file__).parents[3] / "docs" / "command-line.md").read_text("utf-8")
    command = typer.main.get_command(command_line)
    assert isinstance(command, typer.core.TyperGroup)
    for name, each in command.commands.items():
        described = f"`mcp-memory {name}" in page or f"`{name} " in page
        assert described or each.hidden, name
        options = {option for parameter in each.params for option in parameter.opts}
        assert "--json" in options or name in {"serve", "ui", "hook", "completion", "complete", "tokens", "stop"}, name


@pytest.mark.parametrize(
    "command",
    [["status"], ["search", "x"], ["add", "x"], ["doctor"], ["restore", __file__], ["export", "-"], ["tokens", "list"]],
)
def test_a_command_does_not_pass_over_that_the_memory_lies_elsewhere(run: "Run", command: list[str]) -> None:
    """S7.1, S3.1: one line, whether the variable says so or the option."""
    ran = run("--url", "https://memory.example.org", *command)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("mcp-memory: The memory is at https://memory.example.org: run the command where ")
    assert len(ran.err.splitlines()) == 1


def test_an_address_in_the_environment_counts_as_well(run: "Run", monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1: and serving over HTTP what lies elsewhere is refused; what opens no memory is not."""
    monkeypatch.setenv("MCP_MEMORY_URL", "https://memory.example.org")
    assert "unset MCP_MEMORY_URL" in run("list").err
    ran = run("serve", "--http")
    assert (ran.code, ran.out) == (1, "")
    assert "leave out --http, or unset MCP_MEMORY_URL" in ran.err
    assert run("completion", "bash").code == 0
    assert run("install", "cursor", "--dry-run").code == 0


@pytest.mark.parametrize(
    "option", [["--port", "8765"], ["--host", "127.0.0.1"], ["--allowed-host", "a"], ["--anonymous"]]
)
def test_what_concerns_http_alone_needs_it(run: "Run", option: list[str]) -> None:
    """S7.1, S3.1: even with the value that it has by itself."""
    ran = run("serve", *option)
    assert (ran.code, ran.out, ran.err) == (1, "", f"mcp-memory: {option[0]} needs --http.\n")


def test_an_option_is_named_when_it_is_wrong(run: "Run", monkeypatch: pytest.MonkeyPatch) -> None:
    """S3.1: and not the variable, which the environment alone is blamed by."""
    for command in (["serve", "--url", "not-a-url"], ["--url", "not-a-url", "status"]):
        ran = run(*command)
        assert ran.err.startswith("mcp-memory: --url: must be http:// or https://")
        assert "MCP_MEMORY_URL" not in ran.err
    monkeypatch.setenv("MCP_MEMORY_URL", "not-a-url")
    assert "Change MCP_MEMORY_URL" in run("serve").err


def test_nothing_that_is_piped_ends_in_spaces(run: "Run", open_memory: Callable[..., App]) -> None:
    """S7.1: tables are filled up for screens alone."""
    memory = open_memory()
    [stored] = memory.remember([NewRecord(text="The cat sleeps.")], memory.caller())
    for command in (["status"], ["show", stored.id], ["install", "--list"], ["list"], ["tokens", "list"]):
        lines = run(*command).out.splitlines()
        assert lines
        assert [line for line in lines if line != line.rstrip()] == []


def test_help_lists_each_command_once_with_an_example_that_is_one(run: "Run") -> None:
    """U2.1."""
    listed = [name for group in GROUPS.values() for name in group]
    root = typer.main.get_command(command_line)
    assert isinstance(root, typer.core.TyperGroup)
    assert sorted(listed) == sorted(name for name, command in root.commands.items() if not command.hidden)
    helped = run("-h").out
    for title, group in GROUPS.items():
        assert title in helped
        for name, (_, example) in group.items():
            _, *words = shlex.split(example.partition(" <")[0])
            assert words[0] == name
            assert f"Example: {example}" in run(name, "-h").out
            command, rest = root.commands[name], words[1:]
            while isinstance(command, typer.core.TyperGroup) and rest:
                command, rest = command.commands[rest[0]], rest[1:]
            command.make_context(name, rest, parent=root.context_class(root))
    assert "…" not in helped


@pytest.mark.parametrize(
    "words", ["projects rename", "projects merge", "projects quota", "tokens add", "review settle"]
)
def test_a_command_below_another_has_an_example_that_is_one(run: "Run", words: str) -> None:
    """U2.1."""
    told = " ".join(run(*words.split(), "-h").out.split()).partition("Example: mcp-memory ")[2]
    command: Any = typer.main.get_command(command_line)
    name, below, *rest = shlex.split(told)
    assert f"{name} {below}" == words
    command.commands[name].commands[below].make_context(below, rest)
