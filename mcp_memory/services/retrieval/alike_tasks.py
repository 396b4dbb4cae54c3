"""Alike tasks: those elsewhere whose goals mean what a goal does, so that nobody does again what is done or begun."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Stack, Task
from mcp_memory.domain.retrieval.gate import UNDERSTOOD
from mcp_memory.domain.retrieval.queries import coverage
from mcp_memory.domain.text.words import normal_hash, query_terms
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Embedder
from mcp_memory.services.retrieval.search import ParsedQuery, Searcher
from mcp_memory.services.tasks.branch_visibility import visible_to

SAME_GOAL = 0.8
"""Least cosine of two goals that mean the same, with the built-in embedder: rewordings have 0.79 to 0.97, goals about
two things of one sort at most 0.76 ("Deploy staging", "Deploy production")."""
SAME_WORDS = 0.6
"""Least share of words that two goals have in common, where the embedder's model understands little of them."""
OPEN_LOOKED_AT, ENDED_LOOKED_AT, NAMED = 24, 5, 3


class AlikeTasks:
    """Compares a goal with open tasks and with what tasks came to. Thread-safe."""

    def __init__(self, records: RecordStore, searcher: Searcher, embedder: Embedder) -> None:
        self._records = records
        self._searcher = searcher
        self._embedder = embedder

    def __call__(self, stack: Stack, caller: Caller) -> Sequence[Task]:
        """Return at most three tasks that mean what the current one does, open ones first; none of its own path."""
        assert stack.current is not None
        goal, path = stack.current.goal, {task.id for task in stack.path}
        read = self._searcher.read(goal)
        is_open = [each for each in self._records.tasks_near(caller.namespace, (), "open") if not each.is_finished]
        is_open.sort(key=lambda each: (-coverage(read.query.terms, each.goal), -each.updated_at))
        found = [*is_open[:OPEN_LOOKED_AT], *self._ended(read, caller)]
        found = [each for each in found if each.id not in path]
        near = self._searcher.work.nearness([each.goal for each in found], read.query.vector)
        return [each for each in found if self._means(goal, read, each.goal, near.get(each.goal, 0.0))][:NAMED]

    def _ended(self, read: ParsedQuery, caller: Caller) -> Sequence[Task]:
        """Return the tasks of the results that are nearest to the goal."""
        where = replace(visible_to(self._records, caller), kinds=frozenset({"result"}))
        ids: list[str] = []
        with suppress(StoreUnavailable):
            hits = self._searcher.rank(read, where, is_goal=True).hits[:ENDED_LOOKED_AT]
            records = self._records.get([hit.id for hit in hits], caller.scopes)
            ids = [str(each.details.get("task")) for each in records.values()]
        tasks = {each.id: each for each in self._records.tasks_near(caller.namespace, ids)} if ids else {}
        return [tasks[each] for each in dict.fromkeys(ids) if each in tasks and tasks[each].is_finished]

    def _means(self, goal: str, read: ParsedQuery, other: str, cosine: float) -> bool:
        """Return True where two goals mean the same; numbers tell two goals apart, whatever the rest says."""
        if normal_hash(goal) == normal_hash(other):
            return True
        if _numbers(goal) != _numbers(other):
            return False
        if read.query.known >= UNDERSTOOD and self._embedder.share_known(other) >= UNDERSTOOD:
            return cosine >= SAME_GOAL
        return min(coverage(query_terms(goal), other), coverage(query_terms(other), goal)) >= SAME_WORDS


def _numbers(text: str) -> frozenset[str]:
    return frozenset(term for term in query_terms(text) if any(map(str.isdigit, term)))
