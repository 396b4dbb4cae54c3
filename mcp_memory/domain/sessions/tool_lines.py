"""Describes a tool call in a line: its action, its subject, its inputs, and its purpose.

Tools are recognised by the words in their names alone, arguments by the names of their fields; all others are shown
unchanged.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.session_log import Entry, SessionLog
from mcp_memory.domain.text.lexicon import spaced, unspaced
from mcp_memory.domain.text.prompt_safety import neutralise
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.words import split_words

Act: TypeAlias = Literal["edited", "wrote", "ran", "searched", "fetched", "listed", "read", "called"]

SUBJECT_CHARACTERS, INPUT_CHARACTERS, WHY_CHARACTERS, TOOL_CHARACTERS = 120, 40, 120, 60  # most shown of each
MAX_INPUTS = 3
"""Most inputs shown, besides the subject."""
_LOOKED_AT = 1_000
"""Characters read from the end of an assistant's words, where a call is announced."""

SHELLS = frozenset("bash shell run exec execute command cmd terminal powershell console sh python repl".split())
"""Words in the names of tools that run commands."""
_ACTS: Mapping[Act, frozenset[str]] = {
    "edited": frozenset("edit edited patch replace insert modify multiedit update append rewrite".split()),
    "wrote": frozenset("write save create".split()),
    "ran": SHELLS,
    "searched": frozenset("search grep glob find query rg".split()),
    "fetched": frozenset("fetch browse download curl http navigate".split()),
    "listed": frozenset("list ls dir tree".split()),
    "read": frozenset("read open view cat show".split()),
}
_PATHS = (
    *("file_path", "path", "file", "filename", "filepath", "notebook_path", "target_file", "directory", "dir"),
    *("absolute_path", "absolutePath"),
)
_COMMANDS = ("command", "cmd", "script", "code")
_QUERIES = ("pattern", "query", "regex", "search", "q", "sql")
_ADDRESSES = ("url", "uri", "href")
_TELLING: Mapping[Act, tuple[str, ...]] = {
    "ran": (*_COMMANDS, *_QUERIES, *_PATHS, *_ADDRESSES),
    "searched": (*_QUERIES, *_PATHS, *_ADDRESSES, *_COMMANDS),
    "fetched": (*_ADDRESSES, *_QUERIES, *_PATHS, *_COMMANDS),
}
_TO_FILES: frozenset[Act] = frozenset({"edited", "wrote", "listed", "read"})
_REPEATED: frozenset[Act] = frozenset({"edited", "wrote", "ran", "read"})
"""Acts for which two calls with the same file or command are one attempt; for the others all inputs must be equal."""
_ANY_TELLING = (*_PATHS, *_COMMANDS, *_QUERIES, *_ADDRESSES)
_PURPOSES = ("description", "purpose", "reason", "explanation", "justification")
OLD, NEW = ("old_string", "old_str", "old_text", "old"), ("new_string", "new_str", "new_text", "new")
_CONTENTS = (*NEW, "content", "contents", "file_text", "insert_text", "new_source", "patch", "diff")
# e.g. "bash -lc ", "/bin/sh -c "
_SHELL = re.compile(r"\A(?:/\S{0,40}/)?(?:ba|z)?sh -l?c ")
# e.g. "*** Update File: src/app.py", "+++ b/src/app.py"
_PATCHED = re.compile(
    r"^(?:\*\*\* (?P<how>Update|Add|Delete) File: |\+\+\+ (?:b/)?)(?P<path>\S{1,300})[^\n]*", re.MULTILINE
)
# e.g. "Let me check the log", "Jetzt die Tests"
_ANNOUNCES = re.compile(
    rf"\b(?:{spaced('announcements')}|let's|going to|i need to|i want to|now|next|first|to (?:see|check|find|make"
    r"|verify|confirm|understand|look|test|reproduce)|ich werde|jetzt|zuerst|als nächstes|je vais|maintenant|voy a"
    rf"|ahora)\b|{unspaced('announcements')}|现在|首先|接下来|次に",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLine:
    """A call in words.

    `done` begins with a verb: "Ran `pytest -q`". `subject` is the file, command or query in whole. `inputs` are the
    other inputs, as "name=value". `purpose` is the call's own statement of its purpose. `key` is equal for two attempts
    at one thing. `written` is the text put into a file.
    """

    act: Act
    tool: str
    done: str
    subject: str
    inputs: tuple[str, ...]
    purpose: str
    key: str
    written: str


class Patch(NamedTuple):
    """A file of a patch: "Update", "Add" or "Delete", and the lines that are put in, without their signs."""

    path: str
    how: str
    added: str


def call_line(call: Entry) -> CallLine:
    """Describe a call, as far as its tool's name and its arguments show."""
    given = call_fields(call.text)
    fields = given or {}
    act = _act(call.tool or "", fields)
    if act == "ran" and _patched(call.text, fields):  # A shell that is given "apply_patch <<EOF …".
        act = "edited"
    telling = next((name for name in _TELLING.get(act, _ANY_TELLING) if _plain(fields.get(name))), "")
    patched = _patched(call.text, fields) if act == "edited" and telling not in _PATHS else ""
    subject = patched or _SHELL.sub("", _plain(fields.get(telling)) if given is not None else call.text.strip())
    if not subject or (fields and act in _TO_FILES and telling not in _PATHS and not patched):
        act = "called"
    tool = one_line(call.tool or "", TOOL_CHARACTERS) or "a tool"
    inputs = [_size(fields), *_inputs(fields, {telling, *_PURPOSES, *OLD, *_CONTENTS})]
    return CallLine(
        act=act,
        tool=tool,
        done=_done(act, subject, tool, is_told=given is None),
        subject=subject,
        inputs=tuple(each for each in inputs if each)[:MAX_INPUTS],
        purpose=one_line(_first_of(fields, _PURPOSES), WHY_CHARACTERS),
        key=f"{call.tool} {subject if act in _REPEATED else call.text}",
        written=_first_of(fields, _CONTENTS) if act in ("edited", "wrote") else "",
    )


def arguments_line(call: Entry, most: int) -> str:
    """Return a call's arguments in one line of at most `most` characters.

    A longer object shows its most informative fields first, and leaves out nested parts.
    """
    fields = call_fields(call.text) if len(call.text) > most else None
    if not fields:
        return one_line(call.text, most)
    ordered = sorted(fields, key=lambda name: _ANY_TELLING.index(name) if name in _ANY_TELLING else len(_ANY_TELLING))
    return one_line(_as_json({name: _shorter(fields[name], most // 2) for name in ordered}), most)


def announced(log: SessionLog, place: int) -> str:
    """Return the assistant's announcement just before the call at this place; "" without one.

    Calls made side by side share one announcement.
    """
    before = place - 1
    while before >= 0 and log.entries[before].kind == "tool_call":
        before -= 1
    if before < 0 or log.turns_since[before] != log.turns_since[place]:
        return ""
    said = log.entries[before]
    if said.kind != "message" or said.role != "assistant" or said.form != "original":
        return ""
    sentences = [*sentences_of(said.text[-_LOOKED_AT:])]
    telling = [text for text in sentences if announces(text)] or _alone(sentences)
    return one_line(telling[-1].rstrip(" :："), WHY_CHARACTERS) if telling else ""


def announces(sentence: str) -> bool:
    """Return True where a sentence may say what its speaker does next."""
    return bool(_ANNOUNCES.search(sentence))


def patches(call: Entry) -> Iterator[Patch]:
    """Yield what a call's patch does to each of its files, in order; none without a patch."""
    patch = _patch(call.text, call_fields(call.text) or {})
    headers = [*_PATCHED.finditer(patch)]
    for header, end in zip(headers, (*(each.start() for each in headers[1:]), len(patch)), strict=False):
        body = patch[header.end() : end]
        added = "\n".join(line[1:] for line in body.split("\n") if line.startswith("+") and line[:3] != "+++")
        yield Patch(path=header["path"], how=(header["how"] or "Update"), added=added)


def line_count(text: str) -> int:
    """Count the lines as an editor does."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def one_line(text: str, most: int) -> str:
    """Return the text without breaks, cut to `most` characters and neutralised, which may add a few.

    A character that cannot be stored, such as a lone surrogate, becomes "?".
    """
    line = " ".join(text[: 8 * most].split()).encode("utf-8", "replace").decode()
    is_whole = len(line) <= most and len(text) <= 8 * most
    return neutralise(line if is_whole else f"{line[: most - 1].rstrip()}…")


def _alone(sentences: list[str]) -> list[str]:
    """Return the only sentence before a call, in any language, unless it is a mere word or two."""
    return sentences if len(sentences) == 1 and len(split_words(sentences[0])) > 3 else []


def call_fields(text: str) -> Mapping[str, Json] | None:
    """Return the fields of a call's arguments; None where they are no JSON object."""
    if text.lstrip()[:1] != "{":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _act(tool: str, fields: Mapping[str, Json]) -> Act:
    command = _plain(fields.get("command"))
    # Some tools do several things, and a word chooses which: "view", "create", "str_replace".
    told = command if " " not in command and _first_of(fields, _PATHS) else ""
    named = _act_of(told[:TOOL_CHARACTERS]) or _act_of(tool[:TOOL_CHARACTERS])
    return named or ("edited" if _first_of(fields, (*OLD, "patch", "diff")) else "called")


def _act_of(name: str) -> Act | None:
    """Return the act that the words of a name mean."""
    words = {word.lower() for word in split_words(name)}
    return next((act for act, known in _ACTS.items() if words & known), None)


def _patched(text: str, fields: Mapping[str, Json]) -> str:
    """Return the files that a patch names as changed."""
    return ", ".join(dict.fromkeys(each["path"] for each in _PATCHED.finditer(_patch(text, fields))))


def _patch(text: str, fields: Mapping[str, Json]) -> str:
    return _first_of(fields, ("input", "patch", "diff", *_COMMANDS)) or text


def _done(act: Act, subject: str, tool: str, *, is_told: bool) -> str:
    """Return the verb and its object. `is_told`: the arguments are plain words, not fields."""
    shown = one_line(subject, SUBJECT_CHARACTERS)
    if act == "called":
        beside = f" with `{shown}`" if is_told else f" on {shown}"
        return f"Called {tool}{beside if shown else ''}"
    if act in ("ran", "searched"):
        return f"{'Ran' if act == 'ran' else 'Searched for'} `{shown}`"
    return f"{act.capitalize()} {shown}"


def _size(fields: Mapping[str, Json]) -> str:
    """Return the amount of text written."""
    edits = fields.get("edits")
    if isinstance(edits, list):
        return f"{len(edits)} edits"
    old, new = _first_of(fields, OLD), _first_of(fields, _CONTENTS)
    if old:
        return f"{_lines(old)} into {_lines(new)}"
    return _lines(new) if new else ""


def _inputs(fields: Mapping[str, Json], said_already: Iterable[str]) -> Iterator[str]:
    """Yield the other inputs that are short enough to show."""
    for name, value in fields.items():
        plain = _plain(value)
        if name not in said_already and plain and len(plain) <= INPUT_CHARACTERS:
            yield f"{one_line(name, INPUT_CHARACTERS)}={one_line(plain, INPUT_CHARACTERS)}"


def _lines(text: str) -> str:
    return counted(line_count(text), "line")


def _first_of(fields: Mapping[str, Json], names: Iterable[str]) -> str:
    return next((plain for name in names if (plain := _plain(fields.get(name)))), "")


def _plain(value: Json) -> str:
    """Return a value as its author would write it; "" for nested values, except a command given word by word."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(each for each in value if isinstance(each, str))
    return "" if value is None or isinstance(value, dict) else _as_json(value)


def _shorter(value: Json, most: int) -> Json:
    if not isinstance(value, (str, list, dict)):
        return value
    plain = _plain(value) or ("…" if value else "")
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _as_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
