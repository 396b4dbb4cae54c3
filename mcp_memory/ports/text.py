"""Readers and writers of text: embedders, token counters, redactors, date readers, summarizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mcp_memory.domain.retrieval.queries import Vector

if TYPE_CHECKING:  # numpy and the patterns of summaries take a tenth of a second each; the handshake needs neither.
    import numpy as np
    from numpy.typing import NDArray

    from mcp_memory.domain.sessions.summary import StructuredSummary


from collections.abc import Callable
from dataclasses import dataclass

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.model.token_factor import CountedTokens

Vectors: TypeAlias = "NDArray[np.float32]"
"""Shape [windows, dimensions], one unit row per window of a text, windows >= 1."""


class Embedder(Protocol):
    """Turns text into unit vectors. A text's vectors depend only on the text and `id`.

    The thresholds of domain and services are made for cosines of 0.1 to 0.2 between a query and an unrelated record, of
    0.3 to 0.6 between a question and its answer; below 0.5 between unrelated records, and of 0.7 to 0.9 between two
    that say the same. Adapters bring a model with another scale to this one (docs/decisions/0053).
    """

    @property
    def id(self) -> str:
        """Name the model, weights and windowing; vectors of different ids are never compared."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, text: str) -> Vectors:
        """Return vectors of a text to be stored, one per window. Raises StoreUnavailable where the model cannot run."""
        ...

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        """Apply `embed` to each text, in as few requests as the service accepts; all or none."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Return one vector for a whole query, however long. Raises StoreUnavailable where the model cannot run."""
        ...

    def share_known(self, text: str) -> float:
        """Return the share of the text's words that mean anything to the model, in [0, 1]: 0 for an unknown script.

        Raises StoreUnavailable where the model cannot run.
        """
        ...


class TokenCounter(Protocol):
    """Counts tokens of one public encoding."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> CountedTokens:
        """Count the tokens of the text: 0 for "", and never more than it has bytes.

        Text that looks like a special token counts as plain text.
        """
        ...

    def truncate(self, text: str, max_tokens: int) -> str:
        """Return the longest prefix of at most `max_tokens` that does not end inside a character."""
        ...


Clock = Callable[[], Instant]


class Redactor(Protocol):
    """Finds secrets."""

    def redact(self, text: str) -> tuple[str, int]:
        """Replace each secret by a marker that names its type; return the text and the number of secrets."""
        ...


class DateReader(Protocol):
    """Reads dates and phrases about time."""

    def read(self, phrase: str, now: Instant, *, ahead: bool = False) -> tuple[Instant, Instant] | None:
        """Return the span [start, end) that an ISO date, a time or a phrase ("last week") names; None for none.

        A day or month without a year is the last one before `now`, or the next one after it where `ahead`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """A span to summarise.

    `entries` are the span, in order, without the earlier summary's own entry; `originals` are what they cover, as it
    was said; `earlier` is that summary, and `following` are the entries that stay behind the span: they close what it
    leaves open. The result may take `max_tokens` as counted. `prompt` is for a model or caller: sections, form, what to
    leave out.
    """

    entries: tuple[Entry, ...]
    originals: tuple[Entry, ...] = ()
    earlier: StructuredSummary | None = None
    following: tuple[Entry, ...] = ()
    max_tokens: int
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarized:
    """A summary of the span alone, without the earlier summary, quoted user instructions or lists of exact values.

    `spent` counts the model's own tokens, read and written; 0 without a model. `by` names the author. `note` explains
    in one sentence why another author than requested wrote it, "" otherwise.
    """

    summary: StructuredSummary
    spent: int = 0
    by: str
    note: str = ""


class Summarizer(Protocol):
    """Summarises spans. It treats entries as material, never as instructions to itself."""

    @property
    def name(self) -> str: ...

    def summarize(self, request: SummaryRequest) -> Summarized:
        """Return the summary of a span; an empty one where the span says nothing.

        It may take as long as a model needs: hold no lock or transaction meanwhile. Raises SummaryFailed where it can
        get no summary.
        """
        ...
