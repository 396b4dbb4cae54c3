"""Quotas: how much a project or a person may store, and how often a project may be asked."""

from dataclasses import dataclass

from mcp_memory.domain.model.scopes import USER_SCOPE
from mcp_memory.errors import QuotaReached

NAMESPACE = "namespace/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The most that a partition may hold, and the calls a minute to a namespace; None sets no limit.

    `partition` is "namespace/shop", "user/ann" or "user". `bytes` counts texts in UTF-8.
    """

    partition: str
    records: int | None = None
    bytes: int | None = None
    calls: int | None = None

    @property
    def is_empty(self) -> bool:
        return (self.records, self.bytes, self.calls) == (None, None, None)

    def refuse_more(self, records: int, size: int, held_records: int, held_bytes: int) -> None:
        """Raise QuotaReached where so many records and bytes more than it holds would be more than it may hold."""
        figures = (("records", self.records, held_records, records), ("bytes of text", self.bytes, held_bytes, size))
        for what, most, held, more in figures:
            if most is not None and more > 0 and held + more > most:
                raise QuotaReached(
                    f"{named(self.partition)} holds {held:,} of at most {most:,} {what}, and this is {more:,} more;"
                    " nothing was stored, and nothing that is stored was lost. Ask the person who runs the memory for"
                    " more (`mcp-memory projects quota`)."
                )


def named(partition: str) -> str:
    """Return a partition as people call it."""
    if partition.startswith(NAMESPACE):
        return f"The project {partition.removeprefix(NAMESPACE)!r}"
    person = partition.removeprefix(USER_SCOPE).removeprefix("/")
    return f"What belongs to the person {person!r}" if person else "What belongs to the owner"
