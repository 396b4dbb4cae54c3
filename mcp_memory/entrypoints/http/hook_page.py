"""Answers hooks that run on other machines: one page beside the protocol, for whom the tools are open as well."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from anyio import CapacityLimiter, to_thread
from pydantic import BaseModel, Field, JsonValue, ValidationError
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcp_memory.entrypoints.hooks.client_events import CLAUDE_CODE
from mcp_memory.entrypoints.hooks.hook_call import HookCall, read_payload
from mcp_memory.entrypoints.hooks.session_notes import NotesElsewhere
from mcp_memory.entrypoints.http.request_checks import HOOK_PATH, VISITOR
from mcp_memory.entrypoints.server.identity import asking, require, sender_of, told, visited_by
from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import InvalidRequest, McpMemoryError
from mcp_memory.services.access.served_requests import asked_by

if TYPE_CHECKING:
    from starlette.requests import Request

    from mcp_memory.app import App

READING: Final = frozenset({"SessionStart", "UserPromptSubmit", "PreToolUse"})
"""Hooks that store nothing; the others take the right to write where they keep the log."""
AT_ONCE: Final = 8
"""Threads that hooks may take of those that the tools have as well; further hooks wait."""
_MALFORMED: Final = "This is no hook of this version; update mcp-memory on the machine of the client or of the server."


def make_hook_page(app: App) -> Route:
    """Return the route. Its answers are JSON: what the hook prints and which records it gives, or `error`."""
    places = CapacityLimiter(AT_ONCE)

    async def answer(request: Request) -> Response:
        body = await request.body()
        with visited_by(replace(request.scope[VISITOR], is_window=False)):  # A hook is beside its client's window.
            try:
                async with places:
                    answered = await to_thread.run_sync(answer_hook, app, body)
            except McpMemoryError as error:
                return JSONResponse({"error": told(error)}, 400 if isinstance(error, InvalidRequest) else 503)
            except Exception as error:  # noqa: BLE001 - the edge
                log_defect("A hook", error)
                return JSONResponse({"error": "Internal error; it was logged."}, 500)
            return JSONResponse(answered)

    return Route(HOOK_PATH, answer, methods=["POST"])


class HookQuestion(BaseModel):
    """The first line that `entrypoints/hooks/remote.py` sends. Fields of later versions are passed over.

    Behind it come lines of the transcript; their first `before` bytes are known already.
    """

    hook: str
    payload: dict[str, JsonValue]
    given: list[str] = []
    max_tokens: tuple[Annotated[int, Field(ge=0, le=20_000)], Annotated[int, Field(ge=0, le=2_000)]]
    """As the client's settings have them: at a session's start, and to a prompt."""
    log: bool = True
    """As the client's settings have it."""
    before: Annotated[int, Field(ge=0)] = 0
    left: list[str] = []
    """Ids of the whole transcript's lines that its user took back, where the new ones go back; else none."""
    standing: list[str] = []
    """Ids of the others."""


def answer_hook(app: App, body: bytes) -> dict[str, object]:
    """Do what a hook asks for in the name of the present visitor.

    Raises:
        InvalidRequest: it is malformed, or the visitor's right does not suffice.
        McpMemoryError: the memory cannot be used.
    """
    from mcp_memory.entrypoints.hooks.events import HOOKS

    question, _, lines = body.partition(b"\n")
    try:
        asked = HookQuestion.model_validate_json(question)
        act = HOOKS[asked.hook]
    except (ValidationError, KeyError):
        raise InvalidRequest(_MALFORMED) from None  # Its own words may hold what was said.
    require("write" if asked.log and asked.hook not in READING else "read")
    at_start, to_prompt = asked.max_tokens
    theirs = {"hook_max_tokens": at_start, "hook_prompt_max_tokens": to_prompt, "hook_log": asked.log}
    hook = HookCall(
        payload=read_payload(json.dumps(asked.payload).encode()),
        settings=app.settings.model_copy(update=theirs),
        notes=NotesElsewhere(asked.given),
        folder=Path(),
        server=app,
        visitor=asking(app, CLAUDE_CODE),
        lines=(lines[: asked.before], lines[asked.before :]),
        left=asked.left,
        standing=asked.standing,
    )
    with app.serving(f"hook {asked.hook}", **sender_of(app)):
        asked_by(hook.caller)
        return {"output": act(hook) or "", "given": hook.given}
