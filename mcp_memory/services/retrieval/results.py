"""Records in the form of results, as many as a token budget allows."""

import json
from collections.abc import Iterable, Mapping, Sequence

from mcp_memory.domain.model.lifecycle import NOTED
from mcp_memory.domain.model.records import HOLDS, Detail, Instant, Json, Record, Status
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import Entry, SessionLog
from mcp_memory.domain.model.tasks import DEAD_ENDS, Task
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.domain.text.times import iso, iso_day, validity
from mcp_memory.ports.text import TokenCounter

_ESSENTIAL = tuple(
    "id kind text occurred_at version status superseded_by valid check changed_at agent score omitted".split()
)
"""Fields of a result that remain where the whole is larger than the budget."""

TELLING: frozenset[Status] = frozenset(
    {"superseded", "inactive", "retired", "core", "ineffective", "escalated", "archived", "summarized", NOTED}
)
"""Statuses that change a record's meaning for the reader; the others are the normal course of its life."""


def record_result(record: Record, detail: Detail, caller: Caller, at: Instant | None = None) -> dict[str, Json]:
    """Show a record to the caller. Empty fields are left out; `agent` names another author.

    `valid` says from when until when it is true; with `at`, also that it is not then.
    """
    texts: Mapping[Detail, str] = {"micro": record.micro, "summary": record.summary, "full": record.text}
    shown: dict[str, Json] = {"id": record.id, "kind": record.kind, "text": texts[detail]}
    shown |= {"occurred_at": iso(record.occurred_at), "version": record.version}
    optional: Sequence[tuple[str, Json]] = (
        ("agent", author(record.author, caller)),
        ("speaker", record.speaker),
        ("status", record.status if record.status in TELLING else None),
        ("superseded_by", record.superseded_by),
        ("valid", validity(record.valid_from, record.valid_until, at)),
        ("check", [ground.id for ground in record.check]),
        ("changed_at", iso_day(record.check[0].at) if record.check else None),
        ("outcome", record.outcome),
        ("confidence", record.confidence),
        (HOLDS, record.details.get(HOLDS)),
        ("tags", list(record.tags)),
        ("task_id", record.task_id),
        ("pinned", record.pinned),
        ("details", dict(record.details) if detail == "full" else None),
    )
    return shown | {name: value for name, value in optional if value}


def task_result(task: Task, caller: Caller) -> dict[str, Json]:
    """Show a task, its goal and its result; a dead end is marked as one.

    `agent` names another agent that works on it.
    """
    outcome = f"dead end ({task.status}): {task.result}" if task.status in DEAD_ENDS else task.result
    shown: dict[str, Json] = {
        "id": task.id,
        "kind": "task",
        "text": f"{task.goal} → {outcome}" if outcome else task.goal,
        "occurred_at": iso(task.updated_at),
        "status": task.status,
    }
    optional: Sequence[tuple[str, Json]] = (
        ("agent", author(task.agent, caller)),
        ("parent_id", task.parent_id),
        ("success_criteria", task.success_criteria),
        ("artifacts", list(task.artifacts)),
    )
    return shown | {name: value for name, value in optional if value}


def stand_in_result(entry: Entry, log: SessionLog | None = None) -> dict[str, Json]:
    """Show a replacement in a session's log, and how much it replaced; its id opens the originals.

    With the log, `covers` names the entries to remove for it: numbers of messages, calls and results in the client's
    order.
    """
    shown: dict[str, Json] = {
        "id": entry.id,
        "kind": "summary",
        "form": entry.form,
        "role": entry.role,
        "text": entry.text,
        "occurred_at": iso(entry.at),
        "level": entry.level,
        "first": entry.covers[0],
        "last": entry.covers[-1],
        "compacted_count": len(entry.covers),
        "original_token_count": entry.original_tokens,
        "summary_token_count": entry.tokens,
    }
    covers = log.covered_numbers(entry) if log else ""
    optional = (("covers", covers), ("tool", entry.tool), ("call_id", entry.call_id))
    return shown | {name: value for name, value in optional if value}


def tokens_of(value: object, counter: TokenCounter) -> int:
    """Count the tokens of a value as it is sent."""
    return counter.count(_sent(value))


def _sent(value: object) -> str:
    """Return a value as it is sent: JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fit(results: Iterable[Mapping[str, Json]], budget: int, counter: TokenCounter) -> tuple[Mapping[str, Json], ...]:
    """Return as many results, in order, as the budget allows; a first one that is too long is cut, never left out.

    Counts nothing where their bytes fit already: no text has more tokens than bytes.
    """
    kept: list[Mapping[str, Json]] = []
    uncounted: list[str] = []
    tokens = size = 0
    for result in results:
        uncounted.append(_sent(result))
        size += len(uncounted[-1].encode("utf-8", "surrogatepass")) + 1
        if tokens + size > budget:
            tokens += sum(counter.count(each) + 1 for each in uncounted)
            uncounted, size = [], 0
        if tokens > budget:
            if not kept:
                kept.append(cut(result, str(result.get("text", "")), budget, counter)[0])
            break
        kept.append(result)
    return tuple(kept)


def cut(result: Mapping[str, Json], text: str, budget: int, counter: TokenCounter) -> tuple[Mapping[str, Json], int]:
    """Return the result with as much of the text as the budget allows, and the number of its characters.

    Where less than half of the budget is left for the text, only essential fields remain; at worst the id alone.
    """
    bare = {name: value for name, value in result.items() if name != "text"}
    if tokens_of(bare, counter) > budget // 2:
        bare = {name: value for name, value in bare.items() if name in _ESSENTIAL}
    if tokens_of(bare, counter) > budget // 2:
        bare = {"id": result["id"]}
    room = budget - tokens_of({**bare, "text": ""}, counter)
    shown = counter.truncate(text, max(room, 0))
    # Escapes make the JSON longer than the text; shorten until it fits as it is sent.
    while shown and tokens_of({**bare, "text": shown}, counter) > budget:
        shown = shown[: int(len(shown) * 0.9)]
    return {**bare, "text": shown}, len(shown)
