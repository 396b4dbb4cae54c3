"""Secrets and dates in a text, and the present that dates are read against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mcp_memory.domain.model.records import Instant

Clock = Callable[[], Instant]


class Redactor(Protocol):
    """Finds secrets."""

    def redact(self, text: str) -> tuple[str, int]:
        """The text with each secret replaced by a marker that names its type, and how many there were."""
        ...


class DateReader(Protocol):
    """Reads dates and phrases about time."""

    def read(self, phrase: str, now: Instant) -> tuple[Instant, Instant] | None:
        """The span [start, end) that an ISO date, a time or a phrase ("last week") names; None where it names none."""
        ...
