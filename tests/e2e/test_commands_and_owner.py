"""Commands and servers beside the process that owns a memory (L1.2, S1.1): it runs commands, and leaves the memory."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from mcp_memory.bridge import private_sockets
from tests.e2e.conftest import Lines
from tests.forked import ForkedProcess, run_forked

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")

HARBOUR = "The harbour crane lifts forty tonnes."
LOADS_NOTHING = """
import sys
from mcp_memory.__main__ import main
try:
    main()
finally:
    assert "mcp_memory.app" not in sys.modules, "it opened the memory itself"
"""
OPENS_NOTHING = """
from mcp_memory.app import App
from mcp_memory.__main__ import main
def refuse(*given, **named):
    raise AssertionError("it opened the memory itself")
App.__init__ = refuse
main()
"""
INTERRUPTIBLE = """
import signal
from mcp_memory.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


@pytest.fixture
def window(start_server: "Callable[..., ServerProcess]", tmp_path: Path) -> "ServerProcess":
    """A window whose memory holds one fact, in a process that owns it."""
    started = start_server(tmp_path / "data", folder=tmp_path)
    started.call("remember", items=[{"text": HARBOUR}])
    return started


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs a command beside the owner, in the folder of the test; it fails where it opens the memory."""

    def run_one(*arguments: str, text: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
        env = {**environment, **variables}
        return run_forked(*arguments, code=OPENS_NOTHING, input=text, env=env, cwd=tmp_path, timeout=60)

    return run_one


Run = Callable[..., subprocess.CompletedProcess[bytes]]


@contextmanager
def over_http(environment: dict[str, str], *arguments: str) -> Generator[tuple[ForkedProcess, str]]:
    """A server over HTTP, and the first line that it says."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    options: dict[str, Any] = {"env": environment, **streams}
    with ForkedProcess("serve", "--http", "--port", "0", *arguments, **options) as process:
        assert process.stderr is not None
        try:
            yield process, Lines(process.stderr).next().decode()
        finally:
            process.terminate()


def test_the_owner_runs_a_command(window: "ServerProcess", run: Run, tmp_path: Path) -> None:
    """With the streams, the folder and the exit code of the process that asks."""
    status = json.loads(run("status", "--json").stdout)
    assert status["owner"]["pid"] == window.owner.pid
    assert "Named by you" in " ".join(run("status").stdout.decode().split())
    [found] = json.loads(run("search", "crane", "--json").stdout)["results"]
    assert found["text"] == HARBOUR
    added = run("add", "-", text="Der Kran hält bei Böen über 20 m/s an.".encode())
    record_id = added.stdout.decode().strip()
    assert json.loads(run("show", record_id, "--json").stdout)["text"].startswith("Der Kran hält")
    assert record_id in json.dumps(window.call("recall", query="Böen"))
    for again in ("15 m/s", "12 m/s"):  # Each command is a session of its own, and has seen what those before it did.
        assert run("edit", record_id, "--text", f"Der Kran hält bei Böen über {again} an.").returncode == 0
    run("export", "memory.jsonl")
    streamed = run("export", "-")
    assert (tmp_path / "memory.jsonl").read_bytes() == streamed.stdout
    unknown = run("show", "r999999")
    assert (unknown.returncode, unknown.stdout) == (1, b"")
    assert unknown.stderr.startswith(b"mcp-memory: No record 'r999999'")


def test_a_command_beside_an_owner_loads_no_memory(
    window: "ServerProcess", environment: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", LOADS_NOTHING, "add", "The yard closes at six."]
    subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, timeout=60, check=True)


def test_a_command_has_names_of_its_own(window: "ServerProcess", run: Run) -> None:
    run("add", "Only for the yard.", "--namespace", "yard")
    run("add", "Only for the night watch.", "--visibility", "private", MCP_MEMORY_AGENT="watch")
    assert b"yard" not in run("list").stdout
    assert b"night watch" not in run("list").stdout
    assert b"the yard" in run("list", "--namespace", "yard").stdout
    assert b"night watch" in run("--agent", "watch", "list").stdout


def test_doctor_tells_what_is_around_a_memory_and_in_it(window: "ServerProcess", run: Run) -> None:
    parts = [each["part"] for each in json.loads(run("doctor", "--json").stdout)]
    assert (parts[0], "database" in parts, "vectors" in parts) == ("folder", True, True)


def test_settings_that_do_not_count_are_told(window: "ServerProcess", run: Run) -> None:
    """A command that would make no sense with the others is refused."""
    other = {"MCP_MEMORY_ENCODING": "cl100k_base"}
    listed = run("list", **other)
    assert (listed.returncode, b"MCP_MEMORY_ENCODING" in listed.stderr) == (0, True)
    refused = run("reindex", **other)
    assert refused.returncode == 1
    assert b"MCP_MEMORY_ENCODING" in refused.stderr
    assert b"mcp-memory stop" in refused.stderr


def test_an_owner_that_stands_still_is_told_of(window: "ServerProcess", environment: dict[str, str]) -> None:
    """Nobody opens the file beside it."""
    stopped = window.owner
    stopped.suspend()
    code = "from mcp_memory.bridge import door\ndoor.LOST_SECONDS = 4.0\n" + OPENS_NOTHING
    try:
        listed = run_forked("list", code=code, env=environment, timeout=60)
    finally:
        stopped.resume()
    assert (listed.returncode, listed.stdout) == (1, b"")
    assert f"(pid {stopped.pid}) does not answer".encode() in listed.stderr


def test_an_interrupted_command_says_what_became_of_it(window: "ServerProcess", environment: dict[str, str]) -> None:
    window.call("remember", items=[{"text": f"Gauge {number} is {'x' * 20_000}."} for number in range(32)])
    options: dict[str, Any] = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = ForkedProcess("export", "-", code=INTERRUPTIBLE, **options)
    assert process.stdout is not None
    process.stdout.read(10)  # It writes into a full pipe now.
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Interrupted" in err


def test_a_server_over_http_takes_the_memory_and_serves_the_windows(
    window: "ServerProcess", environment: dict[str, str], run: Run
) -> None:
    former = window.owner.pid
    with over_http(environment) as (server, line):
        address = re.search(r"http://\S+", line)
        assert address, line
        assert not psutil.pid_exists(former) or psutil.Process(former).status() == psutil.STATUS_ZOMBIE
        assert HARBOUR in json.dumps(window.call("recall", query="crane"))
        assert window.owner.pid == server.pid
        assert json.loads(run("status", "--json").stdout)["owner"]["at"] in address[0]
        second = run_forked("serve", "--http", "--port", "0", env=environment, timeout=60)
        assert second.returncode == 1
        assert f"Process {server.pid} serves this memory at http://".encode() in second.stderr
        window.call("remember", items=[{"text": "The crane was painted in May."}])
    assert "painted" in json.dumps(window.call("recall", query="painted crane"))
    assert window.owner.pid not in (former, server.pid)


def test_stop_ends_a_server_over_http(environment: dict[str, str], run: Run) -> None:
    with over_http(environment) as (server, _line):
        assert run("stop").returncode == 0
        assert server.wait(10) == 0


def test_windows_go_on_with_a_memory_that_was_restored(
    window: "ServerProcess", run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    assert run("backup", "copy.db").returncode == 0
    window.call("remember", items=[{"text": "The second crane is on order."}])
    former = window.owner.pid
    restored = run_forked("restore", "copy.db", env=environment, cwd=tmp_path, timeout=60)
    assert restored.returncode == 0, restored.stderr
    answer = json.dumps(window.call("recall", query="crane"))
    assert (HARBOUR in answer, "second crane" in answer) == (True, False)
    assert window.owner.pid != former


def test_a_window_is_served_by_a_command_that_holds_the_memory(
    start_server: "Callable[..., ServerProcess]", environment: dict[str, str], tmp_path: Path
) -> None:
    """And goes on with an owner of its own when the command has ended."""
    exported = tmp_path / "memory.jsonl"
    run_forked("add", HARBOUR, "--data-dir", str(tmp_path / "other"), env=environment, timeout=60)
    run_forked("export", str(exported), "--data-dir", str(tmp_path / "other"), env=environment, timeout=60)
    first, rest = exported.read_bytes().split(b"\n", 1)
    options: dict[str, Any] = {
        "env": environment,
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    run_forked("add", "The yard closes at six.", env=environment, timeout=60)
    with ForkedProcess("import", "-", **options) as importing:
        assert importing.stdin is not None
        importing.stdin.write(first + b"\n")
        importing.stdin.flush()
        started = start_server(tmp_path / "data", folder=tmp_path)
        assert "closes at six" in json.dumps(started.call("recall", query="When does the yard close?"))
        _, told = importing.communicate(rest, timeout=60)
        assert importing.returncode == 0, told
    assert HARBOUR in json.dumps(started.call("recall", query="crane"))


def test_an_interrupt_reaches_a_command_that_waits_for_its_input(
    window: "ServerProcess", environment: dict[str, str]
) -> None:
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    options: dict[str, Any] = {"env": environment, **streams}
    with ForkedProcess("import", "-", code=INTERRUPTIBLE, **options) as importing:
        time.sleep(0.5)
        importing.send_signal(signal.SIGINT)
        assert importing.wait(10) == 130


def test_many_commands_at_once_without_an_owner_are_all_done(environment: dict[str, str], tmp_path: Path) -> None:
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    options: dict[str, Any] = {"env": environment, **streams}
    run_forked("add", HARBOUR, env=environment, timeout=60)
    added = [ForkedProcess("add", f"Gauge {number} is read.", **options) for number in range(8)]
    assert [each.wait(120) for each in added] == [0] * 8
    listed = run_forked("list", "--limit", "100", "--json", env=environment, timeout=60)
    assert len(json.loads(listed.stdout)["results"]) == 9


def test_a_command_reads_no_input_that_it_has_no_use_for(window: "ServerProcess", environment: dict[str, str]) -> None:
    """A shell's next lines stay for the shell."""
    read_end, write_end = os.pipe()
    os.write(write_end, b"next line")
    with ForkedProcess("list", stdin=read_end, stdout=subprocess.DEVNULL, env=environment) as listing:
        assert listing.wait(60) == 0
    os.close(write_end)
    with os.fdopen(read_end, "rb") as rest:
        assert rest.read() == b"next line"


def test_the_page_ends_in_order_with_its_owner(window: "ServerProcess", environment: dict[str, str], run: Run) -> None:
    options: dict[str, Any] = {"env": environment, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with ForkedProcess("ui", "--no-browser", **options) as page:
        assert page.stdout is not None
        assert b"/ui/enter?key=" in page.stdout.readline()
        begun = time.monotonic()
        assert run("stop").returncode == 0
        assert page.wait(10) == 0
        assert time.monotonic() < begun + 9, "the owner was ended by its timer"
    assert HARBOUR in json.dumps(window.call("recall", query="crane"))
