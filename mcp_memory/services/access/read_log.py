"""The log of reads: notes which request gave which records to whom, and shows it to those who may know.

Entries wait for a second and are written together, by a thread of their own: no request waits for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Final

from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.reads import ALL_RECORDS, ReadEntry, ReadStore

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Instant
    from mcp_memory.domain.model.scopes import Caller
    from mcp_memory.ports.text import Clock
    from mcp_memory.services.access.served_requests import ServedRequest

_log = logging.getLogger(__name__)

DAY_SECONDS: Final = 86_400.0
WRITTEN_WITHIN_SECONDS: Final = 1.0
"""Time for which the first entry waits for others. A process that is killed loses what was noted within it."""
MOST_WAITING: Final = 10_000
"""Entries that wait where the store takes none, as on a full disk; beyond them the oldest are lost."""
PRUNED_EVERY_SECONDS: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """Some entries, newest first, and the place behind which further ones come; None at the end."""

    entries: Sequence[ReadEntry]
    further: tuple[Instant, str] | None


class ReadLog:
    """Thread-safe. Keeps entries for `days`, none for 0."""

    def __init__(
        self, reads: ReadStore, seen: Callable[[Sequence[str], Caller], Collection[str]], clock: Clock, days: float
    ) -> None:
        """`seen` returns those of some records that a caller sees."""
        self.days = days
        self._reads = reads
        self._seen = seen
        self._clock = clock
        self._waiting: list[ReadEntry] = []
        self._timer: threading.Timer | None = None
        self._prune_at = -inf
        self._noting, self._writing = threading.Lock(), threading.Lock()

    def note(self, request: ServedRequest) -> None:
        """Note a request that gave records. Returns at once."""
        if not (self.days and request.given and request.caller):
            return
        by = request.caller
        entry = ReadEntry(
            request=request.id, at=self._clock(), way=request.way, namespace=by.namespace, agent=by.agent,
            person=by.person, token=request.token, session_id=by.session_id, ids=tuple(request.given),
        )  # fmt: skip
        with self._noting:
            self._waiting.append(entry)
            if self._timer is None:
                self._timer = threading.Timer(WRITTEN_WITHIN_SECONDS, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Write what waits. What cannot be written now waits on."""
        with self._writing:
            with self._noting:
                entries, self._waiting, self._timer = self._waiting, [], None
            if not entries:
                return
            try:
                self._reads.add(entries)
            except StoreUnavailable as error:
                self._keep(entries, error)

    def _keep(self, entries: list[ReadEntry], error: StoreUnavailable) -> None:
        with self._noting:
            waiting = entries + self._waiting
            self._waiting = waiting[-MOST_WAITING:]
            lost = len(waiting) - len(self._waiting)
        _log.warning("could not write %d entries of the log of reads: %s", len(entries), type(error).__name__)
        if lost:
            _log.error("the log of reads lost %d entries", lost)

    def prune(self) -> None:
        """Delete what is older than it may be, once an hour at most. Raises StoreUnavailable."""
        now = self._clock()
        if now >= self._prune_at:
            self._prune_at = now + PRUNED_EVERY_SECONDS
            self._reads.prune(now - self.days * DAY_SECONDS)

    def of_agent(
        self, caller: Caller, agent: str, limit: int, before: tuple[Instant, str] | None = None, *, of_all: bool = False
    ) -> ReadPage:
        """Return what an agent was given in the caller's namespace; "" means every agent that the caller may ask about.

        Somebody with the right to administer may ask about any agent, and is told those ids that its own scopes hold.
        Others are told about their own agent. With `of_all`, as for who has the memory's files, everything is told.
        """
        if not of_all and not caller.is_admin:
            agent = caller.agent
        found = self._reads.entries(caller.namespace, limit, agent=agent, before=before)
        return self._page(found, limit, caller, of_all=of_all)

    def of_record(
        self, record_id: str, caller: Caller, limit: int, before: tuple[Instant, str] | None = None,
        *, of_all: bool = False,
    ) -> ReadPage:  # fmt: skip
        """Return who was given a record; for rights see `of_agent`. With `of_all`, in any namespace."""
        found = self._reads.of_record(
            record_id,
            limit,
            namespace="" if of_all else caller.namespace,
            agent="" if of_all or caller.is_admin else caller.agent,
            before=before,
        )
        return self._page(found, limit, caller, of_all=of_all)

    def between(self, since: Instant, until: Instant) -> Iterator[ReadEntry]:
        """Yield every entry from `since` on and before `until`, oldest first. For who has the memory's files alone."""
        return self._reads.between(since, until)

    def _page(self, found: Sequence[ReadEntry], limit: int, caller: Caller, *, of_all: bool) -> ReadPage:
        further = (found[-1].at, found[-1].request) if len(found) == limit else None
        return ReadPage(entries=found if of_all else self._within(found, caller), further=further)

    def _within(self, found: Sequence[ReadEntry], caller: Caller) -> Sequence[ReadEntry]:
        """Return the entries with the ids that the caller may know: what its own agent was given, and what it sees."""
        others = {each for entry in found if entry.agent != caller.agent for each in entry.ids}
        known = {ALL_RECORDS, *(self._seen(sorted(others), caller) if others else ())}
        told = [
            entry if entry.agent == caller.agent else replace(entry, ids=tuple(i for i in entry.ids if i in known))
            for entry in found
        ]
        return [entry for entry in told if entry.ids]

    def close(self) -> None:
        """Write what waits."""
        with self._noting:
            if self._timer:
                self._timer.cancel()
        self.write()
