"""Short ways to move through the tree of tasks, and to look at it."""

from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.errors import Conflict
from mcp_memory.services.tasks.task_stack import Popped, PopRequest, PushRequest


def push(app: App, goal: str = "", caller: Caller | None = None, **fields: Any) -> Stack:
    return app.tasks.push(PushRequest(goal=goal, **fields), caller or app.caller())


def pop(app: App, result: str = "done", caller: Caller | None = None, **fields: Any) -> Popped:
    return app.tasks.pop(PopRequest(result=result, **fields), caller or app.caller())


def insist(app: App, result: str = "done", caller: Caller | None = None, **fields: Any) -> Popped:
    """Pop a task that somebody else is in: the first call is told who that is, the second means it."""
    with pytest.raises(Conflict, match="call again to end it all the same"):
        pop(app, result, caller, **fields)
    return pop(app, result, caller, **fields)


def goals(stack: Stack) -> list[str]:
    return [task.goal for task in stack.path]


def statuses(app: App) -> dict[str, str]:
    return {task.goal: task.status for task in app.tasks.tree(app.caller())}
