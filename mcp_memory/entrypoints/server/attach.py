"""Connects a client on standard input with a memory over HTTP: passes each message on, and each answer back.

What is asked again, and what the client is told, `bridge.window_state` says, as for windows of this machine's owner.
Loads neither the memory nor the protocol's library: it knows only a message's method, id and version.
"""

import base64
import io
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn, TypeAlias, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp_types import PROTOCOL_VERSION_META_KEY

from mcp_memory.bridge.end_with_client import (
    GRACE_SECONDS,
    check_standard_streams,
    end_with_client,
    leave,
    leave_within,
)
from mcp_memory.bridge.window_state import CALL, CALL_HEADER, WindowState, as_mapping, read_object
from mcp_memory.entrypoints.server.line_streams import GuardedInput, LineOutput, take_stdin, take_stdout
from mcp_memory.entrypoints.server.remote_address import connection_options, endpoint, headers_for, is_near
from mcp_memory.entrypoints.server.server_log import log_to_stderr

if TYPE_CHECKING:
    from mcp_memory.settings import Settings

logger = logging.getLogger(__name__)
Write: TypeAlias = Callable[[bytes], Awaitable[None]]

CONNECT_SECONDS: Final = 10.0
NOTICE_SECONDS: Final = 10.0
"""Time for which a notice that the server does not take may hold up the messages behind it."""
READ_SECONDS: Final = 660.0
"""A little more than a person may take to allow what a tool asks of the client's model."""
AWAY_SECONDS: Final = 10.0
"""Time that a server which was there may be away before calls are told so: it ends its calls, and starts again."""
RETRY_SECONDS: Final = 0.5
LISTEN_SECONDS: Final = 1.0
"""Pause before a stream that ended is opened again."""
_AWAY: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
"""The server has taken nothing."""
_AWAY_STATUSES: Final = (502, 503)
"""Answers of a proxy that does not reach the server, and of one that is ending or has too much to do."""
_FAILURES: Final = (httpx2.HTTPError, httpx2.StreamError, httpx2.SSEError)
_NAMED_BY: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Parameters that a header repeats, for proxies to go by."""
_PLAIN_HEADER = re.compile(r"[\x20-\x7e]*")
MAX_CLIENT_NAME: Final = 64
_NO_PRODUCT = re.compile(r"[^\w.+-]+", re.ASCII)
"""Characters that the name of a program cannot have, e.g. a space."""
_ENCODED_HEADER = re.compile(r"=\?base64\?.*\?=", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLine:
    """A message of the client: the line as it came, and what tells where it goes.

    A notification has no id; an answer of the client no method. `version` is set in the era without sessions. `call`
    is the number of a call of a tool, else 0.
    """

    line: bytes
    method: str
    id: int | str | None
    version: str
    name: str
    cancels: int | str | None
    call: int

    @property
    def is_request(self) -> bool:
        """True where an answer is due."""
        return bool(self.method) and self.id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """The session that the server gave at the handshake; all empty in the era without sessions, and before.

    One of several servers gives no id: then each message names the `client`.
    """

    id: str = ""
    version: str = ""
    client: str = ""


def attach(settings: "Settings") -> NoReturn:
    """Serve one client until it leaves; ends the process. While the server is away each call is told so.

    Raises:
        InvalidRequest: there is no standard input or output.
    """
    check_standard_streams()
    log_to_stderr(settings.log_level, settings.log_format)
    end_with_client(leave)
    output = LineOutput(take_stdout())
    guarded = GuardedInput(
        take_stdin(),
        lambda method: None,
        refuse=lambda refusal: output.send_later(refusal.line),
        at_end=lambda: leave_within(3 * GRACE_SECONDS),
    )
    url, headers = endpoint(settings.url or ""), headers_for(settings)
    if "authorization" in headers and urlsplit(url).scheme == "http" and not is_near(url):
        logger.warning("The token goes to %s unencrypted; use https.", urlsplit(url).hostname)
    anyio.run(partial(_serve, url, headers, io.BufferedReader(guarded), output))
    output.wait(GRACE_SECONDS)
    leave()


async def _serve(url: str, headers: Mapping[str, str], source: BinaryIO, output: LineOutput) -> None:
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS)
    async with httpx2.AsyncClient(headers=dict(headers), timeout=timeout, **connection_options(url)) as client:
        bridge = Bridge(url, client, partial(anyio.to_thread.run_sync, partial(_put, output)))
        await bridge.run(_lines(source))


class _Unanswered(Exception):
    """The server gave no answer that the client could take; the text continues an error message after the address."""


class Bridge:
    """Passes messages on until there are no more, then waits a moment for the answers that are due.

    What the client has said, and what is asked again, `window` knows, as beside an owner of this machine. Here each
    request has a connection of its own, and a session that the server has forgotten is reopened. For one event loop.
    """

    def __init__(self, url: str, client: httpx2.AsyncClient, write: Write) -> None:
        self.window = WindowState()
        self._url = url
        self._client = client
        self._write = write
        self._session = _Session()
        self._opening, self._writing = anyio.Lock(), anyio.Lock()
        self._tasks = anyio.create_task_group()
        self._in_flight: dict[int | str, tuple[anyio.CancelScope, ClientLine]] = {}
        self._listens = False
        self._lost_at: float | None = -inf
        """The time at which the server went away; None while it is there. Before its first word nobody waits for it."""

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Requests run side by side; whatever is no request keeps its place in the order."""
        async with self._tasks:
            async for line in lines:
                self.window.hear(line)
                await self._pass_on()
            self._tasks.cancel_scope.deadline = anyio.current_time() + GRACE_SECONDS
        await self._tell_client()
        await self._end_session()

    async def _pass_on(self) -> None:
        """Send what there is to tell the server. In the era without sessions closing a connection cancels its call."""
        for message in take_messages(self.window.to_owner):
            cancelled = None if message.cancels is None else self._in_flight.get(message.cancels)
            if message.is_request:
                scope = anyio.CancelScope()
                self._in_flight[cast("int | str", message.id)] = (scope, message)
                self._tasks.start_soon(self._request, message, scope)
            elif cancelled is not None and cancelled[1].version:
                cancelled[0].cancel()
            else:
                with anyio.move_on_after(NOTICE_SECONDS):
                    await self._try(message)

    async def _request(self, message: ClientLine, scope: anyio.CancelScope) -> None:
        """Send a request until it is answered, or `window` gives it up."""
        number = cast("int | str", message.id)
        with scope:
            await self._try(message)
        if self._in_flight.get(number, (None,))[0] is scope:
            del self._in_flight[number]
        await self._pass_on()
        await self._tell_client()
        if message.method == "resources/subscribe" and not self._listens:
            self._listens = True
            self._tasks.start_soon(self._listen)

    async def _listen(self) -> None:
        """Hear what the server says unasked in the era with sessions: it follows resources for the client."""
        while True:
            await self._try(_NOTHING)
            await anyio.sleep(LISTEN_SECONDS)

    async def _try(self, message: ClientLine) -> None:
        """Send a message; a request that is not answered is asked again, or the client is told."""
        number, why = message.id, "does not answer"
        try:
            return await self._send(message)
        except _Unanswered as error:
            why = str(error)
        except _AWAY:
            if self._may_return() and message.is_request:
                await anyio.sleep(RETRY_SECONDS)
                return self.window.ask_again(number, is_lost=False)
        except _FAILURES as error:
            logger.info("%.100s: the answer was lost (%s).", message.method or "notices", type(error).__name__)
            return self.window.ask_again(number, is_lost=True)
        logger.info("%.100s: the server %s.", message.method, why)
        told = f"The memory at {self._url} {why}; start its server or check MCP_MEMORY_URL, then try again."
        return self.window.fail(number, told)

    def _may_return(self) -> bool:
        """True for a while after the server went away: it may be starting again."""
        if self._lost_at is None:
            self._lost_at = anyio.current_time()
        return anyio.current_time() < self._lost_at + AWAY_SECONDS

    async def _send(self, message: ClientLine) -> None:
        """Send a message and take what comes back, within a session that the server knows."""
        if message.method == "initialize":
            async with self._opening:
                await self._post(message, _Session())
            return
        async with self._opening:  # Behind the handshake, if one is under way.
            session = self._session
        if not await self._post(message, session):
            await self._renew(session)
            if not await self._post(message, self._session):
                raise _Unanswered("does not keep its sessions")

    async def _renew(self, lost: _Session) -> None:
        """Tell the server what makes the session; once, however many messages have found it gone."""
        async with self._opening:
            if self._session != lost:
                return
            try:
                for message in map(read_message, self.window.repeat_session()):
                    await self._post(message, _Session() if message.method == "initialize" else self._session)
            except BaseException:
                self._session = lost  # What was not told yet is told with the next message.
                raise

    async def _post(self, message: ClientLine, session: _Session) -> bool:
        """Send a message and take what comes back; False where the server has forgotten the session.

        Raises as the library does, and _Unanswered.
        """
        how, headers = "POST" if message.line else "GET", _headers_of(message, session)
        if message.call:
            headers[CALL_HEADER] = f"{self.window.session}/{message.call}"
        async with self._client.stream(how, self._url, content=message.line, headers=headers) as response:
            if response.status_code == 404 and session.id:
                return False
            if response.status_code not in _AWAY_STATUSES:
                self._lost_at = None
            elif self._may_return():
                raise httpx2.ConnectError(f"status {response.status_code}")
            await self._deliver(response, message)
        return True

    async def _deliver(self, response: httpx2.Response, message: ClientLine) -> None:
        """Take what the server answers. Raises _Unanswered where that is not what was due, and as the library does."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            async for event in httpx2.EventSource(response, max_event_size=None):
                if event.data and await self._take(event.data, response, message):
                    return
            if message.is_request:
                raise httpx2.ReadError("the stream ended before the answer")
        elif kind == "application/json":
            text = (await response.aread()).decode("utf-8", "replace")
            if await self._take(text, response, message):
                return
        if message.is_request:
            raise _Unanswered(f"gave no answer (status {response.status_code})")

    async def _take(self, text: str, response: httpx2.Response, message: ClientLine) -> bool:
        """Take a message of the server; True where it is the answer. One without an id answers what was sent."""
        said = read_object(text)
        is_answer = "method" not in said and ("result" in said or "error" in said)
        if is_answer and not message.is_request:
            return True
        if is_answer and said.get("id") is None:
            text = json.dumps({**said, "id": message.id})
        if is_answer and message.method == "initialize" and "result" in said:
            version = str(as_mapping(said["result"]).get("protocolVersion", ""))
            session_id = response.headers.get("mcp-session-id", "")
            self._session = _Session(id=session_id, version=version, client=_client_of(message.line))
        if said:
            self.window.answer(text.replace("\r", " ").replace("\n", " ").encode() + b"\n")
            await self._tell_client()
        return is_answer

    async def _tell_client(self) -> None:
        """Write what waits for the client, in its order."""
        async with self._writing:
            if lines := bytes(self.window.to_client):
                self.window.to_client.clear()
                with anyio.CancelScope(shield=True):
                    await self._write(lines)

    async def _end_session(self) -> None:
        """Best effort: the server forgets idle sessions by itself."""
        if self._session.id:
            headers = {"mcp-session-id": self._session.id, "mcp-protocol-version": self._session.version}
            with anyio.move_on_after(GRACE_SECONDS), suppress(httpx2.HTTPError):
                await self._client.delete(self._url, headers=headers)


def _put(output: LineOutput, lines: bytes) -> None:
    try:
        output.send(lines)
    except OSError:
        logger.info("Output is closed: the client is gone.")
        leave()


def take_messages(to_server: bytearray) -> list[ClientLine]:
    """Take the messages out that wait for the server."""
    messages: list[ClientLine] = []
    call = 0
    for line in bytes(to_server).splitlines():
        if line.startswith(CALL):
            call = int(line[len(CALL) :])
        else:
            messages.append(read_message(line, call))
            call = 0
    to_server.clear()
    return messages


def read_message(line: bytes, call: int = 0) -> ClientLine:
    """Read a line of JSON-RPC, which has been checked before; `call` is its number."""
    said = read_object(line)
    params = as_mapping(said.get("params"))
    version = as_mapping(params.get("_meta")).get(PROTOCOL_VERSION_META_KEY)
    method = str(said.get("method", ""))
    name = params.get(_NAMED_BY.get(method, ""))
    cancels = params.get("requestId") if method == "notifications/cancelled" else None
    return ClientLine(
        line=line.strip(),
        method=method,
        id=said.get("id"),
        version=version if isinstance(version, str) else "",
        name=name if isinstance(name, str) else "",
        cancels=cancels if isinstance(cancels, int | str) else None,
        call=call,
    )


_NOTHING: Final = read_message(b"")
"""Asks the server for what it says unasked."""


def _headers_of(message: ClientLine, session: _Session) -> dict[str, str]:
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    if message.version:
        headers["mcp-protocol-version"] = _header_value(message.version)
        headers["mcp-method"] = _header_value(message.method)
        return headers | ({"mcp-name": _header_value(message.name)} if message.name else {})
    if session.id:
        headers["mcp-session-id"] = session.id
    elif session.client:
        headers["user-agent"] = session.client
    return headers | ({"mcp-protocol-version": session.version} if session.version else {})


def _client_of(handshake: bytes) -> str:
    """Return the name of the client as a program's: "Claude Code" → "Claude-Code"."""
    named = as_mapping(as_mapping(read_object(handshake).get("params")).get("clientInfo")).get("name")
    return _NO_PRODUCT.sub("-", str(named or ""))[:MAX_CLIENT_NAME]


def _header_value(text: str) -> str:
    """As the protocol encodes what a header cannot hold as it is."""
    if _PLAIN_HEADER.fullmatch(text) and text == text.strip() and not _ENCODED_HEADER.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}?="


async def _lines(source: BinaryIO) -> AsyncIterator[bytes]:
    while line := await anyio.to_thread.run_sync(source.readline, abandon_on_cancel=True):
        yield line
