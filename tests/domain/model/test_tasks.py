"""The tree of tasks as seen from one of them."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.tasks import (
    Stack,
    Task,
    TaskStatus,
    branches_beside,
    descendants,
    innermost_branch,
    isolated,
    most_telling,
    path_to,
    stack_at,
    with_changes,
    worked_on_by,
)

MakeTask = Callable[..., Task]
PARENTS = st.lists(st.integers(-1, 15), max_size=16)
STATUSES: list[TaskStatus] = ["planned", "active", "blocked", "complete", "failed", "abandoned"]
LIVES = st.lists(
    st.tuples(st.integers(-1, 15), st.sampled_from(STATUSES), st.booleans(), st.integers(0, 9)), max_size=16
)
"""Of each task: its parent, how it fares, whether it is a branch, and when it was last changed."""


def tree(make_task: MakeTask, parents: list[int]) -> list[Task]:
    """Task n under task parents[n], where that one was made before; else a root."""
    tasks: list[Task] = []
    for n, parent in enumerate(parents):
        tasks.append(make_task(f"t{n:06d}", tasks[parent] if 0 <= parent < n else None))
    return tasks


def forest(make_task: MakeTask, lives: list[tuple[int, TaskStatus, bool, int]]) -> list[Task]:
    """As `tree`, with what became of each task, below a finished one too."""
    tasks: list[Task] = []
    for n, (parent, status, branch, updated_at) in enumerate(lives):
        above = tasks[parent] if 0 <= parent < n else None
        tasks.append(make_task(f"t{n:06d}", above, status=status, branch=branch, updated_at=float(updated_at)))
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


def test_an_agent_works_on_the_innermost_of_its_active_tasks(make_task: MakeTask) -> None:
    """T1.1: on the latest of several, and on none where it finished them all."""
    root = make_task("t000001", agent="ann")
    inner = make_task("t000002", root, agent="ann", updated_at=5.0)
    latest = make_task("t000003", root, agent="ann", updated_at=9.0)
    done = make_task("t000004", root, agent="bob", status="complete")
    tasks = [root, inner, latest, done]
    assert (worked_on_by("ann", tasks), worked_on_by("bob", tasks)) == (latest, None)


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


@given(LIVES)
def test_finished_tasks_beside_the_path_are_isolated_with_all_below(
    make_task: MakeTask, lives: list[tuple[int, TaskStatus, bool, int]]
) -> None:
    """T2.2: never one on the path, nor of another tree; and of each the result, or that of one above it, comes up."""
    tasks = forest(make_task, lives)
    for here in tasks:
        stack = stack_at(here.id, tasks)
        on_path = {task.id for task in stack.path}
        stand_in = {task.id for task in (*stack.done, *stack.dead_ends)}
        for task in tasks:
            line = path_to(task.id, tasks)
            is_apart = line[0] is stack.root and any(t.is_finished and t.id not in on_path for t in line)
            assert (task.id in stack.isolated) is is_apart
            if is_apart and all(t.id in on_path or t.is_finished for t in line):
                assert stand_in & {t.id for t in line}
        assert stand_in <= stack.isolated
    assert isolated(tasks, ()) == frozenset()


def test_what_a_stack_holds_apart_from_the_path(make_task: MakeTask) -> None:
    """T2.1, T1.3: what is done and what led nowhere, the nearest last; what others have begun; what waits."""
    root = make_task("t000001")
    old = make_task("t000002", root, status="complete")
    middle = make_task("t000003", root)
    aside = make_task("t000004", middle, status="failed")
    now = make_task("t000005", middle)
    below = make_task("t000006", now, status="abandoned")
    ended = make_task("t000007", now, status="complete")
    begun = make_task("t000008", now)
    beside = make_task("t000009", middle)
    waiting = make_task("t00000a", middle, status="blocked")
    elsewhere = make_task("t00000b", root)
    tasks = [root, old, middle, aside, now, below, ended, begun, beside, waiting, elsewhere]
    stack = stack_at(now.id, tasks)
    assert (stack.root, stack.ancestors, stack.current) == (root, (middle,), now)
    assert stack.done == (old, ended)
    assert stack.dead_ends == (aside, below)
    assert stack.open_threads == (begun, beside)
    assert stack.planned == (waiting,)
    assert stack.aside == (old,)
    assert stack_at(root.id, tasks).root is stack_at(root.id, tasks).current is root
    assert (Stack().root, Stack().ancestors, Stack().done, Stack().dead_ends) == (None, (), (), ())


def test_a_finished_task_sees_its_own_log_and_what_is_beside_it_does_not(make_task: MakeTask) -> None:
    """T2.2: one can look back into what is over; starting it over is another task beside it."""
    root = make_task("t000001")
    first = make_task("t000002", root, status="failed")
    inside = make_task("t000003", first, status="complete")
    again = make_task("t000004", root)
    other = make_task("t000005", status="complete")
    tasks = [root, first, inside, again, other]
    assert isolated(tasks, path_to(again.id, tasks)) == {first.id, inside.id}
    assert isolated(tasks, path_to(inside.id, tasks)) == frozenset()
    assert isolated(tasks, path_to(first.id, tasks)) == {inside.id}
    assert isolated(tasks, path_to(other.id, tasks)) == frozenset()


@given(LIVES)
def test_a_branch_is_hidden_while_it_or_one_around_it_is_open_elsewhere(
    make_task: MakeTask, lives: list[tuple[int, TaskStatus, bool, int]]
) -> None:
    """T4.3: from each task and from nowhere."""
    tasks = forest(make_task, lives)
    for path in [(), *(path_to(task.id, tasks) for task in tasks)]:
        shown = [task for task in tasks if task.branch and task.id not in branches_beside(tasks, path)]
        for task in tasks:
            opened = [each for each in path_to(task.id, tasks) if each.branch and not each.is_finished]
            assert (task in shown) is (task.branch and all(each in path for each in opened))


def test_records_belong_to_the_innermost_branch(make_task: MakeTask) -> None:
    """T4.3: none of them outside of any."""
    root = make_task("t000001")
    branch = make_task("t000002", root, branch=True)
    inner = make_task("t000003", branch)
    assert [innermost_branch(path) for path in ((), (root,), (root, branch, inner))] == [None, None, branch.id]


@given(LIVES, st.integers(0, 18))
def test_what_is_shown_of_a_long_tree_hangs_together(
    make_task: MakeTask, lives: list[tuple[int, TaskStatus, bool, int]], limit: int
) -> None:
    """T1.1: parents of all that is shown are, and the path is as long as it fits; the order stays."""
    tasks = forest(make_task, lives)
    path = path_to(tasks[-1].id, tasks) if tasks else ()
    shown = most_telling(tasks, path, limit)
    assert len(shown) <= limit
    assert shown == [task for task in tasks if task in shown]
    assert {task.parent_id for task in shown} - {None} <= {task.id for task in shown}
    assert len(shown) == len(tasks) or limit < len(tasks)
    assert len(path) > limit or set(path) <= set(shown)


def test_of_a_long_tree_what_is_open_comes_first_and_then_what_ended_last(make_task: MakeTask) -> None:
    """T1.1: a tree that is damaged is shown all the same."""
    root = make_task("t000001")
    early, late = (make_task(f"t00000{n}", root, status="complete", updated_at=float(n)) for n in (2, 3))
    opened = make_task("t000004", root, updated_at=0.0)
    tasks = [root, early, late, opened]
    assert most_telling(tasks, (root,), 2) == [root, opened]
    assert most_telling(tasks, (root,), 3) == [root, late, opened]
    circle = [make_task("t000001", parent_id="t000002"), make_task("t000002", parent_id="t000001")]
    assert most_telling(circle, (), 2) == circle


def test_changes_keep_the_order_of_a_tree(make_task: MakeTask) -> None:
    """T1.1: what is new comes last."""
    one, two, three = (make_task(f"t00000{n}") for n in (1, 2, 3))
    ended = make_task("t000001", status="complete")
    assert with_changes([one, two], [three, ended]) == [ended, two, three]


def test_a_dead_end_below_what_was_completed_is_still_one(make_task: MakeTask) -> None:
    """T1.3: the way that did not work stays closed, however the step ended; below it nothing more is told."""
    root = make_task("t000001")
    now = make_task("t000002", root)
    done = make_task("t000003", root, status="complete", result="by streaming")
    within = make_task("t000004", done, status="complete", result="rows")
    failed = make_task("t000005", within, status="failed", result="out of memory")
    below = make_task("t000006", failed, status="abandoned", result="with its parent")
    stack = stack_at(now.id, [root, now, done, within, failed, below])
    assert stack.dead_ends == (failed,)
    assert stack.done == (done,)


def test_what_failed_below_a_step_that_was_given_up_is_told_before_it(make_task: MakeTask) -> None:
    """T1.3: the last dead end is shown first: why something failed says more than that its step was abandoned."""
    root = make_task("t000001")
    now = make_task("t000002", root)
    given_up = make_task("t000003", root, status="abandoned", result="begun below the wrong step")
    failed = make_task("t000004", given_up, status="failed", result="the mail program strips it")
    ended_too = make_task("t000005", given_up, status="abandoned", result="with its parent")
    stack = stack_at(now.id, [root, now, given_up, failed, ended_too])
    assert stack.dead_ends == (given_up, failed)
    assert failed.id in stack.ids


def test_what_comes_next_goes_from_near_to_far(make_task: MakeTask) -> None:
    """T4.1: subtasks, siblings, then what waits further up, each in the order planned."""
    root = make_task("t000001")
    middle = make_task("t000002", root)
    now = make_task("t000003", middle)
    planned = [make_task(f"t00001{n}", parent, status="planned") for n, parent in enumerate((root, root, middle, now))]
    stack = stack_at(now.id, [root, middle, now, *planned])
    assert [task.id for task in stack.planned] == ["t000013", "t000012", "t000010", "t000011"]
