"""Sessions that taught something: a check that failed and was mended, a commit, and what the user said outright."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mcp_memory.app import App
from mcp_memory.domain.model.records import Kind, NewRecord, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.services.memory.extract import Extractor, LearntDraft

if TYPE_CHECKING:
    from tests.conftest import Clock

WHY = "`expires_at` is compared with the clock of the host."
FIX = f"`pytest -q` failed: assert 174 == 180 → {WHY}; edited src/clock.py"
"""What `mended` comes to."""
COMMIT = "Committed 3f2a1bc: Compare with the clock of the database"
"""What `committed` comes to."""
RULE = "From now on, use the clock of the database."
"""What `told` comes to."""
_EDIT = {"file_path": "src/clock.py", "old_string": "a", "new_string": "expires_at > now()"}


class Sessions:
    """Stores the log of sessions, an entry a second, and extracts what they taught."""

    def __init__(self, app: App, clock: "Clock") -> None:
        self._app = app
        self._clock = clock
        self.extracting = Extractor(app.records, TiktokenCounter(), clock, person_of=app.tokens.person_of)

    def mended(self, caller: Caller, **given: Any) -> str:
        """Log a test that fails, an edit, and the test that passes; return the id of the first call."""
        call = self._called("Bash", {"command": "pytest -q"}, "E   assert 174 == 180\n1 failed", caller, **given)
        self._say("message", WHY, caller, role="assistant", **given)
        self._called("Edit", _EDIT, "ok", caller, **given)
        self._called("Bash", {"command": "pytest -q"}, "12 passed", caller, **given)
        return call

    def committed(self, caller: Caller, **given: Any) -> str:
        """Log a commit; return the call's id."""
        title = COMMIT.partition(": ")[2]
        return self._called("Bash", {"command": f"git commit -m '{title}'"}, f"[main 3f2a1bc] {title}", caller, **given)

    def told(self, caller: Caller, **given: Any) -> str:
        """Log what the user says in so many words; return its id."""
        return self._say("message", f"Fine. {RULE} What is next?", caller, role="user", **given)

    def extract(self, caller: Caller, meanwhile: Callable[[], object] = lambda: None) -> list[str | None]:
        """Store what the caller's session taught, in one write; return the ids."""
        drafts = self.drafts(caller)
        meanwhile()
        with self._app.records.write() as transaction:
            return [self.extracting.store(draft, self._clock.now, transaction) for draft in drafts]

    def drafts(self, caller: Caller) -> Sequence[LearntDraft]:
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
