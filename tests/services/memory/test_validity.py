"""What is true for a time: shown with it, below what is true now, and retired only where the settings say so."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]


def until(app: App, phrase: str, begin: str = "") -> Any:
    return app.searcher.validity(begin, phrase)


def shown(app: App, query: str = "parking zone of the van", **more: Any) -> list[tuple[str, Any]]:
    """The ids of the results and what they say of their validity, best first."""
    results = app.recall(RecallRequest(query=query, **more), app.caller()).results
    return [(str(each["id"]), each.get("valid")) for each in results]


def test_what_is_not_true_now_is_marked_and_ranks_below_what_is(app: App, remember: RememberOne) -> None:
    """N4.1: past, and not yet."""
    old = remember("Parking zone of the van: zone 3.", **until(app, "2026-10-31", "2026-01-01")).id
    new = remember("We park in zone 7 with the van.", **until(app, "2027-03-31", "2026-11-01")).id
    next_one = remember("Parking zone of the van: zone 9.", **until(app, "", "2027-04-01")).id
    assert shown(app)[0] == (new, "from 2026-11-01 until 2027-03-31")
    assert set(shown(app)[1:]) == {
        (old, "past: from 2026-01-01 until 2026-10-31"), (next_one, "not yet: from 2027-04-01"),
    }  # fmt: skip
    assert [valid for _, valid in shown(app, query="")][::-1] == [
        "past: from 2026-01-01 until 2026-10-31", "from 2026-11-01 until 2027-03-31", "not yet: from 2027-04-01",
    ]  # fmt: skip


def test_a_day_belongs_to_what_ends_on_it(app: App, remember: RememberOne, clock: "Clock") -> None:
    """N4.1: by phrases too; an end without a year is ahead."""
    zone = remember("The van parks in zone 3.", **until(app, "tomorrow")).id
    assert shown(app) == [(zone, "until 2026-11-21")]
    clock.advance(hours=35.9)
    assert shown(app) == [(zone, "until 2026-11-21")]
    clock.advance(hours=0.1)
    assert shown(app) == [(zone, "past: until 2026-11-21")]
    phrases = {"in two weeks": "until 2026-12-06", "31 March": "until 2027-03-31", "Friday": "until 2026-11-27"}
    for phrase, told in phrases.items():
        ticket = remember(f"The ticket of {phrase} costs 90.", **until(app, phrase)).id
        assert shown(app, "", ids=(ticket,)) == [(ticket, told)]


def test_a_validity_is_set_changed_and_checked(app: App, remember: RememberOne) -> None:
    """N4.1: when stored, when told again, by a revision; what is not given stays."""
    zone = remember("The van parks in zone 3.").id
    remember("The van parks in zone 3.", **until(app, "2026-10-31"))
    assert shown(app) == [(zone, "past: until 2026-10-31")]
    remember("The van parks in zone 3.")
    app.revise(Revision(id=zone, **until(app, "", "2026-02-01")), app.caller())
    assert shown(app) == [(zone, "past: from 2026-02-01 until 2026-10-31")]
    for attempt in (
        lambda: app.revise(Revision(id=zone, **until(app, "2026-01-31")), app.caller()),
        lambda: remember("The van parks in zone 3.", **until(app, "", "2026-12-01")),
        lambda: remember("The van parks in zone 4.", **until(app, "2026-01-01", "2026-02-01")),
    ):
        with pytest.raises(InvalidRequest, match="valid_from is not before valid_until"):
            attempt()
    with pytest.raises(InvalidRequest, match="'whenever' is not a time"):
        until(app, "whenever")
    assert shown(app) == [(zone, "past: from 2026-02-01 until 2026-10-31")]


def test_a_replaced_value_ended_when_the_newer_one_began(app: App, remember: RememberOne) -> None:
    """N4.1: which was noticed later; and what an ended record replaced is below what is true, too."""
    old = remember("VAT on our books is 19 percent.").id
    newer = remember("VAT on our books is 7 percent.", supersedes=(old,), **until(app, "", "2026-10-01")).id
    (result,) = app.recall(RecallRequest(query="VAT on our books"), app.caller()).results
    assert (result["id"], result["earlier"]) == (newer, "before r000001, 2026-11-20: 19 percent")
    app.revise(Revision(id=newer, **until(app, "2026-11-01")), app.caller())
    current = remember("The tax office takes VAT of 8 percent.").id
    found = app.recall(RecallRequest(query="VAT on our books", include_inactive=True), app.caller()).results
    assert [each["id"] for each in found] == [current, newer, old]


def block(app: App, query: str = "", **more: Any) -> str:
    return app.assemble_context(ContextRequest(query=query, **more), app.caller()).text


@pytest.mark.parametrize("query", ["where does the van park", ""])
def test_contexts_mark_it_and_keep_what_ended_below(app: App, remember: RememberOne, query: str) -> None:
    """N4.1: whatever orders the records."""
    remember("The van parks in zone 7.", importance=1.0, **until(app, "2027-03-31"))
    remember("The van parks in zone 3.", importance=3.0, **until(app, "2026-10-31"))
    text = block(app, query, strategy="important")
    assert "zone 7. (until 2027-03-31)" in text
    assert "zone 3. (past: until 2026-10-31)" in text
    assert text.index("zone 7") < text.index("zone 3")


def test_what_is_always_shown_is_so_only_while_it_is_true(app: App, remember: RememberOne) -> None:
    """N4.1: constraints, identity, pins, reminders."""
    for valid, when in ((until(app, "2026-10-31"), "ended"), (until(app, "2027-10-31"), "lasting")):
        remember(f"Do not deploy, {when}.", kind="censor", **valid)
        remember(f"Ines is on leave, {when}.", kind="identity", **valid)
        remember(f"Ask for the {when} key.", pinned=True, **valid)
    text = block(app, "where does the van park")
    assert [word for word in ("ended.", "the ended") if word in text] == []
    assert text.count("lasting.") == 2
    assert "(until 2027-10-31)" in text
    assert "Ask for the lasting key." in text
    reminded = app.remind("Shall we deploy this evening? I want to deploy.", (), 500, app.caller()).text
    assert "lasting" in reminded
    assert "ended" not in reminded


@pytest.mark.parametrize(("chosen", "kept"), [({}, 3), ({"expired_days": 0}, 1), ({"expired_days": 30}, 2)])
def test_upkeep_retires_what_ended_where_the_settings_say_so(
    open_memory: Callable[..., App], chosen: dict[str, float], kept: int
) -> None:
    """N4.1: nothing is ever deleted by time alone."""
    app = open_memory(**chosen)
    texts: Sequence[tuple[str, str]] = [("Zone 1.", "2026-10-01"), ("Zone 2.", "2026-11-10"), ("Zone 3.", "2026-12-01")]
    items = [NewRecord(text=text, **until(app, end)) for text, end in texts]
    ids = [each.id for each in app.remember(items, app.caller())]
    assert app.maintain.due().judged == 3 - kept
    app.maintain(lambda done, total: None)
    statuses = [each.status for each in app.records.get(ids, app.caller().scopes).values()]
    assert statuses == ["retired"] * (3 - kept) + ["new"] * kept
    assert app.maintain.due().judged == 0
