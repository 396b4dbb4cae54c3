"""Rules of the Anthropic Messages API and of OpenAI's chat completions for lists of messages, from their documentation.

A list that breaks one is answered with an error there.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

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
    for before, after in pairwise(messages):
        if before["role"] == after["role"]:
            yield "roles alternate"
    asked = set[str]()
    for place, message in enumerate(messages):
        parts = _parts(message)
        kinds = [part["type"] for part in parts]
        if message["role"] not in ("user", "assistant"):
            yield "the system's words are apart"
        if not parts:
            yield "content is not empty"
        if any(part["type"] == "text" and not part["text"].strip() for part in parts):
            yield "texts are not empty"
        results = [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
        calls = [part["id"] for part in parts if part["type"] == "tool_use"]
        if (results and message["role"] != "user") or (calls and message["role"] != "assistant"):
            yield "calls are the assistant's, results the user's"
        if sorted(results) != sorted(asked):
            yield f"results answer the calls of the message before: {results} {asked}"
        if kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
            yield "results come first"
        if any(not isinstance(part["input"], dict) for part in parts if part["type"] == "tool_use"):
            yield "the input of a call is an object"
        asked = set(calls)
        if "thinking" in kinds and not any(parts == _parts(each) for each in source):
            yield "a message that keeps its thinking is unchanged"
        if "thinking" in kinds and message["role"] != "assistant":
            yield "thinking is the assistant's"
        if place == len(messages) - 1 and calls:
            yield "calls are answered"


def _of_openai(messages: Messages) -> Iterator[str]:
    if not messages:
        yield "there are messages"
    waiting = list[str]()
    for message in messages:
        role, content, calls = message["role"], message.get("content"), message.get("tool_calls")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            yield "the role is known"
        if calls is not None and (not calls or role != "assistant"):
            yield "calls are the assistant's, and not an empty list"
        if not calls and not content:
            yield "content is not empty"
        if isinstance(content, list) and any(part["type"] == "text" and not part["text"].strip() for part in content):
            yield "texts are not empty"
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield "a result answers a call of the message before"
            waiting = [each for each in waiting if each != message["tool_call_id"]]
            continue
        if waiting:
            yield "results follow their calls at once"
        waiting = [call["id"] for call in calls or ()]
        if any(not isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls or ()):
            yield "arguments are the JSON of an object"
    if waiting:
        yield "calls are answered"


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
