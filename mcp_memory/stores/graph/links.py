"""The links of one scope's nodes: as they were loaded, in arrays, and in dicts what changed since. Knows no record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from typing import Literal

import numpy as np

from mcp_memory.domain.model.ids import RECORD, make_id, number_of
from mcp_memory.ports.retrieval import GraphNode
from mcp_memory.stores.record_numbers import Numbers, run_starts

MAX_KEPT = 100_000
"""Links of a scope that are kept as they were read from arrays."""
_NODE_BYTES, _LINK_BYTES, _CHANGED_BYTES = 250, 100, 500
"""Bytes of an entity or a task, of a link that is kept, and of a node that changed, about."""


class NodeNumbers:
    """Numbers nodes: a record by its id, an even number; entities and tasks as they come, odd ones."""

    def __init__(self) -> None:
        self._places: dict[GraphNode, int] = {}
        """The place of each entity and task among `_nodes`."""
        self._nodes: list[GraphNode] = []

    @property
    def bytes(self) -> int:
        """The memory that it takes, about."""
        return _NODE_BYTES * len(self._nodes)

    def number_all(self, kind: Literal["entity", "task"], names: Sequence[str]) -> Numbers:
        """Return the numbers of nodes of one kind, new ones for those that have none."""
        nodes: list[GraphNode] = [(kind, name) for name in names]
        places = self._places
        for node in nodes:
            if node not in places:
                places[node] = len(self._nodes)
                self._nodes.append(node)
        return np.array([places[node] << 1 | 1 for node in nodes], np.int64)

    def find(self, node: GraphNode) -> int | None:
        """Return the number of a node; None where it has none."""
        if node[0] == "record":
            return number_of(node[1]) << 1
        place = self._places.get(node)
        return None if place is None else place << 1 | 1

    def nodes(self, numbers: Numbers) -> Iterator[GraphNode]:
        nodes: list[GraphNode] = self._nodes
        for number in numbers.tolist():
            yield nodes[number >> 1] if number & 1 else ("record", make_id(RECORD, number >> 1))


class LoadedLinks:
    """Links as pairs of node numbers, each in both directions, sorted by the nodes that they begin at."""

    def __init__(self, numbers: NodeNumbers, begins: Numbers, ends: Numbers) -> None:
        self._numbers, self._begins, self._ends = numbers, begins, ends
        self._by_count: tuple[Numbers, Numbers] | None = None
        """The numbers of links, highest first, and the entities and tasks that have them."""

    @classmethod
    def of(cls, numbers: NodeNumbers, ones: Numbers, others: Numbers) -> LoadedLinks:
        """Take pairs in any order, some of them perhaps several times."""
        apart = ones != others
        pairs = np.stack([np.concatenate([ones[apart], others[apart]]), np.concatenate([others[apart], ones[apart]])])
        pairs = pairs[:, np.lexsort(pairs[::-1])]
        is_first = np.ones(pairs.shape[1], np.bool_)
        is_first[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
        return cls(numbers, *pairs[:, is_first])

    @classmethod
    def none(cls, numbers: NodeNumbers) -> LoadedLinks:
        return cls(numbers, np.zeros(0, np.int64), np.zeros(0, np.int64))

    @property
    def bytes(self) -> int:
        """The memory that they take."""
        return self._begins.nbytes + self._ends.nbytes

    def ends(self, node: GraphNode) -> Numbers:
        """Return the numbers of a node's neighbours."""
        number = self._numbers.find(node)
        if number is None:
            return self._ends[:0]
        return self._ends[self._begins.searchsorted(number) : self._begins.searchsorted(number, side="right")]

    def read(self, node: GraphNode) -> dict[GraphNode, None]:
        """Return a node's neighbours."""
        return dict.fromkeys(self._numbers.nodes(self.ends(node)))

    def nodes(self) -> Iterator[GraphNode]:
        return self._numbers.nodes(np.unique(self._begins))

    def things(self) -> Iterator[GraphNode]:
        """Yield the entities and tasks."""
        return self._numbers.nodes(np.unique(self._begins[self._begins & 1 == 1]))

    def most_linked(self, most: int) -> Iterator[tuple[int, GraphNode]]:
        """Yield (links, node) of entities and tasks with at most `most` links, the most linked first, ties by name."""
        if self._by_count is None:
            self._by_count = self._counted()
        counts, begins = self._by_count
        start = int(np.searchsorted(-counts, -most))
        while start < len(counts):
            count = int(counts[start])
            end = int(np.searchsorted(-counts, -count, side="right"))
            yield from ((count, node) for node in sorted(self._numbers.nodes(begins[start:end])))
            start = end

    def _counted(self) -> tuple[Numbers, Numbers]:
        others = self._begins[self._begins & 1 == 1]
        first = np.flatnonzero(run_starts(others))
        counts = np.append(first[1:], len(others)) - first if len(first) else first
        order = np.argsort(-counts, kind="stable")
        return counts[order], others[first[order]]


class Links:
    """The links of one scope. Not thread-safe, but for reading."""

    def __init__(self, loaded: LoadedLinks) -> None:
        self._loaded = loaded
        self._changed: dict[GraphNode, dict[GraphNode, None]] = {}
        """The present links of nodes that changed since; none for one that is gone."""
        self._read: dict[GraphNode, Mapping[GraphNode, None]] = {}
        self._room = MAX_KEPT
        self._by_count: dict[int, set[GraphNode]] = {}
        """The changed entities and tasks, by their number of links."""

    @property
    def bytes(self) -> int:
        """The memory that they take beside those that were loaded, about."""
        return _LINK_BYTES * (MAX_KEPT - self._room) + _CHANGED_BYTES * len(self._changed)

    def __iter__(self) -> Iterator[GraphNode]:
        yield from (node for node in self._loaded.nodes() if node not in self._changed)
        yield from (node for node, links in self._changed.items() if links)

    def things(self) -> Iterator[GraphNode]:
        """Yield the entities and tasks."""
        yield from (node for node in self._loaded.things() if node not in self._changed)
        yield from (node for node, links in self._changed.items() if links and node[0] != "record")

    def of(self, node: GraphNode) -> Mapping[GraphNode, None]:
        """Return a node's neighbours; none where it does not exist."""
        found = self._changed.get(node)
        if found is None:
            found = self._read.get(node)
        return self._kept(node) if found is None else found

    def count(self, node: GraphNode) -> int:
        """Return the number of a node's neighbours, without reading them."""
        changed = self._changed.get(node)
        return len(self._loaded.ends(node)) if changed is None else len(changed)

    def join(self, one: GraphNode, other: GraphNode) -> None:
        """Link two nodes."""
        if one != other and not self._are_linked(one, other):
            for end, far in ((one, other), (other, one)):
                links = self._own(end)
                links[far] = None
                self._move(end, len(links) - 1, len(links))

    def part(self, one: GraphNode, other: GraphNode) -> None:
        """Take a link away, if there is one."""
        if self._are_linked(one, other):
            for end, far in ((one, other), (other, one)):
                links = self._own(end)
                del links[far]
                self._move(end, len(links) + 1, len(links))

    def most_linked(self, most: int) -> Iterator[tuple[int, GraphNode]]:
        """Yield (links, node) of entities and tasks with at most `most` links, the most linked first, ties by name.

        Discard the iterator once a link has changed.
        """
        loaded = ((count, node) for count, node in self._loaded.most_linked(most) if node not in self._changed)
        counts = sorted((count for count in self._by_count if count <= most), reverse=True)
        changed = ((count, node) for count in counts for node in sorted(self._by_count[count]))
        return merge(changed, loaded, key=lambda each: (-each[0], each[1]))

    def _are_linked(self, one: GraphNode, other: GraphNode) -> bool:
        # Those of the node with fewer links are the fewer to read.
        if self.count(one) > self.count(other):
            one, other = other, one
        return other in self.of(one)

    def _kept(self, node: GraphNode) -> Mapping[GraphNode, None]:
        read = self._loaded.read(node)
        if self._room < len(read):
            self._read, self._room = {}, MAX_KEPT
        if 0 < len(read) <= MAX_KEPT:  # Most words of a question name nothing.
            self._read[node] = read
            self._room -= len(read)
        return read

    def _own(self, node: GraphNode) -> dict[GraphNode, None]:
        """Return a node's links to change."""
        if node not in self._changed:
            self._changed[node] = dict(self.of(node))
            self._read.pop(node, None)
            self._move(node, 0, len(self._changed[node]))
        return self._changed[node]

    def _move(self, node: GraphNode, before: int, now: int) -> None:
        """Keep entities and tasks by their number of links."""
        if node[0] == "record":
            return
        if before in self._by_count:
            self._by_count[before].discard(node)
            if not self._by_count[before]:
                del self._by_count[before]
        if now:
            self._by_count.setdefault(now, set()).add(node)
