"""Turns a record filter into the id sets that an index can apply."""

from dataclasses import dataclass

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.records import RecordReader
from mcp_memory.ports.retrieval import FilterIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """The records that a search may return: those in `only`, or all live ones where that is None, without `exclude`.

    `exclude` names hidden records even where `only` leaves them out already.
    """

    only: RecordSet | None
    exclude: frozenset[str]


def eligible(where: RecordFilter, records: RecordReader, filters: FilterIndex) -> Eligible:
    """Resolve a selective filter to the records that pass; any other leaves the choice to the store's scopes."""
    # Open branches hold few records, as do other sessions' notes: excluding those is cheaper than listing all others.
    hidden = records.ids_in_branches(where.hidden_branches) if where.hidden_branches else frozenset[str]()
    noted = filters.noted_elsewhere(where.noted_in, where.scopes) if where.noted_in else frozenset[str]()
    exclude = where.exclude | hidden | noted
    if not where.is_selective:
        return Eligible(only=None, exclude=exclude)
    return Eligible(only=filters.passing(where), exclude=exclude)
