"""A client's conversation as records of the session log. Knows no file; parts are read elsewhere.

Known are messages of the Anthropic and the OpenAI interfaces, items of OpenAI's Responses, and plain {role, text}.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, cast

from pydantic import JsonValue

from mcp_memory.domain.model.records import MAX_NAME_CHARS, MAX_TEXT_CHARS, Instant, NewRecord
from mcp_memory.domain.model.session_log import Role
from mcp_memory.domain.text.control_characters import details_without_controls
from mcp_memory.entrypoints.conversations.message_parts import (
    EXPECTED,
    Call,
    Message,
    Part,
    is_item,
    parts_of,
    string_in,
)
from mcp_memory.errors import InvalidRequest

NO_OUTPUT: Final = "(no output)"
"""Stands for the empty output of a tool: its call was answered all the same."""

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_MILLISECONDS_FROM: Final = 1e11
"""A larger number counts milliseconds: as seconds it lies 3,000 years ahead, as milliseconds in 1973."""


def read_messages(messages: Sequence[Message]) -> list[NewRecord]:
    """The messages as records of kinds message, tool_call and tool_result, in their order.

    Texts of a message that follow each other are one record; images and documents are named, not kept. A client's
    own id becomes `details["message_id"]`, "id/2" for the second record of a message. Empty texts are left out.

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


class MessageReader:
    """Reads the messages of one conversation in their order: a result is told by the name of the tool once called."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}

    def read(self, message: Message, where: str) -> list[NewRecord]:
        """The records of one message, however long, without control characters; `where` names it in errors.

        Raises:
            InvalidRequest: it is in none of the known formats.
        """
        plain, cleaned = details_without_controls(message)
        message = cast("Message", plain)
        record = NewRecord(
            text="",
            kind="message",
            role=_role(message, where),
            speaker=string_in(message.get("name")),
            occurred_at=_occurred_at(message, where),
            pinned=message.get("pinned") is True,
        )
        records = [self._record(said, record) for said in parts_of(message, where)]
        # What was cleaned is counted once, though a message may be several records.
        records = [replace(each, cleaned=0 if place else cleaned) for place, each in enumerate(records)]
        return _named(records, _message_id(message))

    def _record(self, said: Part, record: NewRecord) -> NewRecord:
        if isinstance(said, str):
            return replace(record, text=said)
        record = replace(record, call_id=said.call_id, speaker=None)
        if isinstance(said, Call):
            if said.call_id:
                self._tools[said.call_id] = said.tool
            return replace(record, kind="tool_call", role="assistant", text=said.text, tool=said.tool)
        tool = said.tool or self._tools.get(said.call_id or "")
        text = said.text if said.text.strip() else NO_OUTPUT
        outcome = "failure" if said.failed else None
        return replace(record, kind="tool_result", role="tool", text=text, tool=tool, outcome=outcome)


def instant(value: JsonValue) -> Instant | None:
    """The instant that an ISO 8601 text or a number of seconds or milliseconds names; None where it names none."""
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
        raise InvalidRequest(
            f"{where} is too long: at most {MAX_TEXT_CHARS} characters a text. Shorten it, call again."
        )
    names = (record.tool, record.call_id, record.speaker, record.details.get("message_id"))
    if any(isinstance(name, str) and len(name) > MAX_NAME_CHARS for name in names):
        raise InvalidRequest(
            f"{where} has a name or an id of more than {MAX_NAME_CHARS} characters. Shorten it, call again."
        )


def _role(message: Message, where: str) -> Role:
    role = message.get("role")
    if isinstance(role, str) and role.lower() in _ROLES:
        return _ROLES[role.lower()]
    if role is not None:
        raise InvalidRequest(f"{where} has an unknown role. {EXPECTED}")
    if not is_item(message):
        raise InvalidRequest(f"{where} has no role. {EXPECTED}")
    return "assistant"


def _occurred_at(message: Message, where: str) -> Instant | None:
    given = next((message[name] for name in ("timestamp", "created_at") if message.get(name) is not None), None)
    found = instant(given)
    if given is not None and found is None:
        raise InvalidRequest(
            f"{where} has a time that is no ISO 8601 text and no number of seconds. Correct or omit it."
        )
    return found


def _message_id(message: Message) -> str | None:
    given = next((message[name] for name in ("uuid", "id") if message.get(name) is not None), None)
    is_number = isinstance(given, int) and 0 <= given < 1 << 63
    return str(given) if is_number else string_in(given)


def _named(records: list[NewRecord], message_id: str | None) -> list[NewRecord]:
    if message_id is None:
        return records
    names = [message_id, *(f"{message_id}/{number}" for number in range(2, len(records) + 1))]
    return [replace(record, details={"message_id": name}) for record, name in zip(records, names, strict=False)]
