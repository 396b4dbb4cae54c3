"""X1.1, X1.2: servers, hooks and commands that are started in a folder run nothing of it."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from mcp_memory.entrypoints.clients.catalogue import client_named, places_here
from mcp_memory.entrypoints.clients.entries import Wanted, command_of, plan_install, running_command
from tests.hostile_folder import HostileFolder

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

PATIENCE_SECONDS = 60.0
PLUGIN = Path(__file__).parents[2] / "plugin"
PROGRAM = str(Path(sys.executable).with_name("mcp-memory"))
"""The installed command, as a person calls it."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileFolder:
    return HostileFolder(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(autouse=True)
def nothing_ran(hostile: HostileFolder) -> Iterator[None]:
    yield
    assert hostile.take_witness() == []


def plugin_server() -> Mapping[str, Any]:
    return json.loads((PLUGIN / ".mcp.json").read_text("utf-8"))["mcpServers"]["memory"]


def plugin_hooks() -> dict[str, str]:
    """The command line of each hook, as the plugin hands it to a shell."""
    hooks = json.loads((PLUGIN / "hooks" / "hooks.json").read_text("utf-8"))["hooks"]
    return {name: matcher["hooks"][0]["command"] for name, (matcher,) in hooks.items()}


def careless(environment: Mapping[str, str]) -> dict[str, str]:
    """With the commonest slip in a shell's profile, which puts the working directory first on Python's path."""
    return {
        **environment,
        "PYTHONPATH": f"{os.pathsep}/opt/lib",
        "PATH": f"{Path(PROGRAM).parent}{os.pathsep}/usr/bin:/bin",
    }


def written_by_install() -> Sequence[str]:
    wanted = Wanted(start=running_command(), name="memory", variables={}, project=False, force=False)
    return command_of(plan_install(client_named("claude-code"), wanted, places_here()).entry)


def test_a_server_and_its_index_process_run_nothing_of_the_folder(
    hostile: HostileFolder, tmp_path: Path, start_server: "Callable[..., ServerProcess]"
) -> None:
    """X1.1, X1.2: they store, embed, search, read dates and redact there; the child works in the data directory.

    The window that `install` writes starts the owner; that of the plugin, which trusts the environment less, joins it.
    """
    environment = careless({"MCP_MEMORY_SEMANTIC_STORE": "chroma"})
    server = start_server(tmp_path / "data", environment, written_by_install(), folder=hostile.path)
    server.call("remember", text="Ines deploys on Tuesdays; password=correct-horse-42-battery", kind="decision")
    assert server.call("recall", query="when did Ines deploy last week?")["structuredContent"] is not None
    server.call("assemble_context", max_tokens=500)
    child = the_child_of(server.owner.pid)
    assert Path(child.cwd()) == (tmp_path / "data").resolve()
    assert not [name for name in child.environ() if name.startswith("PYTHON")]
    assert plugin_server()["command"] == "mcp-memory"
    second = start_server(tmp_path / "data", environment | plugin_server()["env"], (PROGRAM,), folder=hostile.path)
    assert "Ines" in json.dumps(second.call("recall", query="who deploys?"))


def the_child_of(pid: int) -> psutil.Process:
    """The index process, once it has loaded what it needs."""
    for _ in range(600):
        for child in psutil.Process(pid).children(recursive=True):
            if any("chroma" in mapped.path for mapped in child.memory_maps()):
                return child
        time.sleep(0.1)
    raise AssertionError("no index process came up")


def test_hooks_of_the_plugin_run_nothing_of_the_folder(
    hostile: HostileFolder, tmp_path: Path, environment: dict[str, str]
) -> None:
    """X1.1: even where the shell's own configuration puts the folder on Python's path; one starts an owner for all.

    It is left to end by itself: what goes on behind the session's end would start the next one.
    """
    transcript = tmp_path / "transcript.jsonl"
    said = {
        "type": "user",
        "message": {"role": "user", "content": "Deploy on Tuesday."},
        "uuid": "u1",
        "sessionId": "s1",
    }
    transcript.write_text(json.dumps(said) + "\n", "utf-8")
    payload = {
        "session_id": "s1",
        "transcript_path": str(transcript),
        "cwd": str(hostile.path),
        "prompt": "When do we deploy?",
        "compact_summary": "Deploys were discussed.",
        "source": "startup",
    }
    for name, command in sorted(plugin_hooks().items(), key=lambda each: each[0] != "PostToolUse"):
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps({**payload, "hook_event_name": name}).encode(),
            capture_output=True,
            env=careless(environment) | {"MCP_MEMORY_IDLE_MINUTES": "0.2"},
            cwd=hostile.path,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b""), name


@pytest.mark.parametrize("arguments", ["add Remembered.", "doctor --json"])
def test_a_command_runs_nothing_of_the_folder(
    arguments: str, hostile: HostileFolder, environment: dict[str, str]
) -> None:
    """X1.1."""
    done = subprocess.run(
        [PROGRAM, *shlex.split(arguments)],
        capture_output=True,
        env=environment,
        cwd=hostile.path,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    assert b"evil" not in done.stdout


def test_run_as_a_module_it_drops_the_folder_before_it_imports_anything(
    hostile: HostileFolder, tmp_path: Path, environment: dict[str, str]
) -> None:
    """X1.1: what Python itself imports for `-m` comes before us; `-I` is how to keep it out too.

    The folder here holds the planted modules but those that Python's own start of a module needs.
    """
    folder = tmp_path / "clone"
    folder.mkdir()
    listing = "import runpy, sys; print(*(name.split('.')[0] for name in sys.modules))"
    started = subprocess.run([sys.executable, "-I", "-c", listing], capture_output=True, text=True, check=True)
    by_python = {*started.stdout.split(), "mcp_memory"}
    for planted in hostile.path.glob("*.py"):
        if planted.stem not in by_python:
            (folder / planted.name).write_bytes(planted.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "mcp_memory", "install", "--list"],
        capture_output=True,
        env=environment,
        cwd=folder,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
