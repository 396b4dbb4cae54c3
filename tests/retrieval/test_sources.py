"""The sources of candidates, each by itself, over a real store."""

from collections.abc import Callable
from dataclasses import replace
from math import log

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.ports.retrieval import Source
from mcp_memory.retrieval.keyword import KeywordSource
from mcp_memory.retrieval.time_span import TimeSpanSource
from mcp_memory.retrieval.vector import VectorSource
from mcp_memory.stores.filter_index import BitmapFilterIndex
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.keywords.store import InformationKeywordStore
from mcp_memory.stores.vectors.exact import ExactVectorStore

NOON, DAY = 1_795_176_000.0, 86_400.0
WHERE = RecordFilter(scopes=("shared/test",))
Sources = dict[str, Source]


def mismatch(stored: str, configured: str) -> str:
    return f"{stored} {configured}"


@pytest.fixture
def sources(app: App, embedder: MiniLMEmbedder) -> Sources:
    vectors = ExactVectorStore(Follower(app.records), embedder.id, mismatch)
    filters = BitmapFilterIndex(Follower(app.records))
    keywords = KeywordSource(app.records, filters, InformationKeywordStore(Follower(app.records)))
    every = [keywords, VectorSource(app.records, filters, vectors), TimeSpanSource(filters)]
    return {source.name: source for source in every}


@pytest.fixture
def ids(app: App) -> list[str]:
    """Three records about databases, newest last, and one that was forgotten."""
    texts = ["The database is Postgres.", "The database listens on port 5432.", "Backups run at night."]
    items = [NewRecord(text=text, tags=(f"n{n}",), occurred_at=NOON - (9 - n) * DAY) for n, text in enumerate(texts)]
    stored = [each.id for each in app.remember([*items, NewRecord(text="The database was lost.")], app.caller())]
    app.forget(stored[3:], "retire", app.caller())
    return stored


@pytest.fixture
def ask(embedder: MiniLMEmbedder) -> Callable[..., Query]:
    def make(text: str, terms: tuple[str, ...], span: tuple[float, float] | None = None) -> Query:
        return Query(text=text, terms=terms, vector=embedder.embed_query(text), span=span)

    return make


def test_keywords_rank_by_matching_words(sources: Sources, ids: list[str], ask: Callable[..., Query]) -> None:
    """B3.3: scores above 0, best first, at most as many as asked for; no word, no candidate."""
    found = sources["keyword"].search(ask("database port", ("database", "port")), WHERE, 10)
    assert list(found) == [ids[1], ids[0]]
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert min(found.values()) > 0
    assert list(sources["keyword"].search(ask("x", ("database", "port")), WHERE, 1)) == [ids[1]]
    assert sources["keyword"].search(ask("?", ()), WHERE, 10) == {}
    tagged = RecordFilter(scopes=WHERE.scopes, tags=frozenset({"n0", "n2"}))
    assert list(sources["keyword"].search(ask("x", ("database", "port")), tagged, 10)) == [ids[0]]
    without = RecordFilter(scopes=WHERE.scopes, exclude=frozenset({ids[1]}))
    assert list(sources["keyword"].search(ask("x", ("database", "port")), without, 10)) == [ids[0]]
    everything = RecordFilter(scopes=WHERE.scopes, include_inactive=True)
    assert list(sources["keyword"].search(ask("x", ("lost",)), everything, 10)) == [ids[3]]


def test_meaning_ranks_by_cosine(sources: Sources, ids: list[str], ask: Callable[..., Query]) -> None:
    """B3.3: also where the filter selects, where candidates are excluded, and without a vector."""
    query = ask("saving copies of data overnight", ())
    found = sources["vector"].search(query, WHERE, 10)
    assert next(iter(found)) == ids[2]
    assert set(found) == set(ids[:3])
    tagged = RecordFilter(scopes=WHERE.scopes, tags=frozenset({"n0", "n1"}))
    assert set(sources["vector"].search(query, tagged, 10)) == set(ids[:2])
    without = RecordFilter(scopes=WHERE.scopes, exclude=frozenset({ids[2]}))
    assert set(sources["vector"].search(query, without, 10)) == set(ids[:2])
    assert sources["vector"].search(Query(text="x", terms=()), WHERE, 10) == {}
    assert sources["vector"].scores(Query(text="x", terms=()), WHERE, ids) == {}


def test_records_of_hidden_branches_are_no_candidates(
    app: App, sources: Sources, ids: list[str], ask: Callable[..., Query]
) -> None:
    """T4.3: neither by words nor by meaning."""
    with app.records.write() as transaction:
        record = transaction.get(ids[1])
        assert record is not None
        transaction.update(replace(record, branch_id="t9"))
    query = ask("database port", ("database", "port"))
    hidden = RecordFilter(scopes=WHERE.scopes, hidden_branches=frozenset({"t9"}))
    for name in ("keyword", "vector"):
        assert ids[1] in sources[name].search(query, WHERE, 10)
        assert ids[1] not in sources[name].search(query, hidden, 10)
        assert ids[0] in sources[name].search(query, hidden, 10)


def test_a_time_brings_in_what_happened_then(sources: Sources, ids: list[str], ask: Callable[..., Query]) -> None:
    """R6: newest first, inside the span and inside the caller's own limits, by its rarity; without one, nothing."""
    span = (NOON - 9.5 * DAY, NOON - 7.5 * DAY)
    time = sources["time"]
    rarity = log((3 + 1) / (2 + 1))
    assert dict(time.search(ask("x", (), span), WHERE, 10)) == {ids[1]: rarity, ids[0]: rarity}
    assert list(time.search(ask("x", (), span), WHERE, 1)) == [ids[1]]
    later = RecordFilter(scopes=WHERE.scopes, since=NOON - 8.5 * DAY, until=NOON)
    assert list(time.search(ask("x", (), span), later, 10)) == [ids[1]]
    assert time.search(ask("x", ()), WHERE, 10) == {}
    assert dict(time.scores(ask("x", (), span), WHERE, [ids[0], ids[2]])) == {ids[0]: rarity}
    assert time.scores(ask("x", ()), WHERE, ids) == time.scores(ask("x", (), span), WHERE, []) == {}


def test_each_source_scores_what_another_one_found(sources: Sources, ids: list[str], ask: Callable[..., Query]) -> None:
    """R5: those it cannot score are left out."""
    query = ask("database port", ("database", "port"))
    assert set(sources["keyword"].scores(query, WHERE, [ids[0], ids[2], "r00zzzz"])) == {ids[0]}
    assert set(sources["vector"].scores(query, WHERE, [ids[0], ids[2], "r00zzzz"])) == {ids[0], ids[2]}


def test_other_scopes_are_not_searched(sources: Sources, ids: list[str], ask: Callable[..., Query]) -> None:
    """B1.4: by no source."""
    query = ask("database", ("database",), (0.0, NOON))
    elsewhere = RecordFilter(scopes=("shared/other",))
    for source in sources.values():
        assert source.search(query, elsewhere, 10) == {}
        assert source.search(query, RecordFilter(scopes=()), 10) == {}
