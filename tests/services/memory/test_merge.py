"""Another memory's records, added by what they say."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.text.times import iso_exact
from mcp_memory.entrypoints.server.record_answers import show_account
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.transfer import Origin, Piece
from mcp_memory.services.memory.merge import Merged, Merger
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.conftest import Clock

OpenMemory = Callable[..., App]


@pytest.fixture
def other(open_memory: OpenMemory) -> App:
    """The memory that the records come from."""
    return open_memory(folder="other", agent="bob")


def pieces(app: App) -> list[Piece]:
    return [piece for piece in app.records.transfer().leave() if not isinstance(piece, Origin)]


def remember(app: App, *items: NewRecord) -> list[str]:
    return [each.id for each in app.remember(items, app.caller())]


def merge(app: App, other: App) -> Merged:
    return Merger(app.records, app.now, "ann")(pieces(other))


def texts(app: App) -> dict[str, str]:
    """Ids of what is stored, by text."""
    found = app.recall(RecallRequest(include_inactive=True, limit=50, detail="full"), app.caller()).results
    return {str(each["text"]): str(each["id"]) for each in found}


def test_what_both_know_stays_as_it_is_here_and_a_second_run_stores_nothing(app: App, other: App) -> None:
    """S7.1: equal ids mean nothing, equal texts do."""
    [mine] = remember(app, NewRecord(text="The cat sleeps.", importance=5))
    remember(other, NewRecord(text="The dog barks.", importance=3, tags=("pets",)), NewRecord(text="The cat sleeps."))
    assert merge(app, other) == Merged(stored=1, known=1, logged=0, hidden=0, tasks=0)
    stored = texts(app)
    assert stored["The cat sleeps."] == mine
    dog = show_account(app.inspect.record(stored["The dog barks."], app.caller()), app.caller())
    assert (dog["importance"], dog["tags"], dog["agent"]) == (3, ["pets"], "bob")
    before = app.records.revision()
    assert merge(app, other) == Merged(stored=0, known=2, logged=0, hidden=0, tasks=0)
    assert app.records.revision() == before


def test_entities_and_relations_come_along(app: App, other: App) -> None:
    """S7.1."""
    anna = Entity(name="Anna", type="person", properties={"aliases": ["Annie"]})
    relation = Relation(source="Anna", type="works_at", target="ACME", weight=0.5)
    remember(other, NewRecord(text="Anna works at ACME.", entities=(anna,), relations=(relation,)))
    merge(app, other)
    entities, relations = app.records.links(texts(app)["Anna works at ACME."])
    assert anna in entities
    assert list(relations) == [relation]


@pytest.mark.uncounted
def test_records_name_each_other_by_their_ids_here(app: App, other: App) -> None:
    """S7.1, R8: what replaced one, and what it was extracted from; a name of what did not come is dropped."""
    remember(app, NewRecord(text="Something else."))
    [old] = remember(other, NewRecord(text="Invoices are due in May."))
    [told] = remember(other, NewRecord(text="We sat together.", kind="episode"))
    remember(
        other,
        NewRecord(text="Invoices are due in June.", supersedes=(old,), details={"source": told}),
        NewRecord(text="Lost.", details={"source": "r0000zz"}),
    )
    assert merge(app, other).stored == 4
    here = texts(app)
    replaced = show_account(app.inspect.record(here["Invoices are due in May."], app.caller()), app.caller())
    assert replaced["superseded_by"] == here["Invoices are due in June."]
    assert replaced["status"] == "superseded"
    stamp = {"imported_at": iso_exact(app.now()), "imported_by": "ann"}
    told_here = app.inspect.record(here["Invoices are due in June."], app.caller()).record.details
    assert told_here == {"source": here["We sat together."], **stamp}
    assert app.inspect.record(here["Lost."], app.caller()).record.details == stamp
    assert merge(app, other).stored == 0


def test_what_was_corrected_here_does_not_come_back(app: App, other: App) -> None:
    """S7.1, R8."""
    [mine] = remember(app, NewRecord(text="Port 80."))
    app.revise(Revision(id=mine, text="Port 443."), app.caller())
    remember(other, NewRecord(text="Port 80."))
    assert merge(app, other) == Merged(stored=0, known=1, logged=0, hidden=0, tasks=0)


def test_logs_tasks_and_open_branches_stay_behind(app: App, other: App) -> None:
    """S7.1: a branch shows what it holds once it is closed; what was learnt below a task comes without it."""
    me = other.caller()
    remember(other, NewRecord(text="Hello.", kind="message", role="user"))
    other.tasks.push(PushRequest(goal="Root"), me)
    remember(other, NewRecord(text="Learnt at the root."))
    other.tasks.push(PushRequest(goal="Try it", branch=True), me)
    other.tasks.push(PushRequest(goal="Deeper"), me)
    remember(other, NewRecord(text="Seen in the branch."))
    assert merge(app, other) == Merged(stored=1, known=0, logged=1, hidden=1, tasks=3)
    for _ in range(2):
        other.tasks.pop(PopRequest(result="Done."), me)
    assert merge(app, other).stored == 3
    results = {"Deeper → Done.", "Try it → Done."}
    assert texts(app).keys() == {"Learnt at the root.", "Seen in the branch.", *results}
    assert not app.tasks.tree(app.caller())


def test_what_was_erased_here_does_not_come_back(app: App, other: App) -> None:
    """G2.1: neither as a text, nor as a statement about something."""
    said = "The safe of the harbour office opens with 4711."
    remember(other, NewRecord(text=said))
    remember(other, NewRecord(text="It is small.", entities=(Entity(name="Safe", properties={"note": [said]}),)))
    remember(other, NewRecord(text="It is red.", relations=(Relation(source="Safe", type=said, target="Key"),)))
    [here] = remember(app, NewRecord(text=said))
    app.forget([here], "erase", app.caller())
    assert merge(app, other).erased == 3
    assert said not in texts(app)


def test_nothing_is_stored_where_a_piece_cannot_be_read(app: App, other: App) -> None:
    """S7.1, R1."""
    remember(other, NewRecord(text="One."))

    def reading() -> Iterator[Piece]:
        yield from pieces(other)
        raise InvalidRequest("Line 7 is wrong.")

    with pytest.raises(InvalidRequest, match="Line 7"):
        Merger(app.records, app.now, "ann")(reading())
    assert texts(app) == {}


def test_a_record_that_is_there_twice_is_refused(app: App, other: App) -> None:
    """S7.1: and nothing of it is kept."""
    remember(other, NewRecord(text="The dog barks."))
    with pytest.raises(InvalidRequest, match="twice"):
        Merger(app.records, app.now, "ann")(pieces(other) * 2)
    assert texts(app) == {}


def test_an_episode_of_long_ago_is_new_where_it_is_imported(app: App, other: App, clock: Clock) -> None:
    """P4.2: its dates stay."""
    remember(other, NewRecord(text="We sat together.", kind="episode"))
    remember(app, NewRecord(text="Something else."))
    clock.advance(days=4_000)
    merge(app, other)
    assert app.maintain.due().records == 0
    [brought] = [app.inspect.record(each, app.caller()) for text, each in texts(app).items() if "together" in text]
    assert iso_exact(brought.record.created_at).startswith("2026")
    clock.advance(days=90)
    assert app.maintain.due().archived == 1


def test_records_of_a_project_that_was_renamed_here_come_into_it(app: App, other: App) -> None:
    """P4.1, P4.2: private ones, too; a person's own are in no project; and what has the name by now keeps it."""
    items = [NewRecord(text=f"The dog is {each}.", visibility=each) for each in ("shared", "private", "user")]
    remember(other, *items, NewRecord(text="The cat sleeps."))
    remember(app, NewRecord(text="The cat sleeps."))
    app.projects.rename("test", "pets")
    merger = Merger(app.records, app.now, "ann", app.trust.present_unless_used)
    assert merger(pieces(other)) == Merged(stored=3, known=1, logged=0, hidden=0, tasks=0)
    bob = replace(app.caller(), agent="bob")
    found = app.records.list(RecordFilter(scopes=bob.scopes), "created", 10)
    assert {each.text for each in found} == {*(item.text for item in items), "The cat sleeps."}
    assert {each.namespace for each in found} == {"pets"}
    known = replace(bob, namespace="test", renamed_at=app.now())
    app.remember([NewRecord(text="The bird sings.")], known)
    assert merger(pieces(other)).stored == 3


def test_an_empty_memory_takes_all_in_as_it_was_and_a_used_one_merges(app: App, other: App) -> None:
    """D3.1: the importer is asked for where it counts."""
    kept = remember(other, NewRecord(text="The port is 5432."), NewRecord(text="The host is db1."))
    assert app.moving.enter(pieces(other), lambda: pytest.fail("nobody imports")) is None
    assert [*app.moving.leave()][1:] == [*other.moving.leave()][1:]
    assert app.moving.enter(pieces(other), lambda: "ann") == Merged(stored=0, known=2, logged=0, hidden=0, tasks=0)
    [_, one] = app.moving.select(kept[1:])
    assert getattr(one, "record").text == "The host is db1."  # noqa: B009 - a piece of some kind
