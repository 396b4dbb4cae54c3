"""Removes control characters, then secrets, from every text of an item to store. A Redactor defines the secrets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from mcp_memory.domain.memory.private import without_private
from mcp_memory.domain.model.field_marks import CallerWords, marked
from mcp_memory.domain.model.records import LOG_KINDS, Details, Entity, NewRecord, Record, Relation, map_strings
from mcp_memory.domain.text.control_characters import without_controls

Redact = Callable[[str], tuple[str, int]]
"""Returns a text without its secrets, and their number."""
_WORDS = tuple(field.name for field in fields(NewRecord) if field.name in marked(Record, CallerWords))
"""Fields of an item that hold a caller's words, beside its entities and relations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanText:
    """A text ready to store, with the numbers of secrets and of control characters removed from it."""

    text: str
    redacted: int
    cleaned: int


def clean_text(text: str, redact: Redact, *, to_the_end: bool = True) -> CleanText:
    """Return the text without control characters, private passages and secrets, in this order.

    An escape code inside a key, or inside a tag, would hide it. `to_the_end` is that of `without_private`.
    """
    plain, cleaned = without_controls(text)
    safe, redacted = redact(without_private(plain, to_the_end=to_the_end))
    return CleanText(text=safe, redacted=redacted, cleaned=cleaned)


def clean_record(item: NewRecord, redact: Redact) -> tuple[NewRecord, int, int]:
    """Return the item with every stored field cleaned, and the numbers of removed secrets and control characters."""
    redacted = cleaned = 0

    def clean(text: str) -> str:
        nonlocal redacted, cleaned
        one = clean_text(text, redact, to_the_end=item.kind not in LOG_KINDS)
        redacted += one.redacted
        cleaned += one.cleaned
        return one.text

    said = {name: cleaned_words(getattr(item, name), clean) for name in _WORDS}
    safe = replace(
        item,
        **said,
        entities=tuple(_cleaned_entity(one, clean) for one in item.entities),
        relations=tuple(_cleaned_relation(one, clean) for one in item.relations),
    )
    return safe, redacted, item.cleaned + cleaned


def cleaned_words(words: Any, clean: Callable[[str], str]) -> Any:
    """Return what a field of words holds with each text in it cleaned: a text, texts, or details; None stays None."""
    if isinstance(words, str):
        return clean(words) if words else words
    if isinstance(words, Mapping):
        return map_strings(cast("Details", words), clean)
    return words if words is None else tuple(clean(each) for each in words)


def _cleaned_entity(one: Entity, clean: Callable[[str], str]) -> Entity:
    return Entity(name=clean(one.name), type=clean(one.type), properties=map_strings(one.properties, clean))


def _cleaned_relation(one: Relation, clean: Callable[[str], str]) -> Relation:
    return replace(one, source=clean(one.source), type=clean(one.type), target=clean(one.target))
