"""As of: what was believed at an earlier time, in the words of then.

Indexes know the present words alone. So records that nobody changed since are searched as always, and the others are
compared by the words that the table of versions has of them. Erased words do not come back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from mcp_memory.domain.model.lifecycle import NOTED
from mcp_memory.domain.model.records import Instant, Record
from mcp_memory.domain.model.scopes import RecordFilter, session_key, tags_asked
from mcp_memory.domain.model.versions import at_time
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.domain.text.words import asked_terms, index_terms
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.retrieval import KeywordStore
from mcp_memory.ports.text import Embedder
from mcp_memory.ports.transaction import VersionReader

EMBEDDED = 24
"""The most earlier texts that one query is compared with by meaning: each takes some milliseconds to embed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastView:
    """The records that were believed at a time: `where` admits them.

    `records` are those that changed since, as they were; `reworded` names those of them whose words changed.
    """

    at: Instant
    where: RecordFilter
    records: Mapping[str, Record]
    reworded: frozenset[str]

    def seen(self, found: Iterable[Record]) -> list[Record]:
        """Return the records as they were."""
        return [self.records.get(each.id) or replace(each, check=()) for each in found]


def then_at(at: Instant, where: RecordFilter, records: MemoryReader) -> PastView:
    """Return what of the records that pass was believed at that time; with inactive ones, whatever was stored."""
    whatever = replace(where, include_inactive=True, **tags_asked(()))
    records.ahead(
        lambda: records.stored_by(whatever, at, changed=True), lambda: records.stored_by(where, at, changed=False)
    )
    changed = sorted(records.stored_by(whatever, at, changed=True))
    records.ahead(lambda: records.get(changed, where.scopes), lambda: records.versions(changed))
    present = records.get(changed, where.scopes)
    were = as_they_were(present, at, records)
    believed = {record_id: record for record_id, record in were.items() if _passes(record, where)}
    return PastView(
        at=at,
        where=replace(whatever, only=records.stored_by(where, at, changed=False) | believed.keys()),
        records=believed,
        reworded=frozenset(i for i, each in believed.items() if each.indexed_text != present[i].indexed_text),
    )


def as_they_were(found: Mapping[str, Record], at: Instant, versions: VersionReader) -> dict[str, Record]:
    """Return the records as they were, without those that were not stored yet or whose words of then are erased."""
    histories = versions.versions(found)
    were = {record_id: at_time(each, histories.get(record_id, ()), at) for record_id, each in found.items()}
    return {record_id: each for record_id, each in were.items() if each}


def _passes(record: Record, where: RecordFilter) -> bool:
    """Return True where what changes about a record passed the filter then."""
    is_hidden = record.status == NOTED and session_key(record.agent, record.session_id) != where.noted_in
    return (
        (record.holds or where.include_inactive)
        and record.scope in where.scopes
        and not is_hidden
        and where.admits(record.tags)
    )


def earlier_scores(
    query: Query, then: PastView, among: Collection[str], keywords: KeywordStore, embedder: Embedder
) -> Mapping[str, Mapping[str, float]]:
    """Score reworded records by the words that they had, by source: the EMBEDDED that share the most with the query.

    Raises StoreUnavailable where the model cannot run.
    """
    scopes = then.where.scopes
    told = {
        said_as: keywords.rarity([term], scopes).information
        for said_as, term in zip(asked_terms(query.terms), query.terms, strict=True)
    }
    words: dict[str, float] = {}
    for record_id in then.reworded.intersection(among):
        held = frozenset(index_terms(then.records[record_id].indexed_text))
        words[record_id] = sum(nats for said_as, nats in told.items() if not held.isdisjoint(said_as))
    best = sorted(words, key=lambda each: (words[each], each), reverse=True)[:EMBEDDED]
    scores = {"keyword": {each: words[each] for each in best if words[each]}}
    if query.vector is not None and best:
        vectors = embedder.embed_many([then.records[each].searchable_text for each in best])
        near = ((windows @ query.vector).max() for windows in vectors)
        scores["vector"] = {each: float(cosine) for each, cosine in zip(best, near, strict=True)}
    return scores


def reader_at(records: MemoryReader, then: PastView | None) -> MemoryReader:
    """Return a reader of the records as they were, for filters made from that of `then`; without it, as they are."""
    return cast("MemoryReader", _ReaderThen(records, then)) if then else records


class _ReaderThen:
    """Reads records as they were; all else as it is."""

    def __init__(self, records: MemoryReader, then: PastView) -> None:
        self._records = records
        self._then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    def get(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Record]:
        return {each.id: each for each in self._then.seen(self._records.get(record_ids, scopes).values())}

    def list(self, *asked: Any) -> Sequence[Record]:
        return self._then.seen(self._records.list(*asked))
