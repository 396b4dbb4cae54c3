"""Records that say the same, of which one is enough, and records that belong together. Pure, over given cosines."""

import re
from collections.abc import Mapping, Sequence

from mcp_memory.domain.text import normal_hash

NEAR_COSINE = 0.9
"""From here on texts are looked at: case and punctuation alone may put two as far apart."""
SAME_COSINE = 0.95
"""From here on two texts say the same thing in much the same words, unless a value differs."""
CLUSTER_COSINE = 0.5
"""From here on two texts are about the same matter, with the built-in embedder."""
_VALUE = re.compile(
    r"(?<![\w.,:/-])[\w.,:/-]*\d(?:[\w.,:/-]*\w)?"
    r"|\b(?:not?|nor|never|none|nothing|nobody|neither|without|cannot|\w+n['’]t)\b",
    re.IGNORECASE,
)
"""A number or what holds one, its sign, point and separators included; a negation."""

AlikePair = tuple[str, str, float]
"""Two ids and the cosine of their texts."""


def repeated(texts: Mapping[str, str], pairs: Sequence[AlikePair]) -> Mapping[str, str]:
    """For each record that says nothing new, the better one that says the same.

    `texts` come best first. Texts that differ in a number, an identifier with one, a negation, or the order of these
    say different things however alike they are.
    """
    places = {record_id: place for place, record_id in enumerate(texts)}
    values: dict[str, list[str]] = {}
    repeats: dict[str, str] = {}
    for one, other, cosine in sorted(pairs, key=lambda pair: (places[pair[0]], places[pair[1]])):
        better, worse = sorted((one, other), key=places.__getitem__)
        if cosine < NEAR_COSINE or better in repeats or worse in repeats:
            continue
        if cosine < SAME_COSINE and normal_hash(texts[better]) != normal_hash(texts[worse]):
            continue
        for record_id in (better, worse):
            if record_id not in values:
                values[record_id] = [found.lower() for found in _VALUE.findall(texts[record_id])]
        if values[better] == values[worse]:
            repeats[worse] = better
    return repeats


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
    order: dict[str, None] = {}
    for leader in record_ids:
        if leader not in order:
            members = near.get(leader, set())
            order.update(dict.fromkeys([leader, *(i for i in record_ids if i in members and i not in order)]))
    return list(order)
