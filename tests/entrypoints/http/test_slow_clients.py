"""X6.1: clients that dawdle lose their connection, and never keep others out."""

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from mcp_memory.entrypoints.http.connections import LOOPBACK, MAX_LINGERING, ConnectionPool, Limits, address_of
from tests.entrypoints.http.conftest import (
    PATIENCE_SECONDS,
    HttpServer,
    headers_of,
    make_token,
    open_session,
    post,
    wait_until,
    web,
)

RECALL = {"name": "recall", "arguments": {"query": "anything"}}
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> HttpServer:
    """A server that waits for nobody."""
    data_dir = tmp_path_factory.mktemp("hasty") / "data"
    return start_http(data_dir, http_head_seconds=0.4, http_transfer_seconds=0.4, http_idle_seconds=1)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> HttpServer:
    """A server with token whose limits no test lives to see."""
    data_dir = tmp_path_factory.mktemp("patient") / "data"
    make_token(data_dir, "ann")
    make_token(data_dir, "bob", "base")
    return start_http(data_dir, http_head_seconds=3_000, http_transfer_seconds=3_000, http_idle_seconds=3_000)


@pytest.fixture
def opened() -> Iterator[list[socket.socket]]:
    """Sockets that are closed after the test."""
    sockets: list[socket.socket] = []
    yield sockets
    for each in sockets:
        each.close()


def dial(server: HttpServer, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    client.sendall(sent)
    return client


def hear(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    heard = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65_536):
            heard += piece
    return heard


def head_of(server: HttpServer, length: str, token: str = "") -> bytes:
    """The head of a call whose body is still to come."""
    authorization = f"authorization: Bearer {token}\r\n" if token else ""
    own = f"host: localhost:{server.port}\r\naccept: application/json, text/event-stream\r\n{authorization}"
    return f"POST /mcp HTTP/1.1\r\n{own}content-type: application/json\r\n{length}\r\n\r\n".encode()


def listening(server: HttpServer, session: str) -> bytes:
    """What opens the stream of a session."""
    own = f"host: localhost:{server.port}\r\naccept: text/event-stream\r\nmcp-session-id: {session}"
    return f"GET /mcp HTTP/1.1\r\n{own}\r\n\r\n".encode()


@contextlib.contextmanager
def dripping(client: socket.socket, drop: bytes) -> Generator[None]:
    """Send the same again and again, until the connection is lost or the block ends."""
    is_over = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not is_over.wait(0.02):
                client.sendall(drop)

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def dial_and_never_read(server: HttpServer) -> socket.socket:
    """A client that sends many requests at once, whose answers fill every buffer on the way."""
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":'
    )
    body += b'"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
    era = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list"
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.settimeout(PATIENCE_SECONDS)
    client.connect(("127.0.0.1", server.port))
    with contextlib.suppress(OSError):
        client.sendall((head_of(server, f"{era}\r\ncontent-length: {len(body)}") + body) * 600)
    return client


def connections_of(server: HttpServer) -> int:
    """How many clients the server's process holds."""
    return sum(each.status == psutil.CONN_ESTABLISHED for each in psutil.Process(server.process.pid).net_connections())


def is_well(server: HttpServer) -> bool:
    with dial(server, HEALTH.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")) as client:
        return hear(client).startswith(b"HTTP/1.1 200")


def test_a_silent_connection_is_closed(hasty: HttpServer) -> None:
    """X6.1."""
    with dial(hasty) as client:
        assert hear(client) == b""


@pytest.mark.parametrize(("start", "drop"), [(b"", b"x"), (b"GET / HTTP/1.1\r\n", b"x: y\r\n")])
def test_a_head_that_drips_in_is_given_up(hasty: HttpServer, start: bytes, drop: bytes) -> None:
    """X6.1: on a new connection, and behind an answer on one that was kept."""
    for first in (b"", HEALTH):
        with dial(hasty, first) as client:
            if first:
                assert client.recv(65_536).startswith(b"HTTP/1.1 200")
            client.sendall(start)
            with dripping(client, drop):
                assert is_well(hasty)
                heard = hear(client)
        assert b"HTTP/1.1 408 Request Timeout\r\nconnection: close" in heard


def test_a_head_that_was_begun_is_told_why_it_is_given_up(hasty: HttpServer) -> None:
    """X6.1."""
    with dial(hasty, b"POST /mcp HTTP/1.1\r\n") as client:
        assert hear(client).startswith(b"HTTP/1.1 408 Request Timeout\r\nconnection: close")


def test_a_body_that_drips_in_is_given_up(hasty: HttpServer) -> None:
    """X6.1."""
    for length, drop in (("content-length: 100000", b" "), ("transfer-encoding: chunked", b"1\r\n \r\n")):
        with dial(hasty, head_of(hasty, length)) as client, dripping(client, drop):
            heard = hear(client)
        assert heard.startswith(b"HTTP/1.1 408")
        assert b"connection: close" in heard
        assert "did not arrive in 0.4 seconds" in json.loads(heard.partition(b"\r\n\r\n")[2])["error"]["message"]


def test_a_body_that_drips_in_without_a_token_is_not_waited_for(patient: HttpServer) -> None:
    """X6.1."""
    with dial(patient, head_of(patient, "content-length: 100000")) as client, dripping(client, b" "):
        heard = hear(client)
    assert heard.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in heard


def test_bodies_without_an_end_are_not_read_after_a_refusal(patient: HttpServer, opened: list[socket.socket]) -> None:
    """X6.1: nor with a token that reads on for ever."""
    chunk = b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n"
    with contextlib.ExitStack() as stack:
        for path in ("/mcp", "/metrics", "/healthz", "/.well-known/oauth-protected-resource", "/none") * 4:
            head = head_of(patient, "transfer-encoding: chunked").replace(b"/mcp", path.encode())
            opened.append(dial(patient, head))
            stack.enter_context(dripping(opened[-1], chunk))
        assert is_well(patient)
        assert all(b"connection: close" in hear(each) for each in opened)
        wait_until(lambda: connections_of(patient) == 0)


def test_who_sends_too_much_is_told_so_after_the_last_byte(patient: HttpServer) -> None:
    """X6.1: a connection that was reset would lose the answer."""
    token = make_token(patient.data_dir, "eve")
    body = b"x" * (5 * 2**20)
    for head in (f"content-length: {len(body)}", f"transfer-encoding: chunked\r\n\r\n{len(body):x}"):
        with dial(patient, head_of(patient, head, token).removesuffix(b"\r\n" if "chunked" in head else b"")) as client:
            client.sendall(body)
            heard = hear(client)
        assert heard.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in heard


def test_a_refusal_closes_the_connection_and_an_answer_does_not(patient: HttpServer) -> None:
    """X6.1."""
    token, other = make_token(patient.data_dir, "kim"), {"mcp-memory-namespace": "none"}
    assert post(patient.url, "tools/call", RECALL, {}).headers["connection"] == "close"
    forbidden = post(patient.url, "tools/call", RECALL, headers_of(token) | other)
    assert (forbidden.status_code, forbidden.headers["connection"]) == (403, "close")
    unknown = post(patient.url, "tools/call", RECALL, headers_of(token) | {"mcp-session-id": "none"})
    assert (unknown.status_code, unknown.headers.get("connection")) == (404, None)
    assert "connection" not in web.get(patient.address("/healthz")).headers


def test_an_idle_connection_is_closed_and_a_listener_is_not(hasty: HttpServer, opened: list[socket.socket]) -> None:
    """X6.1."""
    session = open_session(hasty.url, "")
    opened.append(dial(hasty, listening(hasty, session)))
    assert opened[0].recv(65_536).startswith(b"HTTP/1.1 200")
    for _ in range(2):
        with dial(hasty, HEALTH) as idle:
            assert hear(idle).count(b"HTTP/1.1 200") == 1
    opened[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        opened[0].recv(1)


def test_who_does_not_take_an_answer_loses_the_connection(hasty: HttpServer, opened: list[socket.socket]) -> None:
    """X6.1: of many answers that fill every buffer on the way; and of one that is due when the connection ends."""
    opened.append(dial_and_never_read(hasty))
    wait_until(lambda: connections_of(hasty) == 0)
    assert is_well(hasty)


def test_at_the_limit_those_who_wait_make_room(
    tmp_path: Path, start_http: Callable[..., HttpServer], opened: list[socket.socket]
) -> None:
    """X6.1: those without a request first, the oldest first; those who listen stay, and nobody else fits."""
    server = start_http(
        tmp_path / "data", http_connections=6, http_connections_per_address=5, http_head_seconds=3_000,
        http_transfer_seconds=3_000,
    )  # fmt: skip
    sending = dial(server, head_of(server, "content-length: 100"))
    opened += [sending, *(dial(server) for _ in range(40))]
    assert is_well(server)
    assert connections_of(server) <= 5
    sending.setblocking(False)
    with pytest.raises(BlockingIOError):
        sending.recv(1)
    sessions = [open_session(server.url, "") for _ in range(5)]
    listeners = [dial(server, listening(server, session)) for session in sessions]
    opened += listeners
    assert all(each.recv(65_536).startswith(b"HTTP/1.1 200") for each in listeners)
    with dial(server, HEALTH) as late:
        assert hear(late).startswith(b"HTTP/1.1 503 Service Unavailable\r\nconnection: close")
    wait_until(lambda: "Refused a connection from this machine: 5 are open" in server.log)
    listeners.pop().close()
    wait_until(lambda: is_well(server))


def test_those_who_send_on_and_never_read_make_room(
    tmp_path: Path, start_http: Callable[..., HttpServer], opened: list[socket.socket]
) -> None:
    """X6.1: what they have asked is being answered for ever, since they take no answer."""
    server = start_http(
        tmp_path / "data", http_connections=6, http_connections_per_address=5, http_transfer_seconds=3_000
    )
    opened += [dial_and_never_read(server) for _ in range(5)]
    wait_until(lambda: connections_of(server) == 5)
    assert [is_well(server) for _ in range(5)] == [True] * 5
    assert connections_of(server) < 5


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of open files")
def test_the_store_is_left_the_files_it_needs(
    tmp_path: Path, start_http: Callable[..., HttpServer], opened: list[socket.socket]
) -> None:
    """X6.1: beside more silent connections than the process may have files."""
    server = start_http(tmp_path / "data", open_files=96)
    opened += [dial(server) for _ in range(200)]
    assert is_well(server)
    session = open_session(server.url, "")
    stored = {"name": "remember", "arguments": {"text": "The tap drips."}}
    assert '"status":"stored"' in post(server.url, "tools/call", stored, {"mcp-session-id": session}).text.replace(
        "\\", ""
    )
    assert psutil.Process(server.process.pid).num_fds() < 96
    assert connections_of(server) < 60


def test_nothing_is_said_of_oauth(patient: HttpServer) -> None:
    """X6.1: clients take a 401 there for the news that there is OAuth."""
    for name in (
        "oauth-protected-resource",
        "oauth-protected-resource/mcp",
        "oauth-authorization-server",
        "openid-configuration",
    ):
        for answer in (web.get(address := patient.address(f"/.well-known/{name}")), web.post(address, json={})):
            assert (answer.status_code, answer.text) == (404, "Not Found\n")
            assert "www-authenticate" not in answer.headers


def test_addresses_of_one_network_count_as_one() -> None:
    """X6.1: in IPv6, where a household has as many as it likes."""
    assert address_of("2001:db8:1:2::1") == address_of("2001:db8:1:2:ffff::") != address_of("2001:db8:1:3::1")
    assert address_of("::ffff:192.0.2.1") == address_of("192.0.2.1") != address_of("192.0.2.2")
    assert {address_of("127.0.0.1"), address_of("::1"), address_of("::ffff:127.0.0.1")} == {LOOPBACK}
    assert address_of("fe80::1%eth0") == address_of("fe80::2")


@dataclass(eq=False)
class PooledConnection:
    """A connection without a socket."""

    address: str
    since: float
    rank: int | None
    crowd: ConnectionPool
    is_evicted: bool = False

    def evict(self) -> None:
        self.is_evicted = True
        self.crowd.discard(self)


def crowd_of(*guests: tuple[str, float, int | None]) -> tuple[ConnectionPool, list[PooledConnection]]:
    """Five places, three of them for one address."""
    crowd = ConnectionPool(
        Limits(
            connections=5, from_this_machine=5, from_elsewhere=3, head_seconds=1, transfer_seconds=1, idle_seconds=1,
            calls=1,
            waiting_calls=1,
        )
    )  # fmt: skip
    made = [PooledConnection(*guest, crowd) for guest in guests]
    for guest in made:
        crowd.add(guest)
    return crowd, made


def test_whoever_holds_most_gives_way_first() -> None:
    """X6.1: the oldest without a request, before those that send one; never one that is answered."""
    crowd, (_, idle, older, sending, single) = crowd_of(
        ("a", 1, None), ("a", 4, 0), ("a", 3, 0), ("b", 1, 1), ("b", 2, None)
    )
    assert crowd.make_room("c")
    crowd.add(PooledConnection("c", 5, None, crowd))
    assert crowd.make_room("c")
    assert [each.is_evicted for each in (idle, older, sending, single)] == [True, True, False, False]
    crowd.add(PooledConnection("c", 6, None, crowd))
    assert crowd.make_room("d")
    assert sending.is_evicted
    crowd.add(PooledConnection("d", 7, None, crowd))
    assert not crowd.make_room("e")
    assert len(crowd) == 5


def test_an_address_at_its_limit_takes_nobody_elses_place() -> None:
    """X6.1."""
    crowd, guests = crowd_of(("a", 1, None), ("a", 2, None), ("a", 3, None), ("b", 1, 0))
    assert not crowd.make_room("a")
    assert crowd.make_room("b")
    assert not any(guest.is_evicted for guest in guests)


def test_few_connections_are_read_on_after_a_refusal() -> None:
    """X6.1."""
    crowd, _ = crowd_of()
    guests = [PooledConnection("a", 1, 1, crowd) for _ in range(MAX_LINGERING + 1)]
    assert [crowd.linger(guest) for guest in guests] == [True] * MAX_LINGERING + [False]
    crowd.discard(guests[0])
    assert crowd.linger(guests[-1])
