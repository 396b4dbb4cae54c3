"""Kernel locks between the processes of one memory: implements `ProcessLocks`. A lock ends with its process."""

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mcp_memory.errors import StoreUnavailable

PATIENCE_SECONDS = 2.0
"""Others hold the lock of a choice for a millisecond."""
POLL_SECONDS = 0.005


class FileProcessLocks:
    """A file for each lock, named by a digest. The port documents each method."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def choice(self) -> Generator[None]:
        lock = self._lock("choice")
        if not self._acquired(lock, PATIENCE_SECONDS):
            raise StoreUnavailable(f"Another process keeps {lock.lock_file} locked; end it.")
        try:
            yield
        finally:
            lock.release()

    def take(self, *name: str, patience: float = 0.0) -> Callable[[], None] | None:
        lock = self._lock(hashlib.blake2b("\0".join(name).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest())
        return lock.release if self._acquired(lock, patience) else None

    def _lock(self, name: str) -> FileLock:
        return FileLock(self._folder / f"{name}.lock", mode=0o600, thread_local=False, fallback_to_soft=False)

    def _acquired(self, lock: FileLock, seconds: float) -> bool:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            lock.acquire(seconds, POLL_SECONDS)
        except Timeout:
            return False
        except (NotImplementedError, OSError) as error:
            raise StoreUnavailable(f"Locks do not work in {self._folder}: {error}.") from error
        return True
