"""The index that a process holds open: its own directory, or a part of a server. The worker treats both alike."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_memory.stores.vectors.chroma.collections import ChromaCollections, chroma_version
from mcp_memory.stores.vectors.chroma.index_folder import IndexFolder, Lease, Stamp
from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """The state of an open index: its right to write, the newest applied change, and the newest followed erasure.

    `is_doubtful`: it was left in the middle of a change, and may answer wrongly though its keys look right.
    """

    writes: bool
    applied: int
    erased: int
    directory: str | None
    is_doubtful: bool = False


class OwnDirectory:
    """Chroma embedded, in the first free directory. Any method may raise IndexFailure."""

    def __init__(self, place: IndexPlace, *, fresh: bool, erased: int) -> None:
        folder = IndexFolder(Path(place.root))
        self._place = place
        self._slot = folder.take()
        with _undone_by(self._slot.release):
            folder.prune()
            stamp = Stamp(embedder=place.embedder, chroma=chroma_version())
            kept = self._slot.open(stamp, fresh=fresh, erased=erased)
            try:
                self.collections = self._opened(kept.applied if kept else 0)
            except IndexFailure:
                self._slot.open(stamp, fresh=True, erased=erased)
                self.collections = self._opened(0)

    def standing(self) -> IndexStatus:
        state = self._slot.state
        return IndexStatus(writes=True, applied=state.applied, erased=state.erased, directory=str(self._slot.path))

    def check(self) -> None:
        """Raise IndexFailure where the opened directory is gone."""
        self._slot.check()

    def begin(self) -> None:
        """Prepare for a change to the collections."""
        self._slot.mark_dirty()

    def rest(self, applied: int, touched: Sequence[str]) -> None:
        """Record that these collections hold everything up to the change `applied`, and that no write follows soon."""
        self.collections.settle(touched)
        self._slot.mark_clean(applied)

    def clear(self) -> None:
        raise IndexFailure("An index directory is emptied by a new process.")

    def close(self) -> None:
        try:
            self.collections.close()
        finally:
            self._slot.release()

    def _opened(self, applied: int) -> ChromaCollections:
        """Open the directory's content and read some of it, because damage shows only then."""
        collections = ChromaCollections(self._place, str(self._slot.path))
        with _undone_by(collections.close):  # A client left open would be handed out again for the same directory.
            collections.settle(collections.names())
            self._slot.mark_clean(applied)
        return collections


@contextmanager
def _undone_by(undo: Callable[[], None]) -> Generator[None]:
    """Run `undo` if the body fails."""
    try:
        yield
    except BaseException:
        with suppress(IndexFailure):
            undo()
        raise


class ServerPart:
    """A Chroma server, which one process of each memory writes and all of them query. See `OwnDirectory`.

    The mark before a change is that the lease publishes no applied change. Chroma Cloud needs none: the fault that
    it is for is one of Chroma's own process when that is killed.
    """

    def __init__(self, place: IndexPlace) -> None:
        self._lease = Lease(place)
        self._is_killable = place.mode == "http"
        self._writes = self._is_doubtful = False
        self.collections = ChromaCollections(place, "")

    def standing(self) -> IndexStatus:
        """Return the state; request the right to write again each time, since its holder may be gone."""
        applied, wrote, self._writes = self._lease.applied, self._writes, self._lease.take()
        if self._writes and not wrote:
            applied = self._lease.applied
            self._is_doubtful = self._is_killable and not applied and bool(self.collections.names())
        return IndexStatus(
            writes=self._writes, applied=applied, erased=0, directory=None, is_doubtful=self._is_doubtful
        )

    def check(self) -> None:
        """Do nothing: a missing server shows at the next request."""

    def begin(self) -> None:
        """Publish that nothing is certain, on disk before it returns."""
        if self._writes and self._is_killable and self._lease.applied:
            self._lease.publish(0)

    def rest(self, applied: int, touched: Sequence[str]) -> None:
        if self._is_killable:
            self.collections.settle(touched)
        self._lease.publish(applied)

    def clear(self) -> None:
        """Empty the index of everything."""
        self._lease.publish(0)
        self.collections.drop(self.collections.names())
        self._is_doubtful = False

    def close(self) -> None:
        try:
            self.collections.close()
        finally:
            self._lease.release()


Holding = OwnDirectory | ServerPart


def hold(place: IndexPlace, *, fresh: bool, erased: int) -> Holding:
    """Open the place, emptied where it is `fresh`. Raises IndexFailure."""
    return ServerPart(place) if place.is_shared else OwnDirectory(place, fresh=fresh, erased=erased)
