"""One hook of one session: Claude Code's input, and the session's memory, opened on demand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mcp_memory.entrypoints.hooks.session_notes import Noted, SessionNotes
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.scopes import Caller
    from mcp_memory.settings import Settings

CLIENT = "claude-code"
"""As the client calls itself: budgets are in its tokens."""
MAX_SESSION_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The fields that hooks use, each "" where it is missing or of another type: the client changes some at times.

    `source` is why a session starts or who prompts.
    """

    session_id: str
    transcript_path: str = ""
    cwd: str = ""
    source: str = ""
    trigger: str = ""
    prompt: str = ""
    compact_summary: str = ""


def read_payload(raw: bytes) -> Payload:
    """Read the payload from these bytes, as UTF-8 without halves of pairs.

    Raises:
        InvalidRequest: it is no JSON object, or names no session.
    """
    try:
        given: object = json.loads(raw.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("The hook's input is not JSON; let the client run the hook.") from error
    if not isinstance(given, dict):
        raise InvalidRequest("The hook's input is not a JSON object; let the client run the hook.")
    named = cast("dict[str, object]", given)
    told = {field.name: _text(named.get(field.name)) for field in fields(Payload)}
    told["session_id"] = told["session_id"].strip()[:MAX_SESSION_CHARACTERS]
    if not told["session_id"].isprintable() or not told["session_id"]:
        raise InvalidRequest("The hook's input names no session; let the client run the hook.")
    return Payload(**told)


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


@dataclass(kw_only=True)
class HookSession:
    """Gives a hook what it works with. Opening the memory takes most of its time: `app` does it at the first use."""

    payload: Payload
    settings: "Settings"
    notes: SessionNotes
    folder: Path

    @property
    def has_memory(self) -> bool:
        """False where nothing was ever stored here, and reading can be spared."""
        from mcp_memory.wiring import memory_exists

        return memory_exists(self.settings)

    @cached_property
    def app(self) -> "App":
        """The memory. Raises StoreUnavailable."""
        from mcp_memory.app import open_app

        return open_app(self.settings, folder=self.folder)

    @cached_property
    def caller(self) -> "Caller":
        """The agent in the client's session, which is only a label: its current task is that of the agent's server.

        Where the settings name a session, that one counts, for the server too.
        """
        caller = self.app.caller(client=CLIENT)
        return caller if caller.named_session else replace(caller, session_id=self.payload.session_id)

    def note_fed(self, until: int, mark: str) -> None:
        """Record the offset up to which the log has the transcript, and the digest of the text before it."""
        namespace = self.app.membership.namespace
        self.notes.write(Noted(folder=str(self.folder), namespace=namespace, fed_until=until, fed_mark=mark))

    def close(self) -> None:
        """Close the memory where it was opened."""
        if "app" in self.__dict__:
            self.app.close()


def open_session(payload: Payload, overrides: Mapping[str, object]) -> HookSession:
    """Find the session's memory: of the folder it began in, wherever it went since, unless the settings name another.

    Where that folder is gone, as a worktree may be, the session keeps the namespace that it had there.

    Raises:
        InvalidRequest: a setting is refused.
    """
    from mcp_memory.projects import folder_exists
    from mcp_memory.settings import load_settings

    settings = load_settings(**overrides)
    notes = SessionNotes(settings.data_dir, payload.session_id)
    noted = notes.noted
    folder = Path(noted.folder or payload.cwd).absolute()
    if settings.namespace is None and noted.folder and noted.namespace and not folder_exists(folder):
        settings = load_settings(**{**overrides, "namespace": noted.namespace})
    return HookSession(payload=payload, settings=settings, notes=notes, folder=folder)
