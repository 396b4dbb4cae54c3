"""A person settles what waits for a review, side by side, with the checks and the undo that agents have."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.reviews import Review, ReviewKind, Way
from mcp_memory.entrypoints.page.review import in_words
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.review.enqueue import enqueue
from mcp_memory.services.review.settle import Settled, Settling
from tests.contract.conftest import BLANK
from tests.entrypoints.page.conftest import Beside, words_of


def group_of(beside: Beside, *texts: str) -> tuple[str, list[str]]:
    """A group that waits with records of these texts, and their ids."""
    caller = beside.memory.caller()
    ids = [beside.memory.remember([NewRecord(text=text)], caller, advise=False)[0].id for text in texts]
    with beside.memory.records.write() as transaction:
        enqueue("contradictions", ids[::-1], "The first may contradict.", time.time(), transaction)
    waiting = [each.review for each in beside.memory.reviews.waiting(caller) if set(each.review.record_ids) & {*ids}]
    assert waiting, "they contradict or repeat each other"
    return waiting[0].id, ids


def marked(page: str, record_id: str) -> tuple[str, str] | None:
    """The group that the mark beside a record in a list leads to, and its words; None without one."""
    [row] = [each for each in page.split("<li ") if f'<a class="text" href="/ui/record/{record_id}"' in each]
    found = re.search(r'href="/ui/review\?group=(\w+)#\1"[^>]*><svg.*?</svg>([^<]+)</a>', row)
    return (found[1], found[2]) if found else None


def statuses(beside: Beside, ids: list[str]) -> list[str]:
    found = beside.memory.records.get(ids, beside.memory.caller().scopes)
    return [found[each].status for each in ids]


def waits(beside: Beside, group: str) -> bool:
    return group in [each.review.id for each in beside.memory.reviews.waiting(beside.memory.caller())]


def test_a_group_is_shown_side_by_side_with_what_differs(beside: Beside) -> None:
    group, ids = group_of(beside, "The mill grinds 20 tons a day.", "The mill grinds 35 tons a day.")
    page = beside.person.get("/review")
    assert "These may contradict each other" in words_of(page)
    assert page.text.count('class="card"') >= 2
    assert "<del>20</del><ins>35</ins>" in page.text or "<del>35</del><ins>20</ins>" in page.text
    beside.person.send(f"/review/{group}", holds=ids[1])
    says = f"“The mill grinds 20 tons a day.” ({ids[0]}) now ranks below “The mill grinds 35 tons a day.” ({ids[1]})."
    assert says in words_of(beside.person.page)
    assert statuses(beside, ids) == ["superseded", "new"]


def test_what_waits_is_marked_in_every_list_and_counted_once(beside: Beside) -> None:
    """U1.1: the mark leads to the group; of two groups to the more urgent one. Settled, it is gone."""
    group, ids = group_of(beside, "The ferry leaves at 7.", "The ferry leaves at 8.")
    memory, caller = beside.memory, beside.memory.caller()
    [alike] = memory.remember([NewRecord(text="At 8 the ferry leaves.")], caller, advise=False)
    with memory.records.write() as transaction:
        twins = enqueue("duplicates", (ids[1], alike.id), "They say the same.", time.time(), transaction)
    assert twins
    lists = ("/", "/?q=ferry", "/new")
    for path in lists:
        page = beside.person.get(path).text
        assert {marked(page, each) for each in ids} == {(group, "contradiction?")}, path
        assert marked(page, alike.id) == (twins.id, "duplicate?"), path
    number = len(memory.reviews.waiting(caller))
    for path, says in (
        ("/", ""),
        ("/review", f"{number} groups are waiting"),
        ("/health", f"{number} groups are wait"),
    ):
        page = beside.person.get(path)
        assert f'Review <span class="count">{number}</span>' in page.text
        assert says in words_of(page)
    beside.person.get("/review")
    beside.person.send(f"/review/{group}", way="both-true")
    page = beside.person.get("/").text
    assert not marked(page, ids[0])
    assert marked(page, ids[1]) == (twins.id, "duplicate?")


@pytest.mark.parametrize("is_replaced", [False, True])
def test_what_changed_is_told_above_what_depends_on_it(beside: Beside, is_replaced: bool) -> None:
    """U1.1: a correction, or what took its place; whoever reads it is asked about the rest."""
    memory, caller, place = beside.memory, beside.memory.caller(), ("north", "south")[is_replaced]
    [base] = memory.remember([NewRecord(text=f"The {place} lock opens at 6.")], caller)
    told = NewRecord(text=f"Barges leave the {place} quay at dawn.", depends_on=(base.id,))
    [dependent] = memory.remember([told], caller, advise=False)
    new = f"The {place} lock opens at 9."
    if is_replaced:
        [changed] = memory.remember([NewRecord(text=new, supersedes=(base.id,))], caller, advise=False)
    else:
        changed = base
        memory.revise(Revision(id=base.id, text=new), caller)
    with memory.records.write() as transaction:
        why = f"{base.id} changed. Is the rest still right?"
        group = enqueue("dependents", (changed.id, dependent.id), why, time.time(), transaction)
    assert group
    page = (
        beside.person.get(f"/review?group={group.id}").text.partition(f'id="{group.id}"')[2].partition("</section>")[0]
    )
    words = words_of(page)
    assert f"{base.id} changed. Is the rest still right?" in words
    assert "<del>6</del><ins>9</ins>" in page
    assert words.index("What changed") < words.index("Is this still right?") < words.index("at dawn")
    assert page.count('class="card"') == 1
    listed = beside.person.get(f"/?q={place}+lock+barges").text
    assert marked(listed, dependent.id) == (group.id, "still right?")
    assert not marked(listed, changed.id), "of it nobody is asked"
    for record, title in (
        (changed, "Is what depends on this still right?"),
        (dependent, "What this depends on has changed"),
    ):
        assert f"Waits for your decision: {title}" in words_of(beside.person.get(f"/record/{record.id}"))


@pytest.mark.parametrize(
    ("way", "fields", "after", "says"),
    [
        ("both-true", {"when": "one in winter"}, ["new", "new"], " are both right."),
        ("unrelated", {}, ["new", "new"], " are unrelated."),
        (
            "merge",
            {"text": "The night bus has 3 seats upstairs and 5 seats below.", "keep": "0"},
            ["new", "superseded"],
            " is merged into “The night bus has 3 seats upstairs and 5 seats below.” ({}), and ranks below it.",
        ),
    ],
)
def test_each_way_settles_a_group_and_its_undo_lets_it_wait_again(
    beside: Beside, way: str, fields: dict[str, str], after: list[str], says: str
) -> None:
    """U1.1: the notice says what was done to which records."""
    said = {
        "both-true": "The tram takes {} hours by day.",
        "unrelated": "The canal boat carries {} geese.",
        "merge": "The night bus has {} seats upstairs.",
    }[way]
    group, ids = group_of(beside, said.format(3), said.format(5))
    before = beside.exported()
    beside.person.get("/review")
    given = {key: ids[0] if key == "keep" else value for key, value in fields.items()}
    beside.person.send(f"/review/{group}", way=way, **given)
    [notice] = re.findall(r'role="status">\s*<p>(.*?)</p>', beside.person.page.text)
    assert notice.endswith(says.format(ids[0]))
    assert set(ids) == set(re.findall(r"r0\w+", notice))
    assert not waits(beside, group)
    assert statuses(beside, ids) == after
    answer = beside.person.send("/undo")
    assert "Undone. The group is waiting again." in words_of(answer)
    assert answer.url.fragment == group
    assert waits(beside, group)
    assert beside.exported() == before
    beside.memory.settle(Settling(id=group, settle="unrelated"), beside.memory.caller())


def test_a_merge_that_loses_a_value_is_refused_as_for_agents(beside: Beside) -> None:
    group, ids = group_of(beside, "The dam holds 400 litres of oil.", "The dam holds 900 litres of oil.")
    beside.person.get("/review")
    answer = beside.person.send(f"/review/{group}", way="merge", keep=ids[0], text="The dam holds oil.")
    assert answer.status_code == 400
    assert re.search("loses .*(400|900)", words_of(answer))
    assert waits(beside, group)


def test_a_group_that_an_agent_settled_meanwhile_is_not_settled_again(beside: Beside) -> None:
    group, ids = group_of(beside, "The bell rings at 7 in May.", "The bell rings at 9 in May.")
    beside.person.get("/review")
    fields = beside.person.fields(f"/review/{group}")
    beside.person.send(f"/review/{group}", way="unrelated")
    again = beside.person.post(f"/review/{group}", {**fields, "holds": ids[0]})
    assert again.status_code in (404, 409)
    assert statuses(beside, ids) == ["new", "new"]
    assert beside.person.post("/review/r000001", {**fields, "way": "unrelated"}).status_code == 404
    assert beside.person.post(f"/review/{group}", {**fields, "way": "burn"}).status_code == 400


def test_what_an_agent_asks_is_found_apart(beside: Beside) -> None:
    group, _ = group_of(beside, "The cave is 30 metres deep.", "The cave is 80 metres deep.")
    caller = beside.memory.caller()
    beside.memory.settle(Settling(id=group, settle="ask", reason="Which survey is the newer one?"), caller)
    page = beside.person.get("/review?asked=1")
    assert page.text.count('class="group"') == 1
    assert "Asked by ann: Which survey is the newer one?" in words_of(page)
    beside.person.send(f"/review/{group}", way="unrelated")
    assert not waits(beside, group)


def test_groups_come_ten_at_once(beside: Beside) -> None:
    things = "kiln barrel wagon loom lathe crane winch tractor boiler furnace anchor piano".split()
    for number, thing in enumerate(things):
        group_of(beside, f"The {thing} weighs {number + 10} tons.", f"The {thing} weighs {number + 50} tons.")
    first = beside.person.get("/review")
    assert first.text.count('class="group"') == 10
    following = re.findall(r'href="/ui(/review\?after=\w+)"', first.text)
    second = beside.person.get(following[0])
    assert second.text.count('class="group"') >= 2
    ids = [set(re.findall(r'action="/ui/review/(g\w+)"', page.text)) for page in (first, second)]
    assert not ids[0] & ids[1]


def test_a_record_leads_to_the_group_that_it_waits_in_wherever_that_is(beside: Beside) -> None:
    """U1.1: also beyond the first page of groups; once settled, the address says so."""
    group, ids = group_of(beside, "The tuba weighs 9 pounds.", "The tuba weighs 14 pounds.")
    for number, thing in enumerate("sledge raft kite drum flute harp cello organ lute banjo zither".split()):
        group_of(beside, f"The {thing} costs {number + 10} crowns.", f"The {thing} costs {number + 70} crowns.")
    assert group not in beside.person.get("/review").text
    page = beside.person.get(f"/record/{ids[0]}")
    assert "Waits for your decision: These may contradict each other" in words_of(page)
    [path] = re.findall(r'href="/ui(/review\?group=\w+)#' + group, page.text)
    page = beside.person.get(path)
    assert re.findall(r'<h2 id="(g\w+)"', page.text)[0] == group
    beside.person.send(f"/review/{group}", way="unrelated")
    assert "waits no more" not in words_of(beside.person.page)
    assert "Waits for your decision" not in words_of(beside.person.get(f"/record/{ids[0]}"))
    assert "That group is no longer waiting" in words_of(beside.person.get(path))


def test_after_a_settlement_the_reader_is_at_the_next_group(beside: Beside) -> None:
    """U1.1: nothing is to be looked for again; at the last one there is no next."""
    groups = [
        group_of(beside, f"The {thing} opens at {hour}.", f"The {thing} opens at {hour + 3}.")[0]
        for hour, thing in ((5, "bakery"), (6, "butchery"), (7, "fishmonger"))
    ]
    beside.person.get(f"/review?group={groups[2]}")
    assert beside.person.send(f"/review/{groups[2]}", way="unrelated").url.fragment == groups[1]
    assert f'id="{groups[1]}"' in beside.person.page.text
    pages = [beside.person.get("/review")]
    while further := re.findall(r'href="/ui(/review\?after=\w+)"', pages[-1].text):
        pages.append(beside.person.get(further[0]))
    last = re.findall(r'<h2 id="(g\w+)"', pages[-1].text)[-1]
    assert beside.person.send(f"/review/{last}", way="unrelated").url.fragment == ""


def test_contradictions_of_two_come_first_the_newest_ahead(beside: Beside) -> None:
    """U1.1: before groups of many, which take longer; on every page, and also where what it begins after is settled."""
    older, _ = group_of(beside, "The spire is 61 metres high.", "The spire is 64 metres high.")
    caller = beside.memory.caller()
    said = [NewRecord(text=f"Lane {n}: the skittles of the guild are put up by hand.") for n in range(4)]
    ids = [each.id for each in beside.memory.remember(said, caller)]
    beside.memory.reviews.queue([("duplicates", ids, "They say the same.")], caller)
    waiting = [each.review for each in beside.memory.reviews.waiting(caller)]
    many = next(each.id for each in waiting if set(ids) <= set(each.record_ids))
    newer, _ = group_of(beside, "The vault is 12 metres wide.", "The vault is 17 metres wide.")
    shown: list[str] = []
    page = beside.person.get("/review")
    while True:
        shown += re.findall(r'<h2 id="(g\w+)"', page.text)
        further = re.findall(r'href="/ui(/review\?after=\w+)"', page.text)
        if not further:
            break
        page = beside.person.get(further[0])
    assert shown[0] == newer
    assert shown.index(older) < shown.index(many)
    assert len(shown) == len(set(shown)) == len(beside.memory.reviews.waiting(caller))
    contradictions = {
        each.review.id for each in beside.memory.reviews.waiting(caller) if each.review.kind == "contradictions"
    }
    assert set(shown[: len(contradictions)]) == contradictions
    beside.memory.settle(Settling(id=newer, settle="unrelated"), caller)
    following = re.findall(r'<h2 id="(g\w+)"', beside.person.get(f"/review?after=0{newer}").text)
    assert following[0] == shown[1]


def test_what_was_settled_lately_is_listed_with_who_how_why_and_its_undo(beside: Beside) -> None:
    """U1.1: as long as nothing has changed the records since; else it says what did."""
    group, ids = group_of(beside, "The pond is 3 metres deep.", "The pond is 7 metres deep.")
    caller = beside.memory.caller()
    beside.memory.settle(Settling(id=group, settle="supersedes", keep=ids[1], reason="Measured anew."), caller)
    lately = words_of(beside.person.get("/review")).partition("Recently settled")[2]
    assert f"{ids[0]} now ranks below {ids[1]}." in lately
    assert "by ann because: Measured anew." in lately
    change = str(beside.memory.reviews.settled(caller, 1)[0].change)
    fields = {"csrf": beside.person.csrf, "change": change, "back": f"/review?group={group}#{group}"}
    assert f'name="change" value="{change}"' in beside.person.get("/review").text
    beside.memory.revise(Revision(id=ids[0], tags=("pond",)), caller)
    page = beside.person.get("/review")
    assert f"It cannot be undone: Record {ids[0]} was changed since, by you" in words_of(page)
    assert f'name="change" value="{change}"' not in page.text
    beside.memory.undo(beside.memory.records.versions([ids[0]])[ids[0]][-1].write, caller)
    answer = beside.person.post("/undo", fields)
    assert answer.url.fragment == group
    assert waits(beside, group)
    assert f"{ids[0]} now ranks" not in words_of(answer)


def test_the_words_for_a_settlement_name_each_record() -> None:
    """U1.1: of one, of two and of more records."""

    def said(kind: ReviewKind, way: Way, number: int, below: int = 0) -> str:
        ids = tuple(f"r{each}" for each in range(number))
        review = Review(id="g1", kind=kind, why="", made_at=0.0, record_ids=ids, hashes=ids, way=way)
        under = [replace(BLANK, id=each, superseded_by="r0", status="superseded") for each in ids[1 : below + 1]]
        return in_words(Settled(review=review, records=(replace(BLANK, id="r0"), *under), change=1))

    assert said("noted", "both-true", 1) == "r0 is kept."
    assert said("noted", "unrelated", 1) == "r0 stays only noted."
    assert said("guidance", "both-true", 1) == "r0 is still right."
    assert said("guidance", "unrelated", 1) == "r0 stays as it is."
    assert said("dependents", "both-true", 3) == "r0, r1 and r2 are still right."
    assert said("duplicates", "both-true", 3) == "r0, r1 and r2 are all right."
    assert said("duplicates", "merge", 3, 2) == "r1 and r2 are merged into r0, and rank below it."
    assert said("duplicates", "supersedes", 3, 2) == "r1 and r2 now rank below r0."
    assert said("duplicates", "supersedes", 2) == "r0 and r1 were settled."
