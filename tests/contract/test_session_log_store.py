"""The contract of `SessionLogStore`, and of what `Transaction` does to the logs of sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import Json, Kind, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import Form, Replacement, SessionLog, applied, replacing
from mcp_memory.errors import Conflict
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.session_logs import (
    Compaction,
    LogOutline,
    LogSize,
    PassRun,
    PassShare,
    PassTally,
    SessionLogStore,
    StandIn,
)
from mcp_memory.stores.records import SqliteRecordStore, SqlRecordStore
from mcp_memory.stores.records.database_sqlite import SqliteConnection
from tests.contract.conftest import BLANK

Add = Callable[..., Record]
ANN = Caller(namespace="here", agent="ann", session_id="s1")
OTHERS = (replace(ANN, session_id="s2"), replace(ANN, agent="bob"), replace(ANN, namespace="there"))
DAY = 86_400.0
EMPTY = LogSize(namespace="here", agent="ann", session_id="s1", tokens=0, entries=0, last_at=0.0)


def logs_of(store: RecordStore) -> SessionLogStore:
    assert isinstance(store, SqlRecordStore)
    return store.session_logs()


@pytest.fixture
def logs(store: RecordStore) -> SessionLogStore:
    return logs_of(store)


def say(store: RecordStore, number: int, caller: Caller = ANN, **fields: Any) -> list[str]:
    """So many messages of ten tokens each; their ids."""
    made: list[str] = []
    with store.write() as transaction:
        for place in range(number):
            text = f"Message {place} of {caller.session_id}, {caller.agent}, {caller.namespace}."
            record = replace(
                BLANK,
                id=transaction.next_id(RECORD),
                scope=f"shared/{caller.namespace}",
                namespace=caller.namespace,
                agent=caller.agent,
                session_id=caller.session_id,
                kind="message",
                text=text,
                text_tokens=10,
            )
            transaction.insert(replace(record, **fields), None, (), ())
            made.append(record.id)
    return made


def over(log: SessionLog, ids: Sequence[str], form: Form = "summary", text: str = "Short.") -> Replacement:
    """What stands for these entries of the log, in three tokens."""
    chosen = tuple(entry for entry in log.entries if entry.id in ids)
    return replacing(chosen, form, lambda own: f"{text} {own}", lambda _: 3, role="user")


def begin(store: RecordStore, before: int = 0, caller: Caller = ANN, at: float = 500.0) -> int:
    with store.write() as transaction:
        return transaction.begin_compaction(caller, "call", at, before)


def put(
    store: RecordStore, *made: Replacement, number: int = 1, caller: Caller = ANN, record: str | None = None
) -> None:
    """Commit the replacements; `record` says the same as the first of them."""
    said = {made[0].entry.id: record} if record else {}
    with store.write() as transaction:
        transaction.replace_entries(made, number, "threshold", caller, 600.0, said)


def compact(store: RecordStore, ids: Sequence[str], text: str = "Short.", record: str | None = None) -> Replacement:
    """A compaction of its own that puts one summary in the place of these."""
    log = logs_of(store).log(ANN)
    made = over(log, ids, text=text)
    put(store, made, number=begin(store, log.tokens), record=record)
    return made


def undo(store: RecordStore, caller: Caller = ANN, number: int | None = None) -> tuple[int, int, tuple[str, ...]]:
    with store.write() as transaction:
        undone = transaction.undo_compaction(caller, 900.0, number)
    return undone.number, undone.replacements, undone.record_ids


def ids_of(log: SessionLog) -> list[str]:
    return [entry.id for entry in log.entries]


def test_a_log_is_what_was_said_and_done_in_the_order_it_was_stored(
    store: RecordStore, logs: SessionLogStore, add: Add
) -> None:
    """E2.4, E4.1: whose it is, how long, how it ended; of any status; what is not said or done is not in it."""
    common = {"session_id": "s1", "text_tokens": 7, "importance": 3.0, "occurred_at": 50.0}
    asked = add("Ask", kind="message", role="human", pinned=True, status="retired", **common)
    add("No part of it", kind="fact", **common)
    called = add('{"path": "a.py"}', kind="tool_call", tool="read", call_id="c1", **common)
    got = add("No such file", kind="tool_result", tool="read", call_id="c1", outcome="failure", **common)
    odd = add("Beep", kind="message", role="robot", scope="private/ann/here", visibility="private", **common)
    mine = add("Mine", kind="message", scope="user", visibility="user", branch_id="t1", occurred_at=1.0)
    log = logs.log(ANN)
    assert [(e.id, e.kind, e.role, e.text) for e in log.entries] == [
        (asked.id, "message", "user", "Ask"),
        (called.id, "tool_call", "assistant", '{"path": "a.py"}'),
        (got.id, "tool_result", "tool", "No such file"),
        (odd.id, "message", "assistant", "Beep"),
        (mine.id, "message", "user", "Mine"),
    ]
    assert [e.failed for e in log.entries] == [False, False, True, False, False]
    assert [e.pinned for e in log.entries] == [True, False, False, False, False]
    one = log.entries[2]
    assert (one.tool, one.call_id, one.tokens, one.original_tokens, one.importance, one.at) == (
        "read", "c1", 7, 7, 3.0, 50.0,
    )  # fmt: skip
    assert (one.covers, one.form, one.level, one.summary, one.micro) == (
        (got.id,), "original", 0, "No such file", "No such file",
    )  # fmt: skip


def test_a_session_that_nobody_knows_has_an_empty_log(store: RecordStore, logs: SessionLogStore) -> None:
    """S3.1: no error from any reading."""
    assert logs.log(ANN) == SessionLog(())
    assert logs.size(ANN) == EMPTY
    assert list(logs.sizes(0.0)) == []
    assert logs.entries(["x0", "r000001"], ANN) == {}
    assert (list(logs.stand_ins(ANN)), list(logs.said(ANN)), list(logs.compactions(ANN))) == ([], [], [])
    assert (list(logs.pass_runs(ANN, 0.0)), logs.fruitless(ANN, "r")) == ([], frozenset())
    with store.write() as transaction, pytest.raises(Conflict, match="nothing to undo; compact makes one"):
        transaction.undo_compaction(ANN, 1.0)


def test_a_replacement_stands_where_the_first_that_it_covers_stood(store: RecordStore, logs: SessionLogStore) -> None:
    """D3.1, E4.1, E8.1: it reads back as it was made, and says when and by what."""
    ids = say(store, 5)
    log = logs.log(ANN)
    made = over(log, ids[1:4])
    record = say(store, 1, kind="summary")[0]
    put(store, made, number=begin(store, log.tokens), record=record)
    assert logs.log(ANN) == applied(log, [made])
    assert ids_of(logs.log(ANN)) == [ids[0], made.entry.id, ids[4]]
    assert made.entry.covers == tuple(ids[1:4])
    assert made.entry.level == 1
    assert logs.entries([made.entry.id, ids[0]], ANN) == {made.entry.id: made.entry}
    assert list(logs.stand_ins(ANN)) == [
        StandIn(entry=made.entry, compaction=1, pass_name="threshold", made_at=600.0, record_id=record)
    ]
    assert list(logs.compactions(ANN)) == [
        Compaction(number=1, at=500.0, trigger="call", before=50, after=23, undone_at=None)
    ]


def test_what_a_mask_says_of_its_result_is_kept(store: RecordStore, logs: SessionLogStore) -> None:
    """E2.5, D5.1: kind, role, tool, call and failure; nothing is lost between writing and reading."""
    ids = say(store, 1, kind="tool_result", tool="grep", call_id="c9", outcome="failure", pinned=True, importance=7.5)
    made = over(logs.log(ANN), ids, form="mask")
    put(store, made, number=begin(store))
    assert logs.log(ANN).entries == (made.entry,)
    assert (made.entry.tool, made.entry.call_id, made.entry.failed, made.entry.pinned) == ("grep", "c9", True, True)


def test_replacements_are_replaced_in_turn_and_stay_known(store: RecordStore, logs: SessionLogStore) -> None:
    """E2.4, D6.2, E8.1: a merged summary covers all that both covered, in the order it was said."""
    ids = say(store, 6)
    outer = compact(store, [ids[0], ids[2]])
    inner = compact(store, [ids[1]])
    both = compact(store, [outer.entry.id, inner.entry.id, ids[3]])
    (standing, *rest) = logs.log(ANN).entries
    assert (standing.id, standing.covers, standing.level) == (both.entry.id, tuple(ids[:4]), 2)
    assert [entry.id for entry in rest] == ids[4:]
    known = logs.entries([outer.entry.id, inner.entry.id], ANN)
    assert known == {outer.entry.id: outer.entry, inner.entry.id: inner.entry}
    assert [each.entry.id for each in logs.stand_ins(ANN)] == [both.entry.id]
    assert [(each.before, each.after) for each in logs.compactions(ANN)] == [(60, 43), (43, 36), (36, 23)]


def test_logs_of_other_sessions_agents_and_namespaces_are_apart(store: RecordStore, logs: SessionLogStore) -> None:
    """S4.1: none is read, compacted or undone by another's caller."""
    mine = say(store, 3)
    theirs = [say(store, 2, other) for other in OTHERS]
    made = compact(store, mine)
    for other, ids in zip(OTHERS, theirs, strict=True):
        assert ids_of(logs.log(other)) == ids
        assert (logs.size(other).tokens, logs.size(other).entries) == (20, 2)
        assert [each.id for each in logs.said(other)] == ids
        assert (list(logs.stand_ins(other)), list(logs.compactions(other))) == ([], [])
        with pytest.raises(Conflict):
            undo(store, other)
        with pytest.raises(Conflict):
            put(store, over(logs.log(ANN), [made.entry.id]), number=begin(store, caller=other), caller=other)
        foreign = over(logs.log(other), ids)
        with pytest.raises(Conflict):
            put(store, foreign)
    for other in OTHERS:  # What stands in a log is found by its id; who sees all that it covers may read it.
        assert logs.entries([made.entry.id], other) == {made.entry.id: made.entry}
    assert ids_of(logs.log(ANN)) == [made.entry.id]


def test_sizes_are_those_of_the_live_logs(store: RecordStore, logs: SessionLogStore) -> None:
    """D1.1, D1.2: of every agent's session in which something was stored since."""
    ids = say(store, 4, created_at=700.0)
    say(store, 1, OTHERS[1], created_at=900.0)
    say(store, 1, OTHERS[2], created_at=100.0)
    compact(store, ids[:3])
    for tokens in (9, 7):
        logs.leave(OTHERS[1], tokens)
    mine = LogSize(namespace="here", agent="ann", session_id="s1", tokens=13, entries=2, last_at=700.0)
    bobs = LogSize(namespace="here", agent="bob", session_id="s1", tokens=10, entries=1, last_at=900.0, left=7)
    assert logs.size(ANN) == mine
    assert sorted(logs.sizes(700.0), key=lambda size: size.agent) == [mine, bobs]
    assert list(logs.sizes(701.0)) == [bobs]
    assert list(logs.sizes(5000.0)) == []
    compact(store, [ids[3], *ids_of(logs.log(ANN))])
    assert logs.size(ANN) == replace(mine, tokens=3, entries=1)


def test_logs_are_listed_the_one_that_grew_last_first(store: RecordStore, logs: SessionLogStore) -> None:
    """U1.1: each once, page by page, also where several grew at one moment; of one agent, or of all for people."""
    compact(store, say(store, 2, created_at=100.0))
    say(store, 1, created_at=300.0, client="codex")
    two, bob, there = OTHERS
    say(store, 1, two, created_at=300.0)
    say(store, 2, bob, created_at=700.0)
    say(store, 1, there, created_at=900.0)
    say(store, 1, replace(ANN, session_id="s3"), kind="fact", created_at=999.0)
    mine = LogOutline(agent="ann", session_id="s1", client="codex", began_at=100.0, last_at=300.0)
    other = LogOutline(agent="ann", session_id="s2", client="", began_at=300.0, last_at=300.0)
    bobs = LogOutline(agent="bob", session_id="s1", client="", began_at=700.0, last_at=700.0)
    assert list(logs.latest(ANN, 9)) == [other, mine]
    assert list(logs.latest(ANN, 9, of_all=True)) == [bobs, other, mine]
    assert list(logs.latest(ANN, 1)) == [other]
    assert list(logs.latest(ANN, 1, other.place)) == [mine]
    assert list(logs.latest(ANN, 1, mine.place)) == []
    assert list(logs.latest(ANN, 9, bobs.place, of_all=True)) == [other, mine]


def test_what_each_compaction_made_is_read_also_once_it_was_replaced(store: RecordStore, logs: SessionLogStore) -> None:
    """U1.1, E4.1: in the order it was made, a page at a time; nothing of an undone one, nor of another's log."""
    ids = say(store, 5)
    log = logs.log(ANN)
    first, second = over(log, ids[:2]), over(log, ids[2:4])
    put(store, first, second, number=begin(store, log.tokens))
    third = compact(store, [first.entry.id, second.entry.id])
    assert [each.entry for each in logs.made_in(ANN, 1, 9)] == [first.entry, second.entry]
    assert [each.entry for each in logs.made_in(ANN, 1, 1, 1)] == [second.entry]
    assert list(logs.made_in(ANN, 2, 9)) == list(logs.stand_ins(ANN))
    assert list(logs.pass_shares(ANN)) == [
        PassShare(compaction=1, pass_name="threshold", replacements=2, tokens=6, original_tokens=40),
        PassShare(compaction=2, pass_name="threshold", replacements=1, tokens=3, original_tokens=40),
    ]
    for other in OTHERS:
        assert (list(logs.made_in(other, 1, 9)), list(logs.pass_shares(other))) == ([], [])
    undo(store)
    assert third.entry.id not in ids_of(logs.log(ANN))
    assert (list(logs.made_in(ANN, 2, 9)), len(logs.pass_shares(ANN))) == ([], 1)


def test_who_names_a_compaction_undoes_no_other_one(store: RecordStore, logs: SessionLogStore) -> None:
    """U1.2, E8.1: neither an earlier one, nor the one before it once it is undone."""
    ids = say(store, 4)
    compact(store, ids[:2])
    compact(store, ids[2:])
    before, revision = logs.log(ANN), store.revision()
    for wrong in (1, 3):
        with pytest.raises(Conflict, match=f"Compaction {wrong} is not the latest .* Nothing was changed"):
            undo(store, number=wrong)
    assert (logs.log(ANN), store.revision()) == (before, revision)
    assert undo(store, number=2)[0] == 2
    with pytest.raises(Conflict, match="it was undone"):
        undo(store, number=2)


def test_originals_are_recognised_when_they_are_told_again(store: RecordStore, logs: SessionLogStore) -> None:
    """D3.2: also those that are covered; by the client's own id, else by who said what."""
    details: dict[str, Json] = {"message_id": "m-1"}
    ids = [*say(store, 1, role="ai", details=details), *say(store, 1, kind="tool_result", call_id="c1")]
    ids += say(store, 1, details={"message_id": 5})
    before = list(logs.said(ANN))
    compact(store, ids)
    assert [(e.id, e.kind, e.role, e.call_id, e.message_id) for e in before] == [
        (ids[0], "message", "assistant", None, "m-1"),
        (ids[1], "tool_result", "tool", "c1", None),
        (ids[2], "message", "user", None, None),
    ]
    assert len({e.content_hash for e in before}) == 1
    assert list(logs.said(ANN)) == before


def test_who_writes_sees_what_was_said_since(store: RecordStore, logs: SessionLogStore) -> None:
    """R2: after an entry, in one log, by whomever; nothing where that entry is not there any more."""
    first, other = say(store, 2), say(store, 1, OTHERS[0])
    then = say(store, 2)
    with store.write() as transaction:
        assert list(transaction.said_since(None, ANN)) == list(logs.said(ANN))
        assert [each.id for each in transaction.said_since(first[1], ANN)] == then
        assert [each.id for each in transaction.said_since(other[0], ANN)] == then
        assert list(transaction.said_since(then[1], ANN)) == []
        transaction.erase([first[1]])
        assert list(transaction.said_since(first[1], ANN)) == []


def test_how_far_records_are_seen_is_known_to_who_writes(store: RecordStore) -> None:
    """S4.1, T4.3: each visibility with its branch, once; of unknown records nothing."""
    ids = [*say(store, 2), *say(store, 1, visibility="private"), *say(store, 1, branch_id="t1")]
    with store.write() as transaction:
        assert set(transaction.reach(ids)) == {("shared", None), ("private", None), ("shared", "t1")}
        assert set(transaction.reach([*ids[:2], "r0zzzz"])) == {("shared", None)}
        assert set(transaction.reach([])) == set()


def test_a_failing_transaction_leaves_the_log_as_it_was(store: RecordStore, logs: SessionLogStore) -> None:
    """E1.2: all replacements of a plan or none, with everything else of its write."""
    ids = say(store, 4)
    log, revision = logs.log(ANN), store.revision()
    first, gone = over(log, ids[:2]), over(log, ids[2:])

    def fail() -> None:
        with store.write() as transaction:
            number = transaction.begin_compaction(ANN, "forced", 1.0, log.tokens)
            transaction.replace_entries([first], number, "mask", ANN, 1.0, {})
            transaction.replace_entries([gone, over(log, ids[1:3])], number, "mask", ANN, 1.0, {})

    with pytest.raises(Conflict, match="The log changed meanwhile"):
        fail()
    assert logs.log(ANN) == log
    assert (list(logs.compactions(ANN)), logs.entries([first.entry.id], ANN)) == ([], {})
    assert store.revision() == revision
    put(store, first, gone, number=begin(store))
    assert store.revision() > revision
    assert ids_of(logs.log(ANN)) == [first.entry.id, gone.entry.id]


def test_of_two_writers_over_the_same_entries_the_second_is_told(
    store: RecordStore, open_store: Callable[..., RecordStore]
) -> None:
    """E1.2, S1.1: and changes nothing, whether it would replace the same or what stood beneath."""
    ids = say(store, 4)
    other = open_store()
    log = logs_of(other).log(ANN)
    number = begin(store, log.tokens)
    put(store, over(log, ids[:2]), number=number)
    for late in (over(log, ids[:2]), over(log, ids[1:3], text="Else.")):
        with pytest.raises(Conflict, match="call compact again"):
            put(other, late, number=number)
    compact(store, ids_of(logs_of(store).log(ANN)))
    with pytest.raises(Conflict, match=r"Another compaction .* call compact again"):
        put(other, over(log, ids[3:]), number=number)
    assert len(logs_of(store).log(ANN).entries) == 1


def test_undo_restores_the_log_to_the_byte(store: RecordStore, logs: SessionLogStore) -> None:
    """D3.2: step by step, and what was said meanwhile stays where it is."""
    ids = say(store, 6)
    summary = say(store, 2, kind="summary")
    states = [logs.log(ANN)]
    first = compact(store, ids[:2], record=summary[0])
    states.append(logs.log(ANN))
    second = compact(store, [first.entry.id, ids[2]], record=summary[1])
    put(store, over(logs.log(ANN), [second.entry.id, ids[3]], form="batch"), number=2)
    later = say(store, 1)
    assert undo(store) == (2, 2, (summary[1],))
    assert ids_of(logs.log(ANN)) == [*ids_of(states[1]), *later]
    assert logs.log(ANN).entries[:-1] == states[1].entries
    assert undo(store) == (1, 1, (summary[0],))
    assert logs.log(ANN).entries[:-1] == states[0].entries
    assert [each.undone_at for each in logs.compactions(ANN)] == [900.0, 900.0]
    with pytest.raises(Conflict, match="nothing to undo"):
        undo(store)
    with pytest.raises(Conflict):
        put(store, over(logs.log(ANN), ids), number=2)
    again = compact(store, ids[:2])
    assert (again.entry, [each.number for each in logs.compactions(ANN)]) == (first.entry, [1, 2, 3])


def test_undoing_is_seen_as_a_change(store: RecordStore) -> None:
    """B8.1: whoever keeps what was assembled from the log has to look again."""
    compact(store, say(store, 2))
    before = store.revision()
    undo(store)
    assert store.revision() > before


def test_erasing_a_message_takes_every_replacement_that_says_it(store: RecordStore, logs: SessionLogStore) -> None:
    """R9: live or replaced; what these had replaced, and does not say it, stands again."""
    ids = say(store, 6)
    kept = compact(store, ids[:2])
    said = compact(store, ids[2:4], text="Middle.")
    both = compact(store, [kept.entry.id, said.entry.id, ids[4]])
    with store.write() as transaction:
        assert list(transaction.extracted_from([ids[2]])) == []
        transaction.erase([ids[2]])
    assert ids_of(logs.log(ANN)) == [kept.entry.id, ids[3], ids[4], ids[5]]
    assert logs.log(ANN).entries[0] == kept.entry
    assert logs.entries([both.entry.id, said.entry.id], ANN) == {}
    assert logs.size(ANN).tokens == logs.log(ANN).tokens == 33
    assert undo(store) == (3, 0, ())
    assert undo(store) == (2, 0, ())
    assert undo(store) == (1, 1, ())
    assert ids_of(logs.log(ANN)) == [*ids[:2], *ids[3:]]


def test_summaries_that_are_records_are_named_with_what_they_say(store: RecordStore, logs: SessionLogStore) -> None:
    """R9, T5.1: also those that took up an earlier one, and those whose compaction is undone; no others."""
    ids = say(store, 5)
    first, second, third = say(store, 3, kind="summary", session_id="elsewhere")
    one = compact(store, ids[:2], record=first)
    two = compact(store, [one.entry.id, ids[2]], record=second)
    compact(store, [two.entry.id, ids[3]], record=third)

    def named(*record_ids: str) -> list[str]:
        with store.write() as transaction:
            return list(transaction.extracted_from(record_ids))

    for _ in range(3):
        assert named(ids[0]) == [first, second, third]
        assert named(ids[2]) == named(first) == [second, third]
        assert named(ids[3]) == named(second, ids[2]) == named(second) == [third]
        assert named(ids[3], third) == named(ids[4]) == []
        undo(store)
    with store.write() as transaction:
        transaction.erase([ids[2], second, third])
    assert named(ids[0]) == [first]
    assert named(first) == []


def test_erasing_a_summary_frees_what_it_stood_for(store: RecordStore, logs: SessionLogStore) -> None:
    """R9: its text is not left standing in the log, nor in what took it up."""
    ids = say(store, 4)
    (summary,) = say(store, 1, kind="summary", session_id="elsewhere")
    below = compact(store, ids[:1])
    told = compact(store, [below.entry.id, ids[1]], record=summary)
    compact(store, [told.entry.id, ids[2]])
    with store.write() as transaction:
        transaction.erase([summary])
    assert ids_of(logs.log(ANN)) == [below.entry.id, *ids[1:]]


@pytest.mark.parametrize("kind", ["message", "tool_result"])
def test_the_text_of_an_erased_entry_is_in_no_file(store: RecordStore, tmp_path: Path, kind: Kind) -> None:
    """R9: neither where it was said, nor in what stood for it, whether live, replaced or undone."""
    words = ["Zyzzyva", "Quetzalcoatlus", "Xylophone"]
    ids = say(store, 40)
    (secret,) = say(store, 1, kind=kind, text=f"It is {words[0]}.")
    lower = compact(store, [ids[-1], secret], text=f"Says {words[0]} and {words[1]} " * 300)
    compact(store, [lower.entry.id, ids[-2]], text=f"And {words[2]}. " * 500)
    undo(store)
    compact(store, [lower.entry.id, *ids[:3]], text=words[2] * 100)
    logs_of(store).keep_pass_runs([run()], ANN, 1.0, 1)
    with store.write() as transaction:
        transaction.erase([secret])
    store.purge()
    store.close()
    found = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [word for word in words if word.encode() in found] == []


def run(name: str = "mask", **fields: Any) -> PassRun:
    made = PassRun(name="mask", revision="v1", ran=True, reason="due", tokens_before=100, tokens_after=60)
    return replace(made, name=name, **fields)


def test_runs_of_passes_are_tallied_for_their_agent(store: RecordStore, logs: SessionLogStore) -> None:
    """E6.2, S4.1: how often each ran or did not and why, how long, tokens saved and spent; the commonest reasons."""
    logs.keep_pass_runs([run(milliseconds=1.5), run(milliseconds=2.0, spent=7)], ANN, 1.0, 1)
    logs.keep_pass_runs([run("threshold", ran=False, reason="calm", tokens_after=100)] * 2, OTHERS[0], 2.0, None)
    reasons = [run("threshold", ran=False, reason=f"why {n:02}", tokens_after=100) for n in range(12)]
    logs.keep_pass_runs(reasons, ANN, 2.0, None)
    logs.keep_pass_runs([run("threshold", error="no answer", tokens_after=100)], ANN, 3.0, None)
    for other in OTHERS[1:]:
        logs.keep_pass_runs([run(milliseconds=99.0)], other, 3.0, 1)
    mask = PassTally(name="mask", ran=2, failed=0, skipped={}, milliseconds=3.5, saved=80, spent=7)
    threshold = PassTally(
        name="threshold", ran=1, failed=1, skipped={"calm": 2} | {f"why {n:02}": 1 for n in range(9)},
        milliseconds=0.0, saved=0, spent=0,
    )  # fmt: skip
    assert list(logs.pass_runs(ANN, 0.0)) == [mask, threshold]
    assert [(each.name, each.skipped) for each in logs.pass_runs(ANN, 2.5)] == [("threshold", {})]
    logs.keep_pass_runs([], ANN, 14 * DAY + 2.5, None)
    assert [(each.name, each.ran, each.failed) for each in logs.pass_runs(ANN, 0.0)] == [("threshold", 1, 1)]


def test_passes_that_did_not_shrink_a_revision_are_known(store: RecordStore, logs: SessionLogStore) -> None:
    """E1.3: those that ran or failed there; those that saw no reason to may look again."""
    logs.keep_pass_runs(
        [
            run("mask"),
            run("threshold", tokens_after=100),
            run("goal_batch", ran=False, error="broken", tokens_after=100),
            run("ceiling", ran=False, tokens_after=100),
            run("tool_calls", revision="v2", tokens_after=100),
        ],
        ANN,
        1.0,
        None,
    )
    assert logs.fruitless(ANN, "v1") == {"threshold", "goal_batch"}
    assert logs.fruitless(ANN, "v2") == {"tool_calls"}
    for other in OTHERS:
        assert logs.fruitless(other, "v1") == frozenset()


@pytest.mark.parametrize("open_store", ["sqlite"], indirect=True)
def test_what_passes_did_is_lost_rather_than_waited_for(
    store: RecordStore, logs: SessionLogStore, tmp_path: Path
) -> None:
    """S2.2: telemetry never fails a compaction."""
    with closing(sqlite3.connect(tmp_path / "data" / "memory.db", isolation_level=None)) as newer:
        (version,) = newer.execute("PRAGMA user_version").fetchone()
        newer.execute("PRAGMA user_version = 999")
        logs.keep_pass_runs([run()], ANN, 1.0, 1)
        logs.leave(ANN, 7)
        newer.execute(f"PRAGMA user_version = {version}")
    assert list(logs.pass_runs(ANN, 0.0)) == []
    assert logs.size(ANN).left == -1


@pytest.mark.parametrize("open_store", ["sqlite"], indirect=True)
def test_a_log_of_a_thousand_entries_is_read_in_a_bounded_number_of_statements(
    store: RecordStore, logs: SessionLogStore
) -> None:
    """E6.1: as many as one of ten."""
    assert isinstance(store, SqlRecordStore)
    few = replace(ANN, session_id="few")
    say(store, 10, few)
    ids = say(store, 1_200)
    log = logs.log(ANN)
    number = begin(store, log.tokens)
    batches = [over(log, ids[start : start + 4], form="batch") for start in range(0, 480, 8)]
    put(store, *batches, number=number)
    counted: dict[str, int] = {}
    for caller, entries in ((few, 10), (ANN, 1_020)):
        told: list[str] = []
        with store._database.read() as connection:  # noqa: SLF001 - the next to be read with
            assert isinstance(connection, SqliteConnection)
            connection.set_trace_callback(told.append)
        assert len(logs.log(caller).entries) == entries
        counted[caller.session_id] = len(told)
    assert counted["few"] == counted["s1"] <= 8
    assert logs.size(ANN).tokens == logs.log(ANN).tokens == 960 * 10 + 60 * 3


@settings(max_examples=15)
@given(moves=st.lists(st.tuples(st.sampled_from(["say", "compact", "undo", "erase"]), st.integers(0, 99)), max_size=25))
def test_every_original_is_covered_once_whatever_happens_to_a_log(
    moves: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """E2.4, D3.2: in any order of moves; and undo gives back what stood before, beside what was said since."""
    store = SqliteRecordStore(tmp_path_factory.mktemp("moves"), "e", lambda: 1000.0)
    logs = store.session_logs()
    said = say(store, 3)
    before: list[SessionLog] = []
    for move, number in moves:
        log = logs.log(ANN)
        if move == "say":
            said += say(store, 1)
        elif move == "compact" and log.entries:
            start = number % len(log.entries)
            before.append(log)
            compact(store, ids_of(log)[start : start + 1 + number % 3], text=f"Number {number} of {len(before)}.")
        elif move == "undo" and before:
            assert_undone(store, before.pop())
        elif move == "erase" and said:
            erase_and_undo_all(store, said.pop(number % len(said)), said, len(before))
            before.clear()
        assert_covered_once(logs, said)
    store.close()


def erase_and_undo_all(store: SqliteRecordStore, record_id: str, said: Sequence[str], compactions: int) -> None:
    """Erase in the middle of it all, then take back what is left: what stood before held what is gone."""
    with store.write() as transaction:
        transaction.erase([record_id])
    assert_covered_once(store.session_logs(), said)
    for _ in range(compactions):
        undo(store)


def assert_undone(store: SqliteRecordStore, former: SessionLog) -> None:
    undo(store)
    entries = store.session_logs().log(ANN).entries
    assert entries[: len(former.entries)] == former.entries
    assert all(entry.form == "original" for entry in entries[len(former.entries) :])


def assert_covered_once(logs: SessionLogStore, said: Sequence[str]) -> None:
    log = logs.log(ANN)
    assert sorted(covered for entry in log.entries for covered in entry.covers) == sorted(said)
    assert [entry.covers[0] for entry in log.entries] == sorted(entry.covers[0] for entry in log.entries)
    assert all(entry.covers == tuple(sorted(entry.covers)) for entry in log.entries)
    assert (logs.size(ANN).tokens, logs.size(ANN).entries) == (log.tokens, len(log.entries))


def test_originals_are_read_whether_they_stand_or_not(store: RecordStore, logs: SessionLogStore) -> None:
    """P1.3: what was said, and the calls of some tools, in order; nothing that was retired, nor of another session."""
    said = say(store, 2)
    calls = say(store, 1, kind="tool_call", tool="Task", call_id="c1")
    results = say(store, 1, kind="tool_result", tool="Task", call_id="c1")
    say(store, 1, kind="tool_result", tool="Bash", call_id="c2")
    say(store, 1, OTHERS[0])
    [retired] = say(store, 1, status="retired")
    compact(store, [*said, *calls, *results])
    assert [each.id for each in logs.originals(ANN, {"Task"})] == [*said, *calls, *results]
    assert [each.id for each in logs.originals(ANN, ())] == said
    assert retired not in {each.id for each in logs.originals(ANN, {"Task"})}
