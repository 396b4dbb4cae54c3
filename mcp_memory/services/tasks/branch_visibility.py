"""Visibility: a caller's place in the task tree, and what it may therefore see."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcp_memory.domain.model.lifecycle import NOTED
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter, session_key
from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.model.tasks import Stack, Task, branches_beside, nearest_open, path_to, stack_at, with_changes
from mcp_memory.errors import Conflict, NotFound
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.transaction import TaskReader, Transaction


def recorded_place(places: Mapping[str, str], caller: Caller) -> str | None:
    """Return the task the caller entered last, which another agent may have ended since."""
    return places.get(caller.place)


def place_of(places: Mapping[str, str], caller: Caller, tasks: Sequence[Task]) -> str | None:
    """Return the caller's current task, always an open one: its session's own if it named one, else its window's."""
    task = nearest_open(recorded_place(places, caller), tasks)
    return task.id if task else None


def storing_place(places: Mapping[str, str], caller: Caller, tasks: Sequence[Task]) -> str | None:
    """Return the task that the caller's records belong to; a session without a task uses its window's."""
    own = place_of(places, caller, tasks)
    return own or place_of(places, replace(caller, named_session=False), tasks)


def storing_path(records: TaskReader, caller: Caller) -> tuple[Task, ...]:
    """Return the path to the task that the caller's records belong to; empty outside of the tree."""
    places = records.places(caller)
    own = {places[place] for place in (caller.place, caller.window) if place in places}
    tasks = records.tasks_near(caller.namespace, own)
    return path_to(storing_place(places, caller, tasks), tasks)


def stack_of(records: TaskReader, caller: Caller, task_id: str | None = None) -> Stack:
    """Return the caller's stack with its news, or that of a named task. Raises NotFound for an unknown task."""
    stack = standing(records, caller, task_id)
    return replace(stack, news=tuple(records.news(caller)))


def standing(records: TaskReader, caller: Caller, task_id: str | None = None) -> Stack:
    """Return the same stack without news. Raises NotFound for an unknown task."""
    places = records.places(caller)
    if task_id is not None:
        tasks = records.tasks_near(caller.namespace, [task_id], "trees")
        require_task(task_id, tasks)
    else:
        tasks = records.tree_at(caller) if recorded_place(places, caller) else ()
    branches = records.open_branches()
    hiding = records.tasks_near(caller.namespace, branches) if branches else ()
    return stack_at(task_id or place_of(places, caller, tasks), with_changes(tasks, hiding))


def hidden_branches(records: TaskReader, caller: Caller) -> frozenset[str]:
    """Return branches, also of inherited namespaces, whose records this caller does not see: it is in none of them.

    A call that names no session sees the branches of every session of its agent, because an agent opens by id what it
    stored. A call that names one sees what is visible from where it stores.
    """
    branches = records.open_branches()
    if not branches:
        return branches
    places = records.places(caller)
    tasks = records.tasks_near(caller.namespace, {*branches, *places.values()})
    own = [storing_place(places, caller, tasks)] if caller.named_session else [None, *places.values()]
    # The branches of a path alone say what is beside it, and many places share them.
    paths = {tuple(task for task in path_to(place, tasks) if task.branch) for place in own}
    hidden = [branches_beside(tasks, path) for path in paths]
    return (branches - {task.id for task in tasks}) | frozenset[str].intersection(*hidden)


def visible_to(records: TaskReader, caller: Caller) -> RecordFilter:
    """Return the filter for everything the caller may see; narrow it further."""
    hidden = hidden_branches(records, caller)
    return RecordFilter(
        scopes=caller.scopes, hidden_branches=hidden, noted_in=session_key(caller.agent, caller.session_id)
    )


def is_visible(record: Record, caller: Caller, hidden: frozenset[str]) -> bool:
    """Return True where the caller may open the record by its id; its scope was checked before.

    What is noted opens in its own session, and for a call of the same agent that names no session.
    """
    is_elsewhere = caller.agent != record.agent or (caller.named_session and caller.session_id != record.session_id)
    return record.branch_id not in hidden and not (record.status == NOTED and is_elsewhere)


def readable(entries: Mapping[str, Entry], records: MemoryReader, caller: Caller) -> Mapping[str, Entry]:
    """Return the log entries, by id, whose covered records the caller sees completely."""
    covered = frozenset(record_id for entry in entries.values() for record_id in entry.covers)
    if not covered:
        return {}
    seen = records.matching_ids(replace(visible_to(records, caller), only=covered, include_inactive=True))
    return {entry_id: entry for entry_id, entry in entries.items() if seen.issuperset(entry.covers)}


def require_own(record_id: str, caller: Caller, transaction: Transaction) -> Record:
    """Return a record that the caller sees and may change.

    Raises:
        NotFound: there is none of that id here.
        Conflict: it belongs to an inherited namespace, which is only read.
    """
    record = transaction.get(record_id)
    is_in_scope = record is not None and record.scope in caller.scopes
    if record is None or not is_in_scope or not is_visible(record, caller, hidden_branches(transaction, caller)):
        raise NotFound(f"No record {record_id!r}; call `recall` to find ids. Nothing was changed.")
    if record.namespace != caller.namespace and record.visibility != "user":
        raise Conflict(f"Record {record_id} belongs to {record.namespace}, which is only read here; change it there.")
    return record


def require_task(task_id: str, tasks: Sequence[Task]) -> Task:
    """Return the task with that id. Raises NotFound."""
    for task in tasks:
        if task.id == task_id:
            return task
    raise NotFound(f"No task {task_id!r} in this namespace; read memory://tasks for the tree.")
