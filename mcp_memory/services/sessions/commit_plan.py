"""Commits the plans of passes for a session's log, notes what the removed entries taught, and undoes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp_memory.domain.model.lifecycle import after_succession, moved_to
from mcp_memory.domain.model.records import Details, Instant, NewRecord, Record, Visibility
from mcp_memory.domain.model.scopes import Caller, scope_key
from mcp_memory.domain.model.session_log import Entry, PassName, PassPlan, Replacement, SessionLog, Trigger
from mcp_memory.domain.model.tasks import path_to
from mcp_memory.domain.text.micro_and_summary import MeasuredText
from mcp_memory.domain.text.times import iso
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.session_logs import SessionLogStore, Undone
from mcp_memory.ports.text import Clock
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.memory.prepare_record import RecordDraft, RecordPreparer, record_of
from mcp_memory.services.review.supersede import reinstate

if TYPE_CHECKING:  # Its patterns take a tenth of a start.
    from mcp_memory.services.memory.extract import Extractor


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The compaction that commits belong to. Its first commit sets `number`."""

    caller: Caller
    trigger: Trigger
    tokens_before: int
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The compaction after a commit, and the records extracted from the entries it removed."""

    begun: Begun
    extracted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """A summary's entry, ready to become a record; `earlier` are the records of the summaries it merges."""

    entry: Entry
    draft: RecordDraft
    text: MeasuredText
    earlier: tuple[str, ...]


class PlanCommitter:
    """Writes whole plans or nothing. Thread-safe; slow work happens before the lock is taken."""

    def __init__(
        self,
        records: RecordStore,
        logs: SessionLogStore,
        drafting: RecordPreparer,
        extracting: Extractor,
        clock: Clock,
    ) -> None:
        self._records = records
        self._logs = logs
        self._drafting = drafting
        self._extracting = extracting
        self._clock = clock

    def __call__(self, plan: PassPlan, pass_name: PassName, log: SessionLog, begun: Begun) -> Committed:
        """Commit the plan, after noting what the entries it removes taught.

        Raises:
            Conflict: what it replaces has been replaced meanwhile; the log is as it was.
            StoreUnavailable: the log is as it was; the message names the remedy.
        """
        gone = {entry_id for made in plan.replacements for entry_id in made.replaces}
        drafts = [*self._extracting.drafts(self._originals(log, gone, begun.caller))]
        summaries = [self._summary(made, begun.caller) for made in plan.replacements if made.entry.form == "summary"]
        extracted = self._extracting.note(drafts)
        with self._records.write(begun.caller) as transaction:
            now = self._clock()
            number = begun.number or transaction.begin_compaction(begun.caller, begun.trigger, now, begun.tokens_before)
            stored = {each.entry.id: _store(each, begun.caller, now, transaction) for each in summaries}
            record_ids = {entry_id: record_id for entry_id, record_id in stored.items() if record_id}
            transaction.replace_entries(plan.replacements, number, pass_name, begun.caller, now, record_ids)
        return Committed(begun=replace(begun, number=number), extracted=extracted)

    def undo(self, caller: Caller, number: int | None = None) -> Undone:
        """Undo the latest compaction: its entries are live again, followed by those stored since.

        Extracted records stay. The summary's record is retired, and an earlier one is valid again. Raises Conflict
        where nothing is left to undo, or the latest is not the one of that number.
        """
        with self._records.write(caller) as transaction:
            now = self._clock()
            undone = transaction.undo_compaction(caller, now, number)
            for record_id in undone.record_ids:
                reinstate(record_id, now, transaction)
                summary = transaction.get(record_id)
                if summary and summary.status != "retired":
                    transaction.update(replace(moved_to(summary, "retired"), updated_at=now))
        return undone

    def _originals(self, log: SessionLog, gone: set[str], caller: Caller) -> Sequence[Record]:
        """Return what the removed entries cover, where messages are among them. Masks remove no words.

        Talk in a dialogue block was read when the block was made.
        """
        removed = [entry for entry in log.entries if entry.id in gone]
        if not any(_speaks(entry) for entry in removed):
            return []
        ids = [each for entry in removed if entry.form not in ("dialogue", "summary") for each in entry.covers]
        return [*self._records.get(ids, caller.scopes).values()]

    def _summary(self, made: Replacement, caller: Caller) -> _Summary:
        """Prepare the summary as a record, so that later searches find the session by it."""
        details = summary_details(made.entry, self._clock())
        item = NewRecord(text=made.entry.text, kind="summary", role="user", details=details)
        draft = self._drafting.clean(item, caller)
        (text,) = self._drafting.make([draft.item], embedded=False)
        earlier = [each.record_id for each in self._logs.stand_ins(caller) if each.entry.id in made.replaces]
        return _Summary(entry=made.entry, draft=draft, text=text.text, earlier=tuple(filter(None, earlier)))


def _store(summary: _Summary, caller: Caller, now: Instant, transaction: Transaction) -> str | None:
    """Store a summary's record, which supersedes the one it grew from; return its id.

    Returns None where it stored nothing: its originals are in branches of which none sees the others.
    """
    draft = summary.draft
    made = record_of(draft, summary.text, caller, now, transaction)
    record = _seen_like(transaction.reach(summary.entry.covers), made, transaction)
    if record is None:
        return None
    transaction.insert(record, None, draft.item.entities, (), in_session=False)
    for record_id in summary.earlier:
        old = transaction.get(record_id)
        # One of another scope or branch holds there still: who sees it does not see this one.
        if old and old.holds and (old.scope, old.branch_id) == (record.scope, record.branch_id):
            transaction.update(after_succession(old, record.id, now))
    return record.id


def _seen_like(
    reach: Collection[tuple[Visibility, str | None]], summary: Record, transaction: Transaction
) -> Record | None:
    """Limit the summary to callers who see everything it covers; None where there is no such caller."""
    visibility: Visibility = "private" if any(seen != "shared" for seen, _ in reach) else "shared"
    hidden = transaction.open_branches() & {branch for _, branch in (*reach, (visibility, summary.branch_id)) if branch}
    tasks = transaction.tasks_near(summary.namespace, hidden)
    paths = {branch: {task.id for task in path_to(branch, tasks)} for branch in hidden}
    inmost = next((branch for branch, path in paths.items() if hidden <= path), None)
    if hidden and inmost is None:
        return None
    scope = scope_key(visibility, summary.namespace, summary.agent)
    return replace(summary, visibility=visibility, scope=scope, branch_id=inmost)


def summary_details(entry: Entry, made_at: Instant) -> Details:
    """Return a summary's details, in whole numbers of tokens and messages."""
    return {
        "type": "context_summary",
        "compacted_count": len(entry.covers),
        "compacted_at": iso(made_at),
        "original_token_count": entry.original_tokens,
        "summary_token_count": entry.tokens,
        "level": entry.level,
        "replacement": entry.id,
    }


def _speaks(entry: Entry) -> bool:
    return entry.kind == "message" and entry.form == "original" and entry.role in ("user", "assistant")
