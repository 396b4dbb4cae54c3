"""Searching the truth by words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.domain.model.ids import RecordSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Rarity:
    """How many live records there are, and how much information a query's words are together, in nats."""

    records: int
    information: float


class KeywordStore(Protocol):
    """Ranks records by the words they share with a query. Complete up to the newest committed change at the call.

    Terms are words as `domain.text.query_terms` finds them. Their stems are what counts, and words of one stem count
    once. How rare a word is and how long records are is taken over the live records of the given scopes together. A
    dialogue turn is read on: words said directly before or after it, in its session, count for it in part.
    """

    def search(
        self,
        terms: Sequence[str],
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Ids and nats of information (> 0, at most all of the query's), best first, of equal ones the newest first.

        Without `only`, live records alone are searched; with it, exactly those, whatever their status.
        """
        ...

    def scores(
        self,
        terms: Sequence[str],
        scopes: Sequence[str],
        record_ids: Collection[str],
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Scores of the given records, those left out that are unknown or have none of the terms.

        What is excluded, here as in `search`, is not read on into either.
        """
        ...

    def rarity(self, terms: Sequence[str], scopes: Sequence[str]) -> Rarity:
        """How much the terms would tell, if a record had all of them."""
        ...

    def neighbours(self, record_ids: Collection[str]) -> Mapping[str, Sequence[str]]:
        """For each dialogue turn, the live turns directly before and after it in its session; no others are named."""
        ...
