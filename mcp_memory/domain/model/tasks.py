"""Defines a task, one frame of the stack, and the shapes in which the tree is shown."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mcp_memory.domain.model.records import Instant

TaskStatus = Literal["planned", "active", "blocked", "complete", "failed", "abandoned"]
FinalStatus = Literal["complete", "failed", "blocked", "abandoned"]
FINISHED: frozenset[TaskStatus] = frozenset({"complete", "failed", "abandoned"})
MAX_DEPTH = 100
"""Deeper than any real work; it stops a loop that only ever pushes."""
WAITING: frozenset[TaskStatus] = frozenset({"planned", "blocked"})
DEAD_ENDS: frozenset[TaskStatus] = frozenset({"failed", "abandoned"})
ATTEMPT_ENDED = tuple(f"task {status}: " for status in sorted(DEAD_ENDS))
"""The beginnings of the marks of records that were noted in an attempt that failed or was given up."""
ENDED_WITH = "ended with its parent"
"""The beginning of the result of a step that nobody ended by itself."""
ERASED = "(erased)"
"""The result of a task whose record was erased."""
_WINDOW = "\x1f"
"""Begins the places of windows but the first: no session that a call names holds a control character."""
NOWHERE = f"{_WINDOW}0"
"""A place that is never entered: of a caller whose window is not known."""
SAME_DAY_SECONDS = 12 * 3_600
"""Places left within so long of each other might both be the one to go on at."""


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
class TaskChange:
    """A change of a task that somebody else was in, had entered or had planned; `agent` is the one to tell, "" nobody.

    `goal` and `result` are read with it, as they are now; a result is that of this change while the status is.
    """

    namespace: str
    task_id: str
    agent: str
    by_agent: str
    by_place: str
    was: TaskStatus
    became: TaskStatus
    at: Instant
    goal: str = ""
    result: str | None = None

    @property
    def deed(self) -> str:
        """The verb for what was done, as in "bob took over t00003"."""
        if self.became == "active":
            return {"planned": "began", "blocked": "took up"}.get(self.was, "took over")
        if self.became == "planned":
            return "reopened" if self.was in FINISHED else "unblocked" if self.was == "blocked" else "handed over"
        return "blocked" if self.became == "blocked" else "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The caller's position among its tasks. `path` runs from the root to the current task; empty without one.

    `siblings` and `children` are those of the current task. `aside` are the finished children of the tasks above its
    parent, from the root down, and `ahead` the waiting ones, from the parent up. `buried` are dead ends below
    completed tasks beside the path, `given_up` failed tasks below abandoned ones there. `hidden_branches` and
    `isolated` go into a `RecordFilter`.

    `news` are the changes that others made to the agent's tasks since the caller's last move. `entered` is the former
    status of a task that a push entered by its words.
    """

    path: tuple[Task, ...] = ()
    siblings: tuple[Task, ...] = ()
    children: tuple[Task, ...] = ()
    aside: tuple[Task, ...] = ()
    ahead: tuple[Task, ...] = ()
    buried: tuple[Task, ...] = ()
    given_up: tuple[Task, ...] = ()
    hidden_branches: frozenset[str] = frozenset()
    isolated: frozenset[str] = frozenset()
    news: tuple[TaskChange, ...] = field(default=(), compare=False)
    entered: TaskStatus | None = field(default=None, compare=False)

    @property
    def ids(self) -> frozenset[str]:
        """Every task that the stack shows, or might."""
        return frozenset(task.id for task in (*self.path, *self._around, *self.ahead, *self.buried, *self.given_up))

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
        """Failed and abandoned tasks beside the path, and below completed ones there, the nearest last.

        What failed below an abandoned one comes last of all: it says more than that it was given up.
        """
        return (*self.buried, *(task for task in self._around if task.status in DEAD_ENDS), *self.given_up)

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


def window_place(number: int) -> str:
    """Return the key of a window's place, from 1: the first has the agent's own, ""."""
    return f"{_WINDOW}{number}" if number > 1 else ""


def is_window(place: str) -> bool:
    """Return True for the place of a window, False for that of a session that a call named."""
    return not place or place.startswith(_WINDOW)


def place_to_resume(
    places: Mapping[str, str], moved: Mapping[str, Instant], left: Collection[str], tasks: Sequence[Task]
) -> str | None:
    """Return the place that a new window takes: the only one that was left in an open task lately; None for several.

    `places` and `moved` map each place of the agent to its task and to the time of its last move; `left` are those of
    windows that have ended. One that was left long before the agent's latest move does not count.
    """
    is_open = {place: task.id for place, task_id in places.items() if (task := nearest_open(task_id, tasks))}
    latest = max((at for place, at in moved.items() if is_window(place)), default=0.0)
    lately = [place for place in is_open if place in left and moved.get(place, 0.0) >= latest - SAME_DAY_SECONDS]
    if len({is_open[place] for place in lately}) != 1:
        return None
    return max(lately, key=lambda place: moved.get(place, 0.0))


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
    beside_path = [*further, *siblings, *children]
    return Stack(
        path=path,
        siblings=siblings,
        children=children,
        aside=tuple(task for task in further if task.is_finished),
        ahead=tuple(task for each in above[-2::-1] for task in below.get(each, ()) if task.status in WAITING),
        buried=tuple(_topmost([each for each in beside_path if each.status == "complete"], below, DEAD_ENDS)),
        given_up=tuple(_topmost([each for each in beside_path if each.status == "abandoned"], below, {"failed"})),
        hidden_branches=hidden,
        isolated=isolated(tasks, path),
    )


def _topmost(
    finished: Sequence[Task], below: Mapping[str | None, Sequence[Task]], ways: Collection[TaskStatus]
) -> Iterator[Task]:
    """Yield the topmost tasks below finished ones that ended in these ways: attempts on the way to their results."""
    waiting = list(finished)
    while waiting:  # It ends: each task has one parent.
        for task in below.get(waiting.pop(0).id, ()):
            if task.status in ways:
                yield task
            else:
                waiting.append(task)


def beside(tasks: Sequence[Task], stack: Stack) -> list[Task]:
    """Return the open tasks beside the stack, the latest first: the innermost of each branch of the tree.

    Among them is what waits below a finished task.
    """
    there = {task.id for task in (*stack.path, *stack.planned)}
    finished = {task.id for task in tasks if task.is_finished}
    is_open = [task for task in tasks if task.status in ("active", "blocked") or task.parent_id in finished]
    others = [task for task in is_open if not task.is_finished and task.id not in there]
    parents = {task.parent_id for task in others}
    return sorted((task for task in others if task.id not in parents), key=lambda task: -task.updated_at)


def worked_on(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return the tasks that somebody is in, the innermost of each line, the latest first."""
    active = [task for task in tasks if task.status == "active"]
    parents = {task.parent_id for task in active}
    inner = [task for task in active if task.id not in parents]
    return sorted(inner, key=lambda task: (-task.updated_at, task.id))


def worked_on_by(agent: str, tasks: Sequence[Task]) -> Task | None:
    """Return the task that an agent is working on, the latest of several; None where it is in no task.

    An agent's own place belongs to its window, which is another process's than that of a person who looks.
    """
    return next((each for each in worked_on(tasks) if each.agent == agent), None)


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
