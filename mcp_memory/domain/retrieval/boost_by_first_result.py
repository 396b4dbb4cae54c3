"""Asks once more by the names in the first result: "who directed it" finds the film, and the film names the director.

Candidates that share a name with it, which the query lacks, gain by how rare the name is. Nothing is found that no
source found: the graph reaches such records already, and only ranks them low.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from math import log

from mcp_memory.domain.retrieval.fusion import PRIOR_RECORDS, Fused
from mcp_memory.domain.retrieval.gate import SURE_SCORE
from mcp_memory.domain.text.words import query_terms, stems

HOP_SHARE = 0.75
"""Share that a name of the first result counts of its information, times that result's score."""
MOST_HOLDERS = 30
"""Other records that hold a name, at most: one that many hold leads anywhere."""
# e.g. "adriana trigiani", "antwerp giants"; not "api", "rust#86844", "sql_time_limit_ms"
_NAME = re.compile(r"(?!.*[_#/\\:@=<>])(?!.*\w\.\w).*\w \w")
"""Names of several words, as an entity's key has them. Identifiers and single words are what many texts about one piece
of code share, whose first one mostly answers alone."""


def starts_hop(ranking: Sequence[Fused]) -> bool:
    """Return True where the first result is sure enough to ask by what it names."""
    return len(ranking) > 1 and ranking[0].score >= SURE_SCORE and not ranking[0].is_echo


def hopped(
    ranking: Sequence[Fused],
    names: Mapping[str, Collection[str]],
    terms: Sequence[str],
    records: int,
    fixed: Collection[str] = (),
) -> list[Fused]:
    """Return the hits with what the first one's names add; none passes the first.

    `names` maps each name in the first result to the other records that hold it, of so many visible `records`. `terms`
    are the query's, whose own names add nothing. Those `fixed` in their places gain nothing.
    """
    gained = _gains(ranking, names, terms, records)
    first, usual = ranking[0], log(1 + records + PRIOR_RECORDS)
    hits = [
        _nearer(hit, gained[hit.id], usual, first.score) if hit.id in gained and hit.id not in fixed else hit
        for hit in ranking
    ]
    return sorted(hits, key=lambda hit: -hit.score)  # Stable: what has the first one's score stays behind it.


def _gains(
    ranking: Sequence[Fused], names: Mapping[str, Collection[str]], terms: Sequence[str], records: int
) -> Mapping[str, float]:
    """Return the nats that each hit gains."""
    found = {hit.id for hit in ranking[1:]}
    asked = {*stems(terms)}
    gained: dict[str, float] = {}
    for name, holders in names.items():
        held = found.intersection(holders) if _NAME.match(name) else set[str]()
        if held and not asked.issuperset(stems(query_terms(name))):
            nats = HOP_SHARE * ranking[0].score * log((records + PRIOR_RECORDS) / (len(holders) + 1))
            for each in held:
                gained[each] = gained.get(each, 0.0) + nats
    return gained


def _nearer(hit: Fused, nats: float, usual: float, most: float) -> Fused:
    """Return the hit with so many more nats, with a score of at most `most`, and at least its own."""
    had = sum(hit.parts.values())
    now = max(had + nats, 0.0)
    score = max(hit.score, min(most, now / (now + usual)))
    return hit._replace(score=score, parts={**hit.parts, "hop": max(score * usual / (1 - score) - had, 0.0)})
