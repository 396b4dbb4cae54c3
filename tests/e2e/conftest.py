"""A server process of its own, spoken to line by line, so that tests see exactly what a client sees."""

import contextlib
import itertools
import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from mcp_memory.bridge.door import owner_of
from mcp_memory.bridge.owner_start import LOG_FILE
from mcp_memory.locations import LIVE_FOLDER
from tests.forked import ForkedProcess

PATIENCE_SECONDS = 60.0
HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "end-to-end test", "version": "1"},
}


def server_environment(data_dir: Path) -> dict[str, str]:
    """The environment without anything that configures the server but its data directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_MEMORY_")}
    return kept | {
        "MCP_MEMORY_DATA_DIR": str(data_dir),
        "MCP_MEMORY_CONFIG": str(data_dir / "none.toml"),
        "MCP_MEMORY_NAMESPACE": "test",
        "MCP_MEMORY_IDLE_MINUTES": "0",
    }


class Lines:
    """The lines of a stream, read by a thread, so that waiting for one can end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def next(self, timeout: float = PATIENCE_SECONDS) -> bytes:
        """The next line; b"" at the end. Raises queue.Empty where none comes in time."""
        return self._lines.get(timeout=timeout)

    @property
    def is_empty(self) -> bool:
        return self._lines.empty()

    def _read(self, stream: IO[bytes]) -> None:
        with suppress(ValueError):  # A test that closes the pipe meanwhile takes the buffer away.
            for line in stream:
                self._lines.put(line)
        self._lines.put(b"")


class ServerProcess:
    """A running server, after the handshake unless told otherwise."""

    def __init__(
        self,
        data_dir: Path,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (),
        handshake: bool = True,
        folder: Path | None = None,
        code: str = "",
    ) -> None:
        """`folder` is the one it is started in; by default that of the tests.

        It is forked with everything imported, where no command starts it, and runs this `code` if there is some.
        """
        self._ids = itertools.count(1)
        self._data_dir = data_dir
        self._log_path = data_dir.with_suffix(".log")
        with self._log_path.open("wb") as log:
            options: dict[str, Any] = {
                "stdin": subprocess.PIPE,
                "stdout": subprocess.PIPE,
                "stderr": log,
                "env": {**server_environment(data_dir), **(environment or {})},
                "cwd": folder,
            }
            self.process: subprocess.Popen[bytes] = (
                subprocess.Popen(command, **options) if command else ForkedProcess(code=code, **options)
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self.stdout = self.process.stdin, self.process.stdout
        self.lines = Lines(self.stdout)
        self.hello = self.greet() if handshake else {}

    def greet(self) -> dict[str, Any]:
        """Shake hands; what the server says of itself."""
        hello = self.request("initialize", HANDSHAKE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return hello

    @property
    def log(self) -> str:
        """What the process wrote to stderr, and then the log of the memory's owner."""
        logs = (self._log_path, self._data_dir / LIVE_FOLDER / LOG_FILE)
        return "".join(each.read_text("utf-8") for each in logs if each.exists())

    @property
    def owner(self) -> psutil.Process:
        """The process that owns the memory."""
        return psutil.Process(int(str(owner_of(str(self._data_dir))["pid"])))

    def kill_owner(self) -> None:
        """Kill the process that owns the memory, and this one: it would start another."""
        self.process.kill()
        owner = self.owner
        owner.kill()
        owner.wait(10)

    def send(self, message: Mapping[str, Any] | bytes) -> None:
        """Send a message, or a line as it is."""
        self._stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self._stdin.flush()

    def send_request(self, method: str, params: Mapping[str, Any]) -> int:
        number = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        return self.result_of(self.send_request(method, params))

    def result_of(self, number: int) -> dict[str, Any]:
        """Read up to the answer of that number."""
        while line := self.lines.next():
            answer = json.loads(line)
            if answer.get("id") == number:
                assert "result" in answer, answer
                return answer["result"]
        raise AssertionError(f"The server ended with {self.process.wait()}:\n{self.log}")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of calling a tool."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def call_raw(self, tool: str, arguments: str) -> dict[str, Any]:
        """The result of calling a tool with arguments that no JSON library would write."""
        number = next(self._ids)
        line = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s}}\n'
        self.send((line % (number, tool, arguments)).encode())
        return self.result_of(number)

    def close_input(self) -> None:
        self._stdin.close()

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for stream in (self._stdin, self.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a server with an empty memory is started with."""
    return server_environment(tmp_path / "data")


@pytest.fixture(scope="module")
def started() -> Iterator[list[ServerProcess]]:
    """The servers that run for tests of the module; none outlives it."""
    servers: list[ServerProcess] = []
    yield servers
    for each in servers:
        each.stop()


@pytest.fixture(autouse=True)
def end_with_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test starts for itself ends with it: dozens of owners that wait for a module's end take processor time."""
    servers: list[ServerProcess] = request.getfixturevalue("started") if "started" in request.fixturenames else []
    shared = len(servers)
    yield
    while len(servers) > shared:
        servers.pop().stop()


@pytest.fixture(scope="module")
def start_server(started: list[ServerProcess]) -> Callable[..., ServerProcess]:
    """Starts servers as `ServerProcess` does, for tests that need their own."""

    def start(*arguments: Any, **options: Any) -> ServerProcess:
        started.append(ServerProcess(*arguments, **options))
        return started[-1]

    return start


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with an empty memory."""
    started = ServerProcess(tmp_path / "data")
    yield started
    started.stop()
