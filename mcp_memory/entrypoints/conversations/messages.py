"""Reads a client's conversation as records of the session log. Knows no file.

Read here are messages of the Anthropic and the OpenAI interfaces, items of OpenAI's Responses, and plain {role, text};
`message_forms` is the table of the others, and puts them into these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Final, NamedTuple, TypeAlias, cast

from pydantic import JsonValue

from mcp_memory.domain.memory.harness import CLIENTS_NOTE, NO_OUTPUT, OWN_CALL, is_own_tool, without_harness
from mcp_memory.domain.model.limits import MAX_NAME_CHARS, MAX_TEXT_CHARS
from mcp_memory.domain.model.records import Instant, NewRecord
from mcp_memory.domain.model.session_log import Role
from mcp_memory.domain.sessions.log_dedup import replaced_by
from mcp_memory.domain.text.control_characters import details_without_controls
from mcp_memory.entrypoints.conversations.media import taken_apart
from mcp_memory.entrypoints.conversations.message_forms import (
    EXPECTED,
    PLACE,
    ClientMessage,
    check_fields,
    plain_message,
    said_in,
    tells_of_tools,
)
from mcp_memory.entrypoints.conversations.shown_parts import (
    compact,
    first_text,
    has_failed,
    output,
    shown,
    words_apart,
)
from mcp_memory.errors import InvalidRequest

_ROLE_NAMES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_MILLISECONDS_FROM: Final = 1e11
"""Larger numbers count milliseconds: as seconds this is 3,000 years ahead, as milliseconds in 1973."""
_UNSAID_PARTS: Final = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "item_reference", "compaction", "fallback"}
    | {"mcp_list_tools", "mcp_approval_request", "mcp_approval_response"}
)
"""Parts that were neither said nor done."""
_CALLS: Final = frozenset(
    {"function_call", "custom_tool_call", "tool_call", "mcp_call", "computer_call", "local_shell_call", "shell_call"}
    | {"apply_patch_call", "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"}
    | {"tool_search_call", "tool_use", "server_tool_use", "mcp_tool_use"}
)
"""Types of calls. Of any other, nobody knows the field that holds what was asked."""
_ID_END: Final = 16
_SKILL_BODY: Final = "Base directory for this skill: "

MessagePart: TypeAlias = Sequence[str] | NewRecord
"""Texts that follow each other, or a call of a tool or its result; without what a message's records have in common."""


def read_messages(messages: Sequence[ClientMessage]) -> list[NewRecord]:
    """Read the messages as records of kinds message, tool_call and tool_result, in their order.

    Texts of a message that follow each other are one record, without what is the client's own; a message of nothing
    else keeps its place (domain/memory/harness.py). Images and documents are marks in the text, with their bytes in
    `files`; those that are only referred to are named. A client's own id becomes `details["message_id"]`, "id/2" for
    the second record of a message. Empty texts are left out.

    Raises:
        InvalidRequest: one of them is in none of the known formats, or too long; names its place and what is expected.
    """
    reader = MessageReader()
    records: list[NewRecord] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        found = reader.read(message, where)
        for record in found:
            _check_lengths(record, where)
        records += found
    return records


class _MadeCall(NamedTuple):
    """A call that was made: its tool, its id, and whether it is one of this memory's own."""

    tool: str
    call_id: str | None
    is_own: bool


class MessageReader:
    """Reads the messages of one conversation in order: a result gets the name of the tool that was called."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._own_calls: set[str] = set()
        self._waiting: list[_MadeCall] = []
        self._is_answering = False

    def read(self, message: ClientMessage, where: str) -> list[NewRecord]:
        """Return the records of one message, however long, without control characters; `where` names it in errors.

        Raises:
            InvalidRequest: it is in none of the formats that are read.
        """
        message = plain_message(message, where)
        shares_parts = _shares_parts(message)
        message, files = taken_apart(message)
        plain, cleaned = details_without_controls(message)
        message = cast("ClientMessage", plain)
        usual = NewRecord(
            text="",
            kind="message",
            role=_role(message, where),
            speaker=_string_in(message.get("name")),
            occurred_at=_occurred_at(message, where),
            pinned=message.get("pinned") is True,
        )
        records = list[NewRecord]()
        for part in _parts_of(message, where):
            records.append(self._record(part, usual, records[-1:]))
        if _is_example(message):
            records = [_note_of(each) for each in records]
        if files:
            records = [replace(each, files=tuple(one for one in files if one.mark in each.text)) for each in records]
        # What was cleaned is counted once, though a message may be several records.
        records = [replace(each, cleaned=0 if place else cleaned) for place, each in enumerate(records)]
        return _named(records, _message_id(message), shares_parts=shares_parts)

    def _record(self, part: MessagePart, usual: NewRecord, before: Sequence[NewRecord]) -> NewRecord:
        if not isinstance(part, NewRecord):
            said = [replace(usual, text=text) for text in part]
            return _said([_note_of(each) if _is_skill(each, before) else without_harness(each) for each in said])
        made: _MadeCall | None = None
        if part.kind == "tool_call" and part.tool:
            made = _MadeCall(part.tool, part.call_id, is_own_tool(part.tool, part.text))
            if made.call_id:
                self._tools[made.call_id] = made.tool
                self._own_calls |= {made.call_id} if made.is_own else set()
        answered = self._answered(part) if part.kind == "tool_result" else None
        call_id = answered.call_id if answered else part.call_id
        tool = part.tool or self._tools.get(call_id or "")
        record = replace(part, tool=tool, call_id=call_id, occurred_at=usual.occurred_at, pinned=usual.pinned)
        if part.kind == "tool_result" and (call_id in self._own_calls or (answered and answered.is_own)):
            return replace(record, text=OWN_CALL, harness=1)
        if made:
            self._waiting = [] if self._is_answering else self._waiting
            self._waiting.append(made)
        self._is_answering = part.kind == "tool_result"
        return without_harness(record)

    def _answered(self, result: NewRecord) -> _MadeCall | None:
        """Take the call that a result without an id answers: the first of its tool among those made before it."""
        waiting = [] if result.call_id else [each for each in self._waiting if each.tool == result.tool]
        if waiting:
            self._waiting.remove(waiting[0])
        return waiting[0] if waiting else None


def _is_example(message: ClientMessage) -> bool:
    """Return True for a message that only shows the model how to work: few-shot examples, demonstrations."""
    return message.get("is_demo") is True or message.get("name") in ("example_user", "example_assistant")


def _is_skill(said: NewRecord, before: Sequence[NewRecord]) -> bool:
    """Return True for a skill's body: the text behind the result of its call that begins as the client begins it."""
    is_behind = bool(before) and before[0].kind == "tool_result" and (before[0].tool or "").lower() == "skill"
    return is_behind and said.role == "user" and said.text.startswith(_SKILL_BODY)


def _note_of(record: NewRecord) -> NewRecord:
    return replace(record, text=CLIENTS_NOTE, role="tool", harness=1)


def _said(texts: Sequence[NewRecord]) -> NewRecord:
    """Return texts of one message as one record: those that were said, else what others told, else a note."""
    said = [each for each in texts if each.role != "tool"] or [each for each in texts if each.text != CLIENTS_NOTE]
    text = "\n".join(each.text for each in said)
    return replace((said or texts)[0], text=text or CLIENTS_NOTE, harness=sum(each.harness for each in texts))


def instant(value: JsonValue) -> Instant | None:
    """Return the instant that an ISO 8601 text or a number of (milli)seconds names; None where it names none."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
            value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = value / 1000 if _MILLISECONDS_FROM <= value < 1000 * _MILLISECONDS_FROM else value
    return float(seconds) if 0 <= seconds < _MILLISECONDS_FROM else None


def _check_lengths(record: NewRecord, where: str) -> None:
    if len(record.text) > MAX_TEXT_CHARS:
        raise InvalidRequest(f"{where} is too long: at most {MAX_TEXT_CHARS} characters a text. Shorten it.")
    names = (record.tool, record.call_id, record.speaker, record.details.get("message_id"))
    if any(isinstance(name, str) and len(name) > MAX_NAME_CHARS for name in names):
        raise InvalidRequest(f"{where} has a name or an id of more than {MAX_NAME_CHARS} characters. Shorten it.")


def _role(message: ClientMessage, where: str) -> Role:
    role = message.get("role")
    if isinstance(role, str) and role.lower() in _ROLE_NAMES:
        return _ROLE_NAMES[role.lower()]
    if role is not None:
        raise InvalidRequest(f"{where} has an unknown role. {EXPECTED}")
    if not is_item(message):
        kind = _kind(message)
        unknown = "" if kind in ("", "message") else f", and {kind[:40]!r} is no known type of item"
        raise InvalidRequest(f"{where} has no role{unknown}. {EXPECTED}")
    return "assistant"


def _occurred_at(message: ClientMessage, where: str) -> Instant | None:
    given = _given(message, "timestamp", "created_at")
    found = instant(given)
    if given is not None and found is None:
        raise InvalidRequest(
            f"{where} has a time that is neither an ISO 8601 text nor a number of seconds. Correct or omit it."
        )
    return found


def _message_id(message: ClientMessage) -> str | None:
    given = _given(message, "uuid", "id")
    is_number = isinstance(given, int) and 0 <= given < 1 << 63
    return str(given) if is_number else _string_in(given)


def _shares_parts(message: ClientMessage) -> bool:
    """Return True where the client has a call and its result in one part."""
    parts = message.get("content")
    places = [part.get(PLACE) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return any(one == other for one, other in pairwise(places) if one)


def _named(records: Sequence[NewRecord], message_id: str | None, *, shares_parts: bool) -> list[NewRecord]:
    """Return the records with their ids: "m2", "m2/2", …; an answer in its call's part has the end of the call's id.

    Such a message is sent again when its calls have been allowed and answered, or without some: "m2/2" stays the
    second call, "m2/call_8f" its result.
    """
    if message_id is None:
        return list(records)
    named: list[NewRecord] = []
    calls: list[str | None] = [None]
    number = 0
    for record in records:
        if record.kind == "tool_result" and record.call_id and record.call_id in calls:
            name = f"{message_id}/{record.call_id[-_ID_END:]}"
        elif record.kind == "message" and record.role == "user" and (call_id := calls[-1]):
            name = f"{message_id}/leave/{call_id[-_ID_END:]}"
        else:
            number += 1
            name = message_id if number == 1 else f"{message_id}/{number}"
        if record.kind == "tool_call" and shares_parts:
            calls.append(record.call_id)
        named.append(replace(record, details={"message_id": name}))
    return named


def results_first(role: object, parts: Sequence[JsonValue]) -> list[JsonValue]:
    """Return the parts of a user's message with results before what is said beside them, as Anthropic's asks for it."""
    if role != "user":
        return list(parts)
    return sorted(parts, key=lambda part: not (isinstance(part, dict) and _kind(part) == "tool_result"))


def is_item(message: ClientMessage) -> bool:
    """Return True for items that need no role: calls, their results, and reasoning."""
    kind = _kind(message)
    return kind in _UNSAID_PARTS or kind in _CALLS or _is_result(message, kind)


def _is_result(part: ClientMessage, kind: str) -> bool:
    """Return True for the output of a known call; those of Anthropic's own tools all have a content."""
    of_call = kind.removesuffix("_output")
    is_plain = kind == "tool_result" or (kind.endswith("_tool_result") and "content" in part)
    return is_plain or (of_call != kind and of_call in _CALLS)


def _parts_of(message: ClientMessage, where: str) -> Iterator[MessagePart]:
    """Yield the texts, calls and results of a message, in order; `where` names it in errors.

    Empty texts are left out. Consecutive texts are one: a user's message is one turn, beside the replacements in it.

    Raises:
        InvalidRequest: a part is in none of the known formats.
    """
    for is_text, parts in groupby(_parts(message, where), _kind_of_part):
        if not is_text:
            yield from cast("Iterator[NewRecord]", parts)
        elif texts := [part for part in cast("Iterator[str]", parts) if part.strip()]:
            yield texts


def _kind_of_part(part: str | NewRecord) -> str | bool:
    """Return False for a call or a result; for a text True, or what sets it apart: it replaces entries of the log."""
    return isinstance(part, str) and (replaced_by(part) or True)


def _parts(message: ClientMessage, where: str) -> Iterator[str | NewRecord]:
    role = message.get("role")
    if not isinstance(role, str):
        yield from _part(message, where)
        return
    check_fields(message, where)
    content = said_in(message)
    if role.lower() in ("tool", "function"):
        yield _result(message, _answered_id(message), content)
        return
    if isinstance(content, str):
        yield content
    elif isinstance(content, (list, dict)):
        for index, part in enumerate(results_first(role, content) if isinstance(content, list) else [content]):
            yield from _part(part, f"{where}.content[{index}]")
    elif content is not None:
        raise InvalidRequest(f"{where} has a content that is neither a text nor a list of parts. {EXPECTED}")
    yield _string_in(message.get("refusal")) or ""
    yield from _calls_beside(message, where)


def _calls_beside(message: ClientMessage, where: str) -> Iterator[NewRecord]:
    """Yield the calls that OpenAI's chat names beside the text of a message."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise InvalidRequest(f"{where}.tool_calls must be a list of {{id, function: {{name, arguments}}}}. Correct it.")
    if isinstance(message.get("function_call"), dict):
        calls = [*calls, {"function": message["function_call"]}]
    for index, call in enumerate(calls):
        function = call.get("function", call.get("custom", call)) if isinstance(call, dict) else None
        name = _string_in(function.get("name")) if isinstance(function, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict) or name is None:
            raise InvalidRequest(
                f"{where}.tool_calls[{index}] must be {{id, function: {{name, arguments}}}}. Correct it."
            )
        yield _call(name, call, function)


def _part(part: JsonValue | ClientMessage, where: str) -> Iterator[str | NewRecord]:
    if isinstance(part, str):
        yield part
        return
    if not isinstance(part, Mapping):
        raise InvalidRequest(f"{where} must be a text or an object with a type. {EXPECTED}")
    kind = _kind(part)
    if words := words_apart(part):
        yield NewRecord(text=words.text, kind="message", role=words.role)
        return
    if kind in _UNSAID_PARTS:
        return
    if _is_result(part, kind):
        output = part.get("output") if kind.endswith("_call_output") else part.get("content")
        yield _result(part, _answered_id(part), output)
    elif kind in _CALLS:
        yield _call(_tool(part) or kind.removesuffix("_call"), part, part)
        # A call that OpenAI makes by itself holds its answer too.
        if (answer := _given(part, "error", "output", "outputs", "results")) is not None:
            yield _result(part, _call_id(part), answer)
    elif not (kind or any(isinstance(part.get(name), str) for name in ("text", "refusal"))):
        raise InvalidRequest(f"{where} has no type and no text. {EXPECTED}")
    elif tells_of_tools(kind):
        raise InvalidRequest(f"{where} is of the unknown type {kind[:40]!r}. {EXPECTED}")
    else:
        yield shown(part)


def _call(tool: str, call: ClientMessage, function: ClientMessage) -> NewRecord:
    return NewRecord(text=_arguments(function), kind="tool_call", role="assistant", tool=tool, call_id=_call_id(call))


def _result(part: ClientMessage, call_id: str | None, content: JsonValue) -> NewRecord:
    """The record of a tool's output, which may be empty. Not every format names the tool."""
    text = output(content)
    return NewRecord(
        text=text if text.strip() else NO_OUTPUT,
        kind="tool_result",
        role="tool",
        tool=_tool(part),
        call_id=call_id,
        outcome="failure" if has_failed(part) else None,
    )


def _arguments(call: ClientMessage) -> str:
    given = _given(call, "input", "arguments", "args", "action", "code", "queries", "operation")
    text = given if isinstance(given, str) else compact({} if given is None else given)
    return text if text.strip() else "{}"


def _tool(part: ClientMessage) -> str | None:
    return first_text(part, "name", "tool_name") or None


def _call_id(call: ClientMessage) -> str | None:
    """Return the id of a call. OpenAI's items have one of their own beside it."""
    return first_text(call, "call_id", "id") or None


def _answered_id(result: ClientMessage) -> str | None:
    """Return the id of the call that a result answers; the output of a local shell has it as its own."""
    if _kind(result) == "local_shell_call_output":
        return first_text(result, "call_id", "id") or None
    return first_text(result, "tool_use_id", "tool_call_id", "call_id", "toolUseId") or None


def _kind(part: ClientMessage) -> str:
    return _string_in(part.get("type")) or ""


def _given(message: ClientMessage, *names: str) -> JsonValue:
    """Return the first of these fields that is not null."""
    return next((message[name] for name in names if message.get(name) is not None), None)


def _string_in(value: JsonValue) -> str | None:
    """Return the value where it is a non-blank text."""
    return value if isinstance(value, str) and value.strip() else None
