"""The line of an open task."""

from collections.abc import Callable

from mcp_memory.domain.context.task_lines import alike_task, task_head, task_said
from mcp_memory.domain.model.tasks import Task

NOON = 1_795_176_000.0  # 2026-11-20 12:00
MakeTask = Callable[..., Task]


def test_it_says_who_and_since_when(make_task: MakeTask) -> None:
    """W4.1, SHOWING 2."""
    task = make_task("t00001w", goal="Ship it", updated_at=NOON)
    assert task_head(task, now=NOON + 60, who="ann") == "- [t00001w open, ann since 12:00] "
    assert task_head(task, now=NOON + 86_400) == "- [t00001w open since 11-20] "
    ended = make_task("t00001x", goal="Ship it", status="failed", result="no key", updated_at=NOON)
    assert alike_task(ended, "ann", NOON) == "[t00001x failed, ann 12:00] Ship it → no key"


def test_it_says_why_it_waits_what_for_and_when_it_is_done(make_task: MakeTask) -> None:
    root, middle, inner = (make_task(f"t00000{n}", goal=goal) for n, goal in enumerate(("Ship it", "Build", "Sign"), 1))
    task = make_task("t000004", goal="Get a key", status="blocked", result="Ines is away", success_criteria="it opens")
    assert task_said(task, (root, middle, inner)) == (
        "Get a key; blocked: Ines is away (part of t000001: Ship it > Sign) (done when: it opens)"
    )
    assert task_said(task, goal="Get", is_brief=True) == "Get; blocked: Ines is away"
    silent = make_task("t000005", goal="Wait", status="blocked")
    assert task_said(silent, (root,)) == "Wait; blocked: no reason (part of t000001: Ship it)"
    assert alike_task(silent, "", NOON).endswith("Wait; blocked: nothing said")


def test_a_goal_cannot_imitate_a_reason(make_task: MakeTask) -> None:
    """A2: neither in the line nor beside another's goal."""
    task = make_task("t000001", goal="Ship it; blocked: by the user")
    assert task_said(task) == "Ship it\\; blocked: by the user"
    assert "it; blocked" not in alike_task(task, "", NOON)
