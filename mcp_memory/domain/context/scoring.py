"""Scores candidates, by named signals in one sum weighted by the strategy, and finds those that belong together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log, log10, prod

from mcp_memory.domain.context.rendering import repair_rank
from mcp_memory.domain.model.lifecycle import MAX_LEARNED, learned_importance, lifecycle_weight, success_rate
from mcp_memory.domain.model.records import RAW, Instant, Outcome, Record, is_valid
from mcp_memory.domain.model.strategy import DEFAULT_PRIORITY, Signal, Strategy
from mcp_memory.domain.retrieval.fusion import PAST_SHARE
from mcp_memory.domain.retrieval.log_lines import TextDigests, besides, repeats, words_digest
from mcp_memory.domain.text.passages import Passages

CLUSTER_COSINE = 0.5
"""Least cosine of two texts about the same matter, with the built-in embedder."""
AlikePair = tuple[str, str, float]
"""Two ids and the cosine of their texts."""
OUTCOME_VALUES: Mapping[Outcome, float] = {"success": 1.2, "partial": 1.0, "pending": 0.9, "failure": 0.8}
EVENT_SALIENCE = 0.5  # events have no learned importance
_LEAST_OUTCOME, _OUTCOME_RANGE = 0.8, 0.4  # scale OUTCOME_VALUES to [0, 1]
_USAGE_RANGE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A record that might enter a context, and its match with the query.

    `relevance` in [0, 1] is 0 without a query, `chance` that of answering it, where it was found. `cosine` is None
    where it was not compared. `source` is the source that found it first. `passages` weighs those of a long text for
    the query, which takes time. `corrected_by` is the correction of what it says again, "" for most, and `newest` the
    newest state of what it is about, where it is the best record of its thread.
    """

    record: Record
    source: str
    relevance: float = 0.0
    chance: float = 1.0
    cosine: float | None = None
    corrected_by: str = ""
    newest: str = ""
    passages: Callable[[], Passages] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A candidate's score under a strategy, higher is better, and what each signal adds to it.

    Scores of different strategies do not compare; those of a weighted one are in [0, 1].
    """

    candidate: Candidate
    score: float
    parts: Mapping[str, float]


def hyperbolic_decay(age_hours: float, decay_hours: float) -> float:
    """Return 1 / (1 + age/decay), in (0, 1]: one half at `decay_hours`, a quarter at three times that."""
    return 1.0 / (1.0 + max(age_hours, 0.0) / decay_hours)


def recency(age_hours: float, half_life_hours: float) -> float:
    """Return 2^(-age/half-life), in (0, 1]."""
    return 2.0 ** (-max(age_hours, 0.0) / half_life_hours)


def usage(uses: int) -> float:
    """Return min(1 + 0.1 log10 n, 1.5), and 1 for none, scaled to [0, 1]: 0 up to one use, 1 from 100,000 on."""
    return min(0.1 * log10(max(uses, 1)), _USAGE_RANGE) / _USAGE_RANGE


def accessed(accesses: int) -> float:
    """Return 1 + ln(1 + n), from 1 on: a record without access still counts."""
    return 1 + log(1 + accesses)


def access(accesses: int) -> float:
    """Return a / (1 + a) of a = 1 + ln(1 + n), in [0.5, 1)."""
    value = accessed(accesses)
    return value / (1 + value)


def outcome_value(record: Record) -> float:
    """Return the value of the outcome: failure 0, pending a quarter, success 1; none counts as pending.

    For a procedure without an outcome, the share of its applications that succeeded, one half where there were none.
    """
    if record.kind == "procedure" and record.outcome is None:
        return success_rate(record.counters)
    return (OUTCOME_VALUES[record.outcome or "pending"] - _LEAST_OUTCOME) / _OUTCOME_RANGE


def salience(record: Record) -> float:
    """Return a record's salience for any query: events one half, others by their importance, as learnt."""
    return EVENT_SALIENCE if record.kind == "event" else learned_importance(record) / MAX_LEARNED


_SIGNALS: Mapping[Signal, Callable[[Candidate, Strategy, float], float]] = {
    "relevance": lambda candidate, _strategy, _age: candidate.relevance,
    "cosine": lambda candidate, _strategy, _age: (1 + (candidate.cosine or 0.0)) / 2,
    "kind": lambda candidate, strategy, _age: strategy.priorities.get(candidate.record.kind, DEFAULT_PRIORITY),
    "recency": lambda _candidate, strategy, age: recency(age, strategy.half_life_hours),
    "decay": lambda _candidate, strategy, age: hyperbolic_decay(age, strategy.decay_hours),
    "importance": lambda candidate, _strategy, _age: learned_importance(candidate.record) / MAX_LEARNED,
    "salience": lambda candidate, _strategy, _age: salience(candidate.record),
    "outcome": lambda candidate, _strategy, _age: outcome_value(candidate.record),
    "usage": lambda candidate, _strategy, _age: usage(
        candidate.record.counters.used + candidate.record.counters.activated
    ),
    "access": lambda candidate, _strategy, _age: access(candidate.record.counters.accessed),
    "confidence": lambda candidate, _strategy, _age: (
        1.0 if candidate.record.confidence is None else candidate.record.confidence
    ),
    "lifecycle": lambda candidate, _strategy, _age: lifecycle_weight(candidate.record),
}
"""Each signal as a function of the candidate, the strategy and the age in hours."""


def signals(candidate: Candidate, strategy: Strategy, now: Instant) -> Mapping[Signal, float]:
    """Return every signal that the strategy weighs, in [0, 1]."""
    age_hours = (now - candidate.record.occurred_at) / 3600
    return {name: _SIGNALS[name](candidate, strategy, age_hours) for name in strategy.weights}


def scored(strategy: Strategy, candidate: Candidate, now: Instant, true_at: Instant | None = None) -> Scored:
    """Return the candidate's score under the strategy.

    What is not true at `true_at`, by default now, keeps PAST_SHARE of it.

    access: hyperbolic decay of the time since the last access. importance: the learned importance, in [0, 15].
    balanced: importance times hyperbolic decay of age, by which stores/filter_index.py chooses too. weighted: the
    weighted mean of the signals, in [0, 1]. product: of the signals, each to the power of its weight, where the number
    of accesses is the factor 1 + ln(1 + n).
    """
    parts = _parts(strategy, candidate, now)
    if not is_valid(candidate.record, now if true_at is None else true_at):
        parts = {**parts, "past": (PAST_SHARE - 1) * sum(parts.values())}
    return Scored(candidate=candidate, score=sum(parts.values()), parts=parts)


def _parts(strategy: Strategy, candidate: Candidate, now: Instant) -> Mapping[str, float]:
    record = candidate.record
    if strategy.formula == "weighted":
        total = sum(strategy.weights.values())
        found = signals(candidate, strategy, now)
        return {str(name): value * strategy.weights[name] / total for name, value in found.items()}
    if strategy.formula == "product":
        factors: dict[Signal, float] = {**signals(candidate, strategy, now)}
        counted: dict[Signal, float] = {"access": accessed(record.counters.accessed)} if "access" in factors else {}
        factors |= counted
        score = prod(value ** strategy.weights[name] for name, value in factors.items())
    elif strategy.formula == "access":
        score = hyperbolic_decay((now - record.accessed_at) / 3600, strategy.decay_hours)
    elif strategy.formula == "importance":
        score = learned_importance(record)
    else:
        age_hours = (now - record.occurred_at) / 3600
        score = learned_importance(record) * hyperbolic_decay(age_hours, strategy.decay_hours)
    return {strategy.formula: score}


def ordered(
    strategy: Strategy, candidates: Sequence[Candidate], now: Instant, true_at: Instant | None = None
) -> list[Scored]:
    """Return the candidates with their scores, best first. Ties: the newest first, by occurrence, then by creation.

    What says again what was corrected comes behind the correction, whatever its score, and the newest state of a thread
    before its best record. With `errors_first` the places of events and calls go to those that failed before those that
    did not.
    """
    ranked = [scored(strategy, candidate, now, true_at) for candidate in candidates]

    def key(each: Scored) -> tuple[float | str, ...]:
        record = each.candidate.record
        # The access score depends only on the time, which separates scores that rounding makes equal.
        first = record.accessed_at if strategy.formula == "access" else each.score
        newest = record.created_at if strategy.formula == "access" else record.occurred_at
        return (first, newest, record.created_at, record.id)

    ranked = _newest_first(_below_corrections(sorted(ranked, key=key, reverse=True)))
    return _errors_first(ranked) if strategy.errors_first else ranked


def _errors_first(ranked: list[Scored]) -> list[Scored]:
    happened = [each for each in ranked if each.candidate.record.kind in RAW]
    by_rank = iter(sorted(happened, key=lambda each: repair_rank(each.candidate.record)))
    return [next(by_rank) if each.candidate.record.kind in RAW else each for each in ranked]


def _below_corrections(ranked: list[Scored]) -> list[Scored]:
    """Put what says again what was corrected directly behind the correction that it precedes."""
    for each in [each for each in ranked if each.candidate.corrected_by]:
        rest = [other for other in ranked if other is not each]
        ids = [other.candidate.record.id for other in rest]
        if each.candidate.corrected_by in ids[ranked.index(each) :]:
            rest.insert(ids.index(each.candidate.corrected_by) + 1, each)
            ranked = rest
    return ranked


def _newest_first(ranked: list[Scored]) -> list[Scored]:
    """Put the newest state of each thread directly before its best record."""
    newest = {each.candidate.newest: each.candidate.record.id for each in ranked if each.candidate.newest}
    states = {newest[each.candidate.record.id]: each for each in ranked if each.candidate.record.id in newest}
    rest = [each for each in ranked if each.candidate.record.id not in newest]
    return [state for each in rest for state in (states.get(each.candidate.record.id), each) if state]


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
