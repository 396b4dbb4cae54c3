"""Holds a memory in a process that has other work: a command, a server over HTTP, a window that could start nothing.

It owns the memory meanwhile, and serves the clients that arrive.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.bridge.door import Door
    from mcp_memory.entrypoints.host.clients import Clients, Perform
    from mcp_memory.settings import Settings

BRIEF_SECONDS: Final = 1.0
"""Time that the first client waits before what serves it is loaded: most commands have ended by then."""
END_SECONDS: Final = 5.0
"""Time that the clients' calls in flight may still take at the end."""
GUESTS_SECONDS: Final = 15.0
"""Time that others' commands may still take where the process ends because its own work is done: nobody asked them to
end. Who comes meanwhile waits at the door, for LOST_SECONDS (25) at most."""


@contextmanager
def held(
    settings: "Settings",
    door: "Door | None",
    perform: "Perform",
    should_end: threading.Event | None = None,
    *,
    takes: bool = True,
    stays: str = "",
    **said: Any,
) -> Generator["App"]:
    """Open the memory of the door, which is `said` about, and leave it at the end; serve its clients meanwhile.

    Without a door, as on a system that has none, nobody arrives. For the other arguments see `Clients`; `takes=False`
    claims no namespace for the folder. Raises StoreUnavailable.
    """
    from mcp_memory.app import open_app

    if door is None:
        app = open_app(settings, takes=takes)
        try:
            yield app
        finally:
            app.close()
        return
    reception: _Reception | None = None
    should_end = should_end or threading.Event()
    try:
        app = open_app(settings, takes=takes)
        try:
            reception = _Reception(app, door, perform, should_end, stays)
            if not door.is_open:
                door.open(**said)
            yield app
        except KeyboardInterrupt:  # Its user waits for no others.
            should_end.set()
            raise
        finally:
            if reception is not None:
                reception.end()
            app.close()
    finally:
        if reception is not None:
            reception.leave()
        door.release()


def read_files(app: "App") -> bool:
    """Take a step of `read_for_arrived`, which is loaded once a window wants it."""
    if not app.arrived:
        return False
    from mcp_memory.entrypoints.transfer.learning.client_files import read_for_arrived

    return read_for_arrived(app)


class _Reception:
    """Lets clients in beside the process's own work, from the first that arrives."""

    def __init__(self, app: "App", door: "Door", perform: "Perform", should_end: threading.Event, stays: str) -> None:
        self._app = app
        self._door = door
        self._perform = perform
        self._should_end = should_end
        self._stays = stays
        self._clients: Clients | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._receive, name="reception", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let nobody in any more, and end the windows' sessions in an orderly way."""
        with self._lock:
            self._ended.set()
        self._door.close()
        if self._clients is not None:
            try:
                self._clients.dismiss(END_SECONDS, 0.0 if self._should_end.is_set() else GUESTS_SECONDS)
            except KeyboardInterrupt:  # The user of this process waits no longer for others.
                self._clients.dismiss(END_SECONDS)
        self._thread.join(END_SECONDS)

    def leave(self) -> None:
        """Leave the closed memory to the process that asked for it, if one did."""
        if self._clients is not None:
            self._clients.leave()

    def _receive(self) -> None:
        first = self._door.next_arrival()
        if first is None:
            return None
        if not self._stays and self._ended.wait(BRIEF_SECONDS):
            return first.connection.close()
        import anyio

        from mcp_memory.entrypoints.host.clients import Clients

        clients = Clients(self._app, self._door, self._perform, self._should_end, self._stays)
        with self._lock:
            if self._ended.is_set():
                return first.connection.close()
            self._clients = clients
        return anyio.run(clients.serve, first)
