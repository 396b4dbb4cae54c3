"""Dependence: checks what callers say that a record stands on, and finds by rule what nobody said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mcp_memory.domain.memory import grounds
from mcp_memory.domain.model.ids import TASK
from mcp_memory.domain.model.records import Kind, NewRecord, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.words import query_terms
from mcp_memory.errors import NotFound
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import FilterIndex, KeywordStore
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.tasks.branch_visibility import hidden_branches, is_visible, require_task, visible_to

CANDIDATES = 8
"""Records that share the most telling words with a passage, which the rules then compare with it."""
MOST_FOUND = 5


def require_grounds(ground_ids: Sequence[str], caller: Caller, transaction: Transaction) -> None:
    """Raise NotFound where one of the ids is of no record or task that the caller sees."""
    hidden = hidden_branches(transaction, caller) if ground_ids else frozenset[str]()
    for ground_id in ground_ids:
        if ground_id.startswith(TASK):
            require_task(ground_id, transaction.tasks_near(caller.namespace, [ground_id]))
            continue
        record = transaction.get(ground_id)
        if record is None or record.scope not in caller.scopes or not is_visible(record, caller, hidden):
            raise NotFound(f"depends_on: no record {ground_id!r}; call `recall` to find ids. Nothing was stored.")


def drop_outdated(record: Record, transaction: Transaction) -> None:
    """Drop what a rule found in a record's earlier words and does not find in the present ones."""
    found = [ground_id for ground_id, is_found in transaction.grounds(record.id).items() if is_found]
    passages = [grounds.read(each) for each in _passages(record)] if found else []
    for ground_id in found:
        ground = transaction.get(ground_id)
        if ground and not any(_stands_on(record.kind, passage, ground) for passage in passages):
            transaction.drop_ground(record.id, ground_id)


class GroundFinder:
    """Finds what new records stand on among those that are stored. Thread-safe."""

    def __init__(self, records: RecordStore, keywords: KeywordStore, filters: FilterIndex) -> None:
        self._records = records
        self._keywords = keywords
        self._filters = filters

    def __call__(self, item: NewRecord, record_id: str, caller: Caller) -> Sequence[str]:
        """Return the ids of what a stored item stands on by its words, at most MOST_FOUND; most items name nothing.

        Call it inside a snapshot.
        """
        passages = grounds.passages_of(item.kind, item.text, item.details)
        return [
            *dict.fromkeys(
                each for passage in passages for each in self._named_in(passage, item.kind, record_id, caller)
            )
        ][:MOST_FOUND]

    def _named_in(self, passage: str, kind: Kind, record_id: str, caller: Caller) -> list[str]:
        where = replace(visible_to(self._records, caller), kinds=grounds.GROUND_KINDS)
        only = self._filters.passing(where)
        near = self._keywords.search(query_terms(passage), where.scopes, CANDIDATES, only, (record_id,))
        said = grounds.read(passage)
        found = self._records.get(list(near), where.scopes).values()
        return [each.id for each in found if each.holds and _stands_on(kind, said, each)]


def _stands_on(kind: Kind, passage: grounds.Wording, ground: Record) -> bool:
    return grounds.stands_on(passage, grounds.read(ground.text), kind, ground.kind)


def _passages(record: Record) -> Sequence[str]:
    return grounds.passages_of(record.kind, record.text, record.details)
