"""Finds what is at hand: the focus of a context; without a query, the last exchange and what changed since."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mcp_memory.domain.context.items import EXCHANGE, SINCE
from mcp_memory.domain.context.scoring import Candidate
from mcp_memory.domain.model.records import LASTING_KINDS, OUT_OF_SEARCH, RAW, Instant, Kind, Record
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.records import MemoryReader
from mcp_memory.services.context.last_session import held
from mcp_memory.services.context.question import ContextQuestion, among, refused

ALWAYS_KINDS: frozenset[Kind] = frozenset({"identity", "censor"})
SPOKEN: frozenset[Kind] = frozenset({"message"})
LAST_EXCHANGE = 2
"""The latest message and its answer."""
EXCHANGE_SECONDS = 12 * 3_600
"""Seconds, 12 hours: earlier messages belong to another conversation."""
NO_EXCHANGE: frozenset[Kind] = RAW | frozenset[Kind]({"identity", "censor", "summary", "result"})
"""Kinds that are not said by anybody: a result has its own place."""
CHANGES_READ, CHANGES_SHOWN = 100, 5
"""Records read that changed last, and most of each sort that are shown; the others compete like any record."""
RESULTS: frozenset[Kind] = frozenset({"result"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """The changes since the last exchange: corrections and results, latest first, and the ids of retired records."""

    changed: Sequence[Candidate] = ()
    retired: Sequence[str] = ()


class CurrentFocus:
    """Reads the store alone, whatever a query finds. Thread-safe."""

    def __init__(self, records: MemoryReader) -> None:
        self._records = records

    def __call__(self, question: ContextQuestion, pinned: Sequence[Candidate]) -> list[Candidate]:
        """Return records pinned in tasks on the path, and the last exchange."""
        path = {task.id for task in question.stack.path}
        chosen = [
            candidate
            for candidate in pinned
            if candidate.record.task_id in path
            and candidate.record.kind not in ALWAYS_KINDS
            and not refused(candidate.record, question)
        ]
        there = {candidate.record.id for candidate in chosen}
        exchange = self._last_exchange(question) if question.opens else self._exchange(question)
        said = [Candidate(record=each, source=EXCHANGE, relevance=1.0) for each in exchange if each.id not in there]
        return chosen + said

    def _exchange(self, question: ContextQuestion) -> Sequence[Record]:
        """Return the last messages of this session; without recent ones, those of the current task, of any age."""
        kinds = among(question.where, SPOKEN)
        if not kinds:
            return []
        said = replace(question.where, kinds=kinds)
        current = question.stack.current
        last = self._records.list(replace(said, session_id=question.caller.session_id), "occurred", LAST_EXCHANGE)
        recent = [record for record in last if record.occurred_at >= question.now - EXCHANGE_SECONDS]
        if not recent and current:
            recent = [*self._records.list(replace(said, task_id=current.id), "occurred", LAST_EXCHANGE)]
        return recent[::-1]

    def _last_exchange(self, question: ContextQuestion) -> Sequence[Record]:
        """Return what the user last asked, and what the agent said last, in reading order.

        Of this session where anything was said in it; else of the agent's session before, else of any agent's.
        """
        where = question.where
        if not among(where, SPOKEN):
            return []
        here = replace(where, session_id=question.caller.session_id)
        if turns := _turns(self._spoken(question, here)):
            return turns
        for those in (replace(where, own_of=question.caller.agent), where):
            noted = (each for each in self._noted(question, those) if each.session_id != here.session_id)
            if last := next(noted, None):
                turns = _turns(self._spoken(question, those))
                is_near = turns and turns[-1].occurred_at >= last.occurred_at - EXCHANGE_SECONDS
                return turns if is_near else _notes(last, noted)
        return []

    def _spoken(self, question: ContextQuestion, where: RecordFilter) -> Iterator[Record]:
        """Yield the last messages, newest first."""
        return held(self._records, question, replace(where, kinds=among(where, SPOKEN)))

    def _noted(self, question: ContextQuestion, where: RecordFilter) -> Iterator[Record]:
        """Yield the last records of any kind, newest first."""
        return (record for record in held(self._records, question, where) if record.kind not in NO_EXCHANGE)

    def since(self, question: ContextQuestion, focus: Sequence[Candidate]) -> Since:
        """Return what changed since the last exchange began, by whomever; nothing without one."""
        begun = min((each.record.occurred_at for each in focus if each.source == EXCHANGE), default=None)
        if begun is None or not question.opens:
            return Since()
        where = replace(question.where, kinds=among(question.where, LASTING_KINDS))
        if not where.kinds:
            return Since()
        there = {each.record.id for each in focus}
        updated = self._records.list(replace(where, include_inactive=True), "updated", CHANGES_READ)
        known = [record for record in updated if record.updated_at >= begun > record.created_at]
        changed = [*self._corrections(question, known, begun), *self._results(question, where, begun)]
        return Since(
            changed=[
                Candidate(record=record, source=SINCE, relevance=1.0)
                for record in {record.id: record for record in changed}.values()
                if record.id not in there
            ],
            retired=[record.id for record in known if record.status in OUT_OF_SEARCH][:CHANGES_SHOWN],
        )

    def _corrections(self, question: ContextQuestion, known: Sequence[Record], begun: Instant) -> Iterator[Record]:
        """Yield the records that took another's place since then, and those with another text."""
        replaced = self._records.successors([record.id for record in known if record.status == "superseded"])
        shown = [each for each in replaced.values() if each not in question.where.exclude]
        new = self._records.get(shown, question.where.scopes)
        versions = self._records.versions([each.id for each in known if each.holds])
        told = {
            each for each, history in versions.items() if any(v.at >= begun and "text" in v.before for v in history)
        }
        texts = [each for each in known if each.id in told]
        yield from [each for each in (*new.values(), *texts) if each.holds][:CHANGES_SHOWN]

    def _results(self, question: ContextQuestion, where: RecordFilter, begun: Instant) -> Sequence[Record]:
        kinds = among(where, RESULTS)
        if not kinds:
            return []
        ended = self._records.list(replace(where, kinds=kinds, since=begun), "occurred", CHANGES_SHOWN)
        return [record for record in ended if record.details.get("task") not in question.stack.ids]


def _turns(spoken: Iterator[Record]) -> list[Record]:
    """Return the last question of the newest session, and its last answer; none where nothing was said.

    The messages are newest first.
    """
    last = next(spoken, None)
    if last is None:
        return []
    turns = (each for each in spoken if each.session_id == last.session_id)
    if last.role == "user" or (before := next(turns, None)) is None:
        return [last]
    return [next((each for each in chain([before], turns) if each.role == "user"), before), last]


def _notes(last: Record, noted: Iterator[Record]) -> list[Record]:
    """Return the last note, and the one before it in its session; they are newest first."""
    before = next((each for each in noted if each.session_id == last.session_id), None)
    return [before, last] if before else [last]
