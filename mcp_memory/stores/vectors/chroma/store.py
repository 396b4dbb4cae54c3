"""Answers vector queries with Chroma's help: implements `VectorStore` and `VectorIndex`.

Chroma names candidates. The exact store adds changes that Chroma has not applied yet and scores them all. It answers
alone where Chroma cannot: selective filters, small scopes, and while the index is being built or broken. So an answer
is always complete and its scores are exact; only the choice of candidates is approximate.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.indexes import IndexDifference, IndexState
from mcp_memory.ports.leases import Leases
from mcp_memory.ports.retrieval import UsualCosine
from mcp_memory.stores.vectors.chroma.index_client import IndexClient
from mcp_memory.stores.vectors.chroma.index_folder import IndexFolder, size_of
from mcp_memory.stores.vectors.chroma.location import SERVER_BATCH, IndexFailure, IndexPlace, record_of
from mcp_memory.stores.vectors.chroma.shared_index import IndexLease
from mcp_memory.stores.vectors.chroma.sync_thread import SyncThread, View
from mcp_memory.stores.vectors.chroma.who_answers import Stage, account, pending_in
from mcp_memory.stores.vectors.chroma.worker_client import ChromaProcess, Link
from mcp_memory.stores.vectors.exact import ExactVectorStore, best_first

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.domain.model.ids import RecordSet

OVERFETCH, SPARE = 2, 50
"""Candidates per result, and some to spare. Several windows of a record count as one."""
PATIENCE_SECONDS: Mapping[str, float] = {"embedded": 0.25, "http": 1.0, "cloud": 1.0}
"""Seconds that a query waits for the index, by mode, before exact search answers it."""
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 60.0
IDLE_SECONDS = 3_600.0
"""An hour, as a process that comes back compares all keys of the index with the truth."""
ERASE_PATIENCE_SECONDS = 5.0
_log = logging.getLogger(__name__)


class ChromaVectorStore:
    """Thread-safe. With the mode `off` no index is kept, and one of earlier times is deleted.

    Another process of the memory may have the index: then this one answers by the exact search.

    `identity` names the memory, and is called where a server may hold several.
    """

    def __init__(
        self,
        exact: ExactVectorStore,
        place: IndexPlace,
        identity: Callable[[], str],
        connect: Callable[[], Link] | None = None,
        idle_seconds: float = IDLE_SECONDS,
        leases: Leases | None = None,
    ) -> None:
        """A scope of fewer than the place's `least_vectors` is searched exactly, which costs less than asking another.

        An index in a directory is begun only once a scope that large is searched; one on a server at once, as it was
        requested. `connect` reaches a worker; by default it starts a process. One in a directory is closed, and its
        process ended, after `idle_seconds` in which no search could use it. By `leases` servers that share the memory
        share an index on a server, too: one writes it, and all ask it.
        """
        self._exact = exact
        self._folder = IndexFolder(Path(place.root))
        self._place = place
        self._identity = identity
        self._connect = connect or self._begun
        idle = math.inf if place.is_shared else idle_seconds  # To come back compares all keys, over a network.
        lease = IndexLease(leases) if leases and place.is_shared else None
        self._follower = SyncThread(exact, self._own_place, self._connect, idle, lease)
        self._rest_until, self._rest_seconds = float("-inf"), FIRST_REST_SECONDS
        self._answered = 0
        self._is_wanted = self._is_needed = False

    def waits(self, scopes: Sequence[str]) -> bool:
        return self._usable() is not None and any(map(self._is_large, scopes))

    def search(
        self,
        vector: Vector,
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        view = self._usable() if only is None else None
        if view is not None:
            found = self._ask(view, vector, scopes, limit, exclude)
            if found is not None:
                self._answered += 1
                return found
        exactly = self._exact.search(vector, scopes, limit, only, exclude)
        if only is None and self._follower.view is None and (large := [*filter(self._is_large, scopes)]):
            self._is_needed = True
            self._follower.want(large)
            self._start_if_needed()
        return exactly

    def nearest(self, vectors: Sequence[Vector], scope: str, limit: int) -> Sequence[Mapping[str, float]]:
        if self._follower.view is None:
            return self._exact.nearest(vectors, scope, limit)
        return [self.search(vector, (scope,), limit) for vector in vectors]

    def similarities(self, vector: Vector, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, float]:
        return self._exact.similarities(vector, scopes, record_ids)

    def windows(self, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, int]:
        return self._exact.windows(scopes, record_ids)

    def usual_cosine(self, vector: Vector, scopes: Sequence[str]) -> UsualCosine:
        return self._exact.usual_cosine(vector, scopes)

    def alike(self, scopes: Sequence[str], record_ids: Sequence[str], least: float) -> Sequence[tuple[str, str, float]]:
        return self._exact.alike(scopes, record_ids, least)

    def start(self) -> None:
        self._is_wanted = self._place.mode != "off"
        self._is_needed = self._is_needed or self._place.is_shared or not self._place.least_vectors
        self._start_if_needed()
        if self._place.mode == "off":
            with suppress(IndexFailure):
                self._folder.delete_unused()

    def settle(self, seconds: float) -> bool:
        return self._follower.is_started and self._follower.settle(self._exact.revision(), seconds)

    def state(self, scopes: Sequence[str] = ()) -> IndexState:
        filler = self._follower.filler
        applied = filler.applied if filler else 0
        directory = filler.standing.directory if filler else None
        state = self._described()
        return IndexState(
            mode=self._place.mode,
            state=state,
            applied=applied,
            pending=self._pending(filler.reached) if filler else 0,
            records=filler.records if filler else 0,
            answered=self._answered,
            directory=directory,
            bytes=size_of(Path(directory)) if directory else 0,
            reason=self._follower.failure,
            says=self._told(scopes, state) if scopes else "",
        )

    def check(self) -> Mapping[str, IndexDifference]:
        filler = self._follower.filler
        return filler.differences() if filler else {}

    def rebuild(self) -> None:
        self._follower.rebuild()

    def erase(self, record_ids: Collection[str]) -> None:
        erased = sys.maxsize
        try:
            self._exact.revision()
            erased = self._exact.newest_erasure()
        except EmbedderMismatch:
            _log.info("Index directories are deleted, as this process cannot tell what they hold.")
        self._follower.wake()
        self._folder.erase(erased, ERASE_PATIENCE_SECONDS)
        if self._place.is_shared and record_ids:
            self._erase_from_server(record_ids)

    def close(self) -> None:
        self._follower.close()

    def _usable(self) -> View | None:
        """Return what the index can be asked by; None while there is none, or one that was slow rests."""
        return self._follower.view if time.monotonic() >= self._rest_until else None

    def _is_large(self, scope: str) -> bool:
        return self._exact.size(scope) >= self._place.least_vectors

    def _start_if_needed(self) -> None:
        if self._is_wanted and self._is_needed:
            self._follower.start()

    def _told(self, scopes: Sequence[str], state: str) -> str:
        try:
            self._exact.revision()
        except EmbedderMismatch:
            return "no search, as the vectors are another embedder's; run `mcp-memory reindex`"
        view, filler = self._follower.view, self._follower.filler
        stage: Stage = "building"
        if not self._is_wanted:
            stage = "elsewhere"
        elif state in ("ready", "failed"):
            stage = "open" if state == "ready" else "failed"
        elif self._follower.is_started and self._follower.is_idle:
            stage = "idle"
        applied = view.reached if view else {} if self._is_wanted else dict.fromkeys(scopes, self._applied_elsewhere())
        filled = filler.vectors(scopes) if filler else 0
        return account(self._exact, self._place, scopes, stage, applied=applied, filled=filled)

    def _pending(self, reached: Mapping[str, int]) -> int:
        """Count the records that changed since the index has applied their partitions."""
        changed = (self._exact.changed_since(scope, change, sys.maxsize) or () for scope, change in [*reached.items()])
        return len({record_id for each in changed for record_id in each})

    def _applied_elsewhere(self) -> int:
        state = self._folder.state if self._place.mode != "off" else None
        return state.applied if state else 0

    def _described(self) -> Literal["off", "not needed", "building", "ready", "failed"]:
        if self._follower.view is not None:
            return "ready"
        if not self._follower.is_started or self._follower.is_idle:
            return "not needed" if self._is_wanted else "off"
        return "failed" if self._follower.failure and self._follower.filler is None else "building"

    def _begun(self) -> Link:
        """Start an index process. Raises IndexFailure, before any is started, where another process has the index."""
        self._folder.take().release()
        return ChromaProcess(Path(self._place.root).parent)

    def _own_place(self) -> IndexPlace:
        return self._place.of_memory(self._identity)

    def _ask(
        self, view: View, vector: Vector, scopes: Sequence[str], limit: int, exclude: Collection[str]
    ) -> Mapping[str, float] | None:
        """Rank Chroma's candidates and the changes it lacks; None where the exact search has to answer."""
        take = OVERFETCH * limit + SPARE + len(exclude)
        large = [s for s in dict.fromkeys(scopes) if self._is_large(s) and self._exact.size(s) > take]
        if large:
            self._follower.want(large)
        is_too_much = view.place.is_shared and take > SERVER_BATCH
        is_there = view.reached.keys() >= set(large)
        named = self._named_by_chroma(view, vector, large, take) if large and is_there and not is_too_much else None
        # Taken after the answer but counted from before it, so that no change falls between.
        pending = pending_in(self._exact, large, view.reached)
        if named is None or pending is None or not self._follower.is_current(view):
            return None
        changed, left_out = set(pending), set(exclude)
        candidates: set[str] = set(pending)
        for scope, keys in zip(large, named, strict=True):
            records = {record_of(key) for key in keys} - changed
            if not keys and not changed.issuperset(self._exact.live_ids(scope)):
                self._follower.doubt(view, IndexFailure("A collection was lost.", keep=view.place.is_shared))
            if len(records - left_out) < limit:
                return None  # Many windows of few records, or most records changed: others may be just behind.
            candidates |= records
        ranked = self._exact.rank(vector, large, limit, candidates, exclude)
        small = [scope for scope in scopes if scope not in large]
        others = self._exact.search(vector, small, limit, None, exclude)
        return best_first([*ranked.items(), *others.items()], limit)

    def _named_by_chroma(self, view: View, vector: Vector, scopes: Sequence[str], take: int) -> list[list[str]] | None:
        """Return for each scope the keys nearest to the vector; None where Chroma does not answer."""
        names = [view.place.collection(scope) for scope in scopes]
        try:
            named = view.index.query(names, vector, take, PATIENCE_SECONDS[view.place.mode])
        except TimeoutError:
            self._rest_until = time.monotonic() + self._rest_seconds
            self._rest_seconds = min(2 * self._rest_seconds, LONGEST_REST_SECONDS)
            _log.info("The vector index is slow; exact search answers for a while.")
            return None
        except IndexFailure as failure:
            self._follower.doubt(view, failure)
            return None
        self._rest_seconds = FIRST_REST_SECONDS
        return named

    def _erase_from_server(self, record_ids: Collection[str]) -> None:
        """Delete the records' vectors from the server; if that fails, the process that has the index does so later."""
        try:
            if self._follower.filler is not None:
                self._follower.filler.erase(record_ids)
                return
            with closing(IndexClient(self._connect())) as index:
                applied = index.open(self._own_place(), fresh=False).applied
                index.erase(record_ids)
                index.rest(applied, ())
        except IndexFailure as failure:
            _log.warning("Erased, but not yet from the Chroma server, which follows: %s", failure)
