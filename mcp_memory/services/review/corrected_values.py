"""Corrections: what a record said before it was corrected, which others say that again, and what is not settled."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp_memory.domain.model.records import Instant, Kind, Record
from mcp_memory.domain.model.scopes import NO_SESSION, RecordFilter
from mcp_memory.domain.model.versions import UPKEEP, Version
from mcp_memory.domain.text.times import iso_day
from mcp_memory.ports.records import MemoryReader
from mcp_memory.services.review.reviews import ConflictingRecord

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.ports.retrieval import VectorStore
    from mcp_memory.ports.reviews import ReviewStore
    from mcp_memory.ports.text import Embedder

COMPARED_KINDS: frozenset[Kind] = frozenset({"fact", "decision", "procedure", "censor", "identity"})
"""Kinds that say what holds. An episode tells what happened once, which another one does not contradict."""
SETTLED_READ = 1_000
"""The latest settled groups that are looked through for one that says that both records are true."""
MAYBE_AGAIN_COSINE, AGAIN_CERTAINTY = 0.6, 0.6
"""Least cosine of corrected words and a text that may say them again, and the certainty that it does."""
SAYS_AGAIN, MAY_SAY_AGAIN = ", whose former words it says again", ", whose former words it may say again"
_BOTH_STAY = ("both-true", "unrelated")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Former:
    """The words of a record, or of one that it replaced, until they were corrected."""

    text: str
    until: Instant


class Corrections:
    """Tells restatements of former words. It changes nothing; thread-safe. Its methods raise StoreUnavailable."""

    def __init__(self, records: MemoryReader, reviews: ReviewStore, vectors: VectorStore, embedder: Embedder) -> None:
        self._records = records
        self._reviews = reviews
        self._vectors = vectors
        self._embedder = embedder

    def restatements(self, record_ids: Collection[str], where: RecordFilter) -> Mapping[str, str]:
        """Map each of the records that says again what another of them said before its correction, to that other one.

        It does so until somebody confirms, changes or settles it after the correction.
        """
        versions = self._versions(record_ids, where)
        former = self._former(record_ids, versions, where)
        if not former:
            return {}
        found = self._records.get(record_ids, where.scopes)
        holding = [each for each in found.values() if each.holds and each.kind in COMPARED_KINDS]
        restated = {
            other.id: corrected.id
            for corrected in holding
            for each in former.get(corrected.id, ())
            for other in self._saying(each, corrected, holding, where)
            if not _is_affirmed(other, versions.get(other.id, ()), each.until)
        }
        return self._unsettled(restated, where) if restated else {}

    def unsettled(self, record_ids: Collection[str], where: RecordFilter) -> Mapping[str, str]:
        """Map records that contradict another one, as long as nobody settled it: "contradicts r00001x, not settled".

        Only what the reader sees is named.
        """
        pairs = self._reviews.contradicting(record_ids)
        if not pairs:
            return {}
        visible = RecordFilter(scopes=where.scopes, hidden_branches=where.hidden_branches, noted_in=NO_SESSION)
        seen = self._records.matching_ids(replace(visible, only=frozenset(other for _, other in pairs)))
        # Of several the latest, which comes first.
        return {each: f"contradicts {other}, not settled" for each, other in reversed(pairs) if other in seen}

    def restated(
        self, text: str, vector: Vector, found: Sequence[Record], where: RecordFilter
    ) -> Iterator[ConflictingRecord]:
        """Yield those of the found records that said, until they were corrected, what a text with this vector says.

        What only may say it is told, and no more: it waits for no review and keeps its place.
        """
        from mcp_memory.domain.text.conflicts import OUTDATED_CERTAINTY, says_again, says_dropped

        compared = {each.id: each for each in found if each.kind in COMPARED_KINDS}
        for record_id, formers in self._former(compared, self._versions(compared, where), where).items():
            record = compared[record_id]
            for each in formers:
                if says_dropped(text, each.text, record.text):
                    cosine = float(self._embedder.embed(each.text)[0] @ vector)
                    certainty, why = AGAIN_CERTAINTY, MAY_SAY_AGAIN
                    if says_again(text, each.text, cosine):
                        certainty, why = OUTDATED_CERTAINTY, SAYS_AGAIN
                    if cosine >= MAYBE_AGAIN_COSINE:
                        told = f"corrected on {iso_day(each.until)} to {record_id}{why}"
                        yield ConflictingRecord(id=record_id, text=record.text, why=told, certainty=certainty)
                        break

    def _versions(self, record_ids: Collection[str], where: RecordFilter) -> Mapping[str, Sequence[Version]]:
        """Return the versions of records, in one journey with their predecessors, which `_former` reads."""
        self._records.ahead(
            lambda: self._records.versions(record_ids), lambda: self._records.predecessors(record_ids, where)
        )
        return self._records.versions(record_ids)

    def _former(
        self, record_ids: Collection[str], versions: Mapping[str, Sequence[Version]], where: RecordFilter
    ) -> Mapping[str, Sequence[_Former]]:
        """Return the former words of those of the records that have any, and that were not erased."""
        former = {
            record_id: [
                _Former(text=str(each.before["text"]), until=each.at)
                for each in changes
                if "text" in each.before and not each.undone
            ]
            for record_id, changes in versions.items()
        }
        for record_id, old in self._records.predecessors(record_ids, where).items():
            former.setdefault(record_id, []).append(_Former(text=old.text, until=old.updated_at))
        return {record_id: formers for record_id, formers in former.items() if formers}

    def _saying(
        self, former: _Former, corrected: Record, among: Sequence[Record], where: RecordFilter
    ) -> Iterator[Record]:
        """Yield the other records that say the former words again. Only what has a dropped value costs an embedding."""
        from mcp_memory.domain.text.conflicts import says_again, says_dropped  # Slow to load, and few were corrected.

        others = {
            each.id: each
            for each in among
            if each.id != corrected.id and says_dropped(each.text, former.text, corrected.text)
        }
        if others:
            vector = self._embedder.embed(former.text)[0]
            for record_id, cosine in self._vectors.similarities(vector, where.scopes, others.keys()).items():
                if says_again(others[record_id].text, former.text, cosine):
                    yield others[record_id]

    def _unsettled(self, restated: Mapping[str, str], where: RecordFilter) -> Mapping[str, str]:
        """Leave out the pairs of which somebody said that both stay."""
        everyone = replace(RecordFilter(scopes=where.scopes), hidden_branches=where.hidden_branches)
        stays = [
            set(each.record_ids) for each in self._reviews.settled(everyone, SETTLED_READ) if each.way in _BOTH_STAY
        ]
        return {old: new for old, new in restated.items() if not any({old, new} <= ids for ids in stays)}


def _is_affirmed(record: Record, versions: Sequence[Version], since: Instant) -> bool:
    """Return True where somebody confirmed or changed the record after that time."""
    is_met_again = record.counters.confirmed > 0 and record.updated_at > since
    return is_met_again or any(each.at > since and each.agent != UPKEEP for each in versions)
