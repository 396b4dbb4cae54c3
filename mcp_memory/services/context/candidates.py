"""Gathers a context's candidates: a query's finds or the newest and most important, and those that always compete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, TypeAlias

from mcp_memory.domain.context.budget import FOUND, PINNED
from mcp_memory.domain.context.filling import NEAREST
from mcp_memory.domain.context.scoring import Candidate
from mcp_memory.domain.model.contexts import Omission
from mcp_memory.domain.model.graph import EntityFacts, RelationFacts
from mcp_memory.domain.model.health_figures import calibration_note
from mcp_memory.domain.model.records import LASTING_KINDS, RAW, Kind, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.strategy import AUTO, Formula, Strategy
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.retrieval.gate import is_above_floor
from mcp_memory.domain.retrieval.queries import is_active
from mcp_memory.domain.text.prompt_safety import is_own
from mcp_memory.ports.records import MemoryReader, RecordOrder
from mcp_memory.ports.retrieval import FilterIndex, GraphStore
from mcp_memory.services.context.current_focus import ALWAYS_KINDS, CurrentFocus, Since
from mcp_memory.services.context.last_session import LastSession, LastSessionReader
from mcp_memory.services.context.question import RAW_CALL, ContextQuestion, among, refused
from mcp_memory.services.retrieval.search import CANDIDATES_PER_SOURCE, Ranking, Searcher

PER_ORDER = 200  # candidates of each order, at least
LEAST_ITEM_TOKENS = 40
"""Tokens of an item with its frame, at least: a budget of 8,000 holds 200 of them."""
ListOrder: TypeAlias = "RecordOrder | Literal['balanced']"
CENSORS: frozenset[Kind] = frozenset({"censor"})
BEARING_SHOWN, GENERAL_SHOWN = 10, 2
"""Most constraints that bear on a query, and beside those, that name no trigger; the rest is a count."""
FEW_CENSORS = 3
"""So many constraints are all shown, whatever is asked."""
ALWAYS_LIMIT, LOOKED_AT = 100, 1_000
"""At most 100 identity records and 100 censors compete, chosen from 1,000 each; of pinned records 1,000 are read."""
OTHERS_LEFT_OUT = "another agent's, which the settings leave out"
TOO_MANY = "more of its kind than are looked at"
BY_HAND = frozenset({"inherited", PINNED})
"""The sources of what somebody chose, whatever is asked."""
BELOW = "below the relevance floor"
SAME = "says the same as "
NOT_HERE = "does not apply here"
SALIENT, RELATIONS = 10, 20  # entities beyond the named ones, and relations
DECIDED: frozenset[Kind] = frozenset({"decision"})
CORRECTED_LOOKED_AT = 64
"""Records of a block that nobody asked for among which restatements of corrected words are looked for."""
RECENT_LIMIT, OTHER_SESSIONS, OF_OTHER_SESSION = 50, 5, 3  # own records; other sessions; records of each
_ORDER_OF_FORMULA: Mapping[Formula, Sequence[ListOrder]] = {
    "access": ("accessed",),
    "importance": ("important",),
    "balanced": ("balanced",),
    "weighted": ("occurred", "important"),
    "product": ("occurred", "important"),
}
"""For each formula the orders that together hold what it ranks high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTask:
    """An open task that the question found, and the goals above it, from the root down.

    `relevance` and `chance` are those of a `Candidate`.
    """

    task: Task
    above: Sequence[Task]
    relevance: float
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCandidates:
    """Candidates in no order; separately those that always compete, are at hand or changed; and the omissions.

    `work` is open work that the question found, best first.

    `unsettled` marks what contradicts another record, and nobody settled.

    `found` counts each source's finds, `unknown` are names in the query that no record holds, `tie` says how two that
    it names are tied, `degraded` names each failed source and why. `is_cut` is True where the limits left out relevant
    records.
    """

    candidates: list[Candidate]
    work: Sequence[FoundTask] = ()
    always: list[Candidate] = field(default_factory=list[Candidate])
    focus: list[Candidate] = field(default_factory=list[Candidate])
    since: Since = field(default_factory=Since)
    notes: LastSession = field(default_factory=LastSession)
    entities: Sequence[EntityFacts] = ()
    relations: Sequence[RelationFacts] = ()
    note: str = ""
    omitted: list[Omission] = field(default_factory=list[Omission])
    found: Mapping[str, int] = field(default_factory=dict[str, int])
    unsettled: Mapping[str, str] = field(default_factory=dict[str, str])
    unknown: tuple[str, ...] = ()
    tie: str = ""
    degraded: tuple[str, ...] = ()
    is_cut: bool = False


class CandidateFinder:
    """Asks the stores; decides only supersession, the relevance floor and the strategy's limits."""

    def __init__(
        self,
        records: MemoryReader,
        searcher: Searcher,
        graph: GraphStore,
        filters: FilterIndex,
        *,
        takes_guidance: bool,
    ) -> None:
        """`takes_guidance` admits identities and constraints of other agents."""
        self._takes_guidance = takes_guidance
        self._records = records
        self._focus = CurrentFocus(records)
        self._last_session = LastSessionReader(records, filters)
        self._searcher = searcher
        self._graph = graph
        self._filters = filters

    def __call__(self, question: ContextQuestion) -> FoundCandidates:
        """Return every candidate within the filter; a larger budget gets more of them."""
        stack = question.stack
        gathered = self._ranked(question) if question.read else self._listed(question)
        always, inactive = self._always(question)
        pinned = self._pinned(question)
        focus = self._focus(question, pinned) if question.strategy.layout == "by_kind" else []
        since = self._focus.since(question, focus)
        notes = self._last_session(question, (*focus, *since.changed))
        if question.opens:
            gathered, notes = self._corrected(question, gathered, notes)
        apart = {candidate.record.id for candidate in (*always, *focus, *since.changed, *notes.stored)}
        elsewhere = {omission.id for omission in inactive}
        omitted = {omission.id: omission for omission in (*gathered.omitted, *inactive)}
        kept: dict[str, Candidate] = {}
        for candidate in (*self._inherited(question), *pinned, *gathered.candidates):
            record = candidate.record
            if record.kind == "result" and record.details.get("task") in stack.ids:
                omitted[record.id] = Omission(id=record.id, reason="shown as a task")
            elif reason := self._foreign(record, question) or refused(record, question):
                omitted[record.id] = Omission(id=record.id, reason=reason)
            elif question.opens and candidate.source not in BY_HAND and record.kind in RAW - question.where.kinds:
                omitted[record.id] = Omission(id=record.id, reason=RAW_CALL)
            elif record.id not in apart and record.id not in elsewhere:
                kept.setdefault(record.id, candidate)
        shown = kept.keys() | apart | notes.told
        left_out = [omission for omission in omitted.values() if omission.id not in shown]
        was_limited = any(
            each.reason != BELOW
            and not each.reason.startswith(SAME)
            and omitted[each.id] is each
            and each.id not in shown
            for each in gathered.omitted
        )
        entities, relations = self._known(question)
        unsettled = dict[str, str]() if question.then else self._searcher.unsettled(shown, question.where)
        return replace(
            gathered,
            candidates=list(kept.values()),
            always=always,
            focus=focus,
            since=since,
            notes=notes,
            unsettled=unsettled,
            entities=entities,
            relations=relations,
            note=self._calibration(question),
            omitted=left_out,
            is_cut=gathered.is_cut or was_limited or any(omission.reason == TOO_MANY for omission in inactive),
            found={**gathered.found, "entities": len(entities), "relations": len(relations)},
        )

    def _corrected(
        self, question: ContextQuestion, gathered: FoundCandidates, notes: LastSession
    ) -> tuple[FoundCandidates, LastSession]:
        """Take what says again what was corrected out of the notes: it stands behind the correction, if at all."""
        listed = [*notes.stored, *gathered.candidates]
        again = self._searcher.restatements({each.record.id for each in listed[:CORRECTED_LOOKED_AT]}, question.where)
        if not again:
            return gathered, notes
        marked = [replace(each, corrected_by=again.get(each.record.id, "")) for each in gathered.candidates]
        stored = [each for each in notes.stored if each.record.id not in again]
        return replace(gathered, candidates=marked), replace(notes, stored=stored)

    def _known(self, question: ContextQuestion) -> tuple[Sequence[EntityFacts], Sequence[RelationFacts]]:
        """Return facts on the entities that the query names, and their relations.

        A strategy that gives entities a share of the budget also gets the most salient ones. Entities without a
        property are left out.
        """
        where, strategy = question.where, question.strategy
        if not question.text or question.then:
            return (), ()
        named = self._graph.mentioned(question.text, where.scopes, where.hidden_branches)
        more = SALIENT if "entities" in strategy.shares else 0
        if not named and not more:
            return (), ()
        passing = self._filters.passing(where) if where.is_selective else None
        given = (where.hidden_branches, passing, where.exclude)
        entities = self._graph.entities(named, where.scopes, more, *given)
        keys = [key for entity in entities if entity.named for key in entity.keys] or list(named)
        relations = self._graph.relations(keys, where.scopes, strategy.depth, RELATIONS, *given) if keys else ()
        return [entity for entity in entities if entity.properties], relations

    def _calibration(self, question: ContextQuestion) -> str:
        """Return a note on how well confidence held up, for a named strategy of decisions; empty without evidence."""
        is_for_deciding = question.strategy.name != AUTO and question.strategy.priorities.get("decision", 0.0) == 1.0
        if not is_for_deciding or not among(question.where, DECIDED):
            return ""
        mine = RecordFilter(scopes=question.where.scopes, hidden_branches=question.where.hidden_branches)
        judged = self._records.judged_confidences(replace(mine, include_inactive=True))
        return calibration_note(judged) or ""

    def _recent(self, question: ContextQuestion) -> dict[str, str]:
        """Map the session's newest records, and the most important of the latest other sessions, to their source."""
        where = question.where
        own = self._records.list_ids(replace(where, session_id=question.caller.session_id), "occurred", RECENT_LIMIT)
        latest = self._records.recent_sessions(where, OTHER_SESSIONS + 1)
        others = [session for session in latest if session != question.caller.session_id][:OTHER_SESSIONS]
        best = self._records.best_of_sessions(where, others, OF_OTHER_SESSION) if others else ()
        return dict.fromkeys((*own, *best), "recent")

    def _ranked(self, question: ContextQuestion) -> FoundCandidates:
        """Return what bears on the question, as recall ranks it, and the nearest of kinds that the strategy wants."""
        assert question.read is not None
        limit = max(CANDIDATES_PER_SOURCE, question.budget // LEAST_ITEM_TOKENS)
        asks_now = question.is_asked and not question.then
        work = self._searcher.open_work(question.read, question.where, question.caller) if asks_now else None
        tasks: Mapping[str, Task] = work.tasks if work else {}
        ranking = self._searcher.rank(
            question.read,
            question.where,
            limit,
            stack=question.stack,
            then=question.then,
            true_at=question.true_at,
            is_goal=question.opens,
            work=work,
        )
        kept, omitted = _at_the_door(ranking, question.strategy)
        omitted = [each for each in omitted if each.id not in tasks]
        omitted += [Omission(id=i, reason=f"{SAME}{better}") for i, better in ranking.repeated.items()]
        nearest = self._nearest(question, ranking, kept)
        records = self._records.get([hit.id for hit in (*kept, *nearest)], question.where.scopes)
        best = next((hit.score for hit in kept if not hit.is_certain or hit.id not in tasks), 0.0) or 1.0
        found_work = [
            FoundTask(
                task=tasks[hit.id],
                above=work.above[hit.id],
                relevance=min(hit.score / best, 1.0),
                chance=ranking.chances.get(hit.id, 1.0),
            )
            for hit in kept
            if work and hit.id in tasks
        ]
        candidates = [
            Candidate(
                record=records[hit.id],
                source=NEAREST if hit in nearest else FOUND,
                relevance=min(max(hit.score / best, 0.0), 1.0),
                chance=ranking.chances.get(hit.id, 1.0),
                cosine=hit.raw.get("vector"),
                corrected_by=ranking.restated.get(hit.id, ""),
                newest=ranking.newest.get(hit.id, ""),
            )
            for hit in (*kept, *nearest)
            if hit.id in records  # Not what was erased meanwhile.
        ]
        return FoundCandidates(
            candidates=candidates,
            work=found_work,
            omitted=omitted,
            found=dict(ranking.found),
            unknown=ranking.unknown,
            tie=ranking.tie.line if ranking.tie else "",
            degraded=ranking.degraded,
            is_cut=len(kept) >= limit,
        )

    def _nearest(self, question: ContextQuestion, ranking: Ranking, kept: Sequence[Fused]) -> list[Fused]:
        """Return the nearest records of each kind of which the strategy always wants some, as many as are missing."""
        there = {hit.id for hit in kept}
        nearest: list[Fused] = []
        for kind, least in question.strategy.least.items():
            missing = least - sum(ranking.kinds.get(hit.id) == kind for hit in kept)
            of_kind = (hit for hit in ranking.hits if ranking.kinds.get(hit.id) == kind and hit.id not in there)
            nearest += islice(of_kind, max(missing, 0))
        return nearest

    def _listed(self, question: ContextQuestion) -> FoundCandidates:
        # A formula that goes by one thing alone has its own order.
        recent = self._recent(question) if question.strategy.combines else {}
        limit = max(PER_ORDER, question.budget // LEAST_ITEM_TOKENS)
        found: dict[str, int] = {"recent": len(recent)}
        is_cut = False
        sources: dict[str, str] = dict(recent)
        for order in _orders(question.strategy):
            ids = self._first(question, question.where, order, limit)
            if len(ids) == limit:  # Then the log may be all there is of it: an hour of work is hundreds of records.
                ids = [*ids, *self._listed_learnt(question, order, limit)]
            found[order] = len(set(ids))
            is_cut = is_cut or len(ids) >= limit
            sources = {**dict.fromkeys(ids, order), **sources}
        records = self._records.get(sources, question.where.scopes)
        candidates = [Candidate(record=record, source=sources[record.id]) for record in records.values()]
        return FoundCandidates(candidates=candidates, found=found, is_cut=is_cut)

    def _listed_learnt(self, question: ContextQuestion, order: ListOrder, limit: int) -> Sequence[str]:
        """Return the first ids in that order, without the log."""
        kinds = among(question.where, LASTING_KINDS)
        if not kinds:
            return ()
        return self._first(question, replace(question.where, kinds=kinds), order, limit)

    def _first(self, question: ContextQuestion, where: RecordFilter, order: ListOrder, limit: int) -> Sequence[str]:
        if order == "balanced":
            return self._filters.balanced(where, limit, question.now, question.strategy.decay_hours)
        return self._records.list_ids(where, order, limit)

    def _always(self, question: ContextQuestion) -> tuple[list[Candidate], list[Omission]]:
        """Return identity and the applicable constraints; the caller's own before others', blocks before warnings."""
        identity, censors = (self._holding(question, kind) for kind in ("identity", "censor"))
        active = [each for each in censors if each.pinned or is_active(each, question.terms, question.strategy.domains)]
        identity.sort(key=lambda record: (not record.pinned, not is_own(record, question.caller)))
        evidence = self._evidence(question, active)
        active = _in_order(active, evidence, question.caller)
        here = [*identity[:ALWAYS_LIMIT], *active[:ALWAYS_LIMIT]]
        shown = {record.id for record in here}
        applying = {record.id for record in (*identity, *active)}
        omitted = [
            Omission(id=record.id, reason=TOO_MANY if record.id in applying else NOT_HERE)
            for record in (*identity, *censors)
            if record.id not in shown
        ]
        return [
            Candidate(record=record, source=record.kind, relevance=evidence.get(record.id, 0.0)) for record in here
        ], omitted

    def _evidence(self, question: ContextQuestion, censors: Sequence[Record]) -> Mapping[str, float]:
        """Return each constraint's score for the query, 0 below the floor; empty without a query."""
        if question.read is None or len(censors) <= FEW_CENSORS:
            return {}
        where = replace(question.where, kinds=CENSORS, passing=None)
        ranking = self._searcher.rank(question.read, where, len(censors), then=question.then, true_at=question.true_at)
        found = {hit.id: hit.score for hit in ranking.hits if is_above_floor(hit, ranking.information)}
        return {censor.id: found.get(censor.id, 0.0) for censor in censors}

    def _holding(self, question: ContextQuestion, kind: Kind) -> list[Record]:
        """Return the most important valid records of an always-included kind, without replaced ones.

        The caller's own are all included, however many others have stored.
        """
        if not among(question.where, {kind}):
            return []
        where = replace(question.where, kinds=frozenset({kind}))
        own_only = replace(where, own_of=question.caller.agent)
        records = self._records.list(where if self._takes_guidance else own_only, "important", LOOKED_AT)
        if self._takes_guidance and len(records) == LOOKED_AT:
            records = [*self._records.list(own_only, "important", LOOKED_AT), *records]
        found = {each.id: each for each in records if each.holds and question.holds_true(each)}
        return [*found.values()]

    def _foreign(self, record: Record, question: ContextQuestion) -> str:
        """Return the reason why another agent's record may not enter; empty where it may."""
        is_guidance = record.kind in ALWAYS_KINDS and not is_own(record, question.caller)
        return OTHERS_LEFT_OUT if is_guidance and not self._takes_guidance else ""

    def _inherited(self, question: ContextQuestion) -> list[Candidate]:
        ids = frozenset(record_id for task in question.stack.path for record_id in task.inherit)
        # By hand: also from a task that is finished.
        named = replace(question.where, only=ids, isolated_tasks=frozenset())
        return self._chosen(named, "inherited", len(ids), question) if ids else []

    def _pinned(self, question: ContextQuestion) -> list[Candidate]:
        where = replace(question.where, pinned=True, isolated_tasks=frozenset())
        return self._chosen(where, PINNED, LOOKED_AT, question)

    def _chosen(self, where: RecordFilter, source: str, limit: int, question: ContextQuestion) -> list[Candidate]:
        """Return records chosen by hand, which are relevant to any query while they are true."""
        records = self._records.list(where, "occurred", limit)
        return [Candidate(record=each, source=source, relevance=1.0) for each in records if question.holds_true(each)]


def _in_order(censors: Sequence[Record], evidence: Mapping[str, float], caller: Caller) -> list[Record]:
    """Return the constraints to show: pinned ones, those that bear on the query, best first, and a few without trigger.

    Without evidence all are, blocks before warnings; the caller's own are never crowded out by others'.
    """
    own_first = sorted(censors, key=lambda each: not is_own(each, caller))
    pinned = [each for each in own_first if each.pinned]
    others = [each for each in own_first if not each.pinned]
    if not evidence:
        room = max(ALWAYS_LIMIT - len(pinned), 0)
        return [*pinned, *sorted(others[:room], key=_only_warns), *others[room:]]
    bearing = [each for each in others if evidence[each.id]]
    general = [each for each in others if not evidence[each.id] and not each.details.get("trigger")]
    bearing.sort(key=lambda each: (-round(evidence[each.id], 1), _only_warns(each), -evidence[each.id]))
    return [*pinned, *bearing[:BEARING_SHOWN], *sorted(general, key=_only_warns)[:GENERAL_SHOWN]]


def _only_warns(censor: Record) -> bool:
    return censor.details.get("action") != "block"


def _at_the_door(ranking: Ranking, strategy: Strategy) -> tuple[list[Fused], list[Omission]]:
    """Return what bears on the question, without kinds that the strategy wants none of, and why the rest stays out."""
    bearing = {hit.id for hit in ranking.bearing}
    omitted = [_below(hit, ranking.least) for hit in ranking.hits if hit.id not in bearing]
    kept: list[Fused] = []
    for hit in ranking.bearing:
        kind = ranking.kinds.get(hit.id)  # Unknown for a successor that no source found.
        if kind and strategy.limits.get(kind) == 0:
            omitted.append(Omission(id=hit.id, reason=f"no {kind}s under this strategy"))
        else:
            kept.append(hit)
    return kept, omitted


def _below(hit: Fused, least: float) -> Omission:
    """Return that a hit does not bear on the question, with the score that it needed, where that was what it lacked."""
    score, needed = round(hit.score, 2), round(least, 2)
    return Omission(id=hit.id, reason=BELOW, score=score, needed=needed if score < needed else None)


def _orders(strategy: Strategy) -> Sequence[ListOrder]:
    """Return the formula's orders; by last access too where the strategy weighs access."""
    orders = _ORDER_OF_FORMULA[strategy.formula]
    return (*orders, "accessed") if strategy.weighs_access and strategy.combines else orders
