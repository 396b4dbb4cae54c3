"""A person adds a memory by a form, as an agent would store it; what they wrote is kept where something is wrong."""

from __future__ import annotations

import pytest

from tests.entrypoints.page.conftest import Beside, words_of


def test_a_memory_is_added_and_taken_back(beside: Beside) -> None:
    """U1.1: with all that the form says; undone, no search finds it."""
    person = beside.person
    person.get("/add")
    answer = person.send(
        "/added", text="The lighthouse is lit at **dusk**.", kind="decision", tags="light\nsea", importance="7",
        reasons="Ships come at night", pinned="1",
    )  # fmt: skip
    record_id = answer.url.path.rpartition("/")[2]
    [record] = beside.memory.records.get([record_id], beside.memory.caller().scopes).values()
    assert (record.kind, record.tags, record.importance, record.pinned) == ("decision", ("light", "sea"), 7, True)
    assert record.details["reasons"] == ["Ships come at night"]
    assert (record.agent, record.client) == ("ann", "page")
    assert "Added." in words_of(answer)
    assert "Undone." in words_of(person.send("/undo"))
    assert "lighthouse" not in words_of(person.get("/")).partition("Memories ")[2]


def test_a_text_that_is_known_leads_to_its_record(beside: Beside) -> None:
    for notice in ("Added.", "This is known already."):
        beside.person.get("/add")
        answer = beside.person.send("/added", text="The buoy is green.", kind="fact")
        assert notice in words_of(answer)
        assert "The buoy is green." in words_of(answer)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("text", " ", "Write what is to be remembered."),
        ("importance", "much", "is no number"),
        ("kind", "message", "a kind"),
    ],
)
def test_what_is_wrong_is_said_above_what_was_written(beside: Beside, field: str, value: str, why: str) -> None:
    beside.person.get("/add")
    answer = beside.person.send(
        "/added", **{"text": "The mast is tall.", "kind": "fact", "tags": "ships", field: value}
    )
    assert answer.status_code == 400
    assert why in words_of(answer)
    assert "ships</textarea>" in answer.text
