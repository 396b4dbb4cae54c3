"""Builds the items that compete for a context's budget: of the stack, what is at hand, and every candidate."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mcp_memory.domain.context.budget import FOUND, LEARNT, OTHERS, REST, Item, own_share
from mcp_memory.domain.context.filling import ANSWERS, CHOSEN
from mcp_memory.domain.context.items import (
    CHANGED_SECTION,
    EXCHANGE,
    EXCHANGE_SECTION,
    OPEN_SHOWN,
    SINCE,
    Measure,
    approach_item,
    entity_item,
    news_items,
    note_item,
    nothing_item,
    notice_item,
    open_items,
    other_censors_item,
    record_item,
    relation_item,
    retired_item,
    stack_items,
    tasks_beyond,
    text_item,
)
from mcp_memory.domain.context.rendering import group_title
from mcp_memory.domain.context.scoring import Scored, scored
from mcp_memory.domain.model.records import LOG_KINDS, Instant, Record
from mcp_memory.domain.model.sections import Section, section_of
from mcp_memory.domain.model.strategy import SECTION_SHARES, Share, Strategy
from mcp_memory.domain.model.tasks import DEAD_ENDS
from mcp_memory.domain.text.passages import passages
from mcp_memory.domain.text.prompt_safety import author, is_own
from mcp_memory.domain.text.times import iso_minute, validity
from mcp_memory.ports.records import RecordStore
from mcp_memory.services.context.candidates import NOT_HERE, FoundCandidates
from mcp_memory.services.context.fit_to_budget import FLAT_SECTION
from mcp_memory.services.context.question import ContextQuestion
from mcp_memory.services.memory.emptiness import nothing_stored
from mcp_memory.services.review.supersede import earlier_values
from mcp_memory.services.tasks.task_owners import Elsewhere, told_change

CALLER_TEXT_SHARE = 4
"""The caller's own additional text takes at most a quarter of the budget."""
LEAST_NOTES = 20
"""A note on confidence has a place where at least so many would fit."""
AS_OF = "What was believed at {} UTC. It may have changed since."
BY_HAND = frozenset({"inherited", "pinned"})
"""The sources of what somebody chose, whatever is asked."""
LEAST_PASSAGE, LEAST_WEIGHED = 60, 8
"""Tokens of a passage with its frame, at least; and texts of which the passages are weighed in the smallest block."""
SHARE_OF_SOURCE: Mapping[str, Share] = {"recent": "recent", FOUND: "semantic"}


class ItemBuilder:
    """Builds the items of one context, in the order in which they get room."""

    def __init__(
        self,
        records: RecordStore,
        elsewhere: Elsewhere,
        question: ContextQuestion,
        gathered: FoundCandidates,
        ranked: Sequence[Scored],
        measure: Measure,
    ) -> None:
        self._records = records
        self._elsewhere = elsewhere
        self._question = question
        self._gathered = gathered
        self._ranked = ranked
        self._measure = measure
        self._earlier = self._earlier_values()

    def build(self, notice: str, short_notice: str, additional: str) -> tuple[list[Item], list[str]]:
        """Return the items, and the ids of the tasks beyond their limits.

        The notice is always in the block; `additional` is the caller's own text.
        """
        question, measure = self._question, self._measure
        items = self._stack(notice, short_notice)
        items += self._guidance()
        items += self._at_hand()
        if additional.strip():
            room = question.budget // CALLER_TEXT_SHARE
            items.append(text_item(additional.strip(), "Additional Context", measure, room))
        if self._gathered.note:
            note = note_item(self._gathered.note, measure)
            items += [note] if note.forms[0].tokens * LEAST_NOTES <= question.budget else []
        items += self._found()
        more_tasks = tasks_beyond(question.stack, items)
        items += news_items([told_change(each, question.caller) for each in question.stack.news], measure)
        if question.opens:
            open_tasks = self._open()
            items += open_tasks[:OPEN_SHOWN]
            more_tasks += [item.id for item in open_tasks[OPEN_SHOWN:]]
        if not items and (line := nothing_stored(self._records, question.caller)):
            items = [nothing_item(line, measure)]
        return items, more_tasks

    def _earlier_values(self) -> Mapping[str, str]:
        """Map records to what they replaced said otherwise; nothing as of a time, when that was still true."""
        gathered = self._gathered
        shown = (*gathered.always, *gathered.focus, *gathered.since.changed, *(each.candidate for each in self._ranked))
        replaced = () if self._question.then else [candidate.record for candidate in shown]
        return earlier_values(replaced, self._question.where, self._records)

    def _stack(self, notice: str, short_notice: str) -> list[Item]:
        """Return the items that come first: notices, the task stack, the approach."""
        question, measure = self._question, self._measure
        items = stack_items(question.stack, measure, lambda agent: author(agent, question.caller))
        if question.strategy.questions and (self._ranked or self._gathered.always or items):
            items.append(approach_item(question.strategy, measure))
        if notice:
            items.insert(0, notice_item(notice, short_notice, measure))
        if question.then:
            told = AS_OF.format(iso_minute(question.now).rstrip("Z"))
            items.insert(0, notice_item(told, told, measure))
        return items

    def _guidance(self) -> list[Item]:
        """Return identity and constraints, the caller's own first, in their sections and in the budget."""
        items: list[Item] = []
        always, caller = self._gathered.always, self._question.caller
        for place, candidate in enumerate(sorted(always, key=lambda each: not is_own(each.record, caller))):
            record = candidate.record
            each = Scored(candidate=candidate, score=record.importance, parts={})
            share = record.kind if is_own(record, caller) else OTHERS
            warns = record.kind == "censor" and record.details.get("action") != "block"
            position = warns * len(always) + place
            items.append(self._record(each, section_of(record).title, share, position))
        if elsewhere := sum(omission.reason == NOT_HERE for omission in self._gathered.omitted):
            items.append(other_censors_item(elsewhere, self._measure))
        return items

    def _at_hand(self) -> list[Item]:
        """Return the focus and, without a query, the last exchange and what changed since, in reading order."""
        items: list[Item] = []
        question, since = self._question, self._gathered.since
        for place, candidate in enumerate((*self._gathered.focus, *since.changed)):
            section, share = "Current Focus", "focus"
            if question.opens and candidate.source == EXCHANGE:
                section, share = EXCHANGE_SECTION, EXCHANGE
            elif candidate.source == SINCE:
                section, share = CHANGED_SECTION, SINCE
            items.append(self._record(scored(question.strategy, candidate, question.now), section, share, place))
        return [*items, retired_item(since.retired, self._measure)] if since.retired else items

    def _found(self) -> list[Item]:
        """Return the ranked candidates, then entities and relations that the query names."""
        question, ranked, measure = self._question, self._ranked, self._measure
        strategy = question.strategy
        items: list[Item] = []
        has_part = question.read is None and _crowds(ranked, strategy)
        dead_ends = self._dead_ends()
        groups = _groups(ranked) if strategy.layout == "by_kind" else frozenset[str]()
        for each in self._weighed() if question.is_asked else ranked:
            record = each.candidate.record
            section = section_of(record)
            title = section.title if strategy.layout == "by_kind" else FLAT_SECTION
            if question.is_asked:
                divided = CHOSEN if each.candidate.source in BY_HAND else ANSWERS
            else:
                divided = LEARNT if has_part and record.kind not in LOG_KINDS else _share(each, section, strategy)
            mark = dead_ends.get(record.task_id, "") if record.kind != "result" else ""
            # Dead ends first: they are what a new attempt must not repeat.
            is_done = record.kind == "result" and record.details.get("status") == "complete"
            share = divided if question.is_asked else own_share(section) or divided
            items.append(self._record(each, title, share, int(is_done), mark, groups, question.is_asked))
        items += [entity_item(entity, measure) for entity in self._gathered.entities]
        items += [relation_item(each, measure) for each in self._gathered.relations]
        return items

    def _weighed(self) -> Iterator[Scored]:
        """Yield the ranked candidates with the passages of long texts, as far as any budget could show them."""
        most = max(self._question.budget // LEAST_PASSAGE, LEAST_WEIGHED)
        for each in self._ranked:
            record = each.candidate.record
            if not record.is_shortened:
                yield each
            elif most:
                most -= 1
                weighed = replace(each.candidate, passages=passages(record.text, self._question.text))
                yield replace(each, candidate=weighed)

    def _record(
        self,
        each: Scored,
        section: str,
        share: str,
        position: int,
        mark: str = "",
        groups: frozenset[str] = frozenset(),
        is_answer: bool = False,
    ) -> Item:
        record = each.candidate.record
        return record_item(
            each,
            self._measure,
            section=section,
            share=share,
            author=author(record.author, self._question.caller),
            earlier=self._earlier.get(record.id, ""),
            groups=groups,
            mark=_validity(record, self._question.now) + mark,
            position=position,
            is_answer=is_answer,
        )

    def _dead_ends(self) -> Mapping[str | None, str]:
        """Map the candidates' tasks that failed or were given up to the mark of what belongs to them.

        A result says it itself.
        """
        if self._question.then:
            return {}
        ids = {each.candidate.record.task_id for each in self._ranked} - {None}
        tasks = self._records.tasks_near(self._question.caller.namespace, [*filter(None, ids)])
        return {task.id: f" (task {task.status})" for task in tasks if task.status in DEAD_ENDS}

    def _open(self) -> list[Item]:
        caller = self._question.caller
        tasks = self._records.tasks_near(caller.namespace, (), "open")
        elsewhere = self._elsewhere(caller, self._records.places(caller))
        return open_items(tasks, self._question.stack, self._measure, lambda agent: author(agent, caller), elsewhere)


def _validity(record: Record, now: Instant) -> str:
    """Return the mark that says from when until when a record is true, and whether it is; "" where nobody said."""
    told = validity(record.valid_from, record.valid_until, now)
    return f" ({told})" if told else ""


def _groups(ranked: Sequence[Scored]) -> frozenset[str]:
    """Return days of the log with several candidates of one kind, which share a title."""
    sizes = Counter(group_title(each.candidate.record) for each in ranked)
    return frozenset(title for title, size in sizes.items() if title and size > 1)


def _crowds(ranked: Sequence[Scored], strategy: Strategy) -> bool:
    """Return True where the log competes and no kind has its own share; a strategy for the latest keeps the log."""
    if strategy.shares.keys() & SECTION_SHARES or strategy.formula == "access":
        return False
    return any(each.candidate.record.kind in LOG_KINDS for each in ranked)


def _share(each: Scored, section: Section, strategy: Strategy) -> str:
    """Name the candidate's share of the budget: its section's or its source's, as the strategy divides it."""
    if strategy.shares.keys() & SECTION_SHARES:
        return section.share if section.share in SECTION_SHARES else REST
    return SHARE_OF_SOURCE.get(each.candidate.source, REST)
