"""Finds what the session of the last exchange left: what it stored, and what its calls led to, a line each.

Inputs and outputs are not quoted: other sessions read these lines unasked, and an output may be anybody's words.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from mcp_memory.domain.context.items import EXCHANGE, SESSION_NOTES
from mcp_memory.domain.context.rendering import event_body
from mcp_memory.domain.context.scoring import Candidate
from mcp_memory.domain.model.records import LASTING_KINDS, RAW, Instant, Kind, Record
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.model.session_log import Entry, entry_of, in_order
from mcp_memory.domain.sessions.agent_actions import AgentAction, AgentActions, is_check
from mcp_memory.domain.sessions.tool_lines import TOOL_CHARACTERS, CallLine, call_line, one_line
from mcp_memory.domain.sessions.tool_outputs import ends_in_error, errors_of
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.retrieval import FilterIndex
from mcp_memory.services.context.question import ContextQuestion, among, refused

TURNS_READ = 200
"""Messages read: between its calls an agent may say a hundred things after what it was asked."""
READ_TOGETHER = 25
"""Records read at once, of which usually enough may be shown."""
NO_NOTES: frozenset[Kind] = frozenset({"identity", "censor", "result"})
"""Kinds with a section of their own."""
NOTES_SHOWN, OUTCOMES_SHOWN = 8, 8
"""Most records that a session stored, and most outcomes, that stand behind the last exchange."""
COMMAND_CHARACTERS, CAUSE_CHARACTERS, FILES_SHOWN = 80, 80, 8
_CLIENTS_OWN = frozenset({"read", "listed", "searched", "edited", "wrote", "ran"})
"""Acts of a client's tools that look at files, or are told otherwise."""
_OTHER_SERVER = "mcp__"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """A line on the result of calls, and the id of the last of them."""

    source: str
    at: Instant
    text: str
    kind: Kind = "tool_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSession:
    """The traces of the last exchange's session: records that it stored, newest first, and results of its tools."""

    stored: Sequence[Candidate] = ()
    outcomes: Sequence[CallOutcome] = ()

    @property
    def told(self) -> frozenset[str]:
        """The ids of the events and calls that the outcomes tell of."""
        return frozenset(each.source for each in self.outcomes)


class LastSessionReader:
    """Reads of a session, which may hold nearly all of a memory, no more than it tells. Thread-safe."""

    def __init__(self, records: MemoryReader, filters: FilterIndex) -> None:
        self._records = records
        self._filters = filters

    def __call__(self, question: ContextQuestion, focus: Sequence[Candidate]) -> LastSession:
        """Return what was stored and done in the session of the last exchange; else in the one before this."""
        if not question.opens:
            return LastSession()
        there = {each.record.id for each in focus}
        exchange = [each.record for each in focus if each.source == EXCHANGE]
        last = exchange[-1] if exchange else self._latest_elsewhere(question)
        if last is None:
            return LastSession()
        # Sessions of two agents may have one name.
        where = replace(question.where, session_id=last.session_id)
        newest = self._filters.newest(self._filters.passing(where), where.scopes, TURNS_READ)
        raw = self._filters.passing(replace(where, kinds=RAW))
        used = readable(self._records, question, [each for each in newest if each in raw])
        used = [each for each in used if each.agent == last.agent]
        calls = [each for each in used if each.kind in ("tool_call", "tool_result")]
        done = [_event_outcome(each) for each in used if each.kind == "event"]
        done += _call_outcomes(in_order(map(entry_of, calls)).entries)
        once = {each.text: each for each in reversed(done) if each.source not in there}
        return LastSession(
            stored=[
                Candidate(record=each, source=SESSION_NOTES, relevance=1.0)
                for each in islice(self._stored(question, where, last.agent, there), NOTES_SHOWN)
            ],
            outcomes=[*once.values()][::-1][:OUTCOMES_SHOWN],
        )

    def _stored(
        self, question: ContextQuestion, where: RecordFilter, agent: str, there: Collection[str]
    ) -> Iterator[Record]:
        """Yield what the agent stored, newest first, without what is shown already, `there`."""
        lasting, current = among(where, LASTING_KINDS - NO_NOTES), question.stack.current
        kept = self._filters.passing(replace(where, kinds=lasting)) if lasting else None
        newest = self._filters.newest(kept, where.scopes, TURNS_READ) if kept is not None else ()
        for each in readable(self._records, question, newest):
            # What it noted elsewhere competes by the goal.
            if each.agent == agent and each.id not in there and (current is None or each.task_id == current.id):
                yield each

    def _latest_elsewhere(self, question: ContextQuestion) -> Record | None:
        """Return the newest record of another session, the agent's own first: its tools alone may have left one."""
        for those in (replace(question.where, own_of=question.caller.agent), question.where):
            for each in held(self._records, question, those):
                if each.session_id != question.caller.session_id and each.kind in RAW:
                    return each
        return None


def held(records: MemoryReader, question: ContextQuestion, where: RecordFilter) -> Iterator[Record]:
    """Yield the last records that may be shown, newest first; of `TURNS_READ`."""
    yield from readable(records, question, records.list_ids(where, "occurred", TURNS_READ))


def readable(records: MemoryReader, question: ContextQuestion, record_ids: Sequence[str]) -> Iterator[Record]:
    """Yield those records that may be shown, in order; few are read where few are wanted."""
    for start in range(0, len(record_ids), READ_TOGETHER):
        some = records.get(record_ids[start : start + READ_TOGETHER], question.where.scopes)
        yield from (record for record in some.values() if not refused(record, question))


def _event_outcome(event: Record) -> CallOutcome:
    """Return what an event tells without its output, which may be anybody's words."""
    return CallOutcome(source=event.id, at=event.occurred_at, text=event_body(event, event.text, "micro"), kind="event")


def _call_outcomes(entries: Sequence[Entry]) -> list[CallOutcome]:
    """Return what came of these entries' calls, the latest first within each sort, each thing once.

    What failed and was not repaired comes first, then what went well, the changed files, the pages and tools of others.

    `pytest tests/cargo → failed: KeyError 'phyto'`
    """
    actions = AgentActions(entries)
    found = [
        *_unanswered(entries),
        *_without_call(entries, actions),
        *_failed(actions),
        *_went_well(actions),
        *_files(actions),
        *_asked(actions),
    ]
    return [*{each.text: each for each in reversed(found)}.values()][::-1]


def _unanswered(entries: Sequence[Entry]) -> Iterator[CallOutcome]:
    """Yield the command that was running when the session ended."""
    if entries and (last := entries[-1]).kind == "tool_call" and (line := call_line(last)).act == "ran":
        yield _outcome(last, f"{_command(line)} → not known: the session ended while it ran")


def _without_call(entries: Sequence[Entry], actions: AgentActions) -> Iterator[CallOutcome]:
    """Yield the results of tools of which nobody stored the call."""
    answered = {did.output.id for did in actions.done}
    for result in reversed(entries):
        if result.kind == "tool_result" and result.tool and result.id not in answered:
            tells = is_check(result.tool) and not result.tool.startswith(_OTHER_SERVER)
            cause = " · ".join(errors_of(result)[:1]) if tells else ""
            ending = _failure(cause) if result.failed or ends_in_error(result.text) else ""
            yield _outcome(result, f"called {one_line(result.tool, TOOL_CHARACTERS)}{ending}")


def _failed(actions: AgentActions) -> Iterator[CallOutcome]:
    failed = (each.did for each in reversed(actions.failures) if each.fixed_at is None and each.did.command)
    for did in failed:
        # A test or build names its own error; another program's output may be a stranger's words.
        yield _outcome(did.entry, _command(did.line) + _failure(did.error if did.checks else ""))


def _failure(cause: str) -> str:
    """Return " → failed: KeyError 'phyto'", without a cause that says nothing."""
    told = one_line(cause.removeprefix("FAILED "), CAUSE_CHARACTERS)
    return f" → failed: {told}" if told not in ("", "failed") else " → failed"


def _went_well(actions: AgentActions) -> Iterator[CallOutcome]:
    last: dict[str, AgentAction] = {did.line.key: did for did in actions.done if did.command}
    for did in sorted(last.values(), key=lambda each: -each.place):
        if (did.checks and did.went_well) or did.intervenes:
            yield _outcome(did.entry, f"{_command(did.line)} → succeeded")


def _files(actions: AgentActions) -> Iterator[CallOutcome]:
    """Yield one line of all files that were changed and are still there, the latest first."""
    entries = {did.entry.id: did.entry for did in actions.done}
    changed = [each for each in actions.changes if not each.is_gone]
    changed.sort(key=lambda each: -each.edits[-1])
    if changed:
        shown = ", ".join(one_line(each.path, COMMAND_CHARACTERS) for each in changed[:FILES_SHOWN])
        more = f", and {len(changed) - FILES_SHOWN} more" if len(changed) > FILES_SHOWN else ""
        yield _outcome(entries[changed[0].source], f"changed {shown}{more}")


def _asked(actions: AgentActions) -> Iterator[CallOutcome]:
    """Yield the pages and the tools of others by name: their words stay where they are."""
    for did in reversed(actions.done):
        line = did.line
        if line.act == "fetched":
            yield _outcome(did.entry, one_line(f"f{line.done[1:]}".partition("?")[0], COMMAND_CHARACTERS))
        elif line.act not in _CLIENTS_OWN or line.tool.startswith(_OTHER_SERVER):
            yield _outcome(did.entry, f"called {line.tool}{'' if did.went_well else ' → failed'}")


def _command(line: CallLine) -> str:
    """Return the command alone: "make shard-4"."""
    return one_line(line.done.removeprefix("Ran ").strip("`"), COMMAND_CHARACTERS)


def _outcome(entry: Entry, text: str) -> CallOutcome:
    return CallOutcome(source=entry.id, at=entry.at, text=text)
