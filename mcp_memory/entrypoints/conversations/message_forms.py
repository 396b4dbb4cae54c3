"""The table of clients' message formats: by what a message is known, and what it says in the parts of Anthropic's.

Each format is read with its roles, or refused by its name. `form_parts` reads the parts of each; `messages` what comes
of them; `form_writing` puts what was read back into the form that came.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from mcp_memory.entrypoints.conversations.cline import cline_parts, cline_written, is_cline
from mcp_memory.entrypoints.conversations.form_parts import (
    Part,
    bedrock_part,
    call_id_of,
    gemini_part,
    invocations_in,
    is_tool_part,
    langchain_call,
    langchain_part,
    openai_call,
    text_of,
    tool_invocation,
    value_at,
    vercel_file,
    vercel_part,
)
from mcp_memory.errors import InvalidRequest

ClientMessage: TypeAlias = Mapping[str, JsonValue]
PLACE: Final = "_place"
"""The field of a part that says where it was: "messages/field/index", the index "" for a field that is one text."""
_KEPT: Final = ("id", "uuid", "name", "timestamp", "created_at", "pinned")
EXPECTED: Final = (
    "Each message is {role: system|user|assistant|tool, content: a text or a list of parts}, an item such as "
    "{type: function_call, …}, or as Gemini's, Bedrock's, Vercel's or LangChain's interfaces have it."
)
_SAYING: Final = ("content", "text", "tool_calls", "function_call", "refusal")
"""Fields that hold what a message says."""
_BESIDE: Final = frozenset({"tool_calls", "function_call", "tool_call_id", "tool_use_id", "call_id", "tool_name"})
_ABOUT: Final = frozenset(
    {"role", "id", "uuid", "name", "speaker", "timestamp", "created_at", "pinned", "type", "status", "phase", "object"}
    | {"reasoning", "reasoning_content", "reasoning_details", "thinking", "annotations", "metadata", "stop_reason"}
    | {"tool_call_id", "tool_use_id", "call_id", "tool_name", "is_error", "error", "model", "usage", "cache_control"}
)
"""Fields that say something about a message."""
# e.g. "toolResults", "function_response", "callOutput"
_TELLING = re.compile(r"tool|function|call|result|response", re.IGNORECASE)
"""Names of a call or a tool's output, which are never taken for the user's words."""
_SHOWN: Final = frozenset({"search_result", "tool_reference"})
"""Types of parts that are shown as they are, though their names tell of tools."""
_LANGCHAIN_ROLES: Final[Mapping[str, str]] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_BEDROCK: Final = frozenset(
    {"toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent", "searchResult"}
    | {"image", "document", "video", "audio"}
)
_GEMINI: Final = frozenset(
    {"text", "thought", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode"}
    | {"codeExecutionResult", "function_call", "function_response", "inline_data", "file_data", "executable_code"}
    | {"code_execution_result", "toolCall", "toolResponse", "tool_call", "tool_response"}
)
_TOLD_ROLES: Final[Mapping[str, str]] = {"model": "assistant", "function": "user", "tool": "user"}
"""Roles that parts of calls and results stand in; a result says by itself that it is a tool's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """A field of a message with parts, and how one of them is read: as parts of Anthropic's, none, one or two."""

    name: str
    read: Callable[[JsonValue, str], list[Part]]
    is_one: bool = False
    """Its value is read as a whole, whatever it is: what a tool gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageForm:
    """A format: its name in errors, whether a message is in it, and its fields in the order in which they were said.

    `inner` names the field in which the message itself lies, for formats that wrap it; "" where it is not wrapped.
    In one that `alternates` user and assistant take turns. `write` puts parts that were read back, where one text may
    hold several; without it a part goes back into the value that it came from. A format without fields is not read.
    """

    name: str
    holds: Callable[[ClientMessage], bool]
    fields: Callable[[ClientMessage], Sequence[Fields]] = lambda _: ()
    inner: Callable[[ClientMessage], str] = lambda _: ""
    alternates: bool = False
    write: Callable[[Sequence[Part], str], list[Part]] | None = None

    def unwrapped(self, message: ClientMessage) -> ClientMessage:
        inside = message.get(self.inner(message))
        return cast("ClientMessage", inside) if isinstance(inside, dict) else message

    def plain(self, message: ClientMessage, where: str, number: int = 0) -> ClientMessage:
        """Return the message as Anthropic's interface has it; each part tells its place, in message `number`.

        Raises:
            InvalidRequest: the form is not read, or holds what has no meaning in it; names the place and the form.
        """
        said = self.unwrapped(message)
        # Only the wrapping may say that this is a tool's message.
        is_named = said is message or "type" in said
        fields = self.fields(said if is_named else {**said, "type": _langchain_kind(message)})
        if not fields:
            raise InvalidRequest(f"{where} is in the form of {self.name}, which is not read. {INSTEAD}")
        parts: list[JsonValue] = []
        for field in fields:
            value = value_at(said, field.name)
            is_many = isinstance(value, list) and not field.is_one
            for index, part in enumerate(cast("list[JsonValue]", value)) if is_many else [("", value)]:
                if part is not None or field.is_one:
                    at = f"{where}.{field.name}" + (f"[{index}]" if index != "" else "")
                    read = _read(field, part, at, self.name)
                    parts += [
                        {**made, PLACE: f"{number}/{field.name}/{index}" + f".{place}" * (self.write is not None)}
                        for place, made in enumerate(read)
                    ]
        kept = {name: said[name] for name in _KEPT if said.get(name) is not None}
        if (created := said.get("createdAt")) is not None:
            kept["created_at"] = created
        if isinstance(kept.get("id"), (dict, list)):
            del kept["id"]
        return {**kept, "role": _role(message, said, where), "content": parts}


INSTEAD: Final = "Send messages as your model's interface has them: Anthropic's, OpenAI's, Gemini's or Bedrock's."


def _read(field: Fields, part: JsonValue, where: str, form: str) -> list[Part]:
    try:
        return field.read(part, where)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}, in the form of {form}, {error}") from None


def _role(message: ClientMessage, said: ClientMessage, where: str) -> JsonValue:
    role = said.get("role")
    if role is None or (role == "generic" and "type" in said):
        kind = _langchain_kind(message)
        role = _LANGCHAIN_ROLES.get(kind, "user" if "parts" in said else kind)
    return _TOLD_ROLES.get(role.lower(), role) if isinstance(role, str) else role


def form_of(message: ClientMessage) -> MessageForm | None:
    """Return the form of a message, None for those that need no translation: Anthropic's and OpenAI's."""
    return next((form for form in FORMS if form.holds(message)), None)


def plain_message(message: ClientMessage, where: str) -> ClientMessage:
    """Return a message of any form as Anthropic's or OpenAI's interface has it. Raises InvalidRequest."""
    form = form_of(message)
    return message if form is None else form.plain(message, where)


def _text(value: JsonValue, where: str) -> list[Part]:
    """Read a content that is one text, or a part of Anthropic's or OpenAI's."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, dict):
        return [value]
    raise InvalidRequest("is neither a text nor a part with a type. Correct it.")


def _parts_of(message: ClientMessage, field: str) -> list[Mapping[str, JsonValue]]:
    value = message.get(field)
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _has(message: ClientMessage, field: str, *names: str) -> bool:
    """Return True where all parts of a field have one of these names among their keys, and there is one."""
    parts = _parts_of(message, field)
    return bool(parts) and all(not part.keys().isdisjoint(names) for part in parts)


def check_fields(message: ClientMessage, where: str) -> None:
    """See that nothing that a message says would be left out.

    Raises:
        InvalidRequest: it says nothing in a field that is read, but has others, or holds calls in an unknown one.
    """
    held = [name for name, value in message.items() if value not in (None, "", [], {})]
    beside = [name for name in held if name not in _BESIDE and _TELLING.search(name)]
    if found := [name for name in beside if isinstance(message[name], (list, dict))]:
        raise InvalidRequest(f"{where} has {found[0][:40]!r}, which is in no known form of messages. {EXPECTED}")
    if not any(name in message for name in (*_SAYING, "audio")) and (found := [*set(held) - _ABOUT]):
        raise InvalidRequest(
            f"{where} says nothing in `content`, `parts` or `tool_calls`, but has {min(found)[:40]!r}. {EXPECTED}"
        )


def said_in(message: ClientMessage) -> JsonValue:
    """Return what a message says: its content; of an answer by voice, what was heard."""
    content, audio = message.get("content", message.get("text")), message.get("audio")
    return audio.get("transcript") if content is None and isinstance(audio, dict) else content


def tells_of_tools(kind: str) -> bool:
    """Return True for an unknown type of part that may be a call or a result: it is never taken for words."""
    return _TELLING.search(kind) is not None and kind not in _SHOWN


# LangChain


def _langchain_kind(message: ClientMessage) -> str:
    """Return e.g. "human" for {type: human}, {type: HumanMessageChunk} and {lc: 1, id: [… "HumanMessage"]}."""
    kind = message.get("type")
    if "lc" in message:
        path = message.get("id")
        kind = path[-1] if isinstance(path, list) and path else None
    return kind.removesuffix("Chunk").removesuffix("Message").lower() if isinstance(kind, str) else ""


def _is_langchain(message: ClientMessage) -> bool:
    if "role" in message or "message" in message or "payload" in message:
        return False
    if "lc" in message:
        return isinstance(message.get("kwargs"), dict)
    holds = "content" in message or isinstance(message.get("data"), dict)
    return holds and _langchain_kind(message) in {*_LANGCHAIN_ROLES, "chat"}


def _langchain_fields(said: ClientMessage) -> Sequence[Fields]:
    if text_of(said, "tool_call_id") or said.get("type") in ("tool", "function"):
        return (Fields(name="content", read=lambda value, _: [_tool_result(said, value)], is_one=True),)
    calls = [*_parts_of(said, "tool_calls"), *_parts_of(said, "invalid_tool_calls")]
    ids, names = {text_of(call, "id") for call in calls}, {text_of(call, "name") for call in calls}

    def content(value: JsonValue, where: str) -> list[Part]:
        # The calls stand among the parts of the content, too, as the model's interface had them.
        if isinstance(value, dict) and is_tool_part(value) and call_id_of(value) in ids:
            return []
        return langchain_part(value) or _text(value, where)

    def call(value: JsonValue, _: str) -> list[Part]:
        return [langchain_call(value)]

    def beside(value: JsonValue, where: str) -> list[Part]:
        # What a model's interface gave is kept beside the calls that were made of it.
        is_known = isinstance(value, dict) and text_of(value, "id") in ids
        return [] if is_known else call(value, where)

    def function(value: JsonValue, _: str) -> list[Part]:
        return [] if isinstance(value, dict) and text_of(value, "name") in names else [openai_call({"function": value})]

    return (
        Fields(name="content", read=content),
        Fields(name="tool_calls", read=call),
        Fields(name="invalid_tool_calls", read=call),
        Fields(name="additional_kwargs.tool_calls", read=beside),
        Fields(name="additional_kwargs.function_call", read=function),
    )


def _tool_result(said: ClientMessage, value: JsonValue) -> Part:
    """Return the content of a tool's message as its result."""
    return {
        "type": "tool_result",
        "tool_use_id": said.get("tool_call_id"),
        "name": said.get("name"),
        "content": value,
        "is_error": said.get("status") == "error",
    }


# Vercel's AI SDK


def _is_vercel_ui(message: ClientMessage) -> bool:
    held = message.get("toolInvocations") or message.get("experimental_attachments")
    return "role" in message and (_has(message, "parts", "type") or bool(held))


def _vercel_ui_fields(said: ClientMessage) -> Sequence[Fields]:
    known = {text_of(part, "toolCallId") for part in invocations_in(said.get("parts"))}

    def invocation(value: JsonValue, _: str) -> list[Part]:
        # Before version 5 of the SDK calls stood there as well as among the parts, not always all of them.
        return [] if isinstance(value, dict) and text_of(value, "toolCallId") in known else tool_invocation(value)

    return (
        _beside_parts(said),
        Fields(name="parts", read=vercel_part),
        Fields(name="toolInvocations", read=invocation),
        Fields(name="experimental_attachments", read=vercel_file),
    )


def _beside_parts(said: ClientMessage) -> Fields:
    """Return the content of a message that has parts: it is read where these do not say the same."""
    told = "".join("".join(text_of(part, "text").split()) for part in _parts_of(said, "parts"))

    def content(value: JsonValue, where: str) -> list[Part]:
        return [] if isinstance(value, str) and "".join(value.split()) in told else _text(value, where)

    return Fields(name="content", read=content)


def _is_vercel_model(message: ClientMessage) -> bool:
    return "role" in message and any(
        str(part.get("type")) in _VERCEL_KINDS or (part.get("type") == "image" and "image" in part) or _is_file(part)
        for part in _parts_of(message, "content")
    )


_VERCEL_KINDS: Final = frozenset({"tool-call", "tool-result", "tool-approval-request", "tool-approval-response"})


def _is_file(part: Mapping[str, JsonValue]) -> bool:
    return part.get("type") == "file" and not part.keys().isdisjoint({"mediaType", "mimeType"})


def _is_ag_ui(message: ClientMessage) -> bool:
    return "role" in message and (bool(message.get("toolCallId")) or bool(message.get("toolCalls")))


def _ag_ui_fields(said: ClientMessage) -> Sequence[Fields]:
    if said.get("toolCallId"):
        error = said.get("error")
        answers = {"tool_call_id": said["toolCallId"], "status": "error" if error else None}
        return (Fields(name="content", read=lambda value, _: [_tool_result(answers, value or error)], is_one=True),)
    return (
        Fields(name="content", read=_text),
        Fields(name="toolCalls", read=lambda value, _: [openai_call(value)]),
    )


def _ollama_fields(said: ClientMessage) -> Sequence[Fields]:
    return (
        Fields(name="content", read=_text),
        Fields(name="images", read=lambda value, _: [{"type": "image", "data": value}]),
        Fields(name="tool_calls", read=lambda value, _: [openai_call(value)]),
    )


def _cline_fields(said: ClientMessage) -> Sequence[Fields]:
    made = iter(cline_parts(said))  # What a part is depends on those before it.
    return (Fields(name="content", read=lambda _, __: next(made)),)


def _part_fields(name: str, read: Callable[[JsonValue, str], list[Part]]) -> Callable[[ClientMessage], list[Fields]]:
    return lambda _: [Fields(name=name, read=read)]


def _is_bedrock(message: ClientMessage) -> bool:
    parts = _parts_of(message, "content")
    untyped = [part for part in parts if "type" not in part]
    return "role" in message and any(part.keys() & (_BEDROCK | {"text"}) for part in untyped)


FORMS: Final[tuple[MessageForm, ...]] = (
    MessageForm(
        name="LangChain",
        holds=_is_langchain,
        fields=_langchain_fields,
        inner=lambda message: "kwargs" if "lc" in message else "data",
    ),
    MessageForm(name="Vercel's AI SDK (UI messages)", holds=_is_vercel_ui, fields=_vercel_ui_fields),
    MessageForm(
        name="Vercel's AI SDK (model messages)", holds=_is_vercel_model, fields=_part_fields("content", vercel_part)
    ),
    MessageForm(name="A2A", holds=lambda m: _has(m, "parts", "kind")),
    MessageForm(name="Pydantic AI", holds=lambda m: _has(m, "parts", "part_kind") or m.get("kind") == "request"),
    MessageForm(name="LlamaIndex", holds=lambda m: _has(m, "blocks", "block_type")),
    MessageForm(name="Semantic Kernel", holds=lambda m: isinstance(m.get("role"), dict)),
    MessageForm(name="ShareGPT", holds=lambda m: "role" not in m and "from" in m and "value" in m),
    MessageForm(name="AutoGen", holds=lambda m: "role" not in m and "source" in m and "content" in m),
    MessageForm(name="Agent Development Kit", holds=lambda m: "author" in m and isinstance(m.get("content"), dict)),
    MessageForm(
        name="Gemini",
        holds=lambda m: "parts" in m and (_has(m, "parts", *_GEMINI) or ("role" in m and not m.get("content"))),
        fields=lambda said: (_beside_parts(said), Fields(name="parts", read=gemini_part)),
        alternates=True,
    ),
    MessageForm(
        name="Bedrock's Converse", holds=_is_bedrock, fields=_part_fields("content", bedrock_part), alternates=True
    ),
    MessageForm(name="AG-UI", holds=_is_ag_ui, fields=_ag_ui_fields),
    MessageForm(name="Cline", holds=is_cline, fields=_cline_fields, write=cline_written),
    MessageForm(name="Ollama", holds=lambda m: "role" in m and bool(m.get("images")), fields=_ollama_fields),
)
"""In order: the first that a message is in reads it. What none holds is Anthropic's or OpenAI's, or nobody's."""


def forms_read() -> Iterator[str]:
    """Yield the names of the forms that are read."""
    yield from ("Anthropic", "OpenAI")
    yield from (form.name for form in FORMS if form.fields({}))
