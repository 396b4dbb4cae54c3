"""Turns records and the task stack into items that compete for the budget, each in its possible forms."""

import hashlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Protocol

from mcp_memory.domain.context.budget import REST, Form, Item, LazyForms
from mcp_memory.domain.context.filling import ANSWERS, UNKNOWN
from mcp_memory.domain.context.rendering import (
    entity_line,
    group_title,
    head,
    in_brackets,
    markers,
    neutralise,
    record_body,
    relation_line,
    shows_text_alone,
)
from mcp_memory.domain.context.scoring import Scored
from mcp_memory.domain.context.task_lines import task_head, task_said
from mcp_memory.domain.model.graph import EntityFacts, RelationFacts
from mcp_memory.domain.model.records import Detail, Instant, Record, ShownDetail
from mcp_memory.domain.model.strategy import Strategy
from mcp_memory.domain.model.tasks import ATTEMPT_ENDED, Stack, Task, beside, path_to
from mcp_memory.domain.model.token_factor import EXACT, ClientTokens, CountedTokens, ModelFactor
from mcp_memory.domain.text.passages import Excerpt, Passages
from mcp_memory.domain.text.prompt_safety import by

GOAL_TOKENS, RESULT_TOKENS, BRIEF_TOKENS = 60, 100, 20  # of one task
FINISHED_SHOWN, DEAD_ENDS_SHOWN, PLANNED_SHOWN = 8, 8, 5  # most tasks of each sort
PASSAGE_TOKENS = (400, 300, 250, 200, 150, 100, 75)
"""The sizes at which a long text's passages compete, in counted tokens."""
MAX_WHOLE_TOKENS = 8_000
"""A longer text is never shown whole."""
NOTHING = "nothing"
"""The id of the line that says that a memory holds nothing."""
LAST_POSITION = 1_000_000
"""Behind everything else in its section."""
EXCHANGE, SESSION_NOTES, SINCE = "exchange", "session notes", "since"
"""The sources of the last exchange, of what its session noted, and of what changed since; and their shares."""
EXCHANGE_SECTION, NOTES_SECTION, CHANGED_SECTION = "Last Exchange", "Session Notes", "Changed Since"
EXCHANGE_TOKENS = 800
"""A longer text of the last exchange is shown by its summary."""
OPEN_SHOWN = 5
"""Most open tasks beside the path, of the reader and of others."""
OTHER_WINDOW = "another window of yours"
RESUMES = " (push_task with task_id resumes it)"
OPEN_POSITION = 400
"""Behind the reader's path, its finished tasks and its plan."""
TITLE_PART = 2
"""Tokens that each item of a group pays for the shared title."""
ENDING = (".", "!", "?", ":", ")")
"""Endings that form one token with the line break behind them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A counter in the client's tokens: counted tokens times the factor of its model family, rounded up."""

    count_raw: Callable[[str], int]
    truncate_raw: Callable[[str, int], str]
    factor: ModelFactor = EXACT

    def count(self, text: str) -> ClientTokens:
        return self.scaled(self.count_raw(text))

    def scaled(self, raw_tokens: int) -> ClientTokens:
        return self.factor.client(CountedTokens(raw_tokens))

    def cut(self, text: str, raw_tokens: int) -> str:
        """Return the text, or its beginning and an ellipsis where it is longer than that many uncorrected tokens."""
        if len(text.encode("utf-8", "replace")) <= raw_tokens:  # A token is at least one byte.
            return text
        shorter = self.truncate_raw(text, raw_tokens)
        return text if shorter == text else shorter.rstrip() + "…"


def record_item(
    each: Scored,
    measure: Measure,
    *,
    section: str,
    share: str,
    author: str = "",
    earlier: str = "",
    groups: Container[str] = frozenset[str](),
    mark: str = "",
    position: int = 0,
    now: Instant | None = None,
    is_answer: bool = False,
) -> Item:
    """Turn a record into an item: its text where that is no longer than a summary, else the summary; then the micro.

    A long text whose passages were weighed is shown whole, or by the passages that bear on the query, not by a summary.

    In one of the `groups` it is shown with others under their title, and costs less. `author` is another agent,
    `earlier` what the record that it replaced said otherwise, `mark` the task that it was noted in: room for them is
    left last, but for the words that the task failed. Dates and states are told as of `now`.
    """
    record = each.candidate.record
    title = group_title(record)
    group = title if title in groups else ""

    def forms() -> Iterator[Form]:
        is_said = section == EXCHANGE_SECTION
        before = head(record, now=now, author=author, section=section, says_role=is_said)
        among = head(record, now=now, author=author, in_group=True) if group else ""
        # That its attempt failed changes what a record means; the task's goal only says where it was noted.
        failed = in_brackets(mark.partition(":")[0]) if mark.startswith(ATTEMPT_ENDED) else ""
        frame = _Frame(record, measure, before, markers(record, now), among)
        bodies = _bodies(each, measure, is_said=is_said)
        bodies = _not_shortened(bodies) if is_answer else bodies
        first = next(bodies)
        if mark:
            told = frame.form(*first, note=in_brackets(earlier), ending=in_brackets(mark))
            yield replace(told, is_last=True)
        if earlier:
            yield frame.form(*first, note=in_brackets(earlier), ending=failed)
        for body in chain([first], bodies):
            yield frame.form(*body, ending=failed)

    return Item(
        id=record.id,
        kind=record.kind,
        source=each.candidate.source,
        section=section,
        share=share,
        score=each.score,
        relevance=each.candidate.relevance,
        chance=each.candidate.chance,
        newest=each.candidate.newest,
        # Only passages take long to make.
        forms=LazyForms(forms()) if each.candidate.passages else tuple(forms()),
        least=_least(record, measure) if each.candidate.passages else 0,
        group=group,
        position=position,
        time=record.occurred_at,
        parts=each.parts,
        author=author,
        content=_content(head(record, author=author), markers(record), record.text, repr(record.details)),
    )


@dataclass
class _Frame:
    """The texts before and after the body of a record; in a group, `among` replaces `before`."""

    record: Record
    measure: Measure
    before: str
    after: str
    among: str

    def __post_init__(self) -> None:
        raw = self.measure.count_raw((self.among or self.before) + self.after)
        self._tokens = raw + TITLE_PART * bool(self.among)
        self._is_counted = shows_text_alone(self.record)

    def form(
        self, text: str, tokens: int, detail: ShownDetail, place: str = "", note: str = "", ending: str = ""
    ) -> Form:
        """Return the form that shows this text, of so many counted tokens (0: not known).

        A `note` follows the text, and the `ending` all else.
        """
        body, note = record_body(self.record, text, detail), in_brackets(place) + note
        count = self.measure.count_raw
        # Line breaks inside a text gain an indent each.
        raw = self._tokens + (tokens + 2 * body.count("\n") if self._is_counted and tokens else count(body))
        raw += not body.endswith(ENDING)
        raw += sum(count(part) for part in (note, ending) if part)
        said = f"{body}{note}{self.after}{ending}"
        short = f"{self.among}{said}" if self.among else ""
        return Form(detail=detail, text=f"{self.before}{said}", tokens=self.measure.scaled(raw), short=short)


_Body = tuple[str, int, ShownDetail, str]
"""A text that may represent a record, its counted tokens (0: not known), and of an excerpt also its place."""


def _bodies(each: Scored, measure: Measure, *, is_said: bool) -> Iterator[_Body]:
    """Yield the texts that may represent a record, longest first."""
    record, passages = each.candidate.record, each.candidate.passages
    is_whole = record.summary.removesuffix(f" → {record.outcome}") == record.text
    is_short = is_said and not is_whole and record.text_tokens <= EXCHANGE_TOKENS
    shows_all = is_short or (passages and record.text_tokens <= MAX_WHOLE_TOKENS)
    if shows_all:
        yield record.text, record.text_tokens, "full", ""
    if passages:
        found = None
        for found in _excerpts(record, passages(), measure):
            yield found.text, 0, "passage", found.place
        if found or shows_all:
            return
    else:
        yield record.summary, record.summary_tokens, "full" if is_whole else "summary", ""
        if record.micro_tokens >= record.summary_tokens:
            return
    yield record.micro, record.micro_tokens, "micro", ""


def _not_shortened(bodies: Iterator[_Body]) -> Iterator[_Body]:
    """Yield those that are no short form of a record; where all are, the longest."""
    first = next(bodies)
    own = (body for body in chain([first], bodies) if body[2] not in ("summary", "micro"))
    yield next(own, first)
    yield from own


def _least(record: Record, measure: Measure) -> int:
    """Return what the shortest form of a long text takes at least: its id, and its micro or the place of a passage."""
    place = measure.count_raw(f" (part 1 of 2, {record.text_tokens} tokens)")
    return measure.scaled(measure.count_raw(f"- [{record.id}") + min(place, record.micro_tokens))


def _excerpts(record: Record, passages: Passages, measure: Measure) -> Iterator[Excerpt]:
    """Yield the passages that bear on the query, at each size below the whole text's."""
    count = cache(measure.count_raw)  # Each size counts the same units.
    for tokens in PASSAGE_TOKENS:
        if tokens < record.text_tokens and (excerpt := passages.shown(tokens, count, record.text_tokens)).text:
            yield excerpt


Author = Callable[[str], str]
"""An agent's name as shown; "" for the reader."""


def stack_items(stack: Stack, measure: Measure, author: Author = lambda agent: "") -> list[Item]:
    """Turn the task stack into items, most needed first: the current task, the root goal, finished tasks, the plan.

    Positions put them in reading order: the path from the root, dead ends, results, the plan. `author` names another
    agent that works on a task.
    """
    if stack.current is None:
        return []
    *ancestors, current = stack.path
    path = {task.id: position for position, task in enumerate(stack.path)}

    def item(task: Task, label: str, share: str, *, position: int, required: bool = False) -> Item:
        head = f"- {label} [{task.id}{by(author(task.agent))}]: "
        return _task_item(task, head, share, measure, author(task.agent), position=position, required=required)

    items = [item(current, "now", "root", position=path[current.id], required=True)]
    items += [item(task, "goal", "root", position=path[task.id]) for task in ancestors[:1]]
    items += _finished_items(stack, item)
    items += [item(task, "within", "ancestors", position=path[task.id]) for task in reversed(ancestors[1:])]
    items += [
        item(task, "blocked" if task.status == "blocked" else "next", "focus", position=300 + place)
        for place, task in enumerate(stack.planned[:PLANNED_SHOWN])
    ]
    return items


def open_items(
    tasks: Sequence[Task],
    stack: Stack,
    measure: Measure,
    author: Author,
    elsewhere: Container[str] = (),
    *,
    now: Instant,
) -> list[Item]:
    """Turn the open tasks beside the stack into items, the latest first: who is in them, what for, how to go on.

    `elsewhere` are those in which other windows of the reader's agent stand; `tasks` hold all above an open one.

    `- [t000003 open, ann since 10:12] Write the tests (part of t000001: Ship the importer)`
    """

    def item(task: Task, place: int) -> Item:
        who = author(task.agent)
        is_left = task.status == "active" and not who and task.id not in elsewhere
        named = who or (OTHER_WINDOW if task.id in elsewhere else "")
        brief = measure.cut(task.goal, BRIEF_TOKENS)
        before, above = task_head(task, now=now, who=named), path_to(task.parent_id, tasks)
        full = before + task_said(task, above, goal=measure.cut(task.goal, GOAL_TOKENS)) + RESUMES * is_left
        short = before + task_said(task, above[:1], goal=brief, is_brief=True)
        return Item(
            id=task.id, kind="task", source="stack", section="Task", share="open", score=1.0,
            forms=_forms(measure, full, short if short != full else ""), position=OPEN_POSITION + place, author=who,
        )  # fmt: skip

    return [item(task, place) for place, task in enumerate(beside(tasks, stack))]


def found_task_item(
    task: Task,
    above: Sequence[Task],
    measure: Measure,
    *,
    now: Instant,
    who: str,
    evidence: tuple[float, float],
    position: int,
) -> Item:
    """Make an item of open work that a question found; `evidence` is its relevance and its chance, both in [0, 1]."""
    head = task_head(task, now=now, who=who)
    brief = measure.cut(task.goal, BRIEF_TOKENS)
    line, short = head + task_said(task, above), head + task_said(task, goal=brief, is_brief=True)
    relevance, chance = evidence
    return Item(
        id=task.id, kind="task", source="found", section="Task", share=ANSWERS, score=relevance,
        forms=_forms(measure, line, short if short != line else ""), relevance=relevance, chance=chance,
        position=position, author=who, content=_content(line),
    )  # fmt: skip


def _content(*parts: str) -> int:
    """Return a number of 63 bits that changes with the parts, the same in any process, and never 0."""
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1 | 1


def news_items(said: Sequence[str], measure: Measure) -> list[Item]:
    """Make items of what others did to the reader's tasks, the latest first."""
    items = [
        _line_item(f"news:{number}", "note", "Task", f"- {line}", measure, "open", 1.0)
        for number, line in enumerate(reversed(said))
    ]
    return [replace(item, position=350 + place) for place, item in enumerate(items[:OPEN_SHOWN])]


def retired_item(record_ids: Sequence[str], measure: Measure) -> Item:
    """Make an item of the ids of records that were retired since the last exchange."""
    item = _line_item("retired", "note", CHANGED_SECTION, f"- Retired: {', '.join(record_ids)}.", measure, SINCE, 0.0)
    return replace(item, position=LAST_POSITION)


def outcome_item(record_id: str, kind: str, day: str, text: str, measure: Measure, *, position: int) -> Item:
    """Make an item of the result of a call: `- [r000017 11-03] make shard-4 → failed`."""
    line = f"- [{record_id} {day}] {text}"
    item = _line_item(record_id, kind, NOTES_SECTION, line, measure, SESSION_NOTES, 0.0)
    return replace(item, position=position)


class _MakeItem(Protocol):
    def __call__(self, task: Task, label: str, share: str, *, position: int) -> Item: ...


def _finished_items(stack: Stack, item: _MakeItem) -> list[Item]:
    """Make items of the finished tasks beside the path, in order.

    The last dead end first, the last result, then the rest.
    """
    dead, done = stack.dead_ends[-DEAD_ENDS_SHOWN:], stack.done[-FINISHED_SHOWN:]
    failed = [
        item(task, f"dead end ({task.status})", "finished", position=100 + place)
        for place, task in reversed(list(enumerate(dead)))
    ]
    complete = [item(task, "done", "finished", position=200 + place) for place, task in reversed(list(enumerate(done)))]
    return [*failed[:1], *complete[:1], *failed[1:], *complete[1:]]


def tasks_beyond(stack: Stack, items: Sequence[Item]) -> list[str]:
    """Return the ids of finished and planned tasks around the current one that exceed the items' limits."""
    shown = {item.id for item in items}
    return [task.id for task in (*stack.done, *stack.dead_ends, *stack.planned) if task.id not in shown]


def entity_item(entity: EntityFacts, measure: Measure) -> Item:
    """Make an item of an entity's properties, in one line.

    Named entities count in full, others by their salience.
    """
    score = 1.0 if entity.named else entity.salience
    return _line_item(
        f"entity:{entity.key}", "entity", "Known Entities", entity_line(entity), measure, "entities", score
    )


def relation_item(known: RelationFacts, measure: Measure) -> Item:
    """Make a relation an item in one line, scored by its weight and distance."""
    line = relation_line(known.relation)
    return _line_item(f"relation:{line[2:]}", "relation", "Relationships", line, measure, "relations", known.score)


def note_item(note: str, measure: Measure) -> Item:
    """Make an item of the calibration of confidence; it uses the episodes' share."""
    return _line_item("note", "note", "Note", f"- {note}", measure, "episodes", 0.0)


def other_censors_item(number: int, measure: Measure) -> Item:
    """Make an item of the number of constraints that bear on something else."""
    line = f'- {number} more for other work: `recall` with kinds=["censor"].'
    item = _line_item("censors", "note", "Active Constraints", line, measure, "censor", 0.0)
    return replace(item, position=LAST_POSITION)


def unknown_item(sentence: str, measure: Measure) -> Item:
    """Make an item of the sentence that says what is not known here."""
    return _line_item(UNKNOWN, "note", "Note", f"- {sentence}", measure, UNKNOWN, 0.0)


def tie_item(line: str, measure: Measure) -> Item:
    """Make an item of how two things that the question names are tied."""
    return _line_item("tie", "note", "Note", f"- Tied: {line}", measure, UNKNOWN, 0.0)


def nothing_item(line: str, measure: Measure) -> Item:
    """Make an item of the line that says that a memory holds nothing; without the rest of it where space is short."""
    forms = _forms(measure, f"- {line}", f"- {line.partition('.')[0]}.")
    return Item(id=NOTHING, kind="note", source="note", section="Note", share=REST, score=0.0, forms=forms)


def notice_item(notice: str, short: str, measure: Measure) -> Item:
    """Make an item of a notice about this memory as a whole.

    Never left out, and `short` where space is.
    """
    forms = _forms(measure, f"- {notice}", f"- {short}")
    return Item(
        id="notice", kind="note", source="note", section="Note", share=REST, score=0.0, forms=forms, required=True
    )


def _line_item(item_id: str, kind: str, section: str, line: str, measure: Measure, share: str, score: float) -> Item:
    forms = _forms(measure, line)
    return Item(id=item_id, kind=kind, source=kind, section=section, share=share, score=score, forms=forms)


def _forms(measure: Measure, full: str, micro: str = "") -> tuple[Form, ...]:
    """Return the forms of an item that is shown whole or, where there is a shorter text, as that."""
    texts: tuple[tuple[Detail, str], ...] = (("full", full), ("micro", micro))
    return tuple(Form(detail=name, text=text, tokens=measure.count(text) + 1) for name, text in texts if text)


def approach_item(strategy: Strategy, measure: Measure) -> Item:
    """Make an item of the approach: the strategy's description and its questions.

    The description alone where space is short.
    """
    brief = f"- {neutralise(strategy.description)}"
    full = "\n".join([brief, *(f"  - {neutralise(question)}" for question in strategy.questions)])
    return Item(
        id=f"strategy:{strategy.name}", kind="strategy", source="strategy", section="Current Approach",
        share="approach", score=1.0, forms=_forms(measure, full, brief),
    )  # fmt: skip


def text_item(text: str, section: str, measure: Measure, budget: int, share: str = REST) -> Item:
    """Make an item of the caller's text, cut to the budget where it is longer, and to a quarter and half of it."""
    room = max(measure.factor.counted(ClientTokens(budget)), 1)
    parts = (1, 4) if share == REST else (1, 2, 4)
    forms = [measure.cut(text, room // part) for part in parts]
    # No line of ours precedes it, so its first line is neutralised like the others.
    safe = [neutralise(f"\n{form}") for form in forms]
    shown = [Form(detail="full", text=form, tokens=measure.count(form) + 1) for form in safe]
    return Item(id=section, kind="text", source="caller", section=section, share=share, score=1.0, forms=tuple(shown))


def _task_item(
    task: Task, head: str, share: str, measure: Measure, author: str, *, position: int, required: bool = False
) -> Item:
    full = head + _task_text(task, measure, GOAL_TOKENS, RESULT_TOKENS)
    says_why = task.is_finished or (task.status == "blocked" and not required)
    brief = head + _task_text(task, measure, BRIEF_TOKENS, BRIEF_TOKENS if says_why else 0)
    return Item(
        id=task.id, kind="task", source="stack", section="Task", share=share, score=1.0,
        forms=_forms(measure, full, brief if brief != full else ""),
        position=position, required=required, author=author,
    )  # fmt: skip


def _task_text(task: Task, measure: Measure, goal_tokens: int, rest_tokens: int) -> str:
    parts = [measure.cut(task.goal, goal_tokens)]
    if task.result and (task.is_finished or task.status == "blocked"):
        parts.append(f" → {measure.cut(task.result, rest_tokens)}" if rest_tokens else "")
    if task.success_criteria and not task.is_finished and rest_tokens:
        parts.append(f" (done when: {measure.cut(task.success_criteria, rest_tokens)})")
    if task.artifacts and rest_tokens == RESULT_TOKENS:
        parts.append(f" [artifacts: {', '.join(task.artifacts[:5])}]")
    return neutralise("".join(parts))
