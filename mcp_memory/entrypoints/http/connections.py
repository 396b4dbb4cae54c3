"""Accepts connections, limits their number and the time of each stage. Knows no request's meaning.

uvicorn serves them. It limits only idle time, and accepts as many at once as are waiting: silent connections then use
up the descriptors that the store needs, and lock everybody out.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import h11
import uvicorn
from anyio import to_thread
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger(__name__)

LINGER_SECONDS: Final = 5.0
"""Seconds for which the rest of a refused request is read, so that its sender does not miss the answer."""
LINGER_BYTES: Final = 8 * 1024 * 1024
LINGER_STEP: Final = 256 * 1024
LINGER_PAUSE_SECONDS: Final = 0.02
"""Pause after so many bytes: a pause after each small read would outlast the time for the rest."""
MAX_LINGERING: Final = 16
"""The most lingering connections; beyond, a sender may miss the answer."""
RETRY_SECONDS: Final = 0.1
WARNING_SECONDS: Final = 60.0
LOOPBACK: Final = "this machine"
_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\n"
    b"content-type: text/plain\r\ncontent-length: 58\r\n\r\n"
    b"Too many connections are open; try again in a few seconds\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of connections: how many in all, from this machine and from another address; how long each stage takes.

    `head_seconds` is for a request's line and headers, from the first byte or from the connection's start;
    `transfer_seconds` for its body to arrive, and for an answer to be taken; `idle_seconds` for what lies between.
    `calls` is how many may work at once: more would wait for each other, and for descriptors. `waiting_calls` is how
    many may wait for their turn.
    """

    connections: int
    from_this_machine: int
    from_elsewhere: int
    head_seconds: float
    transfer_seconds: float
    idle_seconds: int
    calls: int
    waiting_calls: int


class PooledConnection(Protocol):
    """A connection, as far as it occupies a place."""

    @property
    def address(self) -> str: ...

    @property
    def since(self) -> float:
        """The time when it came, or its latest answer ended, by the event loop's clock."""
        ...

    @property
    def rank(self) -> int | None:
        """0 without a request, 1 while one still arrives or its answer is not taken; None while it is answered.

        In the last case the client is not the one that delays.
        """
        ...

    def evict(self) -> None:
        """Close it at once."""
        ...


class ConnectionPool:
    """The connections there are. Those that wait for their client make room for new ones. For one event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._present: list[PooledConnection] = []
        self._lingering: set[PooledConnection] = set()
        self._warned_at = -WARNING_SECONDS

    def __len__(self) -> int:
        return len(self._present)

    def add(self, connection: PooledConnection) -> None:
        self._present.append(connection)

    def discard(self, connection: PooledConnection) -> None:
        """Forget a connection, if it is known."""
        self._lingering.discard(connection)
        if connection in self._present:
            self._present.remove(connection)

    def linger(self, connection: PooledConnection) -> bool:
        """Let a connection be read on after its refusal; False where too many are."""
        if len(self._lingering) >= MAX_LINGERING:
            return False
        self._lingering.add(connection)
        return True

    def make_room(self, address: str) -> bool:
        """Close waiting connections until one more may come from the address; False where none waits."""
        limit = self.limits.from_this_machine if address == LOOPBACK else self.limits.from_elsewhere
        while len(theirs := self._from(address)) >= limit:
            if not self._evict(theirs):
                return False
        while len(self) >= self.limits.connections:
            # Whoever holds most of the places gives one up first.
            crowds = Counter(each.address for each in self._present).most_common()
            if not any(self._evict(self._from(each)) for each, _ in crowds):
                return False
        return True

    def warn(self, address: str) -> None:
        """Log that a connection was refused, at most once a minute."""
        if time.monotonic() - self._warned_at >= WARNING_SECONDS:
            self._warned_at = time.monotonic()
            logger.warning("Refused a connection from %s: %d are open, none of them idle.", address, len(self))

    def _from(self, address: str) -> list[PooledConnection]:
        return [each for each in self._present if each.address == address]

    def _evict(self, among: list[PooledConnection]) -> bool:
        """Close the one that has waited longest, those without a request before those that still send one."""
        waiting = [(rank, each.since, place) for place, each in enumerate(among) if (rank := each.rank) is not None]
        if not waiting:
            return False
        victim = among[min(waiting)[-1]]
        self.discard(victim)
        victim.evict()
        return True


class ClientConnection(H11Protocol):
    """uvicorn's connection with a time limit for each stage in which it waits for its client."""

    def __init__(self, crowd: ConnectionPool, address: str, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self.address = address
        self.since = self.loop.time()
        self._crowd = crowd
        self._limits = crowd.limits
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._has_begun = False
        self._unheard = 0

    @property
    def rank(self) -> int | None:
        if not self._is_in_request:
            return 0
        # Who takes no answer, or has sent further requests before this one was answered, is waited for as well.
        waits = self.is_unread or "take" in self._timers or bool(self.conn.trailing_data[0])
        return 1 if waits else None

    def evict(self) -> None:
        self.transport.abort()

    @property
    def is_unread(self) -> bool:
        """True where the body of a request has not come to its end."""
        return self.conn.their_state is h11.SEND_BODY

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request."""
        super().connection_made(cast("asyncio.Transport", _Ending(transport, self._end)))
        self._crowd.add(self)
        self._limit("head", self._limits.head_seconds, self._close_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._crowd.discard(self)
        for stage in list(self._timers):
            self._unlimit(stage)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a head has a time limit from its first byte."""
        if self.transport.is_closing():
            return self._pass_over(data)
        self._has_begun = self._has_begun or not self._is_in_request
        super().data_received(data)
        self._has_begun = self._has_begun and not self._is_in_request
        if self.is_unread and not self.transport.is_closing():
            self.flow.pause_reading()  # until somebody asks for the body, whose sender may not be let in
        if self._is_in_request or self.transport.is_closing():
            self._unlimit("head")
        else:
            self._limit("head", self._limits.head_seconds, self._close_late)
        return None

    def on_response_complete(self) -> None:
        """Wait for the next request, if there is to be one."""
        self.since, self._has_begun = self.loop.time(), False
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to take what was written, for a while."""
        super().pause_writing()
        self._limit("take", self._limits.transfer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Write on."""
        super().resume_writing()
        self._unlimit("take")

    @property
    def _is_in_request(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete  # there is none before the first request

    def _close_late(self) -> None:
        if self._has_begun:
            self.transport.write(_LATE)
        self.transport.close()

    def _pass_over(self, data: bytes) -> None:
        """Drop what comes after a refusal."""
        before, self._unheard = self._unheard, self._unheard + len(data)
        if self._unheard > LINGER_BYTES:
            self.transport.abort()
        elif before // LINGER_STEP != self._unheard // LINGER_STEP:  # A flood is to cost its sender's time, not ours.
            self.transport.pause_reading()
            self.loop.call_later(LINGER_PAUSE_SECONDS, self.transport.resume_reading)

    def _end(self, inner: asyncio.Transport) -> None:
        """End the connection once what was written is taken, or was not for too long."""
        seconds = self._limits.transfer_seconds
        if (self.is_unread or self._has_begun) and inner.can_write_eof() and self._crowd.linger(self):
            seconds = LINGER_SECONDS
            inner.write_eof()
            inner.resume_reading()
        else:
            inner.close()
        self._limit("end", seconds, inner.abort)

    def _limit(self, stage: str, seconds: float, act: Callable[[], None]) -> None:
        """Act after this time, unless the stage ends before; a limit that is set already stays."""
        if stage not in self._timers:
            self._timers[stage] = self.loop.call_later(seconds, act)

    def _unlimit(self, stage: str) -> None:
        if timer := self._timers.pop(stage, None):
            timer.cancel()


class _Ending:
    """A connection's transport, but for its end, which the connection decides.

    A socket that is closed with something unread resets the connection, and its peer may never see what was written.
    """

    def __init__(self, inner: asyncio.Transport, end: Callable[[asyncio.Transport], None]) -> None:
        self._inner = inner
        self._end = end
        self._is_ending = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def is_closing(self) -> bool:
        return self._is_ending or self._inner.is_closing()

    def abort(self) -> None:
        self._is_ending = True
        self._inner.abort()

    def close(self) -> None:
        if not self.is_closing():
            self._is_ending = True
            self._end(self._inner)


class Server(uvicorn.Server):
    """uvicorn's server, which takes in one connection at a time, and only where there is room."""

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self._limits = limits
        self._crowd = ConnectionPool(limits)
        self._accepting: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, but accept by ourselves."""
        to_thread.current_default_thread_limiter().total_tokens = self._limits.calls
        await super().startup(sockets=[])
        for listener in sockets or []:
            listener.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(listener)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and end as uvicorn does."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError:  # Too many open files after all, or a client that is gone already.
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await self._take_in(client)

    async def _take_in(self, client: socket.socket) -> None:
        try:
            address = address_of(client.getpeername()[0])
        except OSError:
            return client.close()
        if not self._crowd.make_room(address):
            self._crowd.warn(address)
            return _turn_away(client)
        await asyncio.sleep(0)  # in which the socket of whoever made room is closed
        with suppress(OSError):
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: self._connection(address), client)
        return None

    def _connection(self, address: str) -> ClientConnection:
        state = self.server_state
        of_uvicorn = {"config": self.config, "server_state": state, "app_state": self.lifespan.state}
        return ClientConnection(self._crowd, address, **of_uvicorn)


def address_of(host: str) -> str:
    """Name the party that a connection counts for: this machine, an IPv4 address, or the network of an IPv6 address.

    A household has all 2**64 addresses of its network, such as 2001:db8:1:2::/64.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return LOOPBACK
    return str(address) if address.version == 4 else str(ipaddress.ip_network((int(address), 64), strict=False))


def _turn_away(client: socket.socket) -> None:
    """Answer that there is no room, without waiting for anything."""
    with client, suppress(OSError):
        client.send(_FULL)
        client.shutdown(socket.SHUT_WR)
        client.recv(65_536)
