"""The contract of `Transfer`: what leaves one store enters another, and leaves it as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.ids import RECORD, TASK, make_id
from mcp_memory.domain.model.records import KINDS, Entity, Record, Relation
from mcp_memory.domain.model.scopes import Caller, scope_key
from mcp_memory.domain.model.tasks import Task, window_place
from mcp_memory.entrypoints.transfer.memory_file import MemoryFile, write_memory
from mcp_memory.errors import Conflict, InvalidRequest
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.transaction import Transaction
from mcp_memory.ports.transfer import KnownPlace, KnownSession, Origin, Piece, WholeRecord
from mcp_memory.stores.records import SqliteRecordStore
from tests.contract.conftest import BLANK, unit_vectors
from tests.contract.test_session_log_store import ANN, compact, logs_of, say, undo

OpenStore = Callable[..., RecordStore]
NAMESPACES, AGENTS = ("here", "the/re"), ("ann", "bob")
NAMES = ("Anna", "anna", "ACME", "Zoë", "数据库")
names = st.sampled_from(NAMES)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=20)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(texts, values, max_size=2)
instants = st.floats(0, 4e9)
callers = st.builds(
    Caller,
    namespace=st.sampled_from(NAMESPACES),
    agent=st.sampled_from(AGENTS),
    session_id=st.sampled_from(("s1", "s2")),
    window=st.sampled_from(("", window_place(2))),
)
entities = st.lists(
    st.builds(Entity, name=names, type=st.sampled_from(("person", "thing")), properties=objects, found=st.booleans()),
    max_size=3,
)
relations = st.lists(st.builds(Relation, source=names, type=texts, target=names, weight=st.floats(0.1, 1)), max_size=2)
fields_of_records = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "text": texts,
        "details": objects,
        "tags": st.lists(texts, max_size=2, unique=True).map(tuple),
        "importance": st.floats(0, 10),
        "confidence": st.none() | st.floats(0, 1),
        "pinned": st.booleans(),
        "outcome": st.sampled_from((None, "success", "failure")),
        "visibility": st.sampled_from(("private", "shared", "user")),
        "role": st.sampled_from((None, "user", "assistant")),
        "occurred_at": instants,
    }
)
Step = Callable[[Transaction, list[str], list[str]], object]


@st.composite
def inserting(draw: st.DrawFn) -> Step:
    caller = draw(callers)
    chosen: dict[str, Any] = draw(fields_of_records)
    mentioned, said, has_vectors = draw(entities), draw(relations), draw(st.booleans())

    def step(transaction: Transaction, records: list[str], tasks: list[str]) -> None:
        record = replace(
            BLANK,
            id=transaction.next_id(RECORD),
            namespace=caller.namespace,
            agent=caller.agent,
            session_id=caller.session_id,
            scope=scope_key(chosen["visibility"], caller.namespace, caller.agent),
            task_id=tasks[-1] if tasks else None,
            **chosen,
        )
        transaction.insert(record, unit_vectors(1) if has_vectors else None, mentioned, said)
        records.append(record.id)

    return step


@st.composite
def changing(draw: st.DrawFn) -> Step:
    """A text corrected, a record moved, replaced, confirmed, based on others, vouched for, or erased."""
    place, what, text = draw(st.integers(0, 20)), draw(st.integers(0, 6)), draw(texts)

    def step(transaction: Transaction, records: list[str], tasks: list[str]) -> None:
        if not records:
            return
        record = transaction.get(records[place % len(records)])
        assert record is not None
        if what == 0:
            transaction.update(replace(record, text=text), unit_vectors(2), [Entity(name="Zoë", found=True)])
        elif what == 1:
            shared = scope_key("shared", record.namespace, record.agent)
            transaction.update(replace(record, visibility="shared", scope=shared))
        elif what == 2:
            transaction.update(replace(record, superseded_by=records[-1], status="superseded"))
        elif what == 3:
            transaction.confirm(record, text)
        elif what == 4:
            transaction.depend(record.id, [records[-1], *tasks[:1]], found=bool(place % 2))
        elif what == 5:
            transaction.vouch(record.id)
        else:
            transaction.erase([record.id])
            records.remove(record.id)

    return step


@st.composite
def pushing(draw: st.DrawFn) -> Step:
    caller, goal, branch, criteria = draw(callers), draw(texts), draw(st.booleans()), draw(st.none() | texts)

    def step(transaction: Transaction, records: list[str], tasks: list[str]) -> None:
        above = transaction.tasks_near(caller.namespace, tasks)
        parent = above[-1] if above else None
        task = Task(
            id=transaction.next_id(TASK),
            namespace=caller.namespace,
            parent_id=parent.id if parent else None,
            goal=goal,
            status="active",
            depth=parent.depth + 1 if parent else 0,
            agent=caller.agent,
            session_id=caller.session_id,
            created_at=1.5,
            updated_at=2.5,
            success_criteria=criteria,
            artifacts=(goal,),
            inherit=tuple(records[:1]),
            branch=branch,
        )
        transaction.add_task(task)
        transaction.set_place(caller, task.id)
        tasks.append(task.id)

    return step


steps = st.lists(inserting() | changing() | pushing(), max_size=15)


def leave(store: RecordStore, namespace: str | None = None) -> bytes:
    target = BytesIO()
    write_memory(store.transfer().leave(namespace), target, lambda done, total: None)
    return target.getvalue()


def enter(store: RecordStore, written: bytes) -> None:
    file = MemoryFile(BytesIO(written), "memory.jsonl")
    with file.located():
        store.transfer().enter(file.pieces(lambda done, total: None))


def pieces(store: RecordStore, namespace: str | None = None) -> list[Piece]:
    return [piece for piece in store.transfer().leave(namespace) if not isinstance(piece, Origin)]


def make(store: RecordStore, history: Sequence[Step]) -> None:
    records: list[str] = []
    tasks: list[str] = []
    for step in history:
        with store.write() as transaction:
            step(transaction, records, tasks)


class TestAnyMemory:
    @given(history=steps)
    @settings(max_examples=12)
    def test_leaves_an_empty_memory_it_entered_as_the_same_bytes(
        self, history: Sequence[Step], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """S7.1: records of every kind and scope, their links and earlier texts, the tree of tasks, what was erased."""
        folder = tmp_path_factory.mktemp("any")
        with closing(SqliteRecordStore(folder / "one", "model", lambda: 9.5)) as one:
            make(one, history)
            written = leave(one)
            with closing(SqliteRecordStore(folder / "two", "model", lambda: 77.0)) as two:
                enter(two, written)
                assert leave(two) == written
                assert [leave(two, each) for each in NAMESPACES] == [leave(one, each) for each in NAMESPACES]
                assert two.defects() == []
                assert two.stale_terms() == []

    @given(history=steps)
    @settings(max_examples=8)
    def test_of_one_namespace_leaves_nothing_of_another(
        self, history: Sequence[Step], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """S7.1: and the part enters an empty memory, and leaves it as the same bytes."""
        folder = tmp_path_factory.mktemp("any")
        with closing(SqliteRecordStore(folder / "one", "model", lambda: 9.5)) as one:
            make(one, history)
            written = leave(one, "here")
            assert b"the/re" not in written
            with closing(SqliteRecordStore(folder / "two", "model", lambda: 77.0)) as two:
                enter(two, written)
                assert leave(two, "here") == written

    @given(history=steps, data=st.data())
    @settings(max_examples=8)
    def test_lets_some_records_leave_without_anything_of_the_others(
        self, history: Sequence[Step], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """S7.1, U1.1: and they enter an empty memory as they were, without their past."""
        folder = tmp_path_factory.mktemp("any")
        with closing(SqliteRecordStore(folder / "one", "model", lambda: 9.5)) as one:
            make(one, history)
            whole = {each.record.id: each for each in pieces(one) if isinstance(each, WholeRecord)}
            chosen = data.draw(st.sets(st.sampled_from(sorted(whole)))) if whole else set[str]()
            left = list(one.transfer().select([*chosen, "r0zzzz"]))
            with closing(SqliteRecordStore(folder / "two", "model", lambda: 77.0)) as two:
                two.transfer().enter(each for each in left if not isinstance(each, Origin))
                came = {each.record.id: each for each in pieces(two) if isinstance(each, WholeRecord)}
                assert two.defects() == []
            assert isinstance(left[0], Origin)
            assert left[0].pieces == len(left) - 1
            assert came.keys() == chosen
            for each, there in came.items():
                assert (there.versions, there.record.task_id) == ((), None)
                assert there.record.text == whole[each].record.text
                assert (there.mentions, there.relations) == (whole[each].mentions, whole[each].relations)


def test_logs_enter_with_what_stands_in_them(store: RecordStore, open_store: OpenStore) -> None:
    """S7.1: replacements of replacements, the records that say the same, and compactions that were undone."""
    said = say(store, 6)
    first = compact(store, said[:3])
    summary = say(store, 1, kind="summary")[0]
    compact(store, [first.entry.id, said[3]], text="Shorter.", record=summary)
    undo(store)
    compact(store, [first.entry.id, said[4]], text="Shortest.", record=summary)
    other = open_store(folder="other")
    enter(other, leave(store))
    assert leave(other) == leave(store)
    assert logs_of(other).log(ANN) == logs_of(store).log(ANN)
    assert logs_of(other).stand_ins(ANN) == logs_of(store).stand_ins(ANN)
    assert undo(other) == undo(store)
    assert logs_of(other).log(ANN) == logs_of(store).log(ANN)


def test_one_namespace_enters_though_parts_of_it_became_the_persons(store: RecordStore, open_store: OpenStore) -> None:
    """S7.1: what leaves does not refer to what is kept for the person everywhere, and stays behind."""
    said = say(store, 6)
    summary, undone = say(store, 2, kind="summary")
    compact(store, said[:2], record=undone)
    undo(store)
    compact(store, said[:3], record=summary)
    with store.write() as transaction:
        for record_id in (said[0], summary, said[5]):
            record = transaction.get(record_id)
            assert record is not None
            transaction.update(replace(record, visibility="user", scope=scope_key("user", "", "")))
        older = transaction.get(said[4])
        assert older is not None
        transaction.update(replace(older, superseded_by=said[5], status="superseded"))
    other = open_store(folder="other")
    enter(other, leave(store, "here"))
    assert leave(other, "here") == leave(other).replace(b'"namespace":null', b'"namespace":"here"', 1)
    assert leave(other, "here") == leave(store, "here")
    whole = {piece.record.id: piece.record for piece in pieces(other) if isinstance(piece, WholeRecord)}
    assert (said[0] in whole, whole[said[4]].superseded_by) == (False, None)
    assert other.defects() == []


@pytest.mark.parametrize("open_store", ["sqlite"], indirect=True)
def test_every_table_is_carried_or_said_not_to_be(store: RecordStore, tmp_path: Path) -> None:
    """S7.1: who adds one decides which."""
    carried = {
        "tasks", "sessions", "places", "entities", "records", "versions", "grounds", "confirmations", "mentions",
        "aliases", "relations", "tombstones", "compactions", "replacements", "covered", "undone_summaries",
        "reviews", "review_records", "exclusions", "shared_lines", "taken_back",
    }  # fmt: skip
    made_again = {"record_tags", "terms", "vectors", "unembedded", "sequence", "meta", "partitions"}
    telemetry = {"contexts", "assemblies", "reads", "read_records", "pass_runs", "logs_left"}
    this_computers = {"tokens", "folders", "project_folders", "former_namespaces", "moves", "task_changes"}
    this_computers |= {"erased_texts", "calls_done", "departures", "quotas"}
    with closing(sqlite3.connect(tmp_path / "data" / "memory.db")) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert {each for each in tables if not each.startswith("sqlite_")} == (
        carried | made_again | telemetry | this_computers
    )


def test_ids_that_entered_are_never_made_again(store: RecordStore, open_store: OpenStore, add: Any) -> None:
    """S7.1, R9: not even those of what was erased."""
    gone: Record = add("Gone.")
    with store.write() as transaction:
        transaction.erase([gone.id])
    other = open_store(folder="other")
    enter(other, leave(store))
    with other.write() as transaction:
        assert transaction.next_id(RECORD) > gone.id
    assert not other.transfer().is_empty()


def test_what_entered_waits_for_its_vectors(store: RecordStore, open_store: OpenStore, add: Any) -> None:
    """S7.1: they are made again, by the embedder that is configured there; that is no change of what leaves."""
    add("The cat sleeps.")
    other = open_store(folder="other")
    enter(other, leave(store))
    assert other.count_unembedded() == 1
    [(record_id, change, text)] = other.unembedded("contract-embedder", 10)
    assert text == "The cat sleeps."
    other.add_vectors("contract-embedder", {(record_id, change): unit_vectors(3)})
    assert (other.count_unembedded(), leave(other)) == (0, leave(store))


def test_only_an_empty_store_is_entered(store: RecordStore, open_store: OpenStore, add: Any) -> None:
    """S7.1."""
    assert store.transfer().is_empty()
    add("Here.")
    with pytest.raises(Conflict, match="not empty"):
        store.transfer().enter(())
    empty = open_store(folder="other")
    enter(empty, leave(open_store(folder="third")))
    assert empty.transfer().is_empty()


TASKS = [
    Task(
        id=make_id(TASK, number), namespace="here", parent_id=None, goal="Go.", status="active", depth=0, agent="ann",
        session_id="s1", created_at=1.0, updated_at=1.0,
    )
    for number in (1, 2)
]  # fmt: skip


def below(parent: Task) -> Task:
    return replace(TASKS[1], parent_id=parent.id, depth=1)


def wrong(piece: Piece, **changed: Any) -> Piece:
    return replace(piece, **changed)


def test_pieces_that_do_not_fit_leave_the_store_empty(store: RecordStore, open_store: OpenStore, add: Any) -> None:
    """S7.1, R1: the error says what is wrong with the piece."""
    add("One.", entities=(Entity(name="Anna"),), relations=(Relation(source="Anna", type="is", target="Ann"),))
    first = say(store, 2, caller=ANN)
    compact(store, first)
    [*before, replacement] = pieces(store)
    whole = next(piece for piece in before if isinstance(piece, WholeRecord) and piece.mentions)
    bare = replace(whole, mentions=(), relations=())
    other = open_store(folder="other")
    refused: list[tuple[list[Piece], str]] = [
        ([bare, bare], "twice"),
        ([whole], "mentions an entity"),
        ([wrong(bare, relations=whole.relations)], "has an end"),
        ([wrong(bare, record=replace(whole.record, id="r1"))], "is no id"),
        ([wrong(bare, record=replace(whole.record, id=make_id(RECORD, 32**5 + 1)))], "is no id"),
        ([below(TASKS[0])], "did not come before"),
        ([TASKS[0], replace(below(TASKS[0]), namespace="there")], "of its project"),
        ([replace(TASKS[0], parent_id=TASKS[0].id)], "did not come before"),
        ([TASKS[0], KnownPlace(namespace="there", agent="ann", session_id="", task_id=TASKS[0].id)], "of its project"),
        ([*before, replacement, replacement], "twice"),
        ([replacement], "did not come before it"),
    ]
    for given_pieces, why in refused:
        with pytest.raises(InvalidRequest, match=why):
            other.transfer().enter(given_pieces)
        assert other.transfer().is_empty()


def test_leaving_is_one_moment(store: RecordStore, open_store: OpenStore, add: Any) -> None:
    """S7.1: what others write meanwhile does not leave, and they need not wait."""
    add("Before.")
    leaving = store.transfer().leave()
    origin = next(leaving)
    assert isinstance(origin, Origin)
    add("Meanwhile.", to=open_store())
    left = list(leaving)
    assert len(left) == origin.pieces == 2
    assert [type(piece) for piece in left] == [KnownSession, WholeRecord]
    assert len(pieces(store)) == 3
