"""Idle compaction: compacts logs near their window automatically, one at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from zlib import crc32

from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.requests import CompactRequest
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import Trigger
from mcp_memory.domain.model.token_factor import ModelFactor
from mcp_memory.domain.sessions.pressure import Level, pressure
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.access import ProcessLocks
from mcp_memory.ports.session_logs import LogSize, SessionLogStore
from mcp_memory.ports.text import Clock
from mcp_memory.services.sessions.compact import Compact, Compacted

LOOK_BACK_DAYS = 2
"""A session that was silent for longer no longer has an open window."""
PATIENCE_SECONDS = 20.0
"""A call waits so long for another that is at work on its log. Then it goes beside: what it commits is checked."""
LOCKS = 256
"""Files of locks, which stay: logs that share one wait for each other."""
_log = logging.getLogger(__name__)


class IdleCompaction:
    """Maintains the logs of all sessions, of any project and agent. Thread-safe.

    It skips a log that anybody is at work on, in any process. After a compaction that shortened nothing, it waits until
    the log has grown; so it does where a call has left a log as it is.
    """

    def __init__(
        self,
        compact: Compact,
        logs: SessionLogStore,
        locks: ProcessLocks,
        is_served: Callable[[str, str], bool],
        idle_seconds: float,
        factor: Callable[[], ModelFactor],
        clock: Clock,
        person_of: Callable[[str], str] = lambda agent: "",
        working_for: Callable[[Caller], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`is_served` says whether this process serves a namespace and agent.

        Its configured model never sees the log of another project or agent. `factor` converts counted tokens to the
        client's, which windows are in. `person_of` names an agent's person, "" for the owner of the memory. What is
        done within `working_for` is done for the client whose session it is: with its keys, in its time zone.
        """
        self._compact = compact
        self._logs = logs
        self._locks = locks
        self._is_served = is_served
        self._idle_seconds = idle_seconds
        self._factor = factor
        self._clock = clock
        self._person_of = person_of
        self._working_for = working_for

    @contextmanager
    def kept_off(self, caller: Caller) -> Generator[None]:
        """Leave the log of the caller's session to a call, in every process. Waits a while for others at work on it."""
        with self._held(caller, PATIENCE_SECONDS):
            try:
                yield
            finally:
                with suppress(StoreUnavailable):
                    self._logs.leave(caller, self._logs.size(caller).tokens)

    def hold_ceiling(self, caller: Caller) -> None:
        """Compact the caller's log if what was just stored in it passed its ceiling.

        Asks no model, and waits for nobody at work on the log: a model's answer there may take minutes, and what is
        stored after it is held again. Raises StoreUnavailable; what was committed stays.
        """
        if not self._compact.is_automatic or not self._is_over(caller):
            return
        with self._held(caller) as is_held:
            if is_held and self._is_over(caller):  # Another call may have compacted it since.
                self._do(CompactRequest(trigger="forced", summarizer="extractive"), caller)

    def _is_over(self, caller: Caller) -> bool:
        size = self._logs.size(caller)
        return size.tokens > size.left and self._level(size) == "ceiling"

    def _level(self, size: LogSize) -> Level:
        return pressure(size.tokens, self._compact.options(None, None, self._factor())).level

    def step(self, compacted: Callable[[Compacted], None] = lambda done: None) -> bool:
        """Compact one log that is due; return False where none is, or automatic compaction is off.

        Raises StoreUnavailable; what was committed stays.
        """
        for found, _ in self._all_due():
            caller = self._caller(found)
            with self._held(caller) as is_held:
                size = self._logs.size(caller)
                trigger = self._due(size) if is_held else None  # Another process may have compacted it since.
                if trigger is None:
                    continue
                summarizer = None if self._is_served(size.namespace, size.agent) else "extractive"
                with self._working_for(caller):
                    done = self._do(CompactRequest(trigger=trigger, summarizer=summarizer), caller)
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
        if size.tokens <= size.left:
            return None
        level = self._level(size)
        if level in ("forced", "ceiling"):
            return "forced"
        is_idle = self._clock() - size.last_at >= self._idle_seconds
        return "idle" if level == "idle" and is_idle else None

    def _caller(self, size: LogSize) -> Caller:
        return Caller(
            namespace=size.namespace,
            agent=size.agent,
            session_id=size.session_id,
            named_session=True,
            person=self._person_of(size.agent),
        )

    @contextmanager
    def _held(self, caller: Caller, patience: float = 0.0) -> Generator[bool]:
        """Keep others off the caller's log; False where somebody is at work on it still. Without locks all go on."""
        number = crc32(repr((caller.namespace, caller.agent, caller.session_id)).encode()) % LOCKS
        try:
            release = self._locks.take("log", str(number), patience=patience)
        except StoreUnavailable:
            release = _nothing
        try:
            yield release is not None
        finally:
            if release is not None:
                release()

    def _do(self, request: CompactRequest, caller: Caller) -> Compacted:
        done = self._compact(request, caller, self._factor())
        if not any(run.ran for run in done.runs):  # As it was when the passes saw it: it may have grown meanwhile.
            self._logs.leave(caller, done.before.tokens)
        return done


def _nothing() -> None: ...
