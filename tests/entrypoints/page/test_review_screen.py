"""A person settles what waits for a review, side by side, with the checks and the undo that agents have."""

from __future__ import annotations

import re

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.services.review.settle import Settling
from tests.entrypoints.page.conftest import Beside, words_of


def group_of(beside: Beside, *texts: str) -> tuple[str, list[str]]:
    """A group that waits with records of these texts, and their ids."""
    caller = beside.memory.caller()
    ids = [beside.memory.remember([NewRecord(text=text)], caller)[0].id for text in texts]
    waiting = [each.review for each in beside.memory.reviews.waiting(caller) if set(each.review.record_ids) & {*ids}]
    assert waiting, "they contradict or repeat each other"
    return waiting[0].id, ids


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
    assert "Settled." in words_of(beside.person.page)
    assert statuses(beside, ids) == ["superseded", "new"]


@pytest.mark.parametrize(
    ("way", "fields", "after"),
    [
        ("both-true", {"when": "one in winter"}, ["new", "new"]),
        ("unrelated", {}, ["new", "new"]),
        ("merge", {"text": "The {} takes 3 hours by day and 5 hours by night.", "keep": "0"}, ["new", "superseded"]),
    ],
)
def test_each_way_settles_a_group_and_its_undo_lets_it_wait_again(
    beside: Beside, way: str, fields: dict[str, str], after: list[str]
) -> None:
    name = {"both-true": "tram", "unrelated": "canal boat", "merge": "night bus"}[way]
    group, ids = group_of(beside, f"The {name} takes 3 hours by day.", f"The {name} takes 5 hours by day.")
    before = beside.exported()
    beside.person.get("/review")
    given = {key: ids[0] if key == "keep" else value.format(name) for key, value in fields.items()}
    beside.person.send(f"/review/{group}", way=way, **given)
    assert "Settled." in words_of(beside.person.page)
    assert not waits(beside, group)
    assert statuses(beside, ids) == after
    beside.person.send("/undo")
    assert waits(beside, group)
    assert beside.exported() == before


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
