"""What fills the index: records that move while it does so end in one collection, that of their scope."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mcp_memory.stores.vectors.chroma.index_client import IndexClient
from mcp_memory.stores.vectors.chroma.location import IndexPlace
from mcp_memory.stores.vectors.chroma.sync import Filler
from tests.chroma import DIMENSIONS, SCOPE, Memory, unit

PRIVATE, OWN = "private/ann/here", "user/ann"


class PlainIndex:
    """An index that holds its keys in sets."""

    def __init__(self) -> None:
        self.held: dict[str, set[str]] = {}

    def standing(self) -> SimpleNamespace:
        return SimpleNamespace(clean=True, erased=0, is_doubtful=False, applied=0, directory=None)

    def names(self) -> Sequence[str]:
        return list(self.held)

    def keys(self, name: str) -> Sequence[str]:
        return list(self.held.get(name, ()))

    def put(self, name: str, vectors: Mapping[str, Any]) -> None:
        assert all(vector.shape == (DIMENSIONS,) for vector in vectors.values())
        self.held.setdefault(name, set()).update(vectors)

    def delete(self, name: str, keys: Collection[str]) -> None:
        self.held[name].difference_update(keys)

    def drop(self, names: Collection[str]) -> None:
        for name in names:
            del self.held[name]

    def rest(self, *_told: object) -> None:
        """Nothing to wait for."""


class Filling:
    """A memory whose index holds some scopes."""

    def __init__(self, folder: Path) -> None:
        self.memory, self.index, self.wanted = Memory(folder, mode="off"), PlainIndex(), [SCOPE]
        self.place = IndexPlace(mode="embedded", root=str(folder), embedder="test-embedder", least_vectors=1_000)
        self.filler = Filler(
            self.memory.exact, self.place, cast("IndexClient", self.index), lambda: self.wanted, lambda: False
        )

    def move(self, record_id: str, scope: str) -> None:
        with self.memory.records.write() as transaction:
            record = transaction.get(record_id)
            assert record is not None
            transaction.update(replace(record, scope=scope))

    def catch_up(self) -> None:
        assert self.filler.catch_up()
        assert self.filler.differences() == {}


@pytest.fixture
def filling(tmp_path: Path) -> Iterator[Filling]:
    made = Filling(tmp_path)
    yield made
    made.memory.close()


def test_a_record_that_moves_between_two_comparisons_is_in_one_collection(filling: Filling) -> None:
    """S1.2: the second scope is read later than the first, and has what the first had."""
    first, second = sorted([SCOPE, PRIVATE])
    moving, _ = filling.memory.add(unit(1), unit(2), scope=first)
    filling.memory.add(unit(3), scope=second)
    filling.wanted = [first]
    filling.catch_up()
    filling.wanted = [first, second]
    filling.move(moving, second)
    filling.catch_up()
    assert filling.filler.records == 3


@pytest.mark.parametrize("there_and_back", [(SCOPE, OWN), (OWN, SCOPE), (SCOPE, OWN, SCOPE), (OWN, SCOPE, OWN)])
def test_a_record_that_moves_to_another_partition_is_in_one_collection(
    filling: Filling, there_and_back: Sequence[str]
) -> None:
    """S1.2: whichever of the partitions is brought up to date first."""
    moving, _ = filling.memory.add(unit(1), unit(2), scope=there_and_back[0])
    filling.memory.add(unit(3), scope=there_and_back[1])
    filling.wanted = [SCOPE, OWN]
    filling.catch_up()
    for scope in there_and_back[1:]:
        filling.move(moving, scope)
        filling.catch_up()
    assert filling.filler.records == 3
