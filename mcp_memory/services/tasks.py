"""The task stack: enter a task, leave it with a result, see the tree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.ids import TASK
from mcp_memory.domain.scopes import Caller
from mcp_memory.domain.tasks import MAX_DEPTH, FinalStatus, Stack, Task, TaskStatus, descendants, stack_at
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.ports import Clock, RecordStore, Redactor, Transaction
from mcp_memory.services.standing import place_of, require_task, stack_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest:
    """A new goal, a plan of subtasks, or a planned, blocked or active task to enter."""

    goal: str = ""
    task_id: str | None = None
    parent_id: str | None = None
    plan: tuple[str, ...] = ()
    success_criteria: str | None = None
    inherit: tuple[str, ...] = ()
    branch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PopRequest:
    """What the current task, or the one named, came to."""

    result: str
    status: FinalStatus = "complete"
    artifacts: tuple[str, ...] = ()
    task_id: str | None = None
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Popped:
    """The task that ended, and where the caller stands now."""

    popped: Task
    stack: Stack


class Tasks:
    """Moves callers through the tree of their namespace. Thread-safe; every move is one atomic write."""

    def __init__(self, records: RecordStore, redactor: Redactor, clock: Clock) -> None:
        self._records = records
        self._redactor = redactor
        self._clock = clock

    def push(self, request: PushRequest, caller: Caller) -> Stack:
        """Enter a task and return the stack from there.

        Raises:
            InvalidRequest: neither goal, task nor plan is given, or both goal and task are.
            NotFound: an unknown task, parent or inherited record.
            Conflict: the task to enter, or the parent, is finished.
        """
        if bool(request.goal.strip()) == bool(request.task_id) and (request.goal.strip() or not request.plan):
            raise InvalidRequest("Give goal for a new task, task_id to enter an existing one, or plan for subtasks.")
        if not all(goal.strip() for goal in request.plan):
            raise InvalidRequest("plan holds an empty goal; leave it out.")
        self._require_records(request.inherit, caller)
        with self._records.write() as transaction:
            tasks = list(transaction.tasks(caller.namespace))
            if request.task_id:
                current = self._enter(request, require_task(request.task_id, tasks), caller, transaction)
                tasks = [current if task.id == current.id else task for task in tasks]
            elif request.goal.strip():
                current = self._create(request, self._parent(request, caller, tasks, transaction), caller, transaction)
                tasks.append(current)
            else:
                current = self._current(None, caller, tasks, transaction)
            for goal in request.plan:
                planned = self._task(goal, current, caller, "planned", transaction)
                transaction.add_task(planned)
                tasks.append(planned)
            if request.goal.strip() or request.task_id:
                transaction.set_place(caller, current.id)
        return stack_at(current.id, tasks)

    def pop(self, request: PopRequest, caller: Caller) -> Popped:
        """End the current task, or the one named, and return to its parent.

        Raises:
            InvalidRequest: the result is empty.
            NotFound: there is no task to pop.
            Conflict: it has unfinished children and `cascade` is not set, it is finished, or two tasks could be meant.
        """
        if not request.result.strip():
            raise InvalidRequest("result is empty; say what the task came to, also when it failed.")
        with self._records.write() as transaction:
            tasks = list(transaction.tasks(caller.namespace))
            task = self._current(request.task_id, caller, tasks, transaction)
            if task.is_finished:
                raise Conflict(f"Task {task.id} is {task.status} already; push a new goal or enter another task.")
            popped = self._finish(task, request)
            changed = [*self._cascade(task, request, tasks), popped]
            for each in changed:
                transaction.update_task(each)
            tasks = [next((c for c in changed if c.id == task.id), task) for task in tasks]
            place = self._leave(popped, caller, tasks, transaction)
        return Popped(popped=popped, stack=stack_at(place, tasks))

    def tree(self, caller: Caller) -> Sequence[Task]:
        """Every task of the namespace in the order they were made."""
        return self._records.tasks(caller.namespace)

    def stack(self, caller: Caller) -> Stack:
        """Where the caller stands, without moving."""
        return stack_of(self._records, caller)

    def _create(self, request: PushRequest, parent: Task | None, caller: Caller, transaction: Transaction) -> Task:
        task = self._task(request.goal, parent, caller, "active", transaction)
        criteria = self._safe(request.success_criteria)
        task = replace(task, success_criteria=criteria, inherit=request.inherit, branch=request.branch)
        transaction.add_task(task)
        return task

    def _enter(self, request: PushRequest, task: Task, caller: Caller, transaction: Transaction) -> Task:
        if task.is_finished:
            raise Conflict(f"Task {task.id} is {task.status}; push its goal again to start over.")
        entered = replace(
            task,
            status="active",
            agent=caller.agent,
            session_id=caller.session_id,
            success_criteria=self._safe(request.success_criteria) or task.success_criteria,
            inherit=tuple(dict.fromkeys((*task.inherit, *request.inherit))),
            branch=task.branch or request.branch,
            updated_at=self._clock(),
        )
        transaction.update_task(entered)
        return entered

    def _parent(
        self, request: PushRequest, caller: Caller, tasks: Sequence[Task], transaction: Transaction
    ) -> Task | None:
        """The named parent, else the task the caller is in; none of them makes a new root."""
        place = request.parent_id or place_of(transaction.places(caller), caller, tasks)
        if not place:
            return None
        parent = require_task(place, tasks)
        if parent.is_finished:
            raise Conflict(f"Parent {parent.id} is {parent.status}; name an open task or leave parent_id out.")
        return parent

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
            goal=self._redactor.redact(goal.strip())[0],
            status=status,
            depth=parent.depth + 1 if parent else 0,
            agent=caller.agent,
            session_id=caller.session_id,
            created_at=now,
            updated_at=now,
        )

    def _current(self, task_id: str | None, caller: Caller, tasks: Sequence[Task], transaction: Transaction) -> Task:
        """The named task, else the caller's; refused where the agent's sessions stand in different ones."""
        if task_id:
            return require_task(task_id, tasks)
        places = transaction.places(caller)
        own = place_of(places, caller, tasks)
        is_open = {task.id for task in tasks if not task.is_finished}
        others = {place for place in places.values() if place != own and place in is_open}
        if others and not caller.named_session:
            ids = sorted({*others, *((own,) if own else ())})
            if len(ids) > 1:
                named = "; ".join(f"{task.id} ({task.goal[:60]})" for task in tasks if task.id in ids[:5])
                raise Conflict(f"Two tasks could be meant: {named}. Call again with task_id.")
            own = ids[0]
        if own is None:
            raise NotFound("You are in no task; call push_task with a goal first, or name a task_id.")
        return require_task(own, tasks)

    def _finish(self, task: Task, request: PopRequest) -> Task:
        return replace(
            task,
            status=request.status,
            result=self._redactor.redact(request.result.strip())[0],
            artifacts=tuple(
                dict.fromkeys((*task.artifacts, *(self._redactor.redact(a)[0] for a in request.artifacts)))
            ),
            updated_at=self._clock(),
        )

    def _safe(self, text: str | None) -> str | None:
        return self._redactor.redact(text)[0] if text else None

    def _cascade(self, task: Task, request: PopRequest, tasks: Sequence[Task]) -> list[Task]:
        """Unfinished tasks below, abandoned when asked for. A blocked task may keep them."""
        below = [t for t in descendants(task.id, tasks) if not t.is_finished]
        if not below or request.status == "blocked":
            return []
        if not request.cascade:
            named = "; ".join(f"{t.id} ({t.goal[:60]})" for t in below[:5])
            raise Conflict(f"{task.id} has {len(below)} unfinished subtasks: {named}. Pop them first or set cascade.")
        reason = f"ended with its parent {task.id}"
        return [replace(t, status="abandoned", result=t.result or reason, updated_at=self._clock()) for t in below]

    def _leave(self, popped: Task, caller: Caller, tasks: Sequence[Task], transaction: Transaction) -> str | None:
        """Step out to the parent, open as long as anything below it was, from what ended; stay put elsewhere."""
        place = transaction.places(caller).get(caller.session_id if caller.named_session else "")
        ended = {popped.id, *(t.id for t in descendants(popped.id, tasks))}
        if place not in ended:
            return place
        transaction.set_place(caller, popped.parent_id)
        return popped.parent_id

    def _require_records(self, record_ids: Sequence[str], caller: Caller) -> None:
        missing = set(record_ids) - self._records.get(record_ids, caller.scopes).keys() if record_ids else set[str]()
        if missing:
            raise NotFound(f"inherit: no record {min(missing)!r}; call `recall` to find ids.")
