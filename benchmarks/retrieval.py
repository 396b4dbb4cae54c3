"""How well recall ranks: public long-term-memory data, beside recall's own legs and their fixed mixtures.

    python -m benchmarks.retrieval DATA_DIR [--categories] [--cross-validate] [--calibration] [--misses 10]
    python -m benchmarks.retrieval DATA_DIR --foreign

`benchmarks.groups` says what DATA_DIR holds. Prints tables in percent: recall at 1, 5, 10 and 20, nDCG at 10, the mean
reciprocal rank, and the share of the evidence inside a context of 500 to 4,000 word pieces packed from the ranking
until the first text that does not fit (bare texts with their speaker).

With --foreign it prints what the gate lets through instead: of the evidence among the first ten the share that it
withholds, and the share of foreign questions, asked of another memory than theirs, that get nothing.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import log2
from pathlib import Path
from statistics import mean

from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from benchmarks.groups import DEPTH, Group, lines, packed, spoken, stored_groups
from mcp_memory.domain.retrieval.fusion import WEIGHTS, Fused, SourceTraits, fuse
from mcp_memory.domain.retrieval.gate import relevances
from mcp_memory.domain.retrieval.log_lines import behind_answers, once
from mcp_memory.encoders.embed_minilm import MODEL_FOLDER
from mcp_memory.services.retrieval.search import Evidence
from mcp_memory.services.tasks.branch_visibility import visible_to

CUTS = (1, 5, 10, 20)
BUDGETS = (500, 1000, 2000, 4000)
FOREIGN = 150
"""Foreign questions for each memory."""
BANDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 1.0)
"""The bands of scores that calibration compares."""
GRID = {
    "share_power": (0.4, 0.6, 0.8, 1.0, 1.25),
    "neighbours": (0.0, 0.15, 0.25, 0.35),
    "graph": (0.0, 0.25, 0.5, 1.0),
}
"""The constants that cross-validation may choose from: fields of `Weights`, and the graph's own weight."""

Choice = tuple[float, ...]
"""A value for each name of GRID."""
Ranked = list[str]
Ranker = Callable[["Asked"], Ranked]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question with what recall gathered for it, and its `hits`. `tokens` counts each memory's word pieces."""

    dataset: str
    category: str
    text: str
    gold: frozenset[str]
    evidence: Evidence
    hits: Sequence[Fused]
    texts: Mapping[str, str]
    tokens: Mapping[str, int]


def main() -> None:
    """Store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path, help="folder with memories.jsonl and queries.jsonl")
    parser.add_argument("--categories", action="store_true", help="one line per category as well")
    parser.add_argument("--cross-validate", action="store_true", help="tune on all data sets but one, test on that one")
    parser.add_argument("--calibration", action="store_true", help="which share of results with a score is relevant")
    parser.add_argument("--misses", type=int, default=0, metavar="N", help="print N questions a data set that fail")
    parser.add_argument("--foreign", action="store_true", help="what the gate withholds, and from whom")
    arguments = parser.parse_args()
    if arguments.foreign:
        Console(width=150).print(gated(arguments.data))
        return
    asked = ask_all(arguments.data)
    console = Console(width=150)
    rankers: dict[str, Ranker] = {"recall": ranked, "keyword leg": leg("keyword"), "vector leg": leg("vector")}
    rankers |= {f"{share:.0%} keyword, rest vector": mixture(share) for share in (0.3, 0.5, 0.7)}
    console.print(table_of(asked, rankers, lambda each: each.dataset))
    if arguments.categories:
        shown = {name: rankers[name] for name in ("recall", "keyword leg", "vector leg")}
        console.print(table_of(asked, shown, lambda each: f"{each.dataset} {each.category}"))
    if arguments.cross_validate:
        console.print(cross_validated(asked))
    if arguments.calibration:
        console.print(calibration(asked))
    for each in misses(asked, arguments.misses):
        console.print(each, soft_wrap=True, markup=False)


def ask_all(data: Path) -> list[Asked]:
    """Every question that has an answer, with the evidence recall gathers for it."""
    pieces = Tokenizer.from_file(str(MODEL_FOLDER / "tokenizer.json"))
    pieces.no_truncation()
    return [asked for group in stored_groups(data) for asked in _ask_group(group, pieces)]


def _ask_group(group: Group, pieces: Tokenizer) -> Iterable[Asked]:
    texts = {record_id: spoken(item) for record_id, item in group.items.items()}
    tokens = {record_id: len(pieces.encode(text, add_special_tokens=False).ids) for record_id, text in texts.items()}
    for question in group.questions:
        group.clock.at(question.asked_at)
        searcher, where = group.app.searcher, visible_to(group.app.records, group.app.caller())
        yield Asked(
            dataset=question.dataset,
            category=question.category,
            text=question.text,
            gold=question.gold,
            evidence=searcher.gather(question.text, where, DEPTH),
            hits=searcher.rank(searcher.read(question.text), where, DEPTH).hits,
            texts=texts,
            tokens=tokens,
        )


def gated(data: Path) -> Table:
    """By data set: evidence among the first ten, the share of it withheld, and how many foreign questions get nothing.

    Foreign are FOREIGN questions of each other group, evenly chosen.
    """
    queries = [each for each in lines(data / "queries.jsonl") if each["category"] != "adversarial"]
    columns = (
        "data",
        "evidence in the first ten",
        "withheld",
        "foreign questions",
        "get nothing",
        "or a name's absence",
    )
    table, counts = Table(*columns), defaultdict[str, Counter[str]](Counter)
    for group in stored_groups(data):
        if not group.questions:
            continue
        dataset, here = group.questions[0].dataset, {question.text for question in group.questions}
        where, tally = visible_to(group.app.records, group.app.caller()), counts[dataset]
        for question in group.questions:
            group.clock.at(question.asked_at)
            ranking = group.app.searcher.rank(group.app.searcher.read(question.text), where)
            found = question.gold & {hit.id for hit in ranking.hits[:10]}
            tally.update(found=len(found), withheld=len(found - {hit.id for hit in ranking.bearing}))
        group.clock.at(None)
        others = [each["query"] for each in queries if each["query"] not in here]
        for text in others[:: max(len(others) // FOREIGN, 1)]:
            ranking = group.app.searcher.rank(group.app.searcher.read(text), where)
            tally.update(foreign=1, silent=not ranking.bearing, named=not ranking.bearing or bool(ranking.unknown))
    for dataset, tally in counts.items():
        shares = (tally["withheld"] / tally["found"], *(tally[sort] / tally["foreign"] for sort in ("silent", "named")))
        withheld, silent, named = (f"{share:.1%}" for share in shares)
        table.add_row(dataset, str(tally["found"]), withheld, str(tally["foreign"]), silent, named)
    return table


def ranked(asked: Asked, choice: Choice | None = None) -> Ranked:
    """As recall ranks, or with these constants."""
    return [hit.id for hit in (fused(asked, choice) if choice else asked.hits)]


def fused(asked: Asked, choice: Choice) -> Sequence[Fused]:
    """Recall's hits with these constants, best first, before it asks once more by the first one's names."""
    evidence, traits = asked.evidence, dict(asked.evidence.traits)
    chosen = dict(zip(GRID, choice, strict=True))
    traits["graph"] = SourceTraits(weight=chosen.pop("graph"))
    weights = replace(WEIGHTS, **chosen)
    hits = fuse(
        evidence.rankings,
        evidence.background,
        neighbours=evidence.neighbours,
        sessions=evidence.sessions,
        turns=evidence.turns,
        weights=weights,
        traits=traits,
    )
    hits = behind_answers(hits, evidence.echoes, evidence.repeating)
    return once(hits, evidence.said, evidence.kinds, evidence.importance)[0]


def leg(name: str) -> Ranker:
    """One source alone."""
    return lambda asked: _by_score(asked.evidence.rankings.get(name, {}))


def mixture(share: float) -> Ranker:
    """A fixed weighted sum of both legs, each scaled to [0, 1] over the candidates."""

    def rank(asked: Asked) -> Ranked:
        words, meaning = (_scaled(asked.evidence.rankings[name]) for name in ("keyword", "vector"))
        return _by_score(
            {i: share * words.get(i, 0.0) + (1 - share) * meaning.get(i, 0.0) for i in words.keys() | meaning.keys()}
        )

    return rank


def table_of(asked: Sequence[Asked], rankers: Mapping[str, Ranker], key: Callable[[Asked], str]) -> Table:
    """One line for each data set and ranker."""
    groups: dict[str, list[Asked]] = defaultdict(list)
    for each in asked:
        groups[key(each)].append(each)
    headings = [*(f"R@{cut}" for cut in CUTS), "nDCG@10", "MRR", *(f"in {budget}" for budget in BUDGETS)]
    table = Table("data", "n", "ranking", *headings)
    for group, questions in groups.items():
        for name, rank in rankers.items():
            rows = [measures(rank(each), each) for each in questions]
            figures = [f"{100 * mean(row[column] for row in rows):.1f}" for column in range(len(headings))]
            table.add_row(group, str(len(questions)), name, *figures)
    return table


def measures(ranking: Ranked, asked: Asked) -> list[float]:
    """Those of `places`, and the evidence within each budget; in [0, 1]."""
    gold = asked.gold
    inside = [len(gold & set(packed(ranking, asked.tokens, budget))) / len(gold) for budget in BUDGETS]
    return [*places(ranking, gold), *inside]


def places(ranking: Ranked, gold: Collection[str]) -> list[float]:
    """Recall at each cut, nDCG at 10 and the reciprocal rank of the first find; in [0, 1]."""
    found = [record_id in gold for record_id in ranking]
    gain = sum(1 / log2(place + 2) for place, hit in enumerate(found[:10]) if hit)
    ideal = sum(1 / log2(place + 2) for place in range(min(10, len(gold))))
    first = next((1 / place for place, hit in enumerate(found, 1) if hit), 0.0)
    return [*(sum(found[:cut]) / len(gold) for cut in CUTS), gain / ideal, first]


def cross_validated(asked: Sequence[Asked]) -> Table:
    """For each data set: constants tuned on the others (best mean R@10), and what they reach here."""
    choices = list(product(*GRID.values()))
    datasets = list(dict.fromkeys(each.dataset for each in asked))
    recall_of: dict[tuple[str, Choice], float] = {}
    for dataset, choice in product(datasets, choices):
        questions = [each for each in asked if each.dataset == dataset]
        recall_of[dataset, choice] = mean(_recall_at_10(ranked(each, choice), each) for each in questions)
    table = Table(
        "tested on", "tuned on the others", "R@10", "with our constants", "the better leg", "best possible here"
    )
    for dataset in datasets:
        others = [other for other in datasets if other != dataset]
        tuned = max(choices, key=lambda choice: mean(recall_of[other, choice] for other in others))
        questions = [each for each in asked if each.dataset == dataset]
        legs = [mean(_recall_at_10(leg(name)(each), each) for each in questions) for name in ("keyword", "vector")]
        chosen = ", ".join(f"{name} {value}" for name, value in zip(GRID, tuned, strict=True))
        ours = mean(_recall_at_10(ranked(each), each) for each in questions)
        best = max(recall_of[dataset, choice] for choice in choices)
        figures = (recall_of[dataset, tuned], ours, max(legs), best)
        table.add_row(dataset, chosen, *(f"{100 * figure:.1f}" for figure in figures))
    return table


def calibration(asked: Sequence[Asked]) -> Table:
    """By data set and band of the score that `recall` shows: results among the best ten, mean score, share relevant."""
    table = Table("data", *(f"{low:.0%} to {high:.0%}" for low, high in pairwise(BANDS)), "mean error")
    for dataset in dict.fromkeys(each.dataset for each in asked):
        pairs = [
            (said, hit.id in each.gold)
            for each in asked
            if each.dataset == dataset
            for hit, said in zip(each.hits[:10], relevances(each.hits[:10], each.hits), strict=True)
        ]
        cells, error = list[str](), 0.0
        for low, high in pairwise(BANDS):
            band = [pair for pair in pairs if low <= pair[0] < high]
            shown, right = (mean(values) for values in zip(*band, strict=True)) if band else (0.0, 0.0)
            cells.append(f"{len(band)}: {shown:.1%}, {right:.1%}" if band else "-")
            error += len(band) * abs(shown - right) / len(pairs)
        table.add_row(dataset, *cells, f"{error:.1%}")
    return table


def misses(asked: Sequence[Asked], count: int) -> Iterable[str]:
    """Questions none of whose evidence is among the first ten, with what stood there instead and why."""
    left: dict[str, int] = defaultdict(lambda: count)
    for each in asked:
        hits = each.hits
        if left[each.dataset] <= 0 or each.gold & {hit.id for hit in hits[:10]}:
            continue
        left[each.dataset] -= 1
        place = {hit.id: number for number, hit in enumerate(hits, 1)}
        lines = [f"\n{each.dataset} {each.category}: {each.text}"]
        wanted = [hit for hit in hits if hit.id in each.gold]
        for hit in (*wanted, *hits[:3]):
            parts = ", ".join(f"{name} {nats:.1f}" for name, nats in hit.parts.items())
            mark = "wanted" if hit.id in each.gold else "instead"
            lines.append(f"  {mark} {place[hit.id]}: [{parts}] {each.texts[hit.id][:150]!r}")
        yield "\n".join(lines)


def _recall_at_10(ranking: Ranked, asked: Asked) -> float:
    return len(asked.gold & set(ranking[:10])) / len(asked.gold)


def _by_score(scores: Mapping[str, float]) -> Ranked:
    return sorted(scores, key=lambda record_id: (scores[record_id], record_id), reverse=True)


def _scaled(scores: Mapping[str, float]) -> Mapping[str, float]:
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    return {record_id: (score - low) / ((high - low) or 1.0) for record_id, score in scores.items()}


if __name__ == "__main__":
    main()
