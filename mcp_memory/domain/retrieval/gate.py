"""The gate: what bears on a question and may be shown, in recall, contexts, reminders, commands and the page alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log

from mcp_memory.domain.retrieval.fusion import PRIOR_RECORDS, Fused, strength


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuery:
    """A query as the gate sees it.

    It is asked of so many visible `records`. Its `words` together carry `information` nats. `understood` is the share
    of them that the embedder's model knows, in [0, 1]. Where that is little, `alike` is the share of their information,
    in [0, 1], that inflections of them in one of the best records carry. `seeks_fact` is True for a question that one
    fact answers, such as "which port", and False for a request, a goal or a search. `names_unknown` is True where it
    names what no record does, `names_rare` where it names what hardly any other record does. `is_goal` is True for
    a task's goal, which asks nothing: earlier work that is only near helps all the same. `is_past` is True where it
    asks what happened with a subject at a time which is over. It is `is_across` where the nearest record is in another
    language, which the embedder's model knows as well as the query's: then their words say nothing.
    """

    records: int = 0
    words: int = 0
    information: float = 0.0
    understood: float = 1.0
    alike: float = 0.0
    seeks_fact: bool = False
    names_unknown: bool = False
    names_rare: bool = False
    is_goal: bool = False
    is_past: bool = False
    is_across: bool = False

    @property
    def is_foreign(self) -> bool:
        """True where words say more than the embedder's model does, as in German or Chinese for the built-in one."""
        return self.understood < UNDERSTOOD


UNDERSTOOD = 0.6
BEST_HITS = 5
FEW_WORDS = 3
"""A query of fewer words, e.g. "postgres port", looks for what mentions one of them; its cosines say little."""

_OFFSET, _COSINE, _SHARE, _SEEKS_FACT, _UNKNOWN_NAME, _SIZE = -3.37, 11.2, 1.86, -0.82, -1.1, -0.3
"""A logistic regression over 1,900 questions, half of which their memory could answer: the best
cosine among the best hits, the best share of the query's information in one record's words, the kind of question, an
unknown name in it, and the logarithm of the records: among many, chance finds a nearer one."""
_FOREIGN_OFFSET, _ALIKE, _LEAD = -4.92, 8.9, 15.0
"""The same for languages that the model hardly knows, over 1,400 Spanish and Russian ones: the share of the words in
one of the best records, and how far the best score is ahead of the fifth. The offset is that of forty German and
Chinese questions, whose words are further from those of their records."""
_ACROSS_OFFSET, _ACROSS_STRENGTH = -8.0, 16.6
"""The same for a record in another language, over 829 questions with `e5`: how far the best cosine is above those of
the other records, on the scale of scores. Between languages cosines are lower than within one (docs/decisions/0090)."""
BEARS, BEARS_ON_FACT, BEARS_ACROSS = 0.14, 0.2, 0.34
"""Least chances: below them nothing stored bears on the query, on one that seeks a fact, and on one across languages.

Of questions in their record's words none is below, of those made to share no word with it a quarter, and of foreign
ones about the memory's own subjects half.
"""

NOISE_SHARE = 0.65
"""Beside the best hit, one with less than that share of its score is noise: of the right ones among the first ten it
costs none of 705 in conversations and code, and 1 of 133 preferences (docs/decisions/0073)."""
FLOOR_SCORE = 0.15
"""Least score: a weaker match has less than a fifth of the evidence of the best chance match in the store."""
FOREIGN_FLOOR, FOREIGN_NOISE = 0.5, 0.8
"""Shares of that score, and of noise, where the embedder's model understands little: meaning counts less in it. Of 600
Spanish and Russian questions that noise costs one, and leaves a fifth of what is found in Spanish."""
FLOOR_COSINE = 0.12
"""Least cosine: unrelated texts have about 0.1 with the built-in embedder, loosely related ones mostly above 0.12."""
FLOOR_SHARE = 0.5
"""Least share of the query's information: a candidate above it is relevant whatever its cosine."""
SUBJECT_SHARE = 0.5
"""Share of the information of the best hit's words from which a hit is of the subject that is asked about."""
SURE_SCORE = 0.7
FAIR_SCORE, FAIR_COSINE = 0.5, 0.4
"""Thresholds for what nobody asked for, such as a reminder: both fair ones, or the sure score alone.

A fair score is better than what chance finds once in a store. Over 255 sentences of this project's decisions, answers
to questions had scores from 0.6 and cosines from 0.46; the nearest to "explain what this function does" or "please
commit this" had 0.64 and 0.35 at most.
"""


def bearing(hits: Sequence[Fused], asked: AskedQuery) -> tuple[Fused, ...]:
    """Return the hits, best first, that bear on the query; none where nothing stored does."""
    if not hits or not is_known(hits, asked):
        return ()
    noise, floor = _least_scores(hits, asked)
    # A search for a word or two wants all that mentions them.
    least = FLOOR_SHARE * asked.information if asked.words < FEW_WORDS else inf
    found = tuple(
        hit
        for hit in hits
        if (not _is_noise(hit, noise) or _told(hit) >= least) and is_above_floor(hit, asked.information, floor)
    )
    return (_of_that_time(found) or found) if asked.is_past else found


def least_score(hits: Sequence[Fused], asked: AskedQuery) -> float:
    """Return the score in [0, 1] below which a hit of this ranking bears on the query by its words alone, if at all.

    0 where nothing stored bears on it, whatever its score.
    """
    return max(_least_scores(hits, asked)) if hits and is_known(hits, asked) else 0.0


def _least_scores(hits: Sequence[Fused], asked: AskedQuery) -> tuple[float, float]:
    """Return the scores below which a hit is noise beside the best ones, and below which it is never near enough."""
    noise_share, floor_share = (FOREIGN_NOISE, FOREIGN_FLOOR) if asked.is_foreign else (1.0, 1.0)
    return 0.0 if asked.is_goal else noise_score(hits) * noise_share, FLOOR_SCORE * floor_share


def _of_that_time(hits: Sequence[Fused]) -> tuple[Fused, ...]:
    """Return the hits of the time that is asked about which share about as many words with the query as any hit."""
    least = max(map(_told, hits), default=0.0) * SUBJECT_SHARE
    return tuple(hit for hit in hits if "time" in hit.raw and _told(hit) >= least > 0)


def bearing_unasked(hits: Sequence[Fused]) -> tuple[Fused, ...]:
    """Return the hits, best first, that are worth reading though nobody asked."""
    return tuple(hit for hit in hits if _stands_out(hit))


def is_known(hits: Sequence[Fused], asked: AskedQuery) -> bool:
    """Return True where anything stored may bear on the query, judged by its best hits."""
    best = [hit for hit in hits if not hit.is_echo][:BEST_HITS]
    is_sought = asked.names_rare or asked.words < FEW_WORDS
    if is_sought and any(hit.raw.get("keyword") or hit.raw.get("graph") for hit in best):
        return True
    if asked.is_across:
        return chance(hits, asked) >= BEARS_ACROSS
    return chance(hits, asked) >= (BEARS_ON_FACT if asked.seeks_fact else BEARS)


def chance(hits: Sequence[Fused], asked: AskedQuery) -> float:
    """Return the chance in [0, 1] that one of the best hits answers the query.

    Hits without a cosine are certain, as are those of a certain source. An echo of the query answers nothing.
    """
    best = [hit for hit in hits if not hit.is_echo][:BEST_HITS]
    if not best:
        return 0.0
    if any("vector" not in hit.raw or hit.is_certain for hit in best):
        return 1.0
    if asked.is_foreign:
        return _logistic(_FOREIGN_OFFSET + _ALIKE * asked.alike + _LEAD * _lead(hits))
    cosine = max(hit.raw["vector"] for hit in best)
    words = max(hit.raw.get("keyword", 0.0) for hit in best)
    share = min(words / asked.information, 1.0) if asked.information > 0 else 0.0
    nats = _OFFSET + _COSINE * cosine + _SHARE * share + _SIZE * log(asked.records + PRIOR_RECORDS)
    if asked.seeks_fact:
        nats += _SEEKS_FACT + _UNKNOWN_NAME * asked.names_unknown
    return max(_logistic(nats), _chance_across(best, asked)) if asked.is_across else _logistic(nats)


def _chance_across(best: Sequence[Fused], asked: AskedQuery) -> float:
    meaning = max((hit.parts.get("vector", 0.0) for hit in best), default=0.0)
    return _logistic(_ACROSS_OFFSET + _ACROSS_STRENGTH * strength(meaning, asked.records))


def chances(hits: Sequence[Fused], asked: AskedQuery) -> dict[str, float]:
    """Return the chance in [0, 1] of each hit to answer the query: that any does, times that this one is relevant.

    A search for a word or two wants all that it finds. Where the model understands little, scores are low, and only
    their share of the best one's says something.
    """
    if asked.words < FEW_WORDS:
        return dict.fromkeys((hit.id for hit in hits), 1.0)
    known, best = chance(hits, asked), max((hit.score for hit in hits), default=0.0) or 1.0
    if asked.is_foreign:
        return {hit.id: known * hit.score / best for hit in hits}
    return {hit.id: known * relevance_of(hit.score) for hit in hits}


def is_above_floor(hit: Fused, information: float, floor: float = FLOOR_SCORE) -> bool:
    """Return True where meaning, words or relations are near enough. All query words carry `information` nats."""
    if hit.is_certain or (hit.is_admitted and "vector" not in hit.raw):
        return True
    if _score_alone(hit) >= floor and hit.raw.get("vector", 0.0) >= FLOOR_COSINE:
        return True
    return 0 < _told(hit) >= FLOOR_SHARE * information


def _told(hit: Fused) -> float:
    """Return the information that a hit shares with the query, in words or by relations, in nats."""
    return max(hit.raw.get("keyword", 0.0), hit.raw.get("graph", 0.0))


def noise_score(hits: Sequence[Fused]) -> float:
    """Return the score, in [0, 1], below which hits of this ranking are noise.

    Beside a hit of 0.8, one of 0.5 is no answer, however many of these there are.
    """
    return NOISE_SHARE * max((_score_alone(hit) for hit in hits[:BEST_HITS]), default=0.0)


def nothing_names(names: Sequence[str]) -> str:
    """Return the sentence about what no record names: "Nothing here names Redis or Kafka."; "" without a name."""
    if not names:
        return ""
    *others, last = names
    return f"Nothing here names {', '.join(others)} or {last}." if others else f"Nothing here names {last}."


_RELEVANCE_OFFSET, _RELEVANCE_SCORE = -8.9, 11.4


def relevance_of(score: float) -> float:
    """Return the chance in [0, 1] that a hit of this score bears on its query, among all hits of all ranks.

    What fills a block is weighed by it (docs/decisions/0061). A reader is told `relevances`, which know the ranks.
    """
    return _logistic(_RELEVANCE_OFFSET + _RELEVANCE_SCORE * score)


_SAID_OFFSET, _SAID_SCORE, _SAID_LEAD, _SAID_BEHIND = -4.1, 4.5, 21.7, -13.5
"""A logistic regression over half of 1,791 questions to six sets, each with equal weight (docs/decisions/0090): the
score, how far the best one is ahead of the second, and how far another is behind the best."""
CHANCE_SCORE = 0.5
"""The score that chance reaches once in a store: where nothing else is found, the best one is ahead of that."""


def relevances(shown: Sequence[Fused], hits: Sequence[Fused]) -> tuple[float, ...]:
    """Return the chance in [0, 1] of each hit `shown` to be relevant, by its score and distance to the best `hits`.

    Of results that are told p, about p are relevant (`python -m benchmarks.retrieval DATA_DIR --calibration`). What is
    certain leads nothing, and what a hit replaces is not second to it.
    """
    replaced = {old for hit in hits for old in hit.replaces}
    scores = sorted((hit.score for hit in hits if not hit.is_certain and hit.id not in replaced), reverse=True)
    best, second, *_ = (*scores, 0.0, 0.0)
    lead = best - max(second, CHANCE_SCORE)
    return tuple(relevance_of(hit.score) if hit.is_certain else _said(hit.score, best, lead) for hit in shown)


def _said(score: float, best: float, lead: float) -> float:
    distance = _SAID_LEAD * max(lead, 0.0) if score >= best else _SAID_BEHIND * (best - score)
    return _logistic(_SAID_OFFSET + _SAID_SCORE * score + distance)


def _logistic(nats: float) -> float:
    return 1 / (1 + exp(-nats))


def _stands_out(hit: Fused) -> bool:
    is_fair = hit.score >= FAIR_SCORE and hit.raw.get("vector", 0.0) >= FAIR_COSINE
    return is_fair or hit.score >= SURE_SCORE


def _lead(hits: Sequence[Fused]) -> float:
    """Return how far the best score is ahead of the fifth; of fewer hits, ahead of half of itself."""
    scores = sorted((hit.score for hit in hits), reverse=True)
    return scores[0] - (scores[BEST_HITS - 1] if len(scores) >= BEST_HITS else scores[0] / 2)


def _is_noise(hit: Fused, noise: float) -> bool:
    return hit.score < noise and _score_alone(hit) < noise


def _score_alone(hit: Fused) -> float:
    """Return the score without what the task stack adds, which makes nothing relevant, or being past takes away."""
    added = max(hit.parts.get("stack", 0.0), 0.0) + hit.parts.get("past", 0.0)
    if not added or (nats := sum(hit.parts.values())) <= 0:
        return hit.score
    usual = nats * (1 - hit.score) / hit.score
    return (nats - added) / (nats - added + usual)
