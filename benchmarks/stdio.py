"""A server process over standard input and output, and the plainest client there can be. Knows no server's tools."""

import itertools
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

start_program: Callable[..., subprocess.Popen[Any]] = subprocess.Popen


class ServerGone(Exception):
    """The server ended before it answered."""


class Client:
    """Starts a server and calls it. One thread at a time.

    `log` takes what the server writes to standard error; `directory` is where it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: Path | None = None,
        log: Path | None = None,
    ) -> None:
        with (log or Path("/dev/null")).open("ab") as errors:
            self._process = start_program(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=directory,
            )
        self._numbers = itertools.count(1)
        self.pid = self._process.pid

    def initialize(self) -> None:
        """Shake hands. Raises as `request` does."""
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        }
        self.request("initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The structured answer, {} where it is prose. Raises RuntimeError with the message of a failed call."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(result["content"][0]["text"])
        return result.get("structuredContent", {})

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of any request. Raises RuntimeError with an error's message, ServerGone where no answer comes."""
        number = next(self._numbers)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                break  # Cut off by a kill.
            answer = json.loads(line)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return answer["result"]
        raise ServerGone

    def kill(self) -> None:
        """SIGKILL, in the middle of whatever it does."""
        self._process.kill()

    def end(self, patience_seconds: float) -> None:
        """Close its input, as a client does, and kill it where it does not end by itself."""
        with suppress(OSError, subprocess.TimeoutExpired):
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(patience_seconds)
        self.close()

    def close(self) -> None:
        """Kill it, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert stream is not None
                stream.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ServerGone from error
