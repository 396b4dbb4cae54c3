"""Idle compaction: compacts logs near their window automatically, one at a time."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tokens import ModelFactor
from mcp_memory.domain.sessions.pressure import pressure
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.session_logs import LogSize, SessionLogStore, Trigger
from mcp_memory.ports.text import Clock
from mcp_memory.services.sessions.compact import Compact, Compacted, CompactRequest

LOOK_BACK_DAYS = 2
"""A session that was silent for longer no longer has an open window."""
_Key: TypeAlias = tuple[str, str, str]
"""Namespace, agent and session."""
_log = logging.getLogger(__name__)


class IdleCompaction:
    """Maintains the logs of all sessions, of any project and agent. Thread-safe.

    It skips a log that another process compacted meanwhile. After a compaction that shortened nothing, it waits until
    the log has grown. A log that a call is at work on, or has left as it is, belongs to the call until it grows.
    """

    def __init__(
        self,
        compact: Compact,
        logs: SessionLogStore,
        own: Caller,
        idle_seconds: float,
        factor: Callable[[], ModelFactor],
        clock: Clock,
        person_of: Callable[[str], str] = lambda agent: "",
    ) -> None:
        """`own` is the caller this process serves: its configured model never sees another project's or agent's log.

        `factor` converts counted tokens to the client's, which windows are in. `person_of` names an agent's person, ""
        for the owner of the memory.
        """
        self._compact = compact
        self._logs = logs
        self._own = (own.namespace, own.agent)
        self._idle_seconds = idle_seconds
        self._factor = factor
        self._clock = clock
        self._person_of = person_of
        self._left: dict[_Key, int] = {}
        self._changed = threading.Condition()
        self._calls = Counter[_Key]()
        self._under_way: _Key | None = None

    @contextmanager
    def kept_off(self, caller: Caller) -> Generator[None]:
        """Leave the log of the caller's session to a call. Waits for a compaction of it that is under way."""
        key = caller.namespace, caller.agent, caller.session_id
        with self._changed:
            self._changed.wait_for(lambda: self._under_way != key)
            self._calls[key] += 1
        try:
            yield
        finally:
            with suppress(StoreUnavailable):
                self._left[key] = self._logs.size(caller).tokens
            with self._changed:
                self._calls -= Counter((key,))

    def step(self, compacted: Callable[[Compacted], None] = lambda done: None) -> bool:
        """Compact one log that is due; return False where none is, or automatic compaction is off.

        Raises StoreUnavailable; what was committed stays.
        """
        for size, trigger in self._all_due():
            with self._changed:
                if self._calls[_key(size)]:
                    continue
                self._under_way = _key(size)
            try:
                done = self._do(size, trigger)
            finally:
                with self._changed:
                    self._under_way = None
                    self._changed.notify_all()
            saved = done.before.tokens - done.after.tokens
            _log.info(
                "Compacted a log in the background (%s): %d tokens saved, %d left.", trigger, saved, done.after.tokens
            )
            compacted(done)
            return True
        return False

    def due(self) -> int:
        """Count the logs that `step` would compact now. Raises StoreUnavailable."""
        return sum(1 for _ in self._all_due())

    def _all_due(self) -> Iterator[tuple[LogSize, Trigger]]:
        sizes = self._logs.sizes(self._clock() - LOOK_BACK_DAYS * DAY_SECONDS) if self._compact.is_automatic else ()
        for size in sizes:
            trigger = self._due(size)
            if trigger is not None:
                yield size, trigger

    def _due(self, size: LogSize) -> Trigger | None:
        """Return the trigger of a due log: at its threshold at once, below it after a pause in the session."""
        if size.tokens <= self._left.get(_key(size), -1):
            return None
        level = pressure(size.tokens, self._compact.options(None, None, self._factor())).level
        if level in ("forced", "ceiling"):
            return "forced"
        is_idle = self._clock() - size.last_at >= self._idle_seconds
        return "idle" if level == "idle" and is_idle else None

    def _do(self, size: LogSize, trigger: Trigger) -> Compacted:
        caller = Caller(
            namespace=size.namespace,
            agent=size.agent,
            session_id=size.session_id,
            named_session=True,
            person=self._person_of(size.agent),
        )
        summarizer = None if (size.namespace, size.agent) == self._own else "extractive"
        done = self._compact(CompactRequest(trigger=trigger, summarizer=summarizer), caller, self._factor())
        if not any(run.ran for run in done.runs):  # As it was when the passes saw it: it may have grown meanwhile.
            self._left[_key(size)] = done.before.tokens
        return done


def _key(size: LogSize) -> _Key:
    return size.namespace, size.agent, size.session_id
