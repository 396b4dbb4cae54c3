"""What people are told of a session: its log, its compactions, what it states, and what a block covers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.errors import NotFound
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.sessions.session_account import LATEST_LINES, StatedLine, StatedSection
from tests.conftest import Clock
from tests.services.sessions.conversations import fed


@pytest.fixture
def caller(app: App) -> Caller:
    return app.caller("work", "codex")


def stated(app: App, caller: Caller) -> dict[str, StatedSection]:
    accounts = app.session_accounts
    return {section.title: section for section in accounts.stated(accounts(caller).log)}


def test_each_compaction_is_a_step_and_only_the_latest_that_stands_can_be_undone(app: App, caller: Caller) -> None:
    """U1.1: the latest first, with the share of each pass."""
    fed(app, caller, 6)
    before = app.session_accounts(caller)
    assert (before.client, list(before.steps)) == ("codex", [])
    for turns in (8, 14, 20):
        fed(app, caller, turns)
        app.compact(CompactRequest(window=2_000, force=True), caller)
    app.compact(CompactRequest(undo=True), caller)
    account = app.session_accounts(caller)
    assert account.log == app.logs.log(caller)
    assert [(step.compaction.number, step.undo) for step in account.steps] == [
        (3, "undone"), (2, "possible"), (1, "after later ones"),
    ]  # fmt: skip
    assert "mask" in {share.pass_name for share in account.steps[-1].shares}
    assert not account.steps[0].shares


def test_what_a_compaction_made_and_what_that_covers_are_shown(app: App, caller: Caller) -> None:
    """U1.1: a page at a time; and no compaction or block that is not there."""
    log = fed(app, caller, 8)
    app.compact(CompactRequest(window=2_000, force=True), caller)
    step, made = app.session_accounts.made_in(1, caller, 2, 1)
    assert (step.compaction.number, len(made)) == (1, 2)
    assert made == [*app.logs.made_in(caller, 1, 3)][1:]
    block = next(each for each in app.logs.log(caller).entries if len(each.covers) > 1)
    found = app.session_accounts.originals(block.id, caller, 2, 1)
    assert found.block == block
    assert [each.id for each in found.originals] == list(block.covers[1:3])
    assert {each.id for each in found.originals} < {entry.id for entry in log.entries}
    with pytest.raises(NotFound, match="no such compaction"):
        app.session_accounts.made_in(2, caller, 9)
    for other in (replace(caller, namespace="there"), replace(caller, agent="bob")):
        with pytest.raises(NotFound, match="no such compaction"):
            app.session_accounts.made_in(1, other, 9)
    with pytest.raises(NotFound, match="no such block"):
        app.session_accounts.originals(block.id, replace(caller, namespace="there"), 9)


def test_a_session_without_a_log_is_known_by_what_it_stored(app: App, caller: Caller) -> None:
    """U1.1: one of which the caller sees nothing is not."""
    app.remember([NewRecord(text="The mill runs on water.")], caller)
    account = app.session_accounts(caller)
    assert (account.log.entries, account.client, list(account.steps)) == ((), "", [])
    app.remember(
        [NewRecord(text="Only Bob knows.", visibility="private")], replace(caller, agent="bob", session_id="b")
    )
    for unknown in ("b", "nowhere"):
        with pytest.raises(NotFound, match="Nothing that such a session"):
            app.session_accounts(caller.in_session(unknown))


def test_what_a_session_states_names_its_sources(app: App, caller: Caller) -> None:
    """U1.1: by section, each once, with the entry that says it; exact values too."""
    said = (
        ("user", "Please move the shop to PostgreSQL 16. Never touch the primary database for this."),
        ("assistant", "Decision: we keep the port 6543, because the firewall lets it through."),
        ("user", "Never touch the primary database for this."),
    )
    app.feed([NewRecord(kind="message", role=role, text=text) for role, text in said], caller)
    ids = [entry.id for entry in app.logs.log(caller).entries]
    found = stated(app, caller)
    assert [line.source for line in found["User instructions"].lines] == [ids[0], ids[2]]
    assert any("PostgreSQL 16" in line.text and line.source == ids[0] for line in found["Goal"].lines)
    assert StatedLine(text="port 6543", source=ids[1]) in found["Exact values"].lines
    because = [line for line in found["Decisions"].lines if line.text.endswith("firewall lets it through.")]
    assert [line.source for line in because] == [ids[1]]
    assert [*found][:3] == ["Goal", "Constraints", "User instructions"]


def test_of_many_lines_the_latest_are_shown(app: App, caller: Caller) -> None:
    """U1.1: the others are counted; a session that says nothing states nothing."""
    texts = [f"Also check the report of branch number {number}." for number in range(LATEST_LINES + 3)]
    app.feed([NewRecord(kind="message", role="user", text=text) for text in texts], caller)
    instructions = stated(app, caller)["User instructions"]
    assert ([line.text for line in instructions.lines], instructions.earlier) == (texts[3:], 3)
    silent = caller.in_session("silent")
    app.feed([NewRecord(kind="message", role="assistant", text="Hm.")], silent)
    assert stated(app, silent) == {}


def test_a_value_that_no_entry_holds_as_it_is_has_no_source(app: App, caller: Caller) -> None:
    """U1.1: one that stood escaped in a call's arguments."""
    call = NewRecord(kind="tool_call", tool="bash", call_id="c1", text='{"command": "make \\"all\\" TARGET=release-7"}')
    app.feed([call], caller)
    commands = stated(app, caller)["Commands"].lines
    assert [(line.text, line.source) for line in commands] == [('make "all" TARGET=release-7', "")]


def test_sessions_and_logs_are_listed_and_a_block_is_found_by_who_sees_it(app: App, caller: Caller) -> None:
    """U1.1: the sessions that stored something, those with a log, and what stands in a log for others."""
    accounts = app.session_accounts
    assert (accounts.recent(caller, 9), accounts.latest(caller, 9), accounts.has_log(caller)) == ([], [], False)
    fed(app, caller, 8)
    app.remember([NewRecord(text="The port is 8080.")], app.caller("notes"))
    app.compact(CompactRequest(window=2_000, force=True), caller)
    assert [each.session_id for each in accounts.recent(caller, 1)] == ["work"]
    [work, notes] = accounts.recent(caller, 9)
    assert (notes.session_id, notes.records, notes.newest.text) == ("notes", 1, "The port is 8080.")
    assert work.records > 1
    assert [each.session_id for each in accounts.latest(caller, 9)] == ["work"]
    assert accounts.has_log(caller)
    block = accounts.stand_ins(caller)[0].entry
    assert accounts.block(block.id, caller) == block
    assert accounts.block(block.id, replace(caller, namespace="there")) is None


def test_what_is_dated_ahead_puts_no_session_first_for_ever(app: App, clock: Clock) -> None:
    """U2.1: the sessions that stored something lately, and when."""
    ahead, later = app.caller("ahead"), app.caller("later")
    app.remember([NewRecord(text="The licence ends.", occurred_at=clock.now + 1e8)], ahead)
    stored = clock.now
    clock.advance(hours=1)
    app.remember([NewRecord(text="The port is 8080.")], later)
    assert [(each.session_id, each.last) for each in app.session_accounts.recent(later, 9)] == [
        ("later", clock.now), ("ahead", stored),
    ]  # fmt: skip
    clock.advance(hours=1)
    app.remember([NewRecord(text="The licence is renewed by hand.")], ahead)
    found = app.session_accounts.recent(later, 1)[0]
    assert (found.session_id, found.newest.text, found.last) == ("ahead", "The licence is renewed by hand.", clock.now)
