"""Owns a memory and serves its clients: a process beside them, which ends some time after the last of them.

The first client forks it off (`bridge.owner_start`). It never blocks an update: when a client of
a later build comes, it finishes the calls at work, closes the memory, and leaves it to an owner of that build.
"""

import gc
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcp_memory.bridge.door import OWN_BUILD, Door, build
from mcp_memory.entrypoints.host.holding import END_SECONDS, read_files
from mcp_memory.errors import McpMemoryError

if TYPE_CHECKING:
    from mcp_memory.entrypoints.host.clients import Clients

FIRST_SECONDS: Final = 5.0
"""Time for the first client to arrive, however soon the settings let an owner end."""
LOOK_SECONDS: Final = 0.2
REFUSING_SECONDS: Final = 0.05
"""Time in which waiting clients are told why the memory cannot be opened; a later one tries to open it again."""


def main() -> None:
    """Own the memory by a door that was claimed before an update, in an interpreter that was started after it."""
    data_dir, chosen, lock, listener = json.loads(sys.argv[1])
    own(Door(data_dir, lock, socket.socket(fileno=listener)), data_dir, chosen)


def own(door: Door, data_dir: str, chosen: Mapping[str, object]) -> NoReturn:
    """Serve clients until nobody needs the memory, or the process is told to end; ends the process."""
    door.open()
    gc.disable()  # Until the warm-up has ended: what is loaded stays; to look through it takes a tenth of a start.
    # For numpy, whose searches use one thread: those of its library would wait in a loop for work that never comes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: TID251 - written for the library, not read
    try:
        _serve(door, {**chosen, "data_dir": data_dir})  # As it was claimed, whatever the file says by now.
    except McpMemoryError as error:
        threading.Timer(REFUSING_SECONDS, door.close).start()  # Waiting clients come in first.
        door.refuse_all(str(error))
    except Exception:  # noqa: BLE001 - the edge: clients find the door closed
        traceback.print_exc()
    os._exit(0)


def _serve(door: Door, chosen: Mapping[str, object]) -> None:
    """Raises McpMemoryError where the memory cannot be opened."""
    import anyio

    from mcp_memory.app import open_app
    from mcp_memory.bridge.end_with_client import leave
    from mcp_memory.entrypoints.host.clients import Clients
    from mcp_memory.entrypoints.server.server_log import log_to_stderr
    from mcp_memory.entrypoints.server.upkeep import SWITCH_SECONDS, upkeep_for
    from mcp_memory.settings import load_settings, of_memory

    settings = of_memory(load_settings(**chosen))
    log_to_stderr(settings.log_level, settings.log_format)
    app = open_app(settings, takes=False)
    app.seats = ()
    os.chdir("/")  # The folder of the first client may be removed.
    should_end = threading.Event()
    clients = Clients(app, door, _perform, should_end)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: should_end.set())
    upkeep = upkeep_for(app, settings, read_files)
    upkeep.start()
    sys.setswitchinterval(SWITCH_SECONDS)
    anyio.run(_until_unneeded, door, clients, should_end, 60 * settings.idle_minutes)
    upkeep.stop()
    app.close()
    clients.leave()  # Now another process may open the memory.
    leave()


def _perform(*asked: Any) -> None:
    """Run a command as `performing.perform` does, which the first of them loads."""
    from mcp_memory.entrypoints.commands.performing import perform
    from mcp_memory.entrypoints.http import page_server as _  # noqa: F401 - it is one of the commands

    perform(*asked)


async def _until_unneeded(door: Door, clients: "Clients", should_end: threading.Event, seconds: float) -> None:
    """Serve until no client has been there for so long, or another must own the memory; end calls in an orderly way."""
    import anyio

    from mcp_memory.bridge.end_with_client import leave_within

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clients.serve)
        begun = time.monotonic()
        while door.is_held and build() == OWN_BUILD and not should_end.is_set():
            await anyio.sleep(LOOK_SECONDS)
            seen_at = clients.seen_at
            end = begun + max(FIRST_SECONDS, seconds) if seen_at is None else seen_at + seconds
            if not clients.are_present and time.monotonic() >= end:
                break
        leave_within(2 * END_SECONDS)  # Whatever a call that goes on holds.
        await anyio.to_thread.run_sync(clients.dismiss, END_SECONDS)
        tasks.cancel_scope.cancel()
