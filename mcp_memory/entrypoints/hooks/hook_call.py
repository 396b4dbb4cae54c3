"""One hook of one session: the client's input, and the session's memory, opened when it is needed."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mcp_memory.domain.text.control_characters import whole_characters
from mcp_memory.entrypoints.hooks.client_events import CLAUDE_CODE, OF_CLAUDE_CODE, ClientEvents
from mcp_memory.entrypoints.hooks.session_notes import Noted, NotesElsewhere, SessionNotes
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.walls import stay_within
from mcp_memory.services.access.served_requests import asked_by

if TYPE_CHECKING:
    from mcp_memory.app import App, Seat
    from mcp_memory.domain.model.records import Json
    from mcp_memory.domain.model.scopes import Caller
    from mcp_memory.settings import Settings

MAX_SESSION_CHARACTERS = 200
REMOTE_PATH = "/hook"
"""Behind the address of a memory over HTTP: a proxy that passes on the one passes on the other."""
_NO_TEXT = frozenset({"tool_input", "client"})
NEW_PROCESS = frozenset({"startup", "resume"})
"""Reasons of a session's start at which the client starts a new server; `clear` and `compact` keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The fields that hooks use, each "" where it is missing or of another type: the client changes some at times.

    `source` is why a session starts or who prompts; `tool_input` are the arguments of a call, but for what it writes.
    """

    session_id: str
    transcript_path: str = ""
    cwd: str = ""
    source: str = ""
    trigger: str = ""
    prompt: str = ""
    compact_summary: str = ""
    tool_name: str = ""
    tool_input: "Mapping[str, Json]" = field(default_factory=dict[str, "Json"])
    client: str = CLAUDE_CODE
    """As the client calls itself: budgets are in its tokens."""


def read_payload(raw: bytes, client: ClientEvents = OF_CLAUDE_CODE) -> Payload:
    """Read the client's payload from these bytes, as UTF-8 without halves of pairs.

    Raises:
        InvalidRequest: it is no JSON object, or names no session.
    """
    try:
        given: object = json.loads(raw.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("The hook's input is not JSON; let the client run the hook.") from error
    if not isinstance(given, dict):
        raise InvalidRequest("The hook's input is not a JSON object; let the client run the hook.")
    named = client.read(cast("dict[str, object]", given))
    told = {each.name: _text(named.get(each.name)) for each in fields(Payload) if each.name not in _NO_TEXT}
    told["session_id"] = told["session_id"].strip()[:MAX_SESSION_CHARACTERS]
    if not told["session_id"].isprintable() or not told["session_id"]:
        raise InvalidRequest("The hook's input names no session; let the client run the hook.")
    return Payload(**told, tool_input=_named(named.get("tool_input")), client=client.name)


def _named(arguments: object) -> "Mapping[str, Json]":
    """Return what a call runs or names to work on: what it writes may be long, and is nobody's business here."""
    from mcp_memory.domain.retrieval.guardrails import COMMANDS, NAMED

    given = cast("dict[str, Json]", arguments) if isinstance(arguments, dict) else {}
    return {name: value for name, value in given.items() if name in COMMANDS | NAMED}


def _text(value: object) -> str:
    return whole_characters(value) if isinstance(value, str) else ""


@dataclass(kw_only=True)
class HookCall:
    """One hook of one session, with what it needs. Opening the memory takes most of its time, so `app` does it late.

    `server` is the memory of the server that answers for the hook's process, if one does; over HTTP `visitor` is whom
    its token names, `lines` are the transcript's new ones, behind some that are known, and `left` and `standing` the
    ids of those that its user took back, and of the others. `given` are the records that the hook adds to the
    conversation.
    """

    name: str = ""
    payload: Payload
    settings: "Settings"
    notes: SessionNotes | NotesElsewhere
    folder: Path
    server: "App | None" = None
    visitor: "Caller | None" = None
    lines: tuple[bytes, bytes] = (b"", b"")
    left: Sequence[str] = ()
    standing: Sequence[str] = ()
    given: list[str] = field(default_factory=list[str])
    _opened: ExitStack = field(default_factory=ExitStack)

    @property
    def has_memory(self) -> bool:
        """False where nothing was ever stored here, and reading can be spared."""
        from mcp_memory.wiring import memory_exists

        return memory_exists(self.settings)

    @cached_property
    def app(self) -> "App":
        """The memory. Raises StoreUnavailable."""
        from mcp_memory.app import open_app

        if self.server is not None:
            return self.server
        app = open_app(self.settings, folder=self.folder)
        self._opened.callback(app.close)
        self._opened.enter_context(app.serving(f"hook {self.name}"))
        return app

    @cached_property
    def seat(self) -> "Seat":
        """The seat of the session's folder: a server finds the one that a process of the hook's own would find now."""
        from mcp_memory.app import Seat

        if self.server is None or self.visitor is not None:
            return self.app.own
        return Seat(self.server, self.settings, self.folder)

    @cached_property
    def caller(self) -> "Caller":
        """The agent in the client's session, which is only a label: its current task is that of the client's server.

        Where the settings name a session, that one counts, for the server too.
        """
        caller = self.visitor or self.app.caller(client=self.payload.client, seat=self.seat)
        stay_within(caller.scopes)
        if caller.named_session:
            return caller
        beside = self.app.windows.beside(caller, opens=self.payload.source in NEW_PROCESS)
        caller = replace(beside, session_id=self.payload.session_id)
        asked_by(caller)
        return caller

    def note_fed(self, until: int, mark: str) -> None:
        """Record the offset up to which the log has the transcript, and the digest of the text before it."""
        namespace = self.seat.membership.namespace
        self.notes.write(Noted(folder=str(self.folder), namespace=namespace, fed_until=until, fed_mark=mark))

    def note_given(self) -> None:
        """Record which records the session has: only once they are on their way to it."""
        if self.given:
            self.notes.add_given(self.given)

    def close(self) -> None:
        """Close the memory where it was opened for the hook."""
        self._opened.close()


def hook_call(
    name: str, payload: Payload, settings: "Settings", working_dir: Path, server: "App | None" = None
) -> HookCall:
    """Find the session's memory: of the folder it began in, wherever it went since, unless the settings name another.

    Where that folder is gone, as a worktree may be, the session keeps the namespace that it had there. `working_dir` is
    that of the hook's process.
    """
    from mcp_memory.projects import folder_exists

    notes = SessionNotes(settings.data_dir, payload.session_id)
    noted = notes.noted
    folder = working_dir / (noted.folder or payload.cwd)
    if "\ufffd" in payload.cwd and not noted.folder and not folder_exists(folder):
        folder = working_dir  # The folder's name is no text, so that the client could not spell it.
    if settings.roots:  # The client says the folder with each event.
        settings = settings.model_copy(update={"namespace": None, "roots": False})
    if settings.namespace is None and noted.folder and noted.namespace and not folder_exists(folder):
        settings = settings.model_copy(update={"namespace": noted.namespace})
    return HookCall(name=name, payload=payload, settings=settings, notes=notes, folder=folder, server=server)
