"""Reads which types of events a request asks for, in the spellings that are stored."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from mcp_memory.domain.context.rendering import has_headline
from mcp_memory.domain.model.records import Kind
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.retrieval import FilterIndex

MOST_TYPES, MOST_TOLD = 1_000, 20
"""Stored types that are looked through, and those that an error lists, the most common ones."""
_EVENTS: frozenset[Kind] = frozenset({"event"})


def of_event_types(where: RecordFilter, asked: Iterable[str], filters: FilterIndex) -> RecordFilter:
    """Return the filter for events of these types alone; nothing changes where none is asked for.

    A type is meant in any case and spelling: "file change" is also file_change and FileChange.

    Raises:
        InvalidRequest: the filter's kinds leave events out, or a type is neither stored nor one that events are read
            by (read, write, command, error). The message lists the stored types.
    """
    wanted = {_folded(each): each for each in asked}
    if not wanted:
        return where
    if where.kinds and "event" not in where.kinds:
        raise InvalidRequest("event_types finds events alone, and kinds leaves them out; leave one of the two out.")
    visible = RecordFilter(scopes=where.scopes, hidden_branches=where.hidden_branches, kinds=_EVENTS)
    visible = replace(visible, include_inactive=True)
    stored: defaultdict[str, list[str]] = defaultdict(list)
    counted = filters.counts(filters.passing(visible), where.scopes, "event_type", MOST_TYPES)
    for each in counted:
        stored[_folded(each)].append(each)
    for folded, each in wanted.items():
        if folded not in stored and not has_headline(each):
            known = ", ".join(one_line(name) for name in [*counted][:MOST_TOLD])
            there = f"types here: {known}" if known else "no event here has a type"
            raise InvalidRequest(f"No event is of type {one_line(each)!r}; {there}.")
    types = frozenset(name for folded, each in wanted.items() for name in stored.get(folded, [each]))
    return replace(where, kinds=_EVENTS, event_types=types)


def _folded(event_type: str) -> str:
    return "".join(filter(str.isalnum, event_type.casefold())) or event_type
