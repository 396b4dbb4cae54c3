"""The server as hosts run it: a process that answers over its standard streams, and goes when they do."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from tests.chroma import until
from tests.e2e.conftest import ServerProcess
from tests.forked import PROGRAM, ForkedProcess

WORKER = "vectors.chroma.worker"
LEAVING_SECONDS = 20.0  # It takes about one; a test tells ending from staying, not fast from slow.
LONG_CALL = {"items": [{"text": f"{number} is a number. " + "It goes on and on. " * 400} for number in range(40)]}
"""Takes seconds to embed."""

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows tells a child nothing of its parent's end")


def start_long_call(server: "ServerProcess") -> None:
    """Return once the call is in flight: a later request has been answered."""
    server.send_request("tools/call", {"name": "remember", "arguments": LONG_CALL})
    server.request("ping", {})


@contextmanager
def at_long_call(server: "ServerProcess", *, is_busy: bool) -> "Generator[None]":
    """With the call in flight, if so; at the end nobody waits for the process that goes on with it."""
    if not is_busy:
        yield
        return
    start_long_call(server)
    owner = server.owner
    try:
        yield
    finally:
        owner.kill()


def is_alive(process: psutil.Process) -> bool:
    """False also for a process that has ended where nobody has taken notice, as in a container without an init."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_client_of_the_sdk_is_served_in_both_eras(server: ServerProcess, environment: dict[str, str]) -> None:
    """S5.1, S6.2: by processes of its own, which find an owner there."""
    command = StdioServerParameters(command=sys.executable, args=["-m", "mcp_memory"], env=environment)
    async with AsyncExitStack() as connections:
        for era, text in (("auto", "Übung macht den Meister 🎓"), ("legacy", "Morgenstund hat Gold im Mund 🌅")):
            client = await connections.enter_async_context(Client(command, mode=era))
            assert client.instructions
            assert len((await client.list_tools()).tools) == 8
            await client.call_tool("remember", {"text": text})
            result = await client.call_tool("assemble_context", {"query": text.split()[0]})
            assert isinstance(result.content[0], TextContent)
            assert text in result.content[0].text


def test_the_handshake_says_who_serves(server: "ServerProcess") -> None:
    """S5.1."""
    assert server.hello["serverInfo"]["name"] == "mcp-memory"
    assert server.hello["protocolVersion"] == "2025-11-25"
    assert "assemble_context" in server.hello["instructions"]


def test_it_ends_at_once_when_its_input_closes(server: "ServerProcess") -> None:
    """S5.1."""
    server.close_input()
    assert server.process.wait(timeout=LEAVING_SECONDS) == 0
    assert server.log == ""


def test_it_ends_when_its_input_closes_while_models_are_loading(
    tmp_path: Path, start_server: "Callable[..., ServerProcess]"
) -> None:
    """S5.1: really started; one that is forked has them."""
    server = start_server(tmp_path / "data", command=PROGRAM)
    server.request("tools/list", {})
    server.close_input()
    assert server.process.wait(timeout=LEAVING_SECONDS) == 0
    assert server.log == ""


def test_it_ends_when_its_input_closes_with_a_call_in_flight(server: "ServerProcess") -> None:
    """S5.1."""
    with at_long_call(server, is_busy=True):
        server.close_input()
        assert server.process.wait(timeout=LEAVING_SECONDS) == 0
        assert "Traceback" not in server.log


def test_requests_that_are_piped_in_are_answered_before_it_ends(server: "ServerProcess") -> None:
    server.call("remember", text="With this, all that is slow has been loaded")
    numbers = {
        server.send_request("tools/call", {"name": "remember", "arguments": {"text": f"Fact number {number}"}})
        for number in range(3)
    }
    server.close_input()
    answers = [json.loads(line) for line in iter(server.lines.next, b"")]
    assert {answer["id"] for answer in answers if not answer["result"]["isError"]} == numbers
    assert server.process.wait(timeout=LEAVING_SECONDS) == 0


def test_what_was_acknowledged_is_there_for_the_next_process(
    tmp_path: Path, start_server: "Callable[[Path], ServerProcess]"
) -> None:
    """R1, S5.1."""
    first = start_server(tmp_path / "data")
    record_id = first.call("remember", text="The cat is called Schrödinger")["structuredContent"]["records"][0]["id"]
    first.close_input()
    first.process.wait(timeout=LEAVING_SECONDS)
    second = start_server(tmp_path / "data")
    opened = second.call("recall", ids=[record_id], detail="full")["structuredContent"]
    second.stop()
    assert opened["results"][0]["text"] == "The cat is called Schrödinger"


PARENT = """
import os
from mcp_memory.__main__ import main
server = os.fork()  # It inherits our input and output.
if server == 0:
    main()
    os._exit(0)
os.waitpid(server, 0)
"""


@posix_only
@pytest.mark.parametrize("busy", [False, True])
def test_it_ends_when_its_parent_is_killed_though_its_input_stays_open(
    tmp_path: Path, start_server: "Callable[..., ServerProcess]", busy: bool
) -> None:
    """S5.1."""
    server = start_server(tmp_path / "data", code=PARENT)
    [grandchild] = psutil.Process(server.process.pid).children()
    with at_long_call(server, is_busy=busy):
        server.process.kill()
        server.process.wait()
        deadline = time.monotonic() + LEAVING_SECONDS
        while server.lines.next(timeout=deadline - time.monotonic()):
            pass  # its output ends with it; our end of its input is still open
        while is_alive(grandchild):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    server.stop()


@posix_only
@pytest.mark.parametrize("call", [b"", b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n'])
def test_it_ends_when_nobody_reads_its_output(tmp_path: Path, environment: dict[str, str], call: bytes) -> None:
    """S5.1."""
    read_end, write_end = os.pipe()
    with (
        (tmp_path / "log").open("wb") as log,
        ForkedProcess(stdin=subprocess.PIPE, stdout=write_end, stderr=log, env=environment) as process,
    ):
        os.close(write_end)
        assert process.stdin is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert b'"result"' in os.read(read_end, 1000)
        os.close(read_end)
        process.stdin.write(call)
        process.stdin.flush()
        assert process.wait(timeout=LEAVING_SECONDS) == 0
    assert (tmp_path / "log").read_text("utf-8") == ""


@posix_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("busy", [False, True])
def test_it_ends_quietly_when_told_to(server: "ServerProcess", number: signal.Signals, busy: bool) -> None:
    """S5.1."""
    with at_long_call(server, is_busy=busy):
        server.process.send_signal(number)
        assert server.process.wait(timeout=LEAVING_SECONDS) == 0
        assert server.log == ""


AT_REST = """
import signal, time
from mcp_memory.bridge.end_with_client import end_with_client, leave

end_with_client(leave)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])  # so that another thread takes them
print("at rest", flush=True)
time.sleep(3600)
"""


@posix_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_does_not_wake_its_main_thread_ends_it_too(number: signal.Signals) -> None:
    """S5.1: as one that comes in the moment before that thread waits for its client."""
    with ForkedProcess(code=AT_REST, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"at rest\n"
        process.send_signal(number)
        try:
            assert process.wait(timeout=LEAVING_SECONDS) == 0
        finally:
            process.kill()


def test_its_one_child_is_the_index_process_which_ends_with_it(
    tmp_path: Path, start_server: "Callable[..., ServerProcess]"
) -> None:
    """S5.1: however it ends; the child's own children, if any, too."""
    server = start_server(tmp_path / "data", environment={"MCP_MEMORY_SEMANTIC_STORE": "chroma"})
    server.call("remember", text="something to embed")
    server.call("recall", query="something")
    process = server.owner
    children: list[psutil.Process] = []
    for _ in range(600):
        children = process.children(recursive=True)
        if children and WORKER in " ".join(children[0].cmdline()):  # A fork has its parent's words for a moment.
            break
        time.sleep(0.05)
    assert len(children) == 1
    assert WORKER in " ".join(children[0].cmdline())
    process.kill()
    assert psutil.wait_procs(children, timeout=30)[1] == []


OF_SETTINGS = {"auto": "; Chroma takes over from 20,000 in one scope", "exact": ", as the settings say"}


@pytest.mark.parametrize("environment", [{}, {"MCP_MEMORY_SEMANTIC_STORE": "exact"}])
def test_without_an_index_it_has_no_children(
    tmp_path: Path, start_server: "Callable[..., ServerProcess]", environment: dict[str, str]
) -> None:
    """S5.1, S2.2: a memory that is not large needs none; warmed up, as the status shows."""
    server = start_server(tmp_path / "data", environment=environment)
    server.call("remember", text="something to embed")
    server.call("recall", query="something")

    def index() -> dict[str, str]:
        page = server.request("resources/read", {"uri": "memory://status"})["contents"][0]["text"]
        return json.loads(page)["index"]

    if not environment:
        until(lambda: index()["state"] == "not needed")
    said = index()["says"]
    assert said == f"exact search over 1 vector{OF_SETTINGS[environment.get('MCP_MEMORY_SEMANTIC_STORE', 'auto')]}"
    assert server.owner.children(recursive=True) == []
    assert psutil.Process(server.process.pid).children(recursive=True) == []
    server.stop()
    assert not (tmp_path / "data" / "chroma").exists()


def test_output_is_the_protocol_alone_and_utf_8_whatever_the_console(
    tmp_path: Path, start_server: "Callable[..., ServerProcess]"
) -> None:
    """S5.2."""
    console = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "MCP_MEMORY_LOG_LEVEL": "DEBUG"}
    server = start_server(tmp_path / "data", environment=console, command=PROGRAM)
    stored = server.call("remember", text="naïve café 🎓 日本語")["structuredContent"]["records"][0]
    server.send(b"no message \xff\n")
    number = server.send_request("tools/call", {"name": "recall", "arguments": {"ids": [stored["id"]]}})
    lines = [server.lines.next(), server.lines.next()]
    server.close_input()
    rest = server.lines.next()
    server.stop()
    ids = {json.loads(line.decode("utf-8"))["id"] for line in lines}
    assert ids == {None, number}
    assert "naïve café 🎓 日本語".encode() in b"".join(lines)
    assert rest == b""
    assert "DEBUG" in server.log
    assert "naïve" not in server.log


@posix_only
def test_its_children_cannot_read_the_protocol(server: "ServerProcess") -> None:
    """S5.2."""
    numbers = Path(f"/proc/{server.owner.pid}/fd")
    if not numbers.exists():
        pytest.skip("this system has no /proc")
    assert (numbers / "0").readlink() == Path(os.devnull)
    assert (numbers / "1").readlink() == Path(os.devnull)
    of_client = {each.readlink() for each in Path(f"/proc/{server.process.pid}/fd").iterdir()}
    assert not [each for each in of_client if "pipe" in each.name and each in {n.readlink() for n in numbers.iterdir()}]


def test_requests_before_any_handshake_do_not_end_it(
    tmp_path: Path, start_server: "Callable[..., ServerProcess]"
) -> None:
    """S3.1."""
    server = start_server(tmp_path / "data", handshake=False)
    server.send(b"hello\n")
    server.send({"jsonrpc": "2.0", "id": "early", "method": "tools/list"})
    assert "error" in json.loads(server.lines.next())
    server.greet()
    assert server.request("tools/list", {})["tools"]
    server.stop()


def test_a_group_is_settled_and_undone_over_stdio(server: "ServerProcess") -> None:
    """N2.1: offered by `remember`, settled and taken back by `revise`, told by the resource."""

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        return server.call(tool, **arguments)["structuredContent"]

    def waiting() -> int:
        (content,) = server.request("resources/read", {"uri": "memory://review"})["contents"]
        return json.loads(content["text"])["waiting"]

    (first,) = call("remember", text="The database listens on port 5432.")["records"]
    (second,) = call("remember", text="The database listens on port 5433.")["records"]
    settled = call("revise", id=second["group"], settle="supersedes", keep=first["id"])
    assert (settled["settled"], waiting()) == ("supersedes", 0)
    undone = call("revise", id=str(settled["change"]), settle="undo")
    assert ([each["status"] for each in undone["restored"]], waiting()) == (["new"], 1)
