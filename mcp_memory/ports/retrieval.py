"""The ports of search: filters, keywords, vectors, the graph, and the sources that combine them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias

from mcp_memory.domain.model.graph import EntityFacts, RelationFacts
from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.records import DEFAULT_IMPORTANCE, Instant, Kind
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.fusion import SourceTraits
from mcp_memory.domain.retrieval.log_lines import TextDigests
from mcp_memory.domain.retrieval.queries import Query, Vector
from mcp_memory.domain.retrieval.turns import PLAIN, Turn

Position: TypeAlias = tuple[Instant, str]
"""A record's `occurred_at` and id: a place in a list of the newest, which stays where it is when others are stored."""
Facet = Literal["kind", "status", "author", "session_id", "event_type", "tag"]


class Outline(NamedTuple):
    """The fields of a record that ranking needs: its kind, what replaced it, its task, session, speaker and validity.

    `form` is that of a turn, where nobody is named; `said` tells two statements apart. A tuple, since a recall reads
    hundreds.
    """

    kind: Kind
    superseded_by: str | None = None
    task_id: str | None = None
    session_id: str = ""
    speaker: str | None = None
    form: Turn = PLAIN
    valid_from: Instant | None = None
    valid_until: Instant | None = None
    said: TextDigests = TextDigests(0, 0)
    importance: float = DEFAULT_IMPORTANCE


class FilterIndex(Protocol):
    """Resolves filters without reading the truth again. Complete up to the newest committed change at the call."""

    def passing(self, where: RecordFilter) -> RecordSet:
        """Return the records that pass, as `RecordStore.matching_ids` does; within `where.passing` if that is set.

        May raise StoreUnavailable.
        """
        ...

    def outlines(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Outline]:
        """Return outlines of the records with these ids that exist in these scopes, whatever their status."""
        ...

    def noted_elsewhere(self, session: str, scopes: Sequence[str]) -> frozenset[str]:
        """Return the ids of what is noted in any session but this one, a `session_key`; at least in the scopes."""
        ...

    def newest(
        self, among: RecordSet, scopes: Sequence[str], limit: int, before: Position | None = None
    ) -> Sequence[str]:
        """Return ids of at most `limit` of them, newest `occurred_at` first, then the latest stored.

        `scopes` are those of the records. With `before`, those that come after that place in the list.
        """
        ...

    def counts(self, among: RecordSet, scopes: Sequence[str], facet: Facet, most: int) -> Mapping[str, int]:
        """Return the `most` common values of a field among them, the most common first, ties by the value.

        `scopes` are those of the records.
        """
        ...

    def balanced(self, where: RecordFilter, limit: int, at: Instant, decay_hours: float) -> Sequence[str]:
        """Return ids of at most `limit` that pass, by importance / (1 + age in hours at `at` / decay_hours).

        The highest come first, ties as in `newest`. May raise StoreUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rarity:
    """The number of live records, and the information of a query's words together, in nats.

    `holders` are the records that hold a word of the query that hardly any other has, with that word's information.
    `nats` is the information of each term, `absent` are those that no live record holds.
    """

    records: int
    information: float
    holders: Mapping[str, float] = field(default_factory=dict[str, float])
    nats: Mapping[str, float] = field(default_factory=dict[str, float])
    absent: frozenset[str] = frozenset()


class KeywordStore(Protocol):
    """Ranks records by the words they share with a query. Complete up to the newest committed change at the call.

    Terms are words as `domain.text.query_terms` finds them. Their stems count, and words with one stem count once.
    Rarity of words and length of records are measured over the live records of the given scopes together. A dialogue
    turn also counts, in part, words of the turns directly before or after it in its session.
    """

    def search(
        self,
        terms: Sequence[str],
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Return ids and nats of information (> 0, at most all of the query's), best first, ties by newest.

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
        """Return scores of the given records, without those that are unknown or have none of the terms.

        Excluded records, here as in `search`, add nothing to their neighbours either.
        """
        ...

    def holding(self, terms: Sequence[str], scopes: Sequence[str], limit: int, only: RecordSet) -> Sequence[str]:
        """Return ids of at most `limit` of `only` that hold all of the terms: the shortest, of equals the newest."""
        ...

    def rarity(self, terms: Sequence[str], scopes: Sequence[str]) -> Rarity:
        """Return the information of all terms together: the score bound of a record that has them all."""
        ...

    def neighbours(self, record_ids: Collection[str], scopes: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """For each of these that has live turns directly before or after it in its session, return those among these.

        `scopes` are those of the records. The others are left out.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualCosine:
    """Mean and mean square of the cosines between a query and the records of a store; both 0 without records."""

    mean: float
    mean_square: float


class VectorStore(Protocol):
    """Searches the truth's vectors by meaning. Complete up to the newest committed change at the time of the call."""

    def waits(self, scopes: Sequence[str]) -> bool:
        """Return True where another process is asked by a `search` of these scopes without `only`."""
        ...

    def search(
        self,
        vector: Vector,
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        """Return ids and cosines in [-1, 1], best first; a record counts by its best window.

        Without `only`, live records alone are searched; with it, exactly those, whatever their status.
        """
        ...

    def nearest(self, vectors: Sequence[Vector], scope: str, limit: int) -> Sequence[Mapping[str, float]]:
        """Return what `search` finds in a scope for each of these vectors, for much less than as many searches."""
        ...

    def similarities(self, vector: Vector, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, float]:
        """Return cosines of the given records, without unknown ones."""
        ...

    def windows(self, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, int]:
        """Return the number of vectors of those of the records that have several."""
        ...

    def usual_cosine(self, vector: Vector, scopes: Sequence[str]) -> UsualCosine:
        """Return the usual cosine of a query with the live records of these scopes.

        It covers all windows or a fair sample. It depends on the records alone, so that all processes agree.
        """
        ...

    def alike(self, scopes: Sequence[str], record_ids: Sequence[str], least: float) -> Sequence[tuple[str, str, float]]:
        """Return pairs of the records, in the order given, that begin alike, with their cosines of at least `least`.

        Only the first windows of long texts are compared. Pass some hundreds at most: it compares every pair.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTopic:
    """A group of entities that records mention together, by keys, the most linked first.

    `together` has the number of records that mention two of them, for each pair that enough records mention.
    """

    keys: Sequence[str]
    together: Mapping[tuple[str, str], int]


GraphNode: TypeAlias = tuple[Literal["entity", "record", "task"], str]
"""A kind and a key: an entity's `domain.mentions.entity_key`, a record's or a task's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNeighbour:
    """A record near another one.

    `path` holds the nodes between the two, from near to far; empty where they are adjacent.
    """

    id: str
    activation: float
    path: tuple[GraphNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSummary:
    """The size of the graph that a caller sees."""

    records: int
    entities: int
    relations: int
    tasks: int


Holders: TypeAlias = Callable[[str, Collection[GraphNode]], Collection[str]]
"""Returns the records whose texts have a rare entity's name, by its key, beside those near it in the graph."""


class GraphStore(Protocol):
    """Entities, relations, records and tasks as a graph. Complete up to the newest committed change at the call.

    Every method sees only live records of the given scopes outside hidden branches: others are neither returned, nor
    walked through, nor counted. Entities with one key in several scopes are one thing.
    """

    def mentioned(self, text: str, scopes: Sequence[str], hidden: Collection[str] = ()) -> Mapping[str, float]:
        """Return keys of the entities that a text names, by name or alias, in any case, with weights in (0, 1].

        Of overlapping names the longest counts. The fewer records mention an entity, the higher its weight; an entity
        that is mentioned everywhere is left out.
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
        """Return ids of the records that these entities (key to weight) lead to, with activations in (0, 1].

        The best come first. Ties are in order of newest first. `only` and `exclude` narrow the result, not the walk.
        The work is bounded, whatever the size of the graph.
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
        """Return the known entities among these keys, in the order given, and at most `more` others by salience.

        Names of one thing are merged. Records that are superseded, not in `only` or in `exclude` contribute nothing: no
        entity, property, spelling or link. Entities with more links than `mentioned` counts are left out. The work is
        bounded: in a large graph, only the most linked entities are examined.
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
        """Return relations between entities, breadth first from these (by key, any of their names) to `depth` steps.

        Both directions count. Each entity is visited once. Each relation appears once, by the record that gives it the
        most weight, then the latest stored. Nearer ones come first, then by weight. Records that are superseded, not in
        `only` or in `exclude` are neither returned nor walked through.
        """
        ...

    def neighbourhood(
        self, record_id: str, scopes: Sequence[str], limit: int, hidden: Collection[str] = ()
    ) -> Sequence[GraphNeighbour]:
        """Return the records nearest to this one, nearest first; none where the caller does not see it."""
        ...

    def tie(
        self,
        keys: Sequence[str],
        scopes: Sequence[str],
        hidden: Collection[str] = (),
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
        holders: Holders = lambda key, near: (),
    ) -> Sequence[GraphNode]:
        """Return how two of these entities are tied that no short record mentions together: the strongest path.

        The rarest are tried first. Entities and records take turns, both ends are part of it; empty where there is
        none. What is superseded, not in `only` or in `exclude` is no part of it, nor what is mentioned everywhere.
        """
        ...

    def path(
        self, one: GraphNode, other: GraphNode, scopes: Sequence[str], hidden: Collection[str] = ()
    ) -> Sequence[GraphNode]:
        """Return the strongest path from one thing to another, as `tie` does, also through a single record."""
        ...

    def topics(self, scopes: Sequence[str], most: int, hidden: Collection[str] = ()) -> Sequence[GraphTopic]:
        """Return at most `most` topics, the largest first."""
        ...

    def named_beside(
        self,
        record_id: str,
        scopes: Sequence[str],
        most: int,
        hidden: Collection[str] = (),
        is_key: Callable[[str], bool] = bool,
    ) -> Mapping[str, Sequence[str]]:
        """Return the keys of the entities that a record mentions, each with the ids of the other records that do.

        Only keys count of which `is_key` is True. Entities that more than `most` others mention are left out; there are
        none where the caller does not see the record.
        """
        ...

    def summarize(self, scopes: Sequence[str], hidden: Collection[str] = ()) -> GraphSummary: ...

    def check(self) -> Sequence[str]:
        """Return differences from a graph rebuilt from the truth, a few words each; empty where there are none."""
        ...

    def rebuild(self) -> None:
        """Forget everything; the next call reads it again from the truth."""
        ...


class Source(Protocol):
    """One way to find candidates for a query; its scores are nats, but for the cosines of `vector`."""

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> SourceTraits: ...

    def waits(self, where: RecordFilter) -> bool:
        """Return True where a search waits for another process: the other sources are asked meanwhile."""
        ...

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        """Return ids and scores, best first, at most `limit`, all passing `where`. May raise StoreUnavailable."""
        ...

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        """Return this source's scores of records that another source found, without those it cannot score."""
        ...
