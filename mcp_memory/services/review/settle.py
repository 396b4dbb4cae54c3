"""Settle: ends a review, by a person or an agent, in one write that `Undo` takes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.memory.redaction import clean_text
from mcp_memory.domain.model.lifecycle import promoted, with_more_said
from mcp_memory.domain.model.records import HOLDS, NewRecord, Record, rewritten, searchable_text
from mcp_memory.domain.model.reviews import Review, Way
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.sessions.unsupported_values import lost
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.micro_and_summary import remeasured
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.domain.text.times import iso_day
from mcp_memory.domain.text.words import content_hash
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock, Embedder, Redactor, TokenCounter, Vectors
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.review.embedding import embedded
from mcp_memory.services.review.enqueue import changed_in
from mcp_memory.services.review.supersede import supersede
from mcp_memory.services.tasks.branch_visibility import require_own

VALUES_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """The request to settle a group. `keep` names the record that stays, `when` when or where it holds."""

    id: str
    settle: Way
    keep: str = ""
    text: str = ""
    when: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A settled group, and its records as they are now. `change` numbers the write, for an undo."""

    review: Review
    records: tuple[Record, ...]
    change: int


class Settle:
    """Thread-safe; redaction and embedding happen before the write lock is taken."""

    def __init__(
        self, records: RecordStore, embedder: Embedder, counter: TokenCounter, redactor: Redactor, clock: Clock
    ) -> None:
        self._records = records
        self._embedder = embedder
        self._counter = counter
        self._redactor = redactor
        self._clock = clock

    def __call__(self, settling: Settling, caller: Caller) -> Settled:
        """Settle a group: all of it, or nothing.

        `merge` keeps one record, with the new text or its own, and supersedes the others by it; `supersedes` keeps one
        as it is; `both-true` keeps all; `unrelated` is remembered for ever; `ask` lets the group wait for
        the user, with the reason as the question. What is kept is no longer only noted, and notes `when` it holds.

        Raises:
            NotFound: no such group for this caller.
            InvalidRequest: an argument is missing, or a merge loses an exact value.
            Conflict: it was settled or changed meanwhile, or a record is only read here.
        """
        settling = replace(
            settling,
            text=self._clean(settling.text),
            when=self._clean(settling.when),
            reason=self._clean(settling.reason),
        )
        vectors = self._vectors(settling, caller)
        with self._records.write(caller, settling.reason) as transaction:
            review, records = _require(settling.id, caller, transaction)
            self._apply(settling, vectors, records, caller, transaction)
            for each in _vouched_for(settling, review):
                transaction.vouch(each)
            ended = self._ended(review, settling, caller, transaction.number)
            transaction.put_review(ended)
            now = tuple(record for each in records if (record := transaction.get(each)))
        return Settled(review=ended, records=now, change=transaction.number)

    def _apply(
        self,
        settling: Settling,
        vectors: Vectors | None,
        records: Mapping[str, Record],
        caller: Caller,
        transaction: Transaction,
    ) -> None:
        now = self._clock()
        if settling.settle == "both-true":
            for record in records.values():
                _update(record, _holding(record, settling.when), now, transaction)
        if settling.settle not in ("merge", "supersedes"):
            return
        kept = records.get(settling.keep)
        if kept is None:
            raise InvalidRequest(f"keep must name the record that stays: {', '.join(records)}.")
        others = [record for record in records.values() if record.id != kept.id]
        merged = _holding(kept, settling.when)
        if settling.settle == "merge":
            merged = self._merged(merged, others, settling.text, caller)
            _refuse_loss(merged.text, list(records.values()))
            if merged.text != kept.text:
                _refuse_twin(merged, transaction)
        _update(kept, merged, now, transaction, vectors)
        supersede([record.id for record in others], merged, caller, now, transaction)

    def _merged(self, kept: Record, others: Sequence[Record], text: str, caller: Caller) -> Record:
        for other in others:
            said = NewRecord(text=other.text, importance=other.importance, tags=other.tags, pinned=other.pinned)
            kept = with_more_said(kept, said)
        if not text or text == kept.text:
            return kept
        return remeasured(rewritten(kept, text, caller.agent), self._counter.count, self._counter.truncate)

    def _vectors(self, settling: Settling, caller: Caller) -> Vectors | None:
        if settling.settle != "merge" or not settling.text:
            return None
        kept = self._records.get([settling.keep], caller.scopes).get(settling.keep)
        if kept is None or kept.text == settling.text:
            return None
        return embedded(self._embedder, searchable_text(settling.text, kept.speaker, kept.details))

    def _ended(self, review: Review, settling: Settling, caller: Caller, change: int) -> Review:
        if settling.settle == "ask":
            if not settling.reason:
                raise InvalidRequest("reason is empty; say what to ask the user.")
            if review.question:
                raise Conflict(f"Group {review.id} waits for the user already: {review.question}")
            return replace(review, question=settling.reason, asked_in=change, asked_by=caller.agent)
        return replace(
            review,
            way=settling.settle,
            settled_in=change,
            settled_at=self._clock(),
            agent=caller.agent,
            reason=settling.reason,
        )

    def _clean(self, text: str) -> str:
        return clean_text(text, self._redactor.redact).text.strip()


def _vouched_for(settling: Settling, review: Review) -> Sequence[str]:
    """Return the records that the settlement says are right, whatever they stand on."""
    if settling.settle == "both-true" or (settling.settle == "unrelated" and review.kind == "dependents"):
        return review.record_ids
    return [settling.keep] if settling.settle in ("merge", "supersedes") else ()


def _refuse_loss(text: str, records: Sequence[Record]) -> None:
    """Raise InvalidRequest where the text lacks an exact value of a record that it is to replace."""
    if gone := lost(text, [record.text for record in records]):
        values = ", ".join(f"{each!r}" for each in gone[:VALUES_TOLD])
        raise InvalidRequest(
            f"The merged text loses {values}; give a `text` that says it, or settle as supersedes if it is wrong."
        )


def _require(review_id: str, caller: Caller, transaction: Transaction) -> tuple[Review, Mapping[str, Record]]:
    """Return a group that waits, with its records, which the caller may all change."""
    review = transaction.get_review(review_id)
    unknown = NotFound(f"No group {review_id!r} to review; memory://review shows what waits. Nothing was changed.")
    if review is None:
        raise unknown
    try:
        records = {each: require_own(each, caller, transaction) for each in review.record_ids}
    except NotFound:
        raise unknown from None
    if review.way is not None:
        by, day = author(review.agent, caller) or "you", iso_day(review.settled_at or 0.0)
        raise Conflict(
            f"Group {review_id} was settled as {review.way} by {by} on {day}, change {review.settled_in}; `undo` takes"
            " that back. Nothing was changed."
        )
    if changed := changed_in(review, transaction):
        raise Conflict(
            f"Group {review_id} is no longer as it was: {', '.join(changed)} changed meanwhile; `recall` shows it."
            " Nothing was changed."
        )
    return review, records


def _holding(record: Record, when: str) -> Record:
    """Return the record as one that somebody vouches for, with the words that say when or where it holds."""
    kept = promoted(record)
    return replace(kept, details={**kept.details, HOLDS: when}) if when else kept


def _update(
    before: Record, after: Record, now: float, transaction: Transaction, vectors: Vectors | None = None
) -> None:
    if after != before:
        found = found_entities(after.text, after.speaker, after.details) if vectors is not None else ()
        transaction.update(replace(after, updated_at=now), vectors, found)


def _refuse_twin(record: Record, transaction: Transaction) -> None:
    twin = transaction.find_text(record.scope, content_hash(record.text))
    if twin is not None and twin.id != record.id:
        raise Conflict(f"Record {twin.id} has this text already; keep that one, or word it otherwise.")
