"""Micro and summary: the short forms every record has from the moment it is stored, made without a model."""

import re
from collections.abc import Callable
from dataclasses import dataclass

MICRO_TOKENS = 20
SUMMARY_TOKENS = 100

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？])|\n+")
_CLAUSE_END = re.compile(r"[,;:，；：]\s|\s[-–—(]\s?")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortForms:
    """Texts of at most 20 and 100 tokens, by the counter they were made with."""

    micro: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredText:
    """A text's short forms, and the tokens of all three by the counter they were made with."""

    micro: str
    summary: str
    text_tokens: int
    summary_tokens: int
    micro_tokens: int


def measured(text: str, count: Callable[[str], int], truncate: Callable[[str, int], str]) -> MeasuredText:
    """Everything about a text's length that a record keeps; a form that is the text itself is not counted again."""
    forms = short_forms(text, count, truncate)
    text_tokens = count(text)
    return MeasuredText(
        micro=forms.micro,
        summary=forms.summary,
        text_tokens=text_tokens,
        summary_tokens=text_tokens if forms.summary == text else count(forms.summary),
        micro_tokens=text_tokens if forms.micro == text else count(forms.micro),
    )


def short_forms(text: str, count: Callable[[str], int], truncate: Callable[[str, int], str]) -> ShortForms:
    """Whole sentences from the start as far as they fit; a text that fits is its own summary."""
    head = _SPACE.sub(" ", text[:4000]).strip()
    # One token is at least one byte, so a text shorter than the limit needs no counting.
    summary = text.strip() if _fits(text.strip(), SUMMARY_TOKENS, count) else ""
    if not summary:
        sentences = [_SPACE.sub(" ", s).strip() for s in _SENTENCE_END.split(text[:4000])]
        summary = _leading([s for s in sentences if s], SUMMARY_TOKENS, count, truncate)
    micro = head if head == text.strip() and _fits(head, MICRO_TOKENS, count) else ""
    if not micro:
        first = next((s for s in _SENTENCE_END.split(head) if s.strip()), head).strip()
        micro = first if _fits(first, MICRO_TOKENS, count) else _cut(first, MICRO_TOKENS, count, truncate)
    return ShortForms(micro=micro, summary=summary)


def _fits(text: str, limit: int, count: Callable[[str], int]) -> bool:
    return len(text.encode("utf-8", "replace")) <= limit or (len(text) <= limit * 40 and count(text) <= limit)


def _leading(sentences: list[str], limit: int, count: Callable[[str], int], truncate: Callable[[str, int], str]) -> str:
    kept = ""
    for sentence in sentences:
        longer = f"{kept} {sentence}".strip()
        if not _fits(longer, limit - 1, count):
            break
        kept = longer
    return f"{kept} …" if kept else _cut(" ".join(sentences), limit, count, truncate)


def _cut(text: str, limit: int, count: Callable[[str], int], truncate: Callable[[str, int], str]) -> str:
    """The longest prefix that ends where a reader would pause: at a clause in its second half, else at a word."""
    prefix = truncate(text[: limit * 40], limit - 2)
    clauses = [m.start() for m in _CLAUSE_END.finditer(prefix) if m.start() > len(prefix) // 2]
    word = prefix.rfind(" ")
    end = clauses[-1] if clauses else word if word > len(prefix) // 2 else len(prefix)
    shorter = prefix[:end].rstrip() + "…"
    return shorter if count(shorter) <= limit else truncate(prefix, limit)
