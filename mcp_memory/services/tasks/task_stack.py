"""The task stack: enters tasks, ends them with a result, shows the tree."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mcp_memory.domain.memory.redaction import clean_text
from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.ids import TASK
from mcp_memory.domain.model.requests import PopRequest, PushRequest
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import (
    ENDED_WITH,
    MAX_DEPTH,
    Stack,
    Task,
    TaskStatus,
    descendants,
    is_window,
    nearest_open,
    path_to,
    stack_at,
    with_changes,
)
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.domain.text.words import normal_hash
from mcp_memory.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock, Redactor
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.tasks.branch_visibility import (
    hidden_branches,
    is_visible,
    place_of,
    recorded_place,
    require_task,
    stack_of,
)
from mcp_memory.services.tasks.task_owners import NAMED, Elsewhere, TaskOwners, named, told, told_change


@dataclass(frozen=True, slots=True, kw_only=True)
class Popped:
    """The task that ended, the unfinished subtasks that ended with it, and the caller's new current task.

    `left` are those that stay open, because they are others' or below others'. Of the tasks beside its path the stack
    has those that have not ended.
    """

    popped: Task
    stack: Stack
    cascaded: tuple[Task, ...] = ()
    left: tuple[Task, ...] = ()


class TaskStack:
    """Moves callers through the tree of their namespace. Thread-safe; every move is one atomic write."""

    def __init__(
        self,
        records: RecordStore,
        redactor: Redactor,
        clock: Clock,
        keep_results: Callable[[Sequence[Task], Caller], object] = lambda tasks, caller: None,
        elsewhere: Elsewhere = lambda caller, places: (),
    ) -> None:
        """`keep_results` stores what tasks came to as records; `elsewhere` is that of `ClientWindows`."""
        self._keep_results = keep_results
        self._owners = TaskOwners(elsewhere)
        self._records = records
        self._redactor = redactor
        self._clock = clock

    def push(self, request: PushRequest, caller: Caller) -> Stack:
        """Enter a task and return the stack there; with a plan alone, return its task's stack and move nobody.

        Of the tasks beside the path the stack has those that have not ended.

        Raises:
            InvalidRequest: what is given does not say one thing.
            NotFound: an unknown task or parent, or an inherited record that the caller does not see.
            Conflict: the task to enter, or the parent, is finished; somebody else is in it, and `takeover` is not set;
                or one begun in the open is to become a branch.
        """
        _require_sense(request)
        self._require_records(request.inherit, caller)
        with self._records.write(caller) as transaction:
            tasks = _near((request.task_id, request.parent_id), caller, transaction)
            entered: TaskStatus | None = None
            if _says(request.goal) or request.task_id:
                current = self._entered(request, caller, tasks, transaction)
                if not request.task_id:
                    entered = next((task.status for task in tasks if task.id == current.id), None)
                started = self._start_above(current, caller, tasks, transaction)
                tasks = with_changes(tasks, [current, *started])
                transaction.set_place(caller, current.id)
            else:
                current = self._planned_for(request, caller, tasks, transaction)
            plan = request.plan if entered is None else self._missing(request.plan, current, tasks)
            steps = [self._task(goal, current, caller, "planned", transaction) for goal in plan]
            for step in steps:
                transaction.add_task(step)
            news = told(caller, transaction)
        return replace(stack_at(current.id, with_changes(tasks, steps)), news=news, entered=entered)

    def pop(self, request: PopRequest, caller: Caller) -> Popped:
        """End the current task, or the one named, and return to its parent.

        Raises:
            InvalidRequest: the result is empty.
            NotFound: there is no task to pop.
            Conflict: it has unfinished children and `cascade` is not set, it is finished, two tasks could be meant,
                somebody else ended the one that the caller was in; or, unless the call is repeated, somebody else is in
                it or changed it since the caller's last move.
        """
        if not _says(request.result):
            raise InvalidRequest("result is empty; say what the task came to, also when it failed or is given up.")
        with self._records.write(caller) as transaction:
            tasks = _near((request.task_id,), caller, transaction)
            task = self._to_end(request, caller, tasks, transaction)
            self._owners.warn(task, caller, transaction)
            popped = self._finish(task, request)
            cascaded, left = self._cascade(task, request, caller, tasks, transaction)
            for before, after in (*cascaded, (task, popped)):
                self._owners.save(before, after, caller, transaction)
            ended = tuple(after for _, after in cascaded)
            tasks = with_changes(tasks, [*ended, popped])
            place = self._leave(popped, request, caller, tasks, transaction)
            news = told(caller, transaction)
        with suppress(StoreUnavailable):  # The task has ended; upkeep stores its record later.
            self._keep_results([popped], caller)
        return Popped(popped=popped, stack=replace(stack_at(place, tasks), news=news), cascaded=ended, left=left)

    def tree(self, caller: Caller) -> Sequence[Task]:
        """Return every task of the namespace in the order they were made."""
        return self._records.tasks(caller.namespace)

    def stack(self, caller: Caller) -> Stack:
        """Return the caller's stack without a move."""
        return stack_of(self._records, caller)

    def left_open(self, caller: Caller, stack: Stack) -> Mapping[Task, Sequence[Task]]:
        """Return the agent's latest five open tasks beside the stack, each with those above it, the root first.

        None of its other windows stands in one of them.
        """
        tasks = self._records.tasks_near(caller.namespace, (), "open")
        own = self._owners.left_open(caller, tasks, stack, self._records.places(caller))[:NAMED]
        return {task: path_to(task.parent_id, tasks) for task in own}

    def _entered(self, request: PushRequest, caller: Caller, tasks: Sequence[Task], transaction: Transaction) -> Task:
        if request.task_id:
            return self._enter(request, require_task(request.task_id, tasks), caller, transaction)
        parent = self._parent(request, caller, tasks, transaction)
        known = parent and self._planned_step(request.goal, parent, tasks)
        if known := known or self._again(request, parent, caller, tasks, transaction):
            return self._enter(request, known, caller, transaction)
        return self._create(request, parent, caller, transaction)

    def _planned_step(self, goal: str, parent: Task, tasks: Sequence[Task]) -> Task | None:
        """Return the planned step below the parent that has the goal's words, the nearest of several."""
        digest = normal_hash(self._clean(goal))
        planned = [each for each in descendants(parent.id, tasks) if each.status == "planned"]
        alike = [each for each in planned if normal_hash(each.goal) == digest]
        return min(alike, key=lambda each: (each.depth, each.id), default=None)

    def _again(
        self, request: PushRequest, parent: Task | None, caller: Caller, tasks: Sequence[Task], transaction: Transaction
    ) -> Task | None:
        """Return the agent's own open task of these words that the push means: who resumes says the goal again.

        That is one on the way to the parent or below it, or a root; outside of the tree any. A branch is a new attempt.
        """
        if request.branch:
            return None
        digest, path = normal_hash(self._clean(request.goal)), path_to(parent.id if parent else None, tasks)
        way = set[str]() if request.parent_id else {each.id for each in path}
        meant = [
            each
            for each in tasks
            if not each.is_finished
            and each.agent == caller.agent
            and (
                each.id in way or each.parent_id == (parent.id if parent else None) or _is_anywhere(each, request, path)
            )
            and normal_hash(each.goal) == digest
            and not self._owners.holder(each, caller, transaction)
        ]
        return max(meant, key=lambda each: (each.id in way, each.updated_at, each.id), default=None)

    def _missing(self, plan: Sequence[str], current: Task, tasks: Sequence[Task]) -> Sequence[str]:
        """Return the steps of which no open task below has the words."""
        there = {normal_hash(each.goal) for each in descendants(current.id, tasks) if not each.is_finished}
        return [goal for goal in plan if normal_hash(self._clean(goal)) not in there]

    def _start_above(
        self, task: Task, caller: Caller, tasks: Sequence[Task], transaction: Transaction
    ) -> Iterable[Task]:
        """Start the planned parents of a task: who begins a step of a plan has begun the plan."""
        waiting = [each for each in path_to(task.parent_id, tasks) if each.status == "planned"]
        return [self._owners.save(each, self._taken_up(each, caller), caller, transaction) for each in waiting]

    def _planned_for(
        self, request: PushRequest, caller: Caller, tasks: Sequence[Task], transaction: Transaction
    ) -> Task:
        if request.parent_id:
            return _open_parent(request.parent_id, tasks)
        return self._current(None, "parent_id", caller, tasks, transaction)

    def _create(self, request: PushRequest, parent: Task | None, caller: Caller, transaction: Transaction) -> Task:
        task = self._task(request.goal, parent, caller, "active", transaction)
        criteria = self._safe(request.success_criteria)
        task = replace(task, success_criteria=criteria, inherit=request.inherit, branch=request.branch)
        transaction.add_task(task)
        return task

    def _enter(self, request: PushRequest, task: Task, caller: Caller, transaction: Transaction) -> Task:
        if task.is_finished:
            raise Conflict(f"Task {task.id} is {task.status}; push its goal again to start over.")
        holder = self._owners.holder(task, caller, transaction)
        if holder and not request.takeover:
            go_on = "enter it with takeover, push a goal below it with parent_id, or take another task"
            raise Conflict(f"{holder}; {go_on}.")
        if request.branch and not task.branch and task.status != "planned":
            begun = f"Task {task.id} was begun in the open, and a branch would hide what others do in it"
            raise Conflict(f"{begun}; enter it without branch, or push a new goal below it with branch.")
        entered = replace(
            self._taken_up(task, caller),
            success_criteria=self._safe(request.success_criteria) or task.success_criteria,
            inherit=tuple(dict.fromkeys((*task.inherit, *request.inherit))),
            branch=task.branch or request.branch,
        )
        return self._owners.save(task, entered, caller, transaction)

    def _taken_up(self, task: Task, caller: Caller) -> Task:
        return replace(
            task, status="active", agent=caller.agent, session_id=caller.session_id, updated_at=self._clock()
        )

    def _parent(
        self, request: PushRequest, caller: Caller, tasks: Sequence[Task], transaction: Transaction
    ) -> Task | None:
        """Return the named parent, else the current task; None makes a new root."""
        place = request.parent_id or place_of(transaction.places(caller), caller, tasks)
        return _open_parent(place, tasks) if place else None

    def _task(
        self, goal: str, parent: Task | None, caller: Caller, status: TaskStatus, transaction: Transaction
    ) -> Task:
        now = self._clock()
        if parent and parent.depth >= MAX_DEPTH:
            raise Conflict(f"Task {parent.id} is {MAX_DEPTH} levels deep; pop finished tasks before you push more.")
        return Task(
            id=transaction.next_id(TASK),
            namespace=caller.namespace,
            parent_id=parent.id if parent else None,
            goal=transaction.erased(caller.scopes).without(self._clean(goal).strip()),
            status=status,
            depth=parent.depth + 1 if parent else 0,
            agent=caller.agent,
            session_id=caller.session_id,
            created_at=now,
            updated_at=now,
        )

    def _current(
        self, task_id: str | None, argument: str, caller: Caller, tasks: Sequence[Task], transaction: Transaction
    ) -> Task:
        """Return the named task, else the caller's; refused where the agent's sessions have different current tasks.

        `argument` is the parameter that names it.
        """
        if task_id:
            return require_task(task_id, tasks)
        places = transaction.places(caller)
        own = place_of(places, caller, tasks)
        is_open = {task.id for task in tasks if not task.is_finished}
        others = {at for place, at in places.items() if at != own and at in is_open and not is_window(place)}
        if others and not caller.named_session:
            ids = sorted({*others, *((own,) if own else ())})
            if len(ids) > 1:
                several = "Two" if len(ids) == 2 else str(len(ids))
                those = named([task for task in tasks if task.id in ids])
                raise Conflict(f"{several} tasks could be meant: {those}. Call again with {argument}.")
            own = ids[0]
        if own is None:
            yours = self._owners.left_open(caller, tasks, Stack(), places)
            resume = f" Open are yours: {named(yours)}; push_task with task_id resumes one." if yours else ""
            raise NotFound(f"You are in no task; call push_task with a goal first, or name a {argument}.{resume}")
        return require_task(own, tasks)

    def _to_end(self, request: PopRequest, caller: Caller, tasks: Sequence[Task], transaction: Transaction) -> Task:
        """Return the task to end: the named one, else the caller's.

        Refuses a finished one, whose parent needs its own result.
        """
        task = self._current(request.task_id, "task_id", caller, tasks, transaction)
        if task.is_finished:
            raise Conflict(f"Task {task.id} is {task.status} already; push a new goal or enter another task.")
        stood = None if request.task_id else recorded_place(transaction.places(caller), caller)
        ended = next((each for each in tasks if each.id == stood and each.is_finished), None)
        if ended:
            who = "".join(
                f": {told_change(each, caller)}" for each in transaction.news(caller) if each.task_id == stood
            )
            was = f"The task you were in, {named([ended])}, is {ended.status} already{who}"
            raise Conflict(
                f"{was}. To end the open {named([task])} instead, call again with task_id; or push to go on."
            )
        return task

    def _finish(self, task: Task, request: PopRequest) -> Task:
        return replace(
            task,
            status=request.status,
            result=self._clean(request.result).strip(),
            artifacts=tuple(dict.fromkeys((*task.artifacts, *(self._clean(each) for each in request.artifacts)))),
            updated_at=self._clock(),
        )

    def _safe(self, text: str | None) -> str | None:
        return self._clean(text) if text else None

    def _clean(self, text: str) -> str:
        return clean_text(text, self._redactor.redact).text

    def _cascade(
        self, task: Task, request: PopRequest, caller: Caller, tasks: Sequence[Task], transaction: Transaction
    ) -> tuple[list[tuple[Task, Task]], tuple[Task, ...]]:
        """End the caller's unfinished subtasks, if asked to: pairs of before and after, and those that stay.

        With a complete task they are complete, since its result says what came of them; with any other they are
        abandoned. It stops at others' tasks, and at those in which other windows stand. A blocked task may keep all.
        """
        below = [t for t in descendants(task.id, tasks) if not t.is_finished]
        if not below or request.status == "blocked":
            return [], ()
        if not request.cascade:
            count = counted(len(below), "unfinished subtask")
            raise Conflict(f"{task.id} has {count}: {named(below, caller)}. Pop them first or set cascade.")
        kept = self._owners.kept(below, caller, tasks, transaction)
        reason = f"{ENDED_WITH} {task.id}"
        status: TaskStatus = "complete" if request.status == "complete" else "abandoned"
        ended = [
            (t, replace(t, status=status, result=_reason(t, reason), updated_at=self._clock()))
            for t in below
            if t.id not in kept
        ]
        return ended, tuple(t for t in tasks if t in below and t.id in kept)

    def _leave(
        self, popped: Task, request: PopRequest, caller: Caller, tasks: Sequence[Task], transaction: Transaction
    ) -> str | None:
        """Leave the ended task for its parent, or the nearest open task above it; elsewhere stay put.

        A caller without a task that ended the only candidate, another session's of its agent, also moves to the parent.
        """
        place = recorded_place(transaction.places(caller), caller)
        here = nearest_open(place, tasks)
        ended = {popped.id, *(t.id for t in descendants(popped.id, tasks))}
        if place not in ended and (here or request.task_id):
            return here.id if here else None
        above = nearest_open(popped.parent_id, tasks)
        transaction.set_place(caller, above.id if above else None)
        return above.id if above else None

    def _require_records(self, record_ids: Sequence[str], caller: Caller) -> None:
        if not record_ids:
            return
        hidden = hidden_branches(self._records, caller)
        records = self._records.get(record_ids, caller.scopes)
        missing = set(record_ids) - {each.id for each in records.values() if is_visible(each, caller, hidden)}
        if missing:
            raise NotFound(f"inherit: no record {min(missing)!r}; call `recall` to find ids.")


def _near(named: Iterable[str | None], caller: Caller, transaction: Transaction) -> Sequence[Task]:
    """Return all that a move may read or change, however many tasks have ended.

    That is the tasks that the call names, the caller's place, open tasks, and all above them.
    """
    ids = filter(None, (*named, recorded_place(transaction.places(caller), caller)))
    return transaction.tasks_near(caller.namespace, [*ids], "open")


def _is_anywhere(task: Task, request: PushRequest, path: Sequence[Task]) -> bool:
    """Return True for a task that a push without a parent may mean wherever the caller stands."""
    return not request.parent_id and (not path or not task.depth)


def _reason(task: Task, ended: str) -> str:
    """Return the result of a step that ended with another task: that, and why it was blocked."""
    return f"{ended}; it was blocked: {task.result}" if task.status == "blocked" and task.result else ended


def _says(text: str) -> bool:
    """Return True where a text without its control characters is not empty."""
    return bool(without_controls(text)[0].strip())


def _require_sense(request: PushRequest) -> None:
    """Raise InvalidRequest where the request is ambiguous, or holds fields that would be ignored."""
    has_goal, has_task = _says(request.goal), bool(request.task_id)
    if (has_goal and has_task) or not (has_goal or has_task or request.plan):
        raise InvalidRequest("Give goal for a new task, task_id to enter an existing one, or plan for subtasks.")
    if not all(map(_says, request.plan)):
        raise InvalidRequest("plan holds an empty goal; leave it out.")
    if request.takeover and not has_task:
        raise InvalidRequest("takeover is for an existing task; give its task_id.")
    if has_task and request.parent_id:
        raise InvalidRequest("A task stays below its parent; leave parent_id out, or push its goal again elsewhere.")
    if not (has_goal or has_task) and (request.success_criteria or request.inherit or request.branch):
        raise InvalidRequest("success_criteria, inherit and branch are for the task you enter; give goal or task_id.")


def _open_parent(task_id: str, tasks: Sequence[Task]) -> Task:
    parent = require_task(task_id, tasks)
    if parent.is_finished:
        raise Conflict(f"Parent {parent.id} is {parent.status}; name an open task or leave parent_id out.")
    return parent
