"""Answers vector queries with pgvector's help: implements `VectorStore`, `VectorIndex` and `IndexExaminer`.

pgvector names candidates in large scopes, in the snapshot of the request, and the exact store scores them. It answers
alone wherever pgvector names too few: in small scopes, and in large ones that are still being filled.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.errors import EmbedderMismatch, StoreUnavailable
from mcp_memory.ports.indexes import Finding, IndexDifference, IndexState
from mcp_memory.stores.vectors.chroma.who_answers import Stage, account
from mcp_memory.stores.vectors.exact import ExactVectorStore, best_first

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.stores.follower import Follower
    from mcp_memory.stores.vectors.chroma.location import IndexPlace

OVERFETCH, SPARE = 2, 50
"""Candidates per result, and some to spare. Several windows of a record count as one."""
PAUSE_SECONDS = 60.0
"""Seconds after a failure until a scope is filled further."""
_log = logging.getLogger(__name__)


class Candidates(Protocol):
    """Vectors of large scopes beside the truth, and as true as that in each snapshot."""

    def is_available(self) -> bool: ...
    def whole(self, embedder: str) -> Collection[str]: ...
    def nearest(self, scope: str, embedder: str, vector: Vector, limit: int) -> Sequence[str]: ...
    def fill(self, scope: str, embedder: str, is_interrupted: Callable[[], bool]) -> bool: ...
    def count(self, scopes: Sequence[str]) -> int: ...
    def differences(self, embedder: str) -> Mapping[str, IndexDifference]: ...
    def drop(self) -> None: ...


class PgvectorStore(ExactVectorStore):
    """Thread-safe. A scope is filled in the background once a search has found it large; any server may do so."""

    def __init__(
        self,
        follower: Follower,
        embedder: str,
        mismatch: Callable[[str, str], str],
        candidates: Candidates,
        place: IndexPlace,
        spare: int = SPARE,
    ) -> None:
        super().__init__(follower, embedder, mismatch)
        self._candidates = candidates
        self._place = place
        self._spare = spare
        self._whole: Collection[str] = frozenset()
        """Scopes that were whole when this was asked last: most searches need not ask it."""
        self._wanted: set[str] = set()
        self._is_started = self._is_closing = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._failure = ""
        self._answered = 0

    def waits(self, scopes: Sequence[str]) -> bool:
        return any(map(self._is_large, scopes))

    def search(
        self,
        vector: Vector,
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        if only is not None:
            return super().search(vector, scopes, limit, only, exclude)
        with self._follower.snapshot(scopes):
            asked = {scope: self._named(vector, scope, limit, exclude) for scope in dict.fromkeys(scopes)}
            named = {scope: ids for scope, ids in asked.items() if ids is not None}
            among = set[str]().union(*named.values())
            ranked = self.rank(vector, [*named], limit, among, exclude)
            others = [scope for scope in scopes if scope not in named]
            exactly = super().search(vector, others, limit, None, exclude)
        self._answered += bool(named)
        return best_first([*ranked.items(), *exactly.items()], limit)

    def nearest(self, vectors: Sequence[Vector], scope: str, limit: int) -> Sequence[Mapping[str, float]]:
        if not self._is_large(scope):
            return super().nearest(vectors, scope, limit)
        return [self.search(vector, (scope,), limit) for vector in vectors]

    def start(self) -> None:
        self._is_started = True

    def settle(self, seconds: float) -> bool:
        with self._changed:
            for scope in self.large_scopes(self._place.least_vectors):
                self._want(scope)
            return self._is_started and self._changed.wait_for(lambda: not self._wanted, seconds)

    def state(self, scopes: Sequence[str] = ()) -> IndexState:
        whole = self._candidates.whole(self._embedder)
        state: Literal["failed", "building", "ready", "not needed"] = "ready" if whole else "not needed"
        if self._wanted:
            state = "failed" if self._failure else "building"
        return IndexState(
            mode="pgvector",
            state=state,
            applied=self._follower.records.revision() if whole else 0,
            records=self._candidates.count(scopes),
            answered=self._answered,
            reason=self._failure,
            says=self._told(scopes) if scopes else "",
        )

    def check(self) -> Mapping[str, IndexDifference]:
        return self._candidates.differences(self._embedder)

    def rebuild(self) -> None:
        """Drop all vectors; a scope is filled again once it is searched. Nothing is embedded again."""
        self._candidates.drop()

    def erase(self, record_ids: Collection[str]) -> None:
        """Nothing: vectors went with their records, in the same transaction."""

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def directory(self) -> None:
        """None: there is no directory."""

    def examine(self, *, repair: bool) -> Iterator[Finding]:
        self.revision()
        yield Finding(part="index", state="ok", says=self._told([*self.scopes()]))
        if not self._candidates.is_available():
            remedy = (
                "Install pgvector there, or set MCP_MEMORY_SEMANTIC_STORE to exact; the exact search answers meanwhile."
            )
            yield Finding(part="pgvector", state="wrong", says="the database's server lacks it", remedy=remedy)
            return
        found = self.check().values()
        missing, extra = sum(each.missing for each in found), sum(each.extra for each in found)
        wrong = f"of its vectors {missing} are missing, {extra} too many"
        if not found:
            yield Finding(part="pgvector", state="ok", says="its vectors are the memory's")
        elif repair:
            self._candidates.drop()
            yield Finding(part="pgvector", state="repaired", says=f"{wrong}; dropped, and filled again by a server")
        else:
            remedy = "`mcp-memory doctor --repair` drops them, and the next server that needs them fills them again."
            yield Finding(part="pgvector", state="wrong", says=wrong, remedy=remedy)

    def _is_large(self, scope: str) -> bool:
        return self.size(scope) >= max(self._place.least_vectors, 1)

    def _named(self, vector: Vector, scope: str, limit: int, exclude: Collection[str]) -> Collection[str] | None:
        """Return the candidates of a scope; None where the exact search has to find them."""
        take = OVERFETCH * limit + self._spare + len(exclude)
        size = self.size(scope)
        if size < self._place.least_vectors or size <= take:
            return None
        if scope not in self._whole:
            self._whole = self._candidates.whole(self._embedder)
        found: Sequence[str] = ()
        if scope in self._whole:
            found = self._candidates.nearest(scope, self._embedder, vector, take)
        if not found:
            self._whole = frozenset(self._whole) - {scope}
            with self._changed:
                self._want(scope)
        # Fewer than it holds, or many windows of few records: others may be just behind.
        is_enough = len(found) == take and len({*found}.difference(exclude)) >= limit
        return found if is_enough else None

    def _want(self, scope: str) -> None:
        """Have a scope filled, where this process is a server that has been started."""
        if self._is_started and not self._is_closing:
            self._wanted.add(scope)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pgvector", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (scope := self._next()) is not None:
            try:
                self._candidates.fill(scope, self._embedder, lambda: self._is_closing)
                self._failure = ""
            except StoreUnavailable as error:
                if str(error) != self._failure:
                    _log.warning("pgvector is not used at present: %s Tried again in %g s.", error, PAUSE_SECONDS)
                self._failure = str(error)
            with self._changed:
                if self._failure:
                    self._changed.wait_for(lambda: self._is_closing, PAUSE_SECONDS)
                else:
                    self._wanted.discard(scope)
                self._changed.notify_all()

    def _next(self) -> str | None:
        """Wait until a scope is wanted, and return it; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._is_closing)
            return None if self._is_closing else min(self._wanted)

    def _told(self, scopes: Sequence[str]) -> str:
        try:
            large = [scope for scope in scopes if self._is_large(scope)]
        except EmbedderMismatch:
            return "no search, as the vectors are another embedder's; run `mcp-memory reindex`"
        stage: Stage = "failed" if self._failure else "building"
        if {*self._candidates.whole(self._embedder)}.issuperset(large):
            stage = "open"
        filled = self._candidates.count(large) if stage == "building" else 0
        return account(self, self._place, scopes, stage, applied=self.places(scopes), filled=filled)
