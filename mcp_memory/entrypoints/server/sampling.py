"""Asks the client's own model for a text, in both eras of the protocol. Knows no tool and nothing of what is asked."""

import secrets
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from anyio import to_thread
from mcp.server.mcpserver import Context
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
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
_FOREIGN: Final = (
    "An answer of the client's model came that no open question of this call asked for; it was not used. Call again"
    " without answers."
)


@dataclass(slots=True, kw_only=True)
class _Questions:
    """The questions of one call in the newer era: the key of the open one, and answers by key.

    `nonce` makes the keys those of this call alone: the same prompt in another session has another key.
    """

    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    open: str = ""
    answers: dict[str, str] = field(default_factory=dict[str, str])


_state = TypeAdapter(_Questions)


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
    at_work = to_thread.current_default_thread_limiter()
    at_work.total_tokens += 1  # The call waits for its client, for minutes perhaps: another may work meanwhile.
    try:
        result = await _send(context, request)
    except (MCPError, ValidationError) as error:
        raise InvalidRequest(f"The client's model gave no answer. {_OTHERWISE}") from error
    finally:
        at_work.total_tokens -= 1
    return _text(result)


async def _send(context: Context[Any, Any], request: CreateMessageRequest) -> CreateMessageResultWithTools:
    """Send a question under an id of its own, and return its answer.

    The library counts its ids from 1 in each process and session: there the late answer to a question of a server that
    ended would answer ours. What comes for an id that nobody waits for is dropped.
    """
    asked = request.model_dump(by_alias=True, mode="json", exclude_none=True)
    channel = context.session._request_outbound  # noqa: SLF001
    options: CallOptions = {"timeout": SAMPLING_SECONDS, "request_id": f"ask-{secrets.token_hex(16)}"}
    answer = await channel.send_raw_request(asked["method"], asked["params"], options)
    return CreateMessageResultWithTools.model_validate(answer, by_name=False)


def _answered_before(context: Context[Any, Any], request: CreateMessageRequest) -> str:
    """The answer that the client sent along with the repeated call, this time or an earlier one."""
    asked = _asked_so_far(context)
    key = blake2b(f"{asked.nonce} {request.model_dump_json()}".encode(), digest_size=16).hexdigest()
    if key in asked.answers:
        return asked.answers[key]
    if len(asked.answers) >= MAX_ASKED:
        raise InvalidRequest(f"One call may ask the client's model for {MAX_ASKED} texts, no more. {_OTHERWISE}")
    asked.open = key
    state = _state.dump_json(asked).decode()
    raise AnswerNeeded(InputRequiredResult(input_requests={key: request}, request_state=state))


def _asked_so_far(context: Context[Any, Any]) -> _Questions:
    """Return what the call asked before. The state is sealed by the library, so it is what we once wrote."""
    asked = _state.validate_json(context.request_state) if context.request_state else _Questions()
    for key, response in (context.input_responses or {}).items():
        if key not in (asked.open, *asked.answers):
            raise InvalidRequest(_FOREIGN)
        asked.answers.setdefault(key, _text(response))
    return asked


def _text(result: object) -> str:
    """The text of an answer; a client may send it in one part or in several."""
    is_answer = isinstance(result, CreateMessageResult | CreateMessageResultWithTools)
    content = result.content if is_answer else []
    parts = content if isinstance(content, list) else [content]
    text = "".join(part.text for part in parts if isinstance(part, TextContent))
    if text.strip():
        return text
    raise InvalidRequest(f"The client's model answered without text. {_OTHERWISE}")
