"""Several processes at one address: a client cannot tell, whichever is killed, stopped or busy."""

import contextlib
import re
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageRequestParams, CreateMessageResult, TextContent

from mcp_memory.entrypoints.http.workers import DOWN, HttpWorker, Shared
from tests.entrypoints.http.conftest import (
    ERAS,
    HttpServer,
    command_line,
    connected,
    headers_of,
    make_token,
    open_session,
    post,
    revoke_token,
    text_of,
    wait_until,
    web,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there")
WORKERS = 2
SEVERAL = ("--port", "0", "--workers", str(WORKERS))
RECALL = {"name": "recall", "arguments": {"query": "number"}}
ACCEPTED = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
Start = Callable[..., HttpServer]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def workers_of(server: HttpServer) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children()


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def ask(url: str, message: Mapping[str, Any], headers: Mapping[str, str], client: httpx2.Client | None = None) -> int:
    """Send a message on a connection of its own, unless one is given; the answer's status."""
    if client is not None:
        return client.post(url, json=message, headers={**ACCEPTED, **headers}).status_code
    with httpx2.Client(timeout=60, verify=False) as own:
        return ask(url, message, headers, own)


@contextlib.contextmanager
def another_writer(data_dir: Path) -> Generator[None]:
    """Whoever stores something waits meanwhile, however quick the machine is."""
    with contextlib.closing(sqlite3.connect(data_dir / "memory.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")


def in_flight(server: HttpServer) -> int:
    page = web.get(server.address("/metrics"), headers={"connection": "close"}).text
    return int(float(re.findall(r"^mcp_memory_calls_in_flight (\S+)$", page, re.MULTILINE)[0]))


def places(sessions: list[str]) -> set[str]:
    """The workers of the sessions."""
    return {session.partition(".")[0] for session in sessions}


def sessions_everywhere(server: HttpServer, token: str = "") -> list[str]:
    """Sessions, some in each worker: each begins on a connection of its own, which is kept open beside the others."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    found: list[str] = []
    with contextlib.ExitStack() as connections:
        while len(places(found)) < WORKERS or len(found) < 2 * WORKERS:
            client = connections.enter_context(httpx2.Client(timeout=60, verify=False))
            headers = {**ACCEPTED, **headers_of(token)}
            found.append(client.post(server.url, json=message, headers=headers).headers["mcp-session-id"])
            mine = {"mcp-session-id": found[-1], **headers_of(token)}
            assert ask(server.url, ready, mine, client) == 202
    return found


def test_a_session_is_reached_on_every_connection(data_dir: Path, start_http: Start) -> None:
    """L4.2: on new ones, on one that serves all sessions in turn as a proxy's does, and where a request trickles in."""
    server = start_http(data_dir, *SEVERAL)
    sessions = sessions_everywhere(server)
    assert places(sessions) == {"0", "1"}
    with httpx2.Client(timeout=60, verify=False) as shared:
        for round_trip in range(2):
            for session in sessions:
                own = {"mcp-session-id": session}
                goal = call("push_task", goal=f"Goal {round_trip} of {session}")
                assert ask(server.url, goal, own, shared) == 200
                assert ask(server.url, call("recall", query="goal"), own) == 200
    for session in sessions:
        popped = post(
            server.url, "tools/call", {"name": "pop_task", "arguments": {"result": "done"}}, {"mcp-session-id": session}
        )
        assert f"Goal 1 of {session}" in popped.text
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
        lines = {**ACCEPTED, "host": "127.0.0.1", "mcp-session-id": session, "content-length": len(body)}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        request = f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body
        with socket.create_connection(("127.0.0.1", server.port), 60) as dripping:
            for start in range(0, len(request), 40):
                dripping.sendall(request[start : start + 40])
            assert dripping.recv(100).startswith(b"HTTP/1.1 200")
    assert post(server.url, "tools/call", RECALL, {"mcp-session-id": "7.unknown"}).status_code == 404
    large = call("remember", text="long " * 300_000)  # More than goes through a pipe at once.
    assert {ask(server.url, large, {"mcp-session-id": session}) for session in sessions} == {200}


@pytest.mark.parametrize("era", ERAS)
async def test_the_servers_questions_are_answered_wherever_the_answer_arrives(
    data_dir: Path, start_http: Start, era: str
) -> None:
    """L4.2: in the newer era the call is repeated, and the other worker opens what the first one sealed."""
    server = start_http(data_dir, *SEVERAL)
    messages = [
        {"role": role, "content": f"About gulls, part {number}. " + "They fly over the harbour wall. " * 60}
        for number in range(12)
        for role in ("user", "assistant")
    ]
    with contextlib.ExitStack() as idle:
        beside = [socket.create_connection(("127.0.0.1", server.port))]  # The first call comes to the other worker.

        async def answer(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
            beside.append(idle.enter_context(socket.create_connection(("127.0.0.1", server.port))))
            beside[0].close()  # The next one comes to the worker that this was at.
            said = TextContent(type="text", text="They spoke of gulls.")
            return CreateMessageResult(role="assistant", content=said, model="m")

        limits = httpx2.Limits(max_keepalive_connections=0)
        async with (
            httpx2.AsyncClient(timeout=60, verify=False, limits=limits) as by_itself,
            Client(
                streamable_http_client(server.url, http_client=by_itself), mode=era, sampling_callback=answer
            ) as client,
        ):
            arguments = {"messages": messages, "summarizer": "sampling", "window": 4_000}
            done = await client.call_tool("compact", arguments)
        assert len(beside) > 1
        assert not done.is_error, text_of(done)
        assert "The summary was not taken" in text_of(done)  # It was given, and lacks what a summary must hold.


def test_tokens_and_namespaces_are_the_same_in_every_worker(data_dir: Path, start_http: Start) -> None:
    """L4.2, S4.2: a session is nobody else's, and a token that was revoked is refused by all from then on."""
    ann, bob = (make_token(data_dir, name, namespace) for name, namespace in (("ann", "shop"), ("bob", "pier")))
    server = start_http(data_dir, *SEVERAL)
    sessions = sessions_everywhere(server, ann)
    for number, session in enumerate(sessions):
        own = {"mcp-session-id": session}
        text = f"Gull {number} nests here."
        assert ask(server.url, call("remember", text=text), own | headers_of(ann)) == 200
        assert ask(server.url, call("recall", query="gull"), own | headers_of(bob)) == 404
        assert ask(server.url, call("recall", query="gull"), own) == 401
        assert ask(server.url, call("recall", query="gull"), own | headers_of(ann, "pier")) == 403
    for token, expected in ((ann, len(sessions)), (bob, 0)):
        for session in sessions_everywhere(server, token):
            answer = post(
                server.url,
                "tools/call",
                {"name": "recall", "arguments": {"query": "gull", "limit": 50}},
                {"mcp-session-id": session, **headers_of(token)},
            )
            assert len(set(re.findall(r"Gull \d+ nests", answer.text))) == expected
    revoke_token(data_dir, "ann")
    for session in sessions:
        assert ask(server.url, call("recall", query="gull"), {"mcp-session-id": session, **headers_of(ann)}) == 401


def test_a_worker_that_is_killed_is_replaced_and_the_others_go_on(data_dir: Path, start_http: Start) -> None:
    """L4.2: its sessions are gone and say so, what was acknowledged is there, and figures go on counting."""
    server = start_http(data_dir, *SEVERAL)
    sessions = sessions_everywhere(server)
    for session in sessions:
        assert ask(server.url, call("remember", text=f"Before {session}"), {"mcp-session-id": session}) == 200
    victim = workers_of(server)[1]
    outcomes: dict[str, int | str] = {}

    def store(session: str) -> None:
        try:
            outcomes[session] = ask(
                server.url, call("remember", text=f"Mid-call {session}"), {"mcp-session-id": session}
            )
        except httpx2.HTTPError as error:
            outcomes[session] = type(error).__name__

    threads = [threading.Thread(target=store, args=(session,)) for session in sessions]
    with another_writer(data_dir):
        for thread in threads:
            thread.start()
        wait_until(lambda: in_flight(server) == len(sessions))
        victim.kill()
        wait_until(lambda: len(outcomes) == sum(session.startswith("1.") for session in sessions))
    for thread in threads:
        thread.join(60)
    for session in sessions:
        assert (outcomes[session] == 200) == session.startswith("0."), outcomes
        expected = 200 if session.startswith("0.") else 404  # It waits for the new worker, which knows no such session.
        assert ask(server.url, call("recall", query="before"), {"mcp-session-id": session}) == expected
    assert victim.pid not in [worker.pid for worker in workers_of(server)]
    assert places(sessions_everywhere(server)) == {"0", "1"}
    figures = web.get(server.address("/metrics")).text
    assert f'mcp_memory_calls_total{{outcome="ok",tool="remember"}} {len(sessions) + len(sessions) / 2:.1f}' in figures
    assert in_flight(server) == 0
    assert "Workers [1] have ended; others take their places." in server.log
    fresh = {"mcp-session-id": open_session(server.url, "")}
    texts = post(server.url, "tools/call", {"name": "recall", "arguments": {"limit": 50}}, fresh).text
    for session in sessions:
        assert f"Before {session}" in texts
        assert (f"Mid-call {session}" in texts) == (outcomes[session] == 200)


def test_told_to_stop_all_workers_finish_what_is_in_flight(data_dir: Path, start_http: Start) -> None:
    """L4.2, S5.1: calls that come later are refused, and no process stays."""
    server = start_http(data_dir, *SEVERAL)
    sessions = sessions_everywhere(server)
    family = psutil.Process(server.process.pid).children(recursive=True)
    for session in sessions:
        assert ask(server.url, call("recall", query="number"), {"mcp-session-id": session}) == 200
    statuses: list[int] = []

    def store(session: str) -> None:
        statuses.append(ask(server.url, call("remember", text=f"Of {session}"), {"mcp-session-id": session}))

    threads = [threading.Thread(target=store, args=(session,)) for session in sessions]
    with another_writer(data_dir):
        for thread in threads:
            thread.start()
        wait_until(lambda: in_flight(server) == len(sessions))
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: {ask(server.url, call("recall"), {"mcp-session-id": each}) for each in sessions} == {503})
        assert statuses == []
    assert server.process.wait(60) == 0
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * len(sessions)
    assert psutil.wait_procs(family, 30)[1] == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_the_process_that_started_it(data_dir: Path, start_http: Start, how: signal.Signals) -> None:
    """L4.2."""
    server = start_http(data_dir, *SEVERAL)
    family = workers_of(server)
    assert len(family) == WORKERS
    server.process.send_signal(how)
    if how == signal.SIGINT:
        assert server.process.wait(60) == 0
    assert psutil.wait_procs(family, 30)[1] == []


def test_what_keeps_one_from_serving_is_said_once(data_dir: Path) -> None:
    """L4.2, S4.2: as one process says it."""
    done = command_line(data_dir, "serve", "--http", *SEVERAL, "--host", "0.0.0.0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("make one first with `mcp-memory tokens add`") == 1
    assert "have ended" not in done.stderr


def test_sixty_four_clients_at_once_are_all_answered(data_dir: Path, start_http: Start) -> None:
    """L4.2: in both workers, by turns. One that is told to ask again in a while does so."""
    server = start_http(data_dir, *SEVERAL, http_calls=4)
    statuses: list[int] = []

    def work(number: int) -> None:
        own = {"mcp-session-id": open_session(server.url, "")}
        for n in range(2):
            status = 503
            for _ in range(20):
                status = ask(server.url, call("remember", text=f"Client {number} says {n}."), own)
                if status != 503:
                    break
                time.sleep(0.2)
            statuses.append(status)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 128
    assert "mcp_memory_records 128.0" in web.get(server.address("/metrics")).text


def test_a_call_beyond_those_that_may_wait_is_told_what_to_do(data_dir: Path, start_http: Start) -> None:
    """L4.2."""
    server = start_http(data_dir, http_calls=1, http_waiting_calls=1)
    sessions = [{"mcp-session-id": open_session(server.url, "")} for _ in range(3)]
    *busy, own = sessions
    assert ask(server.url, call("recall", query="number"), own) == 200
    calls = [threading.Thread(target=ask, args=(server.url, call("remember", text="One"), each)) for each in busy]
    with another_writer(data_dir):
        for each in calls:
            each.start()
        wait_until(lambda: in_flight(server) == 2)
        refused = post(server.url, "tools/call", RECALL, own)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "The server is busy" in refused.json()["error"]["message"]
        assert web.get(server.address("/healthz")).status_code == 200
    for each in calls:
        each.join(60)


async def test_a_call_that_waits_for_its_client_lets_others_work(data_dir: Path, start_http: Start) -> None:
    """L4.2."""
    server = start_http(data_dir, http_calls=1, http_waiting_calls=1)
    own = {"mcp-session-id": open_session(server.url, "")}
    meanwhile: list[int] = []

    async def answer(_context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
        meanwhile.append(await anyio.to_thread.run_sync(ask, server.url, call("recall", query="number"), own))
        said = TextContent(type="text", text="They spoke of gulls.")
        return CreateMessageResult(role="assistant", content=said, model="m")

    messages = [{"role": "user", "content": f"Gull {n}. " + "They fly over the wall. " * 60} for n in range(24)]
    async with connected(server.url, era="legacy", sampling_callback=answer) as client:
        done = await client.call_tool("compact", {"messages": messages, "summarizer": "sampling", "window": 4_000})
        assert not done.is_error, text_of(done)
    assert meanwhile
    assert set(meanwhile) == {200}


def test_where_a_request_belongs() -> None:
    """By its session; else by its token, unless the worker of that has more to do."""
    shared = Shared.of(3)
    Path(shared.figures).rmdir()
    for number in range(3):
        shared.loads[number] = 1
    me = HttpWorker(1, 0, shared)

    def home(head: bytes, *, is_first: bool = True) -> int:
        return me.home(b"POST /mcp HTTP/1.1\r\n" + head, is_first=is_first)

    assert home(b"Mcp-Session-Id: 2.7f3a\r\nAuthorization: Bearer x") == 2
    assert home(b"MCP-SESSION-ID:0.7f3a", is_first=False) == 0
    assert home(b"mcp-session-id: 3.7f3a") == home(b"mcp-session-id: 7f3a") == home(b"x-mcp-session-id: 2.7f") == 1
    assert me.is_elsewhere("2.7f3a")
    assert not me.is_elsewhere("1.7f3a")
    homes = {token: home(b"authorization: Bearer " + token) for token in map(b"%d".__mod__, range(50))}
    assert set(homes.values()) == {0, 1, 2}
    far = next(token for token, number in homes.items() if number == 2)
    for load, expected in ((2, 1), (DOWN, 1), (1, 2)):
        shared.loads[2] = load
        assert home(b"authorization: Bearer " + far) == expected
    assert home(b"authorization: Bearer " + far, is_first=False) == 1
    assert me.lightest() == 1
    shared.loads[2] = 0
    assert me.lightest() == 2
    for pair in shared.inboxes:
        for end in pair:
            end.close()
