"""Which of a memory's processes writes to a Chroma server, and how far it has come: a lock and a number in a file."""

import hashlib
from pathlib import Path
from typing import Any

from filelock import FileLock

from mcp_memory.stores.vectors.chroma.index_folder import (
    lock_beside,
    read_json,
    translated_system_errors,
    try_lock,
    write_json,
)
from mcp_memory.stores.vectors.chroma.location import FORMAT, Place


class Lease:
    """The right to write, for as long as the process lives; whoever has it says how far the others can trust."""

    def __init__(self, place: Place) -> None:
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
