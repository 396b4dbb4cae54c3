"""Files of indexes: what they hold is what the truth says, and whatever is in doubt is not used."""

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.stores import index_files
from mcp_memory.stores.index_files import FORMAT, HEADER, IndexFiles, joined, packed_texts, parted, unpacked_texts

ARRAYS = {"numbers": np.arange(5), "matrix": np.ones((5, 3), np.float32), "none": np.zeros(0, np.bool_)}


class Place:
    """Where files are kept: its store's name and newest erasure can be set."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store, self.erased = "one", 0
        self.files = IndexFiles(root, lambda: {"store": self.store}, lambda: self.erased)

    def folders(self) -> list[str]:
        return sorted(each.name.partition("-")[0] for each in (self.root / "words").iterdir())

    def folder(self) -> Path:
        return next((self.root / "words").iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "arrays")


def test_arrays_come_back_as_they_were(place: Place) -> None:
    place.files.save("words", 7, ARRAYS, "embedder")
    assert place.files.newest("words", "embedder") == 7
    change, arrays = place.files.load("words", 7, "embedder") or (0, {})
    assert change == 7
    assert arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        assert array.dtype == ARRAYS[name].dtype
        assert np.array_equal(array, ARRAYS[name])


def test_what_a_process_writes_stays_its_own(place: Place) -> None:
    place.files.save("words", 7, ARRAYS)
    for _ in range(2):
        _, arrays = place.files.load("words", 7) or (0, {})
        assert arrays["numbers"].tolist() == [0, 1, 2, 3, 4]
        arrays["numbers"][:] = 9


def test_the_newest_that_is_not_of_the_future_is_read_and_older_ones_go(place: Place) -> None:
    for change in (3, 12, 7):
        place.files.save("words", change, {"numbers": np.array([change])})
    assert place.folders() == ["000000000007", "000000000012"]  # 7 was written last, and deletes what is older.
    assert (place.files.load("words", 12) or (0, {}))[0] == 12
    assert (place.files.load("words", 11) or (0, {}))[0] == 7
    assert place.files.load("words", 6) is None


def another_store(place: Place) -> None:
    place.store = "two"


def truncated(place: Place) -> None:
    os.truncate(place.folder() / "matrix.npy", 140)


def emptied(place: Place) -> None:
    (place.folder() / "numbers.npy").write_bytes(b"")


def garbled(place: Place) -> None:
    file = place.folder() / "matrix.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def foreign(place: Place) -> None:
    (place.folder() / "numbers.npy").write_bytes(b"GIF89a" * 100)


def pickled(place: Place) -> None:
    np.save(place.folder() / "numbers.npy", np.array([{"a": 1}], object), allow_pickle=True)


def without_an_array(place: Place) -> None:
    (place.folder() / "numbers.npy").unlink()


def without_header(place: Place) -> None:
    (place.folder() / HEADER).unlink()


def garbled_header(place: Place) -> None:
    (place.folder() / HEADER).write_text("[1, 2")


def header_of_another_shape(place: Place) -> None:
    (place.folder() / HEADER).write_text("[1, 2]")


def of_another_version(place: Place) -> None:
    header = json.loads((place.folder() / HEADER).read_text())
    header["stamp"]["format"] = str(FORMAT + 1)
    (place.folder() / HEADER).write_text(json.dumps(header))


def a_file_in_its_place(place: Place) -> None:
    folder = place.folder()
    shutil.rmtree(folder)
    folder.write_text("not a folder")


@pytest.mark.parametrize(
    "damage",
    [
        another_store, truncated, emptied, garbled, foreign, pickled, without_an_array, without_header, garbled_header,
        header_of_another_shape, of_another_version, a_file_in_its_place,
    ],
)  # fmt: skip
def test_what_is_in_doubt_is_not_used_and_can_be_written_anew(place: Place, damage: Callable[[Place], None]) -> None:
    place.files.save("words", 7, ARRAYS)
    damage(place)
    assert place.files.load("words", 9) is None
    place.files.save("words", 8, ARRAYS)
    assert (place.files.load("words", 9) or (0, {}))[0] == 8


def test_another_embedder_has_files_of_its_own(place: Place) -> None:
    place.files.save("words", 7, ARRAYS, "one")
    place.files.save("words", 8, ARRAYS, "other")
    assert [place.files.newest("words", name) for name in ("one", "other", "third")] == [7, 8, 0]


def test_erased_records_are_in_no_file(place: Place) -> None:
    """R9: neither after the call, nor where a process was killed before it made the call."""
    place.files.save("words", 7, ARRAYS)
    place.files.erase()
    assert not place.root.exists()
    place.files.save("words", 7, ARRAYS)
    place.erased = 8
    assert place.files.load("words", 9) is None
    assert place.folders() == []


def test_a_file_that_is_written_during_an_erasure_is_deleted(place: Place) -> None:
    place.erased = 8
    place.files.save("words", 7, ARRAYS)
    assert place.folders() == []


def test_a_full_disk_leaves_nothing_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.files.save("words", 7, ARRAYS)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(index_files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        place.files.save("words", 8, ARRAYS)
    assert place.folders() == ["000000000007"]


def test_what_a_killed_writer_left_is_not_read_and_is_deleted_by_the_next(place: Place) -> None:
    place.files.save("words", 7, ARRAYS)
    place.folder().rename(place.root / "words" / "000000000009-abcdef01.unfinished")
    assert place.files.load("words", 9) is None
    place.files.save("words", 12, ARRAYS)
    assert place.folders() == ["000000000012"]


@given(st.lists(st.text()))
@settings(max_examples=50)
def test_texts_come_back(texts: list[str]) -> None:
    packed = packed_texts(texts)
    assert unpacked_texts(packed["texts"], packed["ends"]) == texts


def test_parts_come_back() -> None:
    rng = random.Random(1)
    parts = [{"a": np.arange(rng.randint(0, 4)), "b": np.ones((rng.randint(0, 3), 2))} for _ in range(9)]
    together = {**joined(parts), "else": np.zeros(3)}
    for part, again in zip(parts, parted(together), strict=True):
        assert all(np.array_equal(part[name], again[name]) for name in ("a", "b"))
    assert list(parted(joined([]))) == []
