"""The logs of sessions as they stand now. What replaces what in them is written by `transaction`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import Entry, EntryKind, PassName, Role, SessionLog

Trigger = Literal["call", "idle", "forced"]
"""What asked for a compaction: a caller, a pause in the session, or a log near the end of its window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSize:
    """How long a session's live log is, in the store counter's tokens, and when something was last stored in it.

    `last_at` is 0.0 for an empty log.
    """

    namespace: str
    agent: str
    session_id: str
    tokens: int
    entries: int
    last_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One compaction of a session: its number there, from 1, and the log's tokens before and after it.

    `after` counts what it replaced until now, and nothing that was said meanwhile.
    """

    number: int
    at: Instant
    trigger: Trigger
    before: int
    after: int
    undone_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A live entry that stands for others: by which pass of which compaction it was made, and when.

    `record_id` is the record of kind summary that says the same, None where there is none.
    """

    entry: Entry
    compaction: int
    pass_name: PassName
    made_at: Instant
    record_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The compaction that was undone, how many replacements went with it, and the records that said the same."""

    number: int
    replacements: int
    record_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidEntry:
    """What an original is recognised by when it is told again: who said it as what, the digest of its text.

    `role` is the entry's, `content_hash` that of domain/text/words.py, `message_id` the client's own for it, where it
    gave one in the record's details.
    """

    id: str
    kind: EntryKind
    role: Role
    content_hash: str
    call_id: str | None
    message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRun:
    """What one pass did with one revision of a log, and why; nothing of what the log says.

    `ran` is False where it saw no reason to. `spent` are tokens that a model took. `error` says what went wrong, None
    where nothing did; the log is then as it was.
    """

    name: PassName
    revision: str
    ran: bool
    reason: str
    tokens_before: int
    tokens_after: int
    replaced: int = 0
    milliseconds: float = 0.0
    spent: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTally:
    """What a pass did over many logs: how often it ran, failed, or did not run and why (the ten commonest reasons).

    `milliseconds`, `saved` and `spent` are sums; the last two in tokens.
    """

    name: PassName
    ran: int
    failed: int
    skipped: Mapping[str, int]
    milliseconds: float
    saved: int
    spent: int


class SessionLogStore(Protocol):
    """Reads the logs of sessions, which `Transaction.replace_entries` makes shorter.

    A caller's log is that of its session alone: the records of kind message, tool_call and tool_result that its agent
    stored there in its namespace, of any status.

    Each read is one snapshot, and sees everything committed by any process before the call. Raises StoreUnavailable
    from any method but `keep_pass_runs`.
    """

    def log(self, caller: Caller) -> SessionLog:
        """The live log; empty for a session that is not known. Takes time by what is live, not by what was said."""
        ...

    def size(self, caller: Caller) -> LogSize:
        """How long the live log is, without reading it."""
        ...

    def sizes(self, since: Instant) -> Sequence[LogSize]:
        """Those of the sessions of any namespace and agent in which something was stored since; in no order."""
        ...

    def entries(self, entry_ids: Collection[str], caller: Caller) -> Mapping[str, Entry]:
        """Those of the replacements that stand, or stood until they were replaced, by their ids.

        They are of any session, whoever's: whether the caller may see what they cover is for who asks to find out.
        What they cover is in the order it was said. Ids of records are not found here.
        """
        ...

    def stand_ins(self, caller: Caller) -> Sequence[StandIn]:
        """The live replacements in the order of the log."""
        ...

    def said(self, caller: Caller) -> Sequence[SaidEntry]:
        """All originals of the log, live or not, in the order they were stored."""
        ...

    def compactions(self, caller: Caller) -> Sequence[Compaction]:
        """All compactions of the session, the undone ones too, the oldest first."""
        ...

    def keep_pass_runs(self, runs: Sequence[PassRun], caller: Caller, at: Instant, compaction: int | None) -> None:
        """Keep what passes did, for two weeks. Never waits long and never raises: telemetry may be lost.

        `compaction` is the number of that in which they ran, None where it replaced nothing.
        """
        ...

    def pass_runs(self, caller: Caller, since: Instant) -> Sequence[PassTally]:
        """What each pass did in all sessions of the caller's agent in its namespace, by the name of the pass."""
        ...

    def fruitless(self, caller: Caller, revision: str) -> frozenset[PassName]:
        """Passes that ran on this revision of the caller's log, or failed there, without making it shorter."""
        ...
