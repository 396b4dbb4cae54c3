"""Fuses the evidence of several sources into one ranking: adds up how surprising each match is, in nats.

Each source reports how unlikely a randomly picked record would match as well: minus the logarithm of that
probability. Independent evidence adds up so (Fisher, "Statistical Methods for Research Workers", 1925, section
21.1). So the mixture adapts to the query and the store, without a switch between kinds of queries. A cosine far
above the store's others outweighs any word. A query whose rare words all occur in one record outweighs vague
similarity. A few common words weigh next to nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import erfc, expm1, log, log1p, sqrt
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from mcp_memory.domain.retrieval.turns import Turn

PRIOR_RECORDS = 50
"""Unrelated records added to the statistics of a store: a small store says little about what is usual."""
PRIOR_COSINE = 0.1
"""Mean and standard deviation of the cosines between unrelated texts, with the built-in embedder."""
LEAST_MEANING = 0.25
"""Weight of meaning where the model knows no word of the query, as in Chinese: then words lead."""
BEST_TURNS = 3
"""Turns of a session that speak for it."""
LIFT_NATS, MOST_LIFT = 0.1, 2.5
"""By so much the last holder of a rare word is ahead of the best record without it; at most it gains so many times the
information of its rare words. Unbounded, a stray name puts a foreign record before one that answers."""
_LEAST_CHANCE = 1e-300
_SQRT_2 = sqrt(2)
_SCORE_AND_ID = itemgetter(1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The constants of the mixture; docs/decisions/0009-fusion.md explains how each was found.

    share_power: how steeply a record's words lose value when they are only part of the query's.
    neighbours: a dialogue turn's share in the evidence of the turns directly before and after it.
    session: the share of its session's best turns, on average, that a dialogue turn gains.
    assistant: the discount of an assistant's turn, as a share, against people's own words.
    other_speaker: that of a turn by somebody else than the one whom the query names.
    question: that of a turn between people which only asks; what it asks for stands in another one.
    brief: that of a turn between people which mostly reacts.
    """

    share_power: float = 0.8
    neighbours: float = 0.25
    session: float = 0.3
    assistant: float = 0.2
    other_speaker: float = 0.3
    question: float = 0.4
    brief: float = 0.25


WEIGHTS = Weights()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTraits:
    """The value of a source's evidence.

    weight: of one nat of it against one of words and meaning, which it may partly repeat.
    admits_alone: a record with nothing but this evidence may be shown, however far its meaning.
    is_certain: a record with it answers the query, whatever its words and meaning say.
    """

    weight: float = 1.0
    admits_alone: bool = True
    is_certain: bool = False


PAST_SHARE = 0.25
"""Share that counts of the evidence for what is not true at the time: as near a match that is true ranks above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """The background of a query in the store: the usual level that a match has to exceed.

    `records` counts the visible live records. Cosines have this mean and mean square over them. All of the query's
    words together carry `information` nats. `holders` hold a word of it that hardly any other record has. `windows`
    counts the vectors of each record that has several. `known` is the share of the query's words that the embedder's
    model knows, in [0, 1]. `nats` is the information of each word, `absent` are those that no visible record holds.
    """

    records: int = 0
    cosine_mean: float = 0.0
    cosine_mean_square: float = 0.0
    information: float = 0.0
    holders: Mapping[str, float] = field(default_factory=dict[str, float])
    windows: Mapping[str, int] = field(default_factory=dict[str, int])
    known: float = 1.0
    nats: Mapping[str, float] = field(default_factory=dict[str, float])
    absent: frozenset[str] = frozenset()

    @property
    def cosine(self) -> tuple[float, float]:
        """Mean and standard deviation of the cosine to an unrelated record, the prior records included."""
        total = self.records + PRIOR_RECORDS
        mean = (self.records * self.cosine_mean + PRIOR_RECORDS * PRIOR_COSINE) / total
        square = (self.records * self.cosine_mean_square + PRIOR_RECORDS * 2 * PRIOR_COSINE**2) / total
        return mean, sqrt(max(square - mean * mean, 1e-6))


class Fused(NamedTuple):
    """One candidate's place in the ranking. A tuple, since a recall makes hundreds.

    `score` in [0, 1) is 0.5 where chance alone would produce an equally good match once in a store of this size.
    `parts` holds each signal's nats. `raw` holds the sources' own scores, including those of the records it
    `replaces`. It `is_admitted` where one of these sources admits alone, and `is_certain` where one is. It `is_echo`
    where it is a line of the log that only asks what the query asks.
    """

    id: str
    score: float
    parts: Mapping[str, float] = MappingProxyType({})
    raw: Mapping[str, float] = MappingProxyType({})
    replaces: tuple[str, ...] = ()
    is_admitted: bool = False
    is_certain: bool = False
    is_echo: bool = False


def meaning_nats(cosine: float, mean: float, deviation: float, windows: int = 1) -> float:
    """Return minus the logarithm of the chance that an unrelated record is as near; assumes normal cosines (>= 0).

    The cosine is that of the record's best window: each of its `windows` had the same chance, p, which makes
    1 - (1 - p)^windows together.
    """
    chance = max(0.5 * erfc((cosine - mean) / deviation / _SQRT_2), _LEAST_CHANCE)
    if windows > 1 and chance < 1:
        chance = -expm1(windows * log1p(-chance))
    return -log(chance)


def words_nats(nats: float, background: Background, weights: Weights) -> float:
    """Return the information of the shared words, discounted by their share of the query's information (>= 0).

    A single word out of many is likely to occur somewhere; most of the words together are not.
    """
    share = min(nats / background.information, 1.0) if background.information > 0 else 0.0
    return nats * share**weights.share_power


def fuse(
    rankings: Mapping[str, Mapping[str, float]],
    background: Background,
    *,
    neighbours: Mapping[str, Sequence[str]],
    sessions: Mapping[str, str] | None = None,
    turns: Mapping[str, Turn] | None = None,
    stack: Mapping[str, float] | None = None,
    weights: Weights = WEIGHTS,
    traits: Mapping[str, SourceTraits] | None = None,
) -> list[Fused]:
    """Return all candidates of all rankings, best first; equal ones newest first.

    `rankings` holds, by source, each candidate's own score: cosines for `vector`, nats for all others. `neighbours`
    names the dialogue turns beside a turn; a turn that is no candidate itself counts nothing. `sessions` names the
    session of each turn. `turns` holds those whose form says something about them. `stack` has the nats that a record
    gains or loses by its place in the task tree; they order what is found, and make nothing relevant. `traits` are
    those of the sources, where they are not the usual ones.
    """
    of_source = {**dict.fromkeys(rankings, SourceTraits()), **(traits or {})}
    nats = {
        name: _in_nats(name, scores, background, weights, of_source[name].weight) for name, scores in rankings.items()
    }
    parts, raw = _by_record(nats), _by_record(rankings)
    own = {record_id: sum(shares.values()) for record_id, shares in parts.items()}
    for record_id, near in neighbours.items():
        if (shares := parts.get(record_id)) and (beside := sum([own.get(turn, 0.0) for turn in near])):
            shares["neighbours"] = weights.neighbours * beside
    for record_id, nats_here in _of_sessions(sessions or {}, parts).items():
        parts[record_id]["session"] = weights.session * nats_here
    for record_id, turn in (turns or {}).items():
        if shares := parts.get(record_id):
            shares |= _by_form(turn, sum(shares.values()), weights)
    for record_id, nats_here in (stack or {}).items():
        if (shares := parts.get(record_id)) and (found := sum(shares.values())) > 0:
            shares["stack"] = max(min(nats_here, found), -found / 2)
    _lift(background.holders, parts)
    usual = log(1 + background.records + PRIOR_RECORDS)
    admitting = {name for name, each in of_source.items() if each.admits_alone}
    certain = {name for name, each in of_source.items() if each.is_certain}
    fused = [
        Fused(
            id=record_id,
            score=_strength(sum(shares.values()), usual),
            parts=shares,
            raw=raw[record_id],
            is_admitted=not admitting.isdisjoint(raw[record_id]),
            is_certain=not certain.isdisjoint(raw[record_id]),
        )
        for record_id, shares in parts.items()
    ]
    return sorted(fused, key=_SCORE_AND_ID, reverse=True)


def _by_form(turn: Turn, nats: float, weights: Weights) -> Mapping[str, float]:
    """Return what a turn loses of the nats of its evidence."""
    losses = {
        "assistant": weights.assistant * turn.is_assistant,
        "speaker": weights.other_speaker * turn.is_other,
        "question": weights.question * turn.questions,
        "brief": weights.brief * turn.is_brief,
    }
    return {name: -share * nats for name, share in losses.items() if share}


def _of_sessions(sessions: Mapping[str, str], parts: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    """Return the mean evidence of the best turns of each turn's session: a conversation is about few things."""
    totals: dict[str, list[float]] = {}
    for record_id, session in sessions.items():
        if record_id in parts:
            totals.setdefault(session, []).append(sum(parts[record_id].values()))
    if len(totals) < 2:
        return {}
    best = {session: sum(sorted(nats)[-BEST_TURNS:]) / BEST_TURNS for session, nats in totals.items()}
    return {record_id: best[session] for record_id, session in sessions.items() if record_id in parts}


def _lift(holders: Mapping[str, float], parts: Mapping[str, dict[str, float]]) -> None:
    """Put the records that hold a rare word of the query before all others, unless those are far better.

    Ten thousand texts that differ in one identifier have nearly one vector; only the word tells them apart.
    """
    if holders.keys().isdisjoint(parts):
        return
    totals = {record_id: sum(shares.values()) for record_id, shares in parts.items()}
    least = min(total for record_id, total in totals.items() if record_id in holders)
    lift = max((total for record_id, total in totals.items() if record_id not in holders), default=0.0) - least
    if lift > 0:
        for record_id in holders.keys() & parts.keys():
            parts[record_id]["rare"] = min(lift + LIFT_NATS, MOST_LIFT * holders[record_id])


def below_successors(
    ranking: Sequence[Fused], successors: Mapping[str, str], *, is_replaced: bool = True
) -> list[Fused]:
    """Put each superseded record directly below its successor, which is added to the ranking if missing.

    It takes its place where it `is_replaced`; what only says again what was corrected stands beside it.
    """
    scores = {hit.id: hit for hit in ranking}
    for old_id, new_id in successors.items():
        if (old := scores.get(old_id)) is None:
            continue
        new = scores.get(new_id, Fused(id=new_id, score=0.0))
        nats = {hit.id: sum(hit.parts.values()) for hit in (old, new)}
        lifted = {"supersedes": nats[old_id] - nats[new_id]} if old.score > new.score else {}
        raw = {name: max(old.raw.get(name, -1.0), new.raw.get(name, -1.0)) for name in {**old.raw, **new.raw}}
        scores[new_id] = Fused(
            id=new_id,
            score=max(new.score, old.score),
            parts={**new.parts, **lifted},
            raw=raw,
            replaces=(*new.replaces, old_id) if is_replaced else new.replaces,
            is_admitted=old.is_admitted or new.is_admitted,
            is_certain=old.is_certain or new.is_certain,
        )
    return sorted(scores.values(), key=lambda hit: (-hit.score, hit.id in successors))


def faded(ranking: Sequence[Fused], past: Collection[str]) -> list[Fused]:
    """Rank what is not true at the time below what is: only PAST_SHARE of its evidence counts."""
    if not past:
        return list(ranking)
    hits = [_faded(hit) if hit.id in past else hit for hit in ranking]
    return sorted(hits, key=lambda hit: -hit.score)


def _faded(hit: Fused) -> Fused:
    nats = sum(hit.parts.values())
    # The share of the strength that is left of s = n / (n + usual) when n is.
    score = PAST_SHARE * hit.score / (1 - hit.score + PAST_SHARE * hit.score)
    return hit._replace(score=score, parts={**hit.parts, "past": (PAST_SHARE - 1) * nats})


def _by_record(rankings: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the sources' scores by record instead of by source."""
    by_record: dict[str, dict[str, float]] = {}
    for name, scores in rankings.items():
        for record_id, score in scores.items():
            by_record.setdefault(record_id, {})[name] = score
    return by_record


def _in_nats(
    name: str, scores: Mapping[str, float], background: Background, weights: Weights, weight: float
) -> Mapping[str, float]:
    if name == "vector":
        mean, deviation = background.cosine
        weight, windows = weight * max(background.known, LEAST_MEANING), background.windows
        return {i: weight * meaning_nats(cosine, mean, deviation, windows.get(i, 1)) for i, cosine in scores.items()}
    if name == "keyword":
        return {record_id: weight * words_nats(score, background, weights) for record_id, score in scores.items()}
    return {record_id: weight * score for record_id, score in scores.items()}


def strength(nats: float, records: int) -> float:
    """Return the nats on a scale from 0 to 1; the best of n chance matches has about log n of them: 0.5."""
    return _strength(nats, log(1 + records + PRIOR_RECORDS))


def _strength(nats: float, usual: float) -> float:
    return nats / (nats + usual) if nats > 0 else 0.0
