"""Cuts secrets out of every text of an item to remember. What a secret is, a Redactor says."""

from collections.abc import Callable
from dataclasses import replace

from mcp_memory.domain.details import map_strings
from mcp_memory.domain.records import Entity, NewRecord, Relation

Redact = Callable[[str], tuple[str, int]]
"""A text without its secrets, and how many there were."""


def redacted_record(item: NewRecord, redact: Redact) -> tuple[NewRecord, int]:
    """The item without secrets in any field that is stored, and how many were cut out."""
    total = 0

    def clean(text: str) -> str:
        nonlocal total
        text, count = redact(text)
        total += count
        return text

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
    return safe, total
