"""The index that a process holds open: Chroma in the directory, or a part of a server. The worker treats both alike."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mcp_memory.stores.vectors.chroma.collections import ChromaCollections
from mcp_memory.stores.vectors.chroma.index_folder import IndexFolder, Stamp
from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace, IndexStatus


class OwnDirectory:
    """Chroma embedded, in the index's directory. Any method may raise IndexFailure."""

    def __init__(self, place: IndexPlace, *, fresh: bool, erased: int) -> None:
        self._place = place
        self._folder = IndexFolder(Path(place.root)).take()
        with _undone_by(self._folder.release):
            stamp = Stamp.of(place)
            kept = self._folder.open(stamp, fresh=fresh, erased=erased)
            try:
                self.collections = self._opened(kept.applied if kept else 0)
            except IndexFailure:
                self._folder.open(stamp, fresh=True, erased=erased)
                self.collections = self._opened(0)

    def standing(self) -> IndexStatus:
        state, directory = self._folder.state, str(self._folder.path)
        return IndexStatus(applied=state.applied, erased=state.erased, clean=state.clean, directory=directory)

    def check(self) -> None:
        """Raise IndexFailure where the opened directory is gone."""
        self._folder.check()

    def begin(self) -> None:
        """Prepare for a change to the collections."""
        self._folder.mark_dirty()

    def rest(self, applied: int, touched: Sequence[str]) -> None:
        """Record that these collections hold everything up to the change `applied`, and that no write follows soon."""
        self.collections.settle(touched)
        self._folder.mark_clean(applied)

    def clear(self) -> None:
        raise IndexFailure("An index directory is emptied by a new process.")

    def close(self) -> None:
        try:
            self.collections.close()
        finally:
            self._folder.release()

    def _opened(self, applied: int) -> ChromaCollections:
        """Open the directory's content and read some of it, because damage shows only then."""
        collections = ChromaCollections(self._place, str(self._folder.path))
        with _undone_by(collections.close):  # A client left open would be handed out again for the same directory.
            collections.settle(collections.names())
            self._folder.mark_clean(applied)
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
    """A memory's part of a Chroma server. See `OwnDirectory`; here the directory holds the mark alone.

    Chroma Cloud needs no mark: the fault that it is for is one of Chroma's own process when that is killed.
    """

    def __init__(self, place: IndexPlace) -> None:
        self._is_killable = place.mode == "http"
        self._folder = IndexFolder(Path(place.root)).take()
        with _undone_by(self._folder.release):
            self.collections = ChromaCollections(place, "")
            held = self.collections.names()  # First: a server that cannot be reached is not in doubt.
            kept = self._folder.open(Stamp.of(place), fresh=False, erased=0)
            self._is_doubtful = self._is_killable and bool(held) and not (kept and kept.applied)
            self._folder.mark_clean(kept.applied if kept else 0)

    def standing(self) -> IndexStatus:
        state = self._folder.state
        return IndexStatus(
            applied=state.applied, erased=0, clean=state.clean, directory=None, is_doubtful=self._is_doubtful
        )

    def check(self) -> None:
        """Raise IndexFailure where the mark is gone; a missing server shows at the next request."""
        self._folder.check()

    def begin(self) -> None:
        """Record that nothing is certain, on disk before it returns."""
        if self._is_killable:
            self._folder.mark_dirty()

    def rest(self, applied: int, touched: Sequence[str]) -> None:
        if self._is_killable:
            self.collections.settle(touched)
        self._folder.mark_clean(applied)

    def clear(self) -> None:
        """Empty the index of everything."""
        self._folder.mark_clean(0)
        self.collections.drop(self.collections.names())
        self._is_doubtful = False

    def close(self) -> None:
        try:
            self.collections.close()
        finally:
            self._folder.release()


Holding = OwnDirectory | ServerPart


def hold(place: IndexPlace, *, fresh: bool, erased: int) -> Holding:
    """Open the place, emptied where it is `fresh`. Raises IndexFailure."""
    return ServerPart(place) if place.is_shared else OwnDirectory(place, fresh=fresh, erased=erased)
