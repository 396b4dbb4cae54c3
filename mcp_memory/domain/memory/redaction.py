"""Cleans every text of an item to remember of control characters, then of secrets. A Redactor says what a secret is."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mcp_memory.domain.model.records import Entity, NewRecord, Relation, map_strings
from mcp_memory.domain.text.control_characters import without_controls

Redact = Callable[[str], tuple[str, int]]
"""A text without its secrets, and how many there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanText:
    """A text as it may be stored; how many secrets were cut out of it, and how many control characters before that."""

    text: str
    redacted: int
    cleaned: int


def clean_text(text: str, redact: Redact) -> CleanText:
    """The text without control characters, then without secrets: an escape code inside a key would hide it."""
    plain, cleaned = without_controls(text)
    safe, redacted = redact(plain)
    return CleanText(text=safe, redacted=redacted, cleaned=cleaned)


def clean_record(item: NewRecord, redact: Redact) -> tuple[NewRecord, int, int]:
    """The item with every field that is stored cleaned; how many secrets and control characters were taken out."""
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
