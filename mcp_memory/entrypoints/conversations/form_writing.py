"""Puts messages that were read by `message_forms` back into the form that came, after some of their parts changed.

What did not change stays the very object that it was.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from mcp_memory.domain.sessions.log_dedup import replaced_by
from mcp_memory.entrypoints.conversations.form_parts import invocations_in, value_at
from mcp_memory.entrypoints.conversations.message_forms import PLACE, MessageForm, form_of

Message: TypeAlias = Mapping[str, Any]
Written: TypeAlias = dict[str, Any]

_INPUTS: Final = ("input", "args", "rawInput", "arguments")
_ARGUMENTS: Final[Mapping[str, str]] = {
    "functionCall": "args",
    "function_call": "args",
    "toolCall": "args",
    "tool_call": "args",
    "executableCode": "code",
    "executable_code": "code",
    "toolUse": "input",
}
"""Fields of Gemini's and Bedrock's parts that hold a call, and where its arguments are."""
_ANSWERS: Final[Mapping[str, str]] = {
    "functionResponse": "response",
    "function_response": "response",
    "toolResponse": "response",
    "tool_response": "response",
    "codeExecutionResult": "output",
    "code_execution_result": "output",
    "toolResult": "content",
}
"""Fields of Gemini's and Bedrock's parts that hold a tool's answer, and where its output is."""


class Translated:
    """Messages of which some are in a form that is translated; `plain` are they in that of Anthropic's interface."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._forms = [form_of(message) for message in messages]
        self.plain: list[Message] = [
            message if form is None else form.plain(message, f"messages[{place}]", place)
            for place, (message, form) in enumerate(zip(messages, self._forms, strict=True))
        ]
        self._like = next((place for place, form in enumerate(self._forms) if form), None)
        self._sources = {id(message): place for place, message in enumerate(self.plain)}
        self._read = {_key(part): part for message in self.plain for part in _placed(message)}

    @property
    def form(self) -> MessageForm | None:
        """The form of the conversation; None where no message needs a translation."""
        return None if self._like is None else self._forms[self._like]

    def written(self, message: Message) -> Written:
        """Return a message made of `plain` ones in the form that they came in; a new one in that of the first."""
        if (place := self._sources.get(id(message))) is not None:
            return cast("Written", self._messages[place])
        placed = _placed(message)
        if not placed:
            is_block = message.get("role") == "user" and self._like is not None
            return self._new(message) if is_block else cast("Written", message)
        number = int(str(placed[0][PLACE]).partition("/")[0])
        form = self._forms[number]
        assert form is not None
        original = self._messages[number]
        inner = form.unwrapped(original)
        changed = dict(inner)
        if form.write:
            return changed | {"content": form.write([dict(each) for each in placed], str(message["role"]))}
        for field in form.fields(inner):
            kept, before = self._values(message, field.name, has_parts="parts" in inner), value_at(inner, field.name)
            if kept or before is not None:
                changed = _put(changed, field.name, _like(before, kept))
        changed = _tidied(changed, inner)
        return changed if inner is original else {**original, form.inner(original): changed}

    def _values(self, message: Message, field: str, *, has_parts: bool) -> list[Any]:
        """Return what is left of a field, each value once, though it may have been read as a call and its result."""
        values: dict[str, Any] = {}
        for part in _listed(message):
            place = part.get(PLACE)
            if place is None:
                if field == ("parts" if has_parts else "content"):
                    values[f"new {len(values)}"] = _new_part(part["text"], field, self.form)
            elif str(place).split("/")[1] == field:
                value = values.get(place, self._original(place))
                values[place] = value if self._read.get(_key(part)) is part else self._changed(value, part, field)
        return self._with_steps(values) if field == "parts" else list(values.values())

    def _changed(self, value: Any, part: Message, field: str) -> Any:
        is_text = isinstance(value, Mapping) and part.get("type") == "text"
        return _new_part(part["text"], field, self.form) if is_text and "text" not in value else _with_text(value, part)

    def _with_steps(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the values with the marks in front of them that begin a step: what was made together stays so."""
        made: list[Any] = []
        begun = None
        for place, value in values.items():
            if place.count("/") == 2 and not place.endswith("/"):
                number, field, index = place.split("/")
                before = cast("list[Any]", self._messages[int(number)][field])[: int(index)]
                steps = [at for at, part in enumerate(before) if _begins_step(part)]
                if steps and steps[-1] != begun:
                    begun = steps[-1]
                    made.append(before[begun])
            made.append(value)
        return made

    def _original(self, place: str) -> Any:
        number, field, index = place.split("/")
        form = self._forms[int(number)]
        assert form is not None
        value: Any = value_at(form.unwrapped(self._messages[int(number)]), field)
        return value[int(index)] if index else value

    def _new(self, message: Message) -> Written:
        """Return a block, or several, as a message of the form: the user's role brings it."""
        assert self._like is not None
        like, form = self._messages[self._like], self._forms[self._like]
        texts = [part["text"] for part in _listed(message)]
        text = texts[0]  # Only forms of which roles alternate bring several blocks in one message.
        if form is not None and form.name == "LangChain":
            if "lc" in like:
                path = [*cast("list[str]", like["id"])[:-1], "HumanMessage"]
                return {**like, "id": path, "kwargs": {"content": text, "type": "human"}}
            inner = {"type": "human", "content": text}
            return {"type": "human", "data": inner} if isinstance(like.get("data"), dict) else inner
        if "parts" in like:
            named = {"id": replaced_by(text) or "memory"} if "id" in like else {}
            return {**named, "role": "user", "parts": [_new_part(each, "parts", form) for each in texts]}
        if form is not None and form.alternates:
            return {"role": "user", "content": [{"text": each} for each in texts]}
        return {**({"id": replaced_by(text) or "memory"} if "id" in like else {}), "role": "user", "content": text}


def _begins_step(part: Any) -> bool:
    return isinstance(part, Mapping) and cast("Message", part).get("type") == "step-start"


def _placed(message: Message) -> list[Message]:
    content = message.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict) and PLACE in part]


def _listed(message: Message) -> list[Message]:
    content = message["content"]
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    return [part if isinstance(part, dict) else {"text": part} for part in parts]


def _key(part: Message) -> tuple[str, str]:
    return str(part[PLACE]), str(part.get("type"))


def _new_part(text: str, field: str, form: MessageForm | None) -> Any:
    has_types = form is not None and not form.alternates
    return {"type": "text", "text": text} if has_types and field else {"text": text}


def _put(message: Message, path: str, value: Any) -> Written:
    """Return the message with a value at a field, which a path may name in another; there nothing empty stays."""
    name, _, rest = path.partition(".")
    if not rest:
        return {**message, name: value}
    held = {key: each for key, each in message[name].items() if key != rest}
    return {**message, name: {**held, rest: value} if value else held}


def _like(before: Any, kept: list[Any]) -> Any:
    """Return the values of a field as it had them: many, or one."""
    if isinstance(before, list) or len(kept) > 1:
        return kept
    return kept[0] if kept else "" if isinstance(before, str) else None


def _tidied(message: Written, original: Message) -> Written:
    """Return a changed message with what else says its text and its calls as its parts do."""
    message = {name: value for name, value in message.items() if name != "toolCalls" or value}
    parts = message.get("parts")
    if isinstance(parts, list) and message.get("content") == "":
        said = [part for part in cast("list[Written]", parts) if part.get("type", "text") == "text"]
        texts = [part["text"] for part in said if "text" in part and not part.get("thought")]
        message["content"] = _joined(texts, original.get("content"))
    if "toolInvocations" in message:
        message["toolInvocations"] = [*invocations_in(cast("Any", parts)), *message["toolInvocations"]]
    return message


def _joined(texts: Sequence[str], before: Any) -> str:
    """Return the field beside parts of these texts: `before` where that says the same, else a line of each."""
    is_same = isinstance(before, str) and "".join(before.split()) == "".join("".join(texts).split())
    return before if is_same else "\n".join(texts)


def _with_text(value: Any, part: Message) -> Any:
    """Return a part of the form that says what the changed part says instead."""
    kind = part.get("type")
    if not isinstance(value, Mapping):
        return part["content"] if kind == "tool_result" else part["text"]
    held = dict(cast("Message", value))
    if "toolInvocation" in held:
        return {**held, "toolInvocation": _with_text(held["toolInvocation"], part)}
    if kind == "tool_use":
        return _called(held, part["input"])
    if kind == "tool_result":
        return _answered(held, part["content"])
    if kind == "mcp_approval_response":
        asked = held.get("approval")
        said = {**(asked if isinstance(asked, Mapping) else held), "reason": part["reason"]}
        return {**held, "approval": said} if isinstance(asked, Mapping) else said
    return {**held, "text": part["text"]}


def _called(held: Written, given: Message) -> Written:
    for name in held.keys() & _ARGUMENTS.keys():
        inside = given if _ARGUMENTS[name] != "code" else json.dumps(given, ensure_ascii=False)
        return {**held, name: {**held[name], _ARGUMENTS[name]: inside}}
    call = held.get("function", held)
    is_text = isinstance(call.get("arguments"), str)
    written = json.dumps(given, ensure_ascii=False, separators=(",", ":")) if is_text else given
    call = {**call, next((name for name in _INPUTS if name in call), "input"): written}
    return {**held, "function": call} if "function" in held else call


def _answered(held: Written, text: str) -> Written:
    for name in held.keys() & _ANSWERS.keys():
        field = _ANSWERS[name]
        inside = {"output": text} if field == "response" else [{"text": text}] if field == "content" else text
        # Gemini's `parts` are the files of an answer, which is not shown any more.
        kept = {key: each for key, each in held[name].items() if key != "parts"}
        return {**held, name: {**kept, field: inside}}
    if "errorText" in held:
        return {**held, "errorText": text}
    output = held.get("output")
    if held.get("type") == "tool-result" and isinstance(output, Mapping):
        is_error = str(cast("Message", output).get("type")).startswith("error-")
        return {**held, "output": {"type": "error-text" if is_error else "text", "value": text}}
    return {**held, "result" if "result" in held else "output": text}
