"""A model of Anthropic's, or behind a gateway that speaks its messages API.

The library reads the key from ANTHROPIC_API_KEY by itself, and is imported when a model is first asked.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_memory.summarizers.chat import (
    ATTEMPTS,
    Answer,
    ChosenModel,
    Message,
    broke_off,
    no_library,
    refused,
    timed_out,
    unusable,
)

if TYPE_CHECKING:
    from anthropic.types import Message as AnthropicMessage
    from anthropic.types import MessageParam

KEY_VARIABLE = "ANTHROPIC_API_KEY"


class AnthropicModel:
    """Asks one model of Anthropic's. Thread-safe: each answer has a connection of its own."""

    name = "anthropic"

    def __init__(self, chosen: ChosenModel) -> None:
        self._chosen = chosen

    def answer(self, instructions: str, messages: Sequence[Message], max_tokens: int) -> Answer:
        """See `ChatModel`."""
        try:
            import anthropic
        except ImportError:
            raise no_library("anthropic") from None
        logging.getLogger("anthropic").setLevel(logging.INFO)  # At DEBUG it logs what is sent: the memory's texts.
        try:
            with anthropic.Anthropic(
                base_url=self._chosen.url, timeout=self._chosen.timeout_seconds, max_retries=ATTEMPTS - 1
            ) as client:
                return _read(
                    client.messages.create(
                        model=self._chosen.name, system=instructions, messages=_sent(messages), max_tokens=max_tokens
                    )
                )
        except anthropic.APITimeoutError:
            raise timed_out(self._chosen) from None
        except anthropic.APIStatusError as error:
            raise refused(error.status_code, KEY_VARIABLE) from None
        except (anthropic.AnthropicError, ValueError, TypeError, AttributeError, LookupError) as error:
            # The last four are an answer of another shape, or a key that is missing.
            raise unusable(error, KEY_VARIABLE) from None


def _sent(messages: Sequence[Message]) -> list[MessageParam]:
    sent: list[MessageParam] = []
    for message in messages:
        if message.role == "user":
            sent.append({"role": "user", "content": message.text})
        else:
            sent.append({"role": "assistant", "content": message.text})
    return sent


def _read(message: AnthropicMessage) -> Answer:
    if message.stop_reason == "max_tokens":
        raise broke_off()
    text = "".join(block.text for block in message.content if block.type == "text")
    return Answer(text=text, spent=message.usage.input_tokens + message.usage.output_tokens)
