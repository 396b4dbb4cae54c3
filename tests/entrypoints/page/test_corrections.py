"""What a person does to memories: found as agents find them, corrected, and every change taken back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

import pytest

from mcp_memory.domain.model.records import Entity, NewRecord, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.entrypoints.page import versions as page_versions
from mcp_memory.entrypoints.page.record import show_record
from mcp_memory.entrypoints.page.sign_in import Visitor
from mcp_memory.entrypoints.page.surroundings import drawing_of, in_rows
from mcp_memory.entrypoints.page.visits import Screen, visit_of
from mcp_memory.entrypoints.server.identity import RequestSender, visited_by
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.status.overview import Neighbour
from tests.entrypoints.page.conftest import Beside, asked, memory_of, words_of
from tests.services.tasks.moves import pop, push


def stored(beside: Beside, *texts: str, **fields: Any) -> list[str]:
    caller = beside.memory.caller()
    return [each.id for each in beside.memory.remember([NewRecord(text=text, **fields) for text in texts], caller)]


def record(beside: Beside, record_id: str) -> Record:
    return beside.memory.inspect.visible(record_id, beside.memory.caller())


def test_a_search_ranks_as_agents_do_and_counts_nothing_as_opened(beside: Beside) -> None:
    ids = stored(
        beside, "The invoice worker listens on port 7001.", "Invoices are sent on the first.", "Tea is at four."
    )
    request = RecallRequest(query="port of the invoice worker", only_looks=True)
    ranked = [str(each["id"]) for each in beside.memory.recall(request, beside.memory.caller()).results]
    before = beside.memory.records.get(ids, beside.memory.caller().scopes)
    page = beside.person.get("/?q=port+of+the+invoice+worker").text
    places = [page.index(f'href="/ui/record/{each}"') for each in ranked]
    assert places == sorted(places)
    assert ranked[0] == ids[0]
    beside.person.get(f"/record/{ids[0]}")
    assert beside.memory.records.get(ids, beside.memory.caller().scopes) == before


def test_open_work_stands_among_what_is_found(beside: Beside) -> None:
    """W4.1: at its place, with its owner's name, and by its own words."""
    stored(beside, "The crane slot service listens on port 7001.")
    stack = push(beside.memory, "Migrate the crane <slot> service to gRPC")
    assert stack.current
    task = stack.current.id
    page = beside.person.get("/?q=migrate+the+crane+slot+service")
    at = page.text.index(f'href="/ui/task/{task}"')
    assert "Migrate the crane <slot> service to gRPC task active" in words_of(re.sub("</?mark>", "", page.text))
    assert at < page.text.index("port 7001")
    assert task not in beside.person.get("/").text
    pop(beside.memory, "It is moved.")


def test_a_search_asks_what_was_true_at_a_time(beside: Beside) -> None:
    """N4.1: of a question alone; a list stays as it is."""
    old, new = (
        stored(
            beside, f"The limit of the tide API is {limit} requests.", **{bound: beside.memory.searcher.instant(day)}
        )
        for limit, bound, day in ((60, "valid_until", "2026-01-01"), (120, "valid_from", "2026-01-01"))
    )

    def first(address: str) -> str:
        text = beside.person.get(address).text
        assert 'name="valid_at" value=' in text
        return min((*old, *new), key=lambda each: text.index(f'href="/ui/record/{each}"'))

    assert first("/?q=limit+of+the+tide+API") == new[0]
    assert first("/?q=limit+of+the+tide+API&valid_at=2025-06-01") == old[0]
    assert first("/?valid_at=2025-06-01") == first("/")
    assert "is not a time" in words_of(beside.person.get("/?q=limit&valid_at=someday+soonish"))


def test_facets_narrow_the_list(beside: Beside) -> None:
    fact, decision = (
        stored(beside, "Zebras have stripes.", tags=("savanna, dry",)),
        stored(beside, "We keep zebras outside.", kind="decision"),
    )
    of_kind = beside.person.get("/?kind=decision").text
    assert decision[0] in of_kind
    assert fact[0] not in of_kind
    by_tag = beside.person.get("/?tag=savanna%2C+dry").text
    assert fact[0] in by_tag
    assert decision[0] not in by_tag
    assert fact[0] not in beside.person.get("/?author=nobody").text
    assert fact[0] in beside.person.get("/?author=ann&status=new&since=yesterday").text
    [guardrail] = stored(beside, "Never feed the zebras.", kind="censor")
    for word in ("censor", "guardrail"):
        page = beside.person.get(f"/?kind={word}").text
        assert guardrail in page
        assert decision[0] not in page
        assert re.search(r'aria-current="true"><span class="kind k-censor">', page)
    assert "There is no kind 'wish'; the kinds are fact, decision" in words_of(beside.person.get("/?kind=wish"))


def test_pages_of_the_list_stay_where_they_are_while_others_store(beside: Beside) -> None:
    ids = stored(beside, *(f"Parcel {number} went to depot {number * 7}." for number in range(120)), tags=("parcels",))
    first = beside.person.get("/?tag=parcels")
    shown = [each for each in ids if f'href="/ui/record/{each}"' in first.text]
    stored(beside, "Parcel 9999 came late.", tags=("parcels",))
    following = first.text.partition('rel="next" href="/ui')[2].partition('"')[0].replace("&amp;", "&")
    second = beside.person.get(following)
    shown += [each for each in ids if f'href="/ui/record/{each}"' in second.text]
    assert len(shown) == 100
    assert shown[:50] != shown[50:]
    assert set(shown) == set(ids[-100:])


ACTIONS: Sequence[tuple[str, str, dict[str, str], str]] = [
    ("", "wrong", {}, "inactive"),
    ("", "pin", {}, "new"),
    ("", "promote", {}, "core"),
    ("", "retire", {}, "retired"),
    ("/edit", "edited", {"text": "Somebody counts spoons.", "tags": "till\nhours, long"}, "new"),
    ("/supersede", "superseded", {"text": "Lamps hang from hooks."}, "superseded"),
]


@pytest.mark.parametrize(("form", "action", "fields", "status"), ACTIONS, ids=[each[1] for each in ACTIONS])
def test_undo_leaves_the_export_as_it_was(
    beside: Beside, form: str, action: str, fields: dict[str, str], status: str
) -> None:
    """Each action changes the record, and its Undo gives back all of it but the history."""
    subject = {"wrong": "Hens", "pin": "Rivers", "promote": "Windows", "retire": "Poems"}.get(
        action, f"Tills ({action})"
    )
    [record_id] = stored(beside, f"{subject} are mentioned once.", tags=("till", "a, b"))
    before, was = beside.exported(), record(beside, record_id)
    beside.person.get(f"/record/{record_id}{form}")
    assert beside.person.send(f"/record/{record_id}/{action}", **fields).status_code == 200
    assert record(beside, record_id).status == status
    assert record(beside, record_id) != was
    assert beside.exported() != before
    beside.person.send("/undo")
    assert "Undone." in words_of(beside.person.page)
    assert beside.exported() == before


def test_a_record_is_marked_as_wrong_with_a_reason(beside: Beside) -> None:
    """U1.1: it is kept with the version; without one nothing is said."""
    for reason, said in (("The harbour has moved.", True), ("  ", False)):
        [record_id] = stored(beside, f"The harbour is in the north ({said}).")
        page = beside.person.get(f"/record/{record_id}")
        assert "Why? (optional; kept with the version)" in words_of(page)
        assert page.text.count(f'action="/ui/record/{record_id}/wrong"') == 1
        beside.person.send(f"/record/{record_id}/wrong", reason=reason)
        assert record(beside, record_id).status == "inactive"
        top, _, versions = words_of(beside.person.page).partition(" Versions ")
        assert (f"because: {reason}" in versions) == said
        assert (f"wrong because: {reason} " in top) == said
        assert ("because:" in versions) == said
        assert "Why it is wrong" not in words_of(beside.person.page)


def test_a_retired_record_comes_back_and_is_unpinned(beside: Beside) -> None:
    [record_id] = stored(beside, "The gate code is with Jo.", pinned=True)
    beside.person.get(f"/record/{record_id}")
    beside.person.send(f"/record/{record_id}/unpin")
    assert not record(beside, record_id).pinned
    beside.person.send(f"/record/{record_id}/retire")
    assert record(beside, record_id).status == "retired"
    beside.person.send(f"/record/{record_id}/restore")
    assert record(beside, record_id).status == "new"


def test_a_record_that_exists_takes_the_place_of_another(beside: Beside) -> None:
    old, new = stored(beside, "The lift takes four people.", "The lift takes six people since June.")
    before = beside.exported()
    page = beside.person.get(f"/record/{old}/supersede").text
    assert f'name="near" value="{new}"' in page, "the nearest are there to choose from"
    assert f'name="near" value="{old}"' not in page
    answer = beside.person.send(f"/record/{old}/superseded", near=new)
    assert answer.url.path == f"/ui/record/{new}"
    assert record(beside, old).superseded_by == new
    assert "Supersedes The lift takes four people." in words_of(answer)
    assert "Superseded by The lift takes six people since June." in words_of(beside.person.get(f"/record/{old}"))
    beside.person.page = answer
    beside.person.send("/undo")
    assert beside.exported() == before


@pytest.mark.parametrize("use", ["changed", "superseding", "depended on"])
def test_undo_keeps_the_record_that_others_have_used_since(beside: Beside, use: str) -> None:
    """The place is given back; what somebody else wrote or hung on the new record is not destroyed."""
    caller = beside.memory.caller()
    [old, other] = stored(beside, f"The kiln is cold ({use}).", f"Bob keeps a list of glazes ({use}).")
    beside.person.get(f"/record/{old}/supersede")
    beside.person.send(f"/record/{old}/superseded", text=f"Ovens are warm by nine ({use}).")
    undo, made = beside.person.page, record(beside, old).superseded_by
    assert made
    if use == "changed":
        beside.memory.revise(Revision(id=made, text=f"Ovens are warm by ten ({use})."), caller)
    elif use == "superseding":
        beside.memory.revise(Revision(id=made, supersedes=(other,)), caller)
    else:
        stored(beside, "Bread is ready at noon.", depends_on=(made,))
    was = record(beside, made)
    beside.person.page = undo
    beside.person.send("/undo")
    assert "this record stays" in words_of(beside.person.page)
    assert record(beside, old).status == "new"
    assert record(beside, made) == was
    assert record(beside, other).superseded_by == (made if use == "superseding" else None)


def test_the_record_that_replaces_another_is_searched_for(beside: Beside) -> None:
    """U1.1: with words of its own, since it need not be near; a wrong id is said beside the form, which stays."""
    [old] = stored(beside, "The orchard has ninety pear trees.")
    [new] = stored(beside, "A storm felled the whole plantation in June.")
    page = f"/record/{old}/supersede"
    assert f"near-{new}" in beside.person.get(f"{page}?q=storm+felled+plantation").text
    answer = beside.person.send(f"/record/{old}/superseded", by="r00zzz")
    assert answer.status_code == 404
    assert "There is no record of that id" in words_of(answer)
    beside.person.get(f"{page}?q=storm+felled+plantation")
    beside.person.send(f"/record/{old}/superseded", near=new)
    assert record(beside, old).superseded_by == new


def test_the_result_of_a_task_is_not_superseded_by_words(beside: Beside) -> None:
    """Only a task that ends stores one."""
    push(beside.memory, "Mend the fence")
    pop(beside.memory, "The fence stands.")
    [result] = beside.memory.records.list(
        RecordFilter(scopes=beside.memory.caller().scopes, kinds=frozenset({"result"})), "created", 1
    )
    assert "Replace s" not in words_of(beside.person.get(f"/record/{result.id}"))
    [fact] = stored(beside, "The fence is green.")
    assert "Replace s Say what holds now" in words_of(beside.person.get(f"/record/{fact}"))


def test_the_text_of_a_successor_begins_as_the_old_one_and_an_undo_leads_back(beside: Beside) -> None:
    [record_id] = stored(beside, "The cellar holds 40 barrels.")
    beside.person.get(f"/record/{record_id}/supersede")
    assert beside.person.send(f"/record/{record_id}/superseded").status_code == 400, "nothing was changed"
    beside.person.get(f"/record/{record_id}/supersede")
    answer = beside.person.send(f"/record/{record_id}/superseded", text="The cellar holds 50 barrels.")
    assert answer.url.path == f"/ui/record/{record(beside, record_id).superseded_by}"
    assert beside.person.send("/undo").url.path == f"/ui/record/{record_id}"


def test_a_record_does_not_take_its_own_place(beside: Beside) -> None:
    [record_id] = stored(beside, "The attic is empty.")
    beside.person.get(f"/record/{record_id}/supersede")
    assert beside.person.send(f"/record/{record_id}/superseded", by=record_id).status_code == 400


def test_only_what_the_person_changed_is_changed(beside: Beside) -> None:
    """Tags with commas, a text that begins with a blank line, and another line break than the browser's."""
    [record_id] = stored(beside, "\nOne line\nand another", kind="message", tags=("a, b", "c"))
    was = record(beside, record_id)
    beside.person.get(f"/record/{record_id}/edit")
    fields = beside.person.fields(f"/record/{record_id}/edited")
    assert fields["tags"] == ["a, b\nc"]
    sent = {name: value[0].replace("\n", "\r\n") for name, value in fields.items()}
    beside.person.send(f"/record/{record_id}/edited", **sent)
    assert "Nothing was changed" in words_of(beside.person.page)
    assert record(beside, record_id) == was
    beside.person.get(f"/record/{record_id}/edit")
    beside.person.send(f"/record/{record_id}/edited", **(sent | {"importance": "7", "version": str(was.version)}))
    now = record(beside, record_id)
    assert (now.importance, now.text, now.tags) == (7.0, was.text, was.tags)


def test_a_change_that_somebody_made_meanwhile_is_shown_with_both_texts(beside: Beside) -> None:
    [record_id] = stored(beside, "The bakery opens at six.")
    beside.person.get(f"/record/{record_id}/edit")
    beside.memory.revise(Revision(id=record_id, text="The bakery opens at seven."), beside.memory.caller())
    answer = beside.person.send(f"/record/{record_id}/edited", text="The bakery opens at five.")
    assert answer.status_code == 409
    assert "<del>seven</del><ins>five</ins>" in answer.text
    assert record(beside, record_id).text == "The bakery opens at seven."
    beside.person.send(f"/record/{record_id}/edited")
    assert record(beside, record_id).text == "The bakery opens at five."


def test_a_second_save_gives_back_nothing_that_somebody_else_changed(beside: Beside) -> None:
    """The form is filled with what holds now and with what the person changed, not with what it was given first."""
    [record_id] = stored(beside, "The ferry takes cars.", tags=("old",), importance=3.0, kind="decision")
    beside.person.get(f"/record/{record_id}/edit")
    theirs = Revision(id=record_id, tags=("new", "two"), importance=9.0, confidence=0.5)
    beside.memory.revise(theirs, beside.memory.caller())
    answer = beside.person.send(f"/record/{record_id}/edited", text="The ferry takes lorries.", importance="4")
    assert answer.status_code == 409
    assert "Importance 9, was 3" in words_of(answer)
    assert "Confidence 0.5, was nothing" in words_of(answer)
    beside.person.send(f"/record/{record_id}/edited")
    now = record(beside, record_id)
    assert (now.text, now.tags, now.importance) == ("The ferry takes lorries.", ("new", "two"), 4.0)
    assert now.confidence == 0.5


def test_a_text_that_somebody_else_wrote_stays_where_the_person_changed_the_tags(beside: Beside) -> None:
    [record_id] = stored(beside, "The pier is open.")
    beside.person.get(f"/record/{record_id}/edit")
    beside.memory.revise(Revision(id=record_id, text="The pier is shut."), beside.memory.caller())
    answer = beside.person.send(f"/record/{record_id}/edited", tags="pier")
    assert answer.status_code == 409
    assert "<del>open</del><ins>shut</ins>" in answer.text
    beside.person.send(f"/record/{record_id}/edited")
    now = record(beside, record_id)
    assert (now.text, now.tags) == ("The pier is shut.", ("pier",))


@pytest.mark.parametrize(
    ("form", "action", "text"),
    [("edit", "edited", "The dam holds well."), ("supersede", "superseded", "Nobody fishes there.")],
)
def test_what_only_confirms_a_record_is_no_conflict(beside: Beside, form: str, action: str, text: str) -> None:
    [record_id] = stored(beside, f"The dam holds ({form}).")
    beside.person.get(f"/record/{record_id}/{form}")
    was = record(beside, record_id)
    bob = memory_of(beside.server.data_dir, "bob")
    bob.remember([NewRecord(text=f"The dam holds ({form}).")], bob.caller())
    bob.close()
    assert record(beside, record_id).counters.confirmed == was.counters.confirmed + 1
    assert record(beside, record_id).version > was.version
    assert beside.person.send(f"/record/{record_id}/{action}", text=text).status_code == 200
    assert record(beside, record_id) != was


def test_an_end_is_named_by_its_last_day_when_it_is_given_and_when_it_is_shown(beside: Beside) -> None:
    [record_id] = stored(beside, "The bridge is closed.")
    beside.person.get(f"/record/{record_id}/edit")
    beside.person.send(f"/record/{record_id}/edited", valid_until="2031-06-30")
    assert "True until 2031-06-30" in words_of(beside.person.page)
    beside.person.get(f"/record/{record_id}/edit")
    assert beside.person.fields(f"/record/{record_id}/edited")["valid_until"] == ["2031-06-30"]


def test_a_form_that_is_refused_keeps_what_was_written(beside: Beside) -> None:
    [record_id, _] = stored(beside, "The choir meets at six.", "The choir meets at seven on Fridays.")
    beside.person.get(f"/record/{record_id}/edit")
    answer = beside.person.send(f"/record/{record_id}/edited", text="The choir meets late.", importance="much")
    assert answer.status_code == 400
    assert "'much' is no number" in words_of(answer)
    fields = beside.person.fields(f"/record/{record_id}/edited")
    assert fields["text"] == ["The choir meets late."]
    answer = beside.person.send(
        f"/record/{record_id}/edited", importance="4", text="The choir meets at seven on Fridays."
    )
    assert "has this text already" in words_of(answer)
    for name, value in (("confidence", "2"), ("text", "  "), ("valid_from", "gibberish")):
        beside.person.get(f"/record/{record_id}/edit")
        assert beside.person.send(f"/record/{record_id}/edited", **{name: value}).status_code == 400, name
    assert record(beside, record_id).text == "The choir meets at six."


def test_a_long_text_is_edited_though_each_sign_comes_as_twelve_bytes(beside: Beside) -> None:
    [record_id] = stored(beside, "Short.", kind="message")
    text = "\N{CROCODILE}" * 100_000
    beside.person.get(f"/record/{record_id}/edit")
    assert beside.person.send(f"/record/{record_id}/edited", text=text).status_code == 200
    assert record(beside, record_id).text == text


def test_superseding_too_sends_the_version_that_the_form_showed(beside: Beside) -> None:
    [record_id] = stored(beside, "The ferry leaves at noon.")
    beside.person.get(f"/record/{record_id}/supersede")
    beside.memory.revise(Revision(id=record_id, text="The ferry leaves at one."), beside.memory.caller())
    answer = beside.person.send(f"/record/{record_id}/superseded", text="The ferry leaves at two.")
    assert answer.status_code == 409
    assert "<ins>one</ins>" in answer.text
    assert record(beside, record_id).status == "new"


def test_a_record_is_erased_once_its_id_is_typed(beside: Beside) -> None:
    [record_id] = stored(beside, "The spare key is under the third pot.")
    beside.person.get(f"/record/{record_id}/erase")
    assert "the text of every context" in words_of(beside.person.page)
    answer = beside.person.send(f"/record/{record_id}/erased", typed="yes")
    assert answer.status_code == 400
    assert f"Nothing was erased: this is not {record_id}." in words_of(answer)
    assert 'value="yes" aria-invalid="true" aria-describedby="problem"' in answer.text
    assert record(beside, record_id).status == "new"
    beside.person.send(f"/record/{record_id}/erased", typed=record_id)
    assert "Erased" in words_of(beside.person.page)
    assert beside.person.get(f"/record/{record_id}").status_code == 404


def test_versions_are_word_diffs_with_author_and_time_fifty_at_once(beside: Beside) -> None:
    [record_id] = stored(beside, "The queue holds 0 orders.")
    caller = beside.memory.caller(client="ide")
    for number in range(1, 61):
        beside.memory.revise(Revision(id=record_id, text=f"The queue holds {number} orders."), caller)
    page = beside.person.get(f"/record/{record_id}")
    assert page.text.count('class="version"') == 50
    assert "<del>59</del><ins>60</ins>" in page.text
    assert "by ann (ide)" in words_of(page)
    older = page.text.partition('href="?before=')[2].partition("#")[0].replace("&amp;", "&")
    rest = beside.person.get(f"/record/{record_id}?before={older}")
    assert rest.text.count('class="version"') == 10
    assert "<del>9</del><ins>10</ins>" in rest.text
    assert "<del>0</del><ins>1</ins>" in rest.text
    assert not beside.person.has_form("/undo"), "an older change is not undone past newer ones"


def test_a_page_takes_in_as_many_versions_as_its_memory_bears(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may hold a text of a million characters."""
    monkeypatch.setattr(page_versions, "MOST_CHARACTERS", 30_000)
    [record_id] = stored(beside, "0" * 7_000)
    caller = beside.memory.caller()
    for number in range(1, 9):
        beside.memory.revise(Revision(id=record_id, text=str(number) * 7_000), caller)
    address, parts = f"/record/{record_id}", {"id": record_id}
    page = asked(beside.memory, show_record, address, parts=parts)
    assert page.count('class="version"') == 5
    older = unescape(page.partition('href="?before=')[2].partition("#")[0])
    rest = asked(beside.memory, show_record, address, query=dict(parse_qsl(f"before={older}")), parts=parts)
    assert rest.count('class="version"') == 3
    assert "<del>222" in rest
    assert "<ins>333" in rest


def test_the_newest_change_of_an_agent_is_undone_from_the_record(beside: Beside) -> None:
    [record_id] = stored(beside, "The pool is closed on Mondays.")
    beside.memory.revise(Revision(id=record_id, text="The pool is never closed."), beside.memory.caller())
    beside.person.get(f"/record/{record_id}")
    beside.person.send("/undo")
    assert record(beside, record_id).text == "The pool is closed on Mondays."


def test_a_page_shows_one_moment(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody changes the record after the page has read it, and before it reads its versions."""
    [record_id] = stored(beside, "The pond is frozen.")
    memory, visible = beside.memory, beside.memory.inspect.visible
    sender = RequestSender(grant=None)
    visitor = Visitor(sender=sender, session_id="x", is_owner=True)

    def changed_meanwhile(some_id: str, caller: Caller) -> Record:
        found = visible(some_id, caller)
        other = memory_of(beside.server.data_dir)
        other.revise(Revision(id=record_id, text="The pond has thawed."), other.caller())
        other.close()
        return found

    with visited_by(sender):
        asked = {"path": f"/record/{record_id}", "query": {}, "form": {}, "parts": {"id": record_id}, "nav": ()}
        visit = visit_of(memory, visitor, **asked)
        with monkeypatch.context() as patch:
            patch.setattr(memory.inspect, "visible", changed_meanwhile)
            page = bytes(Screen(path="/record/{id}", answer=show_record)(visit).body).decode()
    assert "The pond is frozen." in page
    assert "thawed" not in page
    assert "It has not changed since it was stored." in page
    assert record(beside, record_id).text == "The pond has thawed."


def test_what_is_only_noted_is_promoted(beside: Beside) -> None:
    """It was read out of a session, and nobody has vouched for it yet."""
    caller = beside.memory.caller()
    [record_id] = stored(beside, "The oven needs ten minutes.")
    with beside.memory.records.write(caller) as transaction:
        noted = transaction.get(record_id)
        assert noted
        transaction.update(replace(noted, status="noted"))
    before = beside.exported()
    beside.person.get(f"/record/{record_id}")
    beside.person.send(f"/record/{record_id}/promote")
    assert record(beside, record_id).status == "new"
    beside.person.send("/undo")
    assert record(beside, record_id).status == "noted"
    assert beside.exported() == before


def test_supersession_validity_and_dependents_are_told(beside: Beside) -> None:
    [base] = stored(beside, "The contract ends in 2031.", valid_until=1_956_528_000.0)
    [newer] = stored(beside, "The contract ends in 2033.", supersedes=(base,), depends_on=(base,))
    page = words_of(beside.person.get(f"/record/{base}"))
    assert f"superseded by {newer}" in page
    assert "True until 2031-12-31" in page
    stored(beside, "Rent the hall for two more years.", depends_on=(newer,))
    assert "What depends on it The contract ends in 2033." in page
    assert "What depends on these Rent the hall for two more years." in words_of(beside.person.get(f"/record/{base}"))
    assert f"Supersedes The contract ends in 2031. {base}" in words_of(beside.person.get(f"/record/{newer}"))


def test_what_is_new_is_told_by_its_source_until_it_was_seen(beside: Beside) -> None:
    stored(beside, "The clock in the hall is slow.")
    other = beside.memory.caller(client="ide")
    beside.memory.remember([NewRecord(text="The clock in the attic is fast.")], other)
    beside.memory.remember([NewRecord(text="The clock in the loft is right.")], beside.memory.caller(client="ann"))
    page = words_of(beside.person.get("/new"))
    assert page.index("ann (ide)") < page.index("The clock in the attic is fast.")
    assert "The clock in the hall is slow." in page
    assert "ann (ann)" not in page
    beside.person.send("/seen")
    assert "Nothing new: you have seen everything" in words_of(beside.person.page)
    page = words_of(beside.person.send("/seen", undo="1"))
    assert "Undone: these are new again." in page
    assert "you have not marked anything as seen yet" in page
    assert "attic" in page
    beside.person.send("/seen")
    beside.person.get("/new")
    stored(beside, "The clock in the loft is slow.")
    beside.person.get("/new")
    beside.person.send("/seen")
    page = words_of(beside.person.send("/seen"))
    assert "The clock in the loft is slow." in page
    assert "attic" not in page, "only what the last time marked is new again"
    beside.person.send("/seen")
    stored(beside, "The clock in the cellar has stopped.")
    page = words_of(beside.person.get("/new"))
    assert "cellar" in page
    assert "attic" not in page
    fields = {"csrf": beside.person.csrf, "newest": "soon"}
    assert beside.person.post("/seen", fields).status_code == 400


def test_what_agents_changed_is_new_too_and_is_taken_back_there(beside: Beside) -> None:
    """U1.1: word by word, and not what a person changed here; a change that was seen is new no more."""
    agent = replace(beside.memory.caller(), agent="skipper").in_session("deck")
    [paid, sent, private] = beside.memory.remember(
        [
            NewRecord(text="Tickets are paid by Mollie."),
            NewRecord(text="Mails go out through Postmark."),
            NewRecord(text="The skipper fears eels.", visibility="private"),
        ],
        agent,
    )
    beside.memory.revise(Revision(id=paid.id, text="Tickets are paid by Adyen."), agent)
    beside.memory.forget([sent.id], "retire", agent)
    beside.memory.revise(Revision(id=private.id, text="The skipper fears crabs."), agent)
    page = beside.person.get("/new")
    words = words_of(page)
    assert "Changed by others" in words
    assert "<del>Mollie" in page.text
    assert "<ins>Adyen" in page.text
    assert f"Mails go out through Postmark. fact new → retired {sent.id} just now by skipper Undo" in words
    assert "crabs" not in words
    [change] = {each.change for each in beside.memory.undo.latest(agent, 9) if sent.id in str(each.records)}
    page = beside.person.post("/undo", {"csrf": beside.person.csrf, "change": str(change), "back": "/new"})
    assert record(beside, sent.id).status == "new"
    beside.person.get(f"/record/{paid.id}/edit")
    beside.person.send(f"/record/{paid.id}/edited", text="Tickets are paid by Stripe.")
    words = words_of(beside.person.get("/new"))
    changed = words.partition("Changed by others")[2].partition(" Today ")[0].partition(" Yesterday ")[0]
    assert "just now by skipper undone" in changed
    assert "Mollie Adyen" in changed
    assert "Stripe" not in changed
    beside.person.send("/seen")
    assert "Changed by others" not in words_of(beside.person.page)


def test_a_long_text_is_shown_whole_when_it_is_asked_for(beside: Beside) -> None:
    [record_id] = stored(beside, f"{'a' * 90_000} end of the line")
    assert "end of the line" not in beside.person.get(f"/record/{record_id}").text
    assert "end of the line" in beside.person.get(f"/record/{record_id}?all=1").text
    beside.person.get(f"/record/{record_id}/edit")
    beside.person.send(f"/record/{record_id}/edited", tags="long")
    assert record(beside, record_id).tags == ("long",)


def test_a_record_tells_the_contexts_that_it_was_in_and_why_not(beside: Beside) -> None:
    """U1.1: with a link to its line there."""
    [given] = stored(beside, "The kayak is moored at jetty nine.")
    [excluded] = stored(beside, "The kayak is red, and leaks at the stern.")
    caller = beside.memory.caller()
    beside.memory.exclusions.exclude(excluded, caller, agent="ann")
    context = beside.memory.assemble_context(ContextRequest(query="where is the kayak moored"), caller).report
    page = beside.person.get(f"/record/{given}")
    assert re.search(r"Contexts that considered it To ann, on request, today \d\d:\d\d Given in full", words_of(page))
    assert f'href="/ui/context/{context.id}#{given}"' in page.text
    assert f'id="{given}"' in beside.person.get(f"/context/{context.id}").text
    assert "Left out: " in words_of(beside.person.get(f"/record/{excluded}"))


def test_neighbours_within_two_hops_are_drawn_and_listed(beside: Beside) -> None:
    """U1.1: few of them, and nothing of the drawing is said in it alone."""
    about = (Entity(name="Marlowe", type="person"),)
    ids = [
        stored(beside, f"Marlowe mends {thing} with {thing} glue.", entities=about)[0]
        for thing in "boots bells belts boats bowls books boxes brooms bricks bikes bags beds baths bins".split()
    ]
    page = beside.person.get(f"/record/{ids[0]}").text
    drawing = page.partition('<svg class="graph"')[2].partition("</svg>")[0]
    assert drawing.count("<path ") - 1 == page.partition('class="graph"')[2].count("through") == 12
    assert ">Marlowe</text>" in drawing
    assert 'class="graph"' not in beside.person.get(f"/record/{stored(beside, 'Alone.')[0]}").text
    assert len(drawing) < 6_000


def test_a_neighbour_is_told_by_the_goal_of_the_task_that_leads_to_it(beside: Beside) -> None:
    task = push(beside.memory, "Wind all clocks").current
    assert task
    [first], _ = stored(beside, "The key hangs by the door."), stored(beside, "The oil is on the shelf.")
    pop(beside.memory, "They tick.", task_id=task.id)
    listed = words_of(beside.person.get(f"/record/{first}"))
    assert "through Wind all clocks" in listed
    assert f"through {task.id}" not in listed


def test_a_drawing_leads_to_the_rows_of_what_is_beside_and_of_what_is_one_thing_away() -> None:
    """U1.1: the rows of one name follow each other, and what is further away stands below without a line."""
    ways = [["a", "b"], ["a"], ["c"], ["a"], [], ["t1"]]
    rows = in_rows([Neighbour(id=f"r{n}", kind="fact", text="It.", via=via) for n, via in enumerate(ways)])
    assert [each.id for each in rows] == ["r4", "r1", "r3", "r2", "r5", "r0"]
    drawing = drawing_of(rows, {"t1": "Mend the tower clock"})
    assert drawing
    assert [node.label for node in drawing.between] == ["a", "c", "Mend the tower cl…"]
    assert (drawing.rows, drawing.height) == (5, 5 * 36)
    ends = [line.rpartition(" ")[2] for line in drawing.lines]
    assert ends == ["44,30", "44,90", "44,150", *(f"220,{36 * row + 18}" for row in range(5))]
    assert drawing_of([], {}) is None


def test_a_record_that_is_near_and_depended_on_is_listed_once_with_both_reasons(beside: Beside) -> None:
    """U1.1: where it depends on it, or is depended on; each other one in *Near it*."""
    [ground] = stored(beside, "Kiln 7 is fired with Zirkonium.")
    [stands] = stored(beside, "Glaze for Zirkonium dries a day.", depends_on=(ground,))
    [other] = stored(beside, "Zirkonium comes on Mondays.")
    for page, above in ((stands, ground), (ground, stands)):
        shown = beside.person.get(f"/record/{page}").text
        assert shown.count(f'class="text" href="/ui/record/{above}"') == 1
        assert shown.count(f'class="text" href="/ui/record/{other}"') == 1
        footing, near = words_of(shown).split("Near it")
        assert f"through Zirkonium {above}" in footing
        assert f"through Zirkonium {other}" in near


def test_a_later_undo_of_a_supersession_takes_its_record_away_too(beside: Beside) -> None:
    """U1.1: from the record's page, when the notice is gone; the export is what it was."""
    [record_id] = stored(beside, "The barge leaves at nine.")
    before = beside.exported()
    beside.person.get(f"/record/{record_id}/supersede")
    beside.person.send(f"/record/{record_id}/superseded", text="The barge leaves at ten.")
    beside.person.get(f"/record/{record_id}")
    beside.person.send("/undo")
    assert "Undone." in words_of(beside.person.page)
    assert beside.exported() == before


def test_signs_that_a_field_does_not_show_are_told_beside_it(beside: Beside) -> None:
    """S3.1: the field itself must give back what it was given."""
    [record_id] = stored(beside, "Open gnp\u202eexe, \u200b\u200bnow. It says ⟦U+2066⟧.")
    page = words_of(beside.person.get(f"/record/{record_id}/edit"))
    assert "does not show, or that reverse the text around them: U+202E, U+200B." in page
    [plain] = stored(beside, "Nothing hides here: é.")
    assert "does not show" not in words_of(beside.person.get(f"/record/{plain}/edit"))
