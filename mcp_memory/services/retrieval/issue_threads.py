"""Finds, for the best records of an answer, the newest state of their issue, and what reverts them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_memory.domain.model.records import LOG_KINDS, Record
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.issue_threads import MOST_HOLDERS, is_exact, is_issue, takes_back
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.records import MemoryReader

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.fusion import Fused
    from mcp_memory.ports.retrieval import GraphStore

BEST = 3
"""The best records whose threads are looked for: a small block holds no more."""
REVERTING = 20
"""The best hits, relevant or not, among which one that reverts a best record is looked for."""
SharedKeys = Mapping[str, Mapping[str, Collection[str]]]
"""By record, the other records that share each of its exact keys."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The `newest` state of what a best record is about, and what `reverts` one, by the id of the best record."""

    newest: Mapping[str, str] = field(default_factory=dict[str, str])
    reverts: Mapping[str, str] = field(default_factory=dict[str, str])


class ThreadFinder:
    """Finds threads by what the graph knows of the records. Thread-safe."""

    def __init__(self, graph: GraphStore, records: MemoryReader) -> None:
        self._graph = graph
        self._records = records

    def __call__(
        self, bearing: Sequence[Fused], hits: Sequence[Fused], past: Collection[str], where: RecordFilter
    ) -> Threads:
        """Return the threads of the best records, each once, without those of which the best is the newest.

        The newest state is a record about the same issue that bears on the query, too, and is not `past`. What reverts
        a record is among the best `hits`, and was stored after it.
        """
        ranked = [hit.id for hit in bearing]
        found = {hit.id for hit in hits[:REVERTING]}
        with suppress(StoreUnavailable):  # It only orders what was found.
            best, hidden = ranked[:BEST], where.hidden_branches
            shared = {
                each: self._graph.named_beside(each, where.scopes, MOST_HOLDERS - 1, hidden, is_exact) for each in best
            }
            related = {
                each: (_of_issue(keys) & {*ranked} | {i for i in _all(keys) & found if i > each}) - {*past}
                for each, keys in shared.items()
            }
            wanted = {each for one, others in related.items() if others for each in (one, *others)}
            records = self._records.get(wanted, where.scopes) if wanted else dict[str, Record]()
            return _threads(shared, related, records, ranked)
        return Threads()


def _threads(
    shared: SharedKeys, related: Mapping[str, Collection[str]], records: Mapping[str, Record], ranked: Sequence[str]
) -> Threads:
    """Return the threads; `related` are the records that may be a newer state of a best one, or revert it."""
    newest: dict[str, str] = {}
    reverts: dict[str, str] = {}
    places = {record_id: place for place, record_id in enumerate(ranked)}
    for best_id, others in related.items():
        if best_id not in records or best_id in newest.values() or best_id in reverts.values():
            continue
        best, issue = records[best_id], _of_issue(shared[best_id]) & places.keys()
        later = [records[each] for each in others if each in records and _is_later(records[each], best)]
        reverting = _latest(each for each in later if takes_back(each.text, best.text))
        state = _latest(each for each in later if each.id in issue and _is_log(each) == _is_log(best))
        if reverting:
            reverts[best_id] = reverting
        elif state and places[state] > places[best_id] and state not in newest.values():
            newest[best_id] = state
    return Threads(newest, reverts)


def _all(keys: Mapping[str, Collection[str]]) -> set[str]:
    return {each for others in keys.values() for each in others}


def _of_issue(keys: Mapping[str, Collection[str]]) -> set[str]:
    return {each for key, others in keys.items() if is_issue(key) for each in others}


def _is_later(record: Record, best: Record) -> bool:
    return record.holds and record.occurred_at > best.occurred_at


def _is_log(record: Record) -> bool:
    """Return True for a line of the log, which is no state of what was stored: somebody may ask about it."""
    return record.kind in LOG_KINDS


def _latest(records: Iterable[Record]) -> str:
    """Return the id of the latest; "" without one."""
    return max(((each.occurred_at, each.id) for each in records), default=(0.0, ""))[1]
