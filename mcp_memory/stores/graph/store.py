"""The relation graph in memory, updated by the change sequence. Each scope has a graph; they are walked as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import groupby
from math import fsum

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.graph import EntityFacts, RelationFacts, spread
from mcp_memory.domain.model.ids import RECORD, RecordSet, make_id, number_of
from mcp_memory.domain.model.scopes import RecordFilter, partition_of
from mcp_memory.ports.changes import ChangeFeed
from mcp_memory.ports.retrieval import GraphNeighbour, GraphNode, GraphSummary, GraphTopic, Holders
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.graph.links import LoadedLinks, NodeNumbers
from mcp_memory.stores.graph.lookup import described, known_things, related
from mcp_memory.stores.graph.paths import all_names, strongest_path, tie_among, topics
from mcp_memory.stores.graph.scope import LinkedRecord, ScopeGraph, Statements
from mcp_memory.stores.graph.view import GraphView, Known, RecordPlace
from mcp_memory.stores.record_numbers import NONE, Numbers, RecordSlots, grown, numbers_of

MAX_VIEWS = 8
"""Views that are kept: those of the callers who asked last."""


class LinkGraphStore:
    """Implements `GraphStore`."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._records = follower.records
        self._last: tuple[GraphView | None, str, Mapping[str, float]] = (None, "", {})
        """The last answer of `mentioned`: a recall asks twice."""
        self._views: dict[tuple[tuple[GraphPart, ...], frozenset[str], frozenset[str]], GraphView] = {}
        """By parts, scopes and hidden branches, as long as none of the parts changes."""

    def new_part(self) -> GraphPart:
        return GraphPart()

    def forget(self, part: GraphPart) -> None:
        self._last = (None, "", {})
        for asked in [*self._views]:
            if part in asked[0]:
                self._views.pop(asked, None)

    def mentioned(self, text: str, scopes: Sequence[str], hidden: Collection[str] = ()) -> Mapping[str, float]:
        with self._view(scopes, hidden) as view:
            last, asked, weights = self._last
            if last is not view or asked != text:
                weights = view.weights(view.named_in(text))
                self._last = (view, text, weights)
            return weights

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

    def tie(
        self,
        keys: Sequence[str],
        scopes: Sequence[str],
        hidden: Collection[str] = (),
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
        holders: Holders = lambda key, near: (),
    ) -> Sequence[GraphNode]:
        with self._view(scopes, hidden) as view:
            return tie_among(view.narrowed(only, exclude), keys, holders)

    def path(
        self, one: GraphNode, other: GraphNode, scopes: Sequence[str], hidden: Collection[str] = ()
    ) -> Sequence[GraphNode]:
        with self._view(scopes, hidden) as view:
            narrow = view.narrowed(None, ())
            return strongest_path(narrow, all_names(narrow, one), all_names(narrow, other))

    def topics(self, scopes: Sequence[str], most: int, hidden: Collection[str] = ()) -> Sequence[GraphTopic]:
        with self._view(scopes, hidden) as view:
            return topics(view.narrowed(None, ()), most)

    def named_beside(
        self,
        record_id: str,
        scopes: Sequence[str],
        most: int,
        hidden: Collection[str] = (),
        is_key: Callable[[str], bool] = bool,
    ) -> Mapping[str, Sequence[str]]:
        with self._view(scopes, hidden) as view:
            return view.named_beside(record_id, most, is_key)

    def summarize(self, scopes: Sequence[str], hidden: Collection[str] = ()) -> GraphSummary:
        with self._view(scopes, hidden) as view:
            return view.summary()

    def check(self) -> Sequence[str]:
        found = list[str]()
        scopes = (scope for each in self._records.index_rows("scopes", 0) for scope in each["scope"])
        for partition, some in groupby(sorted(scopes, key=partition_of), partition_of):
            with self._follower.reading(self, [*some]) as parts:
                found += parts[partition].differences(GraphPart.of(self._records, partition))
        return found

    def rebuild(self) -> None:
        self._follower.forget()

    @contextmanager
    def _view(self, scopes: Sequence[str], hidden: Collection[str]) -> Generator[GraphView]:
        with self._follower.reading(self, scopes) as parts:
            every = tuple(parts.values())
            asked = (every, frozenset(scopes), frozenset(hidden))
            if (view := self._views.get(asked)) is None:
                if len(self._views) >= MAX_VIEWS:
                    self._views.clear()
                view = self._views[asked] = _viewed(*asked)
            yield view


def _viewed(parts: Sequence[GraphPart], scopes: frozenset[str], hidden: frozenset[str]) -> GraphView:
    graphs = [graph for scope in sorted(scopes) for part in parts if (graph := part.graph(scope)) is not None]
    inhabited = {place: count for part in parts for place, count in part.population(scopes)}
    visible = {place: count for place, count in inhabited.items() if place.branch_id not in hidden}

    def place_of(record_id: str) -> RecordPlace | None:
        number = number_of(record_id)
        for part in parts:
            if (place := part.place(number)) is not None:
                return place
        return None

    def is_shown(record_id: str) -> bool:
        return place_of(record_id) in visible

    return GraphView(
        graphs=graphs,
        hidden=hidden,
        place_of=place_of,
        visible=visible,
        is_whole=len(visible) == len(inhabited),
        shows=Known(is_shown),
    )


class GraphPart:
    """The graphs of one partition's scopes, and the place of each live record."""

    def __init__(self) -> None:
        self._numbers = NodeNumbers()
        self._loaded: dict[str, LoadedLinks] = {}
        self._scopes: dict[str, ScopeGraph] = {}
        """The graphs that were asked for, or that state something."""
        self._places: list[RecordPlace] = []
        self._codes: dict[RecordPlace, int] = {}
        self._slots = RecordSlots()
        self._of_record = np.zeros(1, np.int32)
        """The code of each record's place plus one, by its slot; 0 for none, as in the place after the last slot."""
        self._population = Counter[RecordPlace]()

    @property
    def bytes(self) -> int:
        links = sum(loaded.bytes for loaded in self._loaded.values())
        graphs = sum(graph.bytes for graph in [*self._scopes.values()])  # Readers add some.
        return links + graphs + self._slots.bytes + self._of_record.nbytes + self._numbers.bytes

    @classmethod
    def of(cls, truth: ChangeFeed, partition: str) -> GraphPart:
        part = cls()
        part.follow(truth, 0, partition)
        return part

    def follow(self, truth: ChangeFeed, since: int, partition: str) -> int:
        return self._move(truth, since, partition) if since else self._load(truth, partition)

    def _load(self, truth: ChangeFeed, partition: str) -> int:
        """Load all: the links of a scope are read into arrays, and a graph is made when it is asked for."""
        pairs, numbers = _Pairs(), self._numbers
        said = [*self._load_records(truth, pairs, partition)]
        self._load_mentions(truth, pairs, partition)
        parts = [task for task in truth.task_links(0, partition) if task.parent_id]
        parents = [str(task.parent_id) for task in parts]
        tasks, above = (numbers.number_all("task", ids) for ids in ([task.id for task in parts], parents))
        pairs.add([task.scope for task in parts], tasks, above)
        for scope, record in said:
            names = [*record.states.weights()] if record.states else []
            ones, others = (numbers.number_all("entity", [pair[end] for pair in names]) for end in (0, 1))
            pairs.add([scope] * len(names), ones, others)
        self._loaded = {scope: LoadedLinks.of(numbers, *ends) for scope, ends in pairs.by_scope().items()}
        for scope, record in said:
            self._scope(scope).note(record)
        return self._slots.count

    def _load_records(self, truth: ChangeFeed, pairs: _Pairs, partition: str) -> Iterator[tuple[str, LinkedRecord]]:
        """Place all records, and pair them with their tasks and successors; yield those that say more, and scopes."""
        states = _statements(truth, 0, partition)
        for columns in truth.index_rows("places", 0, partition=partition):
            rows = [row[:-1] for row in zip(*columns.values(), strict=True) if row[-1]]
            if not rows:
                continue
            ids, scopes, branches, successors, tasks = zip(*rows, strict=True)
            numbers = numbers_of(ids)
            places = map(RecordPlace, scopes, branches, map(bool, successors))
            self._settle(numbers, np.fromiter(map(self._code, places), np.int32, len(ids)))
            tasked = [row for row, task in enumerate(tasks) if task]
            far = self._numbers.number_all("task", [tasks[row] for row in tasked])
            pairs.add([scopes[row] for row in tasked], numbers[tasked] << 1, far)
            replaced = [row for row, successor in enumerate(successors) if successor]
            far = numbers_of([successors[row] for row in replaced]) << 1
            pairs.add([scopes[row] for row in replaced], numbers[replaced] << 1, far)
            for record_id, scope, successor in zip(ids, scopes, successors, strict=True):
                if successor or record_id in states:
                    yield scope, LinkedRecord(record_id, (), None, successor, states.get(record_id))

    def _load_mentions(self, truth: ChangeFeed, pairs: _Pairs, partition: str) -> None:
        scopes = [place.scope for place in self._places]
        for columns in truth.index_rows("mentions", 0, partition=partition):
            numbers = numbers_of(columns["record_id"])
            places = self._of_record[self._slots.find(numbers)] + NONE
            there = np.flatnonzero(places != NONE)
            keys: Sequence[str] = columns["name_key"]
            entities = self._numbers.number_all("entity", [keys[row] for row in there.tolist()])
            at: list[int] = places[there].tolist()
            pairs.add([scopes[place] for place in at], numbers[there] << 1, entities)

    def graph(self, scope: str) -> ScopeGraph | None:
        """Return the graph of a scope; None where it has no links."""
        return self._scope(scope) if scope in self._scopes or scope in self._loaded else None

    def population(self, scopes: Collection[str]) -> Iterator[tuple[RecordPlace, int]]:
        """Yield the places in these scopes where there are records, with the number of them."""
        return ((place, count) for place, count in self._population.items() if count and place.scope in scopes)

    def place(self, number: int) -> RecordPlace | None:
        """Return the place of a live record, by its number."""
        code = self._of_record.item(self._slots.find_one(number))
        return self._places[code - 1] if code else None

    def _move(self, truth: ChangeFeed, since: int, partition: str) -> int:
        read = 0
        for task in truth.task_links(since, partition):
            if task.parent_id:
                self._scope(task.scope).join(("task", task.id), ("task", task.parent_id))
        states, mentions = _statements(truth, since, partition), _mentions(truth, since, partition)
        for columns in truth.index_rows("places", since, partition=partition):
            for record_id, scope, branch, successor, task, is_linked in zip(*columns.values(), strict=True):
                self._take_back(record_id)
                if is_linked:
                    place = self._code(RecordPlace(scope, branch, bool(successor)))
                    self._settle(np.array([number_of(record_id)]), np.array([place], np.int32))
                    near = mentions.get(record_id, ())
                    self._scope(scope).put(LinkedRecord(record_id, near, task, successor, states.get(record_id)))
            read += len(columns["id"])
        for columns in truth.index_rows("erasures", since, partition=partition):
            for record_id in columns["id"]:
                self._take_back(record_id)
        return read

    def differences(self, other: GraphPart) -> Iterator[str]:
        """Yield the differences between both, scope by scope."""
        if elsewhere := set(self._all_places()) ^ set(other._all_places()):
            yield f"in another place than they should be: {counted(len({each for each, _ in elsewhere}), 'record')}"
        for scope in sorted(self._names() | other._names()):
            if links := self._links(scope) ^ other._links(scope):
                yield f"{scope}: {counted(len(links), 'link')} missing or too many"

    def _all_places(self) -> Iterator[tuple[str, RecordPlace]]:
        there = np.flatnonzero(self._of_record)
        for number, code in zip(self._slots.numbers[there].tolist(), self._of_record[there].tolist(), strict=True):
            yield make_id(RECORD, number), self._places[code - 1]

    def _names(self) -> Set[str]:
        return self._scopes.keys() | self._loaded.keys()

    def _links(self, scope: str) -> frozenset[tuple[str, ...]]:
        return self._scope(scope).all_links() if scope in self._names() else frozenset()

    def _code(self, place: RecordPlace) -> int:
        """Return the code of a place, a new one where it has none."""
        code = self._codes.get(place)
        if code is None:
            code = self._codes[place] = len(self._places)
            self._places.append(place)
        return code

    def _settle(self, numbers: Numbers, codes: NDArray[np.int32]) -> None:
        """Give records that have no place theirs."""
        slots = self._slots.add(numbers)
        self._of_record = grown(self._of_record, self._slots.count + 1)
        self._of_record[slots] = codes + 1
        for code, count in Counter[int](codes.tolist()).items():
            self._population[self._places[code]] += count

    def _take_back(self, record_id: str) -> None:
        """Remove a record's place and its own links."""
        number = number_of(record_id)
        if (place := self.place(number)) is not None:
            self._of_record[self._slots.find_one(number)] = 0
            self._population[place] -= 1
            self._scope(place.scope).take_back(record_id)

    def _scope(self, scope: str) -> ScopeGraph:
        if scope not in self._scopes:
            # Requests at the same time may make it twice: both are the same until it changes, and that is later.
            self._scopes.setdefault(scope, ScopeGraph(self._loaded.get(scope) or LoadedLinks.none(self._numbers)))
        return self._scopes[scope]


class _Pairs:
    """Pairs of nodes by number, each in a scope."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._parts: list[tuple[Numbers, Numbers, Numbers]] = []

    def add(self, scopes: Sequence[str], ones: Numbers, others: Numbers) -> None:
        codes = [self._codes.setdefault(scope, len(self._codes)) for scope in scopes]
        self._parts.append((np.array(codes, np.int64), ones, others))

    def by_scope(self) -> Mapping[str, tuple[Numbers, Numbers]]:
        if not self._codes:
            return {}
        scopes, ones, others = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        order = np.argsort(scopes, kind="stable")
        ends = np.searchsorted(scopes[order], np.arange(1, len(self._codes)))
        parts = zip(np.split(ones[order], ends), np.split(others[order], ends), strict=True)
        return dict(zip(self._codes, parts, strict=True))


def _mentions(truth: ChangeFeed, since: int, partition: str) -> Mapping[str, Sequence[str]]:
    """Return the keys of the entities that records mention, by record."""
    mentions: dict[str, list[str]] = {}
    for columns in truth.index_rows("mentions", since, partition=partition):
        for record_id, key in zip(columns["record_id"], columns["name_key"], strict=True):
            mentions.setdefault(record_id, []).append(key)
    return mentions


def _statements(truth: ChangeFeed, since: int, partition: str) -> Mapping[str, Statements]:
    """Return what records state, by record."""
    states: dict[str, Statements] = {}
    for columns in truth.index_rows("aliases", since, partition=partition):
        for record_id, key, alias in zip(*columns.values(), strict=True):
            states.setdefault(record_id, Statements([], [])).aliases.append((key, alias))
    for columns in truth.index_rows("relations", since, partition=partition):
        for record_id, source, target, weight in zip(*columns.values(), strict=True):
            states.setdefault(record_id, Statements([], [])).relations.append((source, target, weight))
    return states


def _truth_of(scopes: Sequence[str], hidden: Collection[str], exclude: Collection[str]) -> RecordFilter:
    """Return the filter for reading the truth."""
    return RecordFilter(scopes=tuple(scopes), hidden_branches=frozenset(hidden), exclude=frozenset(exclude))


def _records(reached: Mapping[GraphNode, float]) -> Iterator[tuple[str, float]]:
    return ((node[1], share) for node, share in reached.items() if node[0] == "record")


def _best(hits: Iterable[tuple[str, float]], limit: int) -> list[tuple[str, float]]:
    """Return the most activated, ties by newest."""
    newest_first = sorted(hits, key=lambda hit: hit[0], reverse=True)
    return sorted(newest_first, key=lambda hit: -hit[1])[:limit]
