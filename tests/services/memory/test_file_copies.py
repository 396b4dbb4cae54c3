"""File copies: an edit, an old copy, a conflict and another memory's copy are told apart."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, Json, NewRecord, Record, Relation
from mcp_memory.errors import Conflict
from mcp_memory.services.memory.file_copies import (
    COPY_ID,
    Compared,
    Comparison,
    FileCopy,
    HeldCopy,
    Taken,
    digest_of,
    in_order,
)
from mcp_memory.services.memory.follow_files import FileSection
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.tasks.task_stack import PushRequest

PORT, TAB = "The port is 8081.", "Indent by two spaces."


def compare(app: App, *copies: FileCopy) -> Comparison:
    return app.file_copies.compare(copies, app.caller())


def one(app: App, copy: FileCopy) -> Compared:
    [compared] = compare(app, copy).compared
    return compared


def held(app: App) -> dict[str, HeldCopy]:
    """What a folder of the project would hold, by text."""
    return {each.item.text: each for each in compare(app).held}


def written(app: App, text: str = PORT) -> FileCopy:
    """The file of a record as an export writes it."""
    copy = held(app)[text]
    return FileCopy(name="facts/x.md", id=copy.id, base=digest_of(copy.item), item=copy.item)


def edited(copy: FileCopy, **fields: Any) -> FileCopy:
    return replace(copy, item=in_order(replace(copy.item, **fields)))


def take(app: App, *copies: FileCopy, retired: tuple[str, ...] = ()) -> Taken:
    return app.file_copies.take(compare(app, *copies).compared, retired, app.caller())


def record(app: App, record_id: str) -> Record:
    return app.records.get([record_id], app.caller().scopes)[record_id]


def remember(app: App, *items: NewRecord, session: str = "work") -> list[str]:
    return [each.id for each in app.remember(items, app.caller(session), embed=False)]


def test_shared_records_that_hold_have_copies(app: App) -> None:
    old, _, gone, *_ = remember(
        app,
        NewRecord(text="The port is 80."),
        NewRecord(
            text=PORT,
            tags=("net",),
            importance=3,
            occurred_at=1.75,
            valid_until=90_000.5,
            details={"source": "RFC 9728", "task": "t000001", "imported_at": "now"},
        ),
        NewRecord(text="Gone."),
        NewRecord(text="Mine.", visibility="private"),
        NewRecord(text="Everywhere.", visibility="user"),
        NewRecord(text="Said.", kind="message", role="user"),
    )
    remember(app, NewRecord(text="The port is 8080.", supersedes=(old,)))
    app.forget([gone], "retire", app.caller())
    app.follow_files("/app", {"CLAUDE.md": [FileSection(heading="", text=TAB)]}, app.caller())
    app.tasks.push(PushRequest(goal="Try Rust", branch=True), app.caller("work"))
    remember(app, NewRecord(text="Only in the branch."))
    assert held(app).keys() == {PORT, "The port is 8080."}
    item = held(app)[PORT].item
    assert (item.tags, item.importance, item.occurred_at, item.valid_until) == (("net",), 3.0, 1.0, 90_000.0)
    assert item.details == {"source": "RFC 9728"}


def test_an_edit_makes_a_revision_and_keeps_the_old_version(app: App) -> None:
    [record_id] = remember(app, NewRecord(text=PORT, details={"reasons": ["old clients"]}))
    copy = written(app)
    assert one(app, copy).state == "same"
    more = edited(copy, text="The port is 9090.", tags=("net",), details={"reasons": ["new clients"]})
    assert one(app, more).state == "edited"
    taken = take(app, more)
    assert (taken.revised, taken.stored, taken.retired) == ((record_id,), (), ())
    now = record(app, record_id)
    assert (now.text, now.tags, now.details) == ("The port is 9090.", ("net",), {"reasons": ["new clients"]})
    [version] = app.records.versions([record_id])[record_id]
    assert (version.before["text"], version.reason) == (PORT, "read from its copy")
    assert one(app, more).state == "same"
    assert one(app, copy).state == "older"
    app.undo(taken.changes[0], app.caller())
    assert record(app, record_id).text == PORT


def test_a_change_on_both_sides_is_refused_and_changes_nothing(app: App) -> None:
    [record_id] = remember(app, NewRecord(text=PORT))
    copy = written(app)
    app.revise(Revision(id=record_id, text="The port is 8443."), app.caller())
    assert one(app, copy).state == "older"
    both = one(app, edited(copy, text="The port is 9090."))
    assert (both.state, both.revision) == ("refused", None)
    assert both.why.startswith(f"Record {record_id} changed in the memory as well; nothing was taken. `mcp-memory show")
    compared = compare(app, written(app, "The port is 8443.")).compared
    stale = compare(app, edited(written(app, "The port is 8443."), text="The port is 9090.")).compared
    app.revise(Revision(id=record_id, text="The port is 22."), app.caller())
    with pytest.raises(Conflict, match="changed by"):
        app.file_copies.take(stale, (), app.caller())
    assert compared[0].state == "same"
    assert record(app, record_id).text == "The port is 22."


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"kind": "decision"}, "No file changes kind of a record"),
        ({"confidence": None}, "No file changes confidence of"),
        ({"details": {}}, "No file changes details.name of"),
        ({"entities": (Entity(name="Anna"),)}, "No file changes entities, relations of"),
        ({"text": TAB}, "has this text already (`mcp-memory show r"),
        ({"text": "<private>x</private>"}, "text is private"),
    ],
)
def test_what_no_file_changes_is_said(app: App, fields: dict[str, Any], named: str) -> None:
    details: dict[str, Json] = {"name": "x"}
    remember(app, NewRecord(text=PORT, confidence=0.5, details=details), NewRecord(text=TAB))
    refused = one(app, edited(written(app), **fields))
    assert (refused.state, refused.revision) == ("refused", None)
    assert named in refused.why


def test_secrets_are_taken_out_of_an_edit(app: App) -> None:
    [record_id] = remember(app, NewRecord(text=PORT))
    secret = edited(written(app), text="The token is ghp_" + "a1B2" * 9 + ".")
    take(app, secret)
    assert "ghp_" not in record(app, record_id).text
    assert one(app, secret).state == "same"


def test_a_file_without_an_id_makes_a_record_once(app: App) -> None:
    new = FileCopy(name="new.md", id="", base="", item=NewRecord(text=PORT, kind="decision"))
    compared = compare(app, new).compared
    assert compared[0].state == "new"
    assert app.file_copies.news(compared, app.caller()) == {PORT}
    [record_id] = take(app, new).stored
    assert record(app, record_id).kind == "decision"
    assert one(app, new).state == "same"
    more = one(app, edited(new, tags=("js",)))
    assert (more.state, more.why[:32]) == ("refused", f"Record {record_id} says this already")
    old = written(app)
    taken = take(app, new, retired=(record_id,))
    assert (taken.stored, taken.retired) == ((), (record_id,))
    again = compare(app, new).compared
    assert (again[0].state, app.file_copies.news(again, app.caller())) == ("new", set())
    assert one(app, old).state == "gone"


def test_what_was_erased_is_gone_from_the_folder_too(app: App) -> None:
    [record_id] = remember(app, NewRecord(text=PORT))
    copy = written(app)
    app.forget([record_id], "erase", app.caller())
    assert one(app, copy).state == "gone"
    assert take(app, copy).stored == ()
    words = "The key of the north gate lies below the mat, as ever. "
    [key, _] = remember(app, NewRecord(text=words), NewRecord(text=TAB))
    copy = written(app, TAB)
    app.forget([key], "erase", app.caller())
    quoting = edited(copy, text=f"{words} Mind it."), edited(replace(copy, id="", base=""), text=words)
    quoted, whole = compare(app, *quoting).compared
    assert (quoted.state, quoted.why[:30], whole.state) == ("refused", "It says what was erased here; ", "gone")


def test_two_memories_keep_one_folder(app: App, open_memory: Callable[..., App]) -> None:
    """Bob's memory takes Ann's copies under their ids, follows what she changes, and keeps what he changed."""
    bob = open_memory(folder="bob", agent="bob")
    anna = NewRecord(
        text="Anna keeps the ports.",
        kind="decision",
        entities=(Entity(name="Anna", type="person", properties={"since": 2.0}), Entity(name="Bo")),
        relations=(Relation(source="Anna", type="knows", target="Bo", weight=0.5),),
        confidence=0.7,
        outcome="success",
        pinned=True,
        speaker="Cleo",
        occurred_at=1_700_000_000.5,
        valid_from=1_600_000_000.0,
        details={"reasons": ["old clients"]},
    )
    hers = remember(app, anna, NewRecord(text=PORT))
    remember(bob, NewRecord(text="His own."))
    first = [written(app, anna.text), written(app)]
    taken = take(bob, *first)
    assert [held(bob)[each.item.text] for each in first] == [
        HeldCopy(id=each.id, record_id=his, item=each.item) for each, his in zip(first, taken.stored, strict=True)
    ]
    app.revise(Revision(id=hers[1], text="The port is 8443."), app.caller())
    second = written(app, "The port is 8443.")
    assert take(bob, second).revised == (taken.stored[1],)
    assert one(bob, first[1]).state == "older"
    his = record(bob, taken.stored[1])
    bob.revise(Revision(id=his.id, text="The port is 22.", version=his.version), bob.caller())
    app.revise(Revision(id=hers[1], text="The port is 9090."), app.caller())
    assert one(bob, written(app, "The port is 9090.")).state == "refused"


def test_an_id_that_two_records_name_is_the_first_ones(app: App) -> None:
    named: dict[str, Json] = {COPY_ID: "r00003m-4f2a1c"}
    remember(
        app,
        NewRecord(text=PORT, details=named),
        NewRecord(text=TAB, details=named),
        NewRecord(text="Out.", details={COPY_ID: "../../x"}),
    )
    ids = [each.id for each in held(app).values()]
    assert ids[0] == "r00003m-4f2a1c"
    assert len(set(ids)) == 3
    assert all(each.record_id in each.id for each in [*held(app).values()][1:])


def test_a_text_that_both_memories_knew_is_known_by_what_it_said(app: App, open_memory: Callable[..., App]) -> None:
    bob = open_memory(folder="bob", agent="bob")
    same = NewRecord(text=PORT, occurred_at=5.0)
    remember(app, same)
    [his] = remember(bob, same)
    assert one(bob, written(app)).state == "same"
    assert take(bob, edited(written(app), text="The port is 9090.")).revised == (his,)
