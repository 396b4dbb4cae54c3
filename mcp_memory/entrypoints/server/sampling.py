"""Asks the client's own model for a text, in both eras of the protocol. Knows no tool and nothing of what is asked."""

import json
from hashlib import blake2b
from typing import Any, Final

from anyio import to_thread
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from pydantic import TypeAdapter, ValidationError

from mcp_memory.errors import InvalidRequest

SAMPLING_SECONDS: Final = 600.0
"""A person may have to allow the request first."""
MAX_ASKED: Final = 8
"""Texts one call may ask for; clients of the newer era give up after 10 rounds."""
_OTHERWISE: Final = "Call again without asking for the client's model."
_answers = TypeAdapter(dict[str, str])


class AnswerNeeded(Exception):
    """The call ends here for now: `result` asks the client, which then sends the call again with the answer."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("The client must answer first.")
        self.result = result


def check_offered(context: Context[Any, Any]) -> None:
    """Raises InvalidRequest where the client offers no sampling."""
    capabilities = context.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise InvalidRequest(f"This client offers no sampling. {_OTHERWISE}")


async def sample(context: Context[Any, Any], prompt: str, max_tokens: int) -> str:
    """Ask the client's model for its answer, in at most `max_tokens` of its tokens.

    Raises:
        InvalidRequest: the client offers no sampling, denies it, or answers with anything but a text.
        AnswerNeeded: in the newer era, where only the client opens a request. The same prompt must be asked again
            when the call is repeated; whatever was done before this is done twice.
    """
    check_offered(context)
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    request = CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))
    if context.session.can_send_request:
        return await _ask_now(context, request)
    return _answered_before(context, request)


async def _ask_now(context: Context[Any, Any], request: CreateMessageRequest) -> str:
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    at_work = to_thread.current_default_thread_limiter()
    at_work.total_tokens += 1  # The call waits for its client, for minutes perhaps: another may work meanwhile.
    try:
        result = await context.session.send_request(request, CreateMessageResultWithTools, SAMPLING_SECONDS, metadata)
    except (MCPError, ValidationError) as error:
        raise InvalidRequest(f"The client's model gave no answer. {_OTHERWISE}") from error
    finally:
        at_work.total_tokens -= 1
    return _text(result)


def _answered_before(context: Context[Any, Any], request: CreateMessageRequest) -> str:
    """The answer that the client sent along with the repeated call, this time or an earlier one."""
    key = blake2b(request.model_dump_json().encode(), digest_size=16).hexdigest()
    answers = _answers_so_far(context)
    if key in answers:
        return answers[key]
    if len(answers) >= MAX_ASKED:
        raise InvalidRequest(f"One call may ask the client's model for {MAX_ASKED} texts, no more. {_OTHERWISE}")
    raise AnswerNeeded(InputRequiredResult(input_requests={key: request}, request_state=json.dumps(answers)))


def _answers_so_far(context: Context[Any, Any]) -> dict[str, str]:
    """Texts by the digest of what was asked. The state is sealed by the library, so it is what we once wrote."""
    answers = _answers.validate_json(context.request_state or "{}")
    for key, response in (context.input_responses or {}).items():
        answers[key] = _text(response)
    return answers


def _text(result: object) -> str:
    """The text of an answer; a client may send it in one part or in several."""
    is_answer = isinstance(result, CreateMessageResult | CreateMessageResultWithTools)
    content = result.content if is_answer else []
    parts = content if isinstance(content, list) else [content]
    text = "".join(part.text for part in parts if isinstance(part, TextContent))
    if text.strip():
        return text
    raise InvalidRequest(f"The client's model answered without text. {_OTHERWISE}")
