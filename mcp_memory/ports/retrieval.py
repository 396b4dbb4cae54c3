"""What search asks: filters, words, meaning, relations, and the sources that put them side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from mcp_memory.domain.model.graph import EntityFacts, RelationFacts
from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.queries import Query, Vector


class FilterIndex(Protocol):
    """Resolves filters without reading the truth again. Complete up to the newest committed change at the call."""

    def passing(self, where: RecordFilter) -> RecordSet:
        """The records that pass, as `RecordStore.matching_ids` names them; those of `where.passing` where it has them.

        May raise StoreUnavailable.
        """
        ...

    def newest(self, among: RecordSet, limit: int) -> Sequence[str]:
        """Ids of at most `limit` of them, by when they occurred, newest first, of the same time the latest stored."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rarity:
    """How many live records there are, and how much information a query's words are together, in nats."""

    records: int
    information: float


class KeywordStore(Protocol):
    """Ranks records by the words they share with a query. Complete up to the newest committed change at the call.

    Terms are words as `domain.text.query_terms` finds them. Their stems are what counts, and words of one stem count
    once. How rare a word is and how long records are is taken over the live records of the given scopes together. A
    dialogue turn is read on: words said directly before or after it, in its session, count for it in part.
    """

    def search(
        self,
        terms: Sequence[str],
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Ids and nats of information (> 0, at most all of the query's), best first, of equal ones the newest first.

        Without `only`, live records alone are searched; with it, exactly those, whatever their status.
        """
        ...

    def scores(
        self,
        terms: Sequence[str],
        scopes: Sequence[str],
        record_ids: Collection[str],
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Scores of the given records, those left out that are unknown or have none of the terms.

        What is excluded, here as in `search`, is not read on into either.
        """
        ...

    def rarity(self, terms: Sequence[str], scopes: Sequence[str]) -> Rarity:
        """How much the terms would tell, if a record had all of them."""
        ...

    def neighbours(self, record_ids: Collection[str]) -> Mapping[str, Sequence[str]]:
        """For each dialogue turn, the live turns directly before and after it in its session; no others are named."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualCosine:
    """Mean and mean square of the cosines between a query and the records of a store; both 0 where there are none."""

    mean: float
    mean_square: float


class VectorStore(Protocol):
    """Searches the truth's vectors by meaning. Complete up to the newest committed change at the time of the call."""

    def search(
        self,
        vector: Vector,
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Ids and cosines in [-1, 1], best first; a record counts by its best window.

        Without `only`, live records alone are searched; with it, exactly those, whatever their status.
        """
        ...

    def similarities(self, vector: Vector, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, float]:
        """Cosines of the given records, those unknown left out."""
        ...

    def usual_cosine(self, vector: Vector, scopes: Sequence[str]) -> UsualCosine:
        """What cosines the live records of these scopes have to a query, over all or a fair sample of their windows.

        Depends on nothing but the records, so that all processes tell the same.
        """
        ...

    def alike(self, scopes: Sequence[str], record_ids: Sequence[str], least: float) -> Sequence[tuple[str, str, float]]:
        """Pairs of the records, in the order given, that begin alike, with their cosines of at least `least`.

        Of long texts the first windows are compared. Meant for some hundreds: every one is held against every other.
        """
        ...


GraphNode: TypeAlias = tuple[Literal["entity", "record", "task"], str]
"""A kind and a key: an entity's `domain.mentions.entity_key`, a record's or a task's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNeighbour:
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
    ) -> Sequence[EntityFacts]:
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
    ) -> Sequence[RelationFacts]:
        """Relations between entities, breadth first from these (by key, any of their names) to `depth` steps.

        Either way round; each entity is visited once, and each relation comes once, by the record that gives it the
        most weight, of several the latest stored. Nearer ones first, then by weight. Nothing comes of records that are
        superseded, not in `only` or in `exclude`, nor is walked through.
        """
        ...

    def neighbourhood(
        self, record_id: str, scopes: Sequence[str], limit: int, hidden: Collection[str] = ()
    ) -> Sequence[GraphNeighbour]:
        """The records nearest to this one, nearest first; none where it is not seen itself."""
        ...

    def summarize(self, scopes: Sequence[str], hidden: Collection[str] = ()) -> GraphSummary: ...

    def check(self) -> Sequence[str]:
        """What differs from a graph made anew from the truth, a few words each; empty where it is sound."""
        ...

    def rebuild(self) -> None:
        """Forget everything; the next call reads it anew from the truth."""
        ...


class Source(Protocol):
    """One way to find candidates for a query."""

    @property
    def name(self) -> str: ...

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        """Ids and scores, best first, at most `limit`, all of them passing `where`. May raise StoreUnavailable."""
        ...

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        """This source's scores of records that another source found; those it cannot score are left out."""
        ...
