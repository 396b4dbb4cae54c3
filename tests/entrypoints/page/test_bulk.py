"""Changes of many records at once: seen before, made in one write, taken back as a whole; and a selection as a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.entrypoints.page import bulk
from mcp_memory.entrypoints.transfer.memory_file import MemoryFile
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.revise import Revision
from tests.entrypoints.page.conftest import Beside, asked, memory_of, words_of
from tests.entrypoints.page.test_corrections import record, stored
from tests.services.tasks.moves import push


def crates(beside: Beside, tag: str) -> list[str]:
    return stored(beside, *(f"Crate {number} of {tag} holds {number} jars." for number in range(3)), tags=(tag,))


@pytest.mark.parametrize(
    ("do", "title", "done", "of_each"),
    [
        ("retire", "Retire 2 records?", "Retired 2 records", "retired"),
        ("wrong", "Mark 2 records as wrong?", "Marked 2 records as wrong", "inactive"),
        ("promote", "Promote 2 records?", "Promoted 2 records", "core"),
        ("pin", "Pin 2 records?", "Pinned 2 records", "new"),
    ],
)
def test_a_selection_is_changed_in_one_write_after_it_was_shown_and_undone_whole(
    beside: Beside, do: str, title: str, done: str, of_each: str
) -> None:
    """U1.1: the export is byte-equal after the undo, but for history."""
    ids = crates(beside, f"yard {do}")
    before = beside.exported()
    beside.person.get(f"/?tag=yard+{do}")
    beside.person.send("/bulk", ids=ids[:2], do=do)
    assert title in words_of(beside.person.page)
    assert beside.exported() == before
    page = beside.person.send("/bulk/made")
    assert done in words_of(page)
    assert "Undo the whole change" in words_of(page)
    shown = [record(beside, each) for each in ids]
    assert [each.status for each in shown] == [of_each, of_each, "new"]
    assert [each.pinned for each in shown] == [do == "pin", do == "pin", False]
    assert len({beside.memory.records.latest_versions(each, 1)[0].write for each in ids[:2]}) == 1
    beside.person.get(f"/record/{ids[0]}")
    assert "Undo this change, of 1 other record too" in words_of(beside.person.page)
    beside.person.send("/undo")
    assert beside.exported() == before


def test_what_was_taken_out_comes_back_at_once_and_what_is_pinned_is_unpinned(beside: Beside) -> None:
    ids = crates(beside, "depot")
    caller = beside.memory.caller()
    beside.memory.forget(ids[:2], "retire", caller)
    before = beside.exported()
    beside.person.get("/?tag=depot&status=retired")
    page = beside.person.send("/bulk", ids=ids, do="restore")
    assert "Restore 2 records?" in words_of(page)
    assert "1 of those that were chosen stay as they are" in words_of(page)
    beside.person.send("/bulk/made")
    assert {record(beside, each).status for each in ids} == {"new"}
    beside.person.send("/undo")
    assert beside.exported() == before
    beside.memory.revise(Revision(id=ids[2], pinned=True), caller)
    beside.person.get("/?tag=depot&pinned=yes")
    assert ids[2] in beside.person.page.text
    beside.person.send("/bulk", ids=ids[2:], do="unpin")
    beside.person.send("/bulk/made")
    assert not record(beside, ids[2]).pinned


def test_pinned_records_are_found_together_whatever_they_are(beside: Beside) -> None:
    caller = beside.memory.caller()
    [pinned, plain] = stored(beside, "The gate code changes in May.", "The gate is green.")
    [said] = stored(beside, "Remember the gate.", kind="message")
    for each in (pinned, said):
        beside.memory.revise(Revision(id=each, pinned=True), caller)
    page = beside.person.get("/?pinned=yes").text
    assert pinned in page
    assert said in page
    assert plain not in page
    assert '<option value="yes" selected>' in page


def test_what_is_wrong_is_called_so(beside: Beside) -> None:
    [record_id] = stored(beside, "The moat is full of wine.", tags=("moat",))
    beside.memory.revise(Revision(id=record_id, feedback="wrong"), beside.memory.caller())
    listed = beside.person.get("/?tag=moat&status=inactive").text
    assert '<span class="status">wrong</span>' in listed
    assert '<option value="inactive" selected>wrong (1)</option>' in listed
    page = beside.person.get(f"/record/{record_id}").text
    assert '<span class="status">wrong</span>' in page
    assert "inactive" not in page.replace('value="inactive"', "")


def test_all_that_pass_a_filter_are_changed_on_every_page(beside: Beside) -> None:
    ids = stored(beside, *(f"Imported fact {number} about {number * 3}." for number in range(130)), tags=("import",))
    beside.person.get("/?tag=import")
    beside.person.send("/bulk", do="retire")
    assert "Nothing selected" in words_of(beside.person.page)
    beside.person.get("/?tag=import")
    fields = beside.person.fields("/bulk") | {"all": "1", "do": "retire"}
    answer = beside.person.post("/bulk?tag=import", fields)
    assert "Retire 130 records?" in words_of(answer)
    beside.person.page = answer
    beside.person.send("/bulk/made")
    assert {record(beside, each).status for each in ids} == {"retired"}


def test_a_selection_of_what_is_so_already_has_nothing_to_change(beside: Beside) -> None:
    ids = crates(beside, "quay")
    beside.person.get("/?tag=quay")
    page = beside.person.send("/bulk", ids=ids, do="unpin")
    assert "Unpin 0 records?" in words_of(page)
    assert "3 of those that were chosen stay as they are" in words_of(page)
    assert not beside.person.has_form("/bulk/made")


def test_a_selection_is_changed_at_once_by_a_button(beside: Beside) -> None:
    """U1.1: of what is so already nothing is changed, and the notice tells the number of the others."""
    ids = crates(beside, "jetty")
    beside.memory.revise(Revision(id=ids[0], pinned=True), beside.memory.caller())
    before = beside.exported()
    for chosen, told in ((ids, "Pinned 2 records."), (ids[:1], "Nothing was changed: it was like that already.")):
        page = beside.person.get("/?tag=jetty").text
        assert 'formaction="/ui/bulk/made"' in page
        assert 'value="restore" formaction' not in page, "what is listed is there"
        fields = beside.person.fields("/bulk") | {"ids": chosen, "do": "pin"}
        beside.person.page = beside.person.post("/bulk/made", fields)
        assert told in words_of(beside.person.page)
        if len(chosen) > 1:
            assert beside.person.page.url.query.startswith(b"tag=jetty")
            beside.person.send("/undo")
            assert beside.exported() == before


def test_what_changed_after_the_list_was_shown_is_not_changed_unseen(beside: Beside) -> None:
    for do in ("retire", "wrong"):
        [record_id] = stored(beside, f"The hall is painted blue, then {do}.", tags=(f"hall {do}",))
        beside.person.get(f"/?tag=hall+{do}")
        beside.person.send("/bulk", ids=[record_id], do=do)
        beside.memory.revise(Revision(id=record_id, text=f"It is green, then {do}."), beside.memory.caller())
        assert beside.person.send("/bulk/made").status_code == 409
        assert record(beside, record_id).status == "new"


def test_a_form_that_names_no_change_or_too_much_is_refused(beside: Beside) -> None:
    fields = {"csrf": beside.person.csrf, "back": "/", "seen": "999999"}
    assert "Choose what to do first" in words_of(beside.person.post("/bulk", {**fields, "ids": "r00001a"}))
    [record_id] = stored(beside, "The shed has one window.", tags=("window",))
    beside.person.get("/?tag=window")
    answer = beside.person.send("/bulk", ids=[record_id])
    assert answer.status_code == 400
    assert "Choose what to do first" in words_of(answer)
    assert record(beside, record_id).status == "new"
    many = {**fields, "do": "pin", "ids": ["r00001a"] * 501}
    assert "more than 500 records" in words_of(beside.person.post("/bulk/made", many))


def test_only_what_the_agent_sees_is_changed_or_exported_from_a_list(beside: Beside) -> None:
    """Ids follow each other: a form may name any, also a record of a branch that another agent has open."""
    bob = memory_of(beside.server.data_dir, "bob")
    push(bob, "Try another mill", branch=True)
    [hidden] = [each.id for each in bob.remember([NewRecord(text="The mill grinds rye.")], bob.caller())]
    bob.close()
    [own] = stored(beside, "The mill is shut in May.")
    fields = {"csrf": beside.person.csrf, "back": "/", "seen": "999999", "do": "wrong"}
    for action in ("/bulk", "/export"):
        answer = beside.person.post(action, {**fields, "ids": [hidden, own]})
        assert "The mill is shut in May." in answer.text
        assert "rye" not in answer.text
    for action in ("/bulk", "/bulk/made"):
        answer = beside.person.post(action, {**fields, "ids": [hidden]})
        assert answer.status_code == 404
        assert "nothing was changed" in words_of(answer)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[App]:
    """An empty memory."""
    memory = memory_of(tmp_path / "data")
    yield memory
    memory.close()


def test_a_selection_leaves_as_a_file_that_an_empty_memory_takes_in(beside: Beside, elsewhere: App) -> None:
    """U1.1: as `mcp-memory export` writes it, without what is not selected."""
    [old] = stored(beside, "The pump is at Mill Lane.", tags=("pump",))
    said = NewRecord(
        text="The pump is at Quay Road; Ada runs it.",
        tags=("pump",),
        supersedes=(old,),
        depends_on=(old,),
        entities=(Entity(name="Ada", type="person"), Entity(name="pump", type="thing")),
        relations=(Relation(source="Ada", type="runs", target="pump"),),
    )
    [new] = [each.id for each in beside.memory.remember([said], beside.memory.caller())]
    beside.person.get("/?tag=pump&status=superseded")
    csrf = beside.person.csrf
    one = beside.person.post("/export", {"csrf": csrf, "ids": [old]})
    assert one.headers["content-disposition"] == 'attachment; filename="memories.jsonl"'
    assert "Quay Road" not in one.text
    assert new not in one.text
    listed = beside.person.post("/export?tag=pump", {"csrf": csrf, "ids": [old], "all": "1"})
    assert "Quay Road" in listed.text
    assert "Mill Lane" not in listed.text, "what was superseded is not listed"
    both = beside.person.post("/export?tag=pump", {"csrf": csrf, "ids": [old, new]})
    file = MemoryFile(BytesIO(both.content), "memories.jsonl")
    elsewhere.records.transfer().enter(file.pieces(lambda done, total: None))
    where = RecordFilter(scopes=elsewhere.caller().scopes)
    came = elsewhere.records.list(where, "created", 10)
    here = beside.memory.records.get([old, new], beside.memory.caller().scopes)
    assert {each.id for each in came} == {old, new}
    for each in came:
        assert replace(each, changed=0, check=()) == replace(here[each.id], changed=0, check=())
    assert {each.name for each in elsewhere.records.links(new)[0]} >= {"Ada", "pump"}


def test_a_file_has_an_end(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many records, and as many bytes."""
    ids = crates(beside, "pier")
    monkeypatch.setattr(bulk, "MOST_EXPORTED", 3)
    assert len(exported_here(beside, ids)) > 1_000
    for bound in ("MOST_EXPORTED", "EXPORT_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(bulk, bound, 2)
            with pytest.raises(InvalidRequest, match="too much for one file"):
                exported_here(beside, ids)


def exported_here(beside: Beside, ids: Sequence[str]) -> str:
    """The file of all that is tagged "pier", made in this process."""
    return asked(beside.memory, bulk.export, query={"tag": "pier"}, form={"all": "1", "ids": ids})
