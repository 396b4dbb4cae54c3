"""Facts about visible entities and relations: the graph selects them, and the truth gives their statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heappushpop, heapreplace

from mcp_memory.domain.model.graph import EntityFacts, RelationFacts, damped, entity_salience
from mcp_memory.domain.model.ids import RecordSet, number_of
from mcp_memory.domain.model.records import Entity, Json
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.text.words import entity_key
from mcp_memory.ports.records import Mention, StatementReader
from mcp_memory.ports.retrieval import GraphNode
from mcp_memory.stores.graph.view import MAX_FAN, MAX_LOOKED_AT, GraphView

RECORDS_NAMED = 5
"""Ids named per entity: the newest records that mention it."""
CONTENDERS = 3
"""Candidates compared for each requested salient entity."""
MAX_LINKS_MET = 4 * MAX_FAN
"""Maximum links, seen or not, of an unrequested entity while a branch hides records."""
MAX_RELATIONS_READ = 2_000
"""Relations read in one step, about 10 µs each."""
UNTYPED = "thing"
"""The type of an entity for which no record states one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """An entity in the graph: `names` are its keys, the one most records use first, `records` newest first.

    `spelled_by` holds one record for each mentioned name, which gives its spelling.
    """

    names: tuple[str, ...]
    links: int
    weight: float
    last: int
    records: tuple[str, ...]
    spelled_by: frozenset[str]
    named: bool

    def salience(self, newest: int | None = None) -> float:
        """Return its salience, given the latest mention of all as `newest`; without, its lower bound."""
        recency = self.last / newest if newest else 0.0
        return entity_salience(min(self.links, MAX_FAN), MAX_FAN, self.weight, recency)


def known_things(view: GraphView, keys: Collection[str], more: int) -> Sequence[tuple[Thing, float]]:
    """Return the entities of these keys and `more` others, with their saliences; the others best first, ties by key.

    Recency decides among three times as many others as requested.
    """
    covered: set[str] = set()
    asked = list(_things(view, keys, covered, named=True))
    others = _standing_out(view, covered, CONTENDERS * more) if more > 0 else ()
    newest = max((thing.last for thing in (*asked, *others)), default=0) or 1
    ranked = sorted(others, key=lambda thing: (-thing.salience(newest), thing.names))[: max(more, 0)]
    return [(thing, thing.salience(newest)) for thing in (*asked, *ranked)]


def described(
    things: Sequence[tuple[Thing, float]], records: StatementReader, where: RecordFilter, only: RecordSet | None
) -> Sequence[EntityFacts]:
    """Return the entities with their names, types and properties, without those that the truth no longer mentions."""
    thing_of = {key: place for place, (thing, _) in enumerate(things) for key in thing.names}
    spelled_by = {record_id for thing, _ in things for record_id in thing.spelled_by}
    said: dict[int, list[Mention]] = {}
    for mention in records.mentions(thing_of.keys(), where, spelled_by) if things else ():
        if only is None or mention.record_id in only:
            said.setdefault(thing_of[mention.key], []).append(mention)
    return [_described(*thing, said[place]) for place, thing in enumerate(things) if place in said]


def related(
    view: GraphView, records: StatementReader, where: RecordFilter, keys: Collection[str], depth: int, limit: int
) -> Sequence[RelationFacts]:
    """Return relations breadth first; see `GraphStore.relations`."""
    found: dict[tuple[str, str, str], RelationFacts] = {}
    visited: dict[str, None] = {}
    latest = _all_names(view, keys)
    for step in range(1, depth + 1):
        if not latest or len(found) >= limit:
            break
        visited |= latest
        ends: dict[str, None] = {}
        for stated in records.statements(latest.keys(), where, MAX_RELATIONS_READ):
            relation = stated.relation
            source, target = entity_key(relation.source), entity_key(relation.target)
            is_new = (source, relation.type, target) not in found and len(found) < limit
            if is_new and view.sees(("record", stated.record_id)):
                found[source, relation.type, target] = RelationFacts(
                    relation=relation, depth=step, score=damped(relation.weight, step), record_id=stated.record_id
                )
                ends |= {source: None, target: None}
        onward = (key for key in ends if not view.is_everywhere(("entity", key)))
        latest = {key: None for key in _all_names(view, onward) if key not in visited}
    return list(found.values())


def _all_names(view: GraphView, keys: Iterable[str]) -> dict[str, None]:
    return {name: None for key in keys for name in view.names_of(key)}


def _standing_out(view: GraphView, covered: set[str], most: int) -> Sequence[Thing]:
    """Return the `most` most salient, ignoring recency; reads no more than can be among them."""

    def highest(links: int) -> float:
        return entity_salience(min(links, MAX_FAN), MAX_FAN, 1.0, 0.0)

    return _best(view, covered, most, Thing.salience, highest)


def most_linked(view: GraphView, most: int, least: int) -> Sequence[Thing]:
    """Return the `most` entities with the most links, of those with at least `least`; ties by key."""
    found = _best(view, set(), most, lambda thing: thing.links, float, least)
    return [thing for thing in found if thing.links >= least]


def _best(
    view: GraphView,
    covered: set[str],
    most: int,
    worth: Callable[[Thing], float],
    highest: Callable[[int], float],
    least: int = 1,
) -> Sequence[Thing]:
    """Return the `most` entities of the highest worth, ties by key; `highest(links)` bounds that of so many links.

    None is looked at once those that follow have fewer than `least` links.
    """
    found: list[Thing] = []
    best: list[float] = []
    for links, key in _by_links(view):
        if links < least or (len(best) == most and best[0] > highest(links)):
            break
        for thing in _things(view, [key], covered, named=False):
            found.append(thing)
            (heappush if len(best) < most else heappushpop)(best, worth(thing))
    return sorted(found, key=lambda thing: (-worth(thing), thing.names))[:most]


def _by_links(view: GraphView) -> Iterator[tuple[int, str]]:
    """Yield keys of entities, each with the most links that it or a later one has in all graphs.

    The most linked of any graph comes first. Ends once the total of links reaches the limit.
    """
    most = MAX_FAN if view.is_whole else MAX_LINKS_MET
    runs = [graph.most_linked(most) for graph in view.graphs]
    heads = [(-head[0], place, head[1]) for place, run in enumerate(runs) if (head := next(run, None))]
    heapify(heads)
    looked_at, bound = 0, -sum(fewer for fewer, *_ in heads)
    while heads:
        fewer, place, key = heads[0]
        looked_at -= fewer
        if looked_at > MAX_LOOKED_AT:
            return
        yield bound, key
        bound += fewer
        if head := next(runs[place], None):
            heapreplace(heads, (-head[0], place, head[1]))
            bound += head[0]
        else:
            heappop(heads)


def _things(view: GraphView, keys: Iterable[str], covered: set[str], *, named: bool) -> Iterator[Thing]:
    """Yield the entity of each key once; `covered` collects the keys of those yielded."""
    for key in keys:
        thing = None if key in covered else _thing(view, key, named=named)
        if thing is not None:
            covered.update(thing.names)
            yield thing


def _thing(view: GraphView, key: str, *, named: bool) -> Thing | None:
    """Return the entity of a key; None where no record mentions it, or too many do."""
    names = view.names_of(key)
    near: dict[GraphNode, float] = {}
    mentions: dict[str, list[str]] = {}
    for name in names:
        links = view.links_of(("entity", name))
        if links is None:
            return None
        mentions[name] = _newest_first(node[1] for node in links if node[0] == "record")
        near.update((node, max(weight, near.get(node, 0.0))) for node, weight in links.items())
    records = _newest_first(each for by_name in mentions.values() for each in by_name)
    if not records:
        return None
    for name in names:
        near.pop(("entity", name), None)
    return Thing(
        names=tuple(sorted(names, key=lambda name: (-len(mentions[name]), name))),
        links=len(near),
        weight=max((weight for node, weight in near.items() if node[0] == "entity"), default=0.0),
        last=number_of(records[0]),
        records=tuple(records[:RECORDS_NAMED]),
        spelled_by=frozenset(by_name[0] for by_name in mentions.values() if by_name),
        named=named,
    )


def _newest_first(record_ids: Iterable[str]) -> list[str]:
    """Sort unique ids, newest first; later ids may be longer."""
    return sorted(sorted(set(record_ids), reverse=True), key=len, reverse=True)


def _described(thing: Thing, salience: float, mentions: Sequence[Mention]) -> EntityFacts:
    """Describe an entity; `mentions` are of any of its names, the newest last."""
    key = next(name for name in thing.names if any(mention.key == name for mention in mentions))
    own = [mention.entity for mention in mentions if mention.key == key]
    given = [entity for entity in own if not entity.found]
    properties: dict[str, Json] = {}
    for mention in mentions:
        properties |= mention.entity.properties
    return EntityFacts(
        key=key,
        keys=thing.names,
        name=(given or own)[-1].name,
        type=_type([mention.entity for mention in mentions]),
        salience=salience,
        named=thing.named,
        records=thing.records,
        properties=properties,
    )


def _type(said: Sequence[Entity]) -> str:
    """Return the latest type given by a caller, else the latest one found in a text."""
    telling = [entity for entity in said if entity.type != UNTYPED]
    given = [entity for entity in telling if not entity.found]
    return (given or telling)[-1].type if telling else UNTYPED
