"""Clients' formats of a session's file, one row each: what an entry of it says, as messages. Knows no file.

None of the formats is documented by its client as one to rely on: what a reader does not know is left out, and named.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from mcp_memory.entrypoints.conversations.messages import instant, is_item

FileEntry: TypeAlias = Mapping[str, JsonValue]
_KIND_NAME = re.compile(r"[\w-]{1,40}", re.ASCII)
_ENVELOPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_CODEX_NOTES: Final[Mapping[str, str]] = {"compacted": "client's summary"}
# e.g. "Chunk ID: 3fa2\nWall time: 0.5 seconds\nProcess exited with code 1\nOutput:\n", "Exit code: 0\nWall time: …"
_OUTPUT_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Original token count|Total output lines): [^\n]{1,80}\n"
    r"|(?:Process exited with code|Exit code:) (?P<code>-?\d{1,10})\n"
    r"|Process running with session ID \d{1,20}\n){1,6}Output:\n?"
)
_GEMINI: Final = ("content", "toolCalls")
_GEMINI_KINDS: Final = ("user", "gemini")
_NOT_DONE: Final = frozenset({"error", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of an entry, in a form that `messages` reads; its `uuid` is met once.

    `is_users` is False for what others say in the user's role. `answer` is the id of the model's answer of which this
    is a part or a state, "" where there is none.
    """

    message: FileEntry
    is_users: bool = True
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A client's format: whether an entry is in it, and what the entry says, or the kind of entry that says nothing."""

    client: str
    holds: Callable[[FileEntry], bool]
    read: Callable[[FileEntry], list[Said] | str]


def read_entry(entry: FileEntry) -> list[Said] | str:
    """Return what an entry says, by the first format that it is in; the kind of entry where it says nothing."""
    return next(row.read(entry) for row in FORMATS if row.holds(entry))


def entries_of(value: object) -> list[FileEntry]:
    """Return the entries of a line or a whole file: itself, a list, or the messages of a session."""
    if isinstance(value, list):
        return [cast("FileEntry", each) for each in cast("list[object]", value) if isinstance(each, dict)]
    if not isinstance(value, dict):
        return []
    whole = cast("FileEntry", value)
    for holder in (whole, whole.get("$set")):
        for name in ("messages", "history"):
            if isinstance(holder, dict) and isinstance(inside := holder.get(name), list):
                return entries_of(inside) or [whole]
    return [whole]


def _claude_code(entry: FileEntry) -> list[Said] | str:
    for field, kind in (
        ("isSidechain", "subagent"),
        ("isCompactSummary", "client's summary"),
        ("isMeta", "client's note"),
        ("isVisibleInTranscriptOnly", "client's note"),
        ("isApiErrorMessage", "client's note"),
    ):
        if entry.get(field) is True:
            return kind
    kind, found = entry.get("type"), entry.get("message")
    if isinstance(found, dict) and found.get("model") == "<synthetic>":
        return "client's note"
    attachment = entry.get("attachment")
    if kind == "attachment":
        found = _said_meanwhile(attachment)
    elif kind not in ("user", "assistant"):
        return kind_name(kind)
    if not isinstance(found, dict):
        return kind_name(kind)
    said = {name: value for name, value in found.items() if name not in ("id", "name", "timestamp", "created_at")}
    said["role"] = found.get("role", kind)
    origin = attachment.get("origin") if isinstance(attachment, dict) else entry.get("origin")
    others = isinstance(origin, dict) and origin.get("kind") not in (None, "", "human")
    answer = found.get("id") if kind == "assistant" else None
    return [Said(message=said | _when(entry), is_users=not others, answer=answer if isinstance(answer, str) else "")]


def _said_meanwhile(attachment: JsonValue) -> dict[str, JsonValue] | None:
    """Return what the user said while the agent worked, which stands in no entry of its own."""
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return None
    if attachment.get("commandMode") not in (None, "prompt"):
        return None
    return {"role": "user", "content": attachment.get("prompt")}


def _codex(entry: FileEntry) -> list[Said] | str:
    """Read an envelope of a rollout. Its events repeat what its items say."""
    kind, item = entry.get("type"), entry.get("payload")
    if kind != "response_item" or not isinstance(item, dict):
        return _CODEX_NOTES.get(str(kind)) or kind_name(kind)
    sort = item.get("type")
    if item.get("role") == "developer":
        return "client's note"
    if sort != "message" and not is_item(item):
        return kind_name(sort)
    said = {**item, **_when(entry), "uuid": item.get("id")}
    if isinstance(space := item.get("namespace"), str) and isinstance(name := item.get("name"), str):
        said["name"] = space + name
    if isinstance(output := item.get("output"), str):
        said |= _codex_output(output)
    return [Said(message=said)]


def _codex_output(output: str) -> dict[str, JsonValue]:
    """Return a tool's output without what the client wrote around it, and whether it failed."""
    code: object = None
    try:
        inside: object = json.loads(output) if output.startswith('{"output"') else None
    except (ValueError, RecursionError):
        inside = None
    if isinstance(inside, dict):
        wrapped = cast("dict[str, JsonValue]", inside)
        about = wrapped.get("metadata")
        code = about.get("exit_code") if isinstance(about, dict) else None
        output = text if isinstance(text := wrapped.get("output"), str) else output
    elif head := _OUTPUT_HEAD.match(output):
        code, output = int(head["code"] or 0), output[head.end() :]
    return {"output": output, "status": "completed" if code in (None, 0) else "failed"}


def _gemini(entry: FileEntry) -> list[Said] | str:
    """Read a message of a session, which is written again whenever one of its calls has changed."""
    if entry.get("type") not in _GEMINI_KINDS:
        return kind_name(entry.get("type"))
    name, when = str(entry.get("id")), _when(entry)
    role = "user" if entry.get("type") == "user" else "assistant"
    said = [Said(message={"role": role, "content": entry.get("content"), **when, "uuid": name})]
    if _is_blank(entry.get("content")):
        said = []
    calls = entry.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            said += _gemini_call(call, when)
    return said or "no text"


def _is_blank(content: JsonValue) -> bool:
    return not content or (isinstance(content, str) and not content.strip())


def _gemini_call(call: FileEntry, when: FileEntry) -> list[Said]:
    name = call.get("id")
    made: FileEntry = {"type": "tool_use", "id": name, "name": call.get("name"), "input": call.get("args")}
    said = [Said(message={"role": "assistant", "content": [dict(made)], **when, "uuid": name})]
    if (result := call.get("result")) is not None:
        output: FileEntry = {"type": "tool_result", "tool_use_id": name, "content": _answers(result)}
        failed = str(call.get("status")) in _NOT_DONE
        answer: FileEntry = {"role": "user", "content": [{**output, "is_error": failed}], **when}
        said.append(Said(message={**answer, "uuid": f"{name}/result"}))
    return said


def _answers(result: JsonValue) -> JsonValue:
    """Return the outputs inside the parts of a function's response."""
    return [_answer(part) for part in (result if isinstance(result, list) else [result])]


def _answer(part: JsonValue) -> JsonValue:
    response = part.get("functionResponse") if isinstance(part, dict) else None
    given = response.get("response") if isinstance(response, dict) else None
    if not isinstance(given, dict):
        return part
    return next((given[name] for name in ("output", "error") if name in given), json.dumps(given, ensure_ascii=False))


def _cursor(entry: FileEntry) -> list[Said] | str:
    message = cast("FileEntry", entry["message"])
    return [Said(message={**message, "role": entry["role"], **_when(entry)})]


def _plain(entry: FileEntry) -> list[Said] | str:
    return [Said(message=entry)]


def _when(entry: FileEntry) -> dict[str, JsonValue]:
    return {"uuid": entry.get("uuid"), "timestamp": instant(entry.get("timestamp"))}


def kind_name(kind: JsonValue) -> str:
    """Return the name of a kind of entry, as the client gives it; "unknown" where that is no short name."""
    return kind if isinstance(kind, str) and _KIND_NAME.fullmatch(kind) else "unknown"


def _has_role(entry: FileEntry) -> bool:
    return isinstance(entry.get("role"), str)


FORMATS: Final[tuple[Format, ...]] = (
    Format(client="Codex CLI", holds=lambda e: "payload" in e and str(e.get("type")) in _ENVELOPES, read=_codex),
    Format(client="Cursor", holds=lambda e: _has_role(e) and isinstance(e.get("message"), dict), read=_cursor),
    Format(client="messages", holds=lambda e: _has_role(e) or is_item(e), read=_plain),
    Format(client="Gemini CLI", holds=lambda e: "message" not in e and not e.keys().isdisjoint(_GEMINI), read=_gemini),
    Format(client="Claude Code", holds=lambda _: True, read=_claude_code),
)
"""In order: the first that an entry is in reads it; what none knows is Claude Code's, and named as what it is there."""
