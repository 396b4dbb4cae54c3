"""Builds the items that compete for a context's budget: of the stack, what is at hand, and every candidate."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from mcp_memory.domain.context.budget import (
    CARRIED,
    CHOSEN,
    FOUND,
    KNOWN,
    LEARNT,
    MOST_CARRIED,
    OTHERS,
    REST,
    Item,
    own_share,
)
from mcp_memory.domain.context.filling import ANSWERS, NEAREST, UNKNOWN
from mcp_memory.domain.context.items import (
    CHANGED_SECTION,
    EXCHANGE,
    EXCHANGE_SECTION,
    NOTES_SECTION,
    OPEN_POSITION,
    OPEN_SHOWN,
    SESSION_NOTES,
    SINCE,
    Measure,
    approach_item,
    entity_item,
    found_task_item,
    news_items,
    note_item,
    nothing_item,
    notice_item,
    open_items,
    other_censors_item,
    outcome_item,
    record_item,
    relation_item,
    retired_item,
    stack_items,
    tasks_beyond,
    text_item,
    tie_item,
    unknown_item,
)
from mcp_memory.domain.context.rendering import group_title, short_day
from mcp_memory.domain.context.scoring import Scored, scored
from mcp_memory.domain.model.context_sections import Section, section_of
from mcp_memory.domain.model.records import LOG_KINDS, RAW, Kind, Record
from mcp_memory.domain.model.strategy import SECTION_SHARES, Share, Strategy
from mcp_memory.domain.retrieval.gate import nothing_names
from mcp_memory.domain.text.passages import passages
from mcp_memory.domain.text.prompt_safety import author, is_own, neutralise
from mcp_memory.domain.text.times import iso_minute
from mcp_memory.ports.records import RecordStore
from mcp_memory.services.context.candidates import BY_HAND, NOT_HERE, FoundCandidates
from mcp_memory.services.context.fit_to_budget import FLAT_SECTION
from mcp_memory.services.context.question import ContextQuestion
from mcp_memory.services.memory.emptiness import nothing_stored, nothing_stored_by
from mcp_memory.services.retrieval.result_rendering import both_marks
from mcp_memory.services.review.supersede import earlier_values
from mcp_memory.services.tasks.task_marks_on_records import task_marks
from mcp_memory.services.tasks.task_owners import Elsewhere, told_change

CALLER_TEXT_SHARE = 4
"""The caller's own additional text takes at most a quarter of the budget."""
LEAST_NOTES = 20
"""A note on confidence has a place where at least so many would fit."""
AS_OF = "What was believed at {}. It may have changed since."
WEIGHED = 16
"""Long texts of which the passages are weighed where nothing was asked; those below are mentioned at most."""
NOTHING_BEARS, NOTHING_ELSE_BEARS = "Nothing stored bears on this question.", "Nothing else bears on this question."
"""The second where guidance stands above, which may bear on it."""
NEAREST_MARK = "nearest known"
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
        # As of a time, what was replaced since was still true, and no task had ended yet.
        shown = () if question.then else self._shown()
        self._earlier = earlier_values(shown, question.where, records)
        tasks = task_marks(shown, question.stack, question.caller, records)
        marked = {**tasks, **gathered.unsettled}
        self._marks = {each: both_marks(tasks.get(each, ""), gathered.unsettled.get(each, "")) for each in marked}

    def build(
        self, notice: str, short_notice: str, additional: str, *, carries: bool = False
    ) -> tuple[list[Item], list[str]]:
        """Return the items, and the ids of the tasks beyond their limits.

        The notice is always in the block; `additional` is the caller's own text. With `carries` that is what a session
        held, which comes before all else.
        """
        question, measure = self._question, self._measure
        items = self._unknown() + self._stack(notice, short_notice)  # The first give way last.
        items += self._guidance()
        items += self._at_hand()
        if additional.strip():
            share = CARRIED if carries else REST
            room = int(question.budget * MOST_CARRIED) if carries else question.budget // CALLER_TEXT_SHARE
            items.append(text_item(additional.strip(), "Additional Context", measure, room, share))
        if self._gathered.note:
            note = note_item(self._gathered.note, measure)
            items += [note] if note.forms[0].tokens * LEAST_NOTES <= question.budget else []
        items = _with_work(items, self._found(), self._work())
        more_tasks = tasks_beyond(question.stack, items)
        items += news_items([told_change(each, question.caller) for each in question.stack.news], measure)
        if question.opens:
            items += self._session_notes()
            open_tasks = self._open()
            items += open_tasks[:OPEN_SHOWN]
            more_tasks += [item.id for item in open_tasks[OPEN_SHOWN:]]
        if all(item.id == UNKNOWN for item in items) and (line := nothing_stored(self._records, question.caller)):
            items = [nothing_item(line, measure)]
        return items, more_tasks

    def _shown(self) -> Sequence[Record]:
        gathered = self._gathered
        apart = (*gathered.always, *gathered.focus, *gathered.since.changed, *gathered.notes.stored)
        return [candidate.record for candidate in (*apart, *(each.candidate for each in self._ranked))]

    def _stack(self, notice: str, short_notice: str) -> list[Item]:
        """Return the items that come first: notices, the task stack, the approach."""
        question, measure = self._question, self._measure
        items = stack_items(question.stack, measure, lambda agent: author(agent, question.caller))
        if question.strategy.questions and (self._ranked or self._gathered.always or items):
            items.append(approach_item(question.strategy, measure))
        if notice:
            items.insert(0, notice_item(notice, short_notice, measure))
        if question.then:
            told = AS_OF.format(iso_minute(question.now).replace("Z", " UTC"))
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
            # Behind the first one: that there are more must be known where they have no room.
            items.insert(1, other_censors_item(elsewhere, self._measure))
        return items

    def _at_hand(self) -> list[Item]:
        """Return the focus and, without a query, the last exchange and what changed since, in reading order."""
        items: list[Item] = []
        question, since = self._question, self._gathered.since
        for place, candidate in enumerate((*self._gathered.focus, *since.changed)):
            section = "Current Focus"
            share = CHOSEN if candidate.source in BY_HAND else "focus"
            if question.opens and candidate.source == EXCHANGE:
                section, share = EXCHANGE_SECTION, EXCHANGE
            elif candidate.source == SINCE:
                section, share = CHANGED_SECTION, SINCE
            items.append(self._record(scored(question.strategy, candidate, question.now), section, share, place))
        return [*items, retired_item(since.retired, self._measure)] if since.retired else items

    def _found(self) -> list[Item]:
        """Return the ranked candidates, then entities and relations that the query names."""
        question, measure = self._question, self._measure
        by_kind = question.strategy.layout == "by_kind"
        ranked = [*self._weighed()] if question.read else self._ranked
        crowds = question.read is None and _crowds(ranked, question.strategy)
        groups = _groups(ranked, question.strategy) if by_kind else frozenset[str]()
        items: list[Item] = []
        for each in ranked:
            record = each.candidate.record
            section = section_of(record)
            # Dead ends first: they are what a new attempt must not repeat.
            is_done = record.kind == "result" and record.details.get("status") == "complete"
            title = section.title if by_kind else FLAT_SECTION
            items.append(self._record(each, title, self._share_of(each, section, crowds=crowds), int(is_done), groups))
        items += [entity_item(entity, measure) for entity in self._gathered.entities]
        items += [relation_item(each, measure) for each in self._gathered.relations]
        return items

    def _unknown(self) -> list[Item]:
        """Return how two things that the question names are tied, then what it names and no record does.

        Where nothing stored bears on it, that.
        """
        sentence = nothing_names(self._gathered.unknown)
        if self._question.is_asked and not (self._ranked or self._gathered.work):
            then = (
                nothing_stored_by(self._records, self._question.caller, self._question.now)
                if self._question.then
                else ""
            )
            sentence = sentence or then or (NOTHING_ELSE_BEARS if self._gathered.always else NOTHING_BEARS)
        tied = [tie_item(self._gathered.tie, self._measure)] if self._gathered.tie else []
        return [*tied, *([unknown_item(sentence, self._measure)] if sentence else [])]

    def _work(self) -> list[Item]:
        """Return open work that the question found, without that on the reader's path, which stands there anyway."""
        question, path = self._question, {task.id for task in self._question.stack.path}
        return [
            found_task_item(
                each.task,
                each.above,
                self._measure,
                now=question.now,
                who=author(each.task.agent, question.caller),
                evidence=(each.relevance, each.chance),
                position=OPEN_POSITION + place,
            )
            for place, each in enumerate(self._gathered.work)
            if each.task.id not in path
        ]

    def _share_of(self, each: Scored, section: Section, *, crowds: bool) -> str:
        """Name the candidate's share of the budget; `crowds` is True where the log would crowd out what was learnt."""
        source, strategy = each.candidate.source, self._question.strategy
        is_learnt = each.candidate.record.kind not in LOG_KINDS
        if source in BY_HAND:
            return CHOSEN
        if self._question.is_asked:
            return NEAREST if source == NEAREST else ANSWERS
        if is_learnt and self._question.opens:
            share = KNOWN
        elif is_learnt and crowds:
            share = LEARNT
        elif strategy.shares.keys() & SECTION_SHARES:
            share = section.share if section.share in SECTION_SHARES else REST
        else:
            share = SHARE_OF_SOURCE.get(source, REST)
        return own_share(section) or share

    def _weighed(self) -> Iterator[Scored]:
        """Yield the ranked candidates with the passages of long texts, weighed when they are looked at.

        Where nothing was asked, every form is looked at: then only those of the best are weighed.
        """
        most = len(self._ranked) if self._question.is_asked else WEIGHED
        for each in self._ranked:
            record = each.candidate.record
            if not record.is_shortened or not most:
                yield each
                continue
            most -= 1
            weighed = replace(each.candidate, passages=partial(passages, record.text, self._question.text))
            yield replace(each, candidate=weighed)

    def _record(
        self,
        each: Scored,
        section: str,
        share: str,
        position: int,
        groups: frozenset[str] = frozenset(),
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
            mark=NEAREST_MARK if share == NEAREST else self._marks.get(record.id, ""),
            position=position,
            is_answer=share in (ANSWERS, NEAREST, CHOSEN) and not self._question.shortens,
            now=self._question.now,
        )

    def _session_notes(self) -> list[Item]:
        """Return what the last exchange's session stored, then what its tools came to, the latest first."""
        question, notes, measure = self._question, self._gathered.notes, self._measure
        now = question.now
        items = [
            self._record(scored(question.strategy, each, now), NOTES_SECTION, SESSION_NOTES, place)
            for place, each in enumerate(notes.stored)
        ]
        return items + [
            outcome_item(
                each.source, each.kind, short_day(each.at, now), neutralise(each.text), measure, position=place
            )
            for place, each in enumerate(notes.outcomes, start=len(items))
        ]

    def _open(self) -> list[Item]:
        caller = self._question.caller
        tasks = self._records.tasks_near(caller.namespace, (), "open")
        elsewhere = self._elsewhere(caller, self._records.places(caller))
        items = open_items(
            tasks,
            self._question.stack,
            self._measure,
            lambda agent: author(agent, caller),
            elsewhere,
            now=self._question.now,
        )
        items.sort(key=lambda item: bool(item.author))  # The reader's own first.
        return [replace(item, position=OPEN_POSITION + place) for place, item in enumerate(items)]


def _with_work(before: Sequence[Item], found: Sequence[Item], work: Sequence[Item]) -> list[Item]:
    """Return all items, each task before the records that are less relevant, and none twice."""
    tasks = {item.id for item in work}
    merged: list[Item] = [item for item in before if item.id not in tasks]
    waiting = [*work]
    for item in found:
        while waiting and item.share == ANSWERS and waiting[0].relevance >= item.relevance:
            merged.append(waiting.pop(0))
        merged.append(item)
    return [*merged, *waiting]


def _groups(ranked: Sequence[Scored], strategy: Strategy) -> frozenset[str]:
    """Return days of the log with several candidates of one kind, which share a title, in the order of time.

    Where errors come first, events and calls keep their own order.
    """
    alone = RAW if strategy.errors_first else frozenset[Kind]()
    records = (each.candidate.record for each in ranked)
    sizes = Counter(group_title(record) for record in records if record.kind not in alone)
    return frozenset(title for title, size in sizes.items() if title and size > 1)


def _crowds(ranked: Sequence[Scored], strategy: Strategy) -> bool:
    """Return True where the log competes and no kind has its own share; a strategy for the latest keeps the log."""
    if strategy.shares.keys() & SECTION_SHARES or strategy.formula == "access":
        return False
    return any(each.candidate.record.kind in LOG_KINDS for each in ranked)
