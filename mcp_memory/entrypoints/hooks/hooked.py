"""One hook of one session: what the client says of it, and the memory that it is about, opened where it is needed."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_memory.entrypoints.hooks.notes import SessionNotes
from mcp_memory.entrypoints.hooks.payload import Payload

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.scopes import Caller
    from mcp_memory.settings import Settings

CLIENT = "claude-code"
"""As the client calls itself: budgets are in its tokens."""


class Hooked:
    """What a hook works with. Opening the memory takes most of a hook's time: `app` does it at the first use."""

    def __init__(self, payload: Payload, settings: "Settings", notes: SessionNotes, folder: Path) -> None:
        self.payload = payload
        self.folder = folder
        self.settings = settings
        self.notes = notes

    @property
    def has_memory(self) -> bool:
        """False where nothing was ever stored here, and reading can be spared."""
        from mcp_memory.making import memory_exists

        return memory_exists(self.settings)

    @cached_property
    def app(self) -> "App":
        """The memory. Raises StoreUnavailable."""
        from mcp_memory.app import open_app

        return open_app(self.settings, folder=self.folder)

    @cached_property
    def caller(self) -> "Caller":
        """The agent in the client's session, whose name is but a label: it stands where the agent's server stands.

        Where the settings name a session, it is that one, for the server too.
        """
        caller = self.app.caller(client=CLIENT)
        return caller if caller.named_session else replace(caller, session_id=self.payload.session_id)

    def note_fed(self, until: int, mark: str) -> None:
        """Remember how far the transcript is in the log, and what stands before that."""
        self.notes.write(str(self.folder), self.app.membership.namespace, until, mark)

    def close(self) -> None:
        """Close the memory where it was opened."""
        if "app" in self.__dict__:
            self.app.close()


def hooked(payload: Payload, overrides: Mapping[str, object]) -> Hooked:
    """The session's memory: that of the folder it began in, wherever it went since, unless the settings name another.

    Where that folder is gone, as a worktree may be, the session keeps the namespace that it had there.

    Raises:
        InvalidRequest: a setting is refused.
    """
    from mcp_memory.projects import folder_exists
    from mcp_memory.settings import load_settings

    settings = load_settings(**overrides)
    notes = SessionNotes(settings.data_dir, payload.session_id)
    folder = Path(notes.folder or payload.cwd).absolute()
    if settings.namespace is None and notes.folder and notes.namespace and not folder_exists(folder):
        settings = load_settings(**{**overrides, "namespace": notes.namespace})
    return Hooked(payload, settings, notes, folder)
