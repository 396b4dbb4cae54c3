"""What a filter comes to for a store that knows nothing of records but their ids, scopes and liveness."""

from dataclasses import dataclass

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.records import RecordReader
from mcp_memory.ports.retrieval import FilterIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """Which records a search may return: those of `only`, or all live ones where that is None, without `exclude`.

    `exclude` names what nobody may learn of even where `only` leaves it out already.
    """

    only: RecordSet | None
    exclude: frozenset[str]


def eligible(where: RecordFilter, records: RecordReader, filters: FilterIndex) -> Eligible:
    """Resolve a selective filter to the records that pass; any other leaves the choice to the store's own scopes."""
    # Open branches hold few records: leaving those out is cheaper than naming all others.
    hidden = records.ids_in_branches(where.hidden_branches) if where.hidden_branches else frozenset[str]()
    exclude = where.exclude | hidden
    if not where.is_selective:
        return Eligible(only=None, exclude=exclude)
    return Eligible(only=filters.passing(where), exclude=exclude)
