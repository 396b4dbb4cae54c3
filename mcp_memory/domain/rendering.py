"""The text of a context: sections, items, the fence, and what keeps a stored text from passing for any of them."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mcp_memory.domain.records import LOG_KINDS, Kind, Record
from mcp_memory.domain.times import iso_day, iso_minute

SECTIONS = (
    "Identity", "Active Constraints", "Current Approach", "Task", "Current Focus", "Relevant Past Decisions",
    "Known Information", "Procedure", "Known Entities", "Relationships", "Relevant Content", "Past Experience",
    "Recent Activity", "Additional Context", "Note",
)  # fmt: skip
"""Titles in the order they stand, stable ones first so that a client's prompt cache survives."""

SECTION_OF_KIND: dict[Kind, str] = {
    "identity": "Identity",
    "censor": "Active Constraints",
    "decision": "Relevant Past Decisions",
    "fact": "Known Information",
    "procedure": "Procedure",
    "episode": "Past Experience",
    "summary": "Past Experience",
    "event": "Recent Activity",
    "message": "Recent Activity",
    "tool_call": "Recent Activity",
    "tool_result": "Recent Activity",
}
_FENCE = re.compile(r"<(?=\s*/?\s*memory-context)", re.IGNORECASE)
_LOOKS_LIKE_OURS = re.compile(r"^(\s*)(#{1,6}(?=\s)|-(?=\s*\[|[^\[]{0,40}\[t[0-9a-z]{6})|\[(?=r[0-9a-z]))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One item of a section, already rendered."""

    section: str
    text: str


def neutralise(text: str) -> str:
    """A stored text as data: it cannot close the fence, nor begin a line that reads as our heading or item."""
    if text.isprintable() and "<" not in text:  # One line without a fence, as most are.
        return text
    lines = _FENCE.sub("&lt;", text).splitlines() or [""]
    safe = [lines[0], *(_LOOKS_LIKE_OURS.sub(r"\1\\\2", line) for line in lines[1:])]
    return "\n  ".join(line for line in safe if line.strip())


def record_frame(record: Record) -> tuple[str, str]:
    """What stands before and after a record's text: `- [id kind date] speaker: ` and ` (outcome: …)`."""
    date = iso_minute(record.occurred_at) if record.kind in LOG_KINDS else iso_day(record.occurred_at)
    speaker = f"{neutralise(record.speaker)}: " if record.speaker else ""
    outcome = f" (outcome: {record.outcome})" if record.outcome else ""
    return f"- [{record.id} {record.kind} {date}] {_constraint(record)}{speaker}", outcome


def render(lines: Sequence[Line], request_digest: str = "") -> tuple[str, str]:
    """The fenced block and its id, a digest of its text and of the request."""
    body = _body(lines)
    digest = hashlib.blake2b(f"{request_digest}\n{body}".encode("utf-8", "replace"), digest_size=5).hexdigest()
    context_id = f"c{digest}"
    inside = f"{body}\n" if body else ""
    return f'<memory-context id="{context_id}">\n{inside}</memory-context>', context_id


def _body(lines: Sequence[Line]) -> str:
    parts: list[str] = []
    for section in SECTIONS:
        texts = [line.text for line in lines if line.section == section]
        if texts:
            title = "Procedures" if section == "Procedure" and len(texts) > 1 else section
            parts.append("\n".join([f"## {title}", *texts]))
    return "\n".join(parts)


def _constraint(record: Record) -> str:
    """How a censor begins: what it does, and when it applies."""
    if record.kind != "censor":
        return ""
    action = "BLOCK" if record.details.get("action") == "block" else "WARN"
    return f"**{action}:** "
