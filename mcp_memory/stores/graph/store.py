"""The relation graph in memory, updated by the change sequence. It has a graph for each scope, walked as one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import chain
from math import fsum
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.graph import EntityFacts, RelationFacts, spread
from mcp_memory.domain.model.ids import RECORD, RecordSet, make_id, number_of
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.changes import RecordChange, TaskLink
from mcp_memory.ports.retrieval import GraphNeighbour, GraphNode, GraphSummary
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.graph.file_maps import Overlay, Table, TableRow, packed_table
from mcp_memory.stores.graph.lookup import described, known_things, related
from mcp_memory.stores.graph.map_codecs import SCOPE_MAPS, RecordPlace, node_key
from mcp_memory.stores.graph.scope import ScopeGraph
from mcp_memory.stores.graph.view import GraphView
from mcp_memory.stores.id_rows import NONE
from mcp_memory.stores.index_files import Arrays

MAX_KNOWN = 50_000
"""Records whose places are kept as they were read, about 6 MB."""


class LinkGraphStore:
    """Implements `GraphStore`."""

    name = "graph"

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
            reached = spread(start, view.neighbours)
        found = dict(_records(reached))
        wanted = found if only is None else found.keys() & only
        # Many are equally activated: two sorts, of texts and of numbers, are quicker than one of pairs.
        best = sorted(wanted if not exclude else set(wanted).difference(exclude), reverse=True)
        best.sort(key=found.__getitem__, reverse=True)
        return {record_id: found[record_id] for record_id in best[:limit]}

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
            reached = spread({start: 1.0} if view.sees(start) else {}, view.neighbours)
            nearest = _best(((near, share) for near, share in _records(reached) if near != record_id), limit)
            paths = view.strongest_paths(start, reached.keys() if nearest else ())
        return [
            GraphNeighbour(id=near, activation=share, path=tuple(paths["record", near][1:-1]))
            for near, share in nearest
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

    def packed(self) -> Arrays:
        return self._graph.packed()

    def unpack(self, arrays: Arrays) -> None:
        self._graph = _Graph(arrays)

    def _read_anew(self) -> _Graph:
        graph = _Graph()
        graph.apply(self._records.changes(0), self._records.task_links(0))
        return graph

    @contextmanager
    def _view(self, scopes: Sequence[str], hidden: Collection[str]) -> Generator[GraphView]:
        with self._follower.reading(self):
            yield self._graph.seen_from(frozenset(scopes), frozenset(hidden))


class _Header(TypedDict):
    """The header names the scope of each group of mappings, and the place of each code."""

    scopes: list[str]
    places: list[tuple[str, str | None, bool, int]]


class _Graph:
    """All scopes' graphs, and the place of each live record."""

    def __init__(self, arrays: Arrays | None = None) -> None:
        header: _Header = json.loads(arrays["header"].tobytes()) if arrays else {"scopes": [], "places": []}
        self._table = Table(arrays)
        self._first = {scope: n * len(SCOPE_MAPS) for n, scope in enumerate(header["scopes"])}
        """The number of each filed scope's first mapping in the table."""
        self._scopes: dict[str, ScopeGraph] = {}
        """The graphs that were asked for."""
        kinds = {RecordPlace(scope, branch, replaced): count for scope, branch, replaced, count in header["places"]}
        self._population = Counter[RecordPlace](kinds)
        self._shared = {place: place for place in kinds}
        filed = _FiledPlaces(arrays["codes"] if arrays else np.zeros(0, np.int32), list(kinds))
        self._places = Overlay[str, RecordPlace](lambda: filed, len(filed))
        self._known = _Known(self._places)

    def packed(self) -> Arrays:
        inhabited = {place: count for place, count in self._population.items() if count}
        code_of = {place: code for code, place in enumerate(inhabited)}
        numbered = {number_of(record_id): code_of[place] for record_id, place in self._places.items()}
        codes = np.full(max(numbered, default=0) + 1, NONE, np.int32)
        codes[list(numbered)] = list(numbered.values())
        scopes = sorted(self._names())
        header = {"scopes": scopes, "places": [(*place, count) for place, count in inhabited.items()]}
        told = np.frombuffer(json.dumps(header).encode(), np.uint8)
        return {"header": told, "codes": codes, **packed_table(chain.from_iterable(map(self._rows, scopes)))}

    def seen_from(self, scopes: frozenset[str], hidden: frozenset[str]) -> GraphView:
        graphs = [self._scope(scope) for scope in sorted(scopes) if scope in self._scopes or scope in self._first]
        inhabited = {place: count for place, count in self._population.items() if count and place.scope in scopes}
        visible = {place: count for place, count in inhabited.items() if place.branch_id not in hidden}
        is_whole = len(visible) == len(inhabited)
        return GraphView(graphs=graphs, hidden=hidden, places=self._known, visible=visible, is_whole=is_whole)

    def apply(self, changes: Iterable[RecordChange], tasks: Iterable[TaskLink]) -> None:
        for task in tasks:
            if task.parent_id:
                self._scope(task.scope).join(("task", task.id), ("task", task.parent_id))
        for change in changes:
            self._apply(change)

    def differences(self, other: _Graph) -> Iterator[str]:
        """Yield the differences between both, scope by scope."""
        places, others = dict(self._places.items()), dict(other._places.items())
        elsewhere = {record_id for record_id, _ in places.items() ^ others.items()}
        if elsewhere:
            yield f"{len(elsewhere)} records are not where they should be"
        for scope in sorted(self._names() | other._names()):
            if links := self._links(scope) ^ other._links(scope):
                yield f"{scope}: {len(links)} links are missing or too many"

    def _names(self) -> Set[str]:
        return self._scopes.keys() | self._first.keys()

    def _links(self, scope: str) -> frozenset[tuple[str, ...]]:
        return self._scope(scope).all_links() if scope in self._names() else frozenset()

    def _rows(self, scope: str) -> Iterator[Iterator[TableRow]]:
        """Yield the rows of each mapping of a scope; one that nobody asked for is copied."""
        if scope in self._scopes:
            return (each.rows() for each in self._scopes[scope].maps)
        parts = (self._table.part(self._first[scope] + n, codec) for n, codec in enumerate(SCOPE_MAPS))
        return (part.rows(frozenset()) for part in parts)

    def _filed_with(self, record_id: str) -> Set[str]:
        """Return the scopes of the table that link a record."""
        found = set(self._table.parts_with(node_key(("record", record_id)))) if self._first else ()
        return {scope for scope, first in self._first.items() if first in found} if found else set()

    def _apply(self, change: RecordChange) -> None:
        self._known.pop(change.id, None)
        if (place := self._places.pop(change.id, None)) is not None:
            self._population[place] -= 1
            self._scope(place.scope).take_back(change.id)
        if change.is_erased:
            for scope in {*self._scopes, *self._filed_with(change.id)}:
                self._scope(scope).forget(change.id)
        elif change.is_live and change.noted_in is None:  # Others must not find what is noted by what it mentions.
            place = RecordPlace(change.scope, change.branch_id, bool(change.superseded_by))
            place = self._places[change.id] = self._shared.setdefault(place, place)
            self._population[place] += 1
            self._scope(change.scope).put(change)

    def _scope(self, scope: str) -> ScopeGraph:
        if scope not in self._scopes:
            # Requests at the same time may make it twice: both are the same until it changes, and that is later.
            self._scopes.setdefault(scope, ScopeGraph(self._table, self._first.get(scope)))
        return self._scopes[scope]


class _FiledPlaces(Mapping[str, RecordPlace]):
    """The place of each record in files: by the number in its id, the code of the place."""

    def __init__(self, codes: NDArray[np.int32], places: Sequence[RecordPlace]) -> None:
        self._codes, self._places = codes, places

    def __getitem__(self, record_id: str) -> RecordPlace:
        number = number_of(record_id)
        code = self._codes.item(number) if number < len(self._codes) else NONE
        if code == NONE:
            raise KeyError(record_id)
        return self._places[code]

    def __iter__(self) -> Iterator[str]:
        return (make_id(RECORD, number) for number in np.flatnonzero(self._codes != NONE).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._codes != NONE))


class _Known(dict[str, RecordPlace | None]):
    """The places that were asked for, by record: a walk asks for that of every neighbour, hence no mapping of ours."""

    def __init__(self, places: Mapping[str, RecordPlace]) -> None:
        super().__init__()
        self._places = places

    def __missing__(self, record_id: str) -> RecordPlace | None:
        if len(self) >= MAX_KNOWN:
            self.clear()
        place = self[record_id] = self._places.get(record_id)
        return place


def _truth_of(scopes: Sequence[str], hidden: Collection[str], exclude: Collection[str]) -> RecordFilter:
    """Return the filter for reading the truth."""
    return RecordFilter(scopes=tuple(scopes), hidden_branches=frozenset(hidden), exclude=frozenset(exclude))


def _records(reached: Mapping[GraphNode, float]) -> Iterator[tuple[str, float]]:
    return ((node[1], share) for node, share in reached.items() if node[0] == "record")


def _best(hits: Iterable[tuple[str, float]], limit: int) -> list[tuple[str, float]]:
    """Return the most activated, ties by newest."""
    newest_first = sorted(hits, key=lambda hit: hit[0], reverse=True)
    return sorted(newest_first, key=lambda hit: -hit[1])[:limit]
