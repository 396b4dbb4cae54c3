"""What we ask of a language model: an answer to a few messages. Knows no client library and no summaries.

Failures are told by their HTTP status or their kind, never in the service's words, which may repeat the key or the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from mcp_memory.errors import SummaryFailed

ATTEMPTS = 3
"""The client libraries repeat what may help twice, after pauses of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation with a model."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model wrote, and the tokens that this took, in and out, as the service counts them."""

    text: str
    spent: int


class ChatModel(Protocol):
    """One model of one service. Thread-safe."""

    @property
    def name(self) -> str:
        """The service's name, as in the settings."""
        ...

    def answer(self, instructions: str, messages: Sequence[Message], max_tokens: int) -> Answer:
        """The model's next message, of at most `max_tokens` of its own.

        Raises SummaryFailed where there is none, or it broke off; its message is a clause: "timed out after 60 s".
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenModel:
    """A model by its name at the service. `url` is None where its library knows the address."""

    name: str
    url: str | None
    timeout_seconds: float


def no_library(package: str) -> SummaryFailed:
    return SummaryFailed(f"needs the package {package}; install mcp-memory-stack[{package}]")


def timed_out(chosen: ChosenModel) -> SummaryFailed:
    return SummaryFailed(f"timed out after {chosen.timeout_seconds:g} s, {ATTEMPTS} times")


def refused(status: int, key_variable: str) -> SummaryFailed:
    """What an HTTP status of 400 or more comes to for the reader."""
    if status in (401, 403):
        return SummaryFailed(f"refused the key (HTTP {status}); set the right one in {key_variable}")
    if status == 404:
        return SummaryFailed("knows no such model or address (HTTP 404); check summarizer_model and summarizer_url")
    if status in (400, 413, 422):
        return SummaryFailed(f"refused the request (HTTP {status}); lower summarizer_max_input_tokens")
    return SummaryFailed(f"answered HTTP {status}")


def unusable(error: BaseException, key_variable: str) -> SummaryFailed:
    """For what a library raises without a status: no key, no connection, an answer that is none."""
    return SummaryFailed(
        f"could not be used ({type(error).__name__}); check that it runs, summarizer_url and {key_variable}"
    )


def broke_off() -> SummaryFailed:
    return SummaryFailed("broke off before the summary was complete")
