"""Conversations of Anthropic's interface in other clients' forms, and back for the rules that these have in common."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from tests.entrypoints.conversations.message_rules import of_anthropic, of_openai

Messages = list[dict[str, Any]]
DETAILS = "<environment_details>\n# Current Mode\nACT MODE\n</environment_details>"
"""What Cline puts at the end of each message in the user's role."""
_KINDS = {"system": "system", "user": "human", "assistant": "ai"}
_CLASSES = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}


@dataclass(frozen=True, kw_only=True)
class Form:
    """How to write a conversation in a form, and which of its rules a list breaks."""

    write: Callable[[Messages], Messages]
    broken: Callable[[Messages], list[str]]


def _parts(message: dict[str, Any]) -> Messages:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def gemini(messages: Messages) -> Messages:
    def part(one: dict[str, Any]) -> dict[str, Any]:
        if one["type"] == "thinking":
            return {"text": one["thinking"], "thought": True}
        if one["type"] == "tool_use":
            call = {"id": one["id"], "name": one["name"], "args": one["input"]}
            return {"functionCall": call, "thoughtSignature": "c2ln"}
        if one["type"] == "tool_result":
            answer = {"id": one["tool_use_id"], "name": "bash", "response": {"output": one["content"]}}
            return {"functionResponse": answer}
        if one["type"] == "image":
            return {"inlineData": {"mimeType": "image/png", "data": one["source"]["data"]}}
        return {"text": one["text"]}

    roles = {"user": "user", "assistant": "model"}
    return [{"role": roles[each["role"]], "parts": [part(one) for one in _parts(each)]} for each in messages]


def _from_gemini(messages: Messages) -> Messages:
    def part(one: dict[str, Any]) -> dict[str, Any]:
        if call := one.get("functionCall"):
            return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
        if answer := one.get("functionResponse"):
            return {"type": "tool_result", "tool_use_id": answer["id"], "content": answer["response"]["output"]}
        return {"type": "text", "text": one.get("text", "[image]")}

    roles = {"user": "user", "model": "assistant"}
    return [
        {"role": roles[each["role"]], "content": [part(one) for one in each["parts"] if not one.get("thought")]}
        for each in messages
    ]


def bedrock(messages: Messages) -> Messages:
    def part(one: dict[str, Any]) -> dict[str, Any]:
        if one["type"] == "thinking":
            return {"reasoningContent": {"reasoningText": {"text": one["thinking"], "signature": one["signature"]}}}
        if one["type"] == "tool_use":
            return {"toolUse": {"toolUseId": one["id"], "name": one["name"], "input": one["input"]}}
        if one["type"] == "tool_result":
            content = [{"text": one["content"]}]
            return {"toolResult": {"toolUseId": one["tool_use_id"], "content": content, "status": "success"}}
        if one["type"] == "image":
            return {"image": {"format": "png", "source": {"bytes": one["source"]["data"]}}}
        return {"text": one["text"]}

    return [{"role": each["role"], "content": [part(one) for one in _parts(each)]} for each in messages]


def _from_bedrock(messages: Messages) -> Messages:
    def part(one: dict[str, Any]) -> dict[str, Any]:
        if call := one.get("toolUse"):
            return {"type": "tool_use", "id": call["toolUseId"], "name": call["name"], "input": call["input"]}
        if result := one.get("toolResult"):
            return {"type": "tool_result", "tool_use_id": result["toolUseId"], "content": result["content"][0]["text"]}
        return {"type": "text", "text": one.get("text", "[image]")}

    return [
        {"role": each["role"], "content": [part(one) for one in each["content"] if "reasoningContent" not in one]}
        for each in messages
    ]


def vercel_ui(messages: Messages) -> Messages:
    """A turn of the assistant's is one message, and a call and its result are one part."""
    made: Messages = []
    calls: dict[str, dict[str, Any]] = {}
    for number, message in enumerate(messages):
        said = [one for one in _parts(message) if one["type"] != "tool_result"]
        for one in _parts(message):
            if one["type"] == "tool_result":
                calls[one["tool_use_id"]] |= {"state": "output-available", "output": one["content"]}
        parts: Messages = [{"type": "step-start"}] if message["role"] == "assistant" else []
        for one in said:
            if one["type"] == "thinking":
                parts.append({"type": "reasoning", "text": one["thinking"]})
            elif one["type"] == "tool_use":
                call = {"type": f"tool-{one['name']}", "toolCallId": one["id"], "input": one["input"]}
                calls[one["id"]] = call
                parts.append(call)
            elif one["type"] == "image":
                url = f"data:image/png;base64,{one['source']['data']}"
                parts.append({"type": "file", "mediaType": "image/png", "url": url})
            else:
                parts.append({"type": "text", "text": one["text"]})
        if made and made[-1]["role"] == message["role"] == "assistant":
            made[-1]["parts"] += parts
        elif said:
            made.append({"id": f"m{number}", "role": message["role"], "parts": parts})
    return made


def _broken_in_vercel_ui(messages: Messages) -> list[str]:
    broken: list[str] = []
    for message in messages:
        parts = cast("Messages", message["parts"])
        told = [part for part in parts if part["type"] not in ("step-start", "reasoning")]
        broken += [] if isinstance(message.get("id"), str) and told else ["a message has an id, and parts"]
        kinds = [part["type"] for part in parts]
        if message["role"] == "assistant" and (kinds[0] != "step-start" or kinds[-1] == "step-start"):
            broken.append("a step has parts")
        calls = [part for part in parts if part["type"].startswith("tool-")]
        broken += ["a call is the assistant's, and has its result" for part in calls if "output" not in part]
        broken += ["a text is not empty" for part in parts if part["type"] == "text" and not part["text"].strip()]
    return broken + ["ids are met once"] * (len({each["id"] for each in messages}) != len(messages))


def vercel_model(messages: Messages) -> Messages:
    def part(one: dict[str, Any]) -> dict[str, Any]:
        if one["type"] == "thinking":
            return {"type": "reasoning", "text": one["thinking"]}
        if one["type"] == "tool_use":
            return {"type": "tool-call", "toolCallId": one["id"], "toolName": one["name"], "input": one["input"]}
        if one["type"] == "tool_result":
            output = {"type": "text", "value": one["content"]}
            return {"type": "tool-result", "toolCallId": one["tool_use_id"], "toolName": "bash", "output": output}
        if one["type"] == "image":
            return {"type": "image", "image": one["source"]["data"], "mediaType": "image/png"}
        return one

    made: Messages = []
    for message in messages:
        parts = [part(one) for one in _parts(message)]
        role = "tool" if any(one["type"] == "tool-result" for one in parts) else message["role"]
        made.append({"role": role, "content": parts if len(parts) > 1 or role != "user" else message["content"]})
    return made


def _from_vercel_model(messages: Messages) -> Messages:
    made: Messages = []
    for message in messages:
        parts = _parts(message)
        texts: str = "\n".join(part["text"] for part in parts if part["type"] == "text")
        if message["role"] == "tool":
            made += [
                {"role": "tool", "tool_call_id": part["toolCallId"], "content": part["output"]["value"] or " "}
                for part in parts
            ]
            continue
        calls = [
            {"id": part["toolCallId"], "function": {"name": part["toolName"], "arguments": json.dumps(part["input"])}}
            for part in parts
            if part["type"] == "tool-call"
        ]
        is_media = any(part["type"] == "image" for part in parts)
        content = texts or ("[image]" if is_media else None)
        made.append({"role": message["role"], "content": content} | ({"tool_calls": calls} if calls else {}))
    return made


def langchain(messages: Messages) -> Messages:
    made: Messages = []
    for message in messages:
        parts = _parts(message)
        results = [part for part in parts if part["type"] == "tool_result"]
        made += [
            {"type": "tool", "content": part["content"], "tool_call_id": part["tool_use_id"], "status": "success"}
            for part in results
        ]
        if results:
            continue
        calls = [part for part in parts if part["type"] == "tool_use"]
        one: dict[str, Any] = {"type": _KINDS[message["role"]], "content": message["content"]}
        if message["role"] == "assistant":
            one["additional_kwargs"] = {"tool_calls": [{"id": part["id"]} for part in calls]} if calls else {}
            one["tool_calls"] = [
                {"type": "tool_call", "id": part["id"], "name": part["name"], "args": part["input"]} for part in calls
            ]
        made.append(one)
    return made


def _from_langchain(messages: Messages) -> Messages:
    made: Messages = []
    for message in messages:
        parts = _parts(message)
        texts: str = "\n".join(part["text"] for part in parts if part["type"] == "text")
        calls = message.get("tool_calls") or ()
        repeated = {part["id"] for part in parts if part["type"] == "tool_use"}
        if repeated - {call["id"] for call in calls}:
            return [{"role": "nobody", "content": "a call stands in the content that is none of the message's"}]
        if message["type"] == "tool":
            content = message["content"] or " "
            made.append({"role": "tool", "tool_call_id": message["tool_call_id"], "content": content})
            continue
        written = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": json.dumps(call["args"])}}
            for call in calls
        ]
        role = next(role for role, kind in _KINDS.items() if kind == message["type"])
        content = texts or ("[image]" if any(part["type"] == "image" for part in parts) else None)
        made.append({"role": role, "content": content} | ({"tool_calls": written} if written else {}))
    return made


def _wrapped(messages: Messages) -> Messages:
    return [{"type": each["type"], "data": each} for each in langchain(messages)]


def _serialized(messages: Messages) -> Messages:
    return [
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", _CLASSES[each["type"]]],
            "kwargs": each,
        }
        for each in langchain(messages)
    ]


def cline(messages: Messages) -> Messages:
    """Calls are XML at the end of the agent's text, results and the user's words are text in frames."""

    def part(one: dict[str, Any]) -> dict[str, Any]:
        if one["type"] == "tool_use":
            text = f"<execute_command>\n<command>{one['input']['command']}</command>\n</execute_command>"
            return {"type": "text", "text": text}
        if one["type"] == "tool_result":
            told = one["content"] or "(tool did not return anything)"
            return {"type": "text", "text": f"[execute_command for '{one['tool_use_id']}'] Result:\n{told}"}
        return one

    def users(message: dict[str, Any]) -> Messages:
        said = [part(one) for one in _parts(message)]
        is_result = any(one["type"] == "tool_result" for one in _parts(message))
        framed = [
            {**one, "text": f"<user_message>\n{one['text']}\n</user_message>"}
            if one["type"] == "text" and not is_result
            else one
            for one in said
        ]
        return [*framed, {"type": "text", "text": DETAILS}]

    return [
        {
            "role": each["role"],
            "content": users(each) if each["role"] == "user" else [part(one) for one in _parts(each)],
        }
        for each in messages
    ]


def _broken_in_cline(messages: Messages) -> list[str]:
    parts = [part for message in messages for part in _parts(message)]
    kinds = {part["type"] for part in parts} - {"text", "image", "thinking"}
    broken = [f"no part is of the type {kind}" for kind in kinds]
    broken += ["a part has its own fields alone" for part in parts if any(name.startswith("_") for name in part)]
    broken += ["a text is not empty" for part in parts if part["type"] == "text" and not part["text"].strip()]
    return broken + ["content is not empty" for message in messages if not message["content"]]


def _is_right(messages: Messages) -> list[str]:
    names = [_CLASSES[each["kwargs"]["type"]] for each in messages]
    return ["the class is that of the type"] * (names != [each["id"][-1] for each in messages])


OTHER_FORMS = {
    "gemini": Form(write=gemini, broken=lambda made: of_anthropic(_from_gemini(made))),
    "bedrock": Form(write=bedrock, broken=lambda made: of_anthropic(_from_bedrock(made))),
    "cline": Form(write=cline, broken=_broken_in_cline),
    "vercel_ui": Form(write=vercel_ui, broken=_broken_in_vercel_ui),
    "vercel_model": Form(write=vercel_model, broken=lambda made: of_openai(_from_vercel_model(made))),
    "langchain": Form(write=langchain, broken=lambda made: of_openai(_from_langchain(made))),
    "langchain_dict": Form(
        write=_wrapped, broken=lambda made: of_openai(_from_langchain([each["data"] for each in made]))
    ),
    "langchain_lc": Form(
        write=_serialized,
        broken=lambda made: _is_right(made) + of_openai(_from_langchain([each["kwargs"] for each in made])),
    ),
}
"""The forms that are read beside Anthropic's and OpenAI's, by name."""
