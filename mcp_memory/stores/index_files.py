"""Keeps the arrays of indexes as files that all processes map, so that each need not read the whole truth.

A folder holds the whole of one index as of one change. It is derived and disposable: whatever is in doubt is not used.
The files are numpy's own, mapped copy-on-write: pages that nobody changes are shared between processes.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

FORMAT = 3
"""Another number says that arrays of the same name mean something else."""
HEADER = "header.json"
_UNFINISHED = ".unfinished"
_TEXTS = "surrogatepass"
_LENGTHS = " lengths"

Arrays = Mapping[str, NDArray[Any]]


class IndexFiles:
    """The folders of one memory's indexes. Thread-safe, and meant for many processes.

    `stamp` says what the content depends on besides the change, such as the store's identity; `newest_erasure` is the
    number of the newest change that erased something.
    """

    def __init__(self, root: Path, stamp: Callable[[], Mapping[str, str]], newest_erasure: Callable[[], int]) -> None:
        self._root = root
        self._stamp = stamp
        self._newest_erasure = newest_erasure

    def load(self, index: str, revision: int, embedder: str = "") -> tuple[int, Arrays] | None:
        """Return the newest sound arrays of an index, and their change, at most `revision`; None where there are none.

        Arrays may be written to: that changes no file. What holds erased records is deleted.
        """
        erased = self._newest_erasure()
        for change, folder in self._folders(index):
            if change < erased:
                shutil.rmtree(folder, ignore_errors=True)
            elif change <= revision and (arrays := self._read(folder, embedder)) is not None:
                return change, arrays
        return None

    def newest(self, index: str, embedder: str = "") -> int:
        """Return the change of the newest folder of an index that this process would load; 0 where there is none."""
        stamp = self._stamp_of(embedder)
        return next((change for change, folder in self._folders(index) if _stamp_in(folder) == stamp), 0)

    def save(self, index: str, change: int, arrays: Arrays, embedder: str = "") -> None:
        """Write an index as of a change, and delete its older folders. Raises OSError, and leaves nothing behind.

        Where another process writes this index, it does nothing. Killed at any moment, it leaves a folder that is not
        read, and that the next writer deletes.
        """
        folder = self._root / index / f"{change:012d}-{secrets.token_hex(4)}"
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(Timeout), FileLock(self._root / f"{index}.lock", timeout=0, mode=0o600):
            self._write(folder, arrays, stamp := self._stamp_of(embedder))
            for older in folder.parent.iterdir():
                # A name begins with the change. Those of another version of the program are its own to replace.
                if older.name < folder.name and _stamp_in(older) in (stamp, None):
                    shutil.rmtree(older, ignore_errors=True)
            if change < self._newest_erasure():  # Somebody erased while it was written, and may have looked before.
                shutil.rmtree(folder, ignore_errors=True)

    def _write(self, folder: Path, arrays: Arrays, stamp: Mapping[str, str]) -> None:
        """Write a folder, which is there whole or not at all."""
        unfinished = folder.with_suffix(_UNFINISHED)
        unfinished.mkdir(mode=0o700)
        try:
            written = {name: _write(unfinished / f"{name}.npy", array) for name, array in arrays.items()}
            header = {"stamp": stamp, "arrays": written}
            (unfinished / HEADER).write_text(json.dumps(header), encoding="utf-8")
            unfinished.rename(folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def erase(self) -> None:
        """Delete everything: afterwards no file holds what was erased before the call."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _folders(self, index: str) -> Iterator[tuple[int, Path]]:
        """Yield the finished folders of an index with their changes, newest first."""
        with suppress(OSError):
            for folder in sorted((self._root / index).iterdir(), reverse=True):
                change, _, rest = folder.name.partition("-")
                if change.isdecimal() and not rest.endswith(_UNFINISHED):
                    yield int(change), folder

    def _read(self, folder: Path, embedder: str) -> Arrays | None:
        """Return the arrays of a folder; None where it is of another store, version or embedder, or damaged."""
        try:
            if _stamp_in(folder) != self._stamp_of(embedder):
                return None
            sums: dict[str, int] = json.loads((folder / HEADER).read_bytes())["arrays"]
            arrays = {name: _mapped(folder / f"{name}.npy") for name in sums}
            return arrays if all(_sum(arrays[name]) == check for name, check in sums.items()) else None
        except (OSError, ValueError, TypeError, KeyError, EOFError):
            return None

    def _stamp_of(self, embedder: str) -> Mapping[str, str]:
        return {**self._stamp(), "embedder": embedder, "format": str(FORMAT)}


def _stamp_in(folder: Path) -> object:
    """Return what a folder's content depends on; None where it does not say so."""
    try:
        return json.loads((folder / HEADER).read_bytes())["stamp"]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def joined(parts: Sequence[Arrays]) -> Arrays:
    """Return several sets of arrays of the same names as one, each array with the length of its parts."""
    names = parts[0] if parts else ()
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in names}
    return arrays | {f"{name}{_LENGTHS}": np.array([len(part[name]) for part in parts], np.int64) for name in names}


def parted(arrays: Arrays) -> Sequence[Arrays]:
    """Return the sets that `joined` joined; other arrays are left out."""
    ends = {name.removesuffix(_LENGTHS): np.cumsum(arrays[name]) for name in arrays if name.endswith(_LENGTHS)}
    parts = {name: np.split(arrays[name], every[:-1]) for name, every in ends.items()}
    return [dict(zip(parts, part, strict=True)) for part in zip(*parts.values(), strict=True)]


def packed_texts(texts: list[str]) -> Arrays:
    """Return texts as two arrays: their bytes one after the other, and where each ends."""
    blobs = [text.encode("utf-8", _TEXTS) for text in texts]
    ends = np.cumsum([len(blob) for blob in blobs], dtype=np.int64)
    return {"texts": np.frombuffer(b"".join(blobs), np.uint8), "ends": ends}


def packed_scopes(scopes: list[str]) -> Arrays:
    """Return the names of an index's scopes, beside whatever texts are in its parts."""
    packed = packed_texts(scopes)
    return {"scopes": packed["texts"], "scope_ends": packed["ends"]}


def unpacked_texts(texts: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[str]:
    """Return the texts that `packed_texts` packed."""
    blob, start, found = texts.tobytes(), 0, list[str]()
    for end in ends.tolist():
        found.append(blob[start:end].decode("utf-8", _TEXTS))
        start = end
    return found


def _write(path: Path, array: NDArray[Any]) -> int:
    """Write one array to the disk; return its check sum."""
    array = np.ascontiguousarray(array)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return _sum(array)


def _mapped(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    return array.view(np.ndarray)  # A memmap would make a memmap of every result.


def _sum(array: NDArray[Any]) -> int:
    return crc32(array.reshape(-1).view(np.uint8).data) if array.size else 0
