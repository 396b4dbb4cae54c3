"""What changed in the truth, as the indexes made from it are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_memory.domain.model.records import Instant
from mcp_memory.ports.encoders import Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorChange:
    """One record's state in the vectors' view of the truth. `vectors` is None where the record was erased."""

    change: int
    id: str
    scope: str
    is_live: bool
    vectors: Vectors | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TermChange:
    """One record's state in the keywords' view of the truth.

    `terms` is what `domain.text.packed_terms` makes of its text, None where the record was erased; `session` that of a
    dialogue turn, None for anything else.
    """

    change: int
    id: str
    scope: str
    is_live: bool
    terms: bytes | None
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChange:
    """What filters ask of one record, as it is now; without a scope where it was erased."""

    change: int
    id: str
    scope: str | None
    is_live: bool
    kind: str | None
    occurred_at: Instant
    task_id: str | None
    session_id: str | None
    branch_id: str | None
    pinned: bool
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """One record's links as they are now; none where it was erased. Entities go by their keys.

    `aliases` pairs an entity with its other name; `relations` hold source, type, target, weight.
    """

    change: int
    id: str
    scope: str
    is_live: bool
    is_erased: bool = False
    branch_id: str | None = None
    task_id: str | None = None
    superseded_by: str | None = None
    mentions: Sequence[str] = ()
    aliases: Sequence[tuple[str, str]] = ()
    relations: Sequence[tuple[str, str, str, float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLink:
    """A task, the scope that sees it, and the task it is part of."""

    id: str
    scope: str
    parent_id: str | None
