"""The SQLite store against a dict: any history of writes, failures and restarts ends in the same records."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from mcp_memory.domain.model.records import Record, Status
from mcp_memory.domain.model.scopes import RecordFilter, partition_of
from mcp_memory.domain.text.words import content_hash, packed_terms
from mcp_memory.ports.transaction import Transaction
from mcp_memory.stores.records import SqliteRecordStore
from tests.index_rows import rows

SCOPES = ("shared/here", "private/ann/here", "user")
VECTOR = np.full((1, 4), 0.5, np.float32)
BLANK = Record(
    id="", scope="", namespace="here", visibility="shared", agent="ann", session_id="s1", task_id=None, branch_id=None,
    kind="fact", text="", summary="", micro="", text_tokens=1, summary_tokens=1, micro_tokens=1, importance=1.0,
    confidence=None, status="new", outcome=None, pinned=False, tags=(), details={}, speaker=None, role=None, tool=None,
    call_id=None, superseded_by=None, created_at=1.0, updated_at=1.0, accessed_at=1.0, occurred_at=1.0,
)  # fmt: skip
words = st.sampled_from(["alpha", "beta", "Gamma", "naïve", "数据库", "camelCase", "snake_case", "x"])
texts = st.lists(words, min_size=1, max_size=4).map(" ".join)
scopes = st.sampled_from(SCOPES)
statuses = st.sampled_from(["new", "confirmed", "superseded", "inactive", "retired"])


class Refused(Exception):
    """Raised inside a write to have it undone."""


class StoreAgainstDict(RuleBasedStateMachine):
    known = Bundle[str]("known")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = SqliteRecordStore(self.folder, "model", lambda: 1.0)
        self.other = SqliteRecordStore(self.folder, "model", lambda: 1.0)
        self.model: dict[str, Record] = {}
        self.earlier: dict[str, list[str]] = {}
        self.revision = 0
        self.followed: dict[str, set[str]] = {partition_of(scope): set() for scope in SCOPES}
        self.applied = dict.fromkeys(self.followed, 0)

    def insert_into(self, transaction: Transaction, text: str, scope: str) -> Record:
        record = replace(BLANK, id=transaction.next_id("r"), text=text, summary=text, micro=text, scope=scope)
        transaction.insert(record, VECTOR, (), ())
        return record

    @rule(target=known, text=texts, scope=scopes)
    def insert(self, text: str, scope: str) -> str:
        with self.store.write() as transaction:
            record = self.insert_into(transaction, text, scope)
        self.model[record.id] = record
        self.earlier[record.id] = []
        return record.id

    @rule(record_id=known, text=texts)
    def correct(self, record_id: str, text: str) -> None:
        if text != self.model[record_id].text:
            self.earlier[record_id].insert(0, self.model[record_id].text)
        with self.other.write() as transaction:
            self.model[record_id] = transaction.update(replace(self.model[record_id], text=text), VECTOR)

    @rule(record_id=known, status=statuses, scope=scopes, pinned=st.booleans())
    def change(self, record_id: str, status: Status, scope: str, pinned: bool) -> None:
        changed = replace(self.model[record_id], status=status, scope=scope, pinned=pinned)
        if scope != self.model[record_id].scope:
            self.earlier[record_id] = []  # What was said in the old scope is not shown in the new one.
        with self.store.write() as transaction:
            self.model[record_id] = transaction.update(changed)

    @rule(record_id=consumes(known))
    def erase(self, record_id: str) -> None:
        del self.model[record_id]
        with self.store.write() as transaction:
            transaction.erase([record_id])

    @rule(record_id=known, text=texts)
    def fail(self, record_id: str, text: str) -> None:
        try:
            with self.store.write() as transaction:
                self.insert_into(transaction, text, SCOPES[0])
                transaction.update(replace(self.model[record_id], text=text), VECTOR)
                transaction.erase([record_id])
                raise Refused
        except Refused:
            return

    @rule()
    def purge(self) -> None:
        self.store.purge()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = SqliteRecordStore(self.folder, "model", lambda: 1.0)

    @invariant()
    def the_same_records_in_the_same_order(self) -> None:
        assert self.other.get(self.model, SCOPES) == self.model
        for scope in SCOPES:
            where = RecordFilter(scopes=(scope,), include_inactive=True)
            mine = [record for record in reversed(self.model.values()) if record.scope == scope]
            assert list(self.store.list(where, "created", 1000)) == mine
            pinned = replace(where, pinned=True, include_inactive=False)
            assert self.store.matching_ids(pinned) == {r.id for r in mine if r.pinned and r.is_live}

    @invariant()
    def the_same_texts_known_now_and_before(self) -> None:
        pairs = {(record.scope, content_hash(record.text)) for record in self.model.values()}
        gone = {(scope, content_hash("never stored")) for scope in SCOPES}
        assert self.store.find_texts(pairs | gone) == pairs
        for record_id in self.model:
            history = reversed(self.store.versions([record_id]).get(record_id, ()))
            texts = [each.before["text"] for each in history if "text" in each.before]
            assert texts == self.earlier[record_id]

    @invariant()
    def the_revision_never_falls(self) -> None:
        assert self.other.revision() >= self.revision
        self.revision = self.other.revision()

    @invariant()
    def who_follows_a_partition_has_what_is_in_it(self) -> None:
        revisions = self.other.revisions(self.followed)
        for partition, ids in self.followed.items():
            mine = [record for record in self.model.values() if partition_of(record.scope) == partition]
            since = self.applied[partition]
            assert self.other.count_changed(since, partition) == len(
                rows(self.other, "places", since, partition=partition)
            )
            ids.update(row[0] for row in rows(self.other, "places", since, partition=partition))
            ids.difference_update(row[0] for row in rows(self.other, "erasures", since, partition=partition))
            assert ids == {record.id for record in mine}
            assert self.other.count_all(partition) == len(mine)
            self.applied[partition] = revisions[partition].revision if partition in revisions else 0
        assert self.other.count_all() == len(self.model)

    @invariant()
    def every_record_has_its_vector(self) -> None:
        latest = {change.id: change for change in self.other.changes(0, "model")}
        present = {record_id: change for record_id, change in latest.items() if change.vectors is not None}
        assert {i: (change.scope, change.is_live) for i, change in present.items()} == {
            record.id: (record.scope, record.is_live) for record in self.model.values()
        }

    @invariant()
    def every_record_has_the_terms_of_its_text(self) -> None:
        assert {i: (scope, bool(is_live), terms) for i, scope, is_live, terms, _ in rows(self.other, "terms")} == {
            record.id: (record.scope, record.is_live, packed_terms(record.text)) for record in self.model.values()
        }

    def teardown(self) -> None:
        self.store.close()
        self.other.close()
        shutil.rmtree(self.folder)


def test_any_history_ends_in_what_a_dict_would_hold() -> None:
    """R1, R2, R8, R9: inserts, corrections, moves, erasures, undone writes and restarts, over two connections."""
    run_state_machine_as_test(
        StoreAgainstDict, settings=settings(max_examples=12, stateful_step_count=25, deadline=None)
    )
