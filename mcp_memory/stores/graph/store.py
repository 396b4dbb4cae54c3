"""The relation graph in memory, updated by the change sequence. It has a graph for each scope, walked as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import fsum
from typing import TYPE_CHECKING

from mcp_memory.domain.model.graph import EntityFacts, Reached, RelationFacts, spread
from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.changes import RecordChange, TaskLink
from mcp_memory.ports.retrieval import GraphNeighbour, GraphNode, GraphSummary
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.graph.lookup import described, known_things, related
from mcp_memory.stores.graph.view import GraphView, RecordPlace

if TYPE_CHECKING:
    from mcp_memory.stores.graph.scope import ScopeGraph


class NetworkxGraphStore:
    """Implements `GraphStore`."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._records = follower.records
        self._graph = _Graph()

    def mentioned(self, text: str, scopes: Sequence[str], hidden: Collection[str] = ()) -> Mapping[str, float]:
        with self._view(scopes, hidden) as view:
            return view.weights(view.named_in(text))

    def activate(
        self,
        seeds: Mapping[str, float],
        scopes: Sequence[str],
        limit: int,
        hidden: Collection[str] = (),
        only: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        if not seeds:
            return {}
        total = fsum(seeds.values())
        start: dict[GraphNode, float] = {("entity", key): weight / total for key, weight in seeds.items()}
        with self._view(scopes, hidden) as view:
            found = {record_id: hit.activation for record_id, hit in _records(spread(start, view.neighbours))}
        wanted = set(found) if only is None else found.keys() & only
        best = sorted(((found[i], i) for i in wanted.difference(exclude)), reverse=True)[:limit]
        return {record_id: activation for activation, record_id in best}

    def entities(
        self,
        keys: Collection[str],
        scopes: Sequence[str],
        more: int,
        hidden: Collection[str] = (),
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Sequence[EntityFacts]:
        with self._view(scopes, hidden) as view:
            things = known_things(view.narrowed(only, exclude), keys, more)
            return described(things, self._records, _truth_of(scopes, hidden, exclude), only)

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
        truth = _truth_of(scopes, hidden, exclude)
        with self._view(scopes, hidden) as view:
            return related(view.narrowed(only, exclude), self._records, truth, keys, depth, limit)

    def neighbourhood(
        self, record_id: str, scopes: Sequence[str], limit: int, hidden: Collection[str] = ()
    ) -> Sequence[GraphNeighbour]:
        start: GraphNode = ("record", record_id)
        with self._view(scopes, hidden) as view:
            reached = spread({start: 1.0}, view.neighbours) if view.sees(start) else {}
        others = ((near, hit) for near, hit in _records(reached) if near != record_id)
        return [
            GraphNeighbour(id=near, activation=hit.activation, path=_path_to(hit, reached))
            for near, hit in _best(others, limit)
        ]

    def summarize(self, scopes: Sequence[str], hidden: Collection[str] = ()) -> GraphSummary:
        with self._view(scopes, hidden) as view:
            return view.summary()

    def check(self) -> Sequence[str]:
        with self._follower.reading(self):
            return list(self._graph.differences(self._read_anew()))

    def rebuild(self) -> None:
        with self._follower.reading(self):
            self._graph = self._read_anew()

    def apply(self, changes: Sequence[RecordChange], tasks: Sequence[TaskLink]) -> None:
        self._graph.apply(changes, tasks)

    def _read_anew(self) -> _Graph:
        graph = _Graph()
        graph.apply(self._records.changes(0), self._records.task_links(0))
        return graph

    @contextmanager
    def _view(self, scopes: Sequence[str], hidden: Collection[str]) -> Generator[GraphView]:
        with self._follower.reading(self):
            yield self._graph.seen_from(frozenset(scopes), frozenset(hidden))


class _Graph:
    """All scopes' graphs, and the place of each live record."""

    def __init__(self) -> None:
        self._scopes: dict[str, ScopeGraph] = {}
        self._places: dict[str, RecordPlace] = {}
        self._population: Counter[RecordPlace] = Counter()
        self._shared: dict[RecordPlace, RecordPlace] = {}
        self._replaced: set[str] = set()

    def seen_from(self, scopes: frozenset[str], hidden: frozenset[str]) -> GraphView:
        graphs = [self._scopes[scope] for scope in sorted(scopes) if scope in self._scopes]
        inhabited = {place: count for place, count in self._population.items() if count and place.scope in scopes}
        visible = {place: count for place, count in inhabited.items() if place.branch_id not in hidden}
        is_whole = len(visible) == len(inhabited)
        return GraphView(
            graphs=graphs, hidden=hidden, places=self._places, visible=visible, is_whole=is_whole,
            replaced=self._replaced,
        )  # fmt: skip

    def apply(self, changes: Iterable[RecordChange], tasks: Iterable[TaskLink]) -> None:
        for task in tasks:
            if task.parent_id:
                self._scope(task.scope).join(("task", task.id), ("task", task.parent_id))
        for change in changes:
            self._apply(change)

    def differences(self, other: _Graph) -> Iterator[str]:
        """Yield the differences between both, scope by scope."""
        elsewhere = {record_id for record_id, _ in self._places.items() ^ other._places.items()}
        if elsewhere:
            yield f"{len(elsewhere)} records are not where they should be"
        for scope in sorted(self._scopes.keys() | other._scopes.keys()):
            if links := self._links(scope) ^ other._links(scope):
                yield f"{scope}: {len(links)} links are missing or too many"

    def _links(self, scope: str) -> frozenset[tuple[str, ...]]:
        return self._scopes[scope].links() if scope in self._scopes else frozenset()

    def _apply(self, change: RecordChange) -> None:
        if (place := self._places.pop(change.id, None)) is not None:
            self._population[place] -= 1
            self._scopes[place.scope].take_back(change.id)
            self._replaced.discard(change.id)
        if change.is_erased:
            for graph in self._scopes.values():
                graph.forget(change.id)
        elif change.is_live and change.noted_in is None:  # Others must not find what is noted by what it mentions.
            place = RecordPlace(change.scope, change.branch_id)
            place = self._places[change.id] = self._shared.setdefault(place, place)
            self._population[place] += 1
            self._scope(change.scope).put(change)
            if change.superseded_by:
                self._replaced.add(change.id)

    def _scope(self, scope: str) -> ScopeGraph:
        if scope not in self._scopes:
            from mcp_memory.stores.graph.scope import ScopeGraph  # Imports networkx: after the handshake.

            self._scopes[scope] = ScopeGraph()
        return self._scopes[scope]


def _truth_of(scopes: Sequence[str], hidden: Collection[str], exclude: Collection[str]) -> RecordFilter:
    """Return the filter for reading the truth."""
    return RecordFilter(scopes=tuple(scopes), hidden_branches=frozenset(hidden), exclude=frozenset(exclude))


def _records(reached: Mapping[GraphNode, Reached[GraphNode]]) -> Iterator[tuple[str, Reached[GraphNode]]]:
    return ((node[1], hit) for node, hit in reached.items() if node[0] == "record")


def _best(hits: Iterable[tuple[str, Reached[GraphNode]]], limit: int) -> list[tuple[str, Reached[GraphNode]]]:
    """Return the most activated, ties by newest."""
    newest_first = sorted(hits, key=lambda hit: hit[0], reverse=True)
    return sorted(newest_first, key=lambda hit: -hit[1].activation)[:limit]


def _path_to(hit: Reached[GraphNode], reached: Mapping[GraphNode, Reached[GraphNode]]) -> tuple[GraphNode, ...]:
    """Return the path of the activation from its start, without both ends."""
    path: list[GraphNode] = []
    via = hit.via
    while via is not None and reached[via].via is not None:
        path.append(via)
        via = reached[via].via
    return tuple(reversed(path))
