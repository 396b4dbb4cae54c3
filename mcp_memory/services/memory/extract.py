"""Extraction: turns what a session came to into records of their own before its entries are replaced.

Only deeds count, not sentences: a failure and its fix, and what came to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.lifecycle import NOTED, promoted
from mcp_memory.domain.model.records import DEFAULT_IMPORTANCE, Counters, Instant, Kind, Outcome, Record
from mcp_memory.domain.model.scopes import scope_key
from mcp_memory.domain.model.session_log import Pause, entry_of, in_order
from mcp_memory.domain.model.tasks import DEAD_ENDS, branches_beside, path_to
from mcp_memory.domain.model.versions import CONFIRMED
from mcp_memory.domain.sessions.filled_slots import FilledSlot
from mcp_memory.domain.sessions.slots import outcomes_of, slots_of
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.micro_and_summary import MeasuredText, measured
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.ports.text import TokenCounter
from mcp_memory.ports.transaction import TaskReader, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeDraft:
    """An outcome of a session, prepared outside the transaction. `source` is the entry's record."""

    source: Record
    outcome: FilledSlot
    text: MeasuredText


class Extractor:
    """Makes records of what sessions came to, with the source in `details.source`. Thread-safe.

    A fix becomes a fact, a dead end a failed episode. Retired or disproved entries give nothing; a failed one, or one
    in a dead-end task, gives only dead ends. All is noted, not confirmed: only its session sees it until something
    confirms it. A later reindex makes the vectors.
    """

    def __init__(
        self, counter: TokenCounter, pause: Pause = bool, person_of: Callable[[str], str] = lambda agent: ""
    ) -> None:
        """`person_of` names an agent's person: one person's own corrections do not bind another."""
        self._person_of = person_of
        self._counter = counter
        self._pause = pause

    def drafts(self, log: Sequence[Record]) -> Iterator[OutcomeDraft]:
        """Do the slow part for entries of one session's log: reading, short forms and counts."""
        sources = {record.id: record for record in log}
        count, truncate = self._counter.count, self._counter.truncate
        for outcome in outcomes_of(slots_of(in_order(entry_of(record) for record in log).entries)):
            self._pause()
            text = measured(outcome.text, count, truncate, kind=_kind(outcome), outcome=_ending(outcome))
            yield OutcomeDraft(source=sources[outcome.source], outcome=outcome, text=text)

    def store(self, draft: OutcomeDraft, at: Instant, transaction: Transaction) -> str | None:
        """Store the outcome for all readers of the source; return its record's id.

        Returns None where it stored nothing: the readers know it, it or a sentence of it was corrected for them, or
        the source was erased, retired, changed or failed since it was read. An outcome that only a branch knew leaves
        that branch instead of being stored twice. A noted one is promoted where another session repeats it.
        Raises StoreUnavailable, with the remedy.
        """
        source = transaction.get(draft.source.id)
        if source is None or source.text != draft.source.text or not _counts(source, draft.outcome, transaction):
            return None
        told = draft.outcome.text
        if self._is_settled(told, source, transaction):
            return None
        noted = transaction.find_noted(source.scope, normal_hash(told))
        stored = noted or transaction.find_text(source.scope, content_hash(told))
        if stored and (draft.outcome.section == "dead_ends" or stored.kind != "episode"):
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
        """Return True where the source's readers know it, or it was corrected for them."""
        # "Refused: ran `make` → No, keep it." may hold a corrected sentence between others.
        sentences = sentences_of(told.removeprefix("Refused: ").replace(" → ", "\n"))
        digests = {normal_hash(each) for each in (told, *sentences)}
        persons = scope_key("user", source.namespace, source.agent, self._person_of(source.agent))
        readable = dict.fromkeys((source.scope, scope_key("shared", source.namespace, ""), persons))
        is_known = _is_known(normal_hash(told), source, transaction)
        return is_known or any(transaction.find_corrected(scope, each) for scope in readable for each in digests)


def _kind(outcome: FilledSlot) -> Kind:
    return "episode" if outcome.section == "dead_ends" else "fact"


def _ending(outcome: FilledSlot) -> Outcome | None:
    return "failure" if outcome.section == "dead_ends" else None


def _counts(source: Record, outcome: FilledSlot, reader: TaskReader) -> bool:
    """Return True where the source is live, and neither it nor its task failed: then only a dead end counts."""
    if not source.is_live or outcome.section == "dead_ends":
        return source.is_live
    if source.outcome == "failure" or source.task_id is None:
        return source.outcome != "failure"
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


def _record(draft: OutcomeDraft, source: Record, record_id: str, at: Instant) -> Record:
    """Make a new record with the source's place and time, without its own judgements."""
    outcome, text = draft.outcome, draft.text
    return replace(
        source, id=record_id, kind=_kind(outcome), text=outcome.text, summary=text.summary, micro=text.micro,
        text_tokens=text.text_tokens, summary_tokens=text.summary_tokens, micro_tokens=text.micro_tokens,
        importance=DEFAULT_IMPORTANCE, confidence=None, status=NOTED,
        outcome=_ending(outcome),
        pinned=False, details={"source": source.id}, changed=0, role=None, tool=None, call_id=None, superseded_by=None,
        created_at=at, updated_at=at, accessed_at=source.occurred_at, counters=Counters(),
    )  # fmt: skip
