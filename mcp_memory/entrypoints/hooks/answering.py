"""Answers one hook: out of the memory that this process owns; or alone, where it has no owner or lies elsewhere."""

import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from mcp_memory.bridge.hook import END, FAILURE, MOST_BYTES, OUTPUT
from mcp_memory.bridge.private_sockets import received
from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import InvalidRequest, McpMemoryError
from mcp_memory.settings import load_settings, settings_of_client, working_for

if TYPE_CHECKING:
    from mcp_memory.app import App

logger = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 5.0
"""Time for a hook to send its payload, and to take the answer."""


class Answer(NamedTuple):
    """OUTPUT or FAILURE, a text, and what to do once the hook has it."""

    kind: bytes
    text: str = ""
    taken: Callable[[], None] = lambda: None


def answer_hook(app: "App", connection: socket.socket, hello: Mapping[str, object]) -> None:
    """Answer the hook at the other end, in its own folder's namespace, and close the connection."""
    try:
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            payload = received(connection, hello.get("size"), MOST_BYTES)
            answer = _answered(app, payload, hello)
            connection.sendall(answer.kind + answer.text.encode("utf-8", "replace").replace(END, b" ") + END)
            answer.taken()
    except (OSError, ValueError) as error:  # It left, or said nothing that a hook says.
        logger.info("A hook was not answered (%s).", type(error).__name__)


def _answered(app: "App", payload: bytes, hello: Mapping[str, object]) -> Answer:
    from mcp_memory.entrypoints.hooks.client_events import client_events
    from mcp_memory.entrypoints.hooks.events import HOOKS
    from mcp_memory.entrypoints.hooks.hook_call import hook_call, read_payload

    try:
        act = HOOKS.get(name := str(hello.get("name")))
        if act is None:
            raise _unknown(name)
        settings, _ = settings_of_client(app.settings, hello)
        client = client_events(str(hello.get("client", "")))
        hook = hook_call(name, read_payload(payload, client), settings, Path(str(hello["folder"])), app)
        with app.seated(hook.seat), working_for(hook.settings), app.serving(f"hook {name}"):
            return Answer(OUTPUT, client.taken(name, act(hook) or ""), hook.note_given)
    except McpMemoryError as error:
        return Answer(FAILURE, str(error))
    except Exception as error:  # noqa: BLE001 - the edge
        log_defect("A hook", error)
        return Answer(FAILURE, f"{type(error).__name__}; `mcp-memory doctor` looks for what is wrong.")


def run(name: str, raw: bytes, overrides: Mapping[str, object], client: str = "") -> str:
    """Run the client's hook of that name here for the payload in these bytes, and return what it prints.

    Raises:
        InvalidRequest: there is no such hook or client, or the payload is none; settings are refused.
        McpMemoryError: the memory cannot be used.
    """
    from mcp_memory.entrypoints.hooks.client_events import client_events
    from mcp_memory.entrypoints.hooks.events import HOOKS
    from mcp_memory.entrypoints.hooks.hook_call import hook_call, read_payload

    act = HOOKS.get(name)
    if act is None:
        raise _unknown(name)
    of_client = client_events(client)
    hook = hook_call(name, read_payload(raw, of_client), load_settings(**overrides), Path.cwd())
    if hook.settings.url:  # The memory lies elsewhere: what stands here is none of the session's.
        from mcp_memory.entrypoints.hooks.remote import RemoteMemory

        act = partial(RemoteMemory(hook.settings).act, name)
    try:
        text = act(hook) or ""
        hook.note_given()
        return of_client.taken(name, text)
    finally:
        hook.close()


def _unknown(name: str) -> InvalidRequest:
    from mcp_memory.entrypoints.hooks.events import HOOKS

    return InvalidRequest(f"There is no hook {name[:40]!r}; known are {', '.join(HOOKS)}.")
