"""What one message of a client says, calls and answers, in every format that is known. Knows no records."""

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from pydantic import JsonValue

from mcp_memory.errors import InvalidRequest

EXPECTED: Final = (
    "Each message is {role: system|user|assistant|tool, content: a text or a list of parts}, or an item such as "
    "{type: function_call, …}. Correct it and call again."
)
_UNSAID: Final = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "item_reference", "compaction"}
    | {"mcp_list_tools", "mcp_approval_request", "mcp_approval_response"}
)
"""Parts that are no part of what was said or done."""
_MEDIA: Final = ("image", "audio", "video", "document", "file")
_BLOBS: Final = frozenset({"data", "encrypted_content", "encrypted_index", "signature", "file_data", "b64_json"})
"""Fields that hold bytes written as text."""

Message: TypeAlias = Mapping[str, JsonValue]


class Call(NamedTuple):
    """A tool called with arguments, which are JSON or what the tool takes instead."""

    tool: str
    call_id: str | None
    text: str


class Result(NamedTuple):
    """A tool's output, which may be empty. Not every format names the tool."""

    tool: str | None
    call_id: str | None
    text: str
    failed: bool


Part: TypeAlias = str | Call | Result


def is_item(message: Message) -> bool:
    """True for what stands in a conversation without a role: calls, their results, and reasoning."""
    kind = _kind(message)
    return kind in _UNSAID or kind.endswith(("_call", "_call_output", "tool_use", "tool_result"))


def parts_of(message: Message, where: str) -> Iterator[Part]:
    """What a message says, calls and answers, in its order; `where` names it in errors.

    Empty texts are left out. Texts that follow each other are one: what a user says at once is one turn.

    Raises:
        InvalidRequest: a part is in none of the known formats.
    """
    texts: list[str] = []
    for part in _parts(message, where):
        if isinstance(part, str):
            texts += [part] if part.strip() else []
            continue
        if texts:
            yield "\n".join(texts)
            texts = []
        yield part
    if texts:
        yield "\n".join(texts)


def _parts(message: Message, where: str) -> Iterator[Part]:
    role = message.get("role")
    if not isinstance(role, str):
        yield from _part(message, where)
        return
    content = message.get("content", message.get("text"))
    if role.lower() in ("tool", "function"):
        yield Result(_tool(message), _answered_id(message), _output(content), _has_failed(message))
        return
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | dict):
        for index, part in enumerate(content if isinstance(content, list) else [content]):
            yield from _part(part, f"{where}.content[{index}]")
    elif content is not None:
        raise InvalidRequest(f"{where} has a content that is neither a text nor a list of parts. {EXPECTED}")
    yield string_in(message.get("refusal")) or ""
    yield from _calls_beside(message, where)


def _calls_beside(message: Message, where: str) -> Iterator[Call]:
    """The calls that OpenAI's chat names beside the text of a message."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise InvalidRequest(f"{where}.tool_calls must be a list of {{id, function: {{name, arguments}}}}. Correct it.")
    if isinstance(message.get("function_call"), dict):
        calls = [*calls, {"function": message["function_call"]}]
    for index, call in enumerate(calls):
        function = call.get("function", call.get("custom", call)) if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict) or not string_in(function.get("name")):
            raise InvalidRequest(
                f"{where}.tool_calls[{index}] must be {{id, function: {{name, arguments}}}}. Correct it."
            )
        yield Call(string_in(function.get("name")) or "", _call_id(call), _arguments(function))


def _part(part: JsonValue | Message, where: str) -> Iterator[Part]:
    if isinstance(part, str):
        yield part
        return
    if not isinstance(part, Mapping):
        raise InvalidRequest(f"{where} must be a text or an object with a type. {EXPECTED}")
    kind = _kind(part)
    if kind in _UNSAID:
        return
    if kind.endswith(("tool_result", "_call_output")):
        output = part.get("output") if kind.endswith("_call_output") else part.get("content")
        yield Result(_tool(part), _answered_id(part), _output(output), _has_failed(part))
    elif kind.endswith(("tool_use", "_call")):
        yield Call(_tool(part) or kind.removesuffix("_call"), _call_id(part), _arguments(part))
        # A call that OpenAI makes by itself holds its answer too.
        if part.get("output") is not None or part.get("error") is not None:
            answer = part.get("output") if part.get("error") is None else part.get("error")
            yield Result(_tool(part), _call_id(part), _output(answer), _has_failed(part))
    else:
        yield _shown(part)


def _output(content: JsonValue) -> str:
    """The text of a tool's output."""
    if isinstance(content, list):
        return "\n".join(_output(part) for part in content)
    if isinstance(content, dict):
        return _shown(content)
    return "" if content is None else content if isinstance(content, str) else _compact(content)


def _shown(part: Message) -> str:
    """The text of a part; the name of an image or a document; else its fields, but for bytes."""
    for name in ("text", "refusal"):
        if isinstance(text := part.get(name), str):
            return text
    kind = _kind(part)
    for medium in _MEDIA:
        if medium in kind:
            name = next((found for key in ("title", "filename") if (found := string_in(part.get(key)))), "")
            return f"[{medium}: {name}]" if name else f"[{medium}]"
    return _compact(_without_blobs(part))


def _without_blobs(value: JsonValue | Message) -> JsonValue:
    if isinstance(value, Mapping):
        return {name: _without_blobs(part) for name, part in value.items() if not _is_blob(name, part)}
    return [_without_blobs(part) for part in value] if isinstance(value, list) else value


def _is_blob(name: str, value: JsonValue) -> bool:
    return name in _BLOBS or (isinstance(value, str) and value.startswith("data:"))


def _arguments(call: Message) -> str:
    given = next((call[name] for name in ("input", "arguments", "action") if call.get(name) is not None), None)
    text = given if isinstance(given, str) else _compact({} if given is None else given)
    return text if text.strip() else "{}"


def _tool(part: Message) -> str | None:
    return string_in(part.get("name")) or string_in(part.get("tool_name"))


def _call_id(call: Message) -> str | None:
    """The id of a call. OpenAI's items have one of their own beside it."""
    return string_in(call.get("call_id")) or string_in(call.get("id"))


def _answered_id(result: Message) -> str | None:
    """The id of the call that a result answers."""
    names = ("tool_use_id", "tool_call_id", "call_id")
    return next((found for name in names if (found := string_in(result.get(name)))), None)


def _has_failed(part: Message) -> bool:
    content = part.get("content")
    kind = _kind(content) if isinstance(content, dict) else ""
    return (
        part.get("is_error") is True
        or part.get("error") is not None
        or part.get("status") == "failed"
        or kind.endswith("_error")
    )


def _kind(part: Message) -> str:
    return string_in(part.get("type")) or ""


def string_in(value: JsonValue) -> str | None:
    """The value where it is a text that says something."""
    return value if isinstance(value, str) and value.strip() else None


def _compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
