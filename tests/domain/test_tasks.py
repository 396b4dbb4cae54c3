"""The tree of tasks as seen from one of them."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.tasks import Stack, Task, descendants, path_to, stack_at

MakeTask = Callable[..., Task]
PARENTS = st.lists(st.integers(-1, 15), max_size=16)


def tree(make_task: MakeTask, parents: list[int]) -> list[Task]:
    """Task n under task parents[n], where that one was made before; else a root."""
    tasks: list[Task] = []
    for n, parent in enumerate(parents):
        tasks.append(make_task(f"t{n:06d}", tasks[parent] if 0 <= parent < n else None))
    return tasks


@given(PARENTS)
def test_path_depth_parent_and_children_agree(make_task: MakeTask, parents: list[int]) -> None:
    """T1.1: for any tree, from each of its tasks."""
    tasks = tree(make_task, parents)
    for task in tasks:
        path = path_to(task.id, tasks)
        assert [each.depth for each in path] == list(range(task.depth + 1))
        assert path[-1] is task
        stack = stack_at(task.id, tasks)
        assert stack.current is task
        assert {child.id for child in stack.children} == {t.id for t in tasks if t.parent_id == task.id}
        assert task not in stack.siblings
        below = descendants(task.id, tasks)
        assert {each.id for each in below} == {t.id for t in tasks if task in path_to(t.id, tasks)[:-1]}
        assert [each.depth for each in below] == sorted((each.depth for each in below), reverse=True)


def test_outside_any_task_the_stack_is_empty(make_task: MakeTask) -> None:
    """T1.1: also for an id that is not there."""
    tasks = [make_task("t000001")]
    for stack in (stack_at(None, tasks), stack_at("t999999", tasks), Stack()):
        assert (stack.current, stack.path, stack.planned, stack.branch_id) == (None, (), (), None)


def test_a_parent_that_is_missing_or_circular_ends_the_path(make_task: MakeTask) -> None:
    """T1.1: a damaged tree is still readable."""
    orphan = make_task("t000002", make_task("t000001"))
    assert path_to("t000002", [orphan]) == (orphan,)
    circle = [make_task("t000001", parent_id="t000002"), make_task("t000002", parent_id="t000001")]
    assert [task.id for task in path_to("t000001", circle)] == ["t000002", "t000001"]
    assert {task.id for task in descendants("t000001", circle)} == {"t000002"}


def test_roots_are_not_siblings(make_task: MakeTask) -> None:
    """T3.2: another agent's tree is none of this one's business."""
    first, second = make_task("t000001"), make_task("t000002")
    assert stack_at(first.id, [first, second]).siblings == ()


def test_what_comes_next_is_waiting_below_or_beside(make_task: MakeTask) -> None:
    """T1.1, T4.1: subtasks first; finished and active ones are not next."""
    root = make_task("t000001")
    now = make_task("t000002", root)
    beside = make_task("t000003", root, status="planned")
    active = make_task("t000004", root)
    done = make_task("t000005", root, status="complete")
    below = make_task("t000006", now, status="blocked")
    stack = stack_at(now.id, [root, now, beside, active, done, below])
    assert stack.planned == (below, beside)


def test_a_branch_hides_its_records_from_outside_until_it_ends(make_task: MakeTask) -> None:
    """T4.3: the innermost branch on the path owns what is stored there."""
    root = make_task("t000001")
    branch = make_task("t000002", root, branch=True)
    inner = make_task("t000003", branch)
    nested = make_task("t000004", inner, branch=True)
    tasks = [root, branch, inner, nested]
    assert stack_at(inner.id, tasks).branch_id == branch.id
    assert stack_at(nested.id, tasks).branch_id == nested.id
    assert stack_at(root.id, tasks).branch_id is None
    assert stack_at(root.id, tasks).hidden_branches == {branch.id, nested.id}
    assert stack_at(inner.id, tasks).hidden_branches == {nested.id}
    assert stack_at(None, tasks).hidden_branches == {branch.id, nested.id}
    ended = [root, make_task("t000002", root, branch=True, status="complete")]
    assert stack_at(root.id, ended).hidden_branches == frozenset()
