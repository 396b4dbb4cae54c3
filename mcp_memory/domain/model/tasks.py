"""Defines a task, one frame of the stack, and the shapes in which the tree is shown."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_memory.domain.model.records import Instant

TaskStatus = Literal["planned", "active", "blocked", "complete", "failed", "abandoned"]
FinalStatus = Literal["complete", "failed", "blocked", "abandoned"]
FINISHED: frozenset[TaskStatus] = frozenset({"complete", "failed", "abandoned"})
MAX_DEPTH = 100
"""Deeper than any real work; it stops a loop that only ever pushes."""
WAITING: frozenset[TaskStatus] = frozenset({"planned", "blocked"})
DEAD_ENDS: frozenset[TaskStatus] = frozenset({"failed", "abandoned"})
ERASED = "(erased)"
"""The result of a task whose record was erased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A frame. `depth` is 0 at the root; `inherit` names records the child may see; a branch hides its own records."""

    id: str
    namespace: str
    parent_id: str | None
    goal: str
    status: TaskStatus
    depth: int
    agent: str
    session_id: str
    created_at: Instant
    updated_at: Instant
    result: str | None = None
    success_criteria: str | None = None
    artifacts: tuple[str, ...] = ()
    inherit: tuple[str, ...] = ()
    branch: bool = False

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The caller's position among its tasks. `path` runs from the root to the current task; empty without one.

    `siblings` and `children` are those of the current task. `aside` are the finished children of the tasks above its
    parent, from the root down, and `ahead` the waiting ones, from the parent up. `buried` are dead ends below
    completed tasks beside the path. `hidden_branches` and `isolated` go into a `RecordFilter`.
    """

    path: tuple[Task, ...] = ()
    siblings: tuple[Task, ...] = ()
    children: tuple[Task, ...] = ()
    aside: tuple[Task, ...] = ()
    ahead: tuple[Task, ...] = ()
    buried: tuple[Task, ...] = ()
    hidden_branches: frozenset[str] = frozenset()
    isolated: frozenset[str] = frozenset()

    @property
    def ids(self) -> frozenset[str]:
        """Every task that the stack shows, or might."""
        return frozenset(task.id for task in (*self.path, *self._around, *self.ahead, *self.buried))

    @property
    def current(self) -> Task | None:
        return self.path[-1] if self.path else None

    @property
    def root(self) -> Task | None:
        """The task that all work serves; the current task itself where that has no parent."""
        return self.path[0] if self.path else None

    @property
    def ancestors(self) -> tuple[Task, ...]:
        """The tasks between the root and the current task, from the root down."""
        return self.path[1:-1]

    @property
    def done(self) -> tuple[Task, ...]:
        """Completed tasks beside the path, the nearest last: with the dead ends, they represent the isolated tasks."""
        return tuple(task for task in self._around if task.status == "complete")

    @property
    def dead_ends(self) -> tuple[Task, ...]:
        """Failed and abandoned tasks beside the path, and below completed ones there, the nearest last."""
        return (*self.buried, *(task for task in self._around if task.status in DEAD_ENDS))

    @property
    def open_threads(self) -> tuple[Task, ...]:
        """Active subtasks and siblings."""
        return tuple(task for task in (*self.children, *self.siblings) if task.status == "active")

    @property
    def branch_id(self) -> str | None:
        return innermost_branch(self.path)

    @property
    def _around(self) -> tuple[Task, ...]:
        return (*self.aside, *self.siblings, *self.children)

    @property
    def planned(self) -> tuple[Task, ...]:
        """The tasks that come next.

        Planned or blocked subtasks of the current task, its waiting siblings, then those further up.
        """
        near = tuple(task for task in (*self.children, *self.siblings) if task.status in WAITING)
        return (*near, *self.ahead)


def path_to(task_id: str | None, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the path from root to task; empty where the id is None or unknown. A missing parent ends it there."""
    by_id = {task.id: task for task in tasks}
    path: list[Task] = []
    task = by_id.get(task_id) if task_id else None
    seen: set[str] = set()
    while task and task.id not in seen:
        seen.add(task.id)
        path.append(task)
        task = by_id.get(task.parent_id) if task.parent_id else None
    return tuple(reversed(path))


def innermost_branch(path: Sequence[Task]) -> str | None:
    """Return the branch that owns records stored at the end of the path, hidden from the trunk; None in the trunk."""
    return next((task.id for task in reversed(path) if task.branch), None)


def nearest_open(task_id: str | None, tasks: Sequence[Task]) -> Task | None:
    """Return the task, or its nearest unfinished ancestor where somebody else already ended it."""
    return next((task for task in reversed(path_to(task_id, tasks)) if not task.is_finished), None)


def descendants(task_id: str, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return every task below this one, deepest first, so that finishing them in order never leaves an open child."""
    below: list[Task] = []
    seen, frontier = {task_id}, {task_id}
    while frontier:
        children = [task for task in tasks if task.parent_id in frontier and task.id not in seen]
        below.extend(children)
        frontier = {task.id for task in children}
        seen |= frontier
    return tuple(sorted(below, key=lambda task: -task.depth))


def isolated(tasks: Sequence[Task], path: Sequence[Task]) -> frozenset[str]:
    """Return the finished tasks of the path's tree that are not on it, and all below them: their results replace them.

    Other trees contribute no results here, so none of their tasks is isolated. An empty path isolates nothing.
    """
    on_path = {task.id for task in path}
    tree = _subtrees(tasks, lambda task: bool(path) and task.id == path[0].id)
    return tree & _subtrees(tasks, lambda task: task.is_finished and task.id not in on_path)


def branches_beside(tasks: Sequence[Task], path: Sequence[Task]) -> frozenset[str]:
    """Return the branches hidden from the end of the path: open ones beside it, and all those within them."""
    on_path = {task.id for task in path}
    hidden = _subtrees(tasks, lambda task: task.branch and not task.is_finished and task.id not in on_path)
    return frozenset(task.id for task in tasks if task.branch and task.id in hidden)


def stack_at(task_id: str | None, tasks: Sequence[Task]) -> Stack:
    """Return the stack as seen from one task of a namespace's tree, finished relatives included."""
    path = path_to(task_id, tasks)
    hidden = branches_beside(tasks, path)
    if not path:
        return Stack(hidden_branches=hidden)
    on_path = {task.id for task in path}
    below: dict[str | None, list[Task]] = {}
    for task in tasks:
        if task.id not in on_path:
            below.setdefault(task.parent_id, []).append(task)
    above = [task.id for task in path[:-1]]
    siblings = tuple(below.get(above[-1], ())) if above else ()
    children = tuple(below.get(path[-1].id, ()))
    further = [task for each in above[:-1] for task in below.get(each, ())]
    return Stack(
        path=path,
        siblings=siblings,
        children=children,
        aside=tuple(task for task in further if task.is_finished),
        ahead=tuple(task for each in above[-2::-1] for task in below.get(each, ()) if task.status in WAITING),
        buried=tuple(_buried([task for task in (*further, *siblings, *children) if task.status == "complete"], below)),
        hidden_branches=hidden,
        isolated=isolated(tasks, path),
    )


def _buried(completed: Sequence[Task], below: Mapping[str | None, Sequence[Task]]) -> Iterator[Task]:
    """Yield the topmost dead ends below completed tasks: the failed attempts on the way to a result."""
    waiting = list(completed)
    while waiting:  # It ends: each task has one parent.
        for task in below.get(waiting.pop(0).id, ()):
            if task.status in DEAD_ENDS:
                yield task
            else:
                waiting.append(task)


def most_telling(tasks: Sequence[Task], path: Sequence[Task], limit: int) -> list[Task]:
    """Return at most `limit` of the tasks, in their order, none without its parent.

    The path first, then open tasks, then finished ones, each the latest first.
    """
    on_path = {task.id for task in path}
    parents = {task.id: task.parent_id for task in tasks}
    ranked = sorted(tasks, key=lambda task: (task.id not in on_path, task.is_finished, -task.updated_at))
    kept: set[str] = set()
    for task in ranked:
        line: list[str] = []
        above: str | None = task.id
        while above in parents and above not in kept and above not in line:
            line.append(above)
            above = parents[above]
        if len(kept) + len(line) <= limit:
            kept.update(line)
    return [task for task in tasks if task.id in kept]


def with_changes(tasks: Iterable[Task], changed: Iterable[Task]) -> list[Task]:
    """Return the tasks after the changes, in the same order, new ones last."""
    return list({task.id: task for task in (*tasks, *changed)}.values())


def _subtrees(tasks: Sequence[Task], is_top: Callable[[Task], bool]) -> frozenset[str]:
    """Return the tasks for which `is_top` holds, and everything below them."""
    found: set[str] = set()
    for task in sorted(tasks, key=lambda task: task.depth):  # Parents before their children.
        if task.parent_id in found or is_top(task):
            found.add(task.id)
    return frozenset(found)
