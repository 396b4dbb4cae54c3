"""Sessions that came to something: a failure with its fix, and calls that the user refused."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mcp_memory.app import App
from mcp_memory.domain.model.records import Kind, NewRecord, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.services.memory.extract import Extractor, OutcomeDraft

if TYPE_CHECKING:
    from tests.conftest import Clock

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
FIX = "`pytest -q` failed: assert 174 == 180 → edited src/clock.py"
"""What `mended` comes to."""
DEAD_END = "Refused: Ran `composer require csv` → No new dependency for that."
"""What `refused` comes to."""
_EDIT = {"file_path": "src/clock.py", "old_string": "a", "new_string": "expires_at > now()"}


class Sessions:
    """Stores the log of sessions, an entry a second, and extracts what they came to."""

    def __init__(self, app: App, clock: "Clock") -> None:
        self._app = app
        self._clock = clock
        self.extracting = Extractor(TiktokenCounter(), person_of=app.tokens.person_of)

    def mended(self, caller: Caller, **given: Any) -> str:
        """Log a test that fails, an edit, and the test that passes; return the id of the first call."""
        call = self._called("Bash", {"command": "pytest -q"}, "E   assert 174 == 180\n1 failed", caller, **given)
        self._called("Edit", _EDIT, "ok", caller, **given)
        self._called("Bash", {"command": "pytest -q"}, "12 passed", caller, **given)
        return call

    def refused(self, caller: Caller, **given: Any) -> str:
        """Log a call that the user refuses, and why; return its id."""
        call = self._called("Bash", {"command": "composer require csv"}, REFUSED, caller, **given)
        self._say("message", "No new dependency for that.", caller, role="user", **given)
        return call

    def extract(self, caller: Caller, meanwhile: Callable[[], object] = lambda: None) -> list[str | None]:
        """Store what the caller's session came to, in one write; return the ids."""
        drafts = self.drafts(caller)
        meanwhile()
        with self._app.records.write() as transaction:
            return [self.extracting.store(draft, self._clock.now, transaction) for draft in drafts]

    def drafts(self, caller: Caller) -> Sequence[OutcomeDraft]:
        where = RecordFilter(scopes=caller.scopes, session_id=caller.session_id, own_of=caller.agent)
        log = [each for each in reversed(self._app.records.list(where, "created", 100)) if "source" not in each.details]
        return [*self.extracting.drafts(log)]

    def _called(self, tool: str, arguments: dict[str, str], result: str, caller: Caller, **given: Any) -> str:
        call = self._say("tool_call", json.dumps(arguments), caller, tool=tool, role="assistant", **given)
        self._say("tool_result", result, caller, tool=tool, **given)
        return call

    def _say(self, kind: Kind, text: str, caller: Caller, **given: Any) -> str:
        self._clock.advance(seconds=1)
        return self._app.remember([NewRecord(text=text, kind=kind, **given)], caller)[0].id


def everything(app: App) -> list[Record]:
    """Return all records in the order in which they were stored."""
    where = RecordFilter(scopes=app.caller().scopes, include_inactive=True)
    return list(reversed(app.records.list(where, "created", 10_000)))


def extracted(app: App) -> dict[str, Record]:
    """Return what was extracted by its text."""
    return {each.text: each for each in everything(app) if "source" in each.details}
