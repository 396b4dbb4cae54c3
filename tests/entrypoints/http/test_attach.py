"""A process over stdio that passes everything on to a server over HTTP: what an agent's host starts."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import psutil
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    CreateMessageRequestParams,
    CreateMessageResult,
    TextContent,
)

from mcp_memory.entrypoints.server import attach
from mcp_memory.entrypoints.server.attach import read_message
from mcp_memory.entrypoints.server.remote_address import connection_options, endpoint
from tests.e2e.test_stdio import PARENT
from tests.ear import Ear
from tests.entrypoints.http.conftest import (
    ERAS,
    PATIENCE_SECONDS,
    HttpServer,
    environment_of,
    found,
    make_token,
    text_of,
    wait_until,
)
from tests.forked import ForkedProcess, forked_stdio, run_forked

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> HttpServer:
    data_dir = tmp_path_factory.mktemp("attach") / "data"
    make_token(data_dir, "other")
    return start_http(data_dir)


@pytest.fixture(scope="module")
def secret(server: HttpServer) -> str:
    return make_token(server.data_dir, "ann", "shop", "grüße/west")


@asynccontextmanager
async def attached(
    url: str,
    secret: str,
    tmp_path: Path,
    era: str = "auto",
    sampling: Any = None,
    message_handler: Any = None,
    **chosen: str,
) -> AsyncGenerator[Client]:
    environment = environment_of(tmp_path / "unused", MCP_MEMORY_URL=url, MCP_MEMORY_TOKEN=secret, **chosen)
    if "MCP_MEMORY_NAMESPACE" not in chosen:
        del environment["MCP_MEMORY_NAMESPACE"]
    async with Client(
        forked_stdio(environment), mode=era, sampling_callback=sampling, message_handler=message_handler
    ) as client:
        yield client
    assert not (tmp_path / "unused" / "memory.db").exists()


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_over_stdio_works_with_the_servers_memory(
    server: HttpServer, secret: str, tmp_path: Path, era: str
) -> None:
    """S4.2, S6.2: as the token's agent, and in the namespace that was chosen; nothing is kept here."""
    async with attached(server.url, secret, tmp_path, era) as client:
        assert client.instructions
        assert len((await client.list_tools()).tools) == 8
        await client.call_tool("remember", {"text": f"Übung {era} 🎓\nmacht den Meister"})
        assert await found(client, f"Übung {era}") == [f"Übung {era} 🎓\n  macht den Meister"]
        assert (await client.read_resource("memory://tasks")).contents
        assert (await client.call_tool("no_such_töol", {})).is_error
    async with attached(server.address(""), secret, tmp_path, era, MCP_MEMORY_NAMESPACE="grüße/west") as client:
        assert await found(client, f"Übung {era}") == []


@pytest.mark.parametrize("era", ERAS)
async def test_the_servers_questions_reach_the_client(
    server: HttpServer, secret: str, tmp_path: Path, era: str
) -> None:
    async def answer(_context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text="They spoke of gulls."), model="m"
        )

    messages = [
        {"role": role, "content": f"About gulls, part {number}. " + "They fly over the harbour wall. " * 60}
        for number in range(12)
        for role in ("user", "assistant")
    ]
    async with attached(server.url, secret, tmp_path, era, answer) as client:
        done = await client.call_tool(
            "compact",
            {"messages": messages, "summarizer": "sampling", "window": 4_000, "session_id": f"gulls {era}"},
            progress_callback=_ignore,
        )
        assert not done.is_error, text_of(done)
        assert "The summary was not taken" in text_of(done)  # It was given, and lacks what a summary must hold.


async def _ignore(progress: float, total: float | None, message: str | None) -> None:
    """The client asked for progress, so that it travels too."""


@pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_starts_anew_is_waited_for_and_the_session_goes_on(
    tmp_path: Path, start_http: Callable[..., HttpServer], era: str
) -> None:
    """S4.2: what was asked meanwhile is answered, and what the client follows is followed."""
    secret = make_token(tmp_path / "data", "ann")
    first, ear = start_http(tmp_path / "data"), Ear()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with (
            attached(first.url, secret, tmp_path, era, message_handler=ear.take) as client,
            ear.listening(client, era, "memory://tasks") as heard,
        ):
            await client.call_tool("push_task", {"goal": "Polish the brass."})
            assert await heard() == "memory://tasks"
            first.end()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "remember", {"text": "A lamp was lit."})
                await anyio.sleep(0.2)
                await anyio.to_thread.run_sync(start_http, tmp_path / "data", "--port", str(first.port))
            assert await found(client, "lamp") == ["A lamp was lit."]
            await anyio.sleep(2 * attach.LISTEN_SECONDS)
            await client.call_tool("push_task", {"goal": "Guard the harbour."})
            assert await heard() == "memory://tasks"


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_whose_answer_was_lost_is_asked_again_and_done_once(
    server: HttpServer, secret: str, tmp_path: Path, era: str
) -> None:
    """S4.2: it is known by its number; one that loses two answers is not asked a third time."""
    with CutWire(server.port) as wire:
        async with attached(f"http://127.0.0.1:{wire.port}/mcp", secret, tmp_path, era) as client:
            wire.cuts = 1
            done = await client.call_tool("remember", {"text": f"Told once, {era}."})
            assert done.structured_content is not None
            assert len(done.structured_content["made"]) == 1
            wire.cuts = 2
            with pytest.raises(MCPError, match="may be stored or not"):
                await client.call_tool("remember", {"text": f"Told twice, {era}."})
            assert (wire.cuts, await found(client, f", {era}")) == (0, [f"Told once, {era}.", f"Told twice, {era}."])


class CutWire:
    """A way to a server that loses the next `cuts` answers to `remember`, once it has them."""

    def __init__(self, port: int) -> None:
        self.cuts = 0
        self._upstream = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets = [self._listener]

    def __enter__(self) -> "CutWire":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end(*self._sockets)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._upstream))
                self._sockets += [near, far]
                asked = threading.Event()
                threading.Thread(target=self._carry, args=(near, far, asked, b'"remember"'), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, asked, b'"result"'), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, asked: threading.Event, mark: bytes) -> None:
        with suppress(OSError):
            while piece := source.recv(65_536):
                if mark == b'"remember"' and mark in piece:
                    asked.set()
                elif asked.is_set() and self.cuts and mark in piece:
                    self.cuts -= 1
                    break
                target.sendall(piece)
        self._end(source, target)

    def _end(self, *ended: socket.socket) -> None:
        for each in ended:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


async def test_a_server_that_is_away_is_named_and_found_again(
    tmp_path: Path, start_http: Callable[..., HttpServer]
) -> None:
    """S4.2: calls fail after a while, then at once, and the session goes on once it is back."""
    secret = make_token(tmp_path / "data", "ann")
    first = start_http(tmp_path / "data")
    async with attached(first.url, secret, tmp_path, "legacy") as client:
        await client.call_tool("remember", {"text": "A lamp was lit."})
        first.end()
        for _ in range(2):
            with pytest.raises(MCPError, match=f"The memory at {first.url} does not answer; start its server"):
                await client.call_tool("recall", {"query": "lamp"})
        start_http(tmp_path / "data", "--port", str(first.port))
        assert await found(client, "lamp") == ["A lamp was lit."]


async def test_a_token_that_is_wrong_is_told_to_the_client(server: HttpServer, tmp_path: Path) -> None:
    """S4.2."""
    async with attached(server.url, "mcpm_wrong", tmp_path, "2026-07-28") as client:
        with pytest.raises(MCPError, match="is unknown, was revoked or has expired"):
            await client.call_tool("recall", {"query": "lamp"})


@pytest.fixture
def by_hand(server: HttpServer, secret: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process, spoken to line by line."""
    with ForkedProcess(
        "--url",
        server.url,
        env=environment_of(tmp_path / "unused", MCP_MEMORY_TOKEN=secret, MCP_MEMORY_NAMESPACE=""),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield process
        process.kill()


def say(process: subprocess.Popen[bytes], *lines: bytes) -> None:
    assert process.stdin
    process.stdin.write(b"".join(line + b"\n" for line in lines))
    process.stdin.flush()


def hear(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout
    return json.loads(process.stdout.readline())


def test_it_answers_what_is_due_and_goes_when_its_input_ends(by_hand: subprocess.Popen[bytes]) -> None:
    """S5.1, X3.2: a line that is no message is refused here."""
    say(by_hand, b"no message")
    assert (refusal := hear(by_hand))["error"]["code"] == -32700
    assert refusal["id"] is None
    say(by_hand, json.dumps(HELLO).encode())
    assert hear(by_hand)["result"]["serverInfo"]["name"] == "mcp-memory"
    call = {"jsonrpc": "2.0", "id": "last", "method": "tools/call"}
    call |= {"params": {"name": "recall", "arguments": {"query": "gulls"}}}
    say(by_hand, b'{"jsonrpc":"2.0","method":"notifications/initialized"}', json.dumps(call).encode())
    assert by_hand.stdin
    by_hand.stdin.close()
    assert hear(by_hand)["id"] == "last"
    assert by_hand.wait(PATIENCE_SECONDS) == 0


def test_a_call_that_is_cancelled_is_not_answered(by_hand: subprocess.Popen[bytes]) -> None:
    """S6.2: in the era without sessions its connection is closed; the calls beside it go on."""
    meta: dict[str, Any] = {PROTOCOL_VERSION_META_KEY: "2026-07-28", CLIENT_CAPABILITIES_META_KEY: {}}
    long = {"items": [{"text": f"{number} is a number. " + "On and on. " * 300} for number in range(20)]}
    calls: list[dict[str, Any]] = [
        {"id": 0, "method": "tools/call", "params": {"name": "remember", "arguments": long, "_meta": meta}},
        {"method": "notifications/cancelled", "params": {"requestId": ["none"]}},
        {"method": "notifications/cancelled", "params": {"requestId": 0}},
        {"id": 1, "method": "tools/list", "params": {"_meta": meta}},
    ]
    say(by_hand, *(json.dumps({"jsonrpc": "2.0", **call}).encode() for call in calls))
    answer = hear(by_hand)
    assert (answer["id"], len(answer["result"]["tools"])) == (1, 8)
    assert by_hand.stdin
    by_hand.stdin.close()
    assert by_hand.wait(PATIENCE_SECONDS) == 0
    assert by_hand.stdout
    assert by_hand.stdout.read() == b""


def test_strange_words_of_a_message_are_the_servers_to_refuse(by_hand: subprocess.Popen[bytes]) -> None:
    """S3.1: its headers repeat them, and hold no such letters; the calls behind it are answered."""
    for number, (method, version) in enumerate(
        (("tööls/list", "2026-07-28"), ("tools/list", "2026-ü"), ("a\r\nb: c", "x"))
    ):
        meta: dict[str, Any] = {PROTOCOL_VERSION_META_KEY: version, CLIENT_CAPABILITIES_META_KEY: {}}
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {"_meta": meta}}
        say(by_hand, json.dumps(message).encode())
        answer = hear(by_hand)
        assert (answer["id"], "error" in answer) == (number, True)
    say(by_hand, json.dumps(HELLO).encode())
    assert "result" in hear(by_hand)


def test_no_proxy_stands_between_it_and_its_own_machine(server: HttpServer, secret: str, tmp_path: Path) -> None:
    """S4.2: it would be told the token, and does not lead here."""
    ours = {"MCP_MEMORY_TOKEN": f" {secret} ", "MCP_MEMORY_NAMESPACE": "", "HTTP_PROXY": "http://127.0.0.1:9"}
    environment = environment_of(tmp_path / "unused", **ours, http_proxy="http://127.0.0.1:9")
    done = run_forked(
        "--url",
        server.url,
        env={name: value for name, value in environment.items() if name.lower() != "no_proxy"},
        input=json.dumps(HELLO).encode() + b"\n",
        timeout=PATIENCE_SECONDS,
    )
    assert b'"serverInfo"' in done.stdout, done.stderr


async def test_a_notice_that_the_server_does_not_take_holds_nothing_up_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S5.1: what comes behind it is read, and the end of the input too."""
    monkeypatch.setattr(attach, "NOTICE_SECONDS", 0.1)
    written: list[bytes] = []

    async def lines() -> AsyncGenerator[bytes]:
        yield b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'

    async def write(text: bytes) -> None:
        written.append(text)

    with socket.create_server(("127.0.0.1", 0)) as silent, anyio.fail_after(PATIENCE_SECONDS / 2):
        async with httpx2.AsyncClient(verify=False, timeout=PATIENCE_SECONDS) as client:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
            await attach.Bridge(url, client, write).run(lines())
    assert written == []


PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
CUT = httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=": nothing\n\n")
FULL = httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Busy."}})


@pytest.mark.parametrize(
    ("replies", "told"),
    [
        ([FULL], "Busy."),
        (["hello", FULL, "pong"], "pong"),
        (["hello", 502, "pong"], "pong"),
        ([502], "gave no answer (status 502); start its server"),
        (["hello", CUT, "pong"], "pong"),
        (["hello", CUT, CUT], "may be stored or not"),
        (["hello", 404, "hello", "pong"], "pong"),
        (["hello", 404, "hello", 404], "does not keep its sessions; start its server"),
    ],
)
async def test_what_a_server_replies_decides_whether_it_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, replies: list[Any], told: str
) -> None:
    """S4.2: a server that was there is asked again; the sessions that it has forgotten are opened again."""
    monkeypatch.setattr(attach, "RETRY_SECONDS", 0.01)
    written: list[bytes] = []
    has_written = anyio.Event()
    left = iter(replies)

    async def reply(request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":
            return httpx2.Response(200)
        chosen = next(left)
        if isinstance(chosen, int):
            return httpx2.Response(chosen, text="<html>")
        if isinstance(chosen, httpx2.Response):
            return httpx2.Response(chosen.status_code, headers=chosen.headers, content=chosen.content)
        result = {"protocolVersion": "2025-11-25"} if chosen == "hello" else {"said": chosen}
        body = {"jsonrpc": "2.0", "id": json.loads(request.content)["id"], "result": result}
        return httpx2.Response(200, json=body, headers={"mcp-session-id": "one"})

    async def lines() -> AsyncGenerator[bytes]:
        for message in [HELLO, PING] if replies[0] == "hello" else [PING]:
            yield json.dumps(message).encode() + b"\n"
            await has_written.wait()

    async def write(text: bytes) -> None:
        written.append(text)
        has_written.set()

    with anyio.fail_after(PATIENCE_SECONDS):
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(reply)) as client:
            await attach.Bridge("http://memory.test/mcp", client, write).run(lines())
    assert told in written[-1].decode()
    assert list(left) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows tells a child nothing of its parent's end")
def test_it_goes_when_its_parent_is_killed(server: HttpServer, tmp_path: Path) -> None:
    """S5.1: though somebody else holds its input open."""
    reading, writing = os.pipe()
    options: dict[str, Any] = {"env": environment_of(tmp_path / "unused"), "stdin": reading, "stdout": subprocess.PIPE}
    with ForkedProcess("--url", server.url, code=PARENT, **options) as parent:
        os.write(writing, json.dumps(HELLO).encode() + b"\n")
        assert parent.stdout
        assert parent.stdout.readline()
        [child] = psutil.Process(parent.pid).children()
        parent.kill()
        wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    os.close(reading)
    os.close(writing)


def test_a_server_is_named_alone_or_with_its_path() -> None:
    assert endpoint("https://memory.example.com") == "https://memory.example.com/mcp"
    assert endpoint("http://localhost:8765/") == "http://localhost:8765/mcp"
    assert endpoint("https://example.com/team/mcp") == "https://example.com/team/mcp"


@pytest.mark.parametrize(
    ("session_id", "named"),
    [("", {"user-agent": "Claude-Code", "mcp-protocol-version": "v"}), ("s1", {"mcp-protocol-version": "v"})],
)
def test_each_message_names_its_client_where_no_session_does(session_id: str, named: dict[str, str]) -> None:
    """M1.1: one of several servers has not seen the handshake."""
    hello = json.dumps({"method": "initialize", "params": {"clientInfo": {"name": "Claude Code"}}}).encode()
    session = attach._Session(id=session_id, version="v", client=attach._client_of(hello))  # noqa: SLF001
    headers = attach._headers_of(read_message(b"{}"), session)  # noqa: SLF001
    assert {name: headers[name] for name in ("user-agent", "mcp-protocol-version") if name in headers} == named


@pytest.mark.parametrize("line", [b"[]", b"1", b'{"params": [1]}', b'{"params": {"_meta": 1}}'])
def test_a_strange_line_is_a_message_of_no_kind(line: bytes) -> None:
    message = read_message(line)
    assert (message.method, message.version, message.is_request) == ("", "", False)


@pytest.mark.parametrize(
    ("url", "is_checked", "by_proxy"),
    [
        ("https://memory.example.com", True, True),
        ("HTTPS://memory.example.com/mcp", True, True),
        ("http://memory.example.com", False, True),
        ("http://LOCALHOST:8765/mcp", False, False),
    ],
)
def test_certificates_are_checked_and_no_proxy_is_told_of_this_machine(
    url: str, is_checked: bool, by_proxy: bool
) -> None:
    assert connection_options(url) == {"verify": is_checked, "trust_env": by_proxy}
