"""Tells people which store answers a search by meaning, and how far Chroma's index is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.stores.vectors.chroma.location import IndexPlace, Mode
from mcp_memory.stores.vectors.exact import ExactVectorStore

MOST_PENDING = 2_000
"""The most unapplied changes that are searched beside the index; beyond, exact search alone is as fast."""
LACKS_CHROMA = (
    "Chroma is not installed: install mcp-memory-stack, which brings it, or set MCP_MEMORY_SEMANTIC_STORE to exact"
)
_NAMES: Mapping[Mode, str] = {
    "embedded": "Chroma",
    "http": "Chroma on its server",
    "cloud": "Chroma Cloud",
    "pgvector": "pgvector",
}
Stage = Literal["open", "building", "failed", "idle", "elsewhere"]
"""The index's stage: this process may ask it, fills it, cannot use it, closed it, or leaves it to servers."""


def account(
    exact: ExactVectorStore,
    place: IndexPlace,
    scopes: Sequence[str],
    stage: Stage,
    *,
    applied: Mapping[str, int],
    filled: int = 0,
) -> str:
    """Say who answers in these scopes; a clause without a full stop.

    `applied` is the newest change of each scope that is in the index; `filled` counts the vectors that one under
    construction holds.
    """
    sizes = {scope: exact.size(scope) for scope in dict.fromkeys(scopes)}
    exactly = f"exact search over {counted(sum(sizes.values()), 'vector')}"
    if place.mode == "off":
        return f"{exactly}, as {'Chroma is not installed' if place.lacks_chroma else 'the settings say'}"
    if place.lacks_chroma:
        return f"{exactly}, as {LACKS_CHROMA}"
    name = _NAMES[place.mode]
    large = [scope for scope, size in sizes.items() if size >= place.least_vectors]
    if not large:
        return f"{exactly}; {name} takes over from {place.least_vectors:,} in one scope"
    if stage == "failed":
        return f"{exactly}, as {name} cannot be used at present"
    if stage == "idle":
        return f"{exactly}; the next search brings {name} back"
    pending = pending_in(exact, [scope for scope in large if sizes[scope]], applied)
    if stage != "building" and pending is not None:
        return f"{name}, {_indexed(exact, sizes, large, pending)}"
    if stage == "elsewhere":
        return f"{exactly}; a server has yet to fill the index of {name}"
    return f"{exactly} until {name} has indexed them ({filled:,} so far)"


def pending_in(exact: ExactVectorStore, scopes: Sequence[str], applied: Mapping[str, int]) -> set[str] | None:
    """Return the ids of records that the index has yet to apply; None for too many, or where it lacks a scope."""
    pending = set[str]()
    for scope in scopes:
        changed = exact.changed_since(scope, applied[scope], MOST_PENDING) if applied.get(scope) else None
        if changed is None:
            return None
        pending.update(changed)
    return pending if len(pending) <= MOST_PENDING else None


def _indexed(exact: ExactVectorStore, sizes: Mapping[str, int], large: Sequence[str], pending: Collection[str]) -> str:
    """Count the vectors of large scopes without those of the records `pending`, among all of them."""
    waiting = sum(len(vectors) for scope in large for vectors in exact.live_vectors(scope, pending).values())
    indexed, total = sum(sizes[scope] for scope in large) - waiting, sum(sizes.values())
    if indexed == total:
        return f"all {counted(total, 'vector')} indexed"
    return f"{indexed:,} of {total:,} indexed; the rest is searched exactly"
