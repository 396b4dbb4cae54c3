"""Threads: records of one issue, and the newest state of it; and what takes an older one back. Pure functions."""

import re
from collections.abc import Mapping, Sequence

from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.text.entity_extraction import STANDARD

MOST_HOLDERS = 10
"""An entity that more records mention is a topic, no key."""
ALIKE = 0.95
"""The newest state comes before the best record where its evidence is at least this share of the best one's."""
# "#42", "rust#93628", "rust-lang/rfcs#2836", "PROJ-142", "CVE-2024-3094", as `entity_key` writes them
_ISSUE = re.compile(r"[\w./-]*#\d+|[a-z][a-z0-9]{1,9}-\d{2,6}|cve-\d{4}-\d{4,}")
# "decode_path_component", "src/app.py", "datasette.allowed"
_COMPOUND = re.compile(r"\w[_./]\w")
# e.g. 'Revert "New encode/decode functions"', as git writes it
_REVERT = re.compile(r"\bRevert \"([^\n]{8,200})\"")


def is_issue(key: str) -> bool:
    """Return True for the `entity_key` of an issue; not for "utf-8" or "sha-256"."""
    return bool(_ISSUE.fullmatch(key)) and not STANDARD.match(key.upper())


def is_exact(key: str) -> bool:
    """Return True for the `entity_key` of an issue, or of a name that only one thing has: an identifier, a path."""
    return bool(_COMPOUND.search(key)) or is_issue(key)


def takes_back(text: str, older: str) -> bool:
    """Return True where a text reverts what an older one did, and quotes its title: `Revert "Add a cache"`."""
    return any(title in older for title in _REVERT.findall(text))


def with_newest(
    bearing: Sequence[Fused], hits: Sequence[Fused], newest: Mapping[str, str], reverts: Mapping[str, str]
) -> tuple[Fused, ...]:
    """Return what bears on the query, the newest state of each thread at the place of its best record.

    `newest` and `reverts` name it, one of the `hits`, for each best record. It stands directly behind that one, or
    before it where both are nearly as good an answer, or where it `reverts` it.
    """
    known, ranked = {hit.id: hit for hit in hits}, list(bearing)
    for best_id, newest_id in {**newest, **reverts}.items():
        order = [hit.id for hit in ranked]
        if newest_id in order[: order.index(best_id)]:  # What reverts it may rank before it by itself.
            continue
        ranked = [hit for hit in ranked if hit.id != newest_id]
        place = next(place for place, hit in enumerate(ranked) if hit.id == best_id)
        best, found = ranked[place], known[newest_id]
        is_first = best_id in reverts or found.score >= ALIKE * best.score
        ranked.insert(place + (not is_first), found._replace(score=best.score))
    return tuple(ranked)
