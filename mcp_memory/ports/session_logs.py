"""The current logs of sessions. Port `transaction` writes their replacements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller, session_key
from mcp_memory.domain.model.session_log import Entry, EntryKind, PassName, Role, SessionLog, Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSize:
    """Length of a session's live log in the store counter's tokens, and the time of its last entry.

    `last_at` is 0.0 for an empty log. `left` is what `leave` noted last, -1 without it.
    """

    namespace: str
    agent: str
    session_id: str
    tokens: int
    entries: int
    last_at: Instant
    left: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOutline:
    """One log in a list: whose it is, when its first and last entries were stored, and by which client the last."""

    agent: str
    session_id: str
    client: str
    began_at: Instant
    last_at: Instant

    @property
    def place(self) -> tuple[Instant, str]:
        """The place in the list of logs."""
        return self.last_at, session_key(self.agent, self.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLine:
    """A line of a conversation under the client's own id, by which it is known in whichever session it was told.

    The digests are those of its text in domain/text/words.py: by the second one it is known after a correction, too.
    """

    message_id: str
    scope: str
    kind: str
    role: str | None
    digest: str
    normal_digest: str
    call_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One compaction of a session: its number there, from 1, and the log's tokens before and after it.

    `after` counts its replacements so far, and nothing that was stored meanwhile.
    """

    number: int
    at: Instant
    trigger: Trigger
    before: int
    after: int
    undone_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A live entry that replaces others: the compaction, pass and time that made it.

    `record_id` is the record of kind summary that says the same, None without one.
    """

    entry: Entry
    compaction: int
    pass_name: PassName
    made_at: Instant
    record_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassShare:
    """The share of one pass in a compaction: its number of replacements, their tokens, and those of their originals."""

    compaction: int
    pass_name: PassName
    replacements: int
    tokens: int
    original_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The undone compaction, the number of replacements it removed, and the records that say the same."""

    number: int
    replacements: int
    record_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidEntry:
    """The features that identify a resent original: its kind, role and text digest.

    `role` is the entry's, `content_hash` that of domain/text/words.py, `message_id` the client's own id, where the
    record's details hold one.
    """

    id: str
    kind: EntryKind
    role: Role
    content_hash: str
    call_id: str | None
    message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRun:
    """One pass's result on one revision of a log, and its reason, without any of the log's text.

    `ran` is False where the pass saw no reason to run. `spent` counts a model's tokens. `error` describes a failure,
    which leaves the log unchanged; None without one.
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
    """One pass's totals over many logs: runs, failures, and skips by reason (the ten commonest).

    `milliseconds`, `saved` and `spent` are sums; the last two in tokens.
    """

    name: PassName
    ran: int
    failed: int
    skipped: Mapping[str, int]
    milliseconds: float
    saved: int
    spent: int


class SessionHistory(Protocol):
    """Reads what became of sessions' logs; each method as `SessionLogStore` says."""

    def latest(
        self, caller: Caller, limit: int, before: tuple[Instant, str] | None = None, *, of_all: bool = False
    ) -> Sequence[LogOutline]:
        """Return the logs of the caller's agent in its namespace, the one that grew last first.

        With `before`, those that come after that `place`. With `of_all`, those of every agent.
        """
        ...

    def made_in(self, caller: Caller, compaction: int, limit: int, offset: int = 0) -> Sequence[StandIn]:
        """Return the replacements that a compaction of the caller's session made, in the order it made them.

        Those that a later one has replaced are among them; an undone one has none.
        """
        ...

    def pass_shares(self, caller: Caller) -> Sequence[PassShare]:
        """Return each pass's share in each compaction of the session that stands, in the order they ran."""
        ...

    def compactions(self, caller: Caller) -> Sequence[Compaction]:
        """Return all compactions of the session, undone ones too, the oldest first."""
        ...


class SessionLogStore(SessionHistory, Protocol):
    """Reads the logs of sessions, which `Transaction.replace_entries` shortens.

    A caller's log is that of its session alone: the records of kind message, tool_call and tool_result that its agent
    stored there in its namespace, of any status.

    Each read is one snapshot, and sees everything that any process committed before the call. Any method but
    `keep_pass_runs` and `leave` raises StoreUnavailable.
    """

    def log(self, caller: Caller) -> SessionLog:
        """Return the live log; empty for an unknown session.

        The time grows with the live entries, not with the originals.
        """
        ...

    def size(self, caller: Caller) -> LogSize:
        """Return the length of the live log without reading it."""
        ...

    def sizes(self, since: Instant) -> Sequence[LogSize]:
        """Return the sizes of sessions, of any namespace and agent, that stored something since then; in no order."""
        ...

    def entries(self, entry_ids: Collection[str], caller: Caller) -> Mapping[str, Entry]:
        """Return the replacements with these ids that are live, or were until they were replaced.

        They may be of any session and agent: you check whether the caller may see what they cover. `covers` is in the
        order of the originals. Ids of records are not found here.
        """
        ...

    def stand_ins(self, caller: Caller) -> Sequence[StandIn]:
        """Return the live replacements in the order of the log."""
        ...

    def said(self, caller: Caller) -> Sequence[SaidEntry]:
        """Return all originals of the log, live or not, in the order they were stored."""
        ...

    def originals(self, caller: Caller, tools: Collection[str]) -> Sequence[Entry]:
        """Return the messages of the log, live or not, and the calls and results of these tools, in stored order.

        What was retired is left out.
        """
        ...

    def keep_pass_runs(self, runs: Sequence[PassRun], caller: Caller, at: Instant, compaction: int | None) -> None:
        """Keep the results of passes for two weeks. Never waits long and never raises: telemetry may be lost.

        `compaction` is the number of the one in which they ran, None where it replaced nothing.
        """
        ...

    def leave(self, caller: Caller, tokens: int) -> None:
        """Note the length at which somebody has left the caller's log. Telemetry, as `keep_pass_runs`."""
        ...

    def pass_runs(self, caller: Caller, since: Instant) -> Sequence[PassTally]:
        """Return each pass's totals in all sessions of the caller's agent in its namespace, in order of name."""
        ...

    def fruitless(self, caller: Caller, revision: str) -> frozenset[PassName]:
        """Return passes that ran or failed on this revision of the caller's log without shortening it."""
        ...
