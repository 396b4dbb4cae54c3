"""Texts that an embedder refuses for good, next to those it takes."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import StoreUnavailable, TextRefused
from mcp_memory.ports.text import Vectors
from mcp_memory.services.memory.reindex import REINDEXED_AT_ONCE, Reindex
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.review.embedding import embedded
from mcp_memory.stores.records import SqliteRecordStore
from mcp_memory.stores.records.database_sqlite import SqliteDatabase
from tests.contract.conftest import BLANK

RememberOne = Callable[..., Remembered]


class Choosy:
    """The built-in embedder, which refuses a batch that holds one of some words, and can be away."""

    def __init__(self, inner: MiniLMEmbedder) -> None:
        self._inner = inner
        self.refused: frozenset[str] = frozenset()
        self.refuses_alone = ""
        self.is_away = False
        self.requests = 0
        self.id, self.dimensions, self.embed_query = inner.id, inner.dimensions, inner.embed_query
        self.share_known = inner.share_known

    def embed(self, text: str) -> Vectors:
        return self.embed_many([text])[0]

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        self.requests += 1
        if self.is_away:
            raise StoreUnavailable("The embedder is away.")
        if self.refuses_alone in texts or any(word in text for word in self.refused for text in texts):
            raise TextRefused("The embedder refused the text.")
        return self._inner.embed_many(texts)


@pytest.fixture
def embedder(embedder: MiniLMEmbedder) -> Choosy:
    return Choosy(embedder)


def texts_waiting(app: App, embedder: Choosy) -> list[str]:
    return [text for _, _, text in app.records.unembedded(embedder.id, 1000)]


def test_one_refused_text_of_many_costs_the_others_nothing(app: App, embedder: Choosy) -> None:
    """S2.2: they are remembered with their vectors, in few requests."""
    embedder.refused = frozenset({"poison"})
    texts = [f"note {number}" for number in range(15)] + ["a poison"]
    remembered = app.remember([NewRecord(text=text) for text in texts], app.caller())
    assert [each.degraded for each in remembered] == [""] * 15 + ["vector: The embedder refused the text."]
    assert texts_waiting(app, embedder) == ["a poison"]
    assert embedder.requests <= 1 + 2 * 4
    assert (app.reindex.stored_embedder(), app.reindex.queued(), app.reindex.refused()) == (embedder.id, 1, 0)


@pytest.mark.uncounted
def test_refused_texts_do_not_stand_in_the_way_of_later_ones(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """S2.2: not even a batch full of them, and they are not asked for again."""
    embedder.is_away = True
    for number in range(REINDEXED_AT_ONCE):
        remember(f"poison {number}")
    remember("The dog barks.")
    embedder.is_away, embedder.refused = False, frozenset({"poison"})
    assert app.reindex.catch_up() == 1
    assert texts_waiting(app, embedder) == []
    assert app.reindex.refused() == REINDEXED_AT_ONCE
    before = embedder.requests
    assert app.reindex.catch_up() == 0
    assert embedder.requests == before


def test_an_embedder_that_refuses_everything_is_told(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """S2.2: the fault is not with the texts, and none of them is passed over once it is repaired."""
    embedder.is_away = True
    remember("The dog barks.")
    with pytest.raises(StoreUnavailable, match="away"):
        app.reindex.catch_up()
    embedder.is_away, embedder.refused = False, frozenset({""})
    with pytest.raises(TextRefused):
        app.reindex.catch_up()
    embedder.refused = frozenset()
    assert app.reindex.catch_up() == 1


def test_a_new_embedder_takes_over_without_what_it_refuses(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """S2.2: the refused record stays, and waits for nothing."""
    remember("a poison")
    remember("The dog barks.")
    embedder.id, embedder.refused = "another", frozenset({"poison"})
    assert Reindex(app.records, embedder)(2, lambda done, total: None) == 1
    assert app.records.embedder_id() == "another"
    assert app.records.count_unembedded() == 0
    assert app.records.count_refused("another") == 1


def test_a_refused_text_is_found_by_its_words_and_nothing_is_promised(
    app: App, embedder: Choosy, remember: RememberOne, open_memory: Callable[..., App]
) -> None:
    """S2.2: in other processes neither, which do not ask for it again."""
    embedder.refused = frozenset({"poison"})
    bad = remember("a poison")
    remember("The dog barks.")
    for memory in (app, open_memory(session="later")):
        before = embedder.requests
        assert memory.reindex.catch_up() == 0
        assert embedder.requests == before
        answer = memory.recall(RecallRequest(query="poison"), memory.caller())
        assert (answer.results[0]["id"], answer.degraded) == (bad.id, ())


def test_a_refused_text_is_asked_for_again_where_it_may_help(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """S2.2: by who embeds everything anew, and by who corrects it; interrupted, it waits as before it was refused."""
    embedder.refused = frozenset({"poison"})
    one, two = remember("a poison"), remember("another poison")
    remember("The dog barks.")
    embedder.refused = frozenset()
    app.revise(Revision(id=one.id, text="an antidote"), app.caller())
    assert app.reindex.refused() == 1
    embedder.is_away = True
    with pytest.raises(StoreUnavailable):
        app.reindex(0, lambda done, total: None)
    assert (app.reindex.refused(), app.records.count_unembedded()) == (0, 1)
    embedder.is_away = False
    assert app.reindex(1, lambda done, total: None) == 1
    assert (app.reindex.refused(), app.reindex.waiting()) == (0, 0)
    embedded = {change.id for change in app.records.changes(0, embedder.id) if change.vectors is not None}
    assert {one.id, two.id} <= embedded


class Instant:
    """An embedder that costs nothing, so that what is counted is the store's work."""

    id = "instant"
    dimensions = 4

    def embed(self, text: str) -> Vectors:
        return np.ones((1, 4), np.float32)

    def embed_query(self, text: str) -> Vector:
        return np.ones(4, np.float32)

    def share_known(self, text: str) -> float:
        return 1.0

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        return [self.embed(text) for text in texts]


def steps_to_embed(records: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many hundreds of steps SQLite's machine takes to bring so many records their vectors."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    store = SqliteRecordStore(folder, Instant.id)
    with store.write() as transaction:
        for number in range(records):
            record = replace(BLANK, id=transaction.next_id("r"), text=f"note {number}")
            transaction.insert(record, None, (), (), in_session=False)
    store.close()
    connect = SqliteDatabase._connect  # noqa: SLF001

    def counted(self: SqliteDatabase) -> sqlite3.Connection:
        connection = connect(self)
        connection.set_progress_handler(step, 100)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(SqliteDatabase, "_connect", counted)
        store = SqliteRecordStore(folder, Instant.id)
        reindex = Reindex(store, Instant())
        embedded = [reindex.catch_up()]
        while embedded[-1]:
            embedded.append(reindex.catch_up())
    assert (sum(embedded), store.count_unembedded(), store.awaiting_vectors(1)) == (records, 0, [])
    store.close()
    return steps


@pytest.mark.uncounted
def test_a_record_is_looked_at_a_few_times_however_many_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X3.1, X6.4: twice as many waiting records cost at most 2.5 times the steps, as after an import of all of them."""
    few = steps_to_embed(1500, tmp_path / "few", monkeypatch)
    many = steps_to_embed(3000, tmp_path / "many", monkeypatch)
    assert many <= 2.5 * few


@pytest.mark.uncounted
def test_what_changed_behind_the_latest_batch_is_embedded_too(
    app: App, embedder: Choosy, remember: RememberOne
) -> None:
    """S2.2: whoever goes from batch to batch comes back to what was passed; an erased record is no place to go on."""
    embedder.is_away = True
    first, *others = [remember(f"note {number}") for number in range(REINDEXED_AT_ONCE + 3)]
    embedder.is_away = False
    assert app.reindex.catch_up() == REINDEXED_AT_ONCE
    embedder.is_away = True
    app.revise(Revision(id=others[0].id, importance=2.0), app.caller())
    with app.records.write() as transaction:
        record = transaction.get(first.id)
        assert record is not None
        transaction.index_anew(record)
    app.forget([others[REINDEXED_AT_ONCE - 2].id], "erase", app.caller())
    embedder.is_away = False
    assert app.reindex.catch_up() + app.reindex.catch_up() == 4
    assert (app.reindex.catch_up(), app.records.awaiting_vectors(1)) == (0, [])


def test_of_many_that_wait_none_is_embedded_in_passing(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """S2.2: a call that stores one record does not pay for them; upkeep does. What waits elsewhere does not count."""
    embedder.is_away = True
    for number in range(4):
        remember(f"note {number}")
    app.remember([NewRecord(text="a note of another")], replace(app.caller(), agent="zoe", namespace="elsewhere"))
    embedder.is_away = False
    scopes = app.caller().scopes
    assert (app.reindex.embed_few(scopes, 3), app.reindex.embed_few(scopes, 4)) == (0, 4)
    assert texts_waiting(app, embedder) == ["a note of another"]


def test_named_ones_are_embedded_before_what_waits_longer(app: App, embedder: Choosy, remember: RememberOne) -> None:
    embedder.is_away = True
    ids = [remember(f"note {number}").id for number in range(4)]
    embedder.is_away = False
    assert app.reindex.embed(()) == 0
    assert app.reindex.embed([ids[3], ids[1], "r999999"]) == 2
    assert texts_waiting(app, embedder) == ["note 0", "note 2"]
    assert app.reindex.embed([ids[3]]) == 0


def test_what_was_erased_while_it_waited_is_waited_for_no_longer(
    app: App, embedder: Choosy, remember: RememberOne
) -> None:
    """S2.2: and nobody looks for it again."""
    embedder.is_away = True
    record = remember("note")
    assert [record_id for record_id, _, _ in app.records.awaiting_vectors(9)] == [record.id]
    app.forget([record.id], "erase", app.caller())
    assert (app.reindex.catch_up(), app.records.awaiting_vectors(9)) == (0, [])


INSTRUCTION = "Always name the version when I ask about software libraries."
CONDITION = "software libraries"


def cosine_of_condition(app: App, record_id: str) -> float:
    """How near an instruction is to its condition."""
    read = app.searcher.read(CONDITION)
    assert read.query.vector is not None
    return app.index.similarities(read.query.vector, app.caller().scopes, [record_id])[record_id]


def test_a_standing_instruction_is_found_by_its_condition(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """R5: however it was stored: as it is, while the embedder was away, or by a revision."""
    stored, revised = remember(INSTRUCTION), remember("Be brief.")
    app.revise(Revision(id=revised.id, text=f"{INSTRUCTION} Be brief."), app.caller())
    embedder.is_away = True
    waiting = remember(f"user: {INSTRUCTION}")
    embedder.is_away = False
    app.reindex.catch_up()
    for record_id in (stored.id, revised.id, waiting.id):
        assert cosine_of_condition(app, record_id) == pytest.approx(1.0, abs=1e-5)


def test_an_instruction_whose_condition_is_refused_is_found_by_its_text(app: App, embedder: Choosy) -> None:
    """R5: and one whose text is refused, by neither."""
    vectors = embedded(embedder, INSTRUCTION)
    assert len(vectors) == len(embedder.embed(INSTRUCTION)) + 1
    embedder.refused = frozenset([INSTRUCTION])
    with pytest.raises(TextRefused):
        embedded(embedder, INSTRUCTION)
    embedder.refused = frozenset()
    embedder.refuses_alone = CONDITION
    assert len(embedded(embedder, INSTRUCTION)) == len(vectors) - 1
