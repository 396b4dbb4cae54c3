"""Open work among what a question finds: goals, owners, reasons for being blocked.

Open tasks are few and change often, so they are weighed when somebody asks, by the words and the meaning of their goals
and reasons, on the scale of the records (`rank`), and no index knows them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.tasks import Stack, Task, beside, path_to
from mcp_memory.domain.retrieval.fusion import Background
from mcp_memory.domain.retrieval.queries import Query, Vector
from mcp_memory.domain.text.words import asked_terms, content_hash, index_terms, query_terms
from mcp_memory.domain.text.work_questions import WorkQuestion, is_of_work, work_question
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.text import Embedder
from mcp_memory.ports.transaction import TaskReader

if TYPE_CHECKING:
    from mcp_memory.ports.text import Vectors

LOOKED_AT = 200
"""Open tasks that are compared with a question, the latest."""
EMBEDDED = 24
"""The most tasks whose meaning is compared: those that share most words, then the latest; each takes some ms, once."""
KEPT_VECTORS = 256
LISTED = 10
"""Tasks that answer a question about open work as a whole."""
# "crane", "Lohnabrechnung"
_WORD = re.compile(r"\w+")
_WHATEVER = frozenset({"hidden_branches", "noted_in", "exclude", "passing", "isolated_tasks", "include_inactive"})
"""Fields of a filter that say nothing about tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWork:
    """The open tasks that a question may find, by id, with their stems and the cosine to it.

    `above` holds the goals above each, from the root down. `asked` is the question where it is one about open work, and
    `listed` are the tasks that answer it where it names no subject, in order.
    """

    tasks: Mapping[str, Task]
    above: Mapping[str, Sequence[Task]]
    words: Mapping[str, frozenset[str]]
    cosines: Mapping[str, float]
    asked: WorkQuestion | None
    listed: Sequence[str]


class WorkFinder:
    """Reads open work for questions. Thread-safe."""

    def __init__(self, records: TaskReader, embedder: Embedder) -> None:
        self._records = records
        self._embedder = embedder
        self._vectors: dict[str, Vectors] = {}

    def __call__(self, query: Query, where: RecordFilter, caller: Caller) -> OpenWork | None:
        """Return the open work that the query may find; None where there is none, or the filter asks for records."""
        if not _WHATEVER.issuperset(where.in_use):
            return None
        everything = self._records.tasks_near(caller.namespace, (), "open")
        latest = sorted((each for each in everything if not each.is_finished), key=lambda each: -each.updated_at)
        if not latest:
            return None
        tasks = {each.id: each for each in latest[:LOOKED_AT]}
        words = {each: frozenset(index_terms(searched_text(task))) for each, task in tasks.items()}
        asked = None if query.span else work_question(query.text)
        return OpenWork(
            tasks=tasks,
            above={each: path_to(task.parent_id, everything) for each, task in tasks.items()},
            words=words,
            cosines=self._cosines(query, tasks, words),
            asked=asked,
            listed=_listed(everything, asked) if asked else (),
        )

    def _cosines(
        self, query: Query, tasks: Mapping[str, Task], words: Mapping[str, frozenset[str]]
    ) -> Mapping[str, float]:
        """Return the cosine of each task's goal or reason, whichever is nearer."""
        wanted = frozenset(form for forms in asked_terms(query.terms) for form in forms)
        some = sorted(tasks, key=lambda each: -len(wanted & words[each]))[:EMBEDDED]  # Stable: then the latest.
        parts = {each: _parts(tasks[each]) for each in some}
        near = self.nearness([text for texts in parts.values() for text in texts], query.vector)
        return {each: max(near[text] for text in texts) for each, texts in parts.items()} if near else {}

    def nearness(self, texts: Collection[str], vector: Vector | None) -> Mapping[str, float]:
        """Return the cosine of each text to a vector; none without a vector, or where nothing can be embedded."""
        if vector is None:
            return {}
        with suppress(StoreUnavailable):
            vectors = self.vectors(texts)
            return {text: float((vectors[content_hash(text)] @ vector).max()) for text in texts}
        return {}

    def vectors(self, texts: Collection[str]) -> Mapping[str, Vectors]:
        """Return the vectors of each text by its digest; those of goals are kept. Raises StoreUnavailable."""
        missing = {digest: text for text in texts if (digest := content_hash(text)) not in self._vectors}
        made = dict(zip(missing, self._embedder.embed_many([*missing.values()]), strict=True)) if missing else {}
        known = {**self._vectors, **made}
        wanted = {digest: known[digest] for digest in map(content_hash, texts)}
        # Those asked for last are kept, and another thread may have kept others: each sees a whole map.
        self._vectors = dict(
            [*{**{d: v for d, v in known.items() if d not in wanted}, **wanted}.items()][-KEPT_VECTORS:]
        )
        return wanted


def searched_text(task: Task) -> str:
    """Return the words by which a task is found: those of its goal, its reason, its criteria, and its owner."""
    return " ".join(filter(None, (*_parts(task), task.success_criteria, task.agent)))


def _parts(task: Task) -> Sequence[str]:
    return [task.goal, *([task.result] if task.status == "blocked" and task.result else [])]


def _listed(tasks: Sequence[Task], asked: WorkQuestion) -> Sequence[str]:
    """Return what is open, the innermost of each branch of the tree, the latest first; then what is planned.

    Where it is asked what is blocked, only that counts, as far as anything is.
    """
    open_now = beside(tasks, Stack())
    waiting = [each for each in tasks if each.status == "planned" and each.id not in {task.id for task in open_now}]
    found = [*open_now, *waiting]
    blocked = [each for each in found if each.status == "blocked"] if asked.is_blocked else []
    return [each.id for each in (blocked or found)[:LISTED]]


def with_work(
    work: OpenWork, query: Query, rankings: Mapping[str, Mapping[str, float]], background: Background
) -> tuple[Mapping[str, Mapping[str, float]], Background]:
    """Return the scores of records and tasks together, and the background of both.

    A task has the information of each word that it shares with the query, as a record of average length has. Where
    meaning is compared, tasks without a cosine are left out: a hit by words alone would count as certain.
    """
    weighed = work.cosines if "vector" in rankings and query.vector is not None else work.words
    forms = _forms(query.terms)
    shared = {each: _shared(forms, work.words[each]) for each in weighed}
    nats = {each: [background.nats.get(term, 0.0) for term in terms] for each, terms in shared.items() if terms}
    words = {each: min(sum(found), background.information) for each, found in nats.items() if sum(found) > 0}
    held = _shared(forms, frozenset[str]().union(*work.words.values()))
    rare = min(background.holders.values(), default=0.0)
    holders = {each: max(nats[each]) for each in words if rare and max(nats[each]) >= rare}
    cosines = {"vector": {**rankings["vector"], **work.cosines}} if "vector" in rankings else {}
    return (
        {**rankings, "keyword": {**rankings.get("keyword", {}), **words}, **cosines},
        replace(
            background,
            absent=background.absent.difference(held),
            holders={**background.holders, **holders},
        ),
    )


def _forms(terms: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Map query terms to their forms in the index, by the rules of each language."""
    return {term: frozenset(forms) for term, forms in zip(terms, asked_terms(terms), strict=True)}


def _shared(forms: Mapping[str, frozenset[str]], words: Collection[str]) -> Sequence[str]:
    """Return the query terms of which a form is among the words."""
    return [term for term, those in forms.items() if not those.isdisjoint(words)]


def answering(work: OpenWork | None, query: Query, absent: Collection[str]) -> Sequence[str]:
    """Return the tasks that answer a question about open work.

    Where it names no subject that anything here has, these are all; else those that share most of its subject's words,
    at least half of them, each with the open tasks within it. `absent` are the query terms that nothing has.
    """
    if work is None or query.span:
        return ()
    asked = work.asked or _asked_of_goals(query.text, work, absent)
    if asked is None:
        return ()
    subjects = [term for term in asked.subjects if term not in absent]
    if not subjects:
        return work.listed if asked.is_sure or not asked.subjects else ()
    forms = _forms(subjects)
    shared = {each: len(_shared(forms, words)) for each, words in work.words.items()}
    most = max(shared.values(), default=0)
    if 2 * most < len(subjects):
        return ()
    named = [each for each, count in shared.items() if count == most]
    within = [each for goal in named for each, above in work.above.items() if goal in {task.id for task in above}]
    return [*dict.fromkeys([*named, *within])][:LISTED]


def _asked_of_goals(text: str, work: OpenWork, absent: Collection[str]) -> WorkQuestion | None:
    """Return what a query asks about open work, without the words of goals and those that nothing has.

    "Who works on the crane service?" asks "who works on the?" of the crane service.
    """
    held = frozenset[str]().union(*work.words.values())
    named = _shared(_forms(query_terms(text)), held)
    left_out = {*named, *(term for term in absent if not is_of_work(term))}
    rest = _WORD.sub(lambda match: "" if match.group().lower() in left_out else match.group(), text)
    asked = work_question(rest) if named else None
    return replace(asked, subjects=tuple(named)) if asked and asked.is_sure else None
