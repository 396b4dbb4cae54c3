"""From the scores of several sources to one ranking: a weighted sum of normalised scores, with dialogue in mind.

The weights are those measured on public long-term-memory data: half and half of min-max-normalised BM25 and cosine; a
fifth of the neighbouring turns' scores; a fifth off for what an assistant said; a fifth more for the time asked about.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

WEIGHTS: Mapping[str, float] = {"keyword": 0.5, "vector": 0.5}
NEIGHBOUR_WEIGHT = 0.2
ASSISTANT_PENALTY = 0.2
SPAN_BONUS = 0.2
NEIGHBOUR_DEPTH = 60
"""Only the best candidates' neighbours are looked up: a bonus of a fifth cannot lift the others into an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """One candidate's place in the ranking.

    `parts` holds each signal's share of `score`; `raw` the sources' own scores, those of what it `replaces` included.
    """

    id: str
    score: float
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    raw: Mapping[str, float] = field(default_factory=dict[str, float])
    replaces: tuple[str, ...] = ()


def min_max(scores: Mapping[str, float], floor: float | None = None) -> dict[str, float]:
    """Scores scaled to [0, 1] over the candidates; with `floor` that value, not the lowest score, becomes 0."""
    if not scores:
        return {}
    low = min(scores.values()) if floor is None else floor
    spread = max(scores.values()) - low
    return {key: (value - low) / spread if spread > 0 else 1.0 for key, value in scores.items()}


def fuse(
    rankings: Mapping[str, Mapping[str, float]],
    *,
    neighbours: Callable[[Collection[str]], Mapping[str, Sequence[str]]],
    is_assistant: Callable[[str], bool],
) -> list[Fused]:
    """All candidates of all rankings, best first; ties by id, newest first.

    BM25 is scaled from 0, since a candidate without a match has that; cosines from the lowest among the candidates.
    """
    weighted = {name: scores for name, scores in rankings.items() if name in WEIGHTS}
    scaled = {name: min_max(scores, 0.0 if name == "keyword" else None) for name, scores in weighted.items()}
    candidates = {record_id for scores in rankings.values() for record_id in scores}
    present = sum(WEIGHTS[name] for name, scores in weighted.items() if scores) or 1.0
    parts = {
        record_id: {name: WEIGHTS[name] / present * scores.get(record_id, 0.0) for name, scores in scaled.items()}
        for record_id in candidates
    }
    own = {record_id: sum(shares.values()) for record_id, shares in parts.items()}
    best = sorted(own, key=lambda record_id: -own[record_id])[:NEIGHBOUR_DEPTH]
    for record_id, near in neighbours(best).items():
        if bonus := NEIGHBOUR_WEIGHT * sum(own.get(turn, 0.0) for turn in near):
            parts[record_id]["neighbours"] = bonus
    for record_id, shares in parts.items():
        if record_id in rankings.get("time", ()):
            shares["time"] = SPAN_BONUS
        if is_assistant(record_id):
            shares["assistant"] = -ASSISTANT_PENALTY * sum(shares.values())
    fused = [
        Fused(
            id=record_id,
            score=sum(shares.values()),
            parts=shares,
            raw={name: scores[record_id] for name, scores in rankings.items() if record_id in scores},
        )
        for record_id, shares in parts.items()
    ]
    fused.sort(key=lambda hit: hit.id, reverse=True)
    return sorted(fused, key=lambda hit: -hit.score)


def below_successors(ranking: Sequence[Fused], successors: Mapping[str, str]) -> list[Fused]:
    """Put every superseded record directly below the record that replaced it, bringing that one in if need be."""
    scores = {hit.id: hit for hit in ranking}
    for old_id, new_id in successors.items():
        if (old := scores.get(old_id)) is None:
            continue
        new = scores.get(new_id, Fused(id=new_id, score=0.0))
        score = max(new.score, old.score)
        lifted = {"supersedes": score - new.score} if score > new.score else {}
        raw = {name: max(old.raw.get(name, -1.0), new.raw.get(name, -1.0)) for name in {**old.raw, **new.raw}}
        scores[new_id] = Fused(
            id=new_id, score=score, parts={**new.parts, **lifted}, raw=raw, replaces=(*new.replaces, old_id)
        )
    return sorted(scores.values(), key=lambda hit: (-hit.score, hit.id in successors))
