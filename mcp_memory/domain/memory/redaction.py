"""Removes control characters, then secrets, from every text of an item to store. A Redactor defines the secrets."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mcp_memory.domain.model.records import Entity, NewRecord, Relation, map_strings
from mcp_memory.domain.text.control_characters import without_controls

Redact = Callable[[str], tuple[str, int]]
"""Returns a text without its secrets, and their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanText:
    """A text ready to store, with the numbers of secrets and of control characters removed from it."""

    text: str
    redacted: int
    cleaned: int


def clean_text(text: str, redact: Redact) -> CleanText:
    """Return the text without control characters, then without secrets: an escape code inside a key would hide it."""
    plain, cleaned = without_controls(text)
    safe, redacted = redact(plain)
    return CleanText(text=safe, redacted=redacted, cleaned=cleaned)


def clean_record(item: NewRecord, redact: Redact) -> tuple[NewRecord, int, int]:
    """Return the item with every stored field cleaned, and the numbers of removed secrets and control characters."""
    redacted = cleaned = 0

    def clean(text: str) -> str:
        nonlocal redacted, cleaned
        one = clean_text(text, redact)
        redacted += one.redacted
        cleaned += one.cleaned
        return one.text

    def optional(text: str | None) -> str | None:
        return clean(text) if text else text

    def entity(one: Entity) -> Entity:
        properties = map_strings(one.properties, clean)
        return Entity(name=clean(one.name), type=clean(one.type), properties=properties)

    def relation(one: Relation) -> Relation:
        return replace(one, source=clean(one.source), type=clean(one.type), target=clean(one.target))

    safe = replace(
        item,
        text=clean(item.text),
        details=map_strings(item.details, clean),
        tags=tuple(clean(tag) for tag in item.tags),
        entities=tuple(entity(one) for one in item.entities),
        relations=tuple(relation(one) for one in item.relations),
        session_id=optional(item.session_id),
        speaker=optional(item.speaker),
        role=optional(item.role),
        tool=optional(item.tool),
        call_id=optional(item.call_id),
    )
    return safe, redacted, item.cleaned + cleaned
