"""Accounts of sessions for people: the log, each compaction as a step in time, and what the session states.

A log is its agent's own. The originals of a block are shown to callers who see all of them, as `recall` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from mcp_memory.domain.model.records import Instant, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.session_log import Entry, SessionLog
from mcp_memory.domain.sessions.filled_slots import SlotState
from mcp_memory.domain.sessions.ledger import fitted, ledger_of
from mcp_memory.domain.sessions.slots import slots_of
from mcp_memory.domain.sessions.summary import instructions_in
from mcp_memory.domain.text.summary_sections import SECTIONS, TITLES, Section
from mcp_memory.errors import NotFound
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.session_logs import Compaction, LogOutline, PassShare, SessionLogStore, StandIn
from mcp_memory.ports.text import TokenCounter
from mcp_memory.services.tasks.branch_visibility import readable, visible_to

LOG_SHOWN: Final = 500
"""Records of one session that are shown, the last ones."""
SUMMARIES_SHOWN: Final = 1_000
"""Replacements of one log that are shown, the last ones."""
LATEST_READ: Final = 150
"""The latest entries of a log that are read for what they state; earlier ones are summarised, or long past."""
LATEST_LINES: Final = 15
"""Lines of each section that are shown, the latest."""
VALUE_TOKENS: Final = 800
"""Tokens of the exact values that are shown, the weightiest."""
UndoState = Literal["possible", "after later ones", "undone"]
"""A compaction can be undone once all later ones are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStep:
    """One compaction of a session, and the share of each of its passes: none where all that it covered was erased."""

    compaction: Compaction
    shares: Sequence[PassShare]
    undo: UndoState


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAccount:
    """The log of a session as it stands, the client that fed its last entry, and its compactions, the latest first."""

    log: SessionLog
    client: str
    steps: Sequence[CompactionStep]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedLine:
    """One thing that a session states, and the id of the entry that says it; "" where no entry holds these words."""

    text: str
    source: str
    state: SlotState = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSection:
    """The latest lines of a section, in the log's order, and the number of earlier ones."""

    title: str
    lines: Sequence[StatedLine]
    earlier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredOriginals:
    """A block of a log, and some of the originals in whose place it is."""

    block: Entry
    originals: Sequence[Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentSession:
    """A session that stored something: the number of its records that the caller sees, the newest, and its time.

    The newest happened last, and `last` is when; of one that is dated ahead, when it was stored.
    """

    session_id: str
    records: int
    newest: Record
    last: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """The records of a session in order, its compactions, and of its log the replacements that the caller sees."""

    session_id: str
    compactions: Sequence[Compaction]
    stand_ins: Sequence[StandIn]
    records: Sequence[Record]
    log: SessionLog


class SessionAccounts:
    """Describes sessions. Thread-safe; only reads."""

    def __init__(self, records: MemoryReader, logs: SessionLogStore, counter: TokenCounter) -> None:
        self._records = records
        self._logs = logs
        self._counter = counter

    def __call__(self, caller: Caller) -> SessionAccount:
        """Return the account of the caller's session; its log is empty where the session only stored records.

        Raises NotFound where the caller sees nothing of that session.
        """
        with self._records.snapshot():
            log, compactions = self._logs.log(caller), self._logs.compactions(caller)
            shares = self._logs.pass_shares(caller)
            if not log.entries:
                where = replace(visible_to(self._records, caller), session_id=caller.session_id, include_inactive=True)
                if not self._records.list_ids(where, "occurred", 1):
                    raise NotFound("Nothing that such a session said or stored is here.")
            last = log.entries[-1].covers[-1:] if log.entries else ()
            clients = [each.client for each in self._records.get(last, caller.scopes).values()]
        return SessionAccount(log=log, client="".join(clients), steps=_steps(compactions, shares))

    def recent(self, caller: Caller, limit: int) -> Sequence[RecentSession]:
        """Return the sessions in which the records that the caller sees happened last, the latest first."""
        with self._records.snapshot():
            where = visible_to(self._records, caller)
            return [
                RecentSession(session_id=name, records=self._records.count(own), newest=newest, last=_happened(newest))
                for name in self._records.recent_sessions(where, limit)
                for own in [replace(where, session_id=name)]
                for newest in [self._newest(own)]
            ]

    def _newest(self, where: RecordFilter) -> Record:
        """Return the record that happened last; of those that are dated ahead none is later than what was stored last.

        One passes.
        """
        either = [*self._records.list(where, "occurred", 1), *self._records.list(where, "created", 1)]
        return max(either, key=_happened)

    def stored(self, session_id: str, caller: Caller) -> StoredSession:
        """Return what one session stored, the last records of a long one. Raises NotFound where there is nothing."""
        where = replace(visible_to(self._records, caller), session_id=session_id)
        records = self._records.list(where, "created", LOG_SHOWN)
        if not records:
            raise NotFound(f"No session {session_id!r} here; memory://status shows the present one.")
        mine = caller.in_session(session_id)
        standing = self._logs.stand_ins(mine)[-SUMMARIES_SHOWN:]
        seen = readable({each.entry.id: each.entry for each in standing}, self._records, caller)
        return StoredSession(
            session_id=session_id,
            compactions=self._logs.compactions(mine),
            stand_ins=[each for each in standing if each.entry.id in seen],
            records=records[::-1],
            log=self._logs.log(mine),
        )

    def latest(
        self, caller: Caller, limit: int, before: tuple[Instant, str] | None = None, *, of_all: bool = False
    ) -> Sequence[LogOutline]:
        """Return the logs of the caller's agent, the one that grew last first, as `SessionHistory.latest` does."""
        return self._logs.latest(caller, limit, before, of_all=of_all)

    def has_log(self, caller: Caller) -> bool:
        """Return True where the caller's session has a log."""
        return self._logs.size(caller).entries > 0

    def stand_ins(self, caller: Caller) -> Sequence[StandIn]:
        """Return the live replacements in the log of the caller's session, in its order."""
        return self._logs.stand_ins(caller)

    def block(self, block_id: str, caller: Caller) -> Entry | None:
        """Return a block of the log of any session; None where the caller does not see all that it covers."""
        return readable(self._logs.entries([block_id], caller), self._records, caller).get(block_id)

    def made_in(self, number: int, caller: Caller, limit: int, first: int = 0) -> tuple[CompactionStep, list[StandIn]]:
        """Return a compaction of the caller's session, and its replacements.

        Raises NotFound where the session has none of that number.
        """
        with self._records.snapshot():
            steps = _steps(self._logs.compactions(caller), self._logs.pass_shares(caller))
            found = [step for step in steps if step.compaction.number == number]
            if not found:
                raise NotFound("This session has no such compaction.")
            return found[0], [*self._logs.made_in(caller, number, limit, first)]

    def originals(self, block_id: str, caller: Caller, limit: int, first: int = 0) -> CoveredOriginals:
        """Return some of the originals of a block, of any session. Raises NotFound where the caller sees not all."""
        with self._records.snapshot():
            block = self.block(block_id, caller)
            if block is None:
                raise NotFound("There is no such block here.")
            records = self._records.get(block.covers[first : first + limit], caller.scopes)
        return CoveredOriginals(block=block, originals=[records[each] for each in block.covers if each in records])

    def stated(self, log: SessionLog) -> Sequence[StatedSection]:
        """Return what the latest entries of a log state, by section, each with its source."""
        entries = log.entries[-LATEST_READ:]
        found: dict[Section, list[StatedLine]] = {}
        for slot in slots_of(entries):
            line = StatedLine(text=slot.text, source=slot.source, state=slot.state)
            found.setdefault(slot.section, []).append(line)
        said = {text: entry.id for entry in entries for text in instructions_in([entry])}
        found["instructions"] = [StatedLine(text=text, source=source) for text, source in said.items()]
        values = fitted(ledger_of(entries), VALUE_TOKENS, self._counter.count).lists
        for section, texts in values.items():
            found[section] = [StatedLine(text=text, source=_source(text, entries)) for text in texts]
        return [_section(section, found[section]) for section in SECTIONS if found.get(section)]


def _happened(record: Record) -> Instant:
    """Return when something happened that is known, which it was once it was stored."""
    return min(record.occurred_at, record.created_at)


def _steps(compactions: Sequence[Compaction], shares: Sequence[PassShare]) -> Sequence[CompactionStep]:
    of_each: dict[int, list[PassShare]] = {}
    for share in shares:
        of_each.setdefault(share.compaction, []).append(share)
    latest = max((each.number for each in compactions if each.undone_at is None), default=0)
    return [
        CompactionStep(compaction=each, shares=of_each.get(each.number, ()), undo=_undo(each, latest))
        for each in reversed(compactions)
    ]


def _undo(compaction: Compaction, latest: int) -> UndoState:
    if compaction.undone_at is not None:
        return "undone"
    return "possible" if compaction.number == latest else "after later ones"


def _source(value: str, entries: Sequence[Entry]) -> str:
    """Return the latest entry that holds an exact value as it is."""
    return next((entry.id for entry in reversed(entries) if value in entry.text), "")


def _section(section: Section, lines: Sequence[StatedLine]) -> StatedSection:
    return StatedSection(title=TITLES[section], lines=lines[-LATEST_LINES:], earlier=max(len(lines) - LATEST_LINES, 0))
