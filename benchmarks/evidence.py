"""How much of a question's evidence reaches who asks: in an assembled block, beside what recall's ranking would hold.

Everything is counted: fence, headings, ids, dates, the JSON around results. Evidence is inside where its whole text
stands in the block, or in what recall answers; that its id is there is told apart.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import mean

from rich.table import Table

from benchmarks.groups import DEPTH, Group, Question, packed, spoken
from mcp_memory.domain.context.rendering import render
from mcp_memory.domain.model.records import Json, NewRecord
from mcp_memory.domain.text.prompt_safety import neutralise
from mcp_memory.ports.text import TokenCounter
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.retrieval.recall import ENVELOPE_TOKENS, RecallRequest
from mcp_memory.services.retrieval.result_rendering import fit, tokens_of

BUDGETS = (1000, 2000, 4000)
BOUNDLESS = 10**6
WHOLE, NAMED = "assembled, whole", "assembled, named"
JSON, LINES, BARE = "recall's JSON", "recall's ranking as lines", "as bare texts"
"""Bare texts say neither whose they are nor when: what no block can reach that may be cited from."""
_ITEM = re.compile(r"- \[(\w+)[ \]]")

Result = Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one way to answer a question within a budget held of its evidence, and used of the budget; in [0, 1]."""

    dataset: str
    way: str
    budget: int
    found: float
    used: float


def held_in(group: Group, counter: TokenCounter, strategy: str | None, most: int | None) -> Iterator[Held]:
    """Every way and budget for the first `most` questions. Blocks first: what recall shows counts as opened."""
    questions = group.questions[:most]
    for question in questions:
        yield from assembled(group, question, strategy)
    for question in questions:
        yield from recalled(group, question, counter)


def assembled(group: Group, question: Question, strategy: str | None = None) -> Iterator[Held]:
    """In blocks of each size."""
    group.clock.at(question.asked_at)
    wanted = {record_id: group.items[record_id] for record_id in question.gold}
    for budget in BUDGETS:
        request = ContextRequest(query=question.text, max_tokens=budget, strategy=strategy)
        context = group.app.assemble_context(request, group.app.caller())
        shown = shown_items(context.text)
        for way, ids in ((WHOLE, whole_in(shown, wanted)), (NAMED, shown.keys())):
            yield _held(question, way, budget, ids, context.report.token_count)


def recalled(group: Group, question: Question, counter: TokenCounter) -> Iterator[Held]:
    """In what recall's ranking fills each size with, best first, until the first that does not fit."""
    group.clock.at(question.asked_at)
    request = RecallRequest(query=question.text, limit=DEPTH, detail="full", max_tokens=BOUNDLESS)
    found = group.app.recall(request, group.app.caller())
    results = found.results
    fence = counter.count(render(())[0])
    lines = _sizes(results, lambda result: f"{_label(result)} {_spoken(result, group)}\n", counter)
    bare = _sizes(results, lambda result: f"{_spoken(result, group)}\n", counter)
    for budget in BUDGETS:
        shown = [each.data for each in fit(found.shown, budget - ENVELOPE_TOKENS, counter)]
        ids = {str(each["id"]) for each in shown if each["text"] == group.items[str(each["id"])].text.strip()}
        answer: Result = {"results": shown, "truncated": True, "degraded": []}
        yield _held(question, JSON, budget, ids, tokens_of(answer, counter))
        for way, tokens, around in ((LINES, lines, fence), (BARE, bare, 0)):
            inside = set(packed(tokens, tokens, budget - around))
            yield _held(question, way, budget, inside, around + sum(tokens[each] for each in inside))


def shown_items(block: str) -> Mapping[str, str]:
    """What stands behind the bracket of each item in a block, by its record's id."""
    items: dict[str, str] = {}
    current = ""
    for line in block.splitlines():
        if found := _ITEM.match(line):
            current = found[1]
            items[current] = line[found.end() :]
        elif current and line.startswith("  "):  # A further line of a text is indented.
            items[current] += f"\n{line}"
        else:
            current = ""
    return items


def whole_in(shown: Mapping[str, str], wanted: Mapping[str, NewRecord]) -> set[str]:
    """Ids of the wanted whose whole text stands in their own item; line breaks and indents do not count."""
    return {
        record_id
        for record_id, item in wanted.items()
        if _folded(neutralise(item.text)) in _folded(shown.get(record_id, ""))
    }


def evidence_table(held: Iterable[Held]) -> Table:
    """Means in percent: the evidence inside, and beside it how much of the budget was used."""
    groups: dict[tuple[str, str], dict[int, list[Held]]] = defaultdict(lambda: defaultdict(list))
    for each in held:
        groups[each.dataset, each.way][each.budget].append(each)
    table = Table("data", "n", "way", *(f"in {budget:,}" for budget in BUDGETS), *(f"used {b:,}" for b in BUDGETS))
    for (dataset, way), by_budget in groups.items():
        found = [_percent([each.found for each in by_budget[budget]]) for budget in BUDGETS]
        used = [_percent([each.used for each in by_budget[budget]]) for budget in BUDGETS]
        table.add_row(dataset, str(len(by_budget[BUDGETS[0]])), way, *found, *used)
    return table


def _held(question: Question, way: str, budget: int, ids: AbstractSet[str], tokens: int) -> Held:
    found = len(question.gold & ids) / len(question.gold)
    return Held(dataset=question.dataset, way=way, budget=budget, found=found, used=tokens / budget)


def _sizes(results: Sequence[Result], line: Callable[[Result], str], counter: TokenCounter) -> Mapping[str, int]:
    """The tokens of each result as a line of its own, in the order of the results."""
    return {str(result["id"]): counter.count(line(result)) for result in results}


def _label(result: Result) -> str:
    return f"- [{result['id']} {result['kind']} {str(result['occurred_at'])[:10]}]"


def _spoken(result: Result, group: Group) -> str:
    return spoken(group.items[str(result["id"])])


def _folded(text: str) -> str:
    return " ".join(text.split())


def _percent(values: Sequence[float]) -> str:
    return f"{100 * mean(values):.1f}"
