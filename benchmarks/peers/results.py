"""The file of figures, benchmarks/data/peers.json: what every part of the comparison measured, each with its date.

A share is `{"hits", "of", "low", "high"}` with its 95 % interval (Wilson) in percent; a cost is `{"value", "low",
"high"}`: the median with the least and the greatest of the rounds. A server that did not run has `{"failure"}`.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.cost import Cost
from benchmarks.peers.questions import Tally
from benchmarks.peers.sharing import Written

FILE = Path(__file__).parents[1] / "data" / "peers.json"
Figures = dict[str, Any]


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share, in percent; `of` is at least 1."""
    share, spread = hits / of, 1 + z * z / of
    middle = share + z * z / (2 * of)
    width = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, 100 * (middle - width) / spread), min(100.0, 100 * (middle + width) / spread)


def share(hits: int, of: int) -> Figures:
    if not of:
        return {"hits": 0, "of": 0}
    low, high = wilson(hits, of)
    return {"hits": hits, "of": of, "low": round(low, 1), "high": round(high, 1)}


def of_cost(cost: Cost) -> Figures:
    made: Figures = {
        name: {
            "value": round(statistics.median(values), 3),
            "low": round(min(values), 3),
            "high": round(max(values), 3),
        }
        for name, values in cost.figures.items()
    }
    return {**made, "found": share(cost.found, cost.asked)}


def of_questions(tallies: Mapping[str, Tally]) -> Figures:
    """By data set: each share, and what was refused."""
    return {name: {**shares(tally), **refusals(tally)} for name, tally in tallies.items()}


def shares(tally: Tally) -> Figures:
    return {name: share(hits, tally.of) for name, hits in tally.passed.items()}


def refusals(tally: Tally) -> Figures:
    """Nothing where nothing was refused."""
    told = {"texts refused": tally.refused, "questions refused": tally.unanswered, "reason": tally.reason}
    return {name: value for name, value in told.items() if value}


def of_writers(rounds: Sequence[Written]) -> Figures:
    acknowledged, lost = (sum(len(one.acknowledged) for one in rounds), sum(len(one.lost) for one in rounds))
    reasons = [reason for one in rounds for reason in one.refused]
    refused = {"refused": len(reasons), "reason": next(iter(reasons), "")}
    return {"lost": share(lost, acknowledged), **{name: value for name, value in refused.items() if value}}


def of_lags(lags: Sequence[float | None]) -> Figures:
    """Seconds; `found` says how many were found at all."""
    seconds = [each for each in lags if each is not None]
    made: Figures = {"found": share(len(seconds), len(lags))}
    if seconds:
        made |= {"median": round(statistics.median(seconds), 4), "worst": round(max(seconds), 4)}
    return made


def read() -> Figures:
    return json.loads(FILE.read_text("utf-8")) if FILE.exists() else {"servers": {}, "parts": {}}


def write(figures: Figures) -> None:
    FILE.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
