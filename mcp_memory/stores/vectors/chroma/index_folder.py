"""Index directories: their owners, whether one can be trusted, and that nothing erased stays. Knows no Chroma.

Each process has a directory for itself, guarded by a kernel lock that falls with the process. The lock file lies
beside the directory, which can so be deleted whole. What a directory holds is on trust only while its state says
`clean` and its files are as they were then: Chroma killed while it writes may leave files that it cannot open.

On a Chroma server a lease says which of a memory's processes writes.
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
    """What wrote an index; another one's is of no use."""

    embedder: str
    chroma: str
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """What a directory says of itself. `erased`: the newest erasure that it was emptied for, or begun after."""

    stamp: Stamp
    clean: bool
    erased: int
    applied: int
    used_at: float
    files: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Size and time of change of each file when it was last clean."""


class Slot:
    """A directory that is this process's own until it is released."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock
        self._identity: tuple[int, int] | None = None
        self._state: SlotState | None = None

    @property
    def state(self) -> SlotState:
        """As last written. Raises IndexFailure where the directory is not open."""
        if self._state is None:
            raise IndexFailure("The index directory is not open.")
        return self._state

    def open(self, stamp: Stamp, *, fresh: bool, erased: int) -> SlotState | None:
        """Make it ready for that stamp. The state it was kept in, or None where it was emptied, not being on trust.

        An emptied one holds nothing of what was erased up to that change, if nothing of it was ever in this process.

        It counts as dirty until `mark_clean`: if opening what it holds takes the process down, the next one empties it.
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
        """Say that the files are about to change; on disk before it returns."""
        if self.state.clean:
            self._write(replace(self.state, clean=False))

    def mark_clean(self, applied: int) -> None:
        """Say that the files are whole, and hold everything up to that change."""
        self._write(replace(self.state, clean=True, applied=applied, used_at=time.time(), files=self._files()))

    def check(self) -> None:
        """Raises IndexFailure where the directory is no longer the one that was opened."""
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
        """The first directory that no other process has. Raises IndexFailure where there is none to be had."""
        with translated_system_errors():
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in directories_in(self._root):
                if lock := try_lock(lock_beside(path)):
                    return Slot(path, lock)
        raise IndexFailure(f"All {SLOTS} index directories are in use.", keep=True)

    def prune(self) -> None:
        """Delete the directories that nobody has used for long."""
        for path in self._used():
            state = read_state(path)
            with suppress(OSError):
                used_at = state.used_at if state else path.stat().st_mtime
                if time.time() - used_at > UNUSED_SECONDS:
                    self._delete_unused(path)

    def erase(self, erased: int, patience: float) -> None:
        """Make sure that no directory holds anything of what was erased up to that change.

        Directories in use are left to their owners, who follow erasures by themselves, for so many seconds; of an owner
        that does not, the files are deleted all the same: it will find its directory gone.
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
        """True where the directory is gone; False where another process has it."""
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
        """Those that are there, or that a process may be about to make."""
        return (path for path in directories_in(self._root) if path.exists() or lock_beside(path).exists())


def directories_in(root: Path) -> Sequence[Path]:
    """Every index directory that there can be, in the order in which processes take them."""
    return [root / str(number) for number in range(SLOTS)]


def lock_beside(path: Path) -> Path:
    """The file whose lock guards what is called `path`."""
    return path.with_name(f"{path.name}.lock")


def size_of(directory: Path) -> int:
    """Bytes in a directory; 0 where it is gone."""
    with suppress(OSError):
        return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    return 0


def try_lock(path: Path) -> FileLock | None:
    """The kernel's lock on a file, or None where another process has it. Raises IndexFailure where there are none."""
    lock = FileLock(path, timeout=0, fallback_to_soft=False, thread_local=False, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        return None
    except (NotImplementedError, OSError) as error:
        raise IndexFailure(f"Index directories cannot be locked here: {error}.", keep=True) from error
    return lock


def read_state(directory: Path) -> SlotState | None:
    """What a directory says of itself; None where it says nothing that can be understood."""
    read: Any = read_json(directory / STATE_FILE)
    try:
        stamp = Stamp(**read.pop("stamp"))
        return SlotState(stamp=stamp, **read)
    except (AttributeError, TypeError, KeyError):
        return None


def read_json(path: Path) -> object:
    """The content of a JSON file; None where there is none."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def write_json(path: Path, content: object) -> None:
    """Replace a file by a new one that is on disk before it takes its place."""
    fresh = path.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(json.dumps(content).encode())
        file.flush()
        os.fsync(file.fileno())
    _put_in_place(fresh, path)


def _put_in_place(fresh: Path, path: Path) -> None:
    """On Windows a file cannot be replaced while another process reads it, which takes no longer than a moment."""
    for pause in _REPLACE_PAUSES_SECONDS:
        try:
            fresh.replace(path)
            return
        except PermissionError:
            time.sleep(pause)
    fresh.replace(path)


@contextmanager
def translated_system_errors() -> Generator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        raise IndexFailure(f"Index directories cannot be written: {error.strerror}.", keep=True) from error


class Lease:
    """The right to write, for as long as the process lives; whoever has it says how far the others can trust."""

    def __init__(self, place: IndexPlace) -> None:
        parts = (str(FORMAT), place.mode, place.url, place.tenant, place.database, place.prefix, place.embedder)
        content = "\0".join(part or "" for part in parts)
        name = f"server-{hashlib.blake2b(content.encode(), digest_size=8).hexdigest()}"
        self._lock_file = lock_beside(Path(place.root) / name)
        self._state_file = Path(place.root) / f"{name}.json"
        self._lock: FileLock | None = None

    def take(self) -> bool:
        """True where this process writes, from now on or since before. Raises IndexFailure where locks do not work."""
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
