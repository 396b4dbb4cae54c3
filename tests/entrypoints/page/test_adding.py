"""A person adds a memory by a form, as an agent would store it; what they wrote is kept where something is wrong."""

from __future__ import annotations

import pytest

from mcp_memory.domain.model.records import Details, NewRecord
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.domain.retrieval.guardrails import ToolCall
from mcp_memory.entrypoints.page import edit
from tests.entrypoints.page.conftest import NAMESPACE, Beside, asked, words_of


def test_a_memory_is_added_and_taken_back(beside: Beside) -> None:
    """U1.1: with all that the form says; undone, no search finds it."""
    person = beside.person
    person.get("/add")
    answer = person.send(
        "/added", text="The lighthouse is lit at **dusk**.", kind="decision", tags="light\nsea", importance="7",
        details_reasons="Ships come at night", pinned="1",
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


def test_a_guardrail_that_denies_is_made_and_mended_by_its_fields(beside: Beside) -> None:
    """U1.1, U4.1: the hook of its agent denies by it, and the record's page says which calls."""
    person, caller = beside.person, beside.memory.caller()
    call = ToolCall.of("Bash", {"command": "pnpm db:migrate --prod"})
    assert "it denies calls of the agent ann, and only warns other agents" in words_of(person.get("/add"))
    answer = person.send(
        "/added", text="Do not migrate production by hand.", kind="censor", details_action="block",
        details_pattern="pnpm db:migrate --prod*\n", details_trigger="migrate production",
        details_reason="It has no way back.", details_reasons="of another kind",
    )  # fmt: skip
    record_id = answer.url.path.rpartition("/")[2]
    assert "Denies calls of the agent ann that match: pnpm db:migrate --prod*" in words_of(answer)
    verdict = beside.memory.guard(call, caller)
    assert verdict.is_denied
    assert "Because: It has no way back." in verdict.text
    assert "reasons" not in beside.memory.inspect.visible(record_id, caller).details
    before = beside.exported()
    person.get(f"/record/{record_id}/edit")
    assert person.fields(f"/record/{record_id}/edited")["details_trigger"] == ["migrate production"]
    answer = person.send(f"/record/{record_id}/edited", details_action="warn", details_pattern="pnpm db:reset")
    assert "Warns before calls that match: pnpm db:reset" in words_of(answer)
    assert beside.memory.guard(call, caller).text == ""
    person.send("/undo")
    assert beside.exported() == before
    assert beside.memory.guard(call, caller).is_denied


def test_a_guardrail_of_nothing_says_that_it_stops_no_call(beside: Beside) -> None:
    beside.person.get("/add")
    answer = beside.person.send("/added", text="Be careful on Fridays.", kind="censor")
    assert "Stops no call" in words_of(answer)


def test_nobody_with_a_token_says_which_calls_anothers_guardrail_denies(beside: Beside) -> None:
    """U4.1: that of another agent only warns, so that it must not be made to deny by a third one."""
    text = "Never push with force to the port."
    details: Details = {"pattern": ["git push --force"], "action": "warn"}
    [made] = beside.memory.remember([NewRecord(text=text, kind="censor", details=details)], beside.memory.caller())
    bob = Grant(agent="bob", person="bob", namespaces=(NAMESPACE,), right="write")
    shown = asked(beside.memory, edit.show_edit, grant=bob, parts={"id": made.id})
    assert "details_action" not in shown
    assert "only that agent’s person or an administrator" in words_of(shown)
    version = str(beside.memory.inspect.visible(made.id, beside.memory.caller()).version)
    form = {"version": version, "tags": "git", "details_action": "block", "details_pattern": "git *"}
    asked(beside.memory, edit.edit, grant=bob, parts={"id": made.id}, form=form)
    record = beside.memory.inspect.visible(made.id, beside.memory.caller())
    assert (record.tags, record.details) == (("git",), details)
