"""Parts of messages in clients' formats, read as parts of Anthropic's interface. Knows no message."""

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

from pydantic import JsonValue

from mcp_memory.errors import InvalidRequest

Part: TypeAlias = dict[str, JsonValue]

_UNSAID: Final[Part] = {"type": "thinking"}
"""Represents what was neither said nor done: a model's reasoning, which interfaces sign."""
_UNSAID_BY_BEDROCK: Final = ("reasoningContent", "cachePoint")
_ASKED_LEAVE: Final[Part] = {"type": "mcp_approval_request"}
"""Represents the question whether a call may be made, which stays with its answer."""
_UNSAID_BY_VERCEL: Final[Mapping[str, Part]] = {
    **dict.fromkeys(("reasoning", "redacted-reasoning", "reasoning-file", "step-start", "custom"), _UNSAID),
    "tool-approval-request": _ASKED_LEAVE,
}
_TYPES: Final[Mapping[str, str]] = {"jpg": "image/jpeg", "txt": "text/plain", "pdf": "application/pdf"}
_SNAKE: Final[Mapping[str, str]] = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
}
"""Names of Gemini's parts, as its Python library writes them."""


def text_of(part: Mapping[str, JsonValue], *names: str) -> str:
    """Return the first of these fields that is a text, and not empty; "" for none."""
    return next((found for name in names if isinstance(found := part.get(name), str) and found), "")


def _object(part: JsonValue) -> Part:
    if not isinstance(part, dict):
        raise InvalidRequest("is no object. Correct it.")
    return part


def _unknown(part: Part) -> InvalidRequest:
    kind = text_of(part, "type")
    what = f"has the unknown type {kind[:40]!r}" if kind else f"has none of its parts' names: {', '.join(part)[:80]!r}"
    return InvalidRequest(f"{what}. Leave it out, or send it as text.")


def _said(text: JsonValue) -> Part:
    return {"type": "text", "text": text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)}


def _call(call_id: JsonValue, name: JsonValue, arguments: JsonValue) -> Part:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if arguments is None else arguments}


def _result(call_id: JsonValue, name: JsonValue, content: JsonValue, *, failed: bool = False) -> Part:
    return {"type": "tool_result", "tool_use_id": call_id, "name": name, "content": content, "is_error": failed}


def _leave(answer: Part) -> Part:
    """Return a person's answer whether a call may be made; a reason in it is the person's words."""
    return {"type": "mcp_approval_response", "reason": answer.get("reason")}


def _file(media_type: str, data: JsonValue, name: str) -> Part:
    """Return an image or a document; `data` is base64, or None for what is only referred to."""
    kind = "image" if media_type.startswith("image/") else "document"
    if media_type.startswith(("audio/", "video/")):
        kind = media_type.partition("/")[0]
    source: Part = {"type": "base64", "media_type": media_type, "data": data}
    held: Part = {"source": source} if isinstance(data, str) and data else {}
    return {"type": kind, **held, **({"title": name} if name else {})}


# Gemini


def gemini_part(value: JsonValue, _where: str) -> list[Part]:
    """Read a part of Gemini's interface, in the names of either of its libraries. Raises InvalidRequest."""
    if isinstance(value, str):
        return [_said(value)]
    given = _object(value)
    part: Part = {_SNAKE.get(name, name): each for name, each in given.items() if each is not None}
    if part.get("thought") is True:
        return [_UNSAID]
    for name in _SNAKE.values():
        if isinstance(held := part.get(name), dict):
            return [_of_gemini(name, held)]
    if "text" in part:
        return [_said(part["text"])]
    if "thoughtSignature" in part or "thought_signature" in part or not part:
        return [_UNSAID]
    raise _unknown(part)


def _of_gemini(name: str, held: Part) -> Part:
    media_type, title = text_of(held, "mimeType", "mime_type"), text_of(held, "displayName", "display_name")
    tool = text_of(held, "name", "toolType", "tool_type") or None
    if name in ("functionCall", "toolCall"):
        return _call(held.get("id"), tool, held.get("args"))
    if name in ("functionResponse", "toolResponse"):
        answer, failed = gemini_answer(held.get("response"))
        if isinstance(files := held.get("parts"), list):
            shown: list[JsonValue] = [each for part in files for each in gemini_part(part, "")]
            answer = [answer, *shown]
        return _result(held.get("id"), tool, answer, failed=failed)
    if name == "executableCode":
        return _call(held.get("id"), "code_execution", dict(held))
    if name == "codeExecutionResult":
        failed = text_of(held, "outcome") not in ("", "OUTCOME_OK")
        return _result(held.get("id"), "code_execution", held.get("output"), failed=failed)
    data = held.get("data") if name == "inlineData" else None
    return _file(media_type, data, title or text_of(held, "fileUri", "file_uri"))


def gemini_answer(response: JsonValue) -> tuple[JsonValue, bool]:
    """Return what a function of Gemini's answered, and whether it is an error."""
    if not isinstance(response, dict):
        return response, False
    for name in ("output", "error", "result"):
        if response.get(name) is not None and len(response) == 1:
            return response[name], name == "error"
    return json.dumps(response, ensure_ascii=False), response.get("error") is not None


# Bedrock


def bedrock_part(value: JsonValue, _where: str) -> list[Part]:
    """Read a block of Bedrock's Converse interface. Raises InvalidRequest."""
    block = _object(value)
    if isinstance(call := block.get("toolUse"), dict):
        return [_call(call.get("toolUseId"), call.get("name"), call.get("input"))]
    if isinstance(result := block.get("toolResult"), dict):
        content = result.get("content")
        parts = [_inner(each) for each in (content if isinstance(content, list) else [content])]
        return [_result(result.get("toolUseId"), None, parts, failed=result.get("status") == "error")]
    if any(name in block for name in _UNSAID_BY_BEDROCK):
        return [_UNSAID]
    return [_object(_inner(block))]


def _inner(value: JsonValue) -> JsonValue:
    """Read a block that may stand in a result as well: a text, JSON, an image, a document."""
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("text"), str):
        return _said(value["text"])
    if "json" in value:
        return _said(value["json"])
    for name in ("image", "document", "video", "audio"):
        if isinstance(held := value.get(name), dict):
            extension, source = text_of(held, "format"), held.get("source")
            if isinstance(source, dict) and ("text" in source or "content" in source):
                return _document(held, source)
            data = source.get("bytes") if isinstance(source, dict) else None
            media = name if name != "document" else "application"
            return _file(_TYPES.get(extension, f"{media}/{extension}"), data, text_of(held, "name"))
    if isinstance(found := value.get("searchResult"), dict):
        return {**found, "type": "search_result"}
    for name in ("guardContent", "citationsContent"):
        if isinstance(held := value.get(name), dict):
            inside = held.get("text", held.get("content", held))
            return _said("\n".join(_texts(inside)) or inside)
    raise _unknown(value)


def _document(held: Part, source: Part) -> Part:
    """Return a document that is given as a text, or as a list of texts."""
    inside: Part = {"type": "text", "data": source["text"]} if "text" in source else {**source, "type": "content"}
    return {"type": "document", "title": held.get("name"), "context": held.get("context"), "source": inside}


def _texts(value: JsonValue) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    text = value.get("text") if isinstance(value, dict) else None
    return [text] if isinstance(text, str) else []


# Vercel's AI SDK


def vercel_part(value: JsonValue, _where: str) -> list[Part]:
    """Read a part of a UI message or of a model message. Raises InvalidRequest."""
    part = _object(value)
    kind = text_of(part, "type")
    if kind == "text" or kind.startswith("data-"):
        return [_said(part.get("text" if kind == "text" else "data"))]
    if kind in _UNSAID_BY_VERCEL:
        return [_UNSAID_BY_VERCEL[kind]]
    if kind == "tool-approval-response":
        return [_leave(part)]
    if kind == "tool-invocation":
        return tool_invocation(part.get("toolInvocation"))
    if kind == "tool-call" and "toolName" in part:
        return [_call(part.get("toolCallId"), part.get("toolName"), part.get("input", part.get("args")))]
    if kind == "tool-result" and "toolName" in part:
        output, failed = _vercel_output(part)
        return [_result(part.get("toolCallId"), part.get("toolName"), output, failed=failed)]
    if kind == "dynamic-tool" or kind.startswith("tool-"):
        return _ui_call(part, text_of(part, "toolName") or kind.removeprefix("tool-"))
    if kind in ("file", "image"):
        return vercel_file(part, "")
    if kind == "source" or kind.startswith("source-"):
        source = part.get("source")
        held = source if isinstance(source, dict) else part
        return [_said(f"[source: {text_of(held, 'title', 'url', 'filename') or 'unnamed'}]")]
    raise _unknown(part)


def _ui_call(part: Part, name: str) -> list[Part]:
    """Return a call, and its result where it has one: both stand in one part."""
    state, call_id = text_of(part, "state"), part.get("toolCallId")
    parts = [_call(call_id, name, part.get("input", part.get("rawInput")))]
    if isinstance(asked := part.get("approval"), dict) and text_of(asked, "reason"):
        parts.append(_leave(asked))
    if state in ("output-error", "output-denied"):
        why = text_of(part, "errorText") or "Denied."
        return [*parts, _result(call_id, name, why, failed=True)]
    if state == "output-available" or part.get("output") is not None:
        parts.append(_result(call_id, name, _written(part.get("output"))))
    return parts


def _written(output: JsonValue) -> JsonValue:
    """Return an output that is any value as text, whatever its fields are named."""
    return json.dumps(output, ensure_ascii=False) if isinstance(output, (dict, list)) else output


def tool_invocation(value: JsonValue) -> list[Part]:
    """Read a call as versions before 5 of Vercel's AI SDK have it. Raises InvalidRequest."""
    call = _object(value)
    call_id, name = call.get("toolCallId"), call.get("toolName")
    parts = [_call(call_id, name, call.get("args"))]
    if call.get("state") == "result" or "result" in call:
        parts.append(_result(call_id, name, _written(call.get("result"))))
    return parts


def _vercel_output(part: Part) -> tuple[JsonValue, bool]:
    output = part.get("output", part.get("result"))
    if not isinstance(output, dict) or "output" not in part:
        return _written(output), part.get("isError") is True
    kind = text_of(output, "type")
    said = output.get("value", output.get("reason", "Denied." if kind == "execution-denied" else output))
    if kind == "content" and isinstance(said, list):
        return [_shown_by_vercel(each) for each in said], False
    return _written(said), kind.startswith("error-") or kind == "execution-denied"


def _shown_by_vercel(part: JsonValue) -> JsonValue:
    """Return a part of a tool's output; a file that is only referred to is named by its address or id."""
    if not isinstance(part, dict) or not text_of(part, "type").endswith(("-url", "-id")):
        return part
    reference = part.get("url", part.get("fileId"))
    return {**part, "title": reference if isinstance(reference, str) else json.dumps(reference)}


def vercel_file(value: JsonValue, _where: str) -> list[Part]:
    """Read an image or a file: base64, an address with the data in it, or one that only refers to it."""
    part = _object(value)
    data = text_of(part, "data", "image", "url")
    media_type = text_of(part, "mediaType", "mimeType", "contentType")
    name = text_of(part, "filename", "name")
    head, comma, inside = data.partition(",")
    if data.startswith("data:") and comma:
        media_type, data = head.removeprefix("data:").partition(";")[0] or media_type, inside
    elif "://" in data:
        name, data = name or data, ""
    return [_file(media_type or ("image/*" if part.get("type") == "image" else ""), data or None, name)]


# LangChain, AG-UI, Ollama


def is_tool_part(part: Mapping[str, JsonValue]) -> bool:
    """Return True for a part of LangChain's content that repeats a call."""
    return part.get("type") in ("tool_use", "tool_call", "tool_call_chunk", "function_call")


def call_id_of(part: Mapping[str, JsonValue]) -> str:
    """Return the id by which a result names a call; OpenAI's items have one of their own beside it. "" for none."""
    return text_of(part, "call_id", "callId", "id")


def langchain_part(value: JsonValue) -> list[Part] | None:
    """Read a part of a content as LangChain itself has it; None for what it took from a model's interface."""
    part = value if isinstance(value, dict) else {}
    kind, held = text_of(part, "type"), part.get("value")
    if kind == "non_standard" and isinstance(held, dict) and "type" in held:
        return langchain_part(held) or [held]
    if kind in ("server_tool_call", "server_tool_call_chunk") or is_tool_part(part):
        return [langchain_call(part)]
    if kind in ("server_tool_result", "server_tool_call_result"):
        call_id, failed = text_of(part, "tool_call_id", "toolCallId"), part.get("status") == "error"
        return [_result(call_id, None, _written(part.get("output")), failed=failed)]
    if kind == "text-plain" and "text" in part:
        return [_document({**part, "name": part.get("title")}, {"text": part["text"]})]
    return None


def langchain_call(value: JsonValue) -> Part:
    """Read one of the `tool_calls` of LangChain's messages. Raises InvalidRequest."""
    call = _object(value)
    if isinstance(call.get("function"), dict):
        return openai_call(call)
    arguments = next((call[name] for name in ("args", "input", "arguments") if name in call), None)
    return _call(call_id_of(call), call.get("name"), arguments)


def openai_call(value: JsonValue) -> Part:
    """Read one of OpenAI's `tool_calls`, as other formats have them as well. Raises InvalidRequest."""
    call = _object(value)
    function = _object(call.get("function"))
    return _call(call.get("id"), function.get("name"), function.get("arguments"))


def value_at(message: Mapping[str, JsonValue], path: str) -> JsonValue:
    """Return the value of a field, e.g. at "content", "additional_kwargs.tool_calls"; None where there is none."""
    name, _, rest = path.partition(".")
    value = message.get(name)
    return value_at(value, rest) if rest and isinstance(value, dict) else None if rest else value


def invocations_in(parts: JsonValue) -> list[Mapping[str, JsonValue]]:
    """Return the calls among parts of Vercel's AI SDK before its version 5."""
    held = [part.get("toolInvocation") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [call for call in held if isinstance(call, dict)]
