"""Tells which records contradict others beyond doubt, as long as nobody has settled it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.reviews import ReviewStore


def unsettled(
    shown: Iterable[Record], where: RecordFilter, records: MemoryReader, reviews: ReviewStore
) -> Mapping[str, str]:
    """Map records to their marks: "contradicts r00001x, not settled". Only what the reader sees is named."""
    others = reviews.contradicting([each.id for each in shown])
    if not others:
        return {}
    seen = records.matching_ids(replace(RecordFilter(scopes=where.scopes), only=frozenset(others.values())))
    return {each: f"contradicts {other}, not settled" for each, other in others.items() if other in seen}
