"""The changes of the truth, as the indexes made from it read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_memory.domain.model.records import Instant
from mcp_memory.ports.text import Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChange:
    """One record as it is now; nothing but id and scope where it `is_erased`.

    `terms` is what `domain.text.words.packed_terms` makes of its text, `vectors` are None where it has none by the
    embedder asked for. A turn is part of a dialogue. Entities go by their keys: `aliases` pairs one with its other
    name, `relations` hold source, type, target, weight.
    """

    change: int
    id: str
    scope: str
    is_live: bool
    is_erased: bool = False
    kind: str | None = None
    occurred_at: Instant = 0.0
    task_id: str | None = None
    session_id: str | None = None
    branch_id: str | None = None
    pinned: bool = False
    tags: tuple[str, ...] = ()
    superseded_by: str | None = None
    is_turn: bool = False
    terms: bytes | None = None
    vectors: Vectors | None = None
    mentions: Sequence[str] = ()
    aliases: Sequence[tuple[str, str]] = ()
    relations: Sequence[tuple[str, str, str, float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLink:
    """A task, the scope that sees it, and the task it is part of."""

    id: str
    scope: str
    parent_id: str | None
