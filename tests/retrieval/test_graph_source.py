"""The graph as a source of candidates, over a real memory."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.domain.text.words import query_terms
from mcp_memory.retrieval.graph import GraphSource
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.stores.filter_index import BitmapFilterIndex
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.keywords.store import InformationKeywordStore

WHERE = RecordFilter(scopes=("shared/test",))


@pytest.fixture
def source(app: App) -> GraphSource:
    return GraphSource(
        app.records, BitmapFilterIndex(Follower(app.records)), app.graph, InformationKeywordStore(Follower(app.records))
    )


def store(app: App, *items: NewRecord) -> list[str]:
    return [each.id for each in app.remember(items, app.caller())]


def ask(text: str) -> Query:
    return Query(text=text, terms=tuple(query_terms(text)))


def test_a_record_two_relations_away_is_a_candidate(app: App, source: GraphSource) -> None:
    """R7: the query names the service; what is known of its library's author shares no word with it."""
    relations = (
        Relation(source="checkout", type="uses", target="libpay"),
        Relation(source="libpay", type="maintained_by", target="Ada Byron"),
    )
    ids = store(
        app,
        NewRecord(text="How it hangs together.", relations=relations[:1]),
        NewRecord(text="Who cares for it.", relations=relations[1:]),
        NewRecord(text="On Fridays you reach Ada Byron by phone only."),
        NewRecord(text="Lunch is at noon."),
    )
    found = source.search(ask("Whom do I call when the checkout is down?"), WHERE, 10)
    assert list(found) == ids[:3]
    assert all(score > 0 for score in found.values())
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_what_the_query_names_is_found_in_talk_and_code(app: App, source: GraphSource) -> None:
    """R7: without anybody having given entities."""
    ids = store(
        app,
        NewRecord(text="We met at noon.", kind="message", speaker="Melanie"),
        NewRecord(text="The lock is taken in `open_store`, see src/store.py."),
        NewRecord(text="端口见《设计文档》。"),
    )
    assert set(source.search(ask("what did melanie say?"), WHERE, 10)) == {ids[0]}
    assert set(source.search(ask("where is open_store called"), WHERE, 10)) == {ids[1]}
    assert set(source.search(ask("what is in store.py"), WHERE, 10)) == {ids[1]}
    assert set(source.search(ask("设计文档在哪里"), WHERE, 10)) == {ids[2]}
    assert source.search(ask("nothing of that"), WHERE, 10) == {}
    assert source.scores(ask("nothing of that"), WHERE, ids) == {}


def test_candidates_pass_the_filter(app: App, open_memory: Callable[..., App], source: GraphSource) -> None:
    """B1.4: kind, excluded ids, limit, scope, branch; what the filter leaves out is still walked through."""
    kafka = (Entity(name="Kafka"),)
    first, second = store(
        app,
        NewRecord(text="one", kind="decision", entities=kafka),
        NewRecord(text="two", entities=kafka, relations=(Relation(source="Kafka", type="needs", target="Zookeeper"),)),
    )
    (beyond,) = store(app, NewRecord(text="Zookeeper is old.", kind="decision"))
    app.tasks.push(PushRequest(goal="try", branch=True), app.caller("trial"))
    app.remember([NewRecord(text="hidden", entities=kafka)], app.caller("trial"))
    bob = open_memory(agent="bob")
    bob.remember([NewRecord(text="private", entities=kafka, visibility="private")], bob.caller())
    where = replace(WHERE, hidden_branches=app.records.open_branches())
    query = ask("Kafka?")
    assert set(source.search(query, where, 10)) == {first, second, beyond}
    assert set(source.search(query, replace(where, kinds=frozenset({"decision"})), 10)) == {first, beyond}
    assert set(source.search(query, replace(where, exclude=frozenset({second})), 10)) == {first, beyond}
    assert len(source.search(query, where, 1)) == 1
    assert source.search(query, replace(where, scopes=("shared/other",)), 10) == {}


def test_the_graph_speaks_only_for_the_words_that_name_something(app: App, source: GraphSource) -> None:
    """R5: of a long question about more than a name it tells less than of the name alone."""
    (record,) = store(app, NewRecord(text="It is Kafka."))
    alone, among = (source.search(ask(text), WHERE, 10)[record] for text in ("Kafka", "Kafka retention policy today"))
    assert among == pytest.approx(alone / 4)
    assert source.search(Query(text="Kafka", terms=()), WHERE, 10) == {}


def test_what_another_source_found_is_scored(app: App, source: GraphSource) -> None:
    """R5: as in the search; what the graph does not reach is left out."""
    ids = store(app, NewRecord(text="It is Kafka."), NewRecord(text="It is Redis."))
    query = ask("Kafka")
    assert source.scores(query, WHERE, [*ids, "r00zzzz"]) == source.search(query, WHERE, 10)
    assert source.scores(query, WHERE, ids[1:]) == {}
    assert source.scores(query, WHERE, []) == {}
