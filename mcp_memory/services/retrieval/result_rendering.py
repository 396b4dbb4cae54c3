"""Records in the form of results, as many as a token budget allows."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp_memory.domain.context.rendering import head, in_brackets, markers, said, value_line
from mcp_memory.domain.context.task_lines import task_head, task_said
from mcp_memory.domain.model.lifecycle import NOTED
from mcp_memory.domain.model.records import HOLDS, Detail, Instant, Json, Record, Status
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import Entry, SessionLog
from mcp_memory.domain.model.tasks import DEAD_ENDS, Task
from mcp_memory.domain.text.prompt_safety import author, by, neutralise, one_line
from mcp_memory.domain.text.times import iso, iso_day, validity
from mcp_memory.ports.text import TokenCounter

if TYPE_CHECKING:
    from mcp_memory.domain.text.passages import Excerpt

DETAILS_CHARACTERS = 400
"""Most characters of the details behind a whole text."""
_ESSENTIAL = tuple(
    "id kind text occurred_at version status superseded_by valid check changed_at agent score omitted".split()
)
"""Fields of a result that remain where the whole is larger than the budget."""

TELLING: frozenset[Status] = frozenset(
    {"superseded", "inactive", "retired", "core", "ineffective", "escalated", "archived", "summarized", NOTED}
)
"""Statuses that change a record's meaning for the reader; the others are the normal course of its life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One result: the JSON that is sent to programs, and the line around its text as the model reads it.

    The JSON is made here, and at no edge, since a token budget counts it as it is sent, and cuts it.

    Where there is an `ending`, the text of the data is as it was stored, else it is all that the line says, made safe.
    `words` are those of the record alone.
    """

    data: Mapping[str, Json]
    head: str
    ending: str | None = None
    words: str = ""

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def text(self) -> str:
        return str(self.data.get("text", ""))

    @property
    def line(self) -> str:
        return self.head + (self.text if self.ending is None else neutralise(self.text) + self.ending)


def result_of(
    record: Record,
    detail: Detail,
    caller: Caller,
    now: Instant,
    *,
    excerpt: "Excerpt | None" = None,
    earlier: str = "",
    task: str = "",
    unsettled: str = "",
) -> Result:
    """Return a record as a result, told as of `now`: by its excerpt where one is given.

    In full its text is word for word, and its details follow; else the text says all that the line does.
    """
    data = record_result(record, detail, caller, now)
    marks = (("earlier", earlier), ("task", task), ("unsettled", unsettled))
    data |= {name: value for name, value in marks if value}
    before = head(record, now=now, author=author(record.author, caller))
    task = both_marks(task, unsettled)
    behind = in_brackets(earlier) + markers(record, now) + in_brackets(task)
    if detail == "full":
        told = f" details: {value_line(data['details'], DETAILS_CHARACTERS)}" if "details" in data else ""
        return Result(data=data, head=before, ending=behind + told, words=record.text)
    words, place = (excerpt.text, excerpt.place) if excerpt and excerpt.text else (str(data["text"]), "")
    data["text"] = said(record, words, detail, now=now, place=place, earlier=earlier, task=task)
    return Result(data=data, head=before, words=words)


def both_marks(task: str, unsettled: str) -> str:
    """Return the marks of a record's task and of what it contradicts as one."""
    return "; ".join(filter(None, (task, unsettled)))


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


def open_task_result(task: Task, above: Sequence[Task], caller: Caller, now: Instant) -> Result:
    """Show open work that a question found, as its line does; `above` are the goals above it, from the root down.

    `agent` names another agent that is in it.
    """
    who = author(task.agent, caller)
    shown: dict[str, Json] = {
        "id": task.id,
        "kind": "task",
        "text": task_said(task, above),
        "occurred_at": iso(task.updated_at),
        "status": task.status,
    }
    optional: Sequence[tuple[str, Json]] = (("agent", who), ("parent_id", task.parent_id))
    data = shown | {name: value for name, value in optional if value}
    return Result(data=data, head=task_head(task, now=now, who=who), words=task.goal)


def task_result(task: Task, caller: Caller) -> Result:
    """Show a task, its goal and its result; a dead end is marked as one.

    `agent` names another agent that works on it.

    `- [t000017 task active 2026-11-20 by bob] Ship it (part of t000016) (done when: it runs)`
    """
    outcome = f"dead end ({task.status}): {task.result}" if task.status in DEAD_ENDS else task.result
    who = author(task.agent, caller)
    shown: dict[str, Json] = {
        "id": task.id,
        "kind": "task",
        "text": f"{task.goal} → {outcome}" if outcome else task.goal,
        "occurred_at": iso(task.updated_at),
        "status": task.status,
    }
    optional: Sequence[tuple[str, Json]] = (
        ("agent", who),
        ("parent_id", task.parent_id),
        ("success_criteria", task.success_criteria),
        ("artifacts", list(task.artifacts)),
    )
    ending = in_brackets(
        f"part of {task.parent_id}" if task.parent_id else "",
        f"done when: {one_line(task.success_criteria)}" if task.success_criteria else "",
        f"artifacts: {value_line(list(task.artifacts), DETAILS_CHARACTERS)}" if task.artifacts else "",
    )
    return Result(
        data=shown | {name: value for name, value in optional if value},
        head=f"- [{task.id} task {task.status} {iso_day(task.updated_at)}{by(who)}] ",
        ending=ending,
    )


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


def replacement_result(entry: Entry) -> Result:
    """Return a replacement in a session's log as a result.

    `- [s000017 summary 2026-11-20] … (replaces 12 entries, r000001 to r00000c)`
    """
    ending = in_brackets(f"replaces {len(entry.covers)} entries, {entry.covers[0]} to {entry.covers[-1]}")
    return Result(data=stand_in_result(entry), head=f"- [{entry.id} summary {iso_day(entry.at)}] ", ending=ending)


def tokens_of(value: object, counter: TokenCounter) -> int:
    """Count the tokens of a value as it is sent."""
    return counter.count(_sent(value))


def _sent(value: object) -> str:
    """Return a value as it is sent: JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fit(results: Iterable[Result], budget: int, counter: TokenCounter) -> tuple[Result, ...]:
    """Return as many results, in order, as the budget allows; a first one that is too long is cut, never left out.

    Counts nothing where their bytes fit already: no text has more tokens than bytes.
    """
    kept: list[Result] = []
    uncounted: list[str] = []
    tokens = size = 0
    for result in results:
        uncounted.append(_sent(result.data))
        size += len(uncounted[-1].encode("utf-8", "surrogatepass")) + 1
        if tokens + size > budget:
            tokens += sum(counter.count(each) + 1 for each in uncounted)
            uncounted, size = [], 0
        if tokens > budget:
            if not kept:
                kept.append(cut(result, result.text, budget, counter)[0])
            break
        kept.append(result)
    return tuple(kept)


def cut(result: Result, text: str, budget: int, counter: TokenCounter) -> tuple[Result, int]:
    """Return the result with as much of the text as the budget allows, and the number of its characters.

    Where less than half of the budget is left for the text, only essential fields remain; at worst the id alone.
    """
    bare = {name: value for name, value in result.data.items() if name != "text"}
    if tokens_of(bare, counter) > budget // 2:
        bare = {name: value for name, value in bare.items() if name in _ESSENTIAL}
    if tokens_of(bare, counter) > budget // 2:
        bare = {"id": result.data["id"]}
    room = budget - tokens_of({**bare, "text": ""}, counter)
    shown = counter.truncate(text, max(room, 0))
    # Escapes make the JSON longer than the text; shorten until it fits as it is sent.
    while shown and tokens_of({**bare, "text": shown}, counter) > budget:
        shown = shown[: int(len(shown) * 0.9)]
    return replace(result, data={**bare, "text": shown}), len(shown)
