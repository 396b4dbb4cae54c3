"""Things and how they are related, as a context shows them, and how much a thing stands out. Knows no store."""

from dataclasses import dataclass, field
from math import log

from mcp_memory.domain.model.records import Details, Json, Relation

DAMPING = 0.5
"""What is one step further away counts half, as activation does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntity:
    """A thing under the name that most records use for it, with what they say of it, the newest word on each property.

    `keys` are all its names' keys, its own first. `salience` is in (0, 1]; `named` says that it was asked for.
    `records` are ids of the newest that mention it, newest first.
    """

    key: str
    keys: tuple[str, ...]
    name: str
    type: str
    salience: float
    named: bool
    records: tuple[str, ...]
    properties: Details = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelation:
    """A relation `depth` steps from where the walk began, 1 for those of the entities themselves.

    `score` is its weight, halved for each step beyond the first, in (0, 1]; `record_id` is the record that says so.
    """

    relation: Relation
    depth: int
    score: float
    record_id: str


def entity_salience(links: int, most_links: int, weight: float, recency: float) -> float:
    """log(1 + links) / log(1 + most_links) × (2 + weight + recency) / 4, in (0, 1]: at most halved by the last two.

    `links` of at most `most_links`: to how many records and entities it is linked. `weight` in [0, 1] is that of its
    strongest relation, `recency` in [0, 1] how late in all that was stored it was last mentioned.
    """
    return log(1 + links) / log(1 + most_links) * (2 + weight + recency) / 4


def damped(weight: float, depth: int) -> float:
    """The weight of a relation seen from `depth` steps away, from 1 on."""
    return weight * DAMPING ** (depth - 1)
