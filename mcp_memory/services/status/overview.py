"""Views of the memory: status, one record with its surroundings, lists, the report of a context."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.health_figures import GROWTH_DAYS, USAGE_DAYS, Assembled, Figure, figures
from mcp_memory.domain.model.ids import TASK
from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.projects import Membership
from mcp_memory.domain.model.records import Entity, Instant, Kind, Record, Relation
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.session_log import PassName
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.model.token_factor import ModelFactor
from mcp_memory.domain.model.versions import Version
from mcp_memory.domain.model.versions import before as version_before
from mcp_memory.domain.text.words import entity_key
from mcp_memory.errors import NotFound
from mcp_memory.ports.indexes import IndexState
from mcp_memory.ports.records import ArrivedRecord, RecordStore, StoreFacts, StoreSummary
from mcp_memory.ports.retrieval import GraphNeighbour, GraphNode, GraphStore, GraphSummary, GraphTopic
from mcp_memory.ports.text import Clock
from mcp_memory.services.retrieval.paths_between_names import Tie, in_words
from mcp_memory.services.review.reviews import Reviews
from mcp_memory.services.sessions.fullness import LogStanding, PassTotals
from mcp_memory.services.tasks.branch_visibility import hidden_branches, is_visible, visible_to

VERSIONS_AT_ONCE = 4  # each may hold a text of a million characters
NEAR_SHOWN = 5
NEAR_LOOKED_AT = 20
"""Records looked at, more than are shown, because the ones that the record replaced are among them."""
LINKS_SHOWN = 20
"""Limit on entities, and the same on relations; a caller who stored a hundred knows them."""
FOOTING_SHOWN = 20
FURTHER_SHOWN, FURTHER_STEPS = 50, 5
"""Records beyond the dependents that are shown, and steps to the last of them: as many as a change is told over."""
TOPICS_SHOWN, TOPIC_NAMES = 5, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHealth:
    """Figures of how well memory serves a caller's agent, with facts of the store.

    `waiting` are groups to review, `asked` those of them that ask the user. Each topic is the names of its most linked
    entities. `contexts` are those of the last USAGE_DAYS.
    """

    summary: StoreFacts
    waiting: int
    asked: int
    topics: Sequence[Sequence[str]]
    contexts: Assembled
    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus(MemoryHealth):
    """The health of a memory, with counts of what the caller may see of it."""

    summary: StoreSummary
    graph: GraphSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Names that records mention together, the most linked first, and how many `more` there are.

    `together` has pairs of the names, each with the number of records that mention both.
    """

    names: Sequence[str]
    more: int
    together: Sequence[tuple[str, str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHealth:
    """The health of a memory for one client, and the state of its index for the client's scopes."""

    memory: MemoryHealth
    index: IndexState


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStatus:
    """The status of a memory for one client: with its folder, its unit of tokens, and its session's log.

    `former` names the memory that the folder may have had before, "" for none. `encoding` is what the memory counts
    tokens by.
    """

    caller: Caller
    memory: MemoryStatus
    membership: Membership
    former: str
    encoding: str
    factor: ModelFactor
    index: IndexState
    log: LogStanding
    passes: Mapping[PassName, PassTotals]


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """A record or task at an end of a record's dependence, in a few words.

    `found` is True where a rule found the dependence, `changed` where the ground changed since anybody vouched; `steps`
    counts those to a record that stands on dependents.
    """

    id: str
    found: bool | None = None
    changed: bool | None = None
    steps: int | None = None
    kind: str
    text: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFooting:
    """Grounds and dependents of a record, and how many more there are of each.

    `further` are the records that stand on dependents: with these, all that breaks where the record goes.
    """

    depends_on: Sequence[Support]
    depends_on_more: int
    dependents: Sequence[Support]
    dependents_more: int
    further: Sequence[Support]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A record near another one, in a few words, and the names of what lies between: one of them for a shared thing."""

    id: str
    kind: Kind
    text: str
    via: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """The links of a record; the ids of what it replaced; and its task, where that is in the caller's namespace."""

    entities: Sequence[Entity]
    relations: Sequence[Relation]
    task: Task | None
    supersedes: Sequence[str]
    near: Sequence[Neighbour]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAccount:
    """All that is stored about a record; `history` are its changes, oldest first."""

    record: Record
    history: Sequence[Version]
    footing: RecordFooting
    neighbourhood: Neighbourhood


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityAccount:
    """An entity, the newest records that mention it, its relations, and the dependents of those records."""

    name: str
    records: Sequence[Record]
    relations: Sequence[Relation]
    dependents: Sequence[Support]
    further: Sequence[Support]


class Overview:
    """Read-only views. Thread-safe."""

    def __init__(self, records: RecordStore, graph: GraphStore, reviews: Reviews, clock: Clock) -> None:
        self._records = records
        self._graph = graph
        self._reviews = reviews
        self._clock = clock

    def status(self, caller: Caller, *, of_all: bool = False) -> MemoryStatus:
        """Count what this caller may see; add the memory's health, which takes `of_all` as there."""
        hidden = hidden_branches(self._records, caller)
        return MemoryStatus(
            **self._health(caller, hidden, of_all=of_all),
            summary=self._records.summarize(caller, hidden),
            graph=self._graph.summarize(caller.scopes, hidden),
        )

    def health(self, caller: Caller, *, of_all: bool = False) -> MemoryHealth:
        """Return how well memory serves this caller's agent, and the state of the store.

        With `of_all`, the contexts of every agent of the namespace count, as in the list of contexts. Retired records
        count for the figures.
        """
        hidden = hidden_branches(self._records, caller)
        facts = self._records.facts(caller, hidden)
        return MemoryHealth(**self._health(caller, hidden, of_all=of_all), summary=facts)

    def _health(self, caller: Caller, hidden: frozenset[str], *, of_all: bool) -> dict[str, Any]:
        now = self._clock()
        where = RecordFilter(scopes=caller.scopes, hidden_branches=hidden, include_inactive=True)
        groups = self._reviews.waiting(caller)
        contexts = self._records.assembled(caller, now - USAGE_DAYS * DAY_SECONDS, of_all=of_all)
        tally = self._records.tally(where, now - GROWTH_DAYS * DAY_SECONDS)
        return {
            "waiting": len(groups),
            "asked": sum(1 for each in groups if each.review.question),
            "topics": [each.names for each in self._topics(caller, hidden, TOPICS_SHOWN, TOPIC_NAMES)],
            "contexts": contexts,
            "figures": figures(contexts, tally, self._records.judged_confidences(where)),
        }

    def topics(self, caller: Caller, most: int, most_names: int) -> Sequence[Topic]:
        """Return what the memory is about, the largest topic first, each by the most linked of its entities."""
        return self._topics(caller, hidden_branches(self._records, caller), most, most_names)

    def _topics(self, caller: Caller, hidden: frozenset[str], most: int, most_names: int) -> Sequence[Topic]:
        found = self._graph.topics(caller.scopes, most, hidden)
        keys = [key for topic in found for key in topic.keys[:most_names]]
        entities = self._graph.entities(keys, caller.scopes, 0, hidden)
        names = {key: entity.name for entity in entities for key in entity.keys}
        return [_named(topic, names, most_names) for topic in found]

    def visible(self, record_id: str, caller: Caller) -> Record:
        """Return the record. Raises NotFound where the caller does not see one of that id."""
        record = self.seen_of([record_id], caller).get(record_id)
        if record is None:
            raise NotFound(f"No record {record_id!r}; call `recall` to find ids.")
        return record

    def seen_of(self, record_ids: Sequence[str], caller: Caller) -> Mapping[str, Record]:
        """Return by their ids those of the records that the caller sees."""
        hidden = hidden_branches(self._records, caller)
        found = self._records.get(record_ids, caller.scopes)
        return {each.id: each for each in found.values() if is_visible(each, caller, hidden)}

    def arrivals(self, caller: Caller, kinds: Collection[Kind], limit: int, offset: int = 0) -> Sequence[ArrivedRecord]:
        """Return who stored the records of these kinds that the caller sees, and when, the last one first."""
        where = replace(visible_to(self._records, caller), kinds=frozenset(kinds))
        return self._records.arrivals(where, limit, offset)

    def count_all(self) -> int:
        """Count all records of the memory, of every user."""
        return self._records.count_all()

    def listed(self, where: RecordFilter, caller: Caller, limit: int, offset: int = 0) -> Sequence[Record]:
        """Return what passes in the caller's scopes and outside of hidden branches, what happened last first."""
        where = replace(where, scopes=caller.scopes, hidden_branches=hidden_branches(self._records, caller))
        return self._records.list(where, "occurred", limit, offset)

    def stored_by_period(self, caller: Caller, since: Instant, seconds: float) -> Mapping[int, int]:
        """Count the records that the caller sees, retired ones too, by when they were stored: the first period is 0."""
        where = replace(visible_to(self._records, caller), include_inactive=True)
        return self._records.stored_by_period(where, since, seconds)

    def versions(self, record_id: str, before: int | None = None) -> Iterator[Version]:
        """Yield the versions of a record, newest first, those before that change; it checks no scope."""
        while some := self._records.latest_versions(record_id, VERSIONS_AT_ONCE, before):
            yield from some
            before = some[-1].change

    def since(self, record_id: str, version: int, caller: Caller) -> tuple[Record, Record, bool]:
        """Return a record as it is, as it was at that version, and True where somebody has changed it since.

        Raises NotFound.
        """
        with self._records.snapshot():
            now = base = self.visible(record_id, caller)
            is_changed = False
            for each in takewhile(lambda each: each.change > version, self.versions(record_id)):
                base, is_changed = version_before(base, each), is_changed or each.takes_back
        return now, base, is_changed

    def neighbourhood(self, record: Record, caller: Caller, most: int = NEAR_SHOWN) -> Neighbourhood:
        """Return the links of a record that the caller sees, and through them at most so many other visible records."""
        hidden = hidden_branches(self._records, caller)
        entities, relations = self._records.links(record.id)
        connections = self._graph.neighbourhood(record.id, caller.scopes, NEAR_LOOKED_AT, hidden)
        near = self._records.get([connection.id for connection in connections], caller.scopes)
        replaced = [other.id for other in near.values() if other.superseded_by == record.id]
        others = [c for c in connections if c.id in near and c.id not in (*replaced, record.superseded_by)][:most]
        names = _names([*entities, *(entity for c in others for entity in self._records.links(c.id)[0])])
        tasks = self._records.tasks(caller.namespace) if record.task_id else ()
        return Neighbourhood(
            entities=entities[:LINKS_SHOWN],
            relations=relations[:LINKS_SHOWN],
            task=next((task for task in tasks if task.id == record.task_id), None),
            supersedes=replaced,
            near=[_neighbour(connection, near[connection.id], names) for connection in others],
        )

    def record(self, record_id: str, caller: Caller) -> RecordAccount:
        """Return one record in full, with its versions, what it stands on and its links. Raises NotFound."""
        record = self.visible(record_id, caller)
        history = self._records.versions([record_id]).get(record_id, ())
        around = self.neighbourhood(record, caller)
        return RecordAccount(
            record=record, history=history, footing=self.footing(record_id, caller), neighbourhood=around
        )

    def footing(self, record_id: str, caller: Caller) -> RecordFooting:
        """Return a record's grounds and dependents, at most FOOTING_SHOWN of each. Raises NotFound."""
        with self._records.snapshot():
            return self._footing(self.visible(record_id, caller).id, caller)

    def _footing(self, record_id: str, caller: Caller) -> RecordFooting:
        where = replace(visible_to(self._records, caller), include_inactive=True)
        grounds, of_grounds = self._records.grounds(record_id, where, caller.namespace, FOOTING_SHOWN)
        dependents, of_dependents = self._records.dependents(record_id, where, FOOTING_SHOWN)
        further = self._further(record_id, caller)
        ids = [each.id for each in (*grounds, *dependents)] + [*further]
        shown = {
            each.id: (each.kind, each.summary, each.status) for each in self._records.get(ids, caller.scopes).values()
        }
        if any(each.startswith(TASK) for each in ids):
            tasks = self._records.tasks(caller.namespace)
            shown |= {each.id: ("task", each.goal, each.status) for each in tasks}

        def told(record_id: str, **said: Any) -> Support:
            kind, text, status = shown[record_id]
            return Support(id=record_id, kind=kind, text=text, status=status, **said)

        return RecordFooting(
            depends_on=[told(each.id, found=each.found, changed=each.changed) for each in grounds],
            depends_on_more=of_grounds - len(grounds),
            dependents=[told(each.id, found=each.found, changed=each.changed) for each in dependents],
            dependents_more=of_dependents - len(dependents),
            further=[told(each, steps=steps) for each, steps in further.items()],
        )

    def _further(self, record_id: str, caller: Caller) -> dict[str, int]:
        """Return the live records that depend on dependents of a record, with their steps from it, the nearest first.

        Records that the caller does not see lead to none.
        """
        where = visible_to(self._records, caller)
        steps = {record_id: 0}
        waiting = [record_id]
        for ground in waiting:
            if steps[ground] == FURTHER_STEPS or len(steps) > FURTHER_SHOWN:
                break
            found, _ = self._records.dependents(ground, where, FOOTING_SHOWN)
            beyond = [each.id for each in found if each.id not in steps]
            steps |= dict.fromkeys(beyond, steps[ground] + 1)
            waiting += beyond
        return {each: count for each, count in steps.items() if count > 1}

    def connections(self, thing: str, caller: Caller) -> RecordAccount | EntityAccount:
        """Return the connections of a record, by its id, or of an entity, by any of its names, and what depends on it.

        The dependents of an entity are those of the newest records that mention it. Raises NotFound where the caller
        sees no such thing.
        """
        kind, key = self._node(thing, caller)
        if kind == "record":
            return self.record(key, caller)
        hidden = hidden_branches(self._records, caller)
        [entity] = self._graph.entities([key], caller.scopes, 0, hidden)
        relations = self._graph.relations(entity.keys, caller.scopes, 1, LINKS_SHOWN, hidden)
        records = self.seen_of(entity.records, caller)
        footings = [self.footing(record_id, caller) for record_id in records]
        dependents = {each.id: each for footing in footings for each in footing.dependents}
        further = {each.id: each for footing in footings for each in footing.further}
        return EntityAccount(
            name=entity.name,
            records=[*records.values()],
            relations=[each.relation for each in relations],
            dependents=[each for each in dependents.values() if each.id not in records],
            further=[each for each in further.values() if each.id not in records],
        )

    def tie(self, one: str, other: str, caller: Caller) -> tuple[str, Sequence[Record]]:
        """Return the strongest path between two things, in words, and its records. Raises as `path` does."""
        tie, records = self.path(one, other, caller)
        return tie.line, [records[each] for each in tie.records if each in records]

    def path(self, one: str, other: str, caller: Caller) -> tuple[Tie, Mapping[str, Record]]:
        """Return the strongest path between two things, each given as for `connections`, and its records by their ids.

        Raises NotFound where the caller sees no such thing, or no path.
        """
        start, end = self._node(one, caller), self._node(other, caller)
        path = self._graph.path(start, end, caller.scopes, hidden_branches(self._records, caller))
        if not path:
            raise NotFound(f"Nothing that is stored ties {one!r} to {other!r}.")
        tie = in_words(path, self._records)
        return tie, self.seen_of(tie.records, caller)

    def _node(self, thing: str, caller: Caller) -> GraphNode:
        """Return the node of a record by its id, or of an entity by one of its names. Raises NotFound."""
        if self.seen_of([thing], caller):
            return ("record", thing)
        key = entity_key(thing)
        if not self._graph.entities([key], caller.scopes, 0, hidden_branches(self._records, caller)):
            raise NotFound(f"Nothing here names {thing!r}, or nearly everything does.")
        return ("entity", key)

    def context(self, context_id: str, caller: Caller) -> ContextReport:
        """Return the report of an assembled context: every candidate's outcome. Raises NotFound."""
        report = self._records.context(context_id, caller)
        if report is None:
            raise NotFound(f"No context {context_id!r}; contexts are kept for two weeks.")
        return report


def _names(entities: Iterable[Entity]) -> Mapping[str, str]:
    """Map keys of entities to their spellings."""
    return {entity_key(entity.name): entity.name for entity in entities}


def _neighbour(connection: GraphNeighbour, record: Record, names: Mapping[str, str]) -> Neighbour:
    via = [names.get(key, key) if kind == "entity" else key for kind, key in connection.path]
    return Neighbour(id=record.id, kind=record.kind, text=record.micro, via=via)


def _named(topic: GraphTopic, names: Mapping[str, str], most: int) -> Topic:
    """Return a topic by its first names, at most `most`, and the pairs of these."""
    shown = {key: names[key] for key in topic.keys[:most] if key in names}
    pairs = ((shown.get(one), shown.get(other), count) for (one, other), count in topic.together.items())
    return Topic(
        names=[*shown.values()],
        more=len(topic.keys[most:]),
        together=[(one, other, count) for one, other, count in pairs if one is not None and other is not None],
    )
