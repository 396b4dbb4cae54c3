"""The contract of `VectorStore`, over every implementation, against a plain numpy oracle.

Over PostgreSQL long histories take long (`pytest.mark.rounds`).
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.records import OUT_OF_SEARCH, Record, Status
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import UsualCosine, VectorStore
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.vectors import scope_matrix
from mcp_memory.stores.vectors.chroma.location import IndexPlace
from mcp_memory.stores.vectors.chroma.store import ChromaVectorStore
from mcp_memory.stores.vectors.exact import ExactVectorStore
from mcp_memory.stores.vectors.pgvector import PgvectorStore
from tests.chroma import PATIENCE_SECONDS, SharedProcess, chroma_server, free_port, quick_to_act
from tests.conftest import fewer_examples
from tests.contract.conftest import NewMemory
from tests.reloaded import ReloadingFollower

EMBEDDER = "contract-embedder"
DIMENSIONS = 8
STATUS_AFTER: dict[str, Status] = {"retire": "retired", "restore": "new"}
SCOPES = ("shared/here", "private/ann/here", "shared/there")


def mismatch(stored: str, configured: str) -> str:
    return f"{stored} is not {configured}"


Make = Callable[[RecordStore, str], AbstractContextManager[VectorStore]]


@pytest.fixture(scope="session")
def chroma_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Chroma server of this test process's own."""
    port = free_port()
    with chroma_server(tmp_path_factory.mktemp("chroma"), port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def index_process() -> Iterator[SharedProcess]:
    process = SharedProcess()
    yield process
    process.process.close()


@pytest.fixture(params=["exact", "reloaded", "embedded", "server", "pgvector"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Opens a store over a truth, and closes it. Few removed rows are enough for the others to move together."""
    monkeypatch.setattr(scope_matrix, "_LEAST_DEAD", 8)
    url = request.getfixturevalue("chroma_url") if request.param == "server" else ""
    if request.param in ("embedded", "server"):
        index_process: SharedProcess = request.getfixturevalue("index_process")
        fewer_examples(monkeypatch, request.function)

    @contextmanager
    def opened(records: RecordStore, embedder: str) -> Generator[VectorStore]:
        follower = ReloadingFollower(records) if request.param == "reloaded" else Follower(records)
        exact = ExactVectorStore(follower, embedder, mismatch)
        if request.param in ("exact", "reloaded"):
            yield exact
            return
        if request.param == "pgvector":
            with closing(by_pgvector(records, embedder)) as store:
                yield store
            return
        with tempfile.TemporaryDirectory() as folder:
            place = IndexPlace(mode="http" if url else "embedded", root=folder, embedder=embedder, url=url)
            store = ChromaVectorStore(exact, place, records.identity, index_process.connect)
            store.start()
            try:
                yield store
            finally:
                store.close()

    with quick_to_act():
        yield opened


def by_pgvector(records: RecordStore, embedder: str) -> PgvectorStore:
    """A store that has pgvector name candidates from the first record, and few of them."""
    from tests.postgres import pgvector_over

    return pgvector_over(records, embedder, mismatch)


def settle(store: VectorStore, scopes: Collection[str] = ()) -> None:
    """Wait until the index behind it, where there is one, holds everything."""
    if isinstance(store, ChromaVectorStore | PgvectorStore):
        assert store.settle(PATIENCE_SECONDS), store.state()
        assert store.check() == {}


def unit(seed: int, windows: int = 1) -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((windows, DIMENSIONS)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


Stored = dict[str, tuple[str, Status, "Vectors"]]


def expected(
    stored: Stored, query: Vectors, scopes: Collection[str], only: Collection[str] | None, exclude: Collection[str]
) -> dict[str, float]:
    """What the contract says, in the plainest words."""
    return {
        record_id: float((vectors @ query[0]).max())
        for record_id, (scope, status, vectors) in stored.items()
        if scope in scopes
        and record_id not in exclude
        and (record_id in only if only is not None else status not in OUT_OF_SEARCH)
    }


def assert_best(found: Mapping[str, float], wanted: Mapping[str, float], limit: int) -> None:
    """The best `limit` of them in order; those of equal score may stand for one another."""
    assert len(found) == min(limit, len(wanted))
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found.keys() <= wanted.keys()
    best = sorted(wanted.values(), reverse=True)[:limit]
    assert list(found.values()) == pytest.approx(best, abs=1e-5)
    assert all(score == pytest.approx(wanted[record_id], abs=1e-5) for record_id, score in found.items())


Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert", "insert", "update", "erase", "retire", "restore", "move", "search"]),
        st.integers(0, 1000),
        st.integers(1, 4),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=60,
)


def apply(store: RecordStore, blank: Record, stored: Stored, step: Step) -> None:
    """Take one step in the truth and in the model of it."""
    kind, seed, windows, scope = step
    with store.write() as transaction:
        if kind == "insert" or not stored:
            record = replace(blank, id=transaction.next_id("r"), scope=SCOPES[scope])
            vectors = unit(seed, windows)
            transaction.insert(record, vectors, (), ())
            stored[record.id] = (record.scope, "new", vectors)
            return
        record_id = sorted(stored)[seed % len(stored)]
        record = transaction.get(record_id)
        assert record is not None
        old_scope, status, vectors = stored[record_id]
        if kind == "erase":
            transaction.erase([record_id])
            del stored[record_id]
        elif kind == "update":
            stored[record_id] = (old_scope, status, unit(seed, windows))
            transaction.update(record, stored[record_id][2])
        else:
            status = STATUS_AFTER.get(kind, status)
            moved = SCOPES[scope] if kind == "move" else old_scope
            stored[record_id] = (moved, status, vectors)
            transaction.update(replace(record, status=status, scope=moved))


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, limit=st.integers(1, 12), seed=st.integers(0, 100), data=st.data())
def test_search_finds_what_the_truth_holds_after_any_history(
    make: Make, new_memory: NewMemory, steps: Sequence[Step], limit: int, seed: int, data: st.DataObject
) -> None:
    """S1.2, S4.1: whatever was stored, changed, moved, retired or erased, by whomever, the best of it are found."""
    with new_memory() as open_it:
        truth, other = open_it(), open_it()
        with make(truth, EMBEDDER) as searched:
            stored: Stored = {}
            query = unit(10_000 + seed)
            for step in steps:
                if step[0] == "search":
                    found = searched.search(query[0], SCOPES, limit)
                    assert_best(found, expected(stored, query, SCOPES, None, ()), limit)
                else:
                    apply(other, BLANK, stored, step)
            known = sorted(stored)
            scopes = data.draw(st.lists(st.sampled_from(SCOPES), unique=True))
            only = data.draw(st.none() | st.lists(st.sampled_from([*known, "r-unknown"])))
            exclude = data.draw(st.lists(st.sampled_from([*known, "r-unknown"]), max_size=3))
            for settled in (False, True):
                if settled:
                    settle(searched)
                found = searched.search(query[0], scopes, limit, None if only is None else RecordSet.of(only), exclude)
                assert_best(found, expected(stored, query, scopes, only, exclude), limit)
            near = searched.similarities(query[0], scopes, known)
            assert near == pytest.approx(expected(stored, query, scopes, known, ()), abs=1e-5)


BLANK = Record(
    id="", scope="shared/here", namespace="here", visibility="shared", agent="ann", session_id="s1", task_id=None,
    branch_id=None, kind="fact", text="text", summary="text", micro="text", text_tokens=1, summary_tokens=1,
    micro_tokens=1, importance=1.0, confidence=None, status="new", outcome=None, pinned=False, tags=(), details={},
    speaker=None, role=None, tool=None, call_id=None, superseded_by=None, created_at=100.0, updated_at=100.0,
    accessed_at=100.0, occurred_at=100.0,
)  # fmt: skip


def test_a_text_changed_many_times_keeps_one_place(open_store: Callable[..., RecordStore], make: Make) -> None:
    """S1.2: its last vectors count, its former ones are gone, and neighbours stay where they are."""
    store = open_store()
    with make(store, EMBEDDER) as searched:
        with store.write() as transaction:
            kept = replace(BLANK, id=transaction.next_id("r"))
            transaction.insert(kept, unit(1), (), ())
            changed = replace(BLANK, id=transaction.next_id("r"))
            transaction.insert(changed, unit(2), (), ())
        for seed in range(20):
            with store.write() as transaction:
                transaction.update(changed, unit(1000 + seed, 3))
            searched.search(unit(0)[0], SCOPES, 1)
        for settled in (False, True):
            if settled:
                settle(searched)
            for seed, record_id in ((1, kept.id), (1019, changed.id)):
                best = searched.search(unit(seed, 3)[0], SCOPES, 5)
                assert next(iter(best)) == record_id
                assert len(best) == 2
                assert best[record_id] == pytest.approx(1.0, abs=1e-5)


def test_vectors_of_another_embedder_are_refused_not_compared(
    open_store: Callable[..., RecordStore], make: Make
) -> None:
    """R1: cosines across models mean nothing; the error names both."""
    store = open_store()
    with store.write() as transaction:
        transaction.insert(replace(BLANK, id=transaction.next_id("r")), unit(1), (), ())
    with make(store, "another") as searched, pytest.raises(EmbedderMismatch, match="contract-embedder is not another"):
        searched.search(unit(1)[0], SCOPES, 1)


def test_a_query_of_another_length_is_refused_with_the_remedy(
    open_store: Callable[..., RecordStore], make: Make
) -> None:
    """S2.2: an embedder whose dimensions changed under the same name; no caller sees the library's error."""
    store = open_store()
    with store.write() as transaction:
        transaction.insert(replace(BLANK, id=transaction.next_id("r")), unit(1), (), ())
    longer = np.append(unit(1)[0], np.float32(0))
    with make(store, EMBEDDER) as searched:
        for ask in (
            lambda: searched.search(longer, SCOPES, 1),
            lambda: searched.similarities(longer, SCOPES, ["r"]),
            lambda: searched.usual_cosine(longer, SCOPES),
        ):
            with pytest.raises(EmbedderMismatch, match=r"8 dimensions, the query's 9; .* reindex"):
                ask()


def test_usual_cosines_are_those_of_the_live_records(open_store: Callable[..., RecordStore], make: Make) -> None:
    """R5: by every window, over the scopes asked for; nothing where there is nothing."""
    store = open_store()
    query = unit(7)[0]
    with make(store, EMBEDDER) as searched:
        assert searched.usual_cosine(query, SCOPES) == UsualCosine(mean=0.0, mean_square=0.0)
        windows = [unit(n, 2) for n in range(5)]
        with store.write() as transaction:
            for rows in windows:
                transaction.insert(replace(BLANK, id=transaction.next_id("r")), rows, (), ())
            gone = replace(BLANK, id=transaction.next_id("r"), status="retired")
            transaction.insert(gone, unit(9), (), ())
        cosines = np.concatenate(windows) @ query
        usual = searched.usual_cosine(query, SCOPES)
        assert usual.mean == pytest.approx(float(cosines.mean()), abs=1e-6)
        assert usual.mean_square == pytest.approx(float(np.square(cosines).mean()), abs=1e-6)
        assert searched.usual_cosine(query, SCOPES[1:]) == UsualCosine(mean=0.0, mean_square=0.0)


def test_windows_are_counted_where_there_are_several(open_store: Callable[..., RecordStore], make: Make) -> None:
    """R5: whatever the status; none of unknown records, nor of other scopes."""
    store = open_store()
    with store.write() as transaction:
        ids = [transaction.next_id("r") for _ in range(3)]
        for record_id, windows in zip(ids, (1, 3, 2), strict=True):
            transaction.insert(replace(BLANK, id=record_id), unit(1, windows), (), ())
    with make(store, EMBEDDER) as searched:
        assert searched.windows(SCOPES, [*ids, "r-unknown"]) == {ids[1]: 3, ids[2]: 2}
        assert searched.windows(SCOPES[1:], ids) == {}


def test_many_vectors_at_once_find_what_each_finds(
    open_store: Callable[..., RecordStore], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: of records with several windows, across the blocks in which rows are read."""
    monkeypatch.setattr(scope_matrix, "BLOCK", 32)
    store = open_store()
    with store.write() as transaction:
        for seed in range(72):
            record = replace(BLANK, id=transaction.next_id("r"), status="retired" if seed % 7 == 0 else "new")
            transaction.insert(record, unit(seed, 1 + seed % 2), (), ())
    vectors = [unit(20_000 + turn)[0] for turn in range(3)]
    with make(store, EMBEDDER) as searched:
        found = searched.nearest(vectors, SCOPES[0], 5)
        assert [[*each.items()] for each in found] == [
            [*searched.search(each, SCOPES[:1], 5).items()] for each in vectors
        ]
        assert [len(each) for each in found] == [5, 5, 5]
        assert searched.nearest(vectors, "shared/nobody", 5) == [{}, {}, {}]


def test_a_long_history_of_changes_leaves_every_record_as_it_is_now(
    open_store: Callable[..., RecordStore], make: Make
) -> None:
    """S1.2: far more changes than records, among live and retired ones, over several scopes."""
    store = open_store()
    with make(store, EMBEDDER) as searched:
        rng = random.Random(4)
        stored: Stored = {}
        for turn in range(100):
            kind = "insert" if turn < 24 else rng.choice(["update"] * 6 + ["retire", "restore", "move"])
            apply(store, BLANK, stored, (kind, rng.randrange(1000), rng.randint(1, 4), rng.randrange(3)))
            if turn % 10 == 0:
                query = unit(20_000 + turn)
                assert_best(searched.search(query[0], SCOPES, 10), expected(stored, query, SCOPES, None, ()), 10)
        settle(searched)
        for turn in range(10):
            query = unit(30_000 + turn)
            assert_best(searched.search(query[0], SCOPES, 3), expected(stored, query, SCOPES, None, ()), 3)


@pytest.mark.parametrize("make", ["embedded", "server", "pgvector"], indirect=True)
def test_what_chroma_answers_is_what_the_exact_search_answers(
    open_store: Callable[..., RecordStore], make: Make
) -> None:
    """S2.2: settled, and with changes that the index has not seen; Chroma takes part in every one of the answers."""
    store = open_store()
    stored: Stored = {}
    with store.write() as transaction:
        for seed in range(240):
            record = replace(BLANK, id=transaction.next_id("r"), scope=SCOPES[seed % 2])
            stored[record.id] = (record.scope, "new", unit(seed, 1 + seed % 2))
            transaction.insert(record, stored[record.id][2], (), ())
    with make(store, EMBEDDER) as searched:
        settle(searched)
        for turn in range(12):
            query = unit(40_000 + turn)
            found = searched.search(query[0], SCOPES, 8, None, sorted(stored)[:3])
            assert_best(found, expected(stored, query, SCOPES, None, sorted(stored)[:3]), 8)
            apply(store, BLANK, stored, ("update", turn * 7, 2, 0))
            apply(store, BLANK, stored, (("retire", "insert", "restore", "move")[turn % 4], turn * 5, 1, 1))
        if isinstance(searched, ChromaVectorStore):
            assert searched.state().answered == 12
