"""Events of some types alone, in a list, a search and a context."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.requests import ContextRequest, PushRequest, RecallRequest
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.remember import Remembered

RememberOne = Callable[..., Remembered]


def found(app: App, query: str, *types: str, **fields: Any) -> set[str]:
    answer = app.recall(RecallRequest(query=query, event_types=types, **fields), app.caller())
    return {str(each["id"]) for each in answer.results}


def shown(app: App, query: str, *types: str, **fields: Any) -> set[str]:
    request = ContextRequest(query=query, event_types=types, max_tokens=1_000, **fields)
    return {
        each.id for each in app.assemble_context(request, app.caller()).report.components if each.id.startswith("r0")
    }


@pytest.fixture
def events(app: App, remember: RememberOne) -> dict[str, str]:
    """The ids of events about Kafka by their type, among records of other kinds about it."""
    remember("Kafka keeps messages for seven days.", entities=(Entity(name="Kafka"),))
    remember("Answer about Kafka briefly.", kind="identity", pinned=True)
    remember("Kafka is down.", kind="message", details={"type": "error"})
    kafka = Relation(source="Kafka", type="feeds", target="Ledger")
    told: dict[str, dict[str, Any]] = {
        "error": {"message": "Kafka refused the connection"},
        "command": {"command": "kafka-topics --list"},
        "file_change": {"path": "deploy/kafka.yml"},
    }
    return {
        name: remember("", kind="event", details={"type": name, **each}, relations=(kafka,)).id
        for name, each in told.items()
    }


@pytest.mark.uncounted
@pytest.mark.parametrize("query", ["", "Kafka", "Ledger"])
def test_only_events_of_the_types_are_found(app: App, events: dict[str, str], query: str) -> None:
    """B2.2, TOOLS: by words, by meaning, through the graph and in a list; in a context too, whatever is pinned."""
    if query:
        app.tasks.push(PushRequest(goal="Bring Kafka up"), app.caller())
    for look in (found, shown):
        assert look(app, query, "error") == {events["error"]}
        assert look(app, query, "command", "error") == {events["error"], events["command"]}
    assert found(app, query, "error", as_of="2030-01-01") == {events["error"]}


@pytest.mark.uncounted
@pytest.mark.parametrize("spelling", ["file_change", "File change", "FileChange"])
def test_a_type_is_meant_in_any_spelling(app: App, events: dict[str, str], spelling: str) -> None:
    assert found(app, "", spelling) == {events["file_change"]}


def test_every_stored_spelling_of_a_type_is_found(app: App, remember: RememberOne) -> None:
    both = {remember("", kind="event", details={"type": each, "path": "a.py"}).id for each in ("FileRead", "file_read")}
    assert found(app, "", "file read") == both


def test_a_type_that_is_not_there_is_refused_with_those_that_are(app: App, events: dict[str, str]) -> None:
    for look in (found, shown):
        with pytest.raises(
            InvalidRequest, match=r"^No event is of type 'deploy'; types here: command, error, file_change\.$"
        ):
            look(app, "Kafka", "deploy")


def test_a_type_that_may_come_is_not_refused(app: App) -> None:
    """An error is a type of event, also before the first one was logged."""
    assert found(app, "", "error") == set()
    with pytest.raises(InvalidRequest, match=r"^No event is of type '!\?'; no event here has a type\.$"):
        found(app, "", "!?")


def test_types_of_others_are_not_told(app: App, open_memory: Callable[..., App]) -> None:
    """S4.1: a private type is no type here."""
    bob = open_memory(agent="bob")
    secret = NewRecord(kind="event", details={"type": "payroll", "path": "x"}, visibility="private")
    bob.remember([secret], bob.caller())
    with pytest.raises(InvalidRequest, match="no event here has a type"):
        found(app, "", "deploy")
    assert len(found(bob, "", "payroll")) == 1


def test_kinds_that_leave_events_out_are_refused(app: App, events: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="event_types finds events alone"):
        found(app, "Kafka", "error", kinds=("fact",))
    assert found(app, "Kafka", "error", kinds=("fact", "event")) == {events["error"]}
