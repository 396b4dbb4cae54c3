"""Turns records and the task stack into items that compete for the budget, each in the forms it can be shown in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from mcp_memory.domain.budget import Form, Item
from mcp_memory.domain.rendering import neutralise, record_frame
from mcp_memory.domain.strategies import Candidate
from mcp_memory.domain.tasks import DEAD_ENDS, Stack, Task

GOAL_TOKENS, RESULT_TOKENS, BRIEF_TOKENS = 60, 100, 20
FINISHED_SHOWN, PLANNED_SHOWN = 8, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A counter in the client's tokens: counted tokens times the factor of its model family, rounded up."""

    count_raw: Callable[[str], int]
    truncate_raw: Callable[[str, int], str]
    factor: float = 1.0

    def count(self, text: str) -> int:
        return self.scaled(self.count_raw(text))

    def scaled(self, raw_tokens: int) -> int:
        return ceil(raw_tokens * self.factor)

    def cut(self, text: str, raw_tokens: int) -> str:
        """The text, or its beginning and an ellipsis where it is longer than that many uncorrected tokens."""
        if len(text.encode("utf-8", "replace")) <= raw_tokens:  # A token is at least one byte.
            return text
        shorter = self.truncate_raw(text, raw_tokens)
        return text if shorter == text else shorter.rstrip() + "…"


def record_item(candidate: Candidate, score: float, measure: Measure, *, section: str, share: str) -> Item:
    """A record: its text where that is no longer than a summary, else the summary; then the micro."""
    record = candidate.record
    before, after = record_frame(record)
    frame_tokens = measure.count_raw(before + after) + 1
    whole = record.summary == record.text

    def form(text: str, tokens: int, *, micro: bool = False) -> Form:
        detail = "micro" if micro else "full" if whole else "summary"
        line = f"{before}{neutralise(text)}{after}"
        # Line breaks inside a text gain an indent each.
        raw = frame_tokens + tokens + 2 * line.count("\n")
        return Form(detail=detail, text=line, tokens=measure.scaled(raw))

    forms = [form(record.summary, record.summary_tokens)]
    if record.micro_tokens < record.summary_tokens:
        forms.append(form(record.micro, record.micro_tokens, micro=True))
    return Item(
        id=record.id,
        kind=record.kind,
        source=candidate.source,
        section=section,
        share=share,
        score=score,
        forms=tuple(forms),
    )


def stack_items(stack: Stack, measure: Measure) -> list[Item]:
    """The task stack, most needed first: where the caller stands, the root goal, dead ends, what is done, what is next.

    Positions put them in reading order: the path from the root, dead ends, results, the plan.
    """
    if stack.current is None:
        return []
    *ancestors, current = stack.path
    finished = [task for task in (*stack.siblings, *stack.children) if task.is_finished][-FINISHED_SHOWN:]
    dead = [task for task in finished if task.status in DEAD_ENDS]
    done = [task for task in finished if task.status not in DEAD_ENDS]
    path = {task.id: position for position, task in enumerate(stack.path)}
    items = [_task_item(current, "now", measure, position=path[current.id], required=True)]
    items += [_task_item(task, "goal", measure, position=path[task.id]) for task in ancestors[:1]]
    items += [_task_item(task, f"dead end ({task.status})", measure, position=100) for task in reversed(dead)]
    items += [_task_item(task, "done", measure, position=200) for task in reversed(done)]
    items += [_task_item(task, "within", measure, position=path[task.id]) for task in reversed(ancestors[1:])]
    items += [_task_item(task, task.status, measure, position=300) for task in stack.planned[:PLANNED_SHOWN]]
    return items


def tasks_beyond(stack: Stack, items: Sequence[Item]) -> list[str]:
    """Ids of finished and planned tasks around the current one that the items leave out, for they are too many."""
    shown = {item.id for item in items}
    around = [task for task in (*stack.siblings, *stack.children) if task.is_finished]
    return [task.id for task in (*around, *stack.planned) if task.id not in shown]


def text_item(text: str, section: str, measure: Measure, budget: int) -> Item:
    """Text from the caller, cut to the budget where it is longer."""
    room = max(int(budget / measure.factor), 1)
    forms = [measure.cut(text, room), measure.cut(text, room // 4)]
    # Nothing of ours stands before it, so its first line is neutralised like the others.
    safe = [neutralise(f"\n{form}") for form in forms]
    shown = [Form(detail="full", text=form, tokens=measure.count(form) + 1) for form in safe]
    return Item(id=section, kind="text", source="caller", section=section, share="rest", score=1.0, forms=tuple(shown))


def _task_item(task: Task, label: str, measure: Measure, *, position: int, required: bool = False) -> Item:
    full = _task_line(task, label, measure, GOAL_TOKENS, RESULT_TOKENS)
    brief = _task_line(task, label, measure, BRIEF_TOKENS, BRIEF_TOKENS if not required else 0)
    forms = [Form(detail="full", text=full, tokens=measure.count(full) + 1)]
    if brief != full:
        forms.append(Form(detail="micro", text=brief, tokens=measure.count(brief) + 1))
    return Item(
        id=task.id, kind="task", source="stack", section="Task", share="task", score=1.0, forms=tuple(forms),
        position=position, required=required,
    )  # fmt: skip


def _task_line(task: Task, label: str, measure: Measure, goal_tokens: int, rest_tokens: int) -> str:
    parts = [f"- {label} [{task.id}]: {measure.cut(task.goal, goal_tokens)}"]
    if task.result and (task.is_finished or task.status == "blocked"):
        parts.append(f" → {measure.cut(task.result, rest_tokens)}" if rest_tokens else "")
    if task.success_criteria and not task.is_finished and rest_tokens:
        parts.append(f" (done when: {measure.cut(task.success_criteria, rest_tokens)})")
    if task.artifacts and rest_tokens == RESULT_TOKENS:
        parts.append(f" [artifacts: {', '.join(task.artifacts[:5])}]")
    return neutralise("".join(parts))
