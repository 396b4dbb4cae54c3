"""Connects a client on standard input with a memory over HTTP: passes each message on, and each answer back.

Loads neither the memory nor the protocol's library: it knows only a message's method, id and version.
"""

import base64
import io
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn, TypeAlias, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp_types import CONNECTION_CLOSED, PROTOCOL_VERSION_META_KEY

from mcp_memory.bridge.process_end import (
    GRACE_SECONDS,
    check_standard_streams,
    end_with_client,
    leave,
    leave_within,
)
from mcp_memory.bridge.window_state import as_mapping, read_object
from mcp_memory.entrypoints.server.line_streams import GuardedInput, LineOutput, take_stdin, take_stdout
from mcp_memory.entrypoints.server.remote_address import connection_options, endpoint, headers_for, is_near
from mcp_memory.entrypoints.server.stdio import log_to_stderr

if TYPE_CHECKING:
    from mcp_memory.settings import Settings

logger = logging.getLogger(__name__)
Write: TypeAlias = Callable[[bytes], Awaitable[None]]

CONNECT_SECONDS: Final = 10.0
NOTICE_SECONDS: Final = 10.0
"""Time for which a notice that the server does not take may hold up the messages behind it."""
READ_SECONDS: Final = 660.0
"""A little more than a person may take to allow what a tool asks of the client's model."""
_NAMED_BY: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Parameters that a header repeats, for proxies to go by."""
_PLAIN_HEADER = re.compile(r"[\x20-\x7e]*")
_ENCODED_HEADER = re.compile(r"=\?base64\?.*\?=", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLine:
    """A message of the client: the line as it came, and what tells where it goes.

    A notification has no id; an answer of the client no method. `version` is set in the era without sessions.
    """

    line: bytes
    method: str
    id: int | str | None
    version: str
    name: str
    cancels: int | str | None

    @property
    def is_request(self) -> bool:
        """True where an answer is due."""
        return bool(self.method) and self.id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """The session that the server gave at the handshake; all empty in the era without sessions, and before."""

    id: str = ""
    version: str = ""


def attach(settings: "Settings") -> NoReturn:
    """Serve one client until it leaves; ends the process. While the server is away each call is told so.

    Raises:
        InvalidRequest: there is no standard input or output.
    """
    check_standard_streams()
    log_to_stderr(settings.log_level)
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

    A session that the server has forgotten, for example after a restart, is reopened without the client's noticing.
    """

    def __init__(self, url: str, client: httpx2.AsyncClient, write: Write) -> None:
        self._url = url
        self._client = client
        self._write = write
        self._session = _Session()
        self._hello: ClientLine | None = None
        self._renewing = anyio.Lock()
        self._in_flight: dict[int | str, tuple[anyio.CancelScope, ClientLine]] = {}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Requests run side by side; whatever is no request keeps its place in the order."""
        async with anyio.create_task_group() as tasks:
            async for line in lines:
                message = read_message(line)
                if message.is_request:
                    scope = anyio.CancelScope()
                    self._in_flight[cast("int | str", message.id)] = (scope, message)
                    tasks.start_soon(self._request, message, scope)
                elif not self._cancelled(message):
                    with anyio.move_on_after(NOTICE_SECONDS):
                        await self._pass(message)
            tasks.cancel_scope.deadline = anyio.current_time() + GRACE_SECONDS
        await self._end_session()

    def _cancelled(self, message: ClientLine) -> bool:
        """In the era without sessions a call is cancelled by closing its connection, not by a message."""
        cancelled = None if message.cancels is None else self._in_flight.get(message.cancels)
        if cancelled is None or not cancelled[1].version:
            return False
        cancelled[0].cancel()
        return True

    async def _request(self, message: ClientLine, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await self._pass(message)
        finally:
            self._in_flight.pop(cast("int | str", message.id), None)

    async def _pass(self, message: ClientLine) -> None:
        """Send a message and write whatever comes back; an error in its place where nothing does."""
        try:
            await self._send(message, self._write)
        except (_Unanswered, httpx2.HTTPError, httpx2.StreamError, httpx2.SSEError) as error:
            why = str(error) if isinstance(error, _Unanswered) else "does not answer"
            logger.info("%.100s: the server %s (%s).", message.method or "answer", why, type(error).__name__)
            if message.is_request:
                told = f"The memory at {self._url} {why}; start its server or check MCP_MEMORY_URL, then try again."
                body = {"jsonrpc": "2.0", "id": message.id, "error": {"code": CONNECTION_CLOSED, "message": told}}
                await self._write(json.dumps(body).encode())

    async def _send(self, message: ClientLine, write: Write) -> None:
        session = self._session if message.method != "initialize" else _Session()
        async with self._open(message, session) as response:
            if response.status_code != 404 or not session.id:
                return await self._deliver(response, message, write)
        await self._renew(session)
        async with self._open(message, self._session) as response:
            return await self._deliver(response, message, write)

    def _open(self, message: ClientLine, session: _Session) -> AbstractAsyncContextManager[httpx2.Response]:
        headers = _headers_of(message, session)
        return self._client.stream("POST", self._url, content=message.line, headers=headers)

    async def _renew(self, lost: _Session) -> None:
        """Shake hands again as the client did; once, however many calls have found the session gone."""
        async with self._renewing:
            if self._session != lost or self._hello is None:
                return
            await self._send(self._hello, _nowhere)
            await self._send(read_message(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'), _nowhere)

    async def _deliver(self, response: httpx2.Response, message: ClientLine, write: Write) -> None:
        """Write what the server answers. Raises _Unanswered where that is not what was due."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            async for event in httpx2.EventSource(response, max_event_size=None):
                if event.data and await self._give(event.data, response, message, write):
                    return
        elif kind == "application/json":
            text = (await response.aread()).decode("utf-8", "replace")
            if await self._give(text, response, message, write):
                return
        if message.is_request:
            raise _Unanswered(f"gave no answer (status {response.status_code})")

    async def _give(self, text: str, response: httpx2.Response, message: ClientLine, write: Write) -> bool:
        """Write a message of the server; True where it is the answer. One without an id answers what was sent."""
        said = read_object(text)
        is_answer = "method" not in said and ("result" in said or "error" in said)
        if is_answer and not message.is_request:
            return True
        if is_answer and said.get("id") is None:
            text = json.dumps({**said, "id": message.id})
        if is_answer and message.method == "initialize" and "result" in said:
            self._hello = message
            version = str(as_mapping(said["result"]).get("protocolVersion", ""))
            self._session = _Session(id=response.headers.get("mcp-session-id", ""), version=version)
        if said:
            await write(text.replace("\r", " ").replace("\n", " ").encode())
        return is_answer

    async def _end_session(self) -> None:
        """Best effort: the server forgets idle sessions by itself."""
        if self._session.id:
            headers = {"mcp-session-id": self._session.id, "mcp-protocol-version": self._session.version}
            with anyio.move_on_after(GRACE_SECONDS), suppress(httpx2.HTTPError):
                await self._client.delete(self._url, headers=headers)


def _put(output: LineOutput, text: bytes) -> None:
    try:
        output.send(text + b"\n")
    except OSError:
        logger.info("Output is closed: the client is gone.")
        leave()


def read_message(line: bytes) -> ClientLine:
    """Read a line of JSON-RPC, which has been checked before."""
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
    )


def _headers_of(message: ClientLine, session: _Session) -> dict[str, str]:
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    if message.version:
        headers["mcp-protocol-version"] = _header_value(message.version)
        headers["mcp-method"] = _header_value(message.method)
        return headers | ({"mcp-name": _header_value(message.name)} if message.name else {})
    if session.id:
        headers["mcp-session-id"] = session.id
    return headers | ({"mcp-protocol-version": session.version} if session.version else {})


def _header_value(text: str) -> str:
    """As the protocol encodes what a header cannot hold as it is."""
    if _PLAIN_HEADER.fullmatch(text) and text == text.strip() and not _ENCODED_HEADER.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}?="


async def _lines(source: BinaryIO) -> AsyncIterator[bytes]:
    while line := await anyio.to_thread.run_sync(source.readline, abandon_on_cancel=True):
        yield line


async def _nowhere(_text: bytes) -> None:
    """The client has had this answer already."""
