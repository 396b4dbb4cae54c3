"""Ranks the log behind what was stored: each text once, questions behind answers, lines behind a record that says it.

A session's log holds every prompt, so a question that was asked ten times is ten lines nearer to it than any answer.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from mcp_memory.domain.model.records import LOG_KINDS, Details, Instant, Kind, Outcome
from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.retrieval.turns import PLAIN, Turn
from mcp_memory.domain.text.words import normal_hash

SAME_COSINE = 0.85
"""Least cosine of a line and a stored record that say the same, with the built-in embedder."""
COMPARED = 40
"""The best hits among which a stored record is looked for that says what a line says."""
ECHO_COSINE = 0.6
"""Least cosine of a question in the log and a query that asks the same: rewordings have 0.6 to 0.97."""
ECHO_SHARE = 0.5
"""Least share of the query's information in the words of such a question, where no cosine tells it."""
BY_CHANCE = 0.5
"""The score of the best match that chance alone makes once in a store of this size."""
ECHO_LOSS = 0.75
"""Share that a line which only asks loses of its evidence: any answer that bears on the query is ahead of it."""
_EVENT_DETAILS = ("type", "command", "path", "message")


class TextDigests(NamedTuple):
    """Digests of a record: that of its words, and that of whatever else makes two of the same words two statements."""

    words: int
    besides: int


def words_digest(text: str) -> int:
    """Return a digest of the text's words, apart from case, space and punctuation."""
    return digest_of(normal_hash(text))


def digest_of(normal: str) -> int:
    """Return a `normal_hash` as a number in [0, 2^63)."""
    return int(normal[:16], 16) >> 1


def besides(
    speaker: str | None,
    outcome: Outcome | None,
    valid: tuple[Instant | None, Instant | None] = (None, None),
    details: Details | None = None,
) -> int:
    """Return a digest of who said it, how it ended, when it is true, and what an event was about; 0 for nothing."""
    if speaker is None and outcome is None and valid == (None, None) and not details:
        return 0  # As for most records, of which thousands are loaded at once.
    told = (speaker, outcome, *valid, *((details or {}).get(name) for name in _EVENT_DETAILS))
    if not any(each is not None for each in told):
        return 0
    return int.from_bytes(blake2b(repr(told).encode("utf-8", "surrogatepass"), digest_size=8).digest()) >> 1


def echoes(asking: Iterable[str], rankings: Mapping[str, Mapping[str, float]], information: float) -> frozenset[str]:
    """Return those of the lines which only ask, `asking`, that ask what the query asks.

    All of its words together carry `information` nats.
    """
    cosines, words = rankings.get("vector", {}), rankings.get("keyword", {})
    return frozenset(
        line
        for line in asking
        if cosines.get(line, 0.0) >= ECHO_COSINE or words.get(line, 0.0) >= ECHO_SHARE * information > 0
    )


def behind_answers(ranking: Sequence[Fused], asking: Collection[str], repeating: Collection[str]) -> list[Fused]:
    """Rank the log's lines that ask what the query asks, or only repeat its words, behind what answers it."""
    if not asking and not repeating:
        return list(ranking)
    lost = {*asking, *repeating}
    return _in_order(_asked(hit)._replace(is_echo=hit.id in asking) if hit.id in lost else hit for hit in ranking)


def _asked(hit: Fused) -> Fused:
    # Of so much less evidence: s = n / (n + usual).
    return _of_score(hit, (1 - ECHO_LOSS) * hit.score / (1 - ECHO_LOSS * hit.score), "asks")


def behind_stored(
    ranking: Sequence[Fused], kinds: Mapping[str, Kind], alike: Iterable[tuple[str, str, float]]
) -> list[Fused]:
    """Put a stored record directly before the best line of the log that says the same.

    `alike` are pairs of ids with the cosines of their texts.
    """
    places = {hit.id: place for place, hit in enumerate(ranking)}
    scores = {hit.id: hit.score for hit in ranking}
    lifted: dict[str, float] = {}
    for one, other, cosine in alike:
        if cosine >= SAME_COSINE and (kinds[one] in LOG_KINDS) != (kinds[other] in LOG_KINDS):
            line, stored = (one, other) if kinds[one] in LOG_KINDS else (other, one)
            if places[line] < places[stored]:
                lifted[stored] = max(scores[line], lifted.get(stored, 0.0))
    hits = [_of_score(hit, lifted[hit.id], "said") if hit.id in lifted else hit for hit in ranking]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id not in lifted))


def _of_score(hit: Fused, score: float, why: str) -> Fused:
    """Return the hit with another score, below 1, and the evidence that makes it under the name `why`."""
    nats = sum(hit.parts.values())
    usual = nats * (1 - hit.score) / hit.score if hit.score > 0 else 0.0
    return hit._replace(score=score, parts={**hit.parts, why: score * usual / (1 - score) - nats})


def by_own_evidence(ranking: Sequence[Fused], kinds: Mapping[str, Kind], turns: Mapping[str, Turn]) -> list[Fused]:
    """Put lines of the log behind the best stored record, where only what was said beside them puts them before it.

    Of messages those of an assistant, and prompts that only ask, by their `turns`: between people, an answer often
    stands beside its question.

    "I will look that up.", said again and again behind one question, is no better an answer than a stored one. Where
    no stored record is better than chance, the answer may stand beside the question.
    """
    best = max((hit.score for hit in ranking if kinds.get(hit.id, "message") not in LOG_KINDS), default=0.0)
    if best < BY_CHANCE:
        return list(ranking)
    capped = [
        _of_score(hit, best, "beside")
        if best < hit.score and _may_announce(kinds.get(hit.id), turns.get(hit.id, PLAIN)) and _own_score(hit) < best
        else hit
        for hit in ranking
    ]
    return sorted(capped, key=lambda hit: (-hit.score, kinds.get(hit.id) in LOG_KINDS))


def _may_announce(kind: Kind | None, turn: Turn) -> bool:
    """Return True for a line that may only ask, or say what its speaker is about to do."""
    return turn.is_assistant or turn.only_asks if kind == "message" else kind in LOG_KINDS


def _own_score(hit: Fused) -> float:
    """Return the score without the evidence of other turns beside it or in its session."""
    nats = sum(hit.parts.values())
    own = nats - sum(max(hit.parts.get(name, 0.0), 0.0) for name in ("neighbours", "session"))
    return own / (own + nats * (1 - hit.score) / hit.score) if own > 0 and hit.score > 0 else 0.0


def once(
    ranking: Sequence[Fused],
    said: Mapping[str, TextDigests],
    kinds: Mapping[str, Kind],
    importance: Mapping[str, float],
) -> tuple[list[Fused], Mapping[str, str]]:
    """Return each statement once, at the place of its best hit: the stored record, the most important, or that hit.

    Hits that `said` leaves out stay where they are. The mapping is that of `repeats`.
    """
    if len({each.words for each in said.values()}) == len(said):  # As mostly: nothing says the same as another.
        return _in_order(ranking), {}
    preferred = sorted((hit.id for hit in ranking if hit.id in said), key=lambda each: -importance.get(each, 0.0))
    better = repeats((each, kinds[each], said[each]) for each in preferred)
    scores = {hit.id: hit.score for hit in ranking}
    lifted: dict[str, float] = {}
    for line, shown in better.items():
        if scores[line] > scores[shown]:
            lifted[shown] = max(scores[line], lifted.get(shown, 0.0))
    kept = (hit for hit in ranking if hit.id not in better)
    return _in_order(_of_score(hit, lifted[hit.id], "said") if hit.id in lifted else hit for hit in kept), better


def repeats(ranked: Iterable[tuple[str, Kind, TextDigests]]) -> Mapping[str, str]:
    """Return, for each record that repeats a better one, the id of that one; give them best first.

    Any stored record with its words is better than a line of the log, which is that of a speaker. An event's text
    alone, such as "run", does not tell what ran.
    """
    ranked = tuple(ranked)
    stored: dict[int, str] = {}
    for record_id, kind, said in ranked:
        if kind not in LOG_KINDS:
            stored.setdefault(said.words, record_id)
    first: dict[tuple[bool, TextDigests], str] = {}
    repeated: dict[str, str] = {}
    for record_id, kind, said in ranked:
        is_log = kind in LOG_KINDS
        better = stored.get(said.words) if is_log and kind != "event" else None
        better = better or first.setdefault((is_log, said), record_id)
        if better != record_id:
            repeated[record_id] = better
    return repeated


def _in_order(hits: Iterable[Fused]) -> list[Fused]:
    return sorted(hits, key=lambda hit: -hit.score)
