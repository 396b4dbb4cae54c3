"""What reads and writes texts: embedders, token counters, secrets, dates, summarizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mcp_memory.domain.retrieval.queries import Vector

if TYPE_CHECKING:  # numpy takes a tenth of a second to import, and the handshake needs none of it.
    import numpy as np
    from numpy.typing import NDArray


from collections.abc import Callable
from dataclasses import dataclass

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.summary import StructuredSummary

Vectors: TypeAlias = "NDArray[np.float32]"
"""Shape [windows, dimensions], one unit row per window of a text, windows >= 1."""


class Embedder(Protocol):
    """Turns text into unit vectors. A text's vectors depend on nothing but the text and `id`."""

    @property
    def id(self) -> str:
        """Names model, weights and windowing; vectors of different ids are never compared."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, text: str) -> Vectors:
        """Vectors of a text to be stored, one per window. Raises StoreUnavailable where the model cannot run."""
        ...

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        """`embed` for each of the texts, in as few requests as a service takes; all or none."""
        ...

    def embed_query(self, text: str) -> Vector:
        """One vector for a whole query, however long. Raises StoreUnavailable where the model cannot run."""
        ...


class TokenCounter(Protocol):
    """Counts tokens of one public encoding."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int:
        """Tokens of the text; 0 for "". Text that looks like a special token counts as plain text."""
        ...

    def truncate(self, text: str, max_tokens: int) -> str:
        """The longest prefix of at most `max_tokens`, never ending inside a character."""
        ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """A span to be summarised.

    `entries` are the span, in order, without the earlier summary's own entry; `earlier` is what that one says. The
    summary may take `max_tokens` as counted. `prompt` is for who reads one: sections, form, what to leave out.
    """

    entries: tuple[Entry, ...]
    earlier: StructuredSummary | None = None
    max_tokens: int
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarized:
    """A summary of the span alone: nothing of the earlier one, no user's instruction quoted, no exact values listed.

    `spent` is in the model's own tokens, read and written; 0 where none was asked. `by` names who made it. `note` says
    in one sentence why that is not who was asked, "" where it is.
    """

    summary: StructuredSummary
    spent: int = 0
    by: str
    note: str = ""


class Summarizer(Protocol):
    """Summarises spans. What entries say is material, never an instruction to the summarizer."""

    @property
    def name(self) -> str: ...

    def summarize(self, request: SummaryRequest) -> Summarized:
        """The summary of a span; an empty one where the span says nothing.

        May take as long as a model needs; never hold a lock or a transaction meanwhile. Raises SummaryFailed where no
        summary can be had.
        """
        ...
