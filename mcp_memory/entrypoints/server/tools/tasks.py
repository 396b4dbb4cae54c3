"""The `push_task` and `pop_task` tools."""

from typing import TYPE_CHECKING

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.requests import PopRequest, PushRequest
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.entrypoints.server.answers import (
    alike_line,
    list_goals,
    show_cleaned,
    show_place,
    show_task,
    unless_empty,
)
from mcp_memory.entrypoints.server.arguments import Arguments
from mcp_memory.entrypoints.server.identity import asking
from mcp_memory.entrypoints.server.request_arguments import request_of
from mcp_memory.entrypoints.server.review_answers import show_offer
from mcp_memory.entrypoints.server.strict_tool import ClientSide, StrictTool, annotations, make_tool
from mcp_memory.entrypoints.server.wire import InSession, PopArguments, PushArguments

if TYPE_CHECKING:
    from mcp_memory.app import App

PUSH_DESCRIPTION = """\
Use on entering a goal of several steps or a subtask, so that memory knows where you stand. With a plan, its steps \
wait below the goal; enter each by task_id."""
POP_DESCRIPTION = """\
Use on leaving the current task, done or not: its result goes to the parent, in place of its details."""

PLANNED_STEP = "Entered the planned step of these words."
ENTERED_AGAIN = "Entered your open task of these words again."


def left_open(app: "App", stack: Stack, caller: Caller) -> list[Json]:
    """The agent's open tasks beside the stack, each with the goals above it, for which it was begun."""
    tasks = app.tasks.left_open(caller, stack)
    return list_goals([*tasks], caller, {task.id: above for task, above in tasks.items()})


def build_push(app: "App") -> StrictTool:
    """`push_task` over this app."""

    def push(arguments: Arguments, client: ClientSide) -> dict[str, Json]:
        caller = asking(app, client.name, request_of(InSession, arguments).session_id)
        asked = request_of(PushRequest, arguments)
        stack = app.tasks.push(asked, caller)
        shown: dict[str, Json] = {"task": show_task(stack.current) if stack.current else None} | show_place(
            stack, caller
        )
        if not (asked.goal.strip() or asked.task_id):  # A plan, maybe elsewhere: nobody has moved.
            shown["path"] = list_goals(app.tasks.stack(caller).path, caller)
        elif asked.goal.strip() and len(stack.path) == 1:  # A new tree, though an earlier one may be meant.
            shown |= unless_empty(left_open=left_open(app, stack, caller))
        entered = {None: "", "planned": PLANNED_STEP}.get(stack.entered, ENTERED_AGAIN)
        alike = alike_line(app.alike_goals(stack, caller), caller, app.now()) if asked.goal.strip() else ""
        shown |= unless_empty(note=" ".join(filter(None, (entered, alike))))
        return shown | show_cleaned(asked.goal, asked.success_criteria or "", *asked.plan)

    return make_tool("push_task", "Push task", PUSH_DESCRIPTION, PushArguments, push, annotations())


def build_pop(app: "App") -> StrictTool:
    """`pop_task` over this app."""

    def pop(arguments: Arguments, client: ClientSide) -> dict[str, Json]:
        caller = asking(app, client.name, request_of(InSession, arguments).session_id)
        asked = request_of(PopRequest, arguments)
        popped = app.tasks.pop(asked, caller)
        current = popped.stack.current
        shown: dict[str, Json] = {
            "popped": show_task(popped.popped),
            "current": show_task(current) if current else None,
        }
        ended = "ended" if popped.popped.status == "complete" else "abandoned"
        shown |= unless_empty(**{ended: list_goals(popped.cascaded, caller)}, left_open=list_goals(popped.left, caller))
        shown |= show_place(popped.stack, caller) | show_cleaned(asked.result, *asked.artifacts)
        return shown | show_offer(app.reviews.next_of(popped.popped.id, caller), caller, app.counter)

    return make_tool("pop_task", "Pop task", POP_DESCRIPTION, PopArguments, pop, annotations())
