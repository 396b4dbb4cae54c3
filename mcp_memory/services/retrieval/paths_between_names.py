"""Ties: paths between two things that a query names, where no record reports on both."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.records import LASTING_KINDS, Instant, is_valid
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.fusion import Background, Fused
from mcp_memory.domain.retrieval.gate import BEST_HITS
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.domain.text.words import entity_key, has_name, query_terms
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.retrieval import FilterIndex, GraphNode, GraphStore, KeywordStore

HOLDERS, LOOKED_UP = 12, 40
"""Records that are looked through for a rare name, and the names for which that is done."""
Held = Callable[[str, Collection[str]], Collection[str]]
"""Returns those of the records whose texts have a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """A path between two things, with its records from one end to the other, and in words.

    `Acme → r00000c → tide-api → r000018 → outage INC-7`
    """

    nodes: tuple[GraphNode, ...]
    """From one end to the other, entities by their names as records spell them."""

    @property
    def records(self) -> tuple[str, ...]:
        return tuple(name for kind, name in self.nodes if kind == "record")

    @property
    def line(self) -> str:
        return " → ".join(name for _, name in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenPath:
    """A path by what is in memory, and by name the records whose texts may have it, too, and so lead to another one.

    `looked_up` has all records with the words of a name, also those that the graph knows of.
    """

    path: Sequence[GraphNode]
    holders: Mapping[str, Collection[str]]
    looked_up: Mapping[str, Sequence[str]]


class TieFinder:
    """Asks the graph for the tie of two things. Thread-safe."""

    def __init__(self, records: MemoryReader, keywords: KeywordStore, filters: FilterIndex, graph: GraphStore) -> None:
        self._records = records
        self._keywords = keywords
        self._filters = filters
        self._graph = graph

    def __call__(
        self,
        query: Query,
        where: RecordFilter,
        background: Background,
        now: Instant,
        foreseen: ForeseenPath | None = None,
    ) -> Tie | None:
        """Return the tie of two things that the query names by stored records that pass; None where there is none.

        A line of the log that asks for two things ties them to nothing.
        """
        held = partial(self._held, where.scopes)
        if foreseen and not any(held(key, ids) for key, ids in foreseen.holders.items()):
            path = foreseen.path
        else:
            looked_up = foreseen.looked_up if foreseen else dict[str, Sequence[str]]()
            path = self._path(query, where, background, held, {}, looked_up)
        if not path:
            return None
        through = [key for kind, key in path if kind == "record"]
        self._records.ahead(
            *(partial(self._records.links, each) for each in through),
            lambda: self._records.get(through, where.scopes),
        )
        tie = in_words(path, self._records)
        records = self._records.get(tie.records, where.scopes).values()
        return tie if all(is_valid(each, now) for each in records) else None

    def foreseen(self, query: Query, where: RecordFilter, background: Background) -> ForeseenPath:
        """Return the path as it is unless a text has a name that the graph lacks there, and what to read for that."""
        holders: dict[str, set[str]] = {}

        def noted(key: str, record_ids: Collection[str]) -> Collection[str]:
            holders.setdefault(key, set()).update(record_ids)
            return ()

        looked_up: dict[str, Sequence[str]] = {}
        path = self._path(query, where, background, noted, looked_up, {})
        return ForeseenPath(path=path, holders=holders, looked_up=looked_up)

    def _path(
        self,
        query: Query,
        where: RecordFilter,
        background: Background,
        held: Held,
        asked: dict[str, Sequence[str]],
        known: Mapping[str, Sequence[str]],
    ) -> Sequence[GraphNode]:
        """Search for the path; `asked` gets the records with the words of each name, as far as they are not `known`."""
        mentioned = self._graph.mentioned(query.text, where.scopes, where.hidden_branches)
        if len(mentioned) < 2:
            return ()
        written = {entity_key(each.name) for each in found_entities(query.text)}
        named = [key for key, weight in mentioned.items() if key in written or is_name(key, weight, background)]
        kinds = (where.kinds or LASTING_KINDS) & LASTING_KINDS
        if len(named) < 2 or not kinds:
            return ()
        passing = self._filters.passing(replace(where, kinds=kinds, passing=None))
        holders = partial(self._holders, where.scopes, passing, asked, known, held)
        return self._graph.tie(named, where.scopes, where.hidden_branches, passing, where.exclude, holders)

    def _holders(
        self,
        scopes: Sequence[str],
        passing: RecordSet,
        asked: dict[str, Sequence[str]],
        known: Mapping[str, Sequence[str]],
        held: Held,
        key: str,
        near: Collection[GraphNode],
    ) -> Collection[str]:
        """Return the records, beside the near ones, whose texts have a name; of the first names of a question alone."""
        if key not in asked and len(asked) < LOOKED_UP:
            found = known.get(key)
            asked[key] = self._keywords.holding(query_terms(key), scopes, HOLDERS, passing) if found is None else found
        others = [each for each in asked.get(key, ()) if ("record", each) not in near]
        return held(key, others) if others else ()

    def _held(self, scopes: Sequence[str], key: str, record_ids: Collection[str]) -> Collection[str]:
        records = self._records.get(record_ids, scopes).values()
        return [each.id for each in records if has_name(entity_key(each.text), key)]


def is_name(key: str, weight: float, background: Background) -> bool:
    """Return True where of each two records that have an entity's word one means the entity by it.

    So "acme" names Acme; "site" names nothing, though one record mentions a Site. `weight` in (0, 1] is the entity's.
    Words of a longer name are taken to be independent.
    """
    terms = query_terms(key)
    nats = sum(background.nats.get(term, 0.0) for term in terms)
    return nats >= weight * log(1 + background.records) - len(terms) * log(2)


def in_words(path: Sequence[GraphNode], records: MemoryReader) -> Tie:
    """Return a path of the graph with its entities as its records spell them."""
    through = tuple(key for kind, key in path if kind == "record")
    spelled = {entity_key(each.name): each.name for record_id in through for each in records.links(record_id)[0]}
    return Tie(nodes=tuple((kind, one_line(spelled.get(key, key)) if kind == "entity" else key) for kind, key in path))


def with_tie(bearing: Sequence[Fused], hits: Sequence[Fused], records: Sequence[str]) -> tuple[Fused, ...]:
    """Put the records of a tie behind the best hits, as strong as the last of these; those among them stay."""
    best = bearing[:BEST_HITS]
    there, known = {hit.id for hit in best}, {hit.id: hit for hit in hits}
    least = min((hit.score for hit in best), default=0.0)
    missing = [known.get(each, Fused(id=each, score=0.0)) for each in records if each not in there]
    added = [hit._replace(score=max(hit.score, least)) for hit in missing]
    taken = {hit.id for hit in added}
    return (*best, *added, *(hit for hit in bearing[BEST_HITS:] if hit.id not in taken))
