"""Extraction: turns what a session taught into records of their own before its entries are replaced.

Only what may be trusted without being read counts: domain/sessions/learnt.py says what that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.lifecycle import NOTED, promoted
from mcp_memory.domain.model.records import DEFAULT_IMPORTANCE, Counters, Instant, Kind, Outcome, Record
from mcp_memory.domain.model.scopes import by_partition, scope_key
from mcp_memory.domain.model.session_log import Pause, entry_of, in_order
from mcp_memory.domain.model.tasks import DEAD_ENDS, branches_beside, path_to
from mcp_memory.domain.model.versions import CONFIRMED
from mcp_memory.domain.sessions.filled_slots import FilledSlot
from mcp_memory.domain.sessions.learnt import learnt_from, learnt_from_summary
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.micro_and_summary import MeasuredText, measured
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock, TokenCounter
from mcp_memory.ports.transaction import TaskReader, Transaction

NOTED_AT_ONCE = 100
"""Records of one transaction: other processes wait for the write lock meanwhile."""
_KINDS: Mapping[Section, Kind] = {"decisions": "decision", "completed": "episode"}
"""The kinds of what was decided or done; anything else is a fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntDraft:
    """One thing that a session taught, prepared outside the transaction. `source` is the record that it comes from."""

    source: Record
    learnt: FilledSlot
    text: MeasuredText


class Extractor:
    """Makes records of what sessions taught, with the source in `details.source`. Thread-safe.

    What was done becomes an episode, what was decided a decision, anything else a fact. A source that is not valid, or
    failed, or in a dead-end task, gives nothing. All is noted, not confirmed: only its session sees it, in no context,
    until something confirms it. A later reindex makes the vectors.
    """

    def __init__(
        self,
        records: RecordStore,
        counter: TokenCounter,
        clock: Clock,
        pause: Pause = bool,
        person_of: Callable[[str], str] = lambda agent: "",
    ) -> None:
        """`person_of` names an agent's person: one person's own corrections do not bind another."""
        self._records = records
        self._person_of = person_of
        self._counter = counter
        self._clock = clock
        self._pause = pause

    def note(self, drafts: Sequence[LearntDraft]) -> tuple[str, ...]:
        """Store drafts in batches, so that others can write meanwhile; return the ids of the records.

        Raises StoreUnavailable; the batches before stay.
        """
        noted: list[str | None] = []
        for partition, some in by_partition(drafts, lambda draft: draft.source.scope).items():
            for begin in range(0, len(some), NOTED_AT_ONCE):
                with self._records.write(partition=partition) as transaction:
                    now = self._clock()
                    noted += [self.store(draft, now, transaction) for draft in some[begin : begin + NOTED_AT_ONCE]]
        return tuple(filter(None, noted))

    def drafts(self, log: Sequence[Record]) -> Iterator[LearntDraft]:
        """Do the slow part for entries of one session's log: reading, short forms and counts."""
        return self._drafts(learnt_from(in_order(entry_of(record) for record in log).entries), log)

    def drafts_of_summary(self, summary: Record) -> Iterator[LearntDraft]:
        """Do the same for the summary that a client made of its session."""
        return self._drafts(learnt_from_summary(summary.text, summary.id), [summary])

    def _drafts(self, learnt: Iterable[FilledSlot], sources: Sequence[Record]) -> Iterator[LearntDraft]:
        records = {record.id: record for record in sources}
        count, truncate = self._counter.count, self._counter.truncate
        for each in learnt:
            self._pause()
            text = measured(each.text, count, truncate, kind=_kind(each), outcome=_ending(each))
            yield LearntDraft(source=records[each.source], learnt=each, text=text)

    def store(self, draft: LearntDraft, at: Instant, transaction: Transaction) -> str | None:
        """Store what was learnt for all readers of the source; return its record's id.

        Returns None where it stored nothing: the readers know it, it or a sentence of it was corrected for them, or
        the source was erased, retired, changed, moved or failed since it was read. What only a branch knew leaves that
        branch instead of being stored twice. What is noted is promoted where another session repeats it.
        Raises StoreUnavailable, with the remedy.
        """
        source = transaction.get(draft.source.id)
        read = draft.source
        if source is None or (source.text, source.scope) != (read.text, read.scope) or not _counts(source, transaction):
            return None
        told = draft.learnt.text
        if self._is_settled(told, source, transaction):
            return None
        noted = transaction.find_noted(source.scope, normal_hash(told))
        stored = noted or transaction.find_text(source.scope, content_hash(told))
        if stored:
            place = None if stored.branch_id in _hidden(source, transaction) else stored.branch_id
            repeated = replace(promoted(stored) if _repeats(source, stored) else stored, branch_id=place)
            if repeated == stored:
                return None
            transaction.update(replace(repeated, updated_at=at), reason=CONFIRMED)
            return stored.id
        record = _record(draft, source, transaction.next_id(RECORD), at)
        transaction.insert(record, None, found_entities(told, source.speaker), (), in_session=False)
        return record.id

    def _is_settled(self, told: str, source: Record, transaction: Transaction) -> bool:
        """Return True where the source's readers know it, or it was corrected or erased for them."""
        # "`pytest` failed: 1 failed → The clock is the host's." may hold a corrected sentence between others.
        sentences = sentences_of(told.replace(" → ", "\n").replace("; edited ", "\n"))
        digests = {normal_hash(each) for each in (told, *sentences)}
        persons = scope_key("user", source.namespace, source.agent, self._person_of(source.agent))
        readable = dict.fromkeys((source.scope, scope_key("shared", source.namespace, ""), persons))
        is_known = _is_known(normal_hash(told), source, transaction) or transaction.erased(readable).are_in(told)
        return is_known or any(transaction.find_corrected(scope, each) for scope in readable for each in digests)


def _kind(learnt: FilledSlot) -> Kind:
    return _KINDS.get(learnt.section, "fact")


def _ending(learnt: FilledSlot) -> Outcome | None:
    return "success" if learnt.section == "completed" else None


def _counts(source: Record, reader: TaskReader) -> bool:
    """Return True where the source is live, and neither it nor its task failed."""
    if not source.is_live or source.outcome == "failure" or source.task_id is None:
        return source.is_live and source.outcome != "failure"
    return not any(task.status in DEAD_ENDS for task in reader.tasks_near(source.namespace, [source.task_id]))


def _hidden(source: Record, reader: TaskReader) -> frozenset[str | None]:
    """Return the branches whose records the source's readers do not see."""
    branches = reader.open_branches()
    tasks = reader.tasks_near(source.namespace, {*branches, *filter(None, [source.branch_id])})
    beside = branches_beside(tasks, path_to(source.branch_id, tasks))
    return (branches - {task.id for task in tasks}) | beside


def _is_known(digest: str, source: Record, transaction: Transaction) -> bool:
    """Return True where a record outside the hidden branches says it."""
    return not _hidden(source, transaction).issuperset(transaction.branches_that_say(source.scope, digest))


def _repeats(source: Record, noted: Record) -> bool:
    """Return True where another session says later what was noted.

    An agent that repeats itself confirms nothing, nor does a log that is stored again under another session's name.
    """
    is_elsewhere = (source.agent, source.session_id) != (noted.agent, noted.session_id)
    return source.occurred_at > noted.occurred_at and is_elsewhere


def _record(draft: LearntDraft, source: Record, record_id: str, at: Instant) -> Record:
    """Make a new record with the source's place and time, without its own judgements."""
    learnt, text = draft.learnt, draft.text
    return replace(
        source, id=record_id, kind=_kind(learnt), text=learnt.text, summary=text.summary, micro=text.micro,
        text_tokens=text.text_tokens, summary_tokens=text.summary_tokens, micro_tokens=text.micro_tokens,
        importance=DEFAULT_IMPORTANCE, confidence=None, status=NOTED,
        outcome=_ending(learnt),
        pinned=False, details={"source": source.id}, changed=0, tags=() if source.kind == "summary" else source.tags,
        role=None, tool=None, call_id=None, superseded_by=None,
        created_at=at, updated_at=at, accessed_at=source.occurred_at, counters=Counters(),
    )  # fmt: skip
