"""Learn: what is new is proposed once, stored in one write, and taken back by one undo."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.errors import Conflict
from mcp_memory.services.memory.learn import LEARNED
from mcp_memory.services.memory.prepare_record import RecordDraft, RecordPreparer
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision

if TYPE_CHECKING:
    from tests.conftest import Clock

PORT, TAB = "The port is 8081.", "Indent by two spaces."


def told(*texts: str) -> list[NewRecord]:
    given: Any = {"details": {"source": "commit 1f0c2d3"}, "occurred_at": 1.0, "session_id": "learn-proposals"}
    return [NewRecord(text=text, kind="decision", tags=(LEARNED,), **given) for text in texts]


def stored(app: App, *ids: str) -> list[Record]:
    found = app.records.get(ids, app.caller().scopes)
    return [found[each] for each in ids]


def proposed(app: App, items: list[NewRecord], *, again: bool = False) -> tuple[list[str], dict[str, int]]:
    proposal = app.learn.propose(items, app.caller(), again=again)
    return [item.text for item in proposal.items], {str(reason): n for reason, n in proposal.left_out.items()}


def test_what_is_learned_is_there_once_and_gone_by_one_undo(app: App) -> None:
    items = told(PORT, TAB, PORT)
    assert proposed(app, items) == ([PORT, TAB], {"known": 1})
    learned = app.learn(items, app.caller())
    assert [(each.text, each.status, each.occurred_at) for each in stored(app, *learned.ids)] == [
        (PORT, "recorded", 1.0),
        (TAB, "recorded", 1.0),
    ]
    assert proposed(app, items) == ([], {"known": 3})
    assert app.learn(items, app.caller()).ids == ()
    undone = app.undo(learned.change, app.caller())
    assert {each.id for each in undone.records} == set(learned.ids)
    assert [each.status for each in stored(app, *learned.ids)] == ["retired", "retired"]


def test_what_was_forgotten_comes_again_only_where_it_is_asked_for(app: App) -> None:
    items = told(PORT, TAB)
    app.undo(app.learn(items, app.caller()).change, app.caller())
    assert proposed(app, items) == ([], {"forgotten": 2})
    again = app.learn(items, app.caller(), again=True)
    assert [each.status for each in stored(app, *again.ids)] == ["recorded", "recorded"]
    app.undo(again.change, app.caller())
    assert [each.status for each in stored(app, *again.ids)] == ["retired", "retired"]


def test_what_was_corrected_erased_or_private_is_not_proposed(app: App, remember: Callable[..., Remembered]) -> None:
    learned = app.learn(told(PORT), app.caller())
    app.revise(Revision(id=learned.ids[0], text="The port is 8082."), app.caller())
    app.forget([remember("The key lies below the mat.").id], "erase", app.caller())
    items = told(PORT, "The key lies below the mat.", "<private>The door is open.</private>", " ", TAB)
    assert proposed(app, items) == ([TAB], {"refused": 3, "known": 1})


def test_an_undo_retires_what_grew_since_and_not_what_somebody_corrected(app: App, clock: "Clock") -> None:
    """A fact that another session confirms is in another stage by then; words of somebody's are not taken away."""
    items = [NewRecord(text=text, tags=(LEARNED,), session_id="learn-sessions") for text in (PORT, TAB)]
    learned = app.learn(items, app.caller())
    clock.advance(days=1)
    for session in ("one", "two"):
        app.remember([NewRecord(text=PORT)], app.caller(session))
    assert [each.status for each in stored(app, *learned.ids)] == ["confirmed", "new"]
    assert app.undo.refusal(learned.change, app.caller()) == ""
    app.revise(Revision(id=learned.ids[1], text="Indent by four spaces."), app.caller("three"))
    with pytest.raises(Conflict, match="was changed since"):
        app.undo(learned.change, app.caller())
    corrected = app.records.versions(learned.ids)[learned.ids[1]][-1].write
    app.undo(corrected, app.caller())
    app.undo(learned.change, app.caller())
    assert [each.status for each in stored(app, *learned.ids)] == ["retired", "retired"]


def test_a_write_that_is_not_to_be_undone_as_a_whole_has_no_number(app: App) -> None:
    [plain] = app.remember(told(PORT), app.caller())
    assert plain.change == 0
    assert not app.records.versions([plain.id]).get(plain.id)


def test_what_is_proposed_is_cleaned_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: it is stored as it was shown, with what its words name, and without the secret."""
    seen: list[str] = []
    clean = RecordPreparer.clean

    def counted(self: RecordPreparer, item: NewRecord, caller: Caller) -> RecordDraft:
        seen.append(item.text)
        return clean(self, item, caller)

    monkeypatch.setattr(RecordPreparer, "clean", counted)
    items = told("Log in by password=hunter2hunter2 here.", "We use Postgres here.")
    proposal = app.learn.propose(items, app.caller())
    learned = app.learn.store(proposal, app.caller())
    assert seen == [each.text for each in items]
    secret, named = stored(app, *learned.ids)
    assert (secret.text, named.text) == tuple(each.text for each in proposal.items)
    assert "hunter2" not in secret.text
    assert [each.name for each in app.records.links(named.id)[0]] == ["Postgres"]
