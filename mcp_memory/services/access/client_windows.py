"""Windows: gives each window of an agent a place of its own in the task tree, and knows which ones are live.

A window is a server process over stdio, another that passes its messages on to one, or a session over HTTP.
"""

import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import NOWHERE, is_window, nearest_open, place_to_resume, window_place
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.access import ProcessLocks
from mcp_memory.ports.text import Clock
from mcp_memory.ports.transaction import TaskReader

IDLE_SECONDS = 1_800.0
"""Half an hour, after which the protocol's library forgets a session without use, unless the client listens."""
REMEMBERED = 1_000
"""Idle sessions whose places a server remembers."""
RETURN_SECONDS = 60.0
"""Time after which a window keeps a place that it has gone on at, though the one that left it comes back."""


@dataclass(slots=True)
class _TakenPlace:
    place: str
    release: Callable[[], None]
    taken_at: Instant
    used_at: Instant
    is_own: bool = False
    """True where its window had it before."""


class ClientWindows:
    """The windows that this process serves. Thread-safe.

    Where locks do not work, all windows of an agent share its own place.
    """

    def __init__(
        self, records: TaskReader, locks: ProcessLocks, clock: Clock, present: Callable[[str], str] = str
    ) -> None:
        """`present` returns the name that a namespace has now."""
        self._present = present
        self._records = records
        self._locks = locks
        self._clock = clock
        self._mine: dict[tuple[str, str, str], _TakenPlace] = {}
        """By namespace, agent and the protocol's session, which is "" over stdio."""
        self._former: dict[tuple[str, str, str], str] = {}
        """The places of sessions that were idle, should they go on."""
        self._lock = threading.RLock()

    def placed(self, caller: Caller, session: str = "", *, stays: bool = False) -> Caller:
        """Return the caller at its window's place, which the window's first call takes.

        A new window takes the place that an ended one of its agent left, where only one could be meant. A session that
        was idle, or whose project was renamed, takes its own again, unless another window has it; one that `stays`
        keeps its place until it ends.
        """
        key = (caller.namespace, caller.agent, session)
        with self._lock:
            self.end_idle()
            held = self._mine.get(key) or self._take(caller, self._left(key))
            if held is None:
                return caller
            held.used_at = inf if stays else self._clock()
            self._mine[key] = held
            return replace(caller, window=held.place)

    def place_of(self, session: str) -> str | None:
        """Return the place that a session holds; None before it has one."""
        with self._lock:
            return next((held.place for key, held in self._mine.items() if key[2] == session), None)

    def come_back(self, caller: Caller, session: str, place: str) -> Caller:
        """Return the caller at the place that its window had in the process before this one, unless another has it.

        A new window that arrived in between, and has just gone on there, gets a place of its own instead.
        """
        with self._lock:
            self._former[caller.namespace, caller.agent, session] = place
            since = self._clock() - RETURN_SECONDS
            early = {
                key: held.used_at == inf
                for key, held in self._mine.items()
                if key[:2] == (caller.namespace, caller.agent) and held.place == place
                if not held.is_own and held.taken_at > since
            }
            for key in early:
                self._release(key)
            placed = self.placed(caller, session, stays=True)
            for key, stays in early.items():
                self.placed(caller, key[2], stays=stays)
            return placed

    def end(self, agent: str, session: str) -> None:
        """Let a window's place go, in every namespace, because its session has ended."""
        with self._lock:
            for key in [key for key in (*self._mine, *self._former) if key[1:] == (agent, session)]:
                self._release(key)
                self._former.pop(key, None)

    def end_idle(self) -> None:
        """Let the places of sessions go that nobody has used for long."""
        since = self._clock() - IDLE_SECONDS
        with self._lock:
            for key in [key for key, held in self._mine.items() if key[2] and held.used_at < since]:
                self._former[key] = self._mine[key].place
                self._release(key)
            for key in list(self._former)[:-REMEMBERED]:
                del self._former[key]

    def close(self) -> None:
        with self._lock:
            for key in list(self._mine):
                self._release(key)

    def beside(self, caller: Caller, *, opens: bool) -> Caller:
        """Return a caller beside a window, such as a client's hook, at the place that its window most probably holds.

        That is the agent's one live window; where it has none, or the caller's window only `opens`, the place that a
        new one will take. With several it stands nowhere, rather than in another window's task.
        """
        with suppress(StoreUnavailable), self._locks.choice():
            live = list(self._live(caller))
            if len(live) == 1 and not opens:
                return replace(caller, window=live[0])
            places = self._records.places(caller)
            left = [place for place in places if is_window(place) and place not in live]
            resumed = self._resumed(caller, left) if opens or not live else None
            return replace(caller, window=NOWHERE if resumed is None else resumed)
        return caller

    def elsewhere(self, caller: Caller, places: Mapping[str, str]) -> Collection[str]:
        """Return the tasks in which other live windows of the caller's agent stand; `places` are the agent's."""
        others = [place for place in places if place != caller.place and is_window(place)]
        if others:
            with suppress(StoreUnavailable), self._locks.choice():
                return {places[place] for place in others if self._is_live(caller, place)}
        return ()

    def _left(self, key: tuple[str, str, str]) -> str | None:
        """Let the place go that a session had before it was idle, or its project was renamed; return that place."""
        same = [each for each in (*self._mine, *self._former) if each != key and each[1:] == key[1:]]
        for each in same:
            if self._present(each[0]) == key[0]:
                held = self._mine.get(each)
                self._former[key] = held.place if held else self._former.pop(each)
                self._release(each)
        return self._former.pop(key, None)

    def _release(self, key: tuple[str, str, str]) -> None:
        if held := self._mine.pop(key, None):
            held.release()

    def _take(self, caller: Caller, former: str | None) -> _TakenPlace | None:
        """Take the former place, or the one to go on at, else the first that is free and in no open task."""
        now = self._clock()
        with suppress(StoreUnavailable), self._locks.choice():
            if former is not None and (release := self._locked(caller, former)):
                return _TakenPlace(former, release, now, now, is_own=True)
            places = self._records.places(caller)
            tasks = self._records.tasks_near(caller.namespace, places.values())
            left = {place: release for place in places if is_window(place) and (release := self._locked(caller, place))}
            chosen = self._resumed(caller, left)
            for place, release in left.items():
                if place != chosen:
                    release()
            if chosen is not None:
                return _TakenPlace(chosen, left[chosen], now, now)
            return next(
                _TakenPlace(place, release, now, now)
                for place in map(window_place, itertools.count(1))
                if not nearest_open(places.get(place), tasks) and (release := self._locked(caller, place))
            )
        return None

    def _resumed(self, caller: Caller, left: Collection[str]) -> str | None:
        places = self._records.places(caller)
        tasks = self._records.tasks_near(caller.namespace, places.values())
        return place_to_resume(places, self._records.last_moves(caller), left, tasks)

    def _live(self, caller: Caller) -> Iterator[str]:
        """Yield the places that windows hold; each took the first that was free."""
        known = {place for place in self._records.places(caller) if is_window(place)}
        number = 1
        while (is_live := self._is_live(caller, window_place(number))) or known:
            known.discard(window_place(number))
            if is_live:
                yield window_place(number)
            number += 1

    def _is_live(self, caller: Caller, place: str) -> bool:
        release = self._locked(caller, place)
        if release:
            release()
        return release is None

    def _locked(self, caller: Caller, place: str) -> Callable[[], None] | None:
        return self._locks.take(caller.namespace, caller.agent, place)
