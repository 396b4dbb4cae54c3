"""The contract of `RecordStore`, over every implementation."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcp_memory.domain.model.contexts import Component, ContextReport, Omission
from mcp_memory.domain.model.records import KINDS, Entity, Kind, Record, Relation
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.text.words import content_hash, normal_hash, packed_terms
from mcp_memory.errors import EmbedderMismatch, StoreBusy, StoreUnavailable
from mcp_memory.ports.records import RecordOrder, RecordStore
from mcp_memory.ports.text import Vectors
from tests.index_rows import rows, terms_of

Add = Callable[..., Record]
Open = Callable[..., RecordStore]
HERE = RecordFilter(scopes=("shared/here",))
ANN = Caller(namespace="here", agent="ann", session_id="s1")
EMBEDDER = "contract-embedder"
VECTOR = np.full((1, 8), 8**-0.5, np.float32)


def ids(records: list[Record]) -> frozenset[str]:
    return frozenset(record.id for record in records)


def found(store: RecordStore, word: str) -> list[str]:
    """Ids of the records whose terms have this word."""
    wanted = set(terms_in(packed_terms(word)))
    return [record_id for record_id, terms in terms_of(store).items() if wanted & set(terms_in(terms))]


def terms_in(packed: bytes | None) -> list[int]:
    return [number for number, _ in struct.iter_unpack("<IB", packed or b"")]


def test_what_a_write_stored_is_read_back_field_by_field(store: RecordStore, add: Add) -> None:
    """R1: nothing of a record is lost on the way to the disk and back."""
    record = add(
        "Ünïcode \u0001 \U0001f980 日本語", kind="decision",
        tags=("b", "a"), details={"reasons": ["x", {"deep": None}]},
        pinned=True, confidence=0.25, outcome="partial", speaker="Bo", role="user", tool="sh", call_id="c1",
        task_id="t1", importance=9.5, occurred_at=-5.5,
    )  # fmt: skip
    assert store.get([record.id], ["shared/here"]) == {record.id: record}


def test_a_request_reads_a_record_once_and_the_next_one_anew(store: RecordStore, add: Add) -> None:
    """R5: within one revision nothing changes; who reads other scopes is shown no more for it."""
    record, unread = add("kept"), add("kept beside")
    with store.snapshot():
        read = store.get([record.id, "r-unknown"], ["shared/here"])[record.id]
        again = store.get([record.id, unread.id, "r-unknown"], ["shared/here"])
        assert again == {record.id: record, unread.id: unread}
        assert again[record.id] is read
        assert store.get([record.id], ["shared/there"]) == {}
    with store.write() as transaction:
        transaction.update(replace(record, text="changed"), VECTOR)
    with store.snapshot():
        assert store.get([record.id], ["shared/here"])[record.id].text == "changed"


def test_a_write_that_fails_leaves_nothing(store: RecordStore, add: Add) -> None:
    """R1: all or nothing, the change numbers included."""
    add("kept")
    before = store.revision()
    with pytest.raises(ZeroDivisionError):
        change_and_fail(store)
    assert store.revision() == before
    assert [record.text for record in store.list(HERE, "created", 10)] == ["kept"]


def change_and_fail(store: RecordStore) -> None:
    with store.write() as transaction:
        transaction.update(replace(store.list(HERE, "created", 1)[0], text="changed"))
        transaction.set_place(ANN, None)
        raise ZeroDivisionError


def test_change_numbers_rise_strictly_over_all_processes(open_store: Open, add: Add) -> None:
    """B11.2: one sequence, so that who has applied number n has missed nothing before it."""
    stores = [open_store(), open_store()]
    seen: list[str] = []
    revisions = [stores[0].revision()]
    for turn in range(10):
        seen.append(add(f"text {turn}", to=stores[turn % 2]).id)
        revisions.append(stores[(turn + 1) % 2].revision())
    assert seen == sorted(set(seen))
    assert all(one < next_one for one, next_one in pairwise(revisions))
    changes = [change.change for change in stores[0].changes(0, EMBEDDER)]
    assert changes == sorted(set(changes))
    assert changes[-1] <= revisions[-1]


def test_threads_take_turns_at_writing(store: RecordStore, add: Add) -> None:
    """R1: eight threads, none of whose writes is lost or mixed with another's."""

    def write_ten(number: int) -> None:
        for turn in range(10):
            add(f"{number} {turn}")

    threads = [threading.Thread(target=write_ten, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [record.text for record in store.list(HERE, "created", 1000)]
    assert sorted(texts) == sorted(f"{number} {turn}" for number in range(8) for turn in range(10))


FILTERS: tuple[tuple[Mapping[str, Any], set[str]], ...] = (
    ({}, {"plain", "rich", "branch"}),
    ({"include_inactive": True}, {"plain", "rich", "branch", "retired", "inactive"}),
    ({"kinds": frozenset({"decision", "event"})}, {"rich"}),
    ({"event_types": frozenset({"error"}), "include_inactive": True}, {"retired"}),
    ({"tags": frozenset({"red", "none"})}, {"rich"}),
    ({"tags": frozenset({"re"})}, set[str]()),
    ({"all_tags": frozenset({"red", "big"})}, {"rich"}),
    ({"all_tags": frozenset({"red", "blue"})}, set[str]()),
    ({"without_tags": frozenset({"red", "none"})}, {"plain", "branch"}),
    ({"entities": frozenset({"ALPHA"})}, {"rich"}),
    ({"entity_types": frozenset({"person"})}, {"rich"}),
    ({"entity_types": frozenset({"place"})}, set[str]()),
    ({"since": 200.0}, {"rich"}),
    ({"until": 200.0}, {"plain", "branch"}),
    ({"since": 0.0, "until": 0.0}, set[str]()),
    ({"task_id": "t1"}, {"rich"}),
    ({"session_id": "s2"}, {"rich"}),
    ({"pinned": True}, {"rich"}),
    ({"authors": frozenset({"bob", "eve"})}, {"branch"}),
    ({"statuses": frozenset({"active", "retired"})}, {"rich"}),
    ({"statuses": frozenset({"retired"}), "include_inactive": True}, {"retired"}),
    ({"own_of": "bob"}, {"branch", "rich"}),
    ({"own_of": "nobody"}, {"rich"}),
    ({"hidden_branches": frozenset({"t9"})}, {"plain", "rich"}),
    ({"hidden_branches": frozenset({"t8"})}, {"plain", "rich", "branch"}),
    ({"isolated_tasks": frozenset({"t1"})}, {"plain", "rich", "branch"}),
    ({"only": frozenset[str]()}, set[str]()),
    ({"kinds": frozenset({"decision"}), "tags": frozenset({"blue"})}, set[str]()),
)
"""Each, and what passes it of the records of the next test, by their names."""


def test_a_filter_lets_pass_exactly_what_it_names(store: RecordStore, add: Add) -> None:
    """S4.1: filters hold in listing and in the ids handed to searches."""
    add("thing plain")
    add(
        "thing rich", kind="decision", status="active", tags=("red", "big"), task_id="t1", session_id="s2", pinned=True,
        occurred_at=200.0, visibility="user", entities=[Entity(name="Alpha", type="person")],
    )  # fmt: skip
    add("thing branch", branch_id="t9", agent="bob")
    add("thing retired", status="retired", kind="event", details={"type": "error"})
    add("thing inactive", status="inactive")
    add("thing elsewhere", scope="shared/there")
    add("thing private", scope="private/bob/here")
    for where, passing in FILTERS:
        asked = replace(HERE, **where)
        wanted = {f"thing {name}" for name in passing}
        listed = store.list(asked, "created", 100)
        assert {record.text for record in listed} == wanted, where
        assert store.matching_ids(asked) == ids(list(listed))
        assert set(store.list_ids(asked, "created", 100)) == ids(list(listed))


@pytest.mark.parametrize("kind", KINDS)
def test_of_an_isolated_task_what_happened_stays_out_and_what_was_learnt_passes(
    store: RecordStore, add: Add, kind: Kind
) -> None:
    """T2.2: the log and episodes; those of other tasks, or of none, pass."""
    inside, outside, nowhere = (add(f"{task}", kind=kind, task_id=task) for task in ("t1", "t2", None))
    happened = kind in ("episode", "event", "message", "tool_call", "tool_result", "summary")
    asked = replace(HERE, isolated_tasks=frozenset({"t1", "t9"}))
    assert store.matching_ids(asked) == {outside.id, nowhere.id} | (set[str]() if happened else {inside.id})


def test_excluded_records_and_all_but_the_named_ones_stay_out(store: RecordStore, add: Add) -> None:
    """S4.1: `only` and `exclude` narrow together, and never widen the scope."""
    one, two, foreign = add("one"), add("two"), add("three", scope="shared/there")
    asked = replace(HERE, only=frozenset({one.id, two.id, foreign.id}), exclude=frozenset({two.id}))
    assert store.matching_ids(asked) == {one.id}
    assert store.matching_ids(replace(HERE, scopes=())) == frozenset()


def test_a_turn_is_found_by_who_spoke(store: RecordStore, add: Add) -> None:
    """R5: the speaker's name is part of what is searched."""
    record = add("I moved to Lisbon", kind="message", speaker="Zoe")
    assert found(store, "Zoe") == [record.id]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("created", "cba"), ("occurred", "abc"), ("accessed", "bca"), ("important", "acb")],
)
def test_lists_come_newest_or_highest_first(store: RecordStore, add: Add, order: RecordOrder, expected: str) -> None:
    """B11.2: a fixed order, ties by newest."""
    add("a", occurred_at=3.0, accessed_at=1.0, importance=5.0)
    add("b", occurred_at=2.0, accessed_at=3.0, importance=1.0)
    add("c", occurred_at=1.0, accessed_at=2.0, importance=3.0)
    listed = store.list(HERE, order, 10)
    assert "".join(record.text for record in listed) == expected
    paged = [store.list(HERE, order, 1, offset)[0].text for offset in range(3)]
    assert "".join(paged) == expected


def test_the_latest_sessions_are_found_whatever_others_store(
    store: RecordStore, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C9.1, M3.1: a bounded way back in each scope; what is told of earlier days is no news."""
    monkeypatch.setattr("mcp_memory.stores.records.store.LOOK_BACK", 3)
    for session, scope, day in (
        ("forgotten", "shared/here", 1.0), ("first", "shared/here", 2.0), ("own", "user", 3.0),
        ("last", "shared/here", 5.0), ("of old", "shared/here", 4.0),
    ):  # fmt: skip
        add(session, scope=scope, session_id=session, occurred_at=day)
    for number in range(5):
        add(f"others' {number}", scope="shared/there", session_id="others'", occurred_at=9.0)
    where = RecordFilter(scopes=("shared/here", "user"))
    assert store.recent_sessions(where, 9) == ["last", "of old", "own", "first"]
    assert store.recent_sessions(where, 1) == ["last"]
    add("ahead", session_id="ahead", occurred_at=1e9, created_at=4.5)
    assert store.recent_sessions(where, 2) == ["last", "ahead"]


def test_vectors_change_in_order_and_tombstones_among_them(
    store: RecordStore, add: Add, vectors_of: Callable[..., Vectors]
) -> None:
    """B11.2: an index that follows the sequence ends where the truth is."""
    two_windows = vectors_of(7, 2)
    first, second, third = add("first", vectors=two_windows), add("second"), add("third")
    middle = store.revision()
    with store.write() as transaction:
        transaction.erase([second.id])
    with store.write() as transaction:
        transaction.update(replace(first, status="retired"))
        transaction.update(replace(third, scope="shared/there"))
    changes = list(store.changes(0, EMBEDDER))
    assert [(change.id, change.scope, change.is_live) for change in changes] == [
        (second.id, "shared/here", False),
        (first.id, "shared/here", False),
        (third.id, "shared/there", True),
    ]
    assert changes[0].vectors is None
    assert changes[1].vectors is not None
    assert np.array_equal(changes[1].vectors, two_windows)
    assert [change.change for change in changes] == sorted(change.change for change in changes)
    assert next(store.changes(middle, EMBEDDER)).id == second.id
    assert list(store.changes(store.revision(), EMBEDDER)) == []


def test_terms_change_in_order_and_tombstones_beside_them(store: RecordStore, add: Add) -> None:
    """S1.2: of everything that is searched of a record."""
    first = add("The port is open.", speaker="Zoe", details={"reason": "a ship is due"})
    second, third = add("second"), add("third")
    middle = store.revision()
    with store.write() as transaction:
        transaction.erase([second.id])
        transaction.update(replace(first, status="retired"))
        transaction.update(replace(third, scope="shared/there", text="changed"), VECTOR)
    session = first.session_id
    assert rows(store, "terms", middle) == [
        (first.id, "shared/here", False, packed_terms("Zoe: The port is open.\na ship is due"), session),
        (third.id, "shared/there", True, packed_terms("changed"), None),
    ]
    assert [record_id for record_id, _ in rows(store, "erasures", middle)] == [second.id]
    assert [each.id for each in store.changes(0)] == [second.id, first.id, third.id]
    assert list(store.changes(store.revision())) == []


def test_a_change_stream_left_half_read_hinders_nobody(store: RecordStore, add: Add) -> None:
    """S1.1: a reader that stops in the middle keeps neither lock nor connection."""
    for number in range(20):
        add(str(number))
    for _ in range(50):
        next(iter(store.changes(0, EMBEDDER)))
        next(iter(store.changes(0)))
    gone = add("to be erased")
    with store.write() as transaction:
        transaction.erase([gone.id])
    store.purge()
    assert len(list(store.changes(0, EMBEDDER))) == 21


def test_the_last_of_a_chain_of_successors_stands_for_all(store: RecordStore, add: Add) -> None:
    """R8: however often a value was corrected, the newest is named."""
    a, b, c, alone = (add(text) for text in ("a", "b", "c", "alone"))
    with store.write() as transaction:
        transaction.update(replace(a, superseded_by=b.id, status="superseded"))
        transaction.update(replace(b, superseded_by=c.id, status="superseded"))
    assert store.successors([a.id, b.id, c.id, alone.id, "r-unknown"]) == {a.id: c.id, b.id: c.id}


def test_a_loop_of_successors_ends(store: RecordStore, add: Add) -> None:
    """R8: two records that name each other are no trap."""
    a, b = add("a"), add("b")
    with store.write() as transaction:
        transaction.update(replace(a, superseded_by=b.id))
        transaction.update(replace(b, superseded_by=a.id))
    assert store.successors([a.id]).keys() == {a.id}


def test_erasing_a_successor_is_a_change_of_what_it_replaced(store: RecordStore, add: Add) -> None:
    """R9: whoever keeps links hears that this one is gone."""
    new = add("new")
    old = add("old", superseded_by=new.id, status="superseded")
    before = store.revision()
    with store.write() as transaction:
        transaction.erase([new.id])
    changes = {change.id: change.superseded_by for change in store.changes(before)}
    assert changes == {new.id: None, old.id: None}


def test_counting_counts_what_passes(store: RecordStore, add: Add) -> None:
    """R6: by the same filters as everything else."""
    for kind, status in (("fact", "new"), ("fact", "retired"), ("decision", "new")):
        add(f"{kind} {status}", kind=kind, status=status)
    where = HERE
    assert store.count(where) == 2
    assert store.count(replace(where, kinds=frozenset({"fact"}))) == 1
    assert store.count(replace(where, scopes=())) == 0


def task(task_id: str, **fields: Any) -> Task:
    made = Task(
        id=task_id, namespace="here", parent_id=None, goal=f"goal of {task_id}", status="active", depth=0, agent="ann",
        session_id="s1", created_at=1.0, updated_at=1.0,
    )  # fmt: skip
    return replace(made, **fields)


def test_tasks_and_places_are_kept_per_namespace_and_agent(store: RecordStore) -> None:
    """S4.1: a tree per namespace, a place per agent and named session."""
    named = replace(ANN, session_id="mine", named_session=True)
    with store.write() as transaction:
        root = task(transaction.next_id("t"), artifacts=("a.py",), inherit=("r1",), success_criteria="done")
        transaction.add_task(root)
        branch = task(transaction.next_id("t"), parent_id=root.id, depth=1, branch=True)
        transaction.add_task(branch)
        foreign = task(transaction.next_id("t"), namespace="there", branch=True)
        transaction.add_task(foreign)
        transaction.set_place(ANN, root.id)
        transaction.set_place(named, branch.id)
        assert transaction.places(ANN) == {"": root.id, "mine": branch.id}
        assert transaction.open_branches() == {branch.id, foreign.id}
    assert list(store.tasks("here")) == [root, branch]
    assert store.places(ANN) == {"": root.id, "mine": branch.id}
    assert store.places(replace(ANN, agent="bob")) == {}
    assert store.places(replace(ANN, namespace="there")) == {}
    with store.write() as transaction:
        transaction.update_task(replace(branch, status="complete", result="merged"))
        transaction.set_place(named, None)
    assert store.tasks("here")[1].result == "merged"
    assert store.open_branches() == {foreign.id}
    assert store.places(ANN) == {"": root.id}


def test_a_closed_branch_inside_an_open_one_still_hides_its_records(store: RecordStore) -> None:
    """T4.3: however deep, until the outermost is closed; one beside it does not wait for it."""
    with store.write() as transaction:
        root = task(transaction.next_id("t"))
        outer = task(transaction.next_id("t"), parent_id=root.id, depth=1, branch=True)
        between = task(transaction.next_id("t"), parent_id=outer.id, depth=2, status="complete")
        inner = task(transaction.next_id("t"), parent_id=between.id, depth=3, branch=True, status="failed")
        beside = task(transaction.next_id("t"), parent_id=root.id, depth=1, branch=True, status="complete")
        for each in (root, outer, between, inner, beside):
            transaction.add_task(each)
    assert store.open_branches() == {outer.id, inner.id}
    with store.write() as transaction:
        transaction.update_task(replace(outer, status="abandoned"))
    assert store.open_branches() == frozenset()


def test_touching_counts_without_advancing_the_revision(store: RecordStore, add: Add) -> None:
    """B11.2: telemetry is no change."""
    record = add("opened")
    before = store.revision()
    store.touch([record.id], 500.0)
    store.touch([record.id, "r-unknown"], 400.0)
    after = store.get([record.id], ["shared/here"])[record.id]
    assert (after.counters.accessed, after.accessed_at) == (2, 500.0)
    assert store.revision() == before


def test_touching_never_waits_for_a_writer(open_store: Open, add: Add) -> None:
    """B11.2: while another process writes the access is kept for the next time."""
    store, other = open_store(), open_store()
    record = add("opened", to=store)
    with other.write():
        store.touch([record.id], 500.0)  # Would wait for ever: the writer is this very thread.
    with store.write():
        store.touch([record.id], 600.0)
    store.touch([], 0.0)
    assert store.get([record.id], ["shared/here"])[record.id].accessed_at == 600.0


def test_a_context_is_kept_for_its_agent_alone_and_without_text(store: RecordStore, tmp_path: Path) -> None:
    """S4.1, B11.2: the account can be asked for by who got the context; it holds no text and is no change."""
    component = Component(
        source="keyword", kind="fact", id="r1", tokens=3, score=0.5, detail="full", text="the zebrafinch text"
    )
    report = ContextReport(
        id="c123", token_count=10, truncated=False, strategy="auto", components=(component,),
        omitted=(Omission(id="r2", reason="no room"),), metadata={"n": 1},
    )  # fmt: skip
    before = store.revision()
    store.keep_context(report, ANN, 1000.0)
    kept = store.context("c123", ANN)
    assert kept == replace(report, components=(replace(component, text=""),))
    assert store.context("c123", replace(ANN, agent="bob")) is None
    assert store.context("c123", replace(ANN, namespace="there")) is None
    assert store.revision() == before
    assert not any(b"zebrafinch" in path.read_bytes() for path in (tmp_path / "data").glob("*"))


def test_a_block_is_kept_until_anything_is_erased(store: RecordStore, add: Add, tmp_path: Path) -> None:
    """U1.1, R9: whoever was given it; not where one of its records changed or was erased while it was made."""
    quoted, erased = add("the zebrafinch sings"), add("the kiwi sleeps")
    component = Component(source="keyword", kind="fact", id=quoted.id, tokens=3, score=0.5, detail="full")
    block = (("", "<memory-context>"), (quoted.id, 'the zebrafinch, "block": ["sings"]'), ("", "</memory-context>"))
    report = ContextReport(
        id="c1", token_count=9, truncated=False, strategy="auto", components=(component,), omitted=(),
        metadata={"revision": store.revision()}, block=block,
    )  # fmt: skip
    early = replace(report, id="c2", metadata={"revision": 0})
    for each in (report, early):
        store.keep_context(each, ANN, 1.0)
    store.keep_context(report, replace(ANN, agent="bob"), 1.0)
    assert store.context("c1", ANN) == report
    assert store.context("c2", ANN) == replace(early, block=())
    with store.write(ANN, alone=True) as transaction:
        transaction.erase([erased.id])
    cut = replace(report, block=(), is_erased=True)
    assert store.context("c1", ANN) == store.context("c1", replace(ANN, agent="bob")) == cut
    assert store.context("c2", ANN) == replace(early, block=()), "its text was never there"
    gone = replace(report, components=(replace(component, id=erased.id),))
    store.keep_context(gone, ANN, 1.0)
    assert store.context("c1", ANN) == replace(gone, block=())


def test_contexts_are_found_by_a_record_that_they_name(store: RecordStore) -> None:
    """U1.1, S4.1: given or left out, newest first; those of other agents for people who have all."""
    component = Component(source="keyword", kind="fact", id="r000001", tokens=3, score=0.5, detail="full")
    report = ContextReport(
        id="c1", token_count=10, truncated=False, strategy="auto", components=(component,),
        omitted=(Omission(id="r000002", reason="no room"),),
    )  # fmt: skip
    store.keep_context(report, ANN, 1.0)
    store.keep_context(replace(report, id="c2", components=()), ANN, 2.0)
    store.keep_context(replace(report, id="c3"), replace(ANN, agent="bob"), 3.0)
    store.keep_context(replace(report, id="c4"), replace(ANN, namespace="there"), 4.0)

    def naming(record_id: str, limit: int = 9, *, of_all: bool = False) -> list[tuple[float, str]]:
        found = store.contexts_naming(record_id, ANN, limit, of_all=of_all)
        return [(at, each.id) for at, each in found]

    assert naming("r000001") == [(1.0, "c1")]
    assert naming("r000002") == [(2.0, "c2"), (1.0, "c1")]
    assert naming("r000002", 1) == [(2.0, "c2")]
    assert naming("r000002", of_all=True) == [(3.0, "c3"), (2.0, "c2"), (1.0, "c1")]
    assert naming("r00000") == []


def test_contexts_are_kept_for_two_weeks(store: RecordStore) -> None:
    """B11.2: older ones make room."""
    report = ContextReport(id="c1", token_count=1, truncated=False, strategy="auto", components=(), omitted=())
    store.keep_context(report, ANN, 0.0)
    store.keep_context(replace(report, id="c2"), ANN, 15 * 86_400.0)
    assert store.context("c1", ANN) is None
    assert store.context("c2", ANN) is not None


def test_vectors_of_two_embedders_are_never_mixed(open_store: Open, add: Add) -> None:
    """R1: what cannot be found later is refused, with the remedy, and nothing of it is stored."""
    store = open_store()
    assert store.embedder_id() is None
    add("by the first", to=store)
    assert store.embedder_id() == EMBEDDER
    with pytest.raises(EmbedderMismatch, match="reindex"):
        add("by the second", to=open_store("another"))
    assert [record.text for record in store.list(HERE, "created", 10)] == ["by the first"]


def test_another_embedder_takes_over_when_it_has_embedded_everything(
    open_store: Open, add: Add, vectors_of: Callable[..., Vectors]
) -> None:
    """S2.2: until then the old vectors answer; what changed meanwhile is embedded again."""
    store, new = open_store(), open_store("another")
    spoken, changed = add("hello", to=store, speaker="Al"), add("first", to=store)
    assert new.unembedded("another", 1) == [(spoken.id, 2, "Al: hello")]
    todo = new.unembedded("another", 10)
    with store.write() as transaction:
        transaction.update(replace(changed, text="second"), vectors_of(3))
    new.add_vectors("another", {(record_id, change): vectors_of(9) for record_id, change, _ in todo})
    assert new.adopt_embedder("another") is False
    assert new.embedder_id() == EMBEDDER
    (left,) = new.unembedded("another", 10)
    assert left[0] == changed.id
    assert left[2] == "second"
    before = new.revision()
    new.add_vectors("another", {left[:2]: vectors_of(10)})
    assert new.adopt_embedder("another") is True
    assert new.embedder_id() == "another"
    assert {change.id for change in new.changes(before, "another") if change.vectors is not None} == {
        spoken.id,
        changed.id,
    }
    with pytest.raises(EmbedderMismatch):
        add("by the old one", to=store)


def test_a_text_is_found_by_its_digest_now_and_before(
    store: RecordStore, add: Add, vectors_of: Callable[..., Vectors]
) -> None:
    """R2, R8: the same text is known again, also after it was corrected, and never across scopes."""
    record = add("The port is 80.")
    add("The port is 80.", kind="message", status="active")
    with store.write() as transaction:
        transaction.update(replace(record, text="The port is 443.", updated_at=2.0), vectors_of(1))
        new, old = content_hash("The port is 443."), content_hash("The port is 80.")
        former = normal_hash("the port  is 80")
        found_new, found_old = (
            transaction.find_text("shared/here", new),
            transaction.find_corrected("shared/here", former),
        )
        assert found_new is not None
        assert found_old is not None
        assert found_new.id == found_old.id == record.id
        assert transaction.find_text("shared/here", old) is None
        assert transaction.find_corrected("shared/there", former) is None
        assert transaction.find_corrected("shared/here", normal_hash("The port is 443.")) is None
        assert record.id in transaction.find_alike("shared/here", normal_hash("the PORT, is 443"))
    assert store.find_texts([("shared/here", new), ("shared/here", old), ("shared/there", new)]) == {
        ("shared/here", new)
    }
    (version,) = store.versions([record.id])[record.id]
    assert (version.at, version.before["text"]) == (1000.0, "The port is 80.")
    assert found(store, "443") == [record.id]
    assert record.id not in found(store, "80")


def test_a_session_confirms_a_record_once(store: RecordStore, add: Add) -> None:
    """R2: repeating it in the same session counts for nothing."""
    record = add("met again")
    with store.write() as transaction:
        assert transaction.confirm(record, "s7")
        assert not transaction.confirm(record, "s7")
        assert transaction.confirm(record, "s8")


def test_an_erased_record_leaves_nothing_that_can_be_read(store: RecordStore, add: Add) -> None:
    """R9: neither itself, nor its words, vectors, old texts, entities or the mark on what it replaced."""
    shared = Entity(name="Shared")
    old = add("the old value", entities=[shared])
    gone = add(
        "the secret value", entities=[shared, Entity(name="Onlyhere", properties={"k": "v"})],
        relations=[Relation(source="Onlyhere", type="uses", target="Alsoonlyhere")],
    )  # fmt: skip
    with store.write() as transaction:
        transaction.update(replace(old, superseded_by=gone.id, status="superseded"))
        transaction.erase([gone.id])
        assert transaction.get(gone.id) is None
    assert store.get([gone.id], ["shared/here"]) == {}
    assert found(store, "secret") == []
    assert store.successors([old.id]) == {}
    assert store.matching_ids(replace(HERE, entities=frozenset({"onlyhere", "alsoonlyhere"}))) == frozenset()
    assert store.matching_ids(replace(HERE, entities=frozenset({"shared"}))) == {old.id}


def test_a_summary_counts_what_the_caller_may_see(store: RecordStore, add: Add) -> None:
    """S4.1: foreign scopes and hidden branches do not enter any count; what was retired is told by its status alone."""
    add("mine")
    add("retired", status="retired", kind="decision")
    add("hidden", branch_id="t9", session_id="s9")
    add("foreign", scope="private/bob/here", session_id="s8")
    summary = store.summarize(ANN, frozenset({"t9"}))
    assert dict(summary.records) == {"fact": 1}
    assert dict(summary.statuses) == {"new": 1, "retired": 1}
    assert summary.sessions == 1
    assert summary.revision == store.revision()
    assert summary.embedder == EMBEDDER
    assert summary.file_bytes > 0


@pytest.mark.parametrize("open_store", ["sqlite"], indirect=True)
def test_a_backup_taken_under_writes_is_one_consistent_moment(open_store: Open, add: Add, tmp_path: Path) -> None:
    """R1, R9: pairs that were written together are both in it or both out; it opens as a store of its own."""
    store, other = open_store(), open_store()
    stop = threading.Event()

    def write_pairs() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with other.write() as transaction:
                record = replace(seed, id=transaction.next_id("r"), text=f"pair {number}")
                twin = replace(seed, id=transaction.next_id("r"), text=f"pair {number}", kind="message")
                for one in (record, twin):
                    transaction.insert(one, vectors, (), ())

    seed = add("seed", to=store)
    (change,) = store.changes(0, EMBEDDER)
    assert change.vectors is not None
    vectors = change.vectors
    writer = threading.Thread(target=write_pairs)
    writer.start()
    try:
        for number in range(3):
            store.backup(str(tmp_path / f"copy{number}" / "memory.db"))
    finally:
        stop.set()
        writer.join()
    for number in range(3):
        copy = open_store(folder=f"copy{number}")
        texts = [record.text for record in copy.list(HERE, "created", 100_000)]
        assert all(texts.count(text) == 2 for text in set(texts) - {"seed"})
        assert "seed" in texts
        assert found(copy, "seed") == [seed.id]


@pytest.mark.parametrize("open_store", ["sqlite"], indirect=True)
def test_a_backup_never_overwrites(store: RecordStore, add: Add, tmp_path: Path) -> None:
    """S2.3: what is there stays, and the message says what to do."""
    add("one")
    target = tmp_path / "copy.db"
    target.write_bytes(b"precious")
    with pytest.raises(StoreUnavailable, match="name a new file"):
        store.backup(str(target))
    assert target.read_bytes() == b"precious"


def test_a_record_that_becomes_private_takes_its_entities_along(store: RecordStore, add: Add) -> None:
    """S4.1: nothing of it stays in the scope it left; what others say there does."""
    add("Bo plays", entities=[Entity(name="Bo")])
    moved = add(
        "Bo met Cy", entities=[Entity(name="Bo"), Entity(name="Cy", properties={"age": 3})],
        relations=[Relation(source="Bo", type="met", target="Cy")],
    )  # fmt: skip
    with store.write() as transaction:
        transaction.update(replace(moved, scope="private/ann/here", visibility="private"))
    private = replace(HERE, scopes=("private/ann/here",))
    assert store.matching_ids(replace(private, entities=frozenset({"cy"}))) == {moved.id}
    with store.write() as transaction:  # A relation naming Cy in the shared scope finds no such entity there.
        named = replace(moved, id=transaction.next_id("r"), scope="shared/here")
        transaction.insert(named, np.ones((1, 8), np.float32), (), [Relation(source="Bo", type="knows", target="Cy")])
    assert store.matching_ids(replace(HERE, entities=frozenset({"cy"}))) == {named.id}
    with store.write() as transaction:
        transaction.erase([moved.id])
    assert store.matching_ids(replace(private, entities=frozenset({"cy", "bo"}))) == frozenset()
    assert store.matching_ids(replace(HERE, entities=frozenset({"cy"}))) == {named.id}


def test_what_may_be_due_is_found_in_every_scope(store: RecordStore, add: Add) -> None:
    """C8.2, C8.7: by kind, status and when it was stored or last opened, not by when it happened."""
    assert list(store.to_maintain("episode", ("active",), 1e9)) == []
    due = [
        add(f"day in {scope}", kind="episode", status="active", scope=scope, created_at=100.0, accessed_at=40.0)
        for scope in ("shared/here", "shared/there", "private/ann/here", "user")
    ]
    add("today", kind="episode", status="active", created_at=300.0, occurred_at=1.0)
    add("opened today", kind="episode", status="active", created_at=100.0, accessed_at=300.0)
    summarized = add("last month", kind="episode", status="summarized", created_at=100.0, accessed_at=100.0)
    add("last year", kind="episode", status="archived")
    add("no episode", kind="procedure", status="active")
    assert ids([*store.to_maintain("episode", ("active",), 200.0)]) == ids(due)
    assert ids([*store.to_maintain("episode", ("active", "summarized"), 100.0)]) == ids([*due, summarized])
    assert list(store.to_maintain("episode", ("active",), 99.0)) == []
    [first, *_] = store.to_maintain("episode", ("summarized",), 200.0)
    assert first == summarized


def test_how_decisions_went_is_told_with_how_sure_somebody_was(store: RecordStore, add: Add) -> None:
    """C8.5, C9.1: the newest first, where both is known, within the filter."""
    decision = {"kind": "decision", "status": "reviewed"}
    add("a", **decision, confidence=0.9, outcome="success")
    add("b", **decision, confidence=0.0, outcome="partial")
    add("c", kind="decision", status="retired", confidence=0.2, outcome="failure")
    add("pending", kind="decision", status="pending", confidence=0.9, outcome="pending")
    add("open", kind="decision", status="recorded", confidence=0.9)
    add("unsure", **decision, outcome="success")
    add("no decision", confidence=0.9, outcome="success")
    add("elsewhere", **decision, confidence=0.9, outcome="success", scope="shared/there")
    assert store.judged_confidences(HERE) == [(0.0, "partial"), (0.9, "success")]
    everything = replace(HERE, include_inactive=True)
    assert store.judged_confidences(everything) == [(0.2, "failure"), (0.0, "partial"), (0.9, "success")]


def test_what_a_record_superseded_is_known(store: RecordStore, add: Add) -> None:
    """C8.1, R8: one step down the chain, in the order in which they were stored."""
    newest = add("newest")
    newer = add("newer", superseded_by=newest.id, status="superseded")
    old = [add(text, superseded_by=newer.id, status="superseded") for text in ("old", "older")]
    with store.write() as transaction:
        assert [*transaction.replaced_by(newest.id)] == [newer]
        assert [*transaction.replaced_by(newer.id)] == old
        assert [*transaction.replaced_by(old[0].id)] == []


def test_who_has_no_patience_does_not_wait_to_write(open_store: Open) -> None:
    """C8.7: neither for another process nor for another thread."""
    one, other = open_store(), open_store()
    with one.write():
        for impatient in (one, other):
            with pytest.raises(StoreBusy), impatient.write(patiently=False):
                pytest.fail("somebody else was writing")
    with other.write(patiently=False) as transaction:
        assert transaction.next_id("r")


def test_namespaces_with_something_shared_are_named(store: RecordStore, add: Add) -> None:
    """F4.2: neither private records nor those that were retired make a namespace known."""
    assert store.shared_namespaces() == []
    add("shared")
    add("of there", namespace="there", scope="shared/there")
    add("also of there", namespace="there", scope="shared/there")
    add("private", namespace="hers", scope="private/ann/hers", visibility="private")
    add("retired", namespace="gone", scope="shared/gone", status="retired")
    assert store.shared_namespaces() == ["here", "there"]
