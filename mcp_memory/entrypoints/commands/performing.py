"""Runs commands of other processes over the memory that this one owns, with their streams, folders and names.

What `options` decorates fills ASKED, once the package is loaded.
"""

import json
import logging
import socket
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import typer

from mcp_memory.bridge.door import HERE, refusal
from mcp_memory.bridge.private_sockets import received
from mcp_memory.entrypoints.commands.ask_owner import PATH_KEY
from mcp_memory.entrypoints.commands.console import INTERRUPTED, Terminal, at, complain, one_line_errors
from mcp_memory.entrypoints.commands.lent_streams import terminal_of
from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.app import App, Seat
    from mcp_memory.domain.model.scopes import Caller
    from mcp_memory.services.status.overview import ClientStatus
    from mcp_memory.settings import Settings

logger = logging.getLogger(__name__)

COMMAND_LINE: Final = "command line"
"""The client's name of all that commands store and change: a person's agent has the same name in other clients."""
PATIENCE_SECONDS: Final = 5.0
"""Time for a client to hand over its streams and arguments."""
MOST_BYTES: Final = 4_194_304


class AskedCommand(NamedTuple):
    """A command that asks the memory, as the memory's owner runs it."""

    run: Callable[[Mapping[str, Any]], None]
    """Runs it with these arguments."""
    needs_same: bool
    """True where it makes no sense with settings of the memory other than the client's."""


ASKED: dict[str, AskedCommand] = {}
"""Commands that ask the memory, by the names of their functions."""


class Served(NamedTuple):
    """The client of the memory's owner whose command is at work."""

    app: "App"
    settings: "Settings"
    folder: Path
    differing: tuple[str, ...]

    @contextmanager
    def memory(self, *, takes: bool) -> "Generator[App]":
        """Yield the memory as the client is in it."""
        from mcp_memory.app import Seat

        seat = Seat(
            self.app, self.settings, self.folder, takes=takes, differing=self.differing, client=COMMAND_LINE
        )  # fmt: skip
        with self.app.seated(seat):
            yield cast("App", _AtSeat(self.app, seat))


class _AtSeat:
    """The memory, asked from a client's seat."""

    def __init__(self, app: "App", seat: "Seat") -> None:
        self.settings = seat.settings
        self._app = app
        self._seat = seat

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app, name)

    def status(self, caller: "Caller", *, of_all: bool = False) -> "ClientStatus":
        return self._app.status(caller, self._seat, of_all=of_all)

    def caller(self, session_id: str | None = None) -> "Caller":
        return self._app.caller(session_id, seat=self._seat)


_SERVED: ContextVar[Served | None] = ContextVar("served", default=None)


def working_folder() -> Path | None:
    """Return the working directory of the client whose command is at work; None for this process's own."""
    client = _SERVED.get()
    return client.folder if client else None


def client_at_work() -> Served | None:
    """Return the client whose command is at work; None where the command is the process's own."""
    return _SERVED.get()


def is_served() -> bool:
    """True in the process that owns the memory, while it runs another's command."""
    return _SERVED.get() is not None


@contextmanager
def served(client: Served) -> Generator[None]:
    """Run a command of this client as long as the context lasts."""
    token = _SERVED.set(client)
    try:
        yield
    finally:
        _SERVED.reset(token)


def perform(app: "App", connection: socket.socket, hello: Mapping[str, object], should_end: threading.Event) -> None:
    """Run the command of the client at the other end, which has said this; tell its exit code, and close.

    Once `should_end` is set, it is interrupted.
    """
    try:
        with ExitStack() as opened:
            opened.enter_context(connection)
            connection.settimeout(PATIENCE_SECONDS)
            _, lent, _, _ = socket.recv_fds(connection, 1, 3)
            terminal = opened.enter_context(terminal_of(connection, lent, hello, should_end))
            given = _arguments(received(connection, hello.get("size"), MOST_BYTES))
            try:
                from mcp_memory.settings import settings_of_client, working_for

                settings, differing = settings_of_client(app.settings, hello)
                if not (command := ASKED.get(str(hello.get("name")))):
                    raise InvalidRequest("There is no such command in the version that has this memory open.")
                if differing and command.needs_same:
                    raise InvalidRequest(_OTHERWISE.format(names=", ".join(differing)))
            except InvalidRequest as error:
                return connection.sendall(refusal(str(error)))
            connection.sendall(HERE)  # From here on it is done.
            client = Served(app, settings, Path(str(hello["folder"])), differing)
            with at(terminal), served(client), working_for(settings):
                code = _run(terminal, lambda: _told_of(differing, command, given))
            return connection.sendall(b"%d\n" % code)
    except (OSError, ValueError, TypeError, KeyError, KeyboardInterrupt) as error:
        logger.info("A command was not answered (%s).", type(error).__name__)  # It left, or said nothing of a command.
    except SystemExit as error:  # It is another process that is to end.
        logger.info("A command ended with %s.", error.code)


def _told_of(differing: Sequence[str], command: AskedCommand, given: Mapping[str, Any]) -> None:
    if differing:
        complain(f"Settings that do not count, since the memory is open with others: {', '.join(differing)}.")
    command.run(given)


_OTHERWISE: Final = "This memory is open with other settings ({names}). Run `mcp-memory stop`, then this command again."


def _run(terminal: Terminal, command: Callable[[], object]) -> int:
    """Return the exit code of a command, which has said all that it says."""
    try:
        code = _code_of(command)
        for stream in (terminal.stdout, terminal.stderr):
            stream.flush()
    except OSError:  # Nobody reads it any more.
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _code_of(command: Callable[[], object]) -> int:
    try:
        with one_line_errors():
            command()
        return 0
    except typer.Exit as end:
        return end.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return 1
    except Exception as error:  # noqa: BLE001 - the edge: other clients are served on
        log_defect("A command", error)
        complain(f"{type(error).__name__}; `mcp-memory doctor` looks for what is wrong.")
        return 1


def _arguments(content: bytes) -> Mapping[str, Any]:
    """Raises ValueError for what is no JSON."""
    return json.loads(content, object_hook=lambda each: Path(each[PATH_KEY]) if each.keys() == {PATH_KEY} else each)
