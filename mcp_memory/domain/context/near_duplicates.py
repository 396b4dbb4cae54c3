"""Records that say the same, of which one is enough, and records that belong together. Pure, over given cosines."""

from collections.abc import Mapping, Sequence

from mcp_memory.domain.model.records import LOG_KINDS, Record
from mcp_memory.domain.text.words import normalized

CLUSTER_COSINE = 0.5
"""From here on two texts are about the same matter, with the built-in embedder."""
_BEHIND_WORDS = ".,;:!?…。，；：！？"
AlikePair = tuple[str, str, float]
"""Two ids and the cosine of their texts."""


def repeated(records: Sequence[Record]) -> Mapping[str, str]:
    """For each record that says nothing new, the better one that says the same; they come best first.

    The same are two of one speaker and outcome, both of the log or neither, whose words are the same in the same order,
    but for case, space and the punctuation behind them. No cosine decides: "before" and "after", or 5432 and 5433, are
    near in any embedding, and the difference is all that matters.
    """
    first: dict[tuple[object, ...], str] = {}
    repeats: dict[str, str] = {}
    for record in records:
        said = (record.kind in LOG_KINDS, record.outcome, record.speaker, *_words(record.text))
        better = first.setdefault(said, record.id)
        if better != record.id:
            repeats[record.id] = better
    return repeats


def _words(text: str) -> list[str]:
    return [word.rstrip(_BEHIND_WORDS) for word in normalized("NFKC", text).casefold().split()]


def clustered(record_ids: Sequence[str], pairs: Sequence[AlikePair]) -> list[str]:
    """The records, best first, with those about the same matter beside each other.

    Each record not taken yet leads a cluster and draws in the rest that are alike to it, in their own order: clusters
    stand by their best, so that nothing is above what beats it but what belongs to something better still.
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
