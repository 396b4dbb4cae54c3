"""Groups of records to review: the one queue, which is part of the truth."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from mcp_memory.domain.model.reviews import Review, ReviewKind
from mcp_memory.domain.model.scopes import RecordFilter


class ReviewStore(Protocol):
    """Reads the queue. Thread-safe. Any method raises StoreUnavailable."""

    def waiting(
        self, where: RecordFilter, task_id: str | None = None, session: str | None = None, record_id: str | None = None
    ) -> Sequence[Review]:
        """Return the groups that wait and whose records all pass, oldest first; those put to the user come last.

        With a task or a session (a `session_key`), only those with a record of either; with a record, those it is in.
        """
        ...

    def settled(self, where: RecordFilter, limit: int) -> Sequence[Review]:
        """Return the groups that were settled last and whose records all pass, the latest first."""
        ...

    def reviewed(self, record_ids: Collection[str], kind: ReviewKind) -> frozenset[str]:
        """Return those of the records that are in a group of this kind, waiting or settled."""
        ...

    def contradicting(self, record_ids: Collection[str]) -> Sequence[tuple[str, str]]:
        """Return each of the records with each other one that a waiting group says to contradict it, the latest first.

        Both hold, and say what they said then. It checks no scope.
        """
        ...

    def doubted(self, since: int, until: int) -> Sequence[tuple[str, str, Sequence[str]]]:
        """Return each ground with the records that its change, after `since` and up to `until`, put in doubt.

        They hold, and are all of one scope, which comes first: a ground with dependents in several is there several
        times.
        """
        ...

    def looked_at(self) -> int:
        """Return the number of the newest change that upkeep has looked at."""
        ...

    def note_looked_at(self, change: int) -> None:
        """Note that number. It may be lost, and advances no revision."""
        ...


class ReviewWriter(Protocol):
    """Changes the queue, as part of an atomic write. It checks no scope. Erasing a record removes its groups."""

    def get_review(self, review_id: str) -> Review | None: ...

    def reviews_of(self, record_ids: Collection[str]) -> Sequence[Review]:
        """Return the groups, waiting or settled, that hold one of these records, oldest first."""
        ...

    def reviews_of_write(self, change: int) -> Sequence[Review]:
        """Return the groups that this write settled or put to the user."""
        ...

    def put_review(self, review: Review) -> None:
        """Add a group, or store what became of one; its records never change."""
        ...

    def drop_review(self, review_id: str) -> None:
        """Remove a group that another one includes."""
        ...
