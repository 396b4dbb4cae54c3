"""Whoever writes down in a few lines what a span of a session came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mcp_memory.domain.model.session_log import Entry
    from mcp_memory.domain.sessions.summary import StructuredSummary


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
