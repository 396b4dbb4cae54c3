"""Keeps the index in step with the truth: a thread that opens it, fills it and follows changes. Answers no query.

Writers never wait for it, and searches score unapplied changes exactly. After any failure it closes the index, waits
longer each time, and begins again; an index that it cannot trust is emptied first. One that nobody has asked for long
is closed too, and opened again when it is wanted.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mcp_memory.errors import StoreUnavailable
from mcp_memory.freed_memory import give_back_memory
from mcp_memory.stores.vectors.chroma.index_client import IndexClient
from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace
from mcp_memory.stores.vectors.chroma.shared_index import IndexLease, SharedIndex
from mcp_memory.stores.vectors.chroma.sync import Filler
from mcp_memory.stores.vectors.chroma.worker_client import Link
from mcp_memory.stores.vectors.exact import ExactVectorStore

POLL_SECONDS = 1.0
"""Seconds between batches of changes, and until an idle process follows erasures of others."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An index that may be queried: of each scope in `reached` it holds everything up to a change.

    `applied` is the memory's revision then. A new `generation` is a new index.
    """

    index: IndexClient
    place: IndexPlace
    applied: int
    reached: Mapping[str, int]
    generation: object
    turn: int
    """The number of the follower's turn in which it made this view."""


class SyncThread:
    """Follows changes in a background thread. Thread-safe. Nothing happens before `start`.

    After `idle_seconds` in which nobody wanted the index it is closed, and its process ends.
    """

    def __init__(
        self,
        exact: ExactVectorStore,
        place: Callable[[], IndexPlace],
        connect: Callable[[], Link],
        idle_seconds: float = math.inf,
        lease: IndexLease | None = None,
    ) -> None:
        """With a `lease` other servers share the index, and this one writes it while it has that."""
        self._lease = lease
        self._exact = exact
        self._place = place
        self._connect = connect
        self._idle_seconds = idle_seconds
        self._wanted_at = time.monotonic()
        self._wanted: set[str] = set()
        """Scopes that were searched and found large."""
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._wake, self._closing, self._rebuild_asked = threading.Event(), threading.Event(), threading.Event()
        self._turn = 0
        self._up_since = float("inf")
        self._index: IndexClient | None = None
        self._doubt: IndexFailure | None = None
        self._is_distrusted = False
        self.view: View | None = None
        """The index, while it may be queried."""
        self.filler: Filler | None = None
        """The index, while it is open."""
        self.failure = ""
        """The reason why the index is unavailable at present."""

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    @property
    def is_idle(self) -> bool:
        """True where nobody has wanted the index for long."""
        return time.monotonic() - self._wanted_at > self._idle_seconds

    def want(self, scopes: Collection[str] = ()) -> None:
        """Note that somebody wants the index, for these scopes too. One that was closed while it was idle is opened."""
        was_idle, self._wanted_at = self.is_idle, time.monotonic()
        is_new = not self._wanted.issuperset(scopes)
        self._wanted = self._wanted.union(scopes)
        if was_idle or is_new:
            self.wake()

    def start(self) -> None:
        """Start to follow; later calls do nothing."""
        self.want()
        with self._changed:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="index", daemon=True)
                self._thread.start()

    def wake(self) -> None:
        """Begin the next turn at once."""
        self._wake.set()

    def settle(self, change: int, seconds: float) -> bool:
        """Wait until the index holds everything up to that change. False where that took too long."""
        turn = self._turn  # One that has begun already may not see what has just happened to the index.
        self.want()
        self.wake()
        with self._changed:
            return self._changed.wait_for(
                lambda: self.view is not None and self.view.turn > turn and self.view.applied >= change, seconds
            )

    def is_current(self, view: View) -> bool:
        """True where the view is of the present index, not of one emptied since."""
        present = self.view
        return present is not None and present.generation is view.generation

    def doubt(self, view: View, failure: IndexFailure) -> None:
        """Report that the index failed to answer: it is closed, and rebuilt."""
        if self.is_current(view):
            self._doubt = failure
            self._show(None)
            self.wake()

    def rebuild(self) -> None:
        """Empty the index and fill it again, in the background."""
        self.want()
        self._rebuild_asked.set()
        self._show(None)
        self.wake()

    def close(self) -> None:
        """Stop, and close the index."""
        with self._changed:
            self._closing.set()
            thread, index = self._thread, self._index
        self.wake()
        if index is not None:
            index.close()
        if thread is not None:
            thread.join()
        if self._lease:
            with suppress(StoreUnavailable):  # Then it ends by itself.
                self._lease.end()

    def _run(self) -> None:
        pause = 0.0
        while not self._closing.is_set():
            try:
                self._follow()
                pause = 0.0
            except StoreUnavailable as error:
                was_up_long = time.monotonic() - self._up_since > LONGEST_PAUSE_SECONDS
                pause = FIRST_PAUSE_SECONDS if was_up_long or not pause else min(4 * pause, LONGEST_PAUSE_SECONDS)
                self._note_failure(error, pause)
            except BaseException:
                self.failure = "It was stopped by a defect, which the log shows; run `mcp-memory stop` and call again."
                raise
            finally:
                self._let_go()
            self._closing.wait(pause)
            while self.is_idle and not self._closing.is_set():
                self._await_more(None)

    def _follow(self) -> None:
        """Serve one index until it must be replaced, nobody wants it or this is closed. Raises StoreUnavailable."""
        place = self._place()
        self._exact.revision()
        link = self._connect()
        index = SharedIndex(link, self._lease) if self._lease else IndexClient(link)
        with self._changed:
            self._index = index  # From here on, `close` ends it.
        index.open(place, fresh=self._is_distrusted, erased=self._exact.newest_erasure())
        self._is_distrusted = False
        filler = self.filler = Filler(self._exact, place, index, lambda: self._wanted, self._is_interrupted)
        if self._lease and not self._lease.is_ours:
            self._read_along(self._lease, filler, index, place)
            return
        generation = object()
        while not self._closing.is_set():
            self._turn += 1
            self._raise_doubt()
            if self._lease:
                self._lease.keep()
            if filler.must_clear or self._rebuild_asked.is_set():
                self._show(None)
                self._rebuild_asked.clear()
                if not place.is_shared:
                    # Chroma writes memory that was freed into its files: only a process that never held what was
                    # erased makes a directory without it.
                    self._is_distrusted = True
                    return
                filler.clear()
                generation = object()
            if filler.catch_up():
                if self.view is None:
                    self._up_since, self.failure = time.monotonic(), ""
                    self.want()
                    give_back_memory()  # What the comparison of all keys took.
                view = View(
                    index=index,
                    place=place,
                    applied=filler.applied,
                    reached=dict(filler.reached),
                    generation=generation,
                    turn=self._turn,
                )
                self._show(view)
                self._await_more(POLL_SECONDS)
                if self.is_idle:
                    return

    def _read_along(self, lease: IndexLease, filler: Filler, index: IndexClient, place: IndexPlace) -> None:
        """Let searches ask the index that another server writes, until nobody does. Raises StoreUnavailable."""
        generation = object()
        while not self._closing.is_set() and (written := lease.written()) is not None:
            applied, reached = written
            self._turn += 1
            self._raise_doubt()
            if self._rebuild_asked.is_set():
                self._rebuild_asked.clear()
                lease.doubt()
            filler.applied = applied
            view = View(
                index=index, place=place, applied=applied, reached=reached, generation=generation, turn=self._turn
            )
            self._show(view if applied else None)
            self._await_more(POLL_SECONDS)

    def _raise_doubt(self) -> None:
        if self._doubt is not None:
            failure, self._doubt = self._doubt, None
            raise failure

    def _await_more(self, seconds: float | None) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _is_interrupted(self) -> bool:
        return self._closing.is_set() or self._doubt is not None or self._rebuild_asked.is_set()

    def _note_failure(self, error: StoreUnavailable, pause: float) -> None:
        if self._closing.is_set():
            return
        self._is_distrusted = self._is_distrusted or (isinstance(error, IndexFailure) and not error.keep)
        if str(error) != self.failure:
            _log.warning("The vector index is not used at present: %s Tried again in %g s.", error, pause)
        self.failure = str(error)

    def _let_go(self) -> None:
        self._show(None)
        self._up_since = float("inf")
        with self._changed:
            index, self._index = self._index, None
        self.filler = None
        if index is not None:
            index.close()

    def _show(self, view: View | None) -> None:
        with self._changed:
            self.view = view
            self._changed.notify_all()
