"""Records and vectors made by the dozen, and the implementations that every contract is proved over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import Entity, Record, Relation
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock, Vectors
from mcp_memory.stores.records import SqliteRecordStore
from tests.conftest import fewer_examples

EMBEDDER = "contract-embedder"
DIMENSIONS = 8

OpenStore = Callable[..., RecordStore]
AddRecord = Callable[..., Record]
NewMemory = Callable[[], AbstractContextManager[Callable[[], RecordStore]]]

_OF_INDEXES = frozenset({"test_filter_index", "test_graph_store", "test_keyword_store", "test_vector_store"})
"""Contracts of what is derived from a store by its feed of changes."""
_OTHERS = frozenset({"reloaded", "embedded", "server"})
"""What an index may be beside the one that a server has in memory."""
_OF_TEXTS = frozenset({"test_words_are_found_in_the_forms_people_write_them"})
"""What no store has a part in."""


_LOADED_WHOLE = "test_many_records_at_once_and_few_afterwards_are_found_alike"
"""Reads a feed of more changes than one journey brings."""
_OF_MANY_WRITES = frozenset({
    _LOADED_WHOLE,
    "test_no_more_are_looked_at_than_might_stand_out", "test_a_text_changed_many_times_keeps_one_place",
    "test_a_long_history_of_changes_leaves_every_record_as_it_is_now",
    "test_texts_changed_many_times_leave_nothing_of_what_they_said",
})  # fmt: skip
"""Those of hundreds of writes, which take long over PostgreSQL: only what PostgreSQL itself has a part in.

What an index holds in memory follows the same feed from any store. Each index is asked after any history over both
stores, by a property that makes the same assertion.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Prove each index over both stores, and what else an index may be made of over one: pgvector over PostgreSQL."""
    items[:] = [item for item in items if not _is_proved_elsewhere(item)]
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname in _OF_MANY_WRITES and "postgres" in item.name:
            item.add_marker(pytest.mark.rounds)


def _is_proved_elsewhere(item: pytest.Item) -> bool:
    if item.path.stem not in _OF_INDEXES or not isinstance(item, pytest.Function):
        return False
    made_of = item.name.partition("[")[2].removesuffix("]").split("-")
    if "pgvector" in made_of:
        return "postgres" not in made_of
    elsewhere = _OF_TEXTS | _OF_MANY_WRITES - {_LOADED_WHOLE}
    return "postgres" in made_of and (not _OTHERS.isdisjoint(made_of) or item.originalname in elsewhere)


def _address_of(folder: Path) -> str:
    from tests.postgres import new_database

    if folder not in _addresses:
        _addresses[folder] = new_database()
    return _addresses[folder]


def _drop(folder: Path) -> None:
    from tests.postgres import drop_database

    if address := _addresses.pop(folder / "data", ""):
        drop_database(address)


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


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.rounds] * (name == "postgres")) for name in sorted(STORES)]
)
def new_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> NewMemory:
    """A memory for an example: within the block it is opened again and again, as further processes would."""
    if request.param == "postgres":
        fewer_examples(monkeypatch, request.function)

    @contextmanager
    def made() -> Generator[Callable[[], RecordStore]]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            if request.param == "postgres":
                stack.callback(_drop, folder)

            def open_it() -> RecordStore:
                opened = STORES[request.param](folder / "data", EMBEDDER, lambda: 1000.0)
                stack.callback(opened.close)
                return opened

            yield open_it

    return made


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
        **fields: Any,
    ) -> Record:
        with to.write() as transaction:
            made = replace(BLANK, id=transaction.next_id(RECORD), text=text, summary=text, micro=text[:20])
            record = replace(made, **fields)
            own = unit_vectors(next(seeds)) if vectors is None else vectors
            transaction.insert(record, own, entities, relations)
        return record

    return add_record
