"""What every `FilterIndex` promises: it lets pass what the truth's own filter does, after any history.

Over PostgreSQL long histories take long (`pytest.mark.rounds`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import KINDS, Entity, Kind, Record
from mcp_memory.domain.model.scopes import ISOLATED_KINDS, RecordFilter
from mcp_memory.domain.retrieval.log_lines import TextDigests, besides, words_digest
from mcp_memory.domain.retrieval.turns import Turn
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import Facet, FilterIndex, Outline
from mcp_memory.stores.filter_index import BitmapFilterIndex
from mcp_memory.stores.follower import Follower
from tests.contract.conftest import BLANK, NewMemory, unit_vectors
from tests.reloaded import ReloadingFollower

INDEXES: dict[str, Callable[[RecordStore], FilterIndex]] = {
    "bitmap": lambda records: BitmapFilterIndex(Follower(records)),
    "reloaded": lambda records: BitmapFilterIndex(ReloadingFollower(records)),
}
Make = Callable[[RecordStore], FilterIndex]

scopes = st.sampled_from(["shared/here", "shared/there", "private/ann/here"])
kinds: st.SearchStrategy[Kind] = st.sampled_from(["fact", "decision", "message", "event"])
tags = st.lists(st.sampled_from(["red", "green", "blue"]), unique=True).map(tuple)
tasks = st.sampled_from([None, "t000001", "t000002"])
times = st.sampled_from([100.0, 200.0, 300.0])
records = st.builds(
    partial(replace, BLANK),
    scope=scopes,
    kind=kinds,
    details=st.sampled_from([{}, {"type": "error"}, {"type": "read"}]),
    tags=tags,
    task_id=tasks,
    branch_id=tasks,
    session_id=st.sampled_from(["s1", "s2"]),
    pinned=st.booleans(),
    importance=st.sampled_from([1.0, 2.5, 7.0]),
    agent=st.sampled_from(["ann", "bob"]),
    rewritten_by=st.sampled_from(["", "ann", "eve"]),
    visibility=st.sampled_from(["shared", "user"]),
    status=st.sampled_from(["new", "retired", "inactive", "superseded"]),
    occurred_at=times,
)
steps = st.lists(st.tuples(st.sampled_from(["add", "add", "change", "erase", "ask"]), st.integers(0, 9), records))


@pytest.fixture(params=sorted(INDEXES))
def make(request: pytest.FixtureRequest) -> Make:
    return INDEXES[request.param]


@st.composite
def filters(draw: st.DrawFn, known: Sequence[str]) -> RecordFilter:
    some = st.frozensets(st.sampled_from([*known, "r-unknown", "rzzzzzzzzzzzz"]))
    return RecordFilter(
        scopes=tuple(draw(st.lists(scopes, unique=True))),
        kinds=draw(st.frozensets(kinds)),
        event_types=draw(st.frozensets(st.sampled_from(["error", "unheard"]))),
        tags=draw(st.frozensets(st.sampled_from(["red", "blue", "unheard"]))),
        all_tags=draw(st.frozensets(st.sampled_from(["red", "blue"]))),
        without_tags=draw(st.frozensets(st.sampled_from(["blue", "unheard"]))),
        entities=draw(st.sampled_from([frozenset[str](), frozenset({"Ada"}), frozenset({"Nobody"})])),
        since=draw(st.none() | times),
        until=draw(st.none() | times),
        task_id=draw(tasks),
        session_id=draw(st.sampled_from([None, "s1", "s3"])),
        authors=draw(st.frozensets(st.sampled_from(["ann", "eve", "nobody"]))),
        statuses=draw(st.frozensets(st.sampled_from(["new", "retired"]))),
        own_of=draw(st.sampled_from(["", "", "ann", "nobody"])),
        pinned=draw(st.booleans()),
        include_inactive=draw(st.booleans()),
        hidden_branches=draw(st.frozensets(st.sampled_from(["t000001", "t000009"]))),
        isolated_tasks=draw(st.frozensets(st.sampled_from(["t000001", "t000002", "t000009"]))),
        exclude=draw(some),
        only=draw(st.none() | some),
    )


def apply(store: RecordStore, known: list[str], step: tuple[str, int, Record]) -> None:
    """Add a record, or change or erase one that is there."""
    what, which, record = step
    with store.write() as transaction:
        if what == "add":
            added = replace(record, id=transaction.next_id("r"), text=f"thing {len(known)}")
            transaction.insert(added, unit_vectors(1), [Entity(name="Ada")] if which % 2 else [], [])
            known.append(added.id)
        elif known and what == "change":
            old = transaction.get(known[which % len(known)])
            assert old is not None
            transaction.update(replace(record, id=old.id, text=old.text, kind=old.kind))
        elif known:
            transaction.erase([known.pop(which % len(known))])


def counted(truth: RecordStore, where: RecordFilter, facet: Facet) -> list[tuple[str, int]]:
    """The values of a facet in the plainest words, the most common first."""
    values = {"author": "author", "tag": "tags"}.get(facet, facet)
    records = truth.list(where, "occurred", 1_000)
    if facet == "event_type":
        types = Counter(str(each.details["type"]) for each in records if each.kind == "event" and each.details)
        return sorted(types.items(), key=lambda each: (-each[1], each[0]))
    told = [getattr(record, values) for record in records]
    many = Counter(tag for tags in told for tag in tags) if facet == "tag" else Counter(told)
    return sorted(many.items(), key=lambda each: (-each[1], each[0]))


def balanced(truth: RecordStore, where: RecordFilter, at: float, decay_hours: float) -> list[str]:
    """Importance over age in the plainest words; what is of the future has no age."""
    newest_first = truth.list(where, "occurred", 1_000)
    return [
        record.id
        for record in sorted(
            newest_first,
            key=lambda record: record.importance / (1 + max(at - record.occurred_at, 0.0) / (3_600 * decay_hours)),
            reverse=True,
        )
    ]


def test_an_outline_tells_the_kind_the_form_of_a_turn_and_what_replaced_a_record(
    make: Make, open_store: Callable[..., RecordStore]
) -> None:
    """R5, R8, W8.1: whatever its status; nothing of other scopes or unknown ids; as it is after a change."""
    store = open_store()
    index = make(store)
    here = BLANK.scope

    def added(record: Record) -> str:
        with store.write() as transaction:
            made = replace(record, id=transaction.next_id("r"))
            transaction.insert(made, unit_vectors(1), [], [])
        return made.id

    said = added(replace(BLANK, text="one", role="assistant", status="retired", valid_from=5.0))
    told = added(replace(BLANK, text="And you?", kind="message", speaker="Ann", task_id="t000001", session_id="s2"))
    noted = added(replace(BLANK, text="And you?", speaker="Ann"))  # Only of a message the text is read.
    old = added(replace(BLANK, text="two", kind="decision", superseded_by=said, valid_until=9.0))
    foreign = added(replace(BLANK, text="three", scope="shared/there"))
    command = {"command": "pytest", "stdout": "ok"}
    event = added(replace(BLANK, text="run", kind="event", outcome="failure", details=command))
    prompt = added(replace(BLANK, text="Which?", kind="message", role="user"))
    ids = [said, told, noted, old, foreign, event, prompt, "r-unknown", "rzzzzzz"]
    asked = Turn(is_brief=True, questions=1.0)
    one, two, you = words_digest("one"), words_digest("two"), TextDigests(words_digest("and you"), besides("Ann", None))
    ran = TextDigests(words_digest("run"), besides(None, "failure", details=command))
    here_too = partial(Outline, session_id=BLANK.session_id, importance=BLANK.importance)
    known = {
        said: here_too(
            kind="fact",
            form=Turn(is_assistant=True),
            valid_from=5.0,
            said=TextDigests(one, besides(None, None, (5.0, None))),
        ),
        told: Outline(
            kind="message",
            task_id="t000001",
            session_id="s2",
            speaker="Ann",
            form=asked,
            said=you,
            importance=BLANK.importance,
        ),
        noted: here_too(kind="fact", speaker="Ann", said=you),
        old: here_too(
            kind="decision",
            superseded_by=said,
            valid_until=9.0,
            said=TextDigests(two, besides(None, None, (None, 9.0))),
        ),
        event: here_too(kind="event", said=ran),
        prompt: here_too(kind="message", form=Turn(only_asks=True), said=TextDigests(words_digest("which"), 0)),
    }
    assert index.outlines(ids, [here, "shared/unknown"]) == known
    assert index.outlines(ids, []) == {}
    with store.write() as transaction:
        was = transaction.get(old)
        assert was is not None
        transaction.update(replace(was, superseded_by=told, valid_until=None))
        transaction.erase([said])
    changed = {each: known[each] for each in (told, noted, event, prompt)}
    changed[old] = known[old]._replace(superseded_by=told, valid_until=None, said=TextDigests(two, 0))
    assert index.outlines(ids, [here]) == changed


def test_what_is_noted_elsewhere_is_known_after_every_change(
    make: Make, open_store: Callable[..., RecordStore]
) -> None:
    """S1.2: also where the same session asks again."""
    store = open_store()
    index = make(store)
    ids = list[str]()
    for session in ("s1", "s2", "s2"):
        with store.write() as transaction:
            noted = replace(BLANK, id=transaction.next_id("r"), status="noted", agent="ann", session_id=session)
            transaction.insert(replace(noted, text=f"n{len(ids)}"), unit_vectors(1), [], [])
            ids.append(noted.id)
        assert (
            index.noted_elsewhere("ann/s1", [BLANK.scope])
            == index.noted_elsewhere("ann/s1", [BLANK.scope])
            == frozenset(ids[1:])
        )
    assert index.noted_elsewhere("ann/s2", [BLANK.scope]) == frozenset(ids[:1])


@settings(max_examples=15, deadline=None)
@given(history=steps, data=st.data())
def test_what_passes_is_what_the_truth_lets_pass(
    make: Make, new_memory: NewMemory, history: Sequence[tuple[str, int, Record]], data: st.DataObject
) -> None:
    """R5, S1.2, S4.1, B1.4: whatever was stored, changed and erased, by whichever process; also asked in between."""
    with new_memory() as open_it:
        truth, other = open_it(), open_it()
        index = make(truth)
        known: list[str] = []
        for step in history:
            if step[0] == "ask":
                index.passing(RecordFilter(scopes=("shared/here",)))
            else:
                apply(other, known, step)
        for _ in range(4):
            where = data.draw(filters(known))
            wanted = truth.matching_ids(where)
            assert set(filter(index.passing(where).__contains__, known)) == wanted
            assert len(index.passing(where)) == len(wanted)
            limit = data.draw(st.integers(0, 5))
            assert list(index.newest(index.passing(where), where.scopes, limit)) == list(
                truth.list_ids(where, "occurred", limit)
            )
            in_order, passing = truth.list(where, "occurred", 1_000), index.passing(where)
            for place, record in enumerate(in_order):
                after = list(index.newest(passing, where.scopes, 3, (record.occurred_at, record.id)))
                assert after == [each.id for each in in_order[place + 1 : place + 4]]
            for facet in get_args(Facet):
                assert list(index.counts(passing, where.scopes, facet, 2).items()) == counted(truth, where, facet)[:2]
            assert list(index.balanced(where, limit, 250.0, 0.1)) == balanced(truth, where, 250.0, 0.1)[:limit]


def test_a_set_from_before_holds_nothing_newer(make: Make, open_store: Callable[..., RecordStore]) -> None:
    """S1.2: an index that has caught up meanwhile takes newer records for left out."""
    store = open_store()
    index = make(store)
    known: list[str] = []
    here = RecordFilter(scopes=("shared/here",))
    apply(store, known, ("add", 0, BLANK))
    before = index.passing(here)
    apply(store, known, ("add", 0, BLANK))
    assert [record_id in before for record_id in known] == [True, False]
    assert [record_id in index.passing(here) for record_id in known] == [True, True]


@pytest.mark.parametrize("isolated", [1, 30])
def test_few_and_many_isolated_tasks_keep_out_the_same_kinds(
    make: Make, open_store: Callable[..., RecordStore], isolated: int
) -> None:
    """T2.2: for every kind, whatever the number of tasks."""
    store = open_store()
    known: list[str] = []
    for task_id in ("t000001", "t000040", None):
        for kind in KINDS:
            apply(store, known, ("add", 0, replace(BLANK, kind=kind, task_id=task_id)))
    for number in range(2, isolated + 1):
        apply(store, known, ("add", 0, replace(BLANK, task_id=f"t{number:06d}")))
    where = RecordFilter(
        scopes=("shared/here",), isolated_tasks=frozenset(f"t{number:06d}" for number in range(1, isolated + 1))
    )
    passing = make(store).passing(where)
    assert set(filter(passing.__contains__, known)) == store.matching_ids(where)
    assert len(known) - len(passing) == len(ISOLATED_KINDS)


def test_what_was_found_to_pass_is_not_looked_up_again(make: Make, open_store: Callable[..., RecordStore]) -> None:
    """S1.2: one recall asks several times, and shall get one answer, whatever is stored meanwhile."""
    store = open_store()
    index = make(store)
    known: list[str] = []
    apply(store, known, ("add", 0, BLANK))
    here = RecordFilter(scopes=("shared/here",))
    found = replace(here, passing=index.passing(here))
    apply(store, known, ("add", 0, BLANK))
    assert [record_id in index.passing(found) for record_id in known] == [True, False]


def test_a_tag_counts_once_a_record_however_often_it_is_given(make: Make, store: RecordStore) -> None:
    """U1.1: and no more after any number of changes."""
    index = make(store)
    where = RecordFilter(scopes=("shared/here",))
    with store.write() as transaction:
        record = replace(BLANK, id=transaction.next_id(RECORD), tags=("ops", "ops", "night"))
        transaction.insert(record, unit_vectors(1), (), ())
    for importance in range(1, 9):
        with store.write() as transaction:
            transaction.update(replace(record, importance=float(importance)))
        assert index.counts(index.passing(where), where.scopes, "tag", 10) == {"night": 1, "ops": 1}
    with store.write() as transaction:
        transaction.update(replace(record, tags=("night",)))
    assert index.counts(index.passing(where), where.scopes, "tag", 10) == {"night": 1}
    assert len(index.passing(replace(where, tags=frozenset({"ops"})))) == 0
