"""The contract of links in the record store: entities given and found, aliases, and what the graph is told of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mcp_memory.domain.model.records import Entity, Record, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.model.tasks import Task
from mcp_memory.ports.changes import IndexPart, TaskLink
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Vectors
from tests.index_rows import rows

Add = Callable[..., Record]
HERE = RecordFilter(scopes=("shared/here",))


def found(*names: str) -> list[Entity]:
    return [Entity(name=name, type="name", found=True) for name in names]


def mentions(store: RecordStore, record: Record) -> dict[str, bool]:
    """Names of what a record mentions, and whether they were found in its text."""
    return {entity.name: entity.found for entity in store.links(record.id)[0]}


def with_entity(store: RecordStore, *names: str) -> frozenset[str]:
    return store.matching_ids(replace(HERE, entities=frozenset(names)))


LINKS: tuple[IndexPart, ...] = ("mentions", "aliases", "relations")


def test_found_entities_are_told_from_given_ones_and_filter_alike(store: RecordStore, add: Add) -> None:
    """R5, R7: what was given is not found as well, in whatever case."""
    both = [Entity(name="Postgres", type="database"), *found("POSTGRES", "Kafka", "Bo")]
    record = add("text", entities=both, relations=[Relation(source="Kafka", type="feeds", target="Postgres")])
    assert mentions(store, record) == {"Postgres": False, "Kafka": False, "Bo": True}
    assert with_entity(store, "bo") == with_entity(store, "KAFKA") == {record.id}
    assert store.matching_ids(replace(HERE, entity_types=frozenset({"name"}))) == {record.id}


def test_a_new_text_replaces_what_was_found_not_what_was_given(
    store: RecordStore, add: Add, vectors_of: Callable[..., Vectors]
) -> None:
    """R7: an entity that nobody else mentions goes with it; other changes leave mentions alone."""
    entities = [Entity(name="Given"), *found("Old", "Shared")]
    record = add("old", entities=entities, relations=[Relation(source="Given", type="is", target="Kept")])
    other = add("other", entities=found("Shared"))
    with store.write() as transaction:
        transaction.update(replace(record, importance=9.0))
    assert mentions(store, record) == {"Given": False, "Kept": False, "Old": True, "Shared": True}
    with store.write() as transaction:
        transaction.update(replace(record, text="new"), vectors_of(1), found("New", "given"))
    assert mentions(store, record) == {"Given": False, "Kept": False, "New": True}
    assert with_entity(store, "old") == frozenset()
    assert with_entity(store, "shared") == {other.id}


def test_an_alias_stands_for_its_entity_in_filters(store: RecordStore, add: Add) -> None:
    """R5, B2.1: either way round, in any case, as long as a record that holds says so."""
    told = add("it is called PG", entities=[Entity(name="Postgres", properties={"aliases": ["PG", "psql"]})])
    short = add("PG is slow", entities=found("PG"))
    long = add("Postgres is slow", entities=found("Postgres"))
    elsewhere = add("PG", entities=found("PG"), scope="private/bob/here")
    everywhere = {told.id, short.id, long.id}
    assert with_entity(store, "pg") == with_entity(store, "POSTGRES") == everywhere
    assert with_entity(store, "psql") == {told.id, long.id}
    both = replace(HERE, scopes=("shared/here", "private/bob/here"), entities=frozenset({"postgres"}))
    assert store.matching_ids(both) == everywhere | {elsewhere.id}
    with store.write() as transaction:
        transaction.update(replace(told, status="retired"))
    assert with_entity(store, "postgres") == {long.id}
    with store.write() as transaction:
        transaction.erase([told.id])
    assert with_entity(store, "pg") == {short.id}


def test_aliases_follow_a_record_that_moves(store: RecordStore, add: Add) -> None:
    """S4.1: they are said where the record is, and nowhere else."""
    told = add("it is called PG", entities=[Entity(name="Postgres", properties={"aliases": "PG"})])
    add("Postgres is slow", entities=found("Postgres"))
    with store.write() as transaction:
        transaction.update(replace(told, scope="private/ann/here"))
    assert with_entity(store, "pg") == frozenset()
    mine = replace(HERE, scopes=("private/ann/here",), entities=frozenset({"pg"}))
    assert store.matching_ids(mine) == {told.id}


def test_an_alias_said_in_an_open_branch_waits_for_its_end(store: RecordStore, add: Add) -> None:
    """B1.4, T4.3: nobody outside learns from it what belongs together."""
    branch = Task(
        id="t1", namespace="here", parent_id=None, goal="try", status="active", depth=0, agent="ann", session_id="s1",
        created_at=1.0, updated_at=1.0, branch=True,
    )  # fmt: skip
    with store.write() as transaction:
        transaction.add_task(branch)
    add("PG it is", entities=[Entity(name="Postgres", properties={"aliases": ["PG"]})], branch_id="t1", task_id="t1")
    outside = add("Postgres is slow", entities=found("Postgres"))
    hidden = replace(HERE, hidden_branches=frozenset({"t1"}), entities=frozenset({"pg"}))
    assert store.matching_ids(hidden) == frozenset()
    with store.write() as transaction:
        transaction.update_task(replace(branch, status="complete"))
    assert outside.id in store.matching_ids(replace(HERE, entities=frozenset({"pg"})))


def test_what_is_said_of_entities_is_told_by_their_keys(store: RecordStore, add: Add) -> None:
    """B3.3, B1.4: by records that pass and hold, the newest last; of what was found, by those that are named."""
    properties = {"port": 5432}
    late = add("2", entities=[Entity(name="PG", type="database")], occurred_at=300.0)
    early = add("1", entities=[Entity(name="Pg", type="database", properties=properties)], occurred_at=200.0)
    some, other = add("3", entities=found("pg")), add("4", entities=found("pg"))
    add("5", entities=[Entity(name="pg"), *found("Bo")], scope="private/bob/here")
    add("6", entities=[Entity(name="pg")], status="superseded", superseded_by=late.id)

    def told(*found_by: str, **changes: Any) -> list[tuple[str, str]]:
        return [(m.record_id, m.key) for m in store.mentions({"pg"}, replace(HERE, **changes), found_by)]

    assert told() == [(early.id, "pg"), (late.id, "pg")]
    assert told(some.id) == [(some.id, "pg"), (early.id, "pg"), (late.id, "pg")]
    assert told(some.id, other.id, exclude=frozenset({early.id, some.id})) == [(other.id, "pg"), (late.id, "pg")]
    assert store.mentions({"pg"}, HERE)[0].entity == Entity(name="PG", type="database", properties=properties)
    assert store.mentions({"bo"}, HERE, {some.id}) == store.mentions((), HERE) == []


def test_relations_are_told_by_either_end(store: RecordStore, add: Add) -> None:
    """B3.4, B1.4: the strongest first, then the latest; by records that pass and hold; no more than a limit."""

    def stated(source: str, target: str, weight: float) -> Relation:
        return Relation(source=source, type="uses", target=target, weight=weight)

    first = add("1", relations=[stated("A", "B", 0.5), stated("C", "D", 1.0)])
    second = add("2", relations=[stated("B", "A", 0.5), stated("E", "a", 0.9), stated("A", "A", 0.1)])
    add("3", relations=[stated("A", "F", 1.0)], scope="private/bob/here")
    add("4", relations=[stated("A", "G", 1.0)], status="superseded", superseded_by=first.id)
    found = store.statements({"a"}, HERE, 10)
    assert [(each.relation, each.record_id) for each in found] == [
        (stated("E", "A", 0.9), second.id),
        (stated("B", "A", 0.5), second.id),
        (stated("A", "B", 0.5), first.id),
        (stated("A", "A", 0.1), second.id),
    ]
    assert [each.record_id for each in store.statements({"a"}, replace(HERE, only=frozenset({first.id})), 10)] == [
        first.id
    ]
    assert len(store.statements({"a"}, HERE, 2)) == 2
    assert store.statements((), HERE, 10) == []


def test_changes_of_links_tell_what_a_record_is_joined_to_now(store: RecordStore, add: Add) -> None:
    """S1.2: entities by key, whatever their types; nothing of what was erased."""
    plain = add("plain")
    rich = add(
        "rich", entities=[Entity(name="Bo"), Entity(name="BO", type="dog", properties={"aliases": ["Bobo"]})],
        relations=[Relation(source="Bo", type="likes", target="Cy", weight=0.5)], task_id="t1", branch_id="t1",
        superseded_by=plain.id,
    )  # fmt: skip
    assert rows(store, "places") == [
        (plain.id, "shared/here", None, None, None, True),
        (rich.id, "shared/here", "t1", plain.id, "t1", True),
    ]
    assert set(rows(store, "mentions")) == {(rich.id, "bo"), (rich.id, "cy")}
    assert rows(store, "aliases") == [(rich.id, "bo", "bobo")]
    assert rows(store, "relations") == [(rich.id, "bo", "cy", 0.5)]
    revision = store.revision()
    with store.write() as transaction:
        transaction.update(replace(plain, status="retired"))
        transaction.erase([rich.id])
    assert rows(store, "places", revision) == [(plain.id, "shared/here", None, None, None, False)]
    assert [record_id for record_id, _ in rows(store, "erasures", revision)] == [rich.id]
    for part in LINKS:
        assert rows(store, part) == rows(store, part, revision) == []
    assert rows(store, "places", store.revision()) == rows(store, "erasures", store.revision()) == []


def test_of_a_changed_record_all_links_are_told(store: RecordStore, add: Add) -> None:
    """S1.2: and of no other one."""
    given = dict[str, Any](
        entities=[Entity(name="Bo", properties={"aliases": ["Bobo"]})],
        relations=[Relation(source="Bo", type="likes", target="Cy")],
    )
    add("first", **given)
    second, revision = add("second", **given), store.revision()
    assert [rows(store, part, revision) for part in LINKS] == [[], [], []]
    with store.write() as transaction:
        transaction.update(replace(second, importance=2.0))
    for part in LINKS:
        told, every = rows(store, part, revision), rows(store, part)
        assert sorted(told) == sorted(row for row in every if row[0] == second.id)
        assert 0 < len(told) < len(every)


def test_tasks_tell_what_they_are_part_of(store: RecordStore) -> None:
    """T3.1: those that changed, with the scope that sees them."""
    root = Task(
        id="t1", namespace="here", parent_id=None, goal="ship", status="active", depth=0, agent="ann",
        session_id="s1", created_at=1.0, updated_at=1.0,
    )  # fmt: skip
    with store.write() as transaction:
        transaction.next_id("t")
        transaction.add_task(root)
        transaction.add_task(replace(root, id="t2", parent_id="t1", depth=1))
    revision = store.revision()
    links = [
        TaskLink(id="t1", scope="shared/here", parent_id=None),
        TaskLink(id="t2", scope="shared/here", parent_id="t1"),
    ]
    assert store.task_links(0) == links
    assert store.task_links(revision) == []
    with store.write() as transaction:
        transaction.update_task(replace(root, status="complete"))
    assert store.task_links(revision) == links[:1]
