"""A folder of files, each named by the digest of its bytes: implements `FileStore`."""

import hashlib
import os
import re
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from mcp_memory.errors import StoreUnavailable

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)  # SHA-256, e.g. "3f5a12bc…"


class FileFolder:
    """The port documents each method. The folder is made with the first file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, digest: str, content: bytes) -> None:
        path = self._folder / digest
        if path.exists():
            return
        unfinished = path.with_suffix(".unfinished")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
            self._sync()
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink()
            raise StoreUnavailable(f"A file cannot be kept in {self._folder}: {error.strerror}.") from error

    def read(self, digest: str) -> bytes | None:
        if not _DIGEST.fullmatch(digest):  # Never a path from outside.
            return None
        try:
            content = (self._folder / digest).read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None

    def digests(self) -> Collection[str]:
        return frozenset(each.name for each in self._folder.iterdir()) if self._folder.is_dir() else frozenset()

    def drop(self, digests: Collection[str]) -> None:
        try:
            for digest in digests:
                (self._folder / digest).unlink(missing_ok=True)
            if digests:
                self._sync()
        except OSError as error:
            raise StoreUnavailable(f"A file in {self._folder} cannot be deleted: {error.strerror}.") from error

    def _sync(self) -> None:
        """Make names last through a power cut, where folders can be synced."""
        if sys.platform != "win32":
            descriptor = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
