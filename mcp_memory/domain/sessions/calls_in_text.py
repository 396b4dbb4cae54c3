"""Finds calls of tools that an agent writes in its text, and their results, which come in the user's role.

By the form of the messages alone: the agent's end in a block of code, a closing tag or an "Action:", and what comes
back has the form of a machine: "Observation:", a tag of results, or the shell's prompt in its last line.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mcp_memory.domain.model.session_log import Entry, SessionLog

LEAST_CALLS, CALLS_SHARE, FRAMED_SHARE = 3, 0.7, 0.7
"""Least calls of a session of this form; the least share of the agent's answered messages that end in a call; and the
least share of what comes back that has the frame."""
TOOL = "shell"
"""The name of the tool that runs a block of code."""

# "<bash><command>ls</command></bash>"
_CLOSING = re.compile(r"</([\w-]{1,60})>\Z")
# "Action: search[ports]", "Action: search\nAction Input: ports"
_ACTION = re.compile(r"^Action: ?([^\n]+(?:\nAction Input: ?[^\n]+)?)\Z", re.MULTILINE)
# "Observation: …", "<returncode>0</returncode>", "[ls for 'src'] Result:"
_OPENING = re.compile(
    r"(?:\[[^\n]{1,200}\] )?(?:(?:tool )?(?:observation|output|result)s?|stdout|stderr|return ?code|exit code)\s?:"
    r"|<[\w-]{0,30}(?:observation|output|result|response|stdout|stderr|return_?code|exit_?code)s?>",
    re.IGNORECASE,
)
# "bash-$", "dev@host:~/app$", "(venv) [dev@host app]$", ">>>"; not "</p>", nor "minus 5 %"
_PROMPT = re.compile(r"(?:\([\w.-]{1,60}\) )?(?:\[[^\]\n]{1,80}\]|[^\s<]{0,80}?)[$#>%]{1,3}")
# "(Open file: n/a)", ""
_STATUS = re.compile(r"(?:\([^()\n]{1,200}: [^\n]{0,200}\))?")
_DIGITS = re.compile(r"\d+")
# "edit 12:14\n    return total\nend_of_edit"
_EDIT = re.compile(r"edit (?P<lines>\d+:\d+)\n(?P<text>.*)", re.DOTALL)
# "[File: /srv/app/totals.py (214 lines total)]"
_SHOWN_FILE = re.compile(r"^\[File: (?P<path>[^\n]{1,300}?) \(\d+ lines total\)\]", re.MULTILINE)


class _Call(NamedTuple):
    """A call at the end of an agent's message: the place of the message, and of the call in its text."""

    place: int
    start: int
    tool: str
    text: str


def told_apart(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries with calls in text, and results in the user's role, as calls and results.

    A call has the id of the message that it stands in. Results are without the prompt that a shell writes under them.
    """
    found = {call.place: call for call in _calls(entries)}
    parts = _without_prompts([part for place, entry in enumerate(entries) for part in _parts(entry, place, found)])
    return parts if not found else tuple(_as_edit(part, parts[n + 1 : n + 2]) for n, part in enumerate(parts))


def _as_edit(entry: Entry, behind: Sequence[Entry]) -> Entry:
    """Return a call that puts lines into the open file with that file's path, which the result names."""
    body = _EDIT.match(entry.text) if entry.kind == "tool_call" else None
    shown = _SHOWN_FILE.search(behind[0].text) if body and behind and behind[0].kind == "tool_result" else None
    if not body or not shown:
        return entry
    is_new = body["lines"] == "1:1"  # The one line of an empty file.
    arguments = {"path": shown["path"], "content" if is_new else "new_string": _edited(body["text"])}
    return replace(entry, tool="write" if is_new else "edit", text=json.dumps(arguments, ensure_ascii=False))


def _edited(text: str) -> str:
    return text.rstrip().removesuffix("end_of_edit").removesuffix("\n")


def _without_prompts(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries; where most results end in one prompt, without it and the lines in brackets above it."""
    results = [entry.text for entry in entries if entry.kind == "tool_result" and entry.form == "original"]
    ends = Counter(text.rstrip().rpartition("\n")[2].strip() for text in results)
    prompt, times = ends.most_common(1)[0] if ends else ("", 0)
    if times < max(LEAST_CALLS, FRAMED_SHARE * len(results)) or not _PROMPT.fullmatch(prompt):
        return tuple(entries)
    return tuple(
        replace(entry, text=_above(entry.text, prompt)) if entry.kind == "tool_result" else entry for entry in entries
    )


def _above(text: str, prompt: str) -> str:
    lines = text.rstrip().split("\n")
    if lines[-1].strip() != prompt:
        return text
    lines.pop()
    while lines and _STATUS.fullmatch(lines[-1].strip()):
        lines.pop()
    return "\n".join(lines)


def with_outputs(log: SessionLog) -> SessionLog:
    """Return the log with results of calls in text in the tool's role: they begin no turn, and nobody quotes them."""
    outputs = outputs_in(log.entries)
    own = (replace(entry, role="tool") if entry.id in outputs else entry for entry in log.entries)
    return SessionLog(tuple(own)) if outputs else log


def outputs_in(entries: Sequence[Entry]) -> frozenset[str]:
    """Return the ids of messages in the user's role that are results of calls in text."""
    return frozenset(entries[call.place + 1].id for call in _calls(entries) if call.place + 1 < len(entries))


def _parts(entry: Entry, place: int, found: Mapping[int, _Call]) -> Iterator[Entry]:
    if call := found.get(place):
        if speech := entry.text[: call.start].strip():
            yield replace(entry, text=speech)
        yield replace(entry, kind="tool_call", tool=call.tool, text=call.text)
    elif before := found.get(place - 1):
        yield replace(entry, kind="tool_result", role="tool", tool=before.tool)
    else:
        yield entry


def _calls(entries: Sequence[Entry]) -> list[_Call]:
    """Return the calls in text; none where the session has calls of its own, or not the form of such calls."""
    if any(entry.kind == "tool_call" for entry in entries):
        return []
    spoken = [n for n, entry in enumerate(entries) if entry.role == "assistant" and entry.form == "original"]
    calls = [call for place in spoken if (call := _call(place, entries[place].text))]
    if len(calls) < max(LEAST_CALLS, CALLS_SHARE * len(spoken)):
        return []
    back = {
        call.place: _frames(entries[call.place + 1])
        for call in calls
        if call.place + 1 < len(entries) and _may_answer(entries[call.place + 1])
    }
    times = Counter(frame for frames in back.values() for frame in frames)
    common = {frame for frame, count in times.items() if count >= max(LEAST_CALLS, FRAMED_SHARE * len(back))}
    is_last = len(entries) - 1 if common else -1
    return [call for call in calls if common & back.get(call.place, frozenset()) or call.place == is_last]


def _may_answer(entry: Entry) -> bool:
    return entry.kind == "message" and entry.role in ("user", "tool") and entry.form in ("original", "external")


def _call(place: int, text: str) -> _Call | None:
    """Return the call that a message ends in: a block of code, a tag with its end, or an "Action:"."""
    text = text.rstrip()
    start = text.rfind("```", 0, -3) if text.endswith("\n```") else -1
    if start >= 0:
        return _Call(place, start, TOOL, text[start:-3].partition("\n")[2].strip())
    if closing := _CLOSING.search(text):
        tag = closing[1]
        start = text.find(f"<{tag}")
        return _Call(place, start, tag, text[start : closing.start()].partition(">")[2].strip()) if start >= 0 else None
    action = _ACTION.search(text)
    return _Call(place, action.start(), TOOL, action[1]) if action else None


def _frames(entry: Entry) -> frozenset[str]:
    """Return the marks of a machine in a text: the label or tag that opens it, and a prompt as its last line.

    Numbers do not count.
    """
    text = entry.text.strip()
    opening, last = _OPENING.match(text), text.rpartition("\n")[2].strip()
    prompt = [f"{_DIGITS.sub('0', last)} at the end"] if _PROMPT.fullmatch(last) else []
    return frozenset([*prompt, *([_DIGITS.sub("0", opening.group())] if opening else [])])
