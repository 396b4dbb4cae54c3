"""Index directories: their owners, their trust, and the removal of erased data. Knows no Chroma.

Each process has a directory for itself, guarded by a kernel lock that ends with the process. The lock file is beside
the directory, so that the directory can be deleted whole. A directory is trusted only while its state says `clean` and
its files are as they were then: Chroma killed during a write may leave files that it cannot open. On a Chroma server
a lease says which of a memory's processes writes.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mcp_memory.bounded_files import file_identity
from mcp_memory.stores.vectors.chroma.location import FORMAT, IndexFailure, IndexPlace

SLOTS = 32
UNUSED_SECONDS = 14 * 86_400
STATE_FILE = "state.json"
_GONE_POLL_SECONDS = 0.02
_REPLACE_PAUSES_SECONDS = (0.005, 0.02, 0.05, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Identifies the writer of an index; an index with any other stamp is useless."""

    embedder: str
    chroma: str
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """The recorded state of a directory. `erased`: the newest erasure that it was emptied for, or created after."""

    stamp: Stamp
    clean: bool
    erased: int
    applied: int
    used_at: float
    files: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Size and modification time of each file when it was last clean."""


class Slot:
    """A directory that belongs to this process until it is released."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock
        self._identity: tuple[int, int] | None = None
        self._state: SlotState | None = None

    @property
    def state(self) -> SlotState:
        """The state as last written. Raises IndexFailure where the directory is not open."""
        if self._state is None:
            raise IndexFailure("The index directory is not open.")
        return self._state

    def open(self, stamp: Stamp, *, fresh: bool, erased: int) -> SlotState | None:
        """Prepare the directory for that stamp. Return its kept state, or None where it was emptied for lack of trust.

        An emptied one holds nothing that was erased up to the change `erased`, if this process never held any of it.

        It counts as dirty until `mark_clean`: if opening its content crashes the process, the next one empties it.
        """
        state = read_state(self.path)
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
        """Record that the files are about to change; on disk before it returns."""
        if self.state.clean:
            self._write(replace(self.state, clean=False))

    def mark_clean(self, applied: int) -> None:
        """Record that the files are whole, and hold everything up to the change `applied`."""
        self._write(replace(self.state, clean=True, applied=applied, used_at=time.time(), files=self._files()))

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
            self._write(SlotState(stamp=stamp, clean=False, erased=erased, applied=0, used_at=time.time()))

    def _write(self, state: SlotState) -> None:
        with translated_system_errors():
            write_json(self.path / STATE_FILE, asdict(state))
        self._state = state

    def _files(self) -> dict[str, list[int]]:
        with translated_system_errors():
            found = {path: path.stat() for path in self.path.rglob("*") if path.is_file() and path.name != STATE_FILE}
        return {path.relative_to(self.path).as_posix(): [s.st_size, s.st_mtime_ns] for path, s in found.items()}


class IndexFolder:
    """All index directories of one memory. Thread-safe, and meant for many processes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def take(self) -> Slot:
        """Take the first directory that no other process has. Raises IndexFailure where none is available."""
        with translated_system_errors():
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in directories_in(self._root):
                if lock := try_lock(lock_beside(path)):
                    return Slot(path, lock)
        raise IndexFailure(f"All {SLOTS} index directories are in use.", keep=True)

    def prune(self) -> None:
        """Delete the directories that no process has used for 14 days."""
        for path in self._used():
            state = read_state(path)
            with suppress(OSError):
                used_at = state.used_at if state else path.stat().st_mtime
                if time.time() - used_at > UNUSED_SECONDS:
                    self._delete_unused(path)

    def erase(self, erased: int, patience: float) -> None:
        """Make sure that no directory holds anything that was erased up to the change `erased`.

        Directories in use have `patience` seconds: their owners follow erasures by themselves. If an owner does not,
        its files are deleted all the same, and it will find its directory gone.
        """
        deadline = time.monotonic() + patience
        with translated_system_errors():
            for path in self._used():
                while not self._is_rid(path, erased):
                    if time.monotonic() > deadline:
                        shutil.rmtree(path, ignore_errors=True)
                        break
                    time.sleep(_GONE_POLL_SECONDS)

    def _is_rid(self, path: Path, erased: int) -> bool:
        state = read_state(path)
        return bool(state and state.erased >= erased) or self._delete_unused(path)

    def _delete_unused(self, path: Path) -> bool:
        """Delete a directory without an owner. True where it is gone; False where another process has it."""
        lock = try_lock(lock_beside(path))
        if lock is None:
            return False
        try:
            if path.exists():
                shutil.rmtree(path)
        finally:
            lock.release()
        return True

    def _used(self) -> Iterator[Path]:
        """Yield the directories that exist, or that a process may be about to make."""
        return (path for path in directories_in(self._root) if path.exists() or lock_beside(path).exists())


def directories_in(root: Path) -> Sequence[Path]:
    """Return every possible index directory, in the order in which processes take them."""
    return [root / str(number) for number in range(SLOTS)]


def lock_beside(path: Path) -> Path:
    """Return the file whose lock guards the directory `path`."""
    return path.with_name(f"{path.name}.lock")


def applied_by_servers(place: IndexPlace) -> int:
    """Return the newest change that any index of this memory says it holds; 0 where none says so."""
    if place.is_shared:
        return Lease(place).applied
    states = map(read_state, directories_in(Path(place.root)))
    return max((state.applied for state in states if state), default=0)


def size_of(directory: Path) -> int:
    """Return the bytes in a directory; 0 where it is gone."""
    with suppress(OSError):
        return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    return 0


def try_lock(path: Path) -> FileLock | None:
    """Return the kernel's lock on a file, or None where another process has it. IndexFailure: locks do not work."""
    lock = FileLock(path, timeout=0, fallback_to_soft=False, thread_local=False, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        return None
    except (NotImplementedError, OSError) as error:
        raise IndexFailure(f"Index directories cannot be locked here: {error}.", keep=True) from error
    return lock


def read_state(directory: Path) -> SlotState | None:
    """Return the recorded state of a directory; None where there is no readable one."""
    read: Any = read_json(directory / STATE_FILE)
    try:
        stamp = Stamp(**read.pop("stamp"))
        return SlotState(stamp=stamp, **read)
    except (AttributeError, TypeError, KeyError):
        return None


def read_json(path: Path) -> object:
    """Return the content of a JSON file; None where there is none."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
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
        raise IndexFailure(f"Index directories cannot be written: {error.strerror}.", keep=True) from error


class Lease:
    """The right to write, for as long as the process lives; its holder publishes how far others can trust."""

    def __init__(self, place: IndexPlace) -> None:
        parts = (str(FORMAT), place.mode, place.url, place.tenant, place.database, place.prefix, place.embedder)
        content = "\0".join(part or "" for part in parts)
        name = f"server-{hashlib.blake2b(content.encode(), digest_size=8).hexdigest()}"
        self._lock_file = lock_beside(Path(place.root) / name)
        self._state_file = Path(place.root) / f"{name}.json"
        self._lock: FileLock | None = None

    def take(self) -> bool:
        """True where this process holds the right to write. Raises IndexFailure where locks do not work."""
        if self._lock is None:
            with translated_system_errors():
                self._lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = try_lock(self._lock_file)
        return self._lock is not None

    @property
    def applied(self) -> int:
        """The newest change that the server is known to hold; 0 where nothing is known."""
        read: Any = read_json(self._state_file)
        try:
            return int(read["applied"])
        except (TypeError, KeyError, ValueError):
            return 0

    def publish(self, applied: int) -> None:
        with translated_system_errors():
            write_json(self._state_file, {"applied": applied})

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
