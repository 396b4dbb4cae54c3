"""Checks an index that no server is using, and compares it with the truth: implements `IndexExaminer`.

Opening an index changes its files, and a damaged one may be emptied or crash its process. So an index process opens a
copy, and the directory is left unchanged unless it is to be repaired.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from mcp_memory.domain.model.scopes import partition_of
from mcp_memory.ports.indexes import Finding, IndexDirectory
from mcp_memory.ports.records import RecordStore
from mcp_memory.stores.vectors.chroma.index_client import IndexClient
from mcp_memory.stores.vectors.chroma.index_folder import (
    FolderState,
    IndexFolder,
    Stamp,
    size_of,
    translated_system_errors,
)
from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace
from mcp_memory.stores.vectors.chroma.sync import differences
from mcp_memory.stores.vectors.chroma.who_answers import account
from mcp_memory.stores.vectors.chroma.worker_client import ChromaProcess, Link
from mcp_memory.stores.vectors.exact import ExactVectorStore

_REPAIRING = "`mcp-memory doctor --repair` drops it, and the next server that needs it builds it again."
_UNTOLD = "Nothing was dropped: try again, or delete the directory while no server runs."
_DAMAGED, _INTERRUPTED = "its files are damaged", "left in the middle of a change"
_IN_USE = "in use by a server, which keeps it itself"
_DIRECTORY = "index directory"


class ChromaExaminer:
    """Implements `IndexExaminer`. `exact` is made over `records`; nothing is opened before `examine`."""

    def __init__(
        self,
        records: RecordStore,
        exact: ExactVectorStore,
        place: IndexPlace,
        connect: Callable[[], Link] | None = None,
    ) -> None:
        self._records = records
        self._exact = exact
        self._place = place
        self._folder = IndexFolder(Path(place.root))
        self._connect = connect or partial(ChromaProcess, Path(place.root).parent)

    def directory(self) -> IndexDirectory | None:
        path, state = self._folder.directory, self._folder.state
        if self._place.is_shared or not path.exists():
            return None
        is_clean, applied = (state.clean, state.applied) if state else (False, 0)
        return IndexDirectory(clean=is_clean, applied=applied, bytes=size_of(path))

    def examine(self, *, repair: bool) -> Iterator[Finding]:
        self._exact.revision()
        examine = self._examine_server if self._place.is_shared else self._examine_directory
        lacks = self._place.lacks_chroma
        finding = None if lacks else examine(repair=repair)
        state = self._folder.state if finding is not None and finding.state == "ok" else None
        scopes = [*self._exact.scopes()]
        applied = dict.fromkeys(scopes, state.applied if state else 0)
        says = account(self._exact, self._place, scopes, "elsewhere", applied=applied)
        yield Finding(part="index", state="wrong" if lacks and self._place.mode != "off" else "ok", says=says)
        if finding is not None:
            yield finding

    def _examine_directory(self, *, repair: bool) -> Finding | None:
        path = self._folder.directory
        if not path.exists():
            return None
        lock = None
        try:
            lock = self._folder.lock()
            if lock is None:
                return Finding(part=_DIRECTORY, state="ok", says=_IN_USE)
            state = self._folder.state
            wrong = self._distrust(state) or self._compare(path, state) if state else "its state cannot be read"
            if state and not wrong:
                return Finding(part=_DIRECTORY, state="ok", says=self._reach(state.applied))
            if not repair:
                return Finding(part=_DIRECTORY, state="wrong", says=wrong, remedy=_REPAIRING)
            with translated_system_errors():
                shutil.rmtree(path)
        except IndexFailure as failure:
            return Finding(part=_DIRECTORY, state="wrong", says=str(failure), remedy=_UNTOLD)
        finally:
            if lock is not None:
                lock.release()
        dropped = f"{wrong}; dropped, and the next server that needs it builds it again"
        return Finding(part=_DIRECTORY, state="repaired", says=dropped)

    def _distrust(self, state: FolderState) -> str:
        """Return the reason in its recorded state to distrust the directory; "" where there is none."""
        stamp = Stamp.of(replace(self._place, mode="embedded"))
        reasons = (
            (not state.clean, _INTERRUPTED),
            (state.stamp.embedder != stamp.embedder, "made for another embedder"),
            (state.stamp != stamp, "made by another version"),
            (state.erased < self._exact.newest_erasure(), "it may hold what was erased"),
            (state.applied > self._records.revision(), "ahead of the memory, as after a backup was restored"),
        )
        return next((reason for is_so, reason in reasons if is_so), "")

    def _compare(self, path: Path, state: FolderState) -> str:
        """Return how the directory's content differs from the truth; "" where it does not."""
        if not state.applied:
            return ""  # It does not claim to hold anything.
        try:
            with self._copied(path) as root, closing(IndexClient(self._connect())) as index:
                place = replace(self._place, mode="embedded", root=str(root))
                if index.open(place, fresh=False).applied != state.applied:
                    return _DAMAGED  # It was emptied on opening, so it was damaged.
                return self._difference(index, place, state.applied)
        except IndexFailure as failure:
            if failure.keep:
                raise
            return _DAMAGED

    @contextmanager
    def _copied(self, path: Path) -> Generator[Path]:
        """Yield a folder that holds a copy of the directory for as long as it is needed.

        The copy has the place where an erasure deletes it too.
        """
        copy = self._folder.copy
        try:
            with translated_system_errors():
                shutil.rmtree(copy, ignore_errors=True)
                copy.mkdir(mode=0o700)
                shutil.copytree(path, copy / path.name)
            yield copy
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _examine_server(self, *, repair: bool) -> Finding:
        part = f"Chroma {'Cloud' if self._place.mode == 'cloud' else 'server'}"
        place = self._place.of_memory(self._records.identity)
        try:
            if (lock := self._folder.lock()) is None:
                return Finding(part=part, state="ok", says=_IN_USE)
            lock.release()
            with closing(IndexClient(self._connect())) as index:
                standing = index.open(place, fresh=False)
                wrong = _INTERRUPTED if standing.is_doubtful else self._difference(index, place, standing.applied)
                if not wrong:
                    return Finding(part=part, state="ok", says=f"reachable, {self._reach(standing.applied)}")
                if not repair:
                    return Finding(part=part, state="wrong", says=wrong, remedy=_REPAIRING)
                index.clear()
        except IndexFailure as failure:
            remedy = "Make it reachable, or correct the MCP_MEMORY_CHROMA settings; the exact search answers meanwhile."
            return Finding(part=part, state="wrong", says=str(failure), remedy=remedy)
        return Finding(part=part, state="repaired", says=f"{wrong}; emptied, and the next server fills it again")

    def _difference(self, index: IndexClient, place: IndexPlace, applied: int) -> str:
        """Describe how the index differs from the truth as of the change `applied`; "" where it does not.

        Records that changed later are left out.
        """
        held = {name: index.keys(name) for name in index.names()}
        sizes = self._exact.scopes()
        scopes = [each for each, n in sizes.items() if n >= place.least_vectors or place.collection(each) in held]
        changed = self._changed_since(applied)
        found = differences(self._exact, place, held, scopes, changed).values()
        missing, extra = sum(each.missing for each in found), sum(each.extra for each in found)
        return f"of its vectors {missing} are missing, {extra} too many" if found else ""

    def _changed_since(self, applied: int) -> set[str]:
        scopes = {partition_of(scope): scope for scope in self._exact.scopes()}.values()
        changed = (self._exact.changed_since(scope, applied, sys.maxsize) or () for scope in scopes)
        return {record_id for each in changed for record_id in each}

    def _reach(self, applied: int) -> str:
        pending = len(self._changed_since(applied))
        behind = f", {pending} changed since" if pending else ""
        return f"whole up to change {applied}{behind}"
