"""Gathers what might enter a context: what a query finds, else the newest and the most important; what always may."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mcp_memory.domain.contexts import Omission
from mcp_memory.domain.records import Kind
from mcp_memory.domain.relevance import is_above_floor
from mcp_memory.domain.scopes import RecordFilter
from mcp_memory.domain.strategies import Candidate
from mcp_memory.domain.tasks import Stack
from mcp_memory.domain.text import query_terms
from mcp_memory.ports import RecordOrder, RecordStore
from mcp_memory.services.querying import Querying

PER_ORDER = 200
LEAST_ITEM_TOKENS = 40
"""An item with its frame takes about this much or more: a budget of 8,000 holds 200 of them."""
ALWAYS_KINDS: frozenset[Kind] = frozenset({"identity", "censor"})
ALWAYS_LIMIT = 100
_ORDERS: tuple[RecordOrder, ...] = ("accessed", "occurred", "important")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Candidates in no order, those that may always be there apart, and what was dropped at the door."""

    candidates: list[Candidate]
    always: list[Candidate]
    omitted: list[Omission]
    found: Mapping[str, int]
    degraded: tuple[str, ...] = ()


class Gathering:
    """Asks the stores; decides nothing but the relevance floor and supersession."""

    def __init__(self, records: RecordStore, querying: Querying) -> None:
        self._records = records
        self._querying = querying

    def __call__(self, query: str, where: RecordFilter, stack: Stack, budget: int) -> Gathered:
        """Every candidate within the filter; the more of them, the more the budget can hold."""
        limit = max(PER_ORDER, budget // LEAST_ITEM_TOKENS)
        gathered = self._ranked(query, where, limit // 2) if query.strip() else self._listed(where, limit)
        always = self._always(where)
        apart = {candidate.record.id for candidate in always}
        kept: dict[str, Candidate] = {}
        omitted = {omission.id: omission for omission in gathered.omitted}
        for candidate in (*self._inherited(stack, where), *self._pinned(where), *gathered.candidates):
            record = candidate.record
            if record.status == "superseded":
                reason = f"superseded by {record.superseded_by or 'another'}"
                omitted[record.id] = Omission(id=record.id, reason=reason)
            elif record.id not in apart:
                kept.setdefault(record.id, candidate)
        left_out = [omission for omission in omitted.values() if omission.id not in kept.keys() | apart]
        return replace(gathered, candidates=list(kept.values()), always=always, omitted=left_out)

    def _ranked(self, query: str, where: RecordFilter, limit: int) -> Gathered:
        ranking = self._querying.rank(query, where, limit)
        named = {record_id for hit in ranking.hits for record_id in (hit.id, *hit.replaces)}
        records = self._records.get(named, where.scopes)
        terms = query_terms(query)
        best = max((hit.score for hit in ranking.hits), default=0.0) or 1.0
        candidates: list[Candidate] = []
        omitted: list[Omission] = []
        there = [(hit, records[hit.id]) for hit in ranking.hits if hit.id in records]  # Not what was erased meanwhile.
        for hit, record in there:
            replaced = (records[old] for old in hit.replaces if old in records)
            said = [record.searchable_text, *(old.searchable_text for old in replaced)]
            if is_above_floor(hit, terms, "\n".join(said)):
                relevance = min(max(hit.score / best, 0.0), 1.0)
                candidates.append(Candidate(record=record, source="recall", relevance=relevance))
            else:
                omitted.append(Omission(id=hit.id, reason="below the relevance floor"))
        return Gathered(
            candidates=candidates, always=[], omitted=omitted, found=ranking.found, degraded=ranking.degraded
        )

    def _listed(self, where: RecordFilter, limit: int) -> Gathered:
        found: dict[str, int] = {}
        sources: dict[str, str] = {}
        for order in _ORDERS:
            ids = self._records.list_ids(where, order, limit)
            found[order] = len(ids)
            sources = {**dict.fromkeys(ids, order), **sources}
        records = self._records.get(sources, where.scopes)
        candidates = [Candidate(record=record, source=sources[record.id]) for record in records.values()]
        return Gathered(candidates=candidates, always=[], omitted=[], found=found)

    def _always(self, where: RecordFilter) -> list[Candidate]:
        """Identity and censors that the filter lets through; censors that block before those that warn."""
        kinds = ALWAYS_KINDS & where.kinds if where.kinds else ALWAYS_KINDS
        if not kinds:
            return []
        records = self._records.list(replace(where, kinds=kinds), "important", ALWAYS_LIMIT)
        live = [record for record in records if record.status != "superseded"]
        live.sort(key=lambda record: (record.kind != "identity", record.details.get("action") != "block"))
        return [Candidate(record=record, source=record.kind) for record in live]

    def _inherited(self, stack: Stack, where: RecordFilter) -> list[Candidate]:
        ids = frozenset(record_id for task in stack.path for record_id in task.inherit)
        return self._chosen(replace(where, only=ids), "inherited", len(ids)) if ids else []

    def _pinned(self, where: RecordFilter) -> list[Candidate]:
        return self._chosen(replace(where, pinned=True), "pinned", ALWAYS_LIMIT)

    def _chosen(self, where: RecordFilter, source: str, limit: int) -> list[Candidate]:
        """What somebody put there by hand, which is relevant whatever is asked."""
        records = self._records.list(where, "occurred", limit)
        return [Candidate(record=record, source=source, relevance=1.0) for record in records]
