"""Leases among servers of one memory: a job of upkeep, and an index that they share, are one server's at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Jobs(Protocol):
    """Hands jobs out among the servers of a memory. Thread-safe. Any method raises StoreUnavailable."""

    def once(self, name: str, rest_seconds: float, step: Callable[[], bool]) -> bool | None:
        """Take one step of a job where it is due; return what `step` does: True where more may be left.

        After a step that left nothing it rests for `rest_seconds`, on all servers. Return None where another server is
        at it, which may have looked too early for you: ask again soon; and False where it rests. A server that is
        killed at a job keeps it for some minutes.
        """
        ...


class Leases(Protocol):
    """Lets one server at a time have what has a name, by the database's clock. Thread-safe.

    A holder notes a number with its lease, and loses it where another one took it, or noted anything else.
    Any method raises StoreUnavailable.
    """

    def take(self, name: str, seconds: float) -> int | None:
        """Take the lease, or go on with it, for so long; return the number noted last, None where another has it."""
        ...

    def renew(
        self, name: str, seconds: float, before: int, applied: int, reached: Mapping[str, int] | None = None
    ) -> bool:
        """Go on for so long and note a number in place of the one before. False where this is not its holder's.

        `reached` are numbers by names that stand beside it; None leaves them as they were.
        """
        ...

    def end(self, name: str) -> None:
        """Let others take the lease at once, where it is its holder's."""
        ...

    def doubt(self, name: str) -> None:
        """Note 0, also without the lease: who lost it amid its work says so, and its holder finds that out."""
        ...

    def held(self, name: str) -> tuple[int, Mapping[str, int]] | None:
        """Return the number that the present holder noted, and those beside it; None where nobody holds it."""
        ...
