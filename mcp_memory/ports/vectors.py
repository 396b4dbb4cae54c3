"""Searching the truth by meaning. Does not say whether an index helps with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.retrieval.queries import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualCosine:
    """Mean and mean square of the cosines between a query and the records of a store; both 0 where there are none."""

    mean: float
    mean_square: float


class VectorStore(Protocol):
    """Searches the truth's vectors by meaning. Complete up to the newest committed change at the time of the call."""

    def search(
        self,
        vector: Vector,
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Ids and cosines in [-1, 1], best first; a record counts by its best window.

        Without `only`, live records alone are searched; with it, exactly those, whatever their status.
        """
        ...

    def similarities(self, vector: Vector, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, float]:
        """Cosines of the given records, those unknown left out."""
        ...

    def usual_cosine(self, vector: Vector, scopes: Sequence[str]) -> UsualCosine:
        """What cosines the live records of these scopes have to a query, over all or a fair sample of their windows.

        Depends on nothing but the records, so that all processes tell the same.
        """
        ...

    def alike(self, scopes: Sequence[str], record_ids: Sequence[str], least: float) -> Sequence[tuple[str, str, float]]:
        """Pairs of the records, in the order given, that begin alike, with their cosines of at least `least`.

        Of long texts the first windows are compared. Meant for some hundreds: every one is held against every other.
        """
        ...
