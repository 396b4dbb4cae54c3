"""What a record is linked to, as its resource shows it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcp_memory.app import App, token_counter
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.entrypoints.server.record_answers import show_account
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.status.overview import LINKS_SHOWN, NEAR_SHOWN
from mcp_memory.services.tasks.task_stack import PushRequest

RememberOne = Callable[..., Remembered]
Describe = Callable[..., Mapping[str, Any]]


@pytest.fixture
def describe(app: App) -> Describe:
    """The resource of a record, loosely typed, as a client has it."""

    def of(record: Remembered, caller: Caller | None = None) -> Mapping[str, Any]:
        return show_account(app.inspect.record(record.id, caller or app.caller()), caller or app.caller())

    return of


def test_found_entities_are_told_from_given_ones(app: App, remember: RememberOne, describe: Describe) -> None:
    """R7: and those found go with the text."""
    record = remember("Postgres runs on Hetzner.", entities=(Entity(name="postgres", properties={"version": 17}),))
    assert describe(record)["entities"] == [
        {"name": "postgres", "type": "thing", "properties": {"version": 17}},
        {"name": "Hetzner", "type": "name", "found": True},
    ]
    app.revise(Revision(id=record.id, text="It runs on Scaleway."), app.caller())
    assert [entity["name"] for entity in describe(record)["entities"]] == ["postgres", "Scaleway"]
    app.revise(Revision(id=record.id, importance=3.0), app.caller())
    assert [entity["name"] for entity in describe(record)["entities"]] == ["postgres", "Scaleway"]


def test_near_records_come_with_what_joins_them(app: App, remember: RememberOne, describe: Describe) -> None:
    """R7: by an entity as it is spelled, over a relation, or by a task."""
    app.tasks.push(PushRequest(goal="Move the data"), app.caller())
    start = remember("We chose Postgres.", kind="decision")
    beside = remember("Disk is full.")
    app.tasks.push(PushRequest(goal="Another"), app.caller("other"))
    other = app.caller("other")
    same = remember("The backup of postgres failed.", other, entities=(Entity(name="POSTGRES", type="database"),))
    remember("How it is.", other, relations=(Relation(source="Postgres", type="runs_on", target="Hetzner"),))
    far = remember("Our contract with Hetzner ends.", other, kind="episode")
    shown = describe(start)
    assert shown["task"]["goal"] == "Move the data"
    near = {each["id"]: each for each in shown["near"]}
    assert near[same.id]["via"] in (["Postgres"], ["POSTGRES"])
    assert near[far.id]["via"] == ["Postgres", "Hetzner"] or near[far.id]["via"] == ["POSTGRES", "Hetzner"]
    assert near[beside.id]["via"] == [shown["task"]["id"]]
    assert near[far.id]["kind"] == "episode"
    assert near[far.id]["text"] == "Our contract with Hetzner ends."


def test_a_correction_shows_what_it_replaced(app: App, remember: RememberOne, describe: Describe) -> None:
    """R8: on both sides, and not again among what is near."""
    old = remember("Postgres listens on 5432.")
    new = remember("Postgres listens on 6543.", supersedes=(old.id,))
    third = remember("Postgres is old.")
    assert describe(new)["supersedes"] == [old.id]
    assert describe(old)["superseded_by"] == new.id
    assert describe(old)["supersedes"] == []
    for record in (old, new):
        assert [each["id"] for each in describe(record)["near"]] == [third.id]


@pytest.mark.uncounted
def test_nothing_foreign_or_hidden_shows(
    app: App, open_memory: Callable[..., App], remember: RememberOne, describe: Describe
) -> None:
    """B1.4, S4.1, T4.3: neither as near, nor as what lies between."""
    kafka = (Entity(name="Kafka"),)
    start = remember("Kafka is up.")
    app.tasks.push(PushRequest(goal="try", branch=True), app.caller("trial"))
    hidden = remember("Kafka is down.", app.caller("trial"))
    bob = open_memory(agent="bob")
    bob.remember([NewRecord(text="Kafka is mine.", entities=kafka, visibility="private")], bob.caller())
    there = open_memory(namespace="there")
    there.remember([NewRecord(text="Kafka is there.", entities=kafka)], there.caller())
    assert describe(start, app.caller("elsewhere"))["near"] == []
    assert [each["id"] for each in describe(start, app.caller("trial"))["near"]] == [hidden.id]


def test_a_record_without_links_has_none(app: App, remember: RememberOne, describe: Describe) -> None:
    """R7: and a user's record does not show the task of another project."""
    lonely = remember("it rains")
    app.tasks.push(PushRequest(goal="Secret plan"), app.caller())
    mine = remember("I like tea.", visibility="user")
    shown = describe(lonely)
    assert (shown["entities"], shown["relations"], shown["task"], shown["near"]) == ([], [], None, [])
    assert describe(mine)["task"]["goal"] == "Secret plan"


def test_a_task_of_another_project_is_not_named(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """S4.1: a user's record is read everywhere, the goal that it was made for is not."""
    app.tasks.push(PushRequest(goal="Secret plan"), app.caller())
    mine = remember("I like tea.", visibility="user")
    there = open_memory(namespace="there")
    assert show_account(there.inspect.record(mine.id, there.caller()), there.caller())["task"] is None


@pytest.mark.uncounted
def test_a_neighbourhood_is_short(app: App, remember: RememberOne, describe: Describe) -> None:
    """R7: of a hundred entities and dozens of neighbours, some 500 tokens beside what was given."""
    text = "We met Ada, Bo, Cy and Di in Paris; Ed, Flo and Gus came from Rome by way of Nice and Lyon."
    for n in range(30):
        remember(f"{text} {n}")
    many = tuple(Entity(name=f"e{n}") for n in range(100))
    record = remember(text, entities=many, relations=tuple(Relation(source="a", type="b", target=e.name) for e in many))
    shown = describe(record)
    assert (len(shown["entities"]), len(shown["relations"])) == (LINKS_SHOWN, LINKS_SHOWN)
    assert len(shown["near"]) == NEAR_SHOWN
    found = describe(remember(f"{text} again"))
    links = {name: found[name] for name in ("entities", "relations", "task", "supersedes", "near")}
    assert token_counter("o200k_base").count(json.dumps(links, separators=(",", ":"))) <= 500
