"""Starts and ends the HTTP server: its socket, its limits, its thread, its signals. Knows no request."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from mcp_memory.bridge.end_with_client import leave, leave_within
from mcp_memory.entrypoints.http.exchange import MAX_BODY_BYTES, PATH
from mcp_memory.entrypoints.server.server_log import log_defect, log_to_stderr
from mcp_memory.entrypoints.server.upkeep import SWITCH_SECONDS, upkeep_for
from mcp_memory.errors import InvalidRequest
from mcp_memory.settings import working_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.applications import Starlette

    from mcp_memory.app import App
    from mcp_memory.entrypoints.http.connections import Limits, Server
    from mcp_memory.entrypoints.http.issued_tokens import Issuer
    from mcp_memory.entrypoints.http.request_checks import RequestGate
    from mcp_memory.entrypoints.page.sign_in import SignInLink
    from mcp_memory.entrypoints.server.identity import RequestSender
    from mcp_memory.settings import Settings

logger = logging.getLogger(__name__)

CALLS_END_SECONDS: Final = 5.0
"""Time that calls in flight may still take once the server is told to stop."""
STREAMS_END_SECONDS: Final = 1
"""After that, for open streams, which nobody waits for."""
BACKLOG: Final = 512
USUAL_CONNECTIONS: Final = 512
LEAST_CONNECTIONS: Final = 4
KEPT_FREE: Final = 128
"""Descriptors that connections leave to the store, its index and the models; of few that are left, half."""
DESCRIPTORS_A_CALL: Final = 3
"""Descriptors that a call may hold at once: a connection to the database is two files, its log among them."""
LOOK_SECONDS: Final = 0.5
_STAYS: Final = "Process {pid} serves this memory at {address}; use it there, or end that process first."
WARM_UP_DELAY_SECONDS: Final = 0.1
"""Head start of the first requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The address to listen at, and for whom: `allowed_hosts` are names under which a proxy is reached.

    `anonymous` lets this machine in without a token also where there are tokens. With a `link` the page alone
    is served, to the browser that comes by it. With an `issuer` its tokens are taken beside those of the memory, and
    nobody comes in without one.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    allowed_hosts: tuple[str, ...] = ()
    anonymous: bool = False
    link: SignInLink | None = None
    issuer: Issuer | None = None


def announce(address: str) -> None:
    """Say where the server is, to people and to the program that waits for it."""
    sys.stderr.write(f"Serving MCP at {address}{PATH}\n")
    sys.stderr.flush()


def serve(settings: Settings, listening: Listening, announce: Callable[[str], None] = announce) -> NoReturn:
    """Serve until the process is told to stop; then calls in flight finish, and it ends with 0.

    `announce` gets the address once the server is up.

    Raises:
        InvalidRequest: nobody can listen there, or anybody could come in.
        StoreUnavailable: the memory cannot be opened.
    """
    from mcp_memory.bridge.door import take_over
    from mcp_memory.entrypoints.commands.performing import perform
    from mcp_memory.entrypoints.host.holding import held

    with bind(listening) as listener:
        log_to_stderr(settings.log_level, settings.log_format)
        address, told = address_of(listener), until_told()
        stays = _STAYS.format(pid=os.getpid(), address=address)
        door = take_over(str(settings.data_dir))
        with held(settings, door, perform, told, stays=stays, at=address) as app:
            upkeep = upkeep_for(app, settings)
            upkeep.start()
            sys.setswitchinterval(SWITCH_SECONDS)
            serve_memory(app, listening, listener, told, lambda: announce(address))
            leave_within(2 * CALLS_END_SECONDS)  # Whatever a call that goes on holds.
            upkeep.stop()
    leave()


def serve_memory(
    app: App,
    listening: Listening,
    listener: socket.socket,
    told: threading.Event,
    announce: Callable[[], None],
    look: Callable[[], None] = lambda: None,
) -> None:
    """Serve the open memory until `told` to stop; `announce` is called once it is served, `look` now and then.

    Raises InvalidRequest as `serve` does, and what `look` raises, after the end.
    """
    is_loopback = _is_loopback(listener) and not listening.allowed_hosts
    _check_closed(app, listening, is_loopback=is_loopback)
    limits = choose_limits(app.settings)
    gate, server, steps = _make(app, listening, limits, is_loopback=is_loopback)
    # Beside the main thread, to which signals come: the end is ours, not the library's, which would cut answers off.
    thread = threading.Thread(target=_run, args=(server, listener, told, app.settings), name="http", daemon=True)
    thread.start()
    announce()
    threading.Thread(target=_warm_up, args=(told, steps), name="warm-up", daemon=True).start()
    try:
        while not told.wait(LOOK_SECONDS):  # Without a time no signal would come through on Windows.
            look()
    finally:
        told.set()
        gate.close(CALLS_END_SECONDS)
        server.should_exit = True
        if listening.link:
            listening.link.remove_file()
        thread.join(2 * CALLS_END_SECONDS)


def until_told() -> threading.Event:
    """Return what the first signal to stop sets; the second ends the process at once."""
    told = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if told.is_set():
            leave()
        told.set()

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, on_signal)
    return told


def _make(
    app: App, listening: Listening, limits: Limits, *, is_loopback: bool
) -> tuple[RequestGate, Server, Sequence[Callable[[], object]]]:
    """Return what answers, and what to load once it does."""
    import uvicorn
    from starlette.applications import Starlette

    from mcp_memory.entrypoints.http.connections import Server
    from mcp_memory.entrypoints.http.request_checks import (
        Authenticator,
        RequestGate,
        readable_from_pages,
        transport_security,
    )
    from mcp_memory.entrypoints.page.sign_in import Doors, PageSessions
    from mcp_memory.entrypoints.page.site import Site

    def end_window(visitor: RequestSender) -> None:
        app.windows.end(visitor.grant.agent if visitor.grant else app.settings.agent, visitor.session)

    security = transport_security(listening.host, listening.allowed_hosts)
    issuer = listening.issuer
    web = Starlette() if listening.link else _protocol(app, security, issuer)
    authenticator = Authenticator(
        tokens=app.tokens,
        is_loopback=is_loopback,
        anonymous=listening.anonymous,
        issuer=issuer,
        has_sessions=not app.settings.database_url,
    )
    doors = Doors(app, PageSessions(), authenticator.is_open, listening.link)
    site = Site(app, doors, limits.transfer_seconds)
    web.router.routes.extend(site.routes())
    gate = RequestGate(web, authenticator, security, limits, end_window, app.quotas.count_call)
    # What the libraries log of a request, and of an error in it, may hold its words.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    logging.getLogger("mcp.server.transport_security").setLevel(logging.ERROR)
    config = uvicorn.Config(
        readable_from_pages(gate, listening.host, listening.allowed_hosts),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=STREAMS_END_SECONDS,
        lifespan="on",
    )
    # The page alone needs what a search takes; beside tools, the first message sees to that.
    needed = [*([app.warm] if listening.link else []), *([issuer.warm] if issuer else [])]
    return gate, Server(config, limits), [site.warm, *needed]


def _warm_up(told: threading.Event, steps: Sequence[Callable[[], object]]) -> None:
    """Load in the background, so that the start waits for nothing of it."""
    if told.wait(WARM_UP_DELAY_SECONDS):
        return
    try:
        for step in steps:
            step()
    except Exception as error:  # noqa: BLE001 - the edge: the requests that need what failed will say so
        log_defect("Warm-up", error)


def _protocol(app: App, security: TransportSecuritySettings, issuer: Issuer | None) -> Starlette:
    """Return what answers the protocol, the pages for hooks and for monitoring, and where to find an issuer."""
    from mcp_memory.entrypoints.http.hook_page import make_hook_page
    from mcp_memory.entrypoints.http.monitoring import Metrics, make_pages
    from mcp_memory.entrypoints.http.request_checks import Identify
    from mcp_memory.entrypoints.server.mcp_server import TOOLS, build_server

    metrics = Metrics(app, TOOLS)
    app.send_figures(metrics.collect)
    is_one_of_many = bool(app.settings.database_url)  # Any server answers any message.
    server = build_server(app, warm_up=True, middleware=(metrics, Identify()), keeps_sessions=not is_one_of_many)
    web = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=is_one_of_many,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=security,
    )
    web.router.routes.extend([*make_pages(app, metrics), make_hook_page(app), *(issuer.routes() if issuer else [])])
    return web


def bind(listening: Listening) -> socket.socket:
    """The socket, listening already: who calls before the server is up waits. Of several addresses IPv4 comes first."""
    host, port = listening.host, listening.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidRequest(f"There is no host {host!r} to listen at; name an address of this machine.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InvalidRequest(f"Port {port} on {host} is taken; choose another with --port.") from error
        why = os.strerror(error.errno or errno.EINVAL).lower()
        raise InvalidRequest(f"Cannot listen on {host}, port {port}: {why}. Choose another host or port.") from error


def _is_loopback(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _check_closed(app: App, listening: Listening, *, is_loopback: bool) -> None:
    """Raise InvalidRequest where others than this machine could come in without a token."""
    if listening.issuer or is_loopback or (app.tokens.are_asked_for() and not listening.anonymous):
        return
    if listening.anonymous:
        raise InvalidRequest("--anonymous lets in this machine only: it works with neither another host nor a proxy.")
    raise InvalidRequest(
        f"Without tokens the server accepts its own machine only, not on {listening.host} or behind a proxy;"
        " make one first with `mcp-memory tokens add`."
    )


def _run(server: Server, listener: socket.socket, ended: threading.Event, whose: Settings) -> None:
    """Serve, in the time zone and with the strategies of these settings; whatever ends it ends the process."""
    try:
        with working_for(whose):
            server.run(sockets=[listener])
    except Exception as error:  # noqa: BLE001 - the edge
        log_defect("The HTTP server", error)
    finally:
        ended.set()


def choose_limits(settings: Settings) -> Limits:
    """Choose as many connections as were asked for, and no more than leave the store its files.

    Raises:
        InvalidRequest: the process may open too few files to serve anybody.
    """
    from mcp_memory.entrypoints.http.connections import Limits

    left = _descriptors_left()
    kept_free = min(KEPT_FREE, left // 2)
    wanted = settings.http_connections or USUAL_CONNECTIONS
    connections = min(wanted, left - kept_free)
    if connections < LEAST_CONNECTIONS:
        raise InvalidRequest("The process may open too few files to serve over HTTP; raise its limit with `ulimit -n`.")
    if settings.http_connections and connections < wanted:
        logger.warning("%d connections fit into the limit of open files; raise it with `ulimit -n`.", connections)
    from_one = settings.http_connections_per_address
    return Limits(
        connections=connections,
        from_this_machine=from_one or connections,
        from_elsewhere=from_one or max(connections // 2, 1),
        head_seconds=settings.http_head_seconds,
        transfer_seconds=settings.http_transfer_seconds,
        idle_seconds=settings.http_idle_seconds,
        calls=max(min(settings.http_calls, kept_free // DESCRIPTORS_A_CALL), 1),
        waiting_calls=settings.http_waiting_calls,
    )


def _descriptors_left() -> int:
    """Return how many more files the process may open; more than are ever needed where there is no such limit."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    import psutil

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - psutil.Process().num_fds()
