"""Views of the memory: status, one record with its surroundings, a session's log, the report of a context."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.health_figures import GROWTH_DAYS, USAGE_DAYS, Assembled, Figure, figures
from mcp_memory.domain.model.ids import TASK, number_of
from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.projects import Membership
from mcp_memory.domain.model.records import Entity, Instant, Json, Kind, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.session_log import PassName
from mcp_memory.domain.model.token_factor import ModelFactor
from mcp_memory.domain.model.versions import TOLD, Version
from mcp_memory.domain.model.versions import before as version_before
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.domain.text.times import iso
from mcp_memory.domain.text.words import entity_key
from mcp_memory.errors import NotFound
from mcp_memory.ports.indexes import IndexState
from mcp_memory.ports.records import Footing, MemoryReader, RecordStore, StoreSummary
from mcp_memory.ports.retrieval import GraphNeighbour, GraphNode, GraphStore, GraphSummary
from mcp_memory.ports.session_logs import SessionLogStore
from mcp_memory.ports.text import Clock
from mcp_memory.services.retrieval.results import record_result, stand_in_result
from mcp_memory.services.retrieval.ties import in_words
from mcp_memory.services.review.reviews import Reviews
from mcp_memory.services.sessions.fullness import LogStanding, PassTotals
from mcp_memory.services.tasks.branch_visibility import hidden_branches, is_visible, readable, visible_to

VERSIONS_AT_ONCE = 4
LOG_SHOWN = 500  # records of one session, the last ones
SUMMARIES_SHOWN = 1_000  # replacements of one log, the last ones
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
class MemoryStatus:
    """Counts of what a caller may see of a memory, and how well memory serves its agent.

    `waiting` are groups to review, `asked` those of them that ask the user. Each topic is the names of its most linked
    entities. `contexts` are those of the last USAGE_DAYS.
    """

    summary: StoreSummary
    waiting: int
    asked: int
    graph: GraphSummary
    topics: Sequence[Sequence[str]]
    contexts: Assembled
    figures: Sequence[Figure]


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


class Overview:
    """Read-only views as values and JSON objects. Thread-safe."""

    def __init__(
        self, records: RecordStore, logs: SessionLogStore, graph: GraphStore, reviews: Reviews, clock: Clock
    ) -> None:
        self._records = records
        self._logs = logs
        self._graph = graph
        self._reviews = reviews
        self._clock = clock

    def status(self, caller: Caller, *, of_all: bool = False) -> MemoryStatus:
        """Count what this caller may see; add how well memory serves its agent, and the state of the store.

        With `of_all`, the contexts of every agent of the namespace count, as in the list of contexts. Retired records
        count for the figures.
        """
        hidden, now = hidden_branches(self._records, caller), self._clock()
        where = RecordFilter(scopes=caller.scopes, hidden_branches=hidden, include_inactive=True)
        groups = self._reviews.waiting(caller)
        contexts = self._records.assembled(caller, now - USAGE_DAYS * DAY_SECONDS, of_all=of_all)
        tally = self._records.tally(where, now - GROWTH_DAYS * DAY_SECONDS)
        return MemoryStatus(
            summary=self._records.summarize(caller, hidden),
            waiting=len(groups),
            asked=sum(1 for each in groups if each.review.question),
            graph=self._graph.summarize(caller.scopes, hidden),
            topics=self._topics(caller, hidden),
            contexts=contexts,
            figures=figures(contexts, tally, self._records.judged_confidences(where)),
        )

    def _topics(self, caller: Caller, hidden: frozenset[str]) -> Sequence[Sequence[str]]:
        """Return what the memory is about: for each topic the most linked of its entities."""
        found = [keys[:TOPIC_NAMES] for keys in self._graph.topics(caller.scopes, TOPICS_SHOWN, hidden)]
        entities = self._graph.entities([key for keys in found for key in keys], caller.scopes, 0, hidden)
        names = {key: entity.name for entity in entities for key in entity.keys}
        return [[names[key] for key in keys if key in names] for keys in found]

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

    def latest(self, caller: Caller, kinds: Collection[Kind], limit: int, offset: int = 0) -> Sequence[Record]:
        """Return records of these kinds that the caller sees, in the order they came in, the last one first."""
        where = replace(visible_to(self._records, caller), kinds=frozenset(kinds))
        return self._records.list(where, "created", limit, offset)

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
        """Yield the versions of a record, newest first, those before that change; it checks no scope.

        A few at a time are read, since each may hold a text of a million characters.
        """
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

    def neighbourhood(self, record: Record, caller: Caller, most: int = NEAR_SHOWN) -> dict[str, Json]:
        """Return the links of a record that the caller sees, and through them at most so many other visible records."""
        hidden = hidden_branches(self._records, caller)
        return neighbourhood(record, caller, hidden, self._records, self._graph, most)

    def record(self, record_id: str, caller: Caller) -> dict[str, Json]:
        """Return one record in full, with its versions, earlier texts, counters and links. Raises NotFound."""
        hidden = hidden_branches(self._records, caller)
        record = self.visible(record_id, caller)
        history = self._records.versions([record_id]).get(record_id, ())
        return (
            record_result(record, "full", caller)
            | {
                "summary": record.summary,
                "micro": record.micro,
                "importance": record.importance,
                "status": record.status,
                "visibility": record.visibility,
                "agent": author(record.agent, caller) or record.agent,
                "session_id": record.session_id,
                "created_at": iso(record.created_at),
                "updated_at": iso(record.updated_at),
                "counters": asdict(record.counters),
                "history": _shown_history(record, history, caller),
                "earlier": _earlier_texts(record, history, caller),
            }
            | {name: value for name, value in self.footing(record_id, caller).items() if value}
            | neighbourhood(record, caller, hidden, self._records, self._graph)
        )

    def footing(self, record_id: str, caller: Caller) -> dict[str, Json]:
        """Return a record's grounds and dependents, at most FOOTING_SHOWN of each, and how many more there are.

        `further` are the records that stand on dependents, with the number of steps: with these, all that breaks where
        the record goes. Raises NotFound.
        """
        with self._records.snapshot():
            return self._footing(self.visible(record_id, caller).id, caller)

    def _footing(self, record_id: str, caller: Caller) -> dict[str, Json]:
        where = replace(visible_to(self._records, caller), include_inactive=True)
        grounds, of_grounds = self._records.grounds(record_id, where, caller.namespace, FOOTING_SHOWN)
        dependents, of_dependents = self._records.dependents(record_id, where, FOOTING_SHOWN)
        further = self._further(record_id, caller)
        ids = [each.id for each in (*grounds, *dependents)] + [*further]
        shown: dict[str, Mapping[str, Json]] = {
            each.id: {"kind": each.kind, "text": each.summary, "status": each.status}
            for each in self._records.get(ids, caller.scopes).values()
        }
        if any(each.startswith(TASK) for each in ids):
            tasks = self._records.tasks(caller.namespace)
            shown |= {each.id: {"kind": "task", "text": each.goal, "status": each.status} for each in tasks}

        def told(footings: Sequence[Footing]) -> list[Json]:
            return [{**asdict(each), **shown[each.id]} for each in footings]

        return {
            "depends_on": told(grounds),
            "depends_on_more": of_grounds - len(grounds),
            "dependents": told(dependents),
            "dependents_more": of_dependents - len(dependents),
            "further": [{"id": each, "steps": steps, **shown[each]} for each, steps in further.items()],
        }

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

    def connections(self, thing: str, caller: Caller) -> dict[str, Json]:
        """Return the connections of a record, by its id, or of an entity, by any of its names, and what depends on it.

        The dependents of an entity are those of the newest records that mention it. Raises NotFound where the caller
        sees no such thing.
        """
        kind, key = self._node(thing, caller)
        if kind == "record":
            whole = self.record(key, caller)
            names = ("id", "text", "entities", "relations", "near", "depends_on", "dependents", "further")
            return {name: whole[name] for name in names if whole.get(name)}
        hidden = hidden_branches(self._records, caller)
        [entity] = self._graph.entities([key], caller.scopes, 0, hidden)
        relations = self._graph.relations(entity.keys, caller.scopes, 1, LINKS_SHOWN, hidden)
        records = self.seen_of(entity.records, caller)
        footings: list[Mapping[str, Any]] = [self.footing(record_id, caller) for record_id in records]
        shown: dict[str, Json] = {"name": entity.name, "records": _brief([*records.values()])}
        shown["relations"] = [asdict(each.relation) for each in relations]
        for name in ("dependents", "further"):
            found: dict[str, Json] = {each["id"]: each for footing in footings for each in footing[name]}
            shown[name] = [each for record_id, each in found.items() if record_id not in records]
        return {name: value for name, value in shown.items() if value}

    def tie(self, one: str, other: str, caller: Caller) -> dict[str, Json]:
        """Return the strongest path between two things, each given as for `connections`, and its records.

        Raises NotFound where the caller sees no such thing, or none.
        """
        start, end = self._node(one, caller), self._node(other, caller)
        path = self._graph.path(start, end, caller.scopes, hidden_branches(self._records, caller))
        if not path:
            raise NotFound(f"Nothing that is stored ties {one!r} to {other!r}.")
        tie = in_words(path, self._records)
        records = self.seen_of(tie.records, caller)
        return {"tie": tie.line, "records": _brief([records[each] for each in tie.records if each in records])}

    def _node(self, thing: str, caller: Caller) -> GraphNode:
        """Return the node of a record by its id, or of an entity by one of its names. Raises NotFound."""
        if self.seen_of([thing], caller):
            return ("record", thing)
        key = entity_key(thing)
        if not self._graph.entities([key], caller.scopes, 0, hidden_branches(self._records, caller)):
            raise NotFound(f"Nothing here names {thing!r}, or nearly everything does.")
        return ("entity", key)

    def session_log(self, session_id: str, caller: Caller) -> dict[str, Json]:
        """Return one session's records in order, the last ones of a long session.

        Raises NotFound where there are none.
        """
        where = replace(visible_to(self._records, caller), session_id=session_id)
        records = self._records.list(where, "created", LOG_SHOWN)
        if not records:
            raise NotFound(f"No session {session_id!r} here; memory://status shows the present one.")
        entries: list[Json] = [record_result(record, "summary", caller) for record in reversed(records)]
        mine = caller.in_session(session_id)
        compactions: list[Json] = [
            {"number": one.number, "at": iso(one.at), "trigger": one.trigger, "before": one.before, "after": one.after}
            | ({"undone_at": iso(one.undone_at)} if one.undone_at else {})
            for one in self._logs.compactions(mine)
        ]
        standing = self._logs.stand_ins(mine)[-SUMMARIES_SHOWN:]
        seen = readable({each.entry.id: each.entry for each in standing}, self._records, caller)
        log = self._logs.log(mine)
        stand_ins: list[Json] = [
            stand_in_result(each.entry, log) | {"compaction": each.compaction, "compacted_at": iso(each.made_at)}
            for each in standing
            if each.entry.id in seen
        ]
        return {
            "session_id": session_id,
            "compactions": compactions,
            "summaries": stand_ins,
            "records": entries,
        }

    def context(self, context_id: str, caller: Caller) -> dict[str, Json]:
        """Return the report of an assembled context: every candidate's outcome. Raises NotFound."""
        report = self._records.context(context_id, caller)
        if report is None:
            raise NotFound(f"No context {context_id!r}; contexts are kept for two weeks.")
        return shown_report(report)


def shown_report(report: ContextReport) -> dict[str, Json]:
    """Return a context's report as JSON, without texts."""
    return {
        "id": report.id,
        "token_count": report.token_count,
        "truncated": report.truncated,
        "strategy": report.strategy,
        "components": [
            {"source": c.source, "kind": c.kind, "id": c.id, "tokens": c.tokens, "score": c.score, "detail": c.detail}
            | ({"parts": {name: round(part, 4) for name, part in c.parts.items()}} if len(c.parts) > 1 else {})
            | ({"agent": c.agent} if c.agent else {})
            for c in report.components
        ],
        "omitted": [{"id": omission.id, "reason": omission.reason} for omission in report.omitted],
        "metadata": dict(report.metadata),
    }


def neighbourhood(
    record: Record,
    caller: Caller,
    hidden: frozenset[str],
    records: MemoryReader,
    graph: GraphStore,
    most: int = NEAR_SHOWN,
) -> dict[str, Json]:
    """Return the links of a record that the caller sees, and through them at most so many other visible records."""
    entities, relations = records.links(record.id)
    connections = graph.neighbourhood(record.id, caller.scopes, NEAR_LOOKED_AT, hidden)
    near = records.get([connection.id for connection in connections], caller.scopes)
    replaced = [other.id for other in near.values() if other.superseded_by == record.id]
    others = [c for c in connections if c.id in near and c.id not in (*replaced, record.superseded_by)][:most]
    names = _names([*entities, *(entity for c in others for entity in records.links(c.id)[0])])
    return {
        "entities": [_shown_entity(entity) for entity in entities[:LINKS_SHOWN]],
        "relations": [asdict(relation) for relation in relations[:LINKS_SHOWN]],
        "task": _task(record, caller, records),
        "supersedes": replaced,
        "near": [_shown_connection(connection, near[connection.id], names) for connection in others],
    }


def _brief(records: Sequence[Record]) -> list[Json]:
    return [{"id": each.id, "kind": each.kind, "text": each.micro} for each in records]


def _names(entities: Iterable[Entity]) -> Mapping[str, str]:
    """Map keys of entities to their spellings."""
    return {entity_key(entity.name): entity.name for entity in entities}


def _shown_entity(entity: Entity) -> dict[str, Json]:
    """Show the caller's statements about an entity, or that the text mentions it."""
    if entity.found:
        return {"name": entity.name, "type": entity.type, "found": True}
    return {"name": entity.name, "type": entity.type, "properties": dict(entity.properties)}


def _shown_connection(connection: GraphNeighbour, record: Record, names: Mapping[str, str]) -> dict[str, Json]:
    """Show a near record and the nodes between; for a superseded one, the id that links the two."""
    via: Sequence[str] = [names.get(key, key) if kind == "entity" else key for kind, key in connection.path]
    return {"id": record.id, "kind": record.kind, "text": record.micro, "via": via}


def _task(record: Record, caller: Caller, records: MemoryReader) -> Json:
    """Return the task in which the record was made, where it is in the caller's namespace."""
    tasks = {task.id: task for task in records.tasks(caller.namespace)} if record.task_id else {}
    task = tasks.get(record.task_id or "")
    return {"id": task.id, "goal": task.goal, "status": task.status} if task else None


def _shown_history(record: Record, history: Sequence[Version], caller: Caller) -> list[Json]:
    """Return the versions of a record, oldest first: author, client and time of each, and the values it replaced.

    `write` is the number that an undo takes.
    """
    first = Version(
        change=number_of(record.id), write=0, at=record.created_at, agent=record.agent, client=record.client,
        session_id=record.session_id, before={},
    )  # fmt: skip
    return [
        {"version": each.change, "at": iso(each.at), "by": _author_of(each, caller)}
        | {name: value for name in ("client", "reason", "write", "undone") if (value := getattr(each, name))}
        | {"before": {name: value for name, value in each.before.items() if name in TOLD}}
        | {"rewritten": "text" in each.told}
        for each in (first, *history)
    ]


def _author_of(version: Version, caller: Caller) -> str:
    """Return the name of who made a change; upkeep and those that are not known have no session."""
    if not version.session_id:
        return version.agent or "unknown"
    return author(version.agent, caller) or version.agent


def _earlier_texts(record: Record, history: Sequence[Version], caller: Caller) -> list[Json]:
    """Return the earlier texts that are kept, newest first, each with its author."""
    told: list[Json] = []
    for each in reversed(history):
        if "text" in each.before:
            agent = str(each.before.get("rewritten_by") or record.agent)
            told.append({"until": iso(each.at), "text": each.before["text"], "by": author(agent, caller) or agent})
    return told
