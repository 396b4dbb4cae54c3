"""The contract of `ReadStore`: the log of reads, for every process of the memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

from mcp_memory.domain.model.records import Record
from mcp_memory.ports.reads import ALL_RECORDS, ReadEntry

READ = ReadEntry(
    request="a1", at=10.0, way="tool recall", namespace="here", agent="ann", person="", token="", session_id="s1",
    ids=("r000002", "r000001"),
)  # fmt: skip
BOBS = replace(READ, request="b1", at=20.0, agent="bob", person="eve", token="laptop", ids=("r000001",))
ELSEWHERE = replace(READ, request="c1", at=20.0, namespace="there", ids=("r000001",))
EXPORT = replace(READ, request="d1", at=30.0, way="command export", ids=(ALL_RECORDS,))


def test_reads_are_told_by_agent_and_by_record_and_go_with_their_days(
    open_store: Callable[..., Any],
) -> None:
    """S4.3: newest first; what another process wrote, from a place on, and of a project under its new name."""
    reads, others = open_store().reads(), open_store().reads()
    reads.add([READ, BOBS])
    reads.add([ELSEWHERE, EXPORT])
    assert others.entries("here", 9) == [EXPORT, BOBS, READ]
    assert others.entries("here", 9, agent="ann") == [EXPORT, READ]
    assert others.entries("here", 1, before=(20.0, "b1")) == [READ]
    assert others.of_record("r000001", 9) == [EXPORT, ELSEWHERE, BOBS, READ]
    assert others.of_record("r000002", 9) == [EXPORT, READ]
    assert others.of_record("r000001", 9, namespace="here", agent="ann", before=(30.0, "d1")) == [READ]
    assert others.of_record("r000001", 2, before=(30.0, "d1")) == [ELSEWHERE, BOBS]
    assert [*others.between(10.0, 30.0)] == [READ, BOBS, ELSEWHERE]
    reads.prune(20.0)
    reads.prune(20.0)
    assert [*others.between(0.0, inf)] == [BOBS, ELSEWHERE, EXPORT]
    assert others.of_record("r000002", 9) == [EXPORT]


def test_a_log_of_reads_follows_a_project_that_is_renamed_and_tells_ids_of_what_was_erased(
    open_store: Callable[..., Any], add: Callable[..., Record]
) -> None:
    """R9, S4.3: its entries hold no text that could be erased."""
    store = open_store()
    record = add("Here lies the key.")
    store.reads().add([replace(READ, ids=(record.id,))])
    with store.write() as transaction:
        transaction.erase([record.id])
    store.projects().move("here", "new", 50.0, "m1", merges=False)
    [entry] = store.reads().entries("new", 9)
    assert entry == replace(READ, namespace="new", ids=(record.id,))
    assert store.reads().entries("here", 9) == []
