"""The log of reads: which request gave which records to whom. It holds ids and names, never a text or a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcp_memory.domain.model.records import Instant

ALL_RECORDS: Final = "*"
"""Takes the place of an id where a request gave every record of the memory, as an export does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntry:
    """A request that gave records.

    `way` is how it came in: "tool recall", "hook SessionStart", "page /record/{id}", "resource record", "command show".
    `person` is the one the agent works for, "" the owner of the machine's memory; `token` is the name of the token that
    let the request in, "" where none was needed. `ids` are the records given, in their order, each once.
    """

    request: str
    at: Instant
    way: str
    namespace: str
    agent: str
    person: str
    token: str
    session_id: str
    ids: tuple[str, ...]


class ReadStore(Protocol):
    """Keeps the log of reads for all processes of the memory. Any method raises StoreUnavailable."""

    def add(self, entries: Sequence[ReadEntry]) -> None:
        """Keep these entries. Telemetry: a power cut may lose them, and they advance no revision."""
        ...

    def prune(self, before: Instant) -> None:
        """Delete the entries of requests before that time."""
        ...

    def entries(
        self, namespace: str, limit: int, *, agent: str = "", before: tuple[Instant, str] | None = None
    ) -> Sequence[ReadEntry]:
        """Return the latest entries of a namespace, or of one agent in it, newest first.

        With `before`, those that come after the entry of that time and request.
        """
        ...

    def of_record(
        self, record_id: str, limit: int, *, namespace: str = "", agent: str = "",
        before: tuple[Instant, str] | None = None,
    ) -> Sequence[ReadEntry]:  # fmt: skip
        """Return the latest entries that gave a record, newest first; "" means any namespace, and any agent.

        `before` is that of `entries`.
        """
        ...

    def between(self, since: Instant, until: Instant) -> Iterator[ReadEntry]:
        """Yield the entries of every namespace from `since` on and before `until`, oldest first."""
        ...
