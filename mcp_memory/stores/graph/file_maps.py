"""Mappings that read what files hold, entry by entry, and keep in memory only what changed since."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Set
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from mcp_memory.stores.index_files import Arrays

MAX_KEPT = 100_000
"""Keys, and items of values, that are kept as they were read from a file; about 100 bytes each."""
_K = TypeVar("_K")
_V = TypeVar("_V")
_TEXT = "surrogatepass"
_ABSENT = object()
_COLUMNS = ("hashes", "sizes", "parts", "key_ends", "value_ends", "keys", "values")


class Codec(NamedTuple, Generic[_K, _V]):
    """A codec turns a mapping's keys into texts and its values into JSON, and back.

    The values of a `nested` one are mappings themselves: each is read when it is looked into, and changed in part.
    """

    key: Callable[[_K], str]
    key_of: Callable[[str], _K]
    json: Callable[[_V], object]
    value: Callable[[Any], _V]
    nested: bool = False


class Overlay(MutableMapping[_K, _V]):
    """The mapping holds what a base of a known size holds, and what changed since; it reads the base when needed.

    Order is that of a dict. You may set only keys that are not there (or were set before), and delete only those that
    are: nothing looks into the base for that. To change a value in place, `own` it.
    """

    __slots__ = ("_gone", "_read", "_since", "_size")

    def __init__(self, read: Callable[[], Mapping[_K, _V]], size: int) -> None:
        self._read, self._size = read, size
        self._since: dict[_K, _V] = {}
        self._gone: set[_K] = set()
        """The keys of the base that were deleted, or have another value now."""

    def __getitem__(self, key: _K) -> _V:
        if key in self._since:
            return self._since[key]
        if key in self._gone:
            raise KeyError(key)
        return self._read()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._since or (key not in self._gone and key in self._read())

    def __iter__(self) -> Iterator[_K]:
        if not self._gone:
            return chain(self._read(), self._since)
        return chain((key for key in self._read() if key not in self._gone), self._since)

    def __reversed__(self) -> Iterator[_K]:
        return chain(reversed(self._since), (key for key in reversed([*self._read()]) if key not in self._gone))

    def __len__(self) -> int:
        return self._size - len(self._gone) + len(self._since)

    def __setitem__(self, key: _K, value: _V) -> None:
        self._since[key] = value

    def __delitem__(self, key: _K) -> None:
        if key in self._since:
            del self._since[key]
        else:
            self._gone.add(key)

    def own(self, key: _K, new: Callable[[], _V]) -> _V:
        """Return the value of a key to change in place; a new one where there is none."""
        if key not in self._since:
            if key in self:
                self._since[key] = self[key]
                self._gone.add(key)
            else:
                self._since[key] = new()
        return self._since[key]


class FiledMap(Overlay[_K, _V]):
    """One mapping of a table, and what changed since."""

    __slots__ = ("_part",)

    def __init__(self, part: Part[_K, _V]) -> None:
        super().__init__(lambda: part, len(part))
        self._part = part

    def rows(self) -> Iterator[TableRow]:
        """Yield all as it is now, for a table."""
        yield from self._part.rows(self._gone)
        codec = self._part.codec
        for key, value in self._since.items():
            told = codec.key(key).encode("utf-8", _TEXT)
            size = len(value) if codec.nested else 1  # pyright: ignore[reportArgumentType]
            yield TableRow(_hash(told), told, json.dumps(codec.json(value), separators=(",", ":")).encode(), size)


class TableRow(NamedTuple):
    """An entry of a table; `size` is that of a nested value."""

    hash: int
    key: bytes
    value: bytes
    size: int


class Table:
    """Many mappings from texts to JSON, in arrays: each is a run of rows that are sorted by the hashes of their keys.

    Thread-safe.
    """

    def __init__(self, arrays: Arrays | None = None) -> None:
        arrays = arrays or packed_table([])
        # A memoryview gives Python's own numbers, in a tenth of the time.
        columns: dict[str, Any] = {name: memoryview(cast("bytes", arrays[name])) for name in _COLUMNS}
        self.hashes, self._sizes, self._parts = columns["hashes"], columns["sizes"], columns["parts"]
        self._key_ends, self._keys = columns["key_ends"], columns["keys"]
        self._value_ends, self._values = columns["value_ends"], columns["values"]
        self._kept: dict[object, Any] = {}
        self._room = MAX_KEPT

    def part(self, number: int | None, codec: Codec[_K, _V]) -> Part[_K, _V]:
        """Return a mapping by its number; an empty one for None."""
        if number is None:
            return Part(self, 0, 0, codec)
        return Part(self, self._parts[number - 1] if number else 0, self._parts[number], codec)

    def find(self, key: bytes, start: int, end: int) -> int | None:
        """Return the row of a key among those from start to end; None where there is none."""
        mark = _hash(key)
        row = bisect_left(self.hashes, mark, start, end)
        while row < end and self.hashes[row] == mark:
            if self.key(row) == key:
                return row
            row += 1
        return None

    def parts_with(self, key: str) -> list[int]:
        """Return the numbers of the mappings that have a key, and perhaps of some that have not."""
        rows = np.flatnonzero(np.asarray(self.hashes) == _hash(key.encode("utf-8", _TEXT)))
        return np.searchsorted(np.asarray(self._parts), rows, side="right").tolist()

    def key(self, row: int) -> bytes:
        return bytes(self._keys[self._key_ends[row - 1] if row else 0 : self._key_ends[row]])

    def value(self, row: int) -> bytes:
        return bytes(self._values[self._value_ends[row - 1] if row else 0 : self._value_ends[row]])

    def size(self, row: int) -> int:
        return self._sizes[row]

    def kept(self, key: object, read: Callable[[], _V], size: int = 1) -> _V:
        """Return what was read before, or read it; forget all when it is too much."""
        value = self._kept.get(key, _ABSENT)
        if value is _ABSENT:
            value = read()
            if self._room < size:
                self._kept, self._room = {}, MAX_KEPT
            if size <= MAX_KEPT:
                self._kept[key] = value
                self._room -= size
        return value


class Part(Mapping[_K, _V]):
    """One mapping of a table, as it is in the files."""

    def __init__(self, table: Table, start: int, end: int, codec: Codec[_K, _V]) -> None:
        self.codec = codec
        self._table, self._start, self._end = table, start, end

    def __getitem__(self, key: _K) -> _V:
        value = self.find(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.find(key) is not None  # pyright: ignore[reportArgumentType]

    def __iter__(self) -> Iterator[_K]:
        return (self.codec.key_of(self._table.key(row).decode("utf-8", _TEXT)) for row in self._rows())

    def __len__(self) -> int:
        return self._end - self._start

    def find(self, key: _K) -> _V | None:
        """Return the value of a key; None where there is none."""
        return self._table.kept((self._start, key), partial(self.read, key)) if self._end > self._start else None

    def read(self, key: _K) -> _V | None:
        """Return the same as `find`, and keep nothing."""
        row = self._row(key)
        if row is None:
            return None
        if not self.codec.nested:
            return self._value(row)
        size = self._table.size(row)
        read: Any = partial(self._table.kept, row, partial(self._value, row), size)
        nested: Any = Overlay(read, size)
        return nested

    def rows(self, without: Set[_K]) -> Iterator[TableRow]:
        left_out = {self._row(key) for key in without}
        table = self._table
        for row in self._rows():
            if row not in left_out:
                yield TableRow(table.hashes[row], table.key(row), table.value(row), table.size(row))

    def _rows(self) -> range:
        return range(self._start, self._end)

    def _row(self, key: _K) -> int | None:
        return self._table.find(self.codec.key(key).encode("utf-8", _TEXT), self._start, self._end)

    def _value(self, row: int) -> _V:
        return self.codec.value(json.loads(self._table.value(row)))


def packed_table(parts: Iterable[Iterable[TableRow]]) -> Arrays:
    """Return mappings as the arrays of a table; each has its place for its number."""
    hashes, sizes, ends = list[int](), list[int](), list[int]()
    keys, values, key_ends, value_ends = bytearray(), bytearray(), list[int](), list[int]()
    for part in parts:
        for row in sorted(part):
            hashes.append(row.hash)
            sizes.append(row.size)
            keys += row.key
            values += row.value
            key_ends.append(len(keys))
            value_ends.append(len(values))
        ends.append(len(hashes))
    numbers = {"hashes": hashes, "sizes": sizes, "parts": ends, "key_ends": key_ends, "value_ends": value_ends}
    blobs = {"keys": np.frombuffer(keys, np.uint8), "values": np.frombuffer(values, np.uint8)}
    return {**{name: np.array(column, np.int64) for name, column in numbers.items()}, **blobs}


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little", signed=True)
