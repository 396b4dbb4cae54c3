"""A memory of which little fits answers as one that holds everything, whatever is asked, written and moved between."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.ids import RECORD, RecordSet
from mcp_memory.domain.model.records import Entity
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.stores.filter_index import BitmapFilterIndex
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.graph.store import LinkGraphStore
from mcp_memory.stores.keywords.store import InformationKeywordStore
from mcp_memory.stores.records import SqliteRecordStore
from mcp_memory.stores.vectors.exact import ExactVectorStore
from tests.contract.conftest import BLANK, EMBEDDER, unit_vectors

SCOPES = ("shared/one", "private/ann/one", "shared/two", "user", "user/bo")
WORDS = ("kafka", "redis", "harbour", "gauge", "ferry")


class Indexes:
    """The four indexes over one truth, within a budget."""

    def __init__(self, truth: SqliteRecordStore, most_bytes: int) -> None:
        self.follower = Follower(truth, most_bytes)
        self.vectors = ExactVectorStore(self.follower, EMBEDDER, lambda one, other: f"{one} is not {other}")
        self.keywords = InformationKeywordStore(self.follower)
        self.filters = BitmapFilterIndex(self.follower)
        self.graph = LinkGraphStore(self.follower)

    def answers(self, scopes: Sequence[str], number: int, ids: Sequence[str]) -> list[object]:
        """What they say of some scopes, in its order."""
        where = RecordFilter(scopes=tuple(scopes), tags=frozenset({WORDS[number % 2]}))
        vector, word = unit_vectors(number)[0], WORDS[number % len(WORDS)]
        passing = self.filters.passing(where)
        return [
            [*self.vectors.search(vector, scopes, 4).items()],
            [*self.vectors.search(vector, scopes, 4, passing).items()],
            self.vectors.usual_cosine(vector, scopes),
            [*self.keywords.search([word], scopes, 4, RecordSet.of(ids)).items()],
            self.keywords.rarity([word, WORDS[0]], scopes),
            sorted(filter(passing.__contains__, ids)),
            self.filters.newest(passing, scopes, 3),
            [*self.filters.outlines(ids, scopes).items()],
            [*self.filters.counts(self.filters.passing(replace(where, tags=frozenset())), scopes, "tag", 3).items()],
            [*self.graph.activate(self.graph.mentioned(word, scopes), scopes, 4).items()],
        ]


def write(truth: SqliteRecordStore, ids: list[str], step: tuple[str, int], scope: str) -> None:
    what, number = step
    with truth.write() as transaction:
        if what == "add" or not ids:
            record = replace(BLANK, id=transaction.next_id(RECORD), scope=scope, text=WORDS[number % 5])
            record = replace(record, tags=(WORDS[number % 2],), occurred_at=float(number))
            transaction.insert(record, unit_vectors(number), [Entity(name=WORDS[number % 3])], ())
            ids.append(record.id)
        elif what == "erase":
            transaction.erase([ids.pop(number % len(ids))])
        elif (old := transaction.get(ids[number % len(ids)])) is not None:
            transaction.update(replace(old, scope=scope) if what == "move" else replace(old, text=f"{old.text} ferry"))


STEPS = st.lists(
    st.tuples(
        st.tuples(st.sampled_from(["add", "add", "add", "move", "change", "erase"]), st.integers(0, 99)),
        st.sampled_from(SCOPES),
        st.lists(st.sampled_from(SCOPES), unique=True, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=25,
)


ONE = "shared/one"
MOVED = [
    (("add", 0), ONE, [ONE]),
    (("add", 1), ONE, [ONE]),
    (("erase", 0), ONE, [ONE]),
    (("move", 0), "shared/two", [ONE]),
]
"""The last one is asked for in both partitions."""


@given(steps=STEPS, kilobytes=st.integers(0, 8))
@example(steps=MOVED, kilobytes=0)
@settings(max_examples=12, deadline=None)
def test_what_is_evicted_changes_no_answer(steps: list[tuple[tuple[str, int], str, list[str]]], kilobytes: int) -> None:
    """M1, R5: to the last digit and in the same order; a third one holds nothing from before."""
    with tempfile.TemporaryDirectory() as folder, closing(SqliteRecordStore(Path(folder), EMBEDDER)) as truth:
        little, much, ids = Indexes(truth, kilobytes << 10), Indexes(truth, 1 << 30), list[str]()
        for (what, number), scope, asked in steps:
            write(truth, ids, (what, number), scope)
            assert little.answers(asked, number, sorted(ids)) == much.answers(asked, number, sorted(ids))
        new = Indexes(truth, 1 << 30)
        assert new.answers(SCOPES, 1, sorted(ids)) == much.answers(SCOPES, 1, sorted(ids))
        if not kilobytes:
            assert little.follower.figures().partitions <= 3
