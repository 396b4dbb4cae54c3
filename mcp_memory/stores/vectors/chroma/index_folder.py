"""The folder of a memory's index: who has it, whether it is trusted, and the removal of erased data. Knows no Chroma.

One process at a time has the index, by a kernel lock that ends with it. The lock file is beside the directory, so that
the directory can be deleted whole. A directory is trusted only while its state says `clean` and its files are as they
were then: Chroma killed during a write may leave files that it cannot open. Of an index on a server, the directory
holds the state alone.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_memory.bounded_files import file_identity
from mcp_memory.stores.vectors.chroma.location import FORMAT, IndexFailure, IndexPlace

if TYPE_CHECKING:
    from filelock import FileLock

STATE_FILE = "state.json"
_GONE_POLL_SECONDS = 0.02
_REPLACE_PAUSES_SECONDS = (0.005, 0.02, 0.05, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Identifies the writer of an index, and its server; an index with any other stamp is useless."""

    embedder: str
    chroma: str
    server: str = ""
    format: int = FORMAT

    @classmethod
    def of(cls, place: IndexPlace) -> "Stamp":
        if not place.is_shared:
            return cls(embedder=place.embedder, chroma=version("chromadb"))
        named = "\0".join(part or "" for part in (place.mode, place.url, place.tenant, place.database, place.prefix))
        server = hashlib.blake2b(named.encode(), digest_size=8).hexdigest()
        return cls(embedder=place.embedder, chroma="", server=server)  # Another version here changes nothing there.


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderState:
    """The recorded state of an index. `erased`: the newest erasure that it was emptied for, or created after."""

    stamp: Stamp
    clean: bool
    erased: int
    applied: int
    files: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Size and modification time of each file when it was last clean."""


class HeldFolder:
    """The index's directory, which belongs to this process until it is released."""

    def __init__(self, path: Path, lock: "FileLock") -> None:
        self.path = path
        self._lock = lock
        self._identity: tuple[int, int] | None = None
        self._state: FolderState | None = None

    @property
    def state(self) -> FolderState:
        """The state as last written. Raises IndexFailure where the directory is not open."""
        if self._state is None:
            raise IndexFailure("The index directory is not open.")
        return self._state

    def open(self, stamp: Stamp, *, fresh: bool, erased: int) -> FolderState | None:
        """Prepare the directory for that stamp. Return its kept state, or None where it was emptied for lack of trust.

        An emptied one holds nothing that was erased up to the change `erased`, if this process never held any of it.

        It counts as dirty until `mark_clean`: if opening its content crashes the process, the next one empties it.
        """
        state = read_state(self.path)
        self._delete_unfinished()
        is_kept = (
            state is not None and not fresh and state.clean and state.stamp == stamp and state.files == self._files()
        )
        if state is None or not is_kept:
            self._start_anew(stamp, erased)
            return None
        self._identity = file_identity(self.path)
        self._write(replace(state, clean=False))
        return state

    def mark_dirty(self) -> None:
        """Record that the index is about to change; on disk before it returns."""
        if self.state.clean:
            self._write(replace(self.state, clean=False))

    def mark_clean(self, applied: int) -> None:
        """Record that the index is whole, and holds everything up to the change `applied`."""
        self._write(replace(self.state, clean=True, applied=applied, files=self._files()))

    def check(self) -> None:
        """Raise IndexFailure where the directory is no longer the one that was opened."""
        if self._identity is None or file_identity(self.path) != self._identity:
            raise IndexFailure("The index directory was deleted.")

    def release(self) -> None:
        self._lock.release()

    def _start_anew(self, stamp: Stamp, erased: int) -> None:
        with translated_system_errors():
            if self.path.exists():
                shutil.rmtree(self.path)
            self.path.mkdir(mode=0o700)
            self._identity = file_identity(self.path)
            self._write(FolderState(stamp=stamp, clean=False, erased=erased, applied=0))

    def _write(self, state: FolderState) -> None:
        with translated_system_errors():
            write_json(self.path / STATE_FILE, asdict(state))
        self._state = state

    def _delete_unfinished(self) -> None:
        """Delete states that a process wrote while it was ended.

        Each was to replace the one that counts, and nothing changes before that: state.4711 beside state.json.
        """
        with translated_system_errors():
            for path in self.path.glob(f"{Path(STATE_FILE).stem}.*"):
                if path.name != STATE_FILE:
                    path.unlink(missing_ok=True)

    def _files(self) -> dict[str, list[int]]:
        with translated_system_errors():
            found = {path: path.stat() for path in self.path.rglob("*") if path.is_file() and path.name != STATE_FILE}
        return {path.relative_to(self.path).as_posix(): [s.st_size, s.st_mtime_ns] for path, s in found.items()}


class IndexFolder:
    """The index of one memory, as any of its processes sees it. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.directory = root / "index"
        self.copy = root / "copy"
        """A check-up compares this copy. The next process that erases or takes the index deletes what is left of it."""

    @property
    def state(self) -> FolderState | None:
        """The state that is recorded; None where there is none."""
        return read_state(self.directory)

    def take(self) -> HeldFolder:
        """Take the index. Raises IndexFailure where another process has it, or the folder cannot be written."""
        lock = self.lock()
        if lock is None:
            raise IndexFailure("Another process of this memory uses Chroma.", keep=True)
        shutil.rmtree(self.copy, ignore_errors=True)
        return HeldFolder(self.directory, lock)

    def lock(self) -> "FileLock | None":
        """Return the index's kernel lock; None where another process has it. Raises IndexFailure where none works."""
        from filelock import FileLock, Timeout  # Slow to load; below many vectors there is no index.

        file = self._root / "index.lock"
        with translated_system_errors():
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(file, timeout=0, fallback_to_soft=False, thread_local=False, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            return None
        except (NotImplementedError, OSError) as error:
            raise IndexFailure(f"The index directory cannot be locked: {error}.", keep=True) from error
        return lock

    def erase(self, erased: int, patience: float) -> None:
        """Make sure that the directory holds nothing that was erased up to the change `erased`.

        Another process that has it follows erasures by itself. If it does not within `patience` seconds, its files are
        deleted all the same, and it will find its directory gone.
        """
        deadline = time.monotonic() + patience
        while not self._is_rid(erased):
            if time.monotonic() > deadline:
                shutil.rmtree(self.directory, ignore_errors=True)
                shutil.rmtree(self.copy, ignore_errors=True)
                break
            time.sleep(_GONE_POLL_SECONDS)

    def delete_unused(self) -> bool:
        """Delete the directory unless another process has it. True where it is gone."""
        if not self._root.exists():
            return True
        lock = self.lock()
        if lock is None:
            return False
        try:
            with translated_system_errors():
                for folder in (self.directory, self.copy):
                    if folder.exists():
                        shutil.rmtree(folder)
        finally:
            lock.release()
        return True

    def _is_rid(self, erased: int) -> bool:
        state = self.state
        if state is not None and state.stamp.server:
            return True  # No vector is in the directory.
        return bool(state and state.erased >= erased) or self.delete_unused()


def drop_former_indexes(root: Path) -> None:
    """Delete the directories and locks of earlier versions, which had one of 32 for each process, and leave the rest.

    A process of such a version that runs finds its directory gone, as after any deletion.
    """
    if not root.is_dir():
        return
    for number in range(32):
        shutil.rmtree(root / str(number), ignore_errors=True)
    with suppress(OSError):
        for pattern in ("[0-9].lock", "[0-9][0-9].lock", "server-*.lock", "server-*.json"):
            for file in root.glob(pattern):
                file.unlink(missing_ok=True)
        root.rmdir()


def size_of(directory: Path) -> int:
    """Return the bytes in a directory; 0 where it is gone."""
    with suppress(OSError):
        return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    return 0


def read_state(directory: Path) -> FolderState | None:
    """Return the recorded state of a directory; None where there is no readable one."""
    try:
        read: Any = json.loads((directory / STATE_FILE).read_bytes())
        stamp = Stamp(**read.pop("stamp"))
        return FolderState(stamp=stamp, **read)
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return None


def write_json(path: Path, content: object) -> None:
    """Replace a file atomically; the new one is on disk before it replaces the old one."""
    fresh = path.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(json.dumps(content).encode())
        file.flush()
        os.fsync(file.fileno())
    _put_in_place(fresh, path)


def _put_in_place(fresh: Path, path: Path) -> None:
    """Retry the replacement: on Windows it fails for the moment in which another process reads the file."""
    for pause in _REPLACE_PAUSES_SECONDS:
        try:
            fresh.replace(path)
            return
        except PermissionError:
            time.sleep(pause)
    fresh.replace(path)


@contextmanager
def translated_system_errors() -> Generator[None]:
    """Turn OSError into IndexFailure."""
    try:
        yield
    except OSError as error:
        raise IndexFailure(f"The index directory cannot be written: {error.strerror}.", keep=True) from error
