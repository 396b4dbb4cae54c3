"""The contract of `GraphStore`, over every implementation: what is near what, and that nobody sees through a wall.

Over PostgreSQL long histories take long (`pytest.mark.rounds`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.graph import EntityFacts, entity_salience
from mcp_memory.domain.model.ids import RecordSet, make_id, number_of
from mcp_memory.domain.model.records import OUT_OF_SEARCH, Details, Entity, Json, Record, Relation
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.text.entity_extraction import MAX_FOUND, MAX_LENGTH
from mcp_memory.ports.changes import Columns, IndexPart
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import GraphNeighbour, GraphNode, GraphStore, GraphSummary
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.graph import lookup, scope, view
from mcp_memory.stores.graph.lookup import CONTENDERS, most_linked
from mcp_memory.stores.graph.paths import DIRECT_LINKS, TOPIC_RECORDS
from mcp_memory.stores.graph.store import LinkGraphStore
from tests.contract.conftest import NewMemory
from tests.reloaded import ReloadingFollower

Add = Callable[..., Record]
Make = Callable[[RecordStore], GraphStore]
HERE = ("shared/here",)
MAX_FAN, MAX_ALIASES, MAX_NAMES = 60, 8, 12
MAX_LOOKED_AT, MAX_LINKS_MET = 20 * MAX_FAN, 4 * MAX_FAN
HIDDEN: tuple[dict[str, Any], ...] = ({"branch_id": "t1"}, {"status": "retired"}, {"scope": "private/bob/here"})
"""Each hides a record from a reader of HERE who may not see the branch t1."""


STORES: dict[str, Make] = {
    "memory": lambda records: LinkGraphStore(Follower(records)),
    "reloaded": lambda records: LinkGraphStore(ReloadingFollower(records)),
}


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dozens of records reach what hundreds do; the bounds stand to one another as they do."""
    for module in (view, lookup):
        monkeypatch.setattr(module, "MAX_FAN", MAX_FAN)
        monkeypatch.setattr(module, "MAX_LOOKED_AT", MAX_LOOKED_AT)
    monkeypatch.setattr(lookup, "MAX_LINKS_MET", MAX_LINKS_MET)
    monkeypatch.setattr(view, "MAX_NAMES", MAX_NAMES)
    monkeypatch.setattr(scope, "MAX_ALIASES", MAX_ALIASES)


@pytest.fixture(params=sorted(STORES))
def graph(request: pytest.FixtureRequest, store: RecordStore) -> GraphStore:
    return STORES[request.param](store)


def entities(*names: str) -> list[Entity]:
    return [Entity(name=name, type="name", found=True) for name in names]


def name_often(store: RecordStore, like: Record, *names: str, times: int = MAX_FAN) -> None:
    """Store records like this one, which name things: all in one write, which is quick over PostgreSQL, too."""
    with store.write() as transaction:
        for number in range(times):
            record = replace(like, id=transaction.next_id("r"), text=f"more {number}")
            transaction.insert(record, np.ones((1, 8), np.float32), entities(*names), ())


def relation(source: str, target: str, weight: float = 1.0) -> Relation:
    return Relation(source=source, type="uses", target=target, weight=weight)


def reached(graph: GraphStore, text: str, scopes: Sequence[str] = HERE, hidden: Sequence[str] = ()) -> dict[str, float]:
    """Records that a query's entities lead to."""
    return dict(graph.activate(graph.mentioned(text, scopes, hidden), scopes, 100, hidden))


def task(task_id: str, parent_id: str | None = None, branch: bool = False) -> Task:
    return Task(
        id=task_id, namespace="here", parent_id=parent_id, goal=task_id, status="active", depth=0, agent="ann",
        session_id="s1", created_at=1.0, updated_at=1.0, branch=branch,
    )  # fmt: skip


def test_a_record_two_relations_away_is_found_below_the_nearer_ones(graph: GraphStore, add: Add) -> None:
    """R7: A is said to use B, B to use C; a record that knows of C alone is found by the name of A."""
    first = add("1", relations=[relation("Alpha", "Beta")])
    second = add("2", relations=[relation("Beta", "Gamma")])
    third = add("3", entities=entities("Gamma"))
    add("4", entities=entities("Delta"))
    found = reached(graph, "what about Alpha?")
    assert list(found) == [first.id, second.id, third.id]
    assert 1 >= found[first.id] > found[second.id] > found[third.id] > 0
    assert third.id not in reached(graph, "what about Alfa?")


def test_entities_are_mentioned_by_whole_names_in_any_case(graph: GraphStore, add: Add) -> None:
    """B2.1: the longest of names that overlap; no parts of words; no stop word that only begins the question."""
    add("1", entities=entities("src/app.py", "app.py", "New York", "York", "Will", "数据库", "C++"))
    assert set(graph.mentioned("why does SRC/APP.PY fail in new  york?", HERE)) == {"src/app.py", "new york"}
    assert set(graph.mentioned("and york, app.py: the 数据库的端口 in C++", HERE)) == {
        "york",
        "app.py",
        "数据库",
        "c++",
    }
    assert graph.mentioned("yorkshire myapp.py apply", HERE) == {}
    assert graph.mentioned("Will it run, or will it not?", HERE) == {}
    assert set(graph.mentioned("Ask Will", HERE)) == {"will"}
    assert graph.mentioned("", HERE) == {}
    assert graph.mentioned("new york", ("shared/there",)) == {}


def test_an_alias_leads_to_what_its_entity_leads_to(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """B2.1: given with the entity as `aliases`, in any case, either way round; a record counts the same by any name."""
    told = add("1", entities=[Entity(name="Postgres", properties={"aliases": ["PG", "psql"]})])
    long, short = add("2", entities=entities("Postgres")), add("3", entities=entities("pg"))
    add("4", entities=entities("psq"))
    for name in ("pg", "POSTGRES", "Psql"):
        found = reached(graph, f"is {name} slow?")
        assert found.keys() == {told.id, long.id, short.id}
        assert found[long.id] == pytest.approx(found[short.id])
        assert set(graph.mentioned(name, HERE)) == {"postgres", "pg"}
    with store.write() as transaction:
        transaction.update(replace(told, status="retired"))
    assert reached(graph, "pg").keys() == {short.id}


def test_rare_entities_weigh_more_and_those_everywhere_nothing(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """R7: like words; what more than MAX_FAN records mention is not walked through either."""
    rare = add("0", entities=entities("Kafka", "Speaker"))
    for n in range(20):
        add(str(n), entities=entities("Speaker", "Twenty"))
    weights = graph.mentioned("Kafka, Twenty and Speaker", HERE)
    assert 1 >= weights["kafka"] > weights["twenty"] > weights["speaker"] > 0
    assert next(iter(reached(graph, "Kafka and Speaker"))) == rare.id
    name_often(store, rare, "Speaker")
    assert graph.mentioned("Speaker", HERE) == {}
    assert reached(graph, "Kafka").keys() == {rare.id}


def test_a_longer_name_that_the_caller_sees_nothing_of_takes_no_words(
    graph: GraphStore, store: RecordStore, add: Add
) -> None:
    """B1.4, B2.1: hidden, retired or elsewhere, it leaves the words to the shorter; a visible relation is enough."""
    seen = add("1", entities=entities("Falcon"))
    longer = add("2", entities=entities("Falcon Heavy"))
    question = "who maintains Falcon Heavy"
    assert set(graph.mentioned(question, HERE, ["t1"])) == {"falcon heavy"}
    for change in HIDDEN:
        with store.write() as transaction:
            transaction.update(replace(longer, **change))
        assert set(graph.mentioned(question, HERE, ["t1"])) == {"falcon"}
        assert reached(graph, question, hidden=["t1"]).keys() == {seen.id}
    add("3", relations=[relation("Falcon Heavy", "Merlin")])
    assert set(graph.mentioned(question, HERE, ["t1"])) == {"falcon heavy"}


def test_hidden_mentions_do_not_make_an_entity_too_frequent(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """B1.4, R7: nor what is walked through it; who sees them all finds nothing through it."""
    asked, near = add("0", entities=entities("Kafka", "Speaker")), add("1", entities=entities("Speaker"))
    before = reached(graph, "Speaker", hidden=["t1"]), reached(graph, "Kafka", hidden=["t1"])
    assert [found.keys() for found in before] == [{asked.id, near.id}] * 2
    name_often(store, replace(near, branch_id="t1"), "Speaker")
    assert (reached(graph, "Speaker", hidden=["t1"]), reached(graph, "Kafka", hidden=["t1"])) == before
    assert graph.mentioned("Speaker", HERE) == {}
    assert reached(graph, "Kafka").keys() == {asked.id}


def test_of_many_aliases_as_many_as_are_names_count(graph: GraphStore, add: Add) -> None:
    """R7, B2.1: MAX_ALIASES that one record gives, none too long to be a name, MAX_NAMES of a thing in all."""
    given = [f"pg{n:03}" for n in range(2 * MAX_ALIASES)]
    add("0", entities=[Entity(name="Postgres", properties={"aliases": ["p" * (MAX_LENGTH + 1), *given]})])
    for name in given:
        add(name, entities=entities(name))
    assert graph.mentioned("Postgres", HERE).keys() == {"postgres", *given[:MAX_ALIASES]}
    assert graph.mentioned("p" * (MAX_LENGTH + 1), HERE) == {}
    chain = [f"k{n:03}" for n in range(2 * MAX_NAMES)]
    for name, following in pairwise(chain):
        add(name, entities=[Entity(name=name, properties={"aliases": [following]})])
    assert graph.mentioned(chain[0], HERE).keys() == set(chain[:MAX_NAMES])
    assert graph.check() == []


def test_one_that_everybody_mentions_does_not_flood(graph: GraphStore, add: Add) -> None:
    """R7: what leads over a rare entity counts far more than what leads over a frequent one."""
    asked = add("0", entities=entities("Kafka", "Rare", "Speaker"))
    near = add("1", entities=entities("Rare"))
    others = [add(str(n), entities=entities("Speaker")).id for n in range(50)]
    found = reached(graph, "Kafka")
    assert list(found)[:2] == [asked.id, near.id]
    assert all(found[near.id] > 20 * found[other] for other in others)


def test_corrections_and_tasks_join_records(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """R7, T3.1: what replaced it, what was made in the same task, and in the task above."""
    with store.write() as transaction:
        for each in (task("t1"), task("t2", parent_id="t1")):
            transaction.add_task(each)
    new = add("1")
    old = add("2", entities=entities("Kafka"), superseded_by=new.id, status="superseded")
    assert list(reached(graph, "Kafka")) == [old.id, new.id]
    below = add("3", entities=entities("Redis"), task_id="t2")
    beside, above = add("4", task_id="t2"), add("5", task_id="t1")
    assert reached(graph, "Redis").keys() == {below.id, beside.id}
    near = {connection.id: connection.path for connection in graph.neighbourhood(below.id, HERE, 10)}
    assert near == {beside.id: (("task", "t2"),), above.id: (("task", "t2"), ("task", "t1"))}


def test_a_neighbourhood_says_what_lies_between(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """R7: nearest first, as many as asked for; nothing of what is not there, not live, or not seen."""
    start = add("1", entities=entities("Kafka"), relations=[relation("Kafka", "Redis")])
    near = add("2", entities=entities("Kafka"))
    far = add("3", relations=[relation("Redis", "Bo")])
    farthest = add("4", entities=entities("Kafka", "Bo"))
    found = graph.neighbourhood(near.id, HERE, 10)
    assert [(c.id, c.path) for c in found if c.id != farthest.id] == [
        (start.id, (("entity", "kafka"),)),
        (far.id, (("entity", "kafka"), ("entity", "redis"))),
    ]
    assert [c.activation for c in found] == sorted((c.activation for c in found), reverse=True)
    assert graph.neighbourhood(near.id, HERE, 1) == found[:1]
    with store.write() as transaction:
        transaction.update(replace(near, status="retired"))
    for record_id, scopes in ((near.id, HERE), ("r00zzzz", HERE), (start.id, ("shared/there",))):
        assert graph.neighbourhood(record_id, scopes, 10) == []


def test_what_a_record_names_leads_to_the_others_that_name_it(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """R5: not what many name, nor a task or relation; nothing beside what is not live or not seen."""
    first = add("1", entities=entities("Kafka", "Bo", "Redis", "Alone"), relations=[relation("Kafka", "Redis")])
    second = add("2", entities=entities("Kafka", "Bo"))
    third = add("3", entities=entities("Bo"))
    name_often(store, first, "Redis")
    beside = graph.named_beside(first.id, HERE, 2)
    assert {key: sorted(ids) for key, ids in beside.items()} == {"kafka": [second.id], "bo": [second.id, third.id]}
    assert graph.named_beside(first.id, HERE, 1) == {"kafka": [second.id]}
    assert [*graph.named_beside(first.id, HERE, 2, (), lambda key: key != "bo")] == ["kafka"]
    with store.write() as transaction:
        transaction.update(replace(first, status="retired"))
    for record_id, scopes in ((first.id, HERE), ("r00zzzz", HERE), (second.id, ("shared/there",))):
        assert graph.named_beside(record_id, scopes, 2) == {}


def test_what_comes_out_can_be_narrowed(graph: GraphStore, add: Add) -> None:
    """B1.4: to some ids, without others, to a number; ties go to the newest; the walk itself is not narrowed."""
    first, second, third = (add(str(n), entities=entities("Kafka")).id for n in range(3))
    seeds = graph.mentioned("Kafka", HERE)
    assert list(graph.activate(seeds, HERE, 10)) == [third, second, first]
    assert list(graph.activate(seeds, HERE, 2)) == [third, second]
    assert list(graph.activate(seeds, HERE, 10, only=[first, second, "r00zzzz"])) == [second, first]
    assert list(graph.activate(seeds, HERE, 10, only=[])) == []
    assert list(graph.activate(seeds, HERE, 10, exclude=[second])) == [third, first]
    assert list(graph.activate(seeds, HERE, 10, only=[first, second], exclude=[second])) == [first]
    assert graph.activate({}, HERE, 10) == {}
    assert graph.activate({"nobody": 1.0}, HERE, 10) == {}


def test_scopes_that_a_caller_reads_are_one_graph_to_it(graph: GraphStore, add: Add) -> None:
    """S4.1: an entity of one name is one thing in them; to others nothing joins the two."""
    shared = add("1", relations=[relation("Kafka", "Redis")])
    private = add("2", entities=entities("Redis"), scope="private/ann/here")
    assert reached(graph, "Kafka", (*HERE, "private/ann/here")).keys() == {shared.id, private.id}
    assert reached(graph, "Kafka").keys() == {shared.id}
    assert reached(graph, "Kafka", ("private/ann/here",)) == {}
    assert reached(graph, "Redis", ("private/ann/here", "private/ann/here")).keys() == {private.id}


def test_nothing_is_walked_through_what_is_hidden_retired_or_foreign(
    graph: GraphStore, store: RecordStore, add: Add
) -> None:
    """B1.4, T4.3: a relation that only such a record states joins nothing."""
    first, last = add("1", entities=entities("Kafka")), add("2", entities=entities("Redis"))
    bridge = add("3", relations=[relation("Kafka", "Redis")])
    assert last.id in reached(graph, "Kafka")
    for change in HIDDEN:
        with store.write() as transaction:
            transaction.update(replace(bridge, **change))
        assert reached(graph, "Kafka", hidden=["t1"]).keys() == {first.id}
        with store.write() as transaction:
            transaction.update(bridge)
        assert reached(graph, "Kafka", hidden=["t1"]).keys() == {first.id, bridge.id, last.id}


def test_an_alias_that_only_the_hidden_know_leads_nowhere(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """B1.4: nor one that was retired, or is said elsewhere."""
    told = add("1", entities=[Entity(name="Postgres", properties={"aliases": ["PG"]})])
    known = add("2", entities=entities("Postgres"))
    assert known.id in reached(graph, "PG", hidden=["t1"])
    for change in HIDDEN:
        with store.write() as transaction:
            transaction.update(replace(told, **change))
        assert reached(graph, "PG", hidden=["t1"]) == {}
    with store.write() as transaction:
        transaction.update(replace(told, branch_id="t1"))
    assert known.id in reached(graph, "PG")


def test_what_replaced_a_record_is_joined_to_it_as_long_as_it_is_there(
    graph: GraphStore, store: RecordStore, add: Add
) -> None:
    """R8, R9: also after it was retired and restored, and where each replaced the other; erased, it is forgotten."""
    new = add("1", entities=entities("Redis"))
    old = add("2", entities=entities("Kafka"), superseded_by=new.id, status="superseded")
    assert new.id in reached(graph, "Kafka")
    with store.write() as transaction:
        transaction.update(replace(new, status="retired"))
    assert reached(graph, "Kafka").keys() == {old.id}
    with store.write() as transaction:
        transaction.update(replace(new, superseded_by=old.id))
    assert reached(graph, "Kafka").keys() == {old.id, new.id}
    with store.write() as transaction:
        transaction.update(replace(new, status="retired", superseded_by=old.id))
    assert graph.check() == []
    with store.write() as transaction:
        transaction.update(new)
    assert reached(graph, "Kafka").keys() == {old.id, new.id}
    with store.write() as transaction:
        transaction.erase([new.id])
    assert reached(graph, "Kafka").keys() == {old.id}
    assert graph.check() == []


def test_counts_are_those_of_what_the_caller_sees(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """S4.1: of records, entities, relations and tasks."""
    assert graph.summarize(HERE) == GraphSummary(records=0, entities=0, relations=0, tasks=0)
    with store.write() as transaction:
        for each in (task("t1"), task("t2", parent_id="t1", branch=True)):
            transaction.add_task(each)
    add("1", entities=entities("Kafka"), relations=[relation("Kafka", "Redis"), relation("Redis", "Kafka")])
    add("2", entities=entities("Bo", "Kafka"), branch_id="t2", task_id="t2", relations=[relation("Bo", "Cy")])
    add("3", entities=entities("Kafka"), scope="user")
    add("4", entities=entities("Kafka"), scope="private/bob/here")
    scopes = (*HERE, "user")
    assert graph.summarize(scopes) == GraphSummary(records=3, entities=4, relations=3, tasks=2)
    assert graph.summarize(scopes, ["t2"]) == GraphSummary(records=2, entities=2, relations=2, tasks=1)


def test_a_sound_graph_has_nothing_to_repair(graph: GraphStore, add: Add) -> None:
    """S7.1: check compares with the truth; rebuild forgets, and the next question reads again."""
    record = add("1", entities=entities("Kafka"), relations=[relation("Kafka", "Kafka"), relation("Kafka", "Bo")])
    assert graph.check() == []
    graph.rebuild()
    assert reached(graph, "Bo").keys() == {record.id}
    assert graph.check() == []


class _LosesChanges:
    """A record store that tells of its links once, and then of none."""

    def __init__(self, truth: RecordStore) -> None:
        self._truth = truth

    def __getattr__(self, name: str) -> object:
        return getattr(self._truth, name)

    def index_rows(self, part: IndexPart, since: int, embedder: str = "", partition: str = "") -> Iterator[Columns]:
        return iter(()) if since else self._truth.index_rows(part, since, embedder, partition)


def test_a_graph_that_lost_changes_is_found_and_repaired(store: RecordStore, add: Add) -> None:
    """S7.1: doctor is told what differs, and rebuilding brings it back."""
    graph = LinkGraphStore(Follower(cast("RecordStore", _LosesChanges(store))))
    kept = [add("0", entities=entities("Kafka"), scope="user").id, add("1", entities=entities("Kafka")).id]
    assert reached(graph, "Kafka", (*HERE, "user")).keys() == {*kept}
    lost = [add("2", entities=entities("Kafka")).id, add("3", entities=entities("Kafka"), scope="user").id]
    assert graph.check() == [
        "in another place than they should be: 1 record",
        "shared/here: 1 link missing or too many",
        "in another place than they should be: 1 record",
        "user: 1 link missing or too many",
    ]
    graph.rebuild()
    assert graph.check() == []
    assert reached(graph, "Kafka", (*HERE, "user")).keys() == {*kept, *lost}


PLACES = ("id", "scope", "branch_id", "superseded_by", "task_id", "is_linked")


class _TellsOfHidden:
    """A record store with many more records, all in a branch, that mention Kafka."""

    def __init__(self, truth: RecordStore, count: int) -> None:
        self._truth = truth
        ids = [make_id("r", 10**6 + n) for n in range(count)]
        nothing = [None] * count
        self._more: dict[IndexPart, Columns] = {
            "places": dict(
                zip(PLACES, (ids, [HERE[0]] * count, ["t1"] * count, nothing, nothing, [1] * count), strict=True)
            ),
            "mentions": {"record_id": ids, "name_key": ["kafka"] * count},
        }

    def __getattr__(self, name: str) -> object:
        return getattr(self._truth, name)

    def index_rows(self, part: IndexPart, since: int, embedder: str = "", partition: str = "") -> Iterator[Columns]:
        yield from self._truth.index_rows(part, since, embedder, partition)
        if part in self._more:
            yield self._more[part]


@pytest.mark.parametrize("make", STORES.values(), ids=STORES.keys())
def test_the_links_that_are_looked_at_are_bounded(make: Make, store: RecordStore, add: Add) -> None:
    """R7: through what has more than MAX_LOOKED_AT links, seen or not, nothing is found."""
    record = add("0", entities=entities("Kafka"))
    for hidden, found in ((MAX_LOOKED_AT - 1, {record.id}), (MAX_LOOKED_AT, set[str]())):
        graph = make(cast("RecordStore", _TellsOfHidden(store, hidden)))
        assert reached(graph, "Kafka", hidden=["t1"]).keys() == found


def test_readers_and_writers_may_meet(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """S1.1: several threads ask while records come and go."""
    kept = add("0", entities=entities("Kafka"))

    def ask() -> list[bool]:
        return [kept.id in reached(graph, "Kafka") for _ in range(30)]

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(4)]
        for n in range(20):
            brief = add(str(n), entities=entities("Kafka", "Redis"))
            with store.write() as transaction:
                transaction.erase([brief.id])
        assert all(all(each.result()) for each in asked)
    assert graph.check() == []
    assert reached(graph, "Kafka").keys() == {kept.id}


def test_a_relation_outlives_one_of_several_who_state_it(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """R9: the heaviest statement counts, and the edge goes with the last of them."""
    target = add("0", entities=entities("Redis"))
    strong = add("2", relations=[relation("Kafka", "Redis", 0.9)])
    weak = add("3", relations=[relation("Redis", "Kafka", 0.1)])
    before = reached(graph, "Kafka")
    with store.write() as transaction:
        transaction.erase([strong.id])
    assert 0 < reached(graph, "Kafka")[target.id] < before[target.id]
    with store.write() as transaction:
        transaction.erase([weak.id])
    assert target.id not in reached(graph, "Kafka")
    assert graph.check() == []


def known(graph: GraphStore, *keys: str, more: int = 0, **narrowing: Any) -> list[EntityFacts]:
    return list(graph.entities(keys, HERE, more, **narrowing))


def related(graph: GraphStore, *keys: str, depth: int = 5, limit: int = 100, **narrowing: Any) -> list[str]:
    """`depth: a --[type]--> b` of each relation."""
    found = graph.relations(keys, HERE, depth, limit, **narrowing)
    return [
        f"{each.depth}: {each.relation.source} --[{each.relation.type}]--> {each.relation.target}" for each in found
    ]


def test_known_entities_are_those_asked_for_and_some_that_stand_out(graph: GraphStore, add: Add) -> None:
    """B3.3: all that are known, in the order given, then at most so many others, the most salient first."""
    first = add("0", entities=entities("Kafka", "Redis", "Bo"))
    second = add("1", entities=entities("Redis", "Cy"))
    third = add("2", entities=entities("Redis", "Cy"))
    found = known(graph, "bo", "nobody", "kafka", "bo", more=2)
    assert [(each.key, each.name, each.type, each.named) for each in found] == [
        ("bo", "Bo", "name", True),
        ("kafka", "Kafka", "name", True),
        ("redis", "Redis", "name", False),
        ("cy", "Cy", "name", False),
    ]
    assert found[0].records == found[1].records == (first.id,)
    assert found[2].records == (third.id, second.id, first.id)
    assert [each.key for each in known(graph, "bo")] == ["bo"]
    assert [each.key for each in known(graph, more=1)] == ["redis"]
    assert known(graph) == []
    assert graph.entities(["bo"], ("shared/there",), 10) == []


def test_an_entity_is_salient_by_its_links_its_relations_and_how_lately_it_was_mentioned(
    graph: GraphStore, add: Add
) -> None:
    """B4.5: in (0, 1]; log of the links, at most halved by the rest; the same formula as documented."""
    add("0", entities=entities("Old", "Related", "Often"))
    second = add("1", entities=entities("Often"), relations=[relation("Related", "Often", 0.5)])
    last = add("2", entities=entities("New"))
    found = {each.key: each.salience for each in known(graph, more=9)}
    assert list(found) == ["often", "related", "new", "old"]
    newest = number_of(last.id)
    assert found["new"] == pytest.approx(entity_salience(1, MAX_FAN, 0.0, 1.0))
    assert found["often"] == pytest.approx(entity_salience(3, MAX_FAN, 0.5, number_of(second.id) / newest))
    assert all(0 < value <= 1 for value in found.values())


def test_what_is_said_of_an_entity_is_the_newest_word_that_holds(
    graph: GraphStore, store: RecordStore, add: Add
) -> None:
    """B3.3, R8: by when it occurred, not when it was stored; nothing by superseded or retired records."""

    def said(**properties: Json) -> list[Entity]:
        return [Entity(name="Postgres", type="database", properties=properties)]

    def properties() -> Details:
        return known(graph, "postgres")[0].properties

    new = add("1", entities=said(port=5433, host="db1"), occurred_at=300.0)
    add("2", entities=said(port=5432, size="big"), occurred_at=200.0)
    assert properties() == {"port": 5433, "size": "big", "host": "db1"}
    other = add("3", entities=entities("Postgres"), occurred_at=400.0)
    assert properties() == {"port": 5433, "size": "big", "host": "db1"}
    with store.write() as transaction:
        transaction.update(replace(new, superseded_by=other.id, status="superseded"))
    assert properties() == {"port": 5432, "size": "big"}
    assert known(graph, "postgres")[0].type == "database"
    with store.write() as transaction:
        transaction.update(new)
        transaction.update(replace(new, status="retired"))
    assert properties() == {"port": 5432, "size": "big"}


def test_the_names_of_one_thing_are_one_entity(graph: GraphStore, add: Add) -> None:
    """B3.3: under the name that most records use, however it was asked for."""
    add("0", entities=[Entity(name="Postgres", type="database", properties={"aliases": ["PG"], "port": 1})])
    add("1", entities=entities("PG"))
    newest = add("2", entities=entities("pg"))
    for asked in (("pg",), ("postgres", "pg"), ()):
        (found,) = known(graph, *asked, more=5)
        assert (found.key, found.keys, found.name, found.type) == ("pg", ("pg", "postgres"), "PG", "database")
        assert found.properties == {"aliases": ["PG"], "port": 1}
        assert len(found.records) == 3
        assert found.records[0] == newest.id


def test_one_that_is_everywhere_is_no_known_entity(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """B3.3: as it is not mentioned either; nor does it keep the others from being found."""
    rare = add("0", entities=entities("Kafka", "Speaker"))
    name_often(store, rare, "Speaker")
    assert [each.key for each in known(graph, "speaker", more=9)] == ["kafka"]
    narrow = RecordSet.of([rare.id])
    assert [each.key for each in known(graph, "speaker", more=9, only=narrow)] == ["speaker", "kafka"]


@pytest.mark.parametrize("make", STORES.values(), ids=STORES.keys())
def test_the_most_linked_are_looked_at_until_it_is_enough(make: Make, store: RecordStore, add: Add) -> None:
    """B3.3: bounded work, also where a branch hides most of what is linked."""
    record = add("0", entities=entities("Kafka", "Redis"))
    for hidden, found in ((MAX_LINKS_MET - 1, ["kafka", "redis"]), (MAX_LINKS_MET, ["redis"])):
        graph = make(cast("RecordStore", _TellsOfHidden(store, hidden)))
        assert sorted(each.key for each in known(graph, more=9, hidden=["t1"])) == found
        assert known(graph, "kafka", hidden=["t1"])[0].records == (record.id,)


def test_no_more_are_looked_at_than_might_stand_out(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """B3.3: what has too few links, and what is left when MAX_LOOKED_AT links were met."""
    often, many = [f"often{n}" for n in range(CONTENDERS)], [f"many{n:02}" for n in range(25)]
    record = add("0", entities=entities(*often, "Once"))
    name_often(store, record, *often, times=30)
    assert [each.key for each in known(graph, more=1)] == often[:1]
    name_often(store, record, *many, times=MAX_LOOKED_AT // 24)
    assert len(known(graph, more=100)) == 24
    assert [each.key for each in known(graph, "once", "often1", more=1)] == ["once", "often1", "many00"]


def test_links_in_several_scopes_count_together(graph: GraphStore, add: Add) -> None:
    """B3.3, O4.2: what no scope has most of may have most of all, and none is looked at that has too few."""
    scopes = (*HERE, "user", "private/ann/here")
    for place in scopes:
        for number in range(3):
            add(f"{place} {number}", entities=entities("Shared", f"Only {place}"), scope=place)
        add(f"{place} 3", entities=entities(f"Only {place}", f"Rare {place}"), scope=place)
    assert isinstance(graph, LinkGraphStore)
    with graph._view(scopes, ()) as view:  # noqa: SLF001
        assert [thing.names[0] for thing in most_linked(view, 2, 1)] == ["shared", "only private/ann/here"]
        assert [thing.links for thing in most_linked(view, 9, 4)] == [9, 4, 4, 4]
        assert most_linked(view, 9, 10) == []


def test_relations_come_breadth_first_each_once(graph: GraphStore, add: Add) -> None:
    """B3.4: either way round, through a ring, each entity visited once; nearer ones first, then the stronger."""
    add("0", relations=[relation("A", "B", 0.5), relation("C", "A", 0.9), relation("B", "C"), relation("C", "D")])
    add("1", relations=[relation("D", "A"), relation("D", "E"), relation("E", "E"), relation("X", "Y")])
    expected = [
        "1: D --[uses]--> A",
        "1: C --[uses]--> A",
        "1: A --[uses]--> B",
        "2: D --[uses]--> E",
        "2: B --[uses]--> C",
        "2: C --[uses]--> D",
        "3: E --[uses]--> E",
    ]
    assert related(graph, "a") == expected
    assert related(graph, "a", depth=2) == expected[:6]
    assert related(graph, "a", limit=2) == expected[:2]
    assert related(graph, "a", limit=5) == expected[:5]
    assert (
        related(graph, "a", depth=0) == related(graph, "a", limit=0) == related(graph, "nobody") == related(graph) == []
    )


def test_a_relation_scores_its_weight_halved_with_each_step(graph: GraphStore, add: Add) -> None:
    """B4.3: by the record that gives it the most weight, of several the latest."""
    add("0", relations=[relation("A", "B", 0.2), relation("B", "C", 0.8), relation("C", "D", 0.4)])
    strong = add("1", relations=[relation("a", "b", 0.6)])
    found = graph.relations(["a"], HERE, 5, 10)
    assert [(each.depth, each.score) for each in found] == [(1, 0.6), (2, 0.4), (3, pytest.approx(0.1))]
    assert (found[0].record_id, found[0].relation.weight) == (strong.id, 0.6)
    again = add("2", relations=[relation("A", "B", 0.6)])
    assert graph.relations(["a"], HERE, 1, 10)[0].record_id == again.id


def test_an_alias_costs_no_step_between_relations(graph: GraphStore, add: Add) -> None:
    """B3.4: what is said of one name is said of the thing."""
    add("0", entities=[Entity(name="Postgres", properties={"aliases": ["PG"]})], relations=[relation("App", "PG")])
    add("1", relations=[relation("Postgres", "Disk")])
    assert related(graph, "app") == ["1: App --[uses]--> PG", "2: Postgres --[uses]--> Disk"]
    assert related(graph, "pg", depth=1) == ["1: Postgres --[uses]--> Disk", "1: App --[uses]--> PG"]


def names_of(path: Sequence[tuple[str, str]]) -> list[str]:
    return [key for _, key in path]


def test_two_things_are_tied_by_the_strongest_path(graph: GraphStore, add: Add) -> None:
    """O4.2: by records that mention them and relations that join them, not by what many mention, nor by tasks."""
    ends = add("1", entities=entities("Acme", "Common"), task_id="t1"), add("2", entities=entities("INC-7", "Common"))
    for number in range(40):
        add(f"filler {number}", entities=entities("Common"), task_id="t1")
    over = add("3", entities=entities("Acme", "tide-api"))
    cause = add("4", relations=[relation("Dana", "INC-7")])
    known = add("5", entities=entities("tide-api", "Dana"))
    path = graph.tie(["acme", "inc-7"], HERE)
    assert names_of(path) == ["acme", over.id, "tide-api", known.id, "dana", cause.id, "inc-7"]
    assert graph.path(("entity", "inc-7"), ("entity", "acme"), HERE) == path[::-1]
    assert names_of(graph.path(("record", over.id), ("entity", "dana"), HERE)) == [
        over.id,
        "tide-api",
        known.id,
        "dana",
    ]
    without = graph.tie(["acme", "inc-7"], HERE, exclude={known.id})
    assert names_of(without) == ["acme", ends[0].id, "common", ends[1].id, "inc-7"]


def test_what_one_record_tells_together_or_nothing_joins_is_not_tied(graph: GraphStore, add: Add) -> None:
    """O4.2: the words of both find such a record anyway; a list of many things is none."""
    both = add("1", entities=entities("Acme", "Zeta", "Redis"))
    add("2", entities=entities("Acme", "Dana"))
    add("3", entities=entities("Dana", "Zeta"))
    alone = add("4", entities=entities("Kafka"))
    assert graph.tie(["acme", "zeta"], HERE) == () == graph.tie(["acme", "kafka"], HERE)
    assert graph.tie(["acme", "nothing"], HERE) == () == graph.tie(["acme"], HERE)
    assert names_of(graph.path(("entity", "acme"), ("entity", "redis"), HERE)) == ["acme", both.id, "redis"]
    assert graph.path(("entity", "kafka"), ("record", "r00zzzz"), HERE) == ()
    assert graph.path(("entity", "kafka"), ("entity", "kafka"), HERE) == ()
    assert names_of(graph.path(("entity", "kafka"), ("record", alone.id), HERE)) == ["kafka", alone.id]
    add("5", entities=entities("Ohm", "Watt", *(f"Thing {number}" for number in range(4 * DIRECT_LINKS))))
    first, second = add("6", entities=entities("Ohm", "Volt")), add("7", entities=entities("Volt", "Watt"))
    assert names_of(graph.tie(["ohm", "watt"], HERE)) == ["ohm", first.id, "volt", second.id, "watt"]
    steps = [*"abcdefgh"]
    for one, other in pairwise(steps):
        add(f"{one}{other}", entities=entities(f"step-{one}", f"step-{other}"))
    assert len(graph.tie(["step-a", "step-e"], HERE)) == 9
    assert graph.tie(["step-a", "step-f"], HERE) == ()


def test_the_rarest_of_several_things_are_tied_in_their_order(graph: GraphStore, add: Add) -> None:
    """O4.2: by any of their names; of the names of one thing none is tied to another."""
    add("1", entities=[Entity(name="Postgres", properties={"aliases": ["PG"]})])
    first, second = add("2", entities=entities("PG", "Dana")), add("3", entities=entities("Dana", "INC-7"))
    for number in range(5):
        add(f"4 {number}", entities=entities("Common", "Postgres"))
    assert graph.tie(["postgres", "pg"], HERE) == ()
    path = graph.tie(["common", "inc-7", "postgres", "pg"], HERE)
    assert names_of(path)[0] in ("common", "inc-7")
    assert names_of(graph.tie(["inc-7", "postgres", "pg"], HERE)) == ["inc-7", second.id, "dana", first.id, "postgres"]


def test_no_tie_leads_through_what_the_caller_does_not_see(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """B1.4, S4.1: of a branch, another scope, superseded, retired, excluded or filtered out; not as a hop."""
    first, last = add("1", entities=entities("Acme", "Dana")), add("2", entities=entities("INC-7"))
    bridge = add("3", relations=[relation("Dana", "INC-7")])
    assert bridge.id in names_of(graph.tie(["acme", "inc-7"], HERE, ["t1"]))
    ends: tuple[GraphNode, GraphNode] = (("entity", "acme"), ("entity", "inc-7"))
    changes: tuple[dict[str, Any], ...] = (*HIDDEN, {"status": "superseded", "superseded_by": last.id})
    for change in changes:
        with store.write() as transaction:
            transaction.update(replace(bridge, **change))
        assert graph.tie(["acme", "inc-7"], HERE, ["t1"]) == () == graph.path(*ends, HERE, ["t1"])
        with store.write() as transaction:
            transaction.update(bridge)
    assert graph.tie(["acme", "inc-7"], HERE, only=RecordSet.of([first.id, last.id])) == ()
    assert graph.tie(["acme", "inc-7"], HERE, exclude={bridge.id}) == ()
    assert graph.tie(["acme", "inc-7"], HERE) == graph.path(*ends, HERE) != ()


def test_what_is_everywhere_ties_nothing(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """O4.2: neither as an end nor between two."""
    added = add("1", entities=entities("Acme", "Everywhere"))
    add("2", entities=entities("INC-7", "Everywhere"))
    name_often(store, added, "Everywhere")
    ends: tuple[GraphNode, GraphNode] = (("entity", "acme"), ("entity", "inc-7"))
    assert graph.path(*ends, HERE) == () == graph.path(ends[0], ("entity", "everywhere"), HERE)


def test_topics_are_entities_that_records_mention_together(graph: GraphStore, add: Add) -> None:
    """O4.2: the largest first, the most linked first in each; what met once is of no topic, what is hidden neither."""
    assert graph.topics(HERE, 5) == ()
    for number in range(TOPIC_RECORDS):
        add(f"1 {number}", entities=entities("Kafka", "Redis", "Zookeeper"))
        add(f"2 {number}", entities=entities("Acme", "Invoice"))
        add(f"3 {number}", entities=entities("Secret", "Plan"), branch_id="t1")
    add("4", entities=entities("Redis", "Acme"))
    first, second = graph.topics(HERE, 5, ["t1"])
    assert (first.keys, second.keys) == (["redis", "kafka", "zookeeper"], ["acme", "invoice"])
    pairs = combinations(sorted(first.keys), 2)
    assert first.together == dict.fromkeys(pairs, TOPIC_RECORDS)
    assert graph.topics(HERE, 1, ["t1"]) == [first]
    assert ["plan", "secret"] in [each.keys for each in graph.topics(HERE, 5)]


def test_a_listing_makes_no_topic_and_neither_do_numbers_and_addresses(graph: GraphStore, add: Add) -> None:
    """O4.2: a directory's files are mentioned together because they stand in one list."""
    listed = [f"option_{number}" for number in range(MAX_FOUND)]
    for number in range(TOPIC_RECORDS):
        add(f"1 {number}", entities=entities(*listed))
        add(f"2 {number}", entities=entities("Northwind", "ops/shop#41", "https://northwind.example/a"))
    assert graph.topics(HERE, 5) == ()
    for number in range(TOPIC_RECORDS):
        add(f"3 {number}", entities=entities("Northwind", "Excel"))
        add(f"4 {number}", entities=entities(*listed[1:]))
    assert [set(each.keys) for each in graph.topics(HERE, 5)] == [set(listed[1:]), {"northwind", "excel"}]


def test_nothing_is_known_by_the_word_of_what_is_left_out(graph: GraphStore, store: RecordStore, add: Add) -> None:
    """B1.4, S4.1: excluded, filtered, hidden, replaced, retired or foreign: no relation, property, type or step."""
    kept = add("0", entities=entities("Kafka"), relations=[relation("Redis", "Disk")])
    told = add(
        "1", entities=[Entity(name="Kafka", type="queue", properties={"port": 9}), Entity(name="Lone")],
        relations=[relation("Kafka", "Redis")],
    )  # fmt: skip

    def seen(**narrowing: Any) -> tuple[object, ...]:
        things = {each.key: (each.type, each.properties, each.records) for each in known(graph, more=9, **narrowing)}
        return things.get("kafka"), "lone" in things, related(graph, "kafka", **narrowing)

    every = ["1: Kafka --[uses]--> Redis", "2: Redis --[uses]--> Disk"]
    assert seen() == (("queue", {"port": 9}, (told.id, kept.id)), True, every)
    nothing: Details = {}
    without: tuple[object, ...] = (("name", nothing, (kept.id,)), False, list[str]())
    assert seen(exclude=[told.id]) == seen(only=RecordSet.of([kept.id])) == without
    assert seen(only=RecordSet.of([told.id])) == (("queue", {"port": 9}, (told.id,)), True, every[:1])
    changes: tuple[dict[str, Any], ...] = (*HIDDEN, {"status": "superseded", "superseded_by": kept.id})
    for change in changes:
        with store.write() as transaction:
            transaction.update(replace(told, **change))
        assert seen(hidden=["t1"]) == without
        with store.write() as transaction:
            transaction.update(told)
        assert seen(hidden=["t1"]) == seen()


class _LosesARecord:
    """A record store from which somebody erases a record while its links are read."""

    def __init__(self, truth: RecordStore, gone: str) -> None:
        self._truth = truth
        self._gone = gone

    def __getattr__(self, name: str) -> object:
        return getattr(self._truth, name)

    def index_rows(self, part: IndexPart, since: int, embedder: str = "", partition: str = "") -> Iterator[Columns]:
        yield from self._truth.index_rows(part, since, embedder, partition)
        if part == "aliases":  # The first that is read.
            with ThreadPoolExecutor(1) as elsewhere:
                elsewhere.submit(self._erase).result()

    def _erase(self) -> None:
        with self._truth.write() as transaction:
            transaction.erase([self._gone])


@pytest.mark.parametrize("make", STORES.values(), ids=STORES.keys())
def test_what_is_erased_meanwhile_is_told_whole_once_and_then_no_more(make: Make, store: RecordStore, add: Add) -> None:
    """R9: graph and truth are of one revision in each answer, and of the newest in the next."""
    for ask in (known, related):
        gone = add("1", entities=[Entity(name="Kafka", properties={"port": 9})], relations=[relation("Kafka", "Redis")])
        graph = make(cast("RecordStore", _LosesARecord(store, gone.id)))
        assert len(ask(graph, "kafka")) == 1
        assert ask(graph, "kafka") == []


# What follows compares whole histories with a graph made anew, and with a truth in which only the visible exists.

SCOPES = ("shared/here", "private/ann/here", "user")
NAMES = ("Ann", "Bo", "Cy", "Di", "Ed", "Flo", "Flo Ed")
TASKS = (task("t1"), task("t2", parent_id="t1"), task("b1", parent_id="t1", branch=True), task("b2", parent_id="b1"))
BRANCHES = {"b1": "b1", "b2": "b1"}
VECTOR = np.full((1, 4), 0.5, np.float32)
BLANK = Record(
    id="", scope="", namespace="here", visibility="shared", agent="ann", session_id="s1", task_id=None, branch_id=None,
    kind="fact", text="", summary="", micro="", text_tokens=1, summary_tokens=1, micro_tokens=1, importance=1.0,
    confidence=None, status="new", outcome=None, pinned=False, tags=(), details={}, speaker=None, role=None, tool=None,
    call_id=None, superseded_by=None, created_at=1.0, updated_at=1.0, accessed_at=1.0, occurred_at=1.0,
)  # fmt: skip


@dataclass
class Told:
    """A record with what was said along with it."""

    record: Record
    given: list[Entity] = field(default_factory=list[Entity])
    found: list[Entity] = field(default_factory=list[Entity])
    relations: list[Relation] = field(default_factory=list[Relation])


History = dict[str, Told]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert"] * 5 + ["correct", "move", "retire", "restore", "replace", "erase", "look"]),
        st.integers(0, 10_000),
    ),
    min_size=1,
    max_size=40,
)


def take(step: tuple[str, int], truth: RecordStore, history: History) -> None:
    """One step in the truth and in the history, drawn from the step's number."""
    kind, rng = step[0], random.Random(step[1])
    with truth.write() as transaction:
        if kind == "insert" or not history:
            told = draw(rng, transaction.next_id("r"))
            history[told.record.id] = told
            transaction.insert(told.record, VECTOR, [*told.given, *told.found], told.relations)
            return
        told = history[rng.choice(sorted(history))]
        record = transaction.get(told.record.id)
        assert record is not None
        if kind == "erase":
            del history[record.id]
            transaction.erase([record.id])
        elif kind == "correct":
            given_keys = {e.name for e in told.given} | {n for r in told.relations for n in (r.source, r.target)}
            told.found = [e for e in entities(*rng.sample(NAMES, 2)) if e.name not in given_keys]
            transaction.update(replace(record, text=str(step)), VECTOR, told.found)
        else:
            changed = {
                "move": replace(record, scope=rng.choice(SCOPES)),
                "retire": replace(record, status="retired"),
                "restore": replace(record, status="new"),
                "replace": replace(record, superseded_by=rng.choice(sorted(history)), status="superseded"),
            }[kind]
            transaction.update(changed)
            told.record = changed


def draw(rng: random.Random, record_id: str) -> Told:
    """A record somewhere, in a task or none, with a few entities, found and given, and relations between them."""
    task_id = rng.choice([None, None, *(each.id for each in TASKS)])
    record = replace(
        BLANK, id=record_id, text=record_id, scope=rng.choice(SCOPES), task_id=task_id,
        branch_id=BRANCHES.get(task_id or ""),
    )  # fmt: skip
    names = rng.sample(NAMES, 4)
    alias = {"aliases": [names[1]]} if rng.random() < 0.3 else {}
    related = [relation(names[0], names[2], rng.choice([0.3, 1.0]))] if rng.random() < 0.5 else []
    found = entities(names[3]) if rng.random() < 0.6 else []
    return Told(record=record, given=[Entity(name=names[0], properties=alias)], found=found, relations=related)


def answers(graph: GraphStore, scopes: Sequence[str], hidden: Sequence[str], ids: Sequence[str]) -> list[object]:
    """Everything that can be asked."""
    text = " and ".join(NAMES)
    near: list[Sequence[GraphNeighbour]] = [graph.neighbourhood(record_id, scopes, 9, hidden) for record_id in ids]
    one_by_one = [reached(graph, f"is it {name}", scopes, hidden) for name in NAMES]
    # What a relation names takes the type of whatever bears the name in the scope, seen or not.
    things = [
        replace(each, type="") for keys in ((), ("ann", "bo")) for each in graph.entities(keys, scopes, 9, hidden)
    ]
    links = [graph.relations([name.lower()], scopes, 3, 9, hidden) for name in NAMES]
    keys = [name.lower() for name in NAMES]
    paths = [graph.path(("entity", one), ("entity", other), scopes, hidden) for one, other in pairwise(keys)]
    ties = [graph.tie([*pair], scopes, hidden) for pair in pairwise(keys)]
    return [
        graph.mentioned(text, scopes, hidden),
        reached(graph, text, scopes, hidden),
        one_by_one,
        near,
        things,
        links,
        paths,
        ties,
        graph.topics(scopes, 9, hidden),
    ]


@given(
    steps=STEPS,
    scopes=st.lists(st.sampled_from(SCOPES), unique=True, min_size=1),
    hidden=st.sampled_from([(), ("b1",)]),
)
@settings(max_examples=16)
@pytest.mark.parametrize("make", STORES.values(), ids=STORES.keys())
def test_after_any_history_only_what_is_visible_counts(
    make: Make, new_memory: NewMemory, steps: Sequence[tuple[str, int]], scopes: list[str], hidden: Sequence[str]
) -> None:
    """B1.4, S1.2, S4.1, R9: the graph equals one read anew, and answers as if the rest had never been stored."""
    with new_memory() as open_it, new_memory() as open_another:
        truth, other, visible = open_it(), open_it(), open_another()
        graph, history = make(truth), dict[str, Told]()
        with truth.write() as transaction:
            for each in TASKS:
                transaction.add_task(each)
        for step in steps:
            if step[0] == "look":
                reached(graph, NAMES[step[1] % len(NAMES)], scopes, hidden)
            else:
                take(step, other, history)
        assert graph.check() == []
        ids = sorted(history)
        assert answers(graph, scopes, hidden, ids) == answers(make(truth), scopes, hidden, ids)
        with visible.write() as transaction:
            for each in TASKS:
                if "shared/here" in scopes and not (hidden and each.id in BRANCHES):
                    transaction.add_task(each)
            for told in history.values():
                seen = told.record.scope in scopes and told.record.branch_id not in hidden
                if seen and told.record.status not in OUT_OF_SEARCH:
                    transaction.insert(told.record, VECTOR, [*told.given, *told.found], told.relations)
        assert answers(graph, scopes, hidden, ids) == answers(make(visible), scopes, hidden, ids)


@given(steps=STEPS, later=STEPS, last=STEPS, scopes=st.lists(st.sampled_from(SCOPES), unique=True, min_size=1))
@settings(max_examples=8)
def test_a_graph_that_was_loaded_answers_like_one_that_followed_every_change(
    new_memory: NewMemory, steps: Sequence[tuple[str, int]], later: Sequence[tuple[str, int]],
    last: Sequence[tuple[str, int]], scopes: list[str],
) -> None:  # fmt: skip
    """S4.1: to the last digit and in the same order, also when it is loaded again after changes."""
    with new_memory() as open_it:
        truth = open_it()
        whole, loaded = (LinkGraphStore(Follower(truth)) for _ in range(2))
        history = dict[str, Told]()
        with truth.write() as transaction:
            for each in TASKS:
                transaction.add_task(each)
        for part in (steps, later, last):
            for step in part:
                if step[0] != "look":
                    take(step, truth, history)
                for graph in (whole, loaded):
                    graph.summarize(SCOPES)  # Both are told of every change on its own.
            ids = sorted(history)
            for hidden in ((), ("b1",)):
                assert ordered(loaded, scopes, hidden, ids) == ordered(whole, scopes, hidden, ids)
            assert loaded.check() == whole.check() == []
            loaded.rebuild()
            assert loaded.check() == []


def ordered(graph: LinkGraphStore, scopes: Sequence[str], hidden: Sequence[str], ids: Sequence[str]) -> str:
    """Everything that can be asked, with the order of everything, and the entities in the order of their links."""
    with graph._view(scopes, hidden) as view:  # noqa: SLF001
        linked = [most for each in view.graphs if (most := list(each.most_linked(MAX_FAN)))]
    return repr([answers(graph, scopes, hidden, ids), graph.summarize(scopes, hidden), linked])
