"""Checks the indexes that no server is using, and compares them with the truth: implements `IndexExaminer`.

Opening an index changes its files, and a damaged one may be emptied or crash its process. So an index process opens a
copy, and a directory is left unchanged unless it is to be repaired.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from mcp_memory.ports.indexes import Finding, IndexDirectory
from mcp_memory.ports.records import RecordStore
from mcp_memory.stores.vectors.chroma.account import account
from mcp_memory.stores.vectors.chroma.index_client import IndexClient
from mcp_memory.stores.vectors.chroma.index_folder import (
    Lease,
    SlotState,
    Stamp,
    directories_in,
    lock_beside,
    read_state,
    size_of,
    translated_system_errors,
    try_lock,
)
from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace
from mcp_memory.stores.vectors.chroma.sync import differences
from mcp_memory.stores.vectors.chroma.worker_client import Link, process_of
from mcp_memory.stores.vectors.exact import ExactVectorStore

_REPAIRING = "`mcp-memory doctor --repair` drops it, and the next server that needs it builds it again."
_UNTOLD = "Nothing was dropped: try again, or delete the directory while no server runs."
_DAMAGED, _INTERRUPTED = "its files are damaged", "left in the middle of a change"


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
        self._connect = connect or process_of(place)

    def directories(self) -> Sequence[IndexDirectory]:
        states = [(path, read_state(path)) for path in self._paths()]
        return [
            IndexDirectory(
                name=path.name,
                clean=state is not None and state.clean,
                applied=state.applied if state else 0,
                bytes=size_of(path),
            )
            for path, state in states
        ]

    def examine(self, *, repair: bool) -> Iterator[Finding]:
        self._exact.catch_up()
        found = {path: self._examine_directory(path, repair=repair) for path in self._paths()}
        states = [read_state(path) for path, finding in found.items() if finding.state == "ok"]
        if not self._place.is_shared:
            yield self._account(max((state.applied for state in states if state), default=0))
        yield from found.values()
        if self._place.is_shared:
            finding = self._examine_server(repair=repair)
            lease = Lease(self._place.of_memory(self._records.identity))
            yield self._account(lease.applied if finding.state == "ok" else 0)
            yield finding

    def _account(self, applied: int) -> Finding:
        """Say which store answers, in all scopes together, where what is sound holds everything up to that change."""
        scopes = [*self._exact.live_ids()]
        says = account(self._exact, self._place, scopes, "elsewhere", applied=applied)
        return Finding(part="index", state="ok", says=says)

    def _paths(self) -> list[Path]:
        return [path for path in directories_in(Path(self._place.root)) if path.exists()]

    def _examine_directory(self, path: Path, *, repair: bool) -> Finding:
        part = f"index {path.name}"
        lock = try_lock(lock_beside(path))
        if lock is None:
            return Finding(part=part, state="ok", says="in use by a server, which keeps it itself")
        try:
            state = read_state(path)
            wrong = self._distrust(state) or self._compare(path, state) if state else "its state cannot be read"
            if state and not wrong:
                return Finding(part=part, state="ok", says=self._reach(state.applied))
            if not repair:
                return Finding(part=part, state="wrong", says=wrong, remedy=_REPAIRING)
            with translated_system_errors():
                shutil.rmtree(path)
        except IndexFailure as failure:
            return Finding(part=part, state="wrong", says=str(failure), remedy=_UNTOLD)
        finally:
            lock.release()
        return Finding(
            part=part, state="repaired", says=f"{wrong}; dropped, and the next server that needs it builds it again"
        )

    def _distrust(self, state: SlotState) -> str:
        """Return the reason in its recorded state to distrust a directory; "" where there is none."""
        stamp = Stamp(embedder=self._place.embedder, chroma=version("chromadb"))
        reasons = (
            (not state.clean, _INTERRUPTED),
            (state.stamp.embedder != stamp.embedder, "made for another embedder"),
            (state.stamp != stamp, "made by another version"),
            (state.erased < self._exact.newest_erasure, "it may hold what was erased"),
            (state.applied > self._records.revision(), "ahead of the memory, as after a backup was restored"),
        )
        return next((reason for is_so, reason in reasons if is_so), "")

    def _compare(self, path: Path, state: SlotState) -> str:
        """Return how a directory's content differs from the truth; "" where it does not."""
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

        The copy takes the name of a later index directory, so that an erasure reaches it after this one. If this
        process is killed, the next one that erases, prunes or begins a directory there deletes the rest.
        """
        directories = directories_in(path.parent)
        for spare in directories[directories.index(path) + 1 :]:
            lock = None if spare.exists() else try_lock(lock_beside(spare))
            if lock is not None:
                try:
                    with translated_system_errors():
                        spare.mkdir(mode=0o700)
                        shutil.copytree(path, spare / "0")
                    yield spare
                finally:
                    shutil.rmtree(spare, ignore_errors=True)
                    lock.release()
                return
        raise IndexFailure("There is no room for a copy to look into.", keep=True)

    def _examine_server(self, *, repair: bool) -> Finding:
        part = f"Chroma {'Cloud' if self._place.mode == 'cloud' else 'server'}"
        place = self._place.of_memory(self._records.identity)
        try:
            with closing(IndexClient(self._connect())) as index:
                standing = index.open(place, fresh=False)
                wrong = _INTERRUPTED if standing.is_doubtful else self._difference(index, place, standing.applied)
                if not wrong:
                    return Finding(part=part, state="ok", says=f"reachable, {self._reach(standing.applied)}")
                if not standing.writes:
                    remedy = "A running server writes to it: stop the servers, then run `mcp-memory doctor --repair`."
                    return Finding(part=part, state="wrong", says=wrong, remedy=remedy)
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
        self._exact.catch_up()  # A server may have stored and indexed more in the meantime.
        changed = set(self._exact.changed_since(applied, sys.maxsize) or ())
        found = differences(self._exact, place, held, changed).values()
        missing, extra = sum(each.missing for each in found), sum(each.extra for each in found)
        return f"of its vectors {missing} are missing, {extra} too many" if found else ""

    def _reach(self, applied: int) -> str:
        pending = len(self._exact.changed_since(applied, sys.maxsize) or ())
        behind = f", {pending} changed since" if pending else ""
        return f"whole up to change {applied}{behind}"
