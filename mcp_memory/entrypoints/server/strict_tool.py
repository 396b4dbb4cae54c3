"""A tool that takes its arguments exactly as they were sent, and answers every failure in a sentence or two.

The library's own tools parse JSON inside strings, pass over unknown fields, and answer a wrong argument with a page
that repeats it. Knows no single tool.
"""

import json
import logging
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from typing import Any, TypeVar

from anyio import from_thread, to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.types import CallToolResult, ContentBlock, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.scopes import RepeatableCall
from mcp_memory.domain.text.control_characters import whole_characters
from mcp_memory.entrypoints.server.arguments import Arguments, read_arguments, slim_schema
from mcp_memory.entrypoints.server.as_meant import as_meant
from mcp_memory.entrypoints.server.identity import calling, client_at_hand, key_of_call, require, told
from mcp_memory.entrypoints.server.json_lines import in_one_line
from mcp_memory.entrypoints.server.sampling import AnswerNeeded, check_offered, sample
from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import CallDone, McpMemoryError
from mcp_memory.services.access.served_requests import gave_in

logger = logging.getLogger(__name__)
DONE_ONCE = frozenset({"remember", "revise", "forget", "push_task", "pop_task"})
"""Tools whose calls must not be made twice; `compact` knows what it has been told before."""
ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


class ClientSide:
    """The client of one call, as the tool's worker thread can reach it while the call lasts."""

    def __init__(self, context: Context[Any, Any]) -> None:
        self._context = context

    @property
    def name(self) -> str:
        """The name that the client gave itself, at the handshake or with this request; "" where it gave none."""
        client = self._context.session.client_params
        return client.client_info.name if client else client_at_hand()

    @property
    def hides_text(self) -> bool:
        """True for a client that shows its model the structured content of a result alone, as Claude Code does."""
        return self.name.startswith("claude-code")

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the call is, where its client asked to be told. `done` must grow. Never fails the call."""
        try:
            from_thread.run(self._context.report_progress, done, total, message)
        except Exception as error:  # noqa: BLE001 - the client may be gone or have given up; the work goes on
            logger.debug("Progress was not reported: %s", type(error).__name__)

    def check_sampling(self) -> None:
        """Before work that would be in vain without it. Raises InvalidRequest where the client offers no sampling."""
        check_offered(self._context)

    def sample(self, prompt: str, max_tokens: int) -> str:
        """Ask the client's model for its answer to the prompt, in at most `max_tokens` of its tokens. May take minutes.

        In the newer era of the protocol the call ends here, and the client repeats it with the answer: ask before
        anything is stored, and with the same prompt for the same arguments and state.

        Raises:
            InvalidRequest: the client offers no sampling, denies it, or answers with anything but a text.
        """
        return from_thread.run(sample, self._context, prompt, max_tokens)


class StrictTool(Tool):
    """`fn` is called in a worker thread with validated arguments and the client's side of the call."""

    arguments: type[Arguments] = Field(exclude=True)

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> CallToolResult | InputRequiredResult:
        """Validate and call; what changes memory takes the right to write. All that goes wrong has `is_error`."""
        try:
            require("read" if self.annotations and self.annotations.read_only_hint else "write")
            meant, note = as_meant(self.arguments, arguments)
            given = read_arguments(self.arguments, meant)
            with calling(self._call(arguments)):
                return with_note(await to_thread.run_sync(self.fn, given, ClientSide(context)), note)
        except CallDone as done:
            return _structured({"done_before": str(done), "made": [*done.made]})
        except AnswerNeeded as needed:
            return needed.result
        except McpMemoryError as error:
            return failure(told(error))
        except Exception as error:  # noqa: BLE001 - the edge: a defect must not reach the model, nor end the server
            log_defect(f"Tool {self.name}", error)
            return failure("Internal error; it was logged. Try again, and tell the user if it happens again.")

    def _call(self, arguments: Mapping[str, Any]) -> RepeatableCall | None:
        """Return a window's call that changes something: its process asks again where the answer is lost."""
        key = key_of_call()
        if not key or self.name not in DONE_ONCE:
            return None
        digest = blake2b(json.dumps([self.name, arguments], sort_keys=True).encode("utf-8", "replace"), digest_size=16)
        return RepeatableCall(key=key, digest=digest.digest())


def make_tool(
    name: str,
    title: str,
    description: str,
    arguments: type[ArgumentsT],
    answer: Callable[[ArgumentsT, ClientSide], CallToolResult | Mapping[str, Json]],
    annotations: ToolAnnotations,
) -> StrictTool:
    """Make a tool of `answer(arguments, client)`, which may block, tell its progress, and ask the client."""

    def run(given: ArgumentsT, client: ClientSide) -> CallToolResult:
        answered = answer(given, client)
        gave_in(answered)
        return answered if isinstance(answered, CallToolResult) else _structured(answered)

    return StrictTool(
        name=name,
        title=title,
        description=description,
        arguments=arguments,
        fn=run,
        annotations=annotations,
        parameters=schema_of(arguments),
        fn_metadata=FuncMetadata(arg_model=ArgModelBase),
        is_async=False,
        context_kwarg=None,
    )


@cache
def schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """Return the schema of a tool's arguments; made once a process, since it takes longer than most calls."""
    return slim_schema(arguments.model_json_schema())


def annotations(*, read_only: bool = False, destructive: bool = False, idempotent: bool = False) -> ToolAnnotations:
    """Name what a client may assume of a tool. None of ours reaches beyond the memory."""
    return ToolAnnotations(
        read_only_hint=read_only, destructive_hint=destructive, idempotent_hint=idempotent, open_world_hint=False
    )


def _structured(content: Mapping[str, Json]) -> CallToolResult:
    """A result for programs and models; its text is the same, as short as JSON gets, in one line for every reader."""
    text = in_one_line(
        whole_characters(json.dumps(content, ensure_ascii=False, separators=(",", ":"))).encode()
    ).decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=dict(content))


def with_text(text: str, name: str, content: Mapping[str, Json], *, shows_text: bool) -> CallToolResult:
    """A result with a text for the model, and the same as data for programs.

    The data are structured content where the client shows its model the text, else under `_meta[name]`.
    """
    shown: list[ContentBlock] = [TextContent(type="text", text=text)]
    if shows_text:
        return CallToolResult(content=shown, structured_content=dict(content))
    return CallToolResult(content=shown, _meta={name: dict(content)})


def with_note(result: CallToolResult, note: str) -> CallToolResult:
    """Return the result with how its call was understood: among its data, or as a text behind its own."""
    if not note or result.is_error:
        return result
    data, [text, *_] = result.structured_content, result.content
    if data is not None and isinstance(text, TextContent) and text.text.startswith("{"):
        told = _structured({**data, "understood": note})
        return result.model_copy(update={"content": told.content, "structured_content": told.structured_content})
    beside = None if data is None else {**data, "understood": note}
    content = [*result.content, TextContent(type="text", text=note)]
    return result.model_copy(update={"content": content, "structured_content": beside})


def failure(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
