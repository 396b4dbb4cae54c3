"""Spans of the work for a request, from its entry to the statements of the store, for a collector of traces.

Without a collector a span costs a fifth of a microsecond, and no object is made. A span holds ids and counts, no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

Told = Mapping[str, int | str]
"""A span says these: counts, and ids of at most a hundred characters without blanks."""


class WorkSpan(Protocol):
    """A piece of work that is under way."""

    def tell(self, **told: int | str) -> None:
        """Add what is known by now."""
        ...


class Tracer(Protocol):
    """Collects spans. Thread-safe; a span that begins within another one is part of it, also in a copied context."""

    def __call__(self, name: str, parent: Mapping[str, str] | None, told: Told) -> AbstractContextManager[WorkSpan]:
        """Begin a span. `parent` are the headers of W3C Trace Context by which a client names its own span, if any."""
        ...


class _Untraced:
    """A span that nobody collects."""

    def tell(self, **told: int | str) -> None:
        pass

    def __enter__(self) -> _Untraced:
        return self

    def __exit__(self, *failure: object) -> None:
        pass


class _Collector:
    """The place of the tracer that collects the spans of this process."""

    tracer: Tracer | None = None


_UNTRACED = _Untraced()
_collector = _Collector()


def use_tracer(tracer: Tracer | None) -> None:
    """Collect the spans of this process from now on; None ends that."""
    _collector.tracer = tracer


def traced(
    what: str, which: str = "", /, *, parent: Mapping[str, str] | None = None, **told: int | str
) -> AbstractContextManager[WorkSpan]:
    """Return the span of a piece of work, as long as the context lasts: "recall", or "sql" and a statement's name.

    `parent` is that of `Tracer`.
    """
    tracer = _collector.tracer
    return _UNTRACED if tracer is None else tracer(f"{what} {which}".rstrip(), parent, told)
