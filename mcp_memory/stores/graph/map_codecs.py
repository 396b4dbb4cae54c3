"""Codecs turn the keys and values of the graph's mappings into text for its files, and back."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from mcp_memory.ports.retrieval import GraphNode
from mcp_memory.stores.graph.file_maps import Codec

NOTHING: dict[str, Any] = {}
"""Shared by all nodes and edges: separate attribute dicts would take most of the graph's memory."""
Links = MutableMapping[GraphNode, dict[str, Any]]
Pair = tuple[str, str]


class RecordPlace(NamedTuple):
    """A place decides who sees a record: its scope and branch, and whether another one replaced it."""

    scope: str
    branch_id: str | None
    is_replaced: bool


def node_key(node: GraphNode) -> str:
    return node[0][0] + node[1]


def _node(key: str) -> GraphNode:
    return (_KINDS[key[0]], key[1:])


_KINDS: dict[str, Literal["entity", "record", "task"]] = {"e": "entity", "r": "record", "t": "task"}


def _told_links(links: Links) -> list[list[str]]:
    """Return runs of one kind: the kind, and then the names."""
    return [[kind, *(name for _, name in run)] for kind, run in groupby(links, itemgetter(0))]


def _links(told: Any) -> Links:
    # Thousands of names: no step of Python's for each.
    return dict.fromkeys(chain.from_iterable(zip(repeat(kind), names) for kind, *names in told), NOTHING)


def _pair_key(pair: Pair) -> str:
    """Return both with the length of the first before them, for a name may hold any character."""
    return f"{len(pair[0])} {pair[0]}{pair[1]}"


def _pair(key: str) -> Pair:
    size, _, both = key.partition(" ")
    return both[: int(size)], both[int(size) :]


def _told_aliases(names: Mapping[str, set[str]]) -> dict[str, list[str]]:
    return {name: sorted(records) for name, records in names.items()}


def _aliases(told: Mapping[str, list[str]]) -> dict[str, set[str]]:
    return {name: set(records) for name, records in told.items()}


def _pairs(told: list[list[str]]) -> frozenset[Pair]:
    return frozenset((one, other) for one, other in told)


def _same(value: Any) -> Any:
    return value


SCOPE_MAPS: Sequence[Codec[Any, Any]] = (
    Codec(node_key, _node, _told_links, _links, nested=True),
    Codec(_pair_key, _pair, _same, _same),
    Codec(_same, _same, _told_aliases, _aliases),
    Codec(_same, _same, sorted, _pairs),
    Codec(_same, _same, _same, _same),
    Codec(_same, _same, _same, _same),
    Codec(str, int, list, dict.fromkeys, nested=True),
)
"""The codecs of a scope's mappings: links of nodes, statements of pairs, aliases of keys; pairs, successors and numbers
of relations of records; entities by their number of links."""
