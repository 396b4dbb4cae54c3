"""Records and vectors made by the dozen, and the implementations that every contract is proved over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import Entity, Record, Relation
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock, Vectors
from mcp_memory.stores.records import SqliteRecordStore

EMBEDDER = "contract-embedder"
DIMENSIONS = 8

OpenStore = Callable[..., RecordStore]
AddRecord = Callable[..., Record]

_OF_INDEXES = frozenset({"test_filter_index", "test_graph_store", "test_keyword_store", "test_vector_store"})
"""Contracts of what is derived from a store by its feed of changes, which the contracts of the store hold."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Prove indexes over one store; tests/stores/records/test_postgres.py compares their answers over the other.

    The one that is in PostgreSQL is proved over that.
    """

    def is_proved(item: pytest.Item) -> bool:
        return item.path.stem not in _OF_INDEXES or ("postgres" in item.name) == ("pgvector" in item.name)

    items[:] = filter(is_proved, items)


def _address_of(folder: Path) -> str:
    from tests.postgres import new_database

    if folder not in _addresses:
        _addresses[folder] = new_database()
    return _addresses[folder]


def _in_postgres(folder: Path, embedder: str, clock: Clock) -> RecordStore:
    """Open the store of a folder's own database."""
    from mcp_memory.stores.records.store_postgres import PostgresRecordStore

    return PostgresRecordStore(_address_of(folder), embedder, clock)


_addresses: dict[Path, str] = {}
STORES: dict[str, Callable[[Path, str, Clock], RecordStore]] = {"sqlite": SqliteRecordStore}
if sys.platform != "win32":  # The package has none for it.
    STORES["postgres"] = _in_postgres

BLANK = Record(
    id="", scope="shared/here", namespace="here", visibility="shared", agent="ann", session_id="s1", task_id=None,
    branch_id=None, kind="fact", text="", summary="", micro="", text_tokens=1, summary_tokens=1, micro_tokens=1,
    importance=1.0, confidence=None, status="new", outcome=None, pinned=False, tags=(), details={}, speaker=None,
    role=None, tool=None, call_id=None, superseded_by=None, created_at=100.0, updated_at=100.0, accessed_at=100.0,
    occurred_at=100.0,
)  # fmt: skip


def unit_vectors(seed: int, windows: int = 1) -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((windows, DIMENSIONS)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.fixture
def vectors_of() -> Callable[..., Vectors]:
    """Unit vectors by seed and number of windows."""
    return unit_vectors


@pytest.fixture(params=sorted(STORES))
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the same store, again and again, as further processes would."""
    opened: list[RecordStore] = []

    def open_it(embedder: str = EMBEDDER, folder: str = "data") -> RecordStore:
        opened.append(STORES[request.param](tmp_path / folder, embedder, lambda: 1000.0))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> RecordStore:
    return open_store()


@pytest.fixture
def add(store: RecordStore) -> AddRecord:
    """Stores a record made of the given fields, with vectors of its own."""
    seeds = count()

    def add_record(
        text: str,
        *,
        to: RecordStore = store,
        vectors: Vectors | None = None,
        entities: Sequence[Entity] = (),
        relations: Sequence[Relation] = (),
        **fields: object,
    ) -> Record:
        with to.write() as transaction:
            made = replace(BLANK, id=transaction.next_id(RECORD), text=text, summary=text, micro=text[:20])
            record = replace(made, **fields)
            own = unit_vectors(next(seeds)) if vectors is None else vectors
            transaction.insert(record, own, entities, relations)
        return record

    return add_record
