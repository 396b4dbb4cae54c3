"""Rules of the Anthropic Messages API and of OpenAI's chat completions for lists of messages, from their documentation.

A list that breaks one is answered with an error there.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, cast

Messages: TypeAlias = Sequence[dict[str, Any]]


def of_anthropic(messages: Messages, source: Messages = ()) -> list[str]:
    """The rules that are broken. `source` are the messages before they were compacted: thinking is signed."""
    return list(_of_anthropic(messages, source))


def of_openai(messages: Messages) -> list[str]:
    """The rules that are broken."""
    return list(_of_openai(messages))


def _of_anthropic(messages: Messages, source: Messages) -> Iterator[str]:
    if not messages or messages[0]["role"] != "user":
        yield "the first message is the user's"
    if any(before["role"] == after["role"] for before, after in pairwise(messages)):
        yield "roles alternate"
    asked: list[str] = []
    for message in messages:
        parts = _parts(message)
        yield from _part_rules(message["role"], parts)
        if any(part["type"] == "thinking" for part in parts) and parts not in [_parts(each) for each in source]:
            yield "a message that keeps its thinking is unchanged"
        results = [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
        if sorted(results) != sorted(asked):
            yield f"results answer the calls of the message before: {results} {asked}"
        asked = [part["id"] for part in parts if part["type"] == "tool_use"]
    if asked:
        yield "calls are answered"


def _part_rules(role: str, parts: Messages) -> Iterator[str]:
    kinds = [part["type"] for part in parts]
    if role not in ("user", "assistant"):
        yield "the system's words are apart"
    if not parts or any(part["type"] == "text" and not part["text"].strip() for part in parts):
        yield "content is not empty"
    if {"tool_use", "thinking"} & {*kinds} and role != "assistant":
        yield "calls and thinking are the assistant's"
    if "tool_result" in kinds and role != "user":
        yield "results are the user's"
    if kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
        yield "results come first"
    if any(not isinstance(part["input"], dict) for part in parts if part["type"] == "tool_use"):
        yield "the input of a call is an object"


def _of_openai(messages: Messages) -> Iterator[str]:
    waiting: list[str] = []
    for message in messages:
        calls = message.get("tool_calls") or ()
        yield from _message_rules(message)
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "a result answers a call of the message before"
            waiting = [each for each in waiting if each != message["tool_call_id"]]
            continue
        if waiting:
            yield "results follow their calls at once"
        waiting = [call["id"] for call in calls]
        if any(not isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls):
            yield "arguments are the JSON of an object"
    if waiting or not messages:
        yield "there are messages, and their calls are answered"


def _message_rules(message: dict[str, Any]) -> Iterator[str]:
    role, content, calls = message["role"], message.get("content"), message.get("tool_calls")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        yield "the role is known"
    if calls is not None and (not calls or role != "assistant"):
        yield "calls are the assistant's, and not an empty list"
    parts = cast("Messages", content) if isinstance(content, list) else ()
    if (not calls and not content) or any(part["type"] == "text" and not part["text"].strip() for part in parts):
        yield "content is not empty"


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
