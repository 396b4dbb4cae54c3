"""Finds records that repeat each other, and records that belong together. Pure, over given cosines."""

from collections.abc import Mapping, Sequence

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.retrieval.log_lines import TextDigests, besides, repeats, words_digest

CLUSTER_COSINE = 0.5
"""Least cosine of two texts about the same matter, with the built-in embedder."""
AlikePair = tuple[str, str, float]
"""Two ids and the cosine of their texts."""


def repeated(records: Sequence[Record]) -> Mapping[str, str]:
    """Return, for each record that repeats a better one, the id of that one; give the records best first.

    They are the same if they have the same words in the same order, apart from case, space and punctuation, one speaker
    and outcome, and hold at the same time; of a stored record and a line of the log the stored one is better. No cosine
    decides: "before" and "after", or 5432 and 5433, are near in any embedding, and the difference is all that matters.
    """
    return repeats(
        (each.id, each.kind, TextDigests(words_digest(each.text), _besides(each))) for each in records if each.holds
    )


def clustered(record_ids: Sequence[str], pairs: Sequence[AlikePair]) -> list[str]:
    """Return the records, best first, with those about the same matter beside each other.

    Each record not taken yet leads a cluster and draws in the remaining similar ones, in their own order. Clusters
    are ordered by their best, so a record precedes a better one only in the cluster of an even better one.
    """
    near: dict[str, set[str]] = {}
    for one, other, cosine in pairs:
        if cosine >= CLUSTER_COSINE:
            near.setdefault(one, set()).add(other)
            near.setdefault(other, set()).add(one)
    place = {record_id: number for number, record_id in enumerate(record_ids)}
    order: dict[str, None] = {}
    for leader in record_ids:
        if leader not in order:
            members = sorted(near.get(leader, set()).difference(order), key=place.__getitem__)
            order.update(dict.fromkeys([leader, *members]))
    return list(order)


def _besides(record: Record) -> int:
    details = record.details if record.kind == "event" else None
    return besides(record.speaker, record.outcome, (record.valid_from, record.valid_until), details)
