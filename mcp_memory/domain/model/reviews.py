"""Defines a review: a group of records that somebody should look at together, and the ways to settle it."""

from dataclasses import dataclass
from typing import Literal, get_args

from mcp_memory.domain.model.records import Instant

ReviewKind = Literal["contradictions", "dependents", "guidance", "duplicates", "noted"]
"""Records that contradict or repeat each other; what depends on a changed one; guidance that refers to one;
and one that was noted, was used, and may be worth keeping."""
Way = Literal["merge", "supersedes", "both-true", "unrelated", "ask"]
WAYS: tuple[Way, ...] = get_args(Way)
MOST_RECORDS = 6
"""Records of one review: its 400 tokens hold a line of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A group of records to settle. `hashes` are those of the records' texts when it was made, in the same order.

    It waits until it has a `way`, and as long as each of its records holds and says what it said. `asked_in` and
    `settled_in` number the writes that put its question to the user and that settled it, 0 for none; `asked_by` and
    `agent` did it.
    """

    id: str
    kind: ReviewKind
    why: str
    made_at: Instant
    record_ids: tuple[str, ...]
    hashes: tuple[str, ...]
    question: str = ""
    asked_in: int = 0
    asked_by: str = ""
    way: Way | None = None
    settled_in: int = 0
    settled_at: Instant | None = None
    agent: str = ""
    reason: str = ""
