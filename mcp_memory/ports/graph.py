"""Searching the truth by what its records have to do with one another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from mcp_memory.domain.model.graph import KnownEntity, KnownRelation
from mcp_memory.domain.model.ids import RecordSet

GraphNode: TypeAlias = tuple[Literal["entity", "record", "task"], str]
"""A kind and a key: an entity's `domain.mentions.entity_key`, a record's or a task's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A record near another one. `path` is what lies between the two, from near to far; empty where nothing does."""

    id: str
    activation: float
    path: tuple[GraphNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSummary:
    """How much of the graph a caller sees."""

    records: int
    entities: int
    relations: int
    tasks: int


class GraphStore(Protocol):
    """Entities, relations, records and tasks as a graph. Complete up to the newest committed change at the call.

    Every method sees live records of the given scopes alone, and of those none that a hidden branch holds: others
    neither come out nor are walked through, nor do they count. Entities of one key in several scopes are one thing.
    """

    def mentioned(self, text: str, scopes: Sequence[str], hidden: Collection[str] = ()) -> Mapping[str, float]:
        """Keys of the entities that a text names, by name or alias, in any case, with weights in (0, 1].

        Of overlapping names the longest counts. The fewer records mention an entity, the higher its weight; one that
        is mentioned everywhere is left out.
        """
        ...

    def activate(
        self,
        seeds: Mapping[str, float],
        scopes: Sequence[str],
        limit: int,
        hidden: Collection[str] = (),
        only: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Ids of the records that these entities (key to weight) lead to and their activations in (0, 1], best first.

        Ties by newest. `only` and `exclude` narrow what comes out, not what is walked through. Bounded work, whatever
        the size of the graph.
        """
        ...

    def entities(
        self,
        keys: Collection[str],
        scopes: Sequence[str],
        more: int,
        hidden: Collection[str] = (),
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Sequence[KnownEntity]:
        """Those of the entities (by key) that are known, in the order given, and at most `more` others by salience.

        Names of one thing come as one. Nothing comes of records that are superseded, not in `only` or in `exclude`, as
        if they were not there: no entity, property, spelling or link. What more things are linked to than `mentioned`
        lets count is left out. Bounded work: of a large graph, the most linked are looked at.
        """
        ...

    def relations(
        self,
        keys: Collection[str],
        scopes: Sequence[str],
        depth: int,
        limit: int,
        hidden: Collection[str] = (),
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Sequence[KnownRelation]:
        """Relations between entities, breadth first from these (by key, any of their names) to `depth` steps.

        Either way round; each entity is visited once, and each relation comes once, by the record that gives it the
        most weight, of several the latest stored. Nearer ones first, then by weight. Nothing comes of records that are
        superseded, not in `only` or in `exclude`, nor is walked through.
        """
        ...

    def neighbourhood(
        self, record_id: str, scopes: Sequence[str], limit: int, hidden: Collection[str] = ()
    ) -> Sequence[Connection]:
        """The records nearest to this one, nearest first; none where it is not seen itself."""
        ...

    def summarize(self, scopes: Sequence[str], hidden: Collection[str] = ()) -> GraphSummary: ...

    def check(self) -> Sequence[str]:
        """What differs from a graph made anew from the truth, a few words each; empty where it is sound."""
        ...

    def rebuild(self) -> None:
        """Forget everything; the next call reads it anew from the truth."""
        ...
