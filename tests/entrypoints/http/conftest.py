"""A server process that speaks HTTP, and clients that come with a token."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from mcp_memory.app import open_app
from mcp_memory.domain.model.scopes import Grant, Right
from mcp_memory.services.access.access_tokens import AccessTokens
from mcp_memory.settings import load_settings
from tests.forked import ForkedProcess, run_forked

PATIENCE_SECONDS = 60.0
web = httpx2.Client(timeout=PATIENCE_SECONDS, verify=False)
"""Anybody who speaks HTTP."""
ERAS = ["auto", "legacy"]
"""How a client of the SDK connects: by discovery (2026-07-28), or by the handshake (2025-11-25)."""


def environment_of(data_dir: Path, **chosen: str) -> dict[str, str]:
    """The environment without anything that configures the server but its data directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_MEMORY_")}
    return kept | {
        "MCP_MEMORY_DATA_DIR": str(data_dir),
        "MCP_MEMORY_CONFIG": str(data_dir / "none.toml"),
        "MCP_MEMORY_NAMESPACE": "test",
        "MCP_MEMORY_INHERIT": "base,secret",
        "MCP_MEMORY_LOG_LEVEL": "DEBUG",
        "MCP_MEMORY_IDLE_MINUTES": "0",
        **chosen,
    }


def command_line(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_forked(*arguments, env=environment_of(data_dir), encoding="utf-8", timeout=PATIENCE_SECONDS)


@contextmanager
def tokens_of(data_dir: Path) -> Generator[AccessTokens]:
    """The tokens of a memory, as another process of this machine has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_MEMORY_CONFIG", str(data_dir / "none.toml"))
        memory = open_app(load_settings(data_dir=data_dir, namespace="test"))
    try:
        yield memory.tokens
    finally:
        memory.close()


def make_token(data_dir: Path, name: str, *namespaces: str, right: Right = "write", person: str = "") -> str:
    """The secret of a new token for an agent of that name."""
    grant = Grant(agent=name, person=person, namespaces=namespaces or ("shop",), right=right)
    with tokens_of(data_dir) as tokens:
        return tokens.add(name, grant)[0]


def revoke_token(data_dir: Path, name: str) -> None:
    with tokens_of(data_dir) as tokens:
        tokens.revoke(name)


class HttpServer:
    """A running server, its address, and what it has logged."""

    def __init__(self, data_dir: Path, *options: str, open_files: int | None = None, **settings: object) -> None:
        """`settings` by their names; `open_files` is how many the process may have."""
        self.data_dir = data_dir
        arguments = ["serve", "--http", *(options or ("--port", "0"))]
        limits = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({open_files}, {open_files}))\n"
        code = f"{limits}from mcp_memory.__main__ import main\nmain()" if open_files else ""
        pipes: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": environment_of(
                data_dir, **{f"MCP_MEMORY_{name.upper()}": str(value) for name, value in settings.items()}
            ),
            "encoding": "utf-8",
        }
        self.process = ForkedProcess(*arguments, code=code, **pipes)
        self._lines: list[str] = []
        self._is_up = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._is_up.wait(PATIENCE_SECONDS)
        said = [line for line in self._lines if line.startswith("Serving MCP at ")]
        assert said, self.log
        self.url = said[0].split()[-1]
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])

    @property
    def log(self) -> str:
        return "".join(self._lines)

    def address(self, path: str) -> str:
        return self.url.removesuffix("/mcp") + path

    def end(self) -> int:
        """Tell the process to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE_SECONDS)
        assert self.process.stdout
        assert self.process.stderr
        self.process.stdout.close()
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self._lines.append(line)
            if line.startswith("Serving MCP at "):
                self._is_up.set()
        self._is_up.set()


def headers_of(token: str, namespace: str = "") -> dict[str, str]:
    return ({"authorization": f"Bearer {token}"} if token else {}) | (
        {"mcp-memory-namespace": namespace} if namespace else {}
    )


@asynccontextmanager
async def connected(
    url: str, token: str = "", era: str = "auto", namespace: str = "", **options: Any
) -> AsyncGenerator[Client]:
    """A client of the SDK that comes with this token."""
    async with (
        httpx2.AsyncClient(headers=headers_of(token, namespace), timeout=PATIENCE_SECONDS, verify=False) as by_token,
        Client(streamable_http_client(url, http_client=by_token), mode=era, **options) as client,
    ):
        yield client


def text_of(result: CallToolResult) -> str:
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def found(client: Client, query: str) -> list[str]:
    """The texts with these words that a search for them finds, sorted."""
    result = await client.call_tool("recall", {"query": query, "limit": 50})
    assert result.structured_content is not None, text_of(result)
    texts = [str(each["text"]) for each in result.structured_content["results"]]
    return sorted(text for text in texts if query in text)


def post(
    url: str, method: str, params: Mapping[str, Any], headers: Mapping[str, str], message_id: int = 1
) -> httpx2.Response:
    """A message of the era with sessions, as anybody could write it."""
    own = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
    body = {"jsonrpc": "2.0", "id": message_id, "method": method, "params": params}
    return web.post(url, json=body, headers=own)


def open_session(url: str, token: str) -> str:
    """Shake hands by hand; the session's id."""
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    }
    answer = post(url, "initialize", hello, headers_of(token))
    assert answer.status_code == 200, answer.text
    session: str = answer.headers["mcp-session-id"]
    body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    headers = {"accept": "application/json, text/event-stream", "mcp-session-id": session, **headers_of(token)}
    assert web.post(url, json=body, headers=headers).status_code == 202
    return session


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def start_http() -> Iterator[Callable[..., HttpServer]]:
    """Starts servers as `HttpServer` does; none outlives its module."""
    with ExitStack() as started:

        def start(*arguments: Any, **chosen: Any) -> HttpServer:
            server = HttpServer(*arguments, **chosen)
            started.callback(server.kill)
            return server

        yield start
