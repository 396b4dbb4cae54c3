"""A model behind the chat API of OpenAI, which Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and others speak too.

The library reads the key from OPENAI_API_KEY by itself, and is imported when a model is first asked.
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
    from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

KEY_VARIABLE = "OPENAI_API_KEY"


class OpenAIModel:
    """Asks one model of an OpenAI-compatible endpoint. Thread-safe: each answer has a connection of its own."""

    name = "openai"

    def __init__(self, chosen: ChosenModel) -> None:
        self._chosen = chosen

    def answer(self, instructions: str, messages: Sequence[Message], max_tokens: int) -> Answer:
        """See `ChatModel`."""
        try:
            import openai
        except ImportError:
            raise no_library("openai") from None
        logging.getLogger("openai").setLevel(logging.INFO)  # At DEBUG it logs what is sent: the memory's texts.
        try:
            with openai.OpenAI(
                base_url=self._chosen.url, timeout=self._chosen.timeout_seconds, max_retries=ATTEMPTS - 1
            ) as client:
                return _read(
                    client.chat.completions.create(
                        model=self._chosen.name,
                        messages=_sent(instructions, messages),
                        max_completion_tokens=max_tokens,
                    )
                )
        except openai.APITimeoutError:
            raise timed_out(self._chosen) from None
        except openai.APIStatusError as error:
            raise refused(error.status_code, KEY_VARIABLE) from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError, LookupError) as error:
            # The last four are an answer of another shape, which the library hands on as it came.
            raise unusable(error, KEY_VARIABLE) from None


def _sent(instructions: str, messages: Sequence[Message]) -> list[ChatCompletionMessageParam]:
    sent: list[ChatCompletionMessageParam] = [{"role": "system", "content": instructions}]
    for message in messages:
        if message.role == "user":
            sent.append({"role": "user", "content": message.text})
        else:
            sent.append({"role": "assistant", "content": message.text})
    return sent


def _read(completion: ChatCompletion) -> Answer:
    choice = completion.choices[0]
    if choice.finish_reason == "length":
        raise broke_off()
    spent = completion.usage.total_tokens if completion.usage else 0
    return Answer(text=choice.message.content or "", spent=spent)
