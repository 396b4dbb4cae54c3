"""Writes a session's log as messages of the Anthropic Messages API or of OpenAI's chat completions.

For clients that do not keep their own messages; others keep more by applying.py. Knows no store.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias, cast

from mcp_memory.domain.model.message_files import OpenedFiles
from mcp_memory.domain.model.session_log import STANDS_FOR_MANY, Entry, SessionLog
from mcp_memory.entrypoints.conversations.media import Interface, parts

Message: TypeAlias = dict[str, Any]

_OPENING: Final = "(The conversation begins here.)"
# e.g. "toolu_01A", "call_8f-2": the ids that both interfaces take
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class _Row(NamedTuple):
    """Words, a call, or its result; the latter with their entry and the id of the call."""

    role: str
    text: str
    files: OpenedFiles = ()
    entry: Entry | None = None
    call_id: str = ""


def rendered(log: SessionLog, interface: Interface, files: Mapping[str, OpenedFiles]) -> dict[str, Any]:
    """Return `messages`, and for Anthropic `system`, "" where nothing is. `files` are those of entries, by their ids.

    Results follow their calls at once. A call without a result, unless it is the last entry, and a result without a
    call are told in words.
    """
    rows = list(_rows(log, files))
    if interface == "openai":
        return {"messages": list(_for_openai(rows))}
    system = "\n\n".join(row.text for row in rows if row.role == "system")
    return {"system": system, "messages": list(_for_anthropic([row for row in rows if row.role != "system"]))}


def _rows(log: SessionLog, files: Mapping[str, OpenedFiles]) -> Iterator[_Row]:
    """Yield what is said and done in an order that both interfaces take: calls made together, then their results."""
    ids = _call_ids(log)
    results = {place for exchange in log.exchanges for place in exchange[1:]}
    calls: list[int] = []
    for place, entry in enumerate(log.entries):
        if place in ids:
            calls.append(place)
            continue
        yield from _exchanges(log, calls, ids, files)
        calls.clear()
        if place not in results:
            yield _Row(_role(entry), _words(entry), files.get(entry.id, ()))
    yield from _exchanges(log, calls, ids, files)


def _exchanges(
    log: SessionLog, calls: Sequence[int], ids: Mapping[int, str], files: Mapping[str, OpenedFiles]
) -> Iterator[_Row]:
    for place in calls:
        yield _Row("assistant", log.entries[place].text, (), log.entries[place], ids[place])
    for place in calls:
        if answers := log.at(log.exchange_of.get(place, ())[1:]):
            held = [one for each in answers for one in files.get(each.id, ())]
            yield _Row("tool", "\n".join(each.text for each in answers), held, answers[0], ids[place])


def _call_ids(log: SessionLog) -> Mapping[int, str]:
    """Return an id for each call that is shown as one: the client's, where it names nothing else."""
    last = len(log.entries) - 1
    ids: dict[int, str] = {}
    for place, entry in enumerate(log.entries):
        if entry.kind == "tool_call" and (place in log.exchange_of or place == last):
            given = entry.call_id or ""
            is_own = _CALL_ID.fullmatch(given) is not None and given not in ids.values()
            ids[place] = given if is_own else entry.id
    return ids


def _role(entry: Entry) -> str:
    """Blocks are data, which the user's role brings, as docs/compaction.md says."""
    return "user" if entry.form in STANDS_FOR_MANY or entry.role == "tool" else entry.role


def _words(entry: Entry) -> str:
    if entry.kind == "message":
        return entry.text
    return f"[{'Called' if entry.kind == 'tool_call' else 'Result of'} {entry.tool or 'a tool'}] {entry.text}"


def _for_anthropic(rows: Sequence[_Row]) -> Iterator[Message]:
    if rows and rows[0].role == "assistant":
        yield {"role": "user", "content": _OPENING}
    for role, some in groupby(rows, lambda row: "user" if row.role == "tool" else row.role):
        content = [part for row in some for part in _content(row)]
        yield {"role": role, "content": content[0]["text"] if len(content) == 1 and "text" in content[0] else content}


def _content(row: _Row) -> Sequence[dict[str, Any]]:
    if row.entry is not None:
        return [_part(row, row.entry)]
    if row.files and row.role == "user":
        return parts(row.text, row.files, "anthropic")
    return [{"type": "text", "text": row.text}]


def _part(row: _Row, entry: Entry) -> dict[str, Any]:
    if row.role == "assistant":
        return {"type": "tool_use", "id": row.call_id, "name": entry.tool or "tool", "input": _input(row.text)}
    failed = {"is_error": True} if entry.failed else {}
    content = parts(row.text, row.files, "anthropic") if row.files else row.text
    return {"type": "tool_result", "tool_use_id": row.call_id, "content": content, **failed}


def _for_openai(rows: Sequence[_Row]) -> Iterator[Message]:
    for is_call, some in groupby(rows, lambda row: row.role == "assistant" and row.entry is not None):
        if is_call:
            yield {"role": "assistant", "content": None, "tool_calls": [_call(row) for row in some]}
            continue
        for row in some:
            answers = {} if row.entry is None else {"tool_call_id": row.call_id}
            has_parts = row.files and row.role == "user"
            yield {
                "role": row.role,
                **answers,
                "content": parts(row.text, row.files, "openai") if has_parts else row.text,
            }


def _call(row: _Row) -> dict[str, Any]:
    arguments = json.dumps(_input(row.text), ensure_ascii=False, separators=(",", ":"))
    name = row.entry.tool if row.entry else None
    return {"id": row.call_id, "type": "function", "function": {"name": name or "tool", "arguments": arguments}}


def _input(text: str) -> dict[str, Any]:
    """Return a call's arguments as an object."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = text
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {"arguments": given}
