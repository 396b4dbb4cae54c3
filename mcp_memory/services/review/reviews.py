"""Reviews: lets groups of records wait for a look at all of them together, and offers each once a session."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.reviews import Review, ReviewKind
from mcp_memory.domain.model.scopes import Caller, RecordFilter, session_key
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.reviews import ReviewStore
from mcp_memory.ports.text import Clock
from mcp_memory.services.review.enqueue import enqueue
from mcp_memory.services.tasks.branch_visibility import hidden_branches, is_visible

if TYPE_CHECKING:
    from mcp_memory.services.review.settle import Settled

SURE_CERTAINTY = 0.85
"""The certainty from which a contradiction waits for a review, and is marked where its records are shown."""
OFFERS_KEPT = 10_000
"""Offers remembered, the latest: none is made twice in a session."""
Found = tuple[ReviewKind, Sequence[str], str]
"""The kind of a group, its records, the one that gives the occasion first, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A group that waits, with its records."""

    review: Review
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictingRecord:
    """A record that may contradict another one, why, in a few words, and how certain that is, in (0, 1]."""

    id: str
    text: str
    why: str
    certainty: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A record's contradictions, the most certain first, the ids of records that say the same, and those to judge."""

    conflicts: tuple[ConflictingRecord, ...] = ()
    similar: tuple[str, ...] = ()
    near: tuple[Record, ...] = ()


class Reviews:
    """The queue as one caller sees it: groups whose records it all reads and may change. Thread-safe."""

    def __init__(self, records: RecordStore, reviews: ReviewStore, clock: Clock) -> None:
        self._records = records
        self._reviews = reviews
        self._clock = clock
        self._offered: dict[tuple[str, str], None] = {}
        self._offering = threading.Lock()

    def waiting(
        self,
        caller: Caller,
        *,
        task_id: str | None = None,
        session: str | None = None,
        record_id: str | None = None,
    ) -> list[Waiting]:
        """Return the groups that wait, oldest first, those put to the user last.

        With a task or a session (a `session_key`), only groups with a record of either; with a record, those it is in.
        """
        where = self.changeable(caller)
        return self._visible(self._reviews.waiting(where, task_id, session, record_id), where, caller)

    def settled(self, caller: Caller, limit: int) -> list[Settled]:
        """Return the groups that were settled last, at most so many, the latest first."""
        from mcp_memory.services.review.settle import Settled

        where = replace(self.changeable(caller), include_inactive=True)
        return [
            Settled(review=each.review, records=each.records, change=each.review.settled_in)
            for each in self._visible(self._reviews.settled(where, limit), where, caller)
        ]

    def changeable(self, caller: Caller) -> RecordFilter:
        """Return the filter for the records that the caller may change."""
        own = tuple(caller.scope(each) for each in ("shared", "private", "user"))
        return RecordFilter(scopes=own, hidden_branches=hidden_branches(self._records, caller))

    def _visible(self, found: Sequence[Review], where: RecordFilter, caller: Caller) -> list[Waiting]:
        """Return groups with their records, where the caller sees all of them."""
        records = self._records.get([each for review in found for each in review.record_ids], where.scopes)
        groups = [
            Waiting(review=review, records=tuple(records[each] for each in review.record_ids))
            for review in found
            if records.keys() >= set(review.record_ids)
        ]
        hidden = where.hidden_branches
        return [each for each in groups if all(is_visible(record, caller, hidden) for record in each.records)]

    def next_of(self, task_id: str, caller: Caller) -> Waiting | None:
        """Return a group of the task or of the caller's session that this session was not offered yet."""
        groups = self.waiting(caller, task_id=task_id, session=session_key(caller.agent, caller.session_id))
        return next((each for each in groups if self._offers(each.review, caller)), None)

    def queue(self, found: Sequence[Found | None], caller: Caller) -> list[str]:
        """Let groups wait; return the id of each, "" for none and for one that this session was offered already."""
        now = self._clock()
        with self._records.write(caller) as transaction:
            put = [enqueue(*each, now, transaction) if each else None for each in found]
        return [each.id if each and self._offers(each, caller) else "" for each in put]

    def _offers(self, review: Review, caller: Caller) -> bool:
        """Note the offer; return False for one made before, and for what waits for the user."""
        offer = (session_key(caller.agent, caller.session_id), review.id)
        with self._offering:
            if review.question or offer in self._offered:
                return False
            self._offered[offer] = None
            while len(self._offered) > OFFERS_KEPT:
                del self._offered[next(iter(self._offered))]
        return True


def group_of(record_id: str, conflicts: Sequence[ConflictingRecord]) -> Found | None:
    """Return the group that a record should wait in, with what it contradicts beyond doubt; None where nothing is."""
    sure = [each for each in conflicts if each.certainty >= SURE_CERTAINTY]
    if not sure:
        return None
    why = f"The first may contradict: {'; '.join(each.why for each in sure)}."
    return "contradictions", (record_id, *(each.id for each in sure)), why
