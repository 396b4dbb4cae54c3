"""Tells a client's own text, its harness, from what its user wrote; and calls of this memory's own tools from others.

`harness.toml` holds the clients' tables. All of them apply to every text: a list of messages does not name its client.
A text is the client's by its form and its place. Where a user writes about such a text, in backticks, in quotation
marks, in a block of code or in the middle of a sentence, it stays.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, cast

from mcp_memory.domain.model.field_marks import arguments
from mcp_memory.domain.model.records import NewRecord, Record

NO_OUTPUT: Final = "(no output)"
"""Represents the empty output of a tool: its call was answered all the same."""
CLIENTS_NOTE: Final = "[client's note]"
"""Replaces an entry in which only the client speaks, so that the numbers of the others do not change."""
OWN_CALL: Final = "[this memory's own tool]"
"""Replaces a call of this memory's tools, and its answer, in the same way."""

_TABLES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("harness.toml").read_text("utf-8"))
_OWN_TOOLS: dict[str, str] = _TABLES.pop("own_tools")
_USERS = frozenset({"user", "human"})
_THROUGH = "use_mcp_tool"
"""The tool through which Cline and its forks call those of a server, whose name is an argument."""
_DISTINCT = frozenset({"assemble_context", "pop_task", "push_task"})
"""Own tools whose names no other server's tool is likely to have."""


def patterns() -> Iterator[tuple[re.Pattern[str], Literal["match", "search"]]]:
    """Yield every pattern of harness.toml that a text is read with, and how."""
    for each in _MARKED.values():
        yield each, "search"
    for begin, mark in _RESTS:
        yield begin, "match"
        yield mark, "search"


def is_users(role: str | None) -> bool:
    """Return True for the role of a user's message; a message without one is a user's."""
    return (role or "user").lower() in _USERS


def _words(key: str) -> frozenset[str]:
    return frozenset(word for table in _TABLES.values() for word in table.get(key, "").split())


def _any(key: str) -> str:
    return "|".join(pattern for table in _TABLES.values() for pattern in table.get(key, ())) or "(?!)"


_TOLD, _KEPT, _ONLY = map(_words, ("told", "words", "only_words"))
_COMMANDS, _PLUMBING, _CHECKS, _RECEIPTS, _APPENDED = map(
    _words, ("commands", "plumbing", "checks", "receipts", "appended")
)
_MARKED = {tag: re.compile(mark) for table in _TABLES.values() for tag, mark in table.get("marked", {}).items()}
_RESTS = [(re.compile(begin), re.compile(mark)) for table in _TABLES.values() for begin, mark in table.get("rests", ())]
_TAGS = "|".join(sorted(_words("blocks") | _TOLD | _KEPT | _ONLY | _MARKED.keys()))
_BEGINNINGS: str = "|".join(begin.pattern for begin, _ in _RESTS)
_NOTES = rf"(?P<line>(?:{_any('lines')})[ \t]*$)|(?P<paragraph>{_any('paragraphs')})|(?P<rest>{_BEGINNINGS})"
# e.g. "<system-reminder>", "[Request interrupted by user]", "Stop hook feedback:"
_OPENING = re.compile(rf"<(?P<tag>{_TAGS})(?:\s[^<>]{{0,300}})?>|^[ \t]{{0,3}}(?:{_NOTES})", re.MULTILINE)
# "</task-notification>\nRead the output file to retrieve the result: /tmp/b7.output"
_TAIL = re.compile(rf"\s*+(?:{_any('tails')})(?![^\s<])")
# "[ERROR] You did not use a tool": that nothing was done, the agent's own words may deny
_REPORT, _REPORTED = re.compile(_any("reports")), "report"
_BY_OTHERS = _TOLD | {_REPORTED}
_REST_END = re.compile(_any("rests_end"))
_ANSWER = re.compile(_any("answers"))
_RESULT = re.compile(_any("results"))
# e.g. "/exit", "/model opus"; "/usr/bin/env" is a path
_COMMAND = re.compile(r"/(?P<name>[a-z][\w:-]{0,60})(?P<given> [^\n]*)?", re.IGNORECASE)
_SOME_WORDS = 5
"""Least number of words in a block within a line that is more than a mention of its tag."""
_NEAR = 200
"""Characters of a line that are looked at before and behind a block."""
_NEAR_MARK = 2_000
"""Characters of a block in which its mark occurs."""
_CODE_INDENT = 4
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A text in the user's role, divided: the user's own words, to the byte, and what others told beside them.

    Both may be empty. `cut` counts the passages that are no words of the user's.
    """

    words: str
    told: str = ""
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passage:
    """A passage of a text from `start` to `end`; `words` in it are the user's, or what others told."""

    start: int
    end: int
    tag: str = ""
    words: str = ""


def heard(text: str) -> Heard:
    """Divide a text in the user's role. Takes time linear in its length."""
    if typed := _COMMAND.fullmatch(text.strip()):
        is_clients = not typed["given"] or (typed["name"].lower() in _COMMANDS and _is_choice(typed["given"]))
        return Heard(words="", cut=1) if is_clients else Heard(words=text)
    passages = list(_passages(text))
    if not passages:
        return Heard(words=text)
    told = "\n".join(each.words for each in passages if each.tag in _BY_OTHERS and each.words)
    if any(each.tag in _ONLY for each in passages):
        words = "\n".join(each.words for each in passages if each.tag in _ONLY)
    else:
        words = _without(text, passages)
    return Heard(words=words, told=told, cut=len(passages))


def _is_choice(given: str) -> bool:
    """Return True for what is chosen behind a command: "opus", "../lib"; more words are said to the agent."""
    return given.isascii() and len(given.split()) == 1


def _without(text: str, passages: list[_Passage]) -> str:
    """Return the text between the passages. A cut takes the blank lines with it that set it apart."""
    parts, place = list[str](), 0
    for each in passages:
        before = text[place : each.start]
        starts_line = not parts or before.endswith("\n")
        words = each.words if each.tag not in _BY_OTHERS else ""
        parts += [before, words]
        place = each.end
        if starts_line and not words and text[place : place + 1] == "\n":
            place += 1
    rest = text[place:]
    words = "".join([*parts, rest]).strip("\n")
    # Blanks at an end are the user's, unless a cut has left them.
    words = words.lstrip() if not parts[0].strip() else words
    return words if rest.strip() else words.rstrip()


def _passages(text: str) -> Iterator[_Passage]:
    """Yield the client's passages, in order."""
    ends: dict[str, int] = {}
    place = cut_until = fences = 0
    last_fence = max(text.rfind("```"), text.rfind("~~~"))
    is_beginning, command = True, ""
    while opening := _OPENING.search(text, place):
        between = text[place : opening.start()]
        fences += len(_FENCE.findall(between))
        is_beginning = is_beginning and not between.strip()
        is_code = fences % 2 == 1 and last_fence > opening.start()
        passage = None if is_code else _passage(text, opening, cut_until, ends, is_beginning=is_beginning)
        if not passage:
            place, is_beginning = opening.end(), False
            continue
        place = cut_until = passage.end
        if passage.tag == "command-name":
            command = passage.words
        yield replace(passage, words=_given(passage, command))


def _given(passage: _Passage, command: str) -> str:
    """Return what is the user's in a passage: the arguments of a command that is no choice for the client, too."""
    if passage.tag == "command-args" and passage.words:
        name = command.removeprefix("/")
        return "" if name.lower() in _COMMANDS else f"{command} {passage.words}".strip()
    return passage.words if passage.tag in _BY_OTHERS | _KEPT | _ONLY else ""


def _passage(
    text: str, opening: re.Match[str], cut_until: int, ends: dict[str, int], *, is_beginning: bool
) -> _Passage | None:
    """Return the client's passage that begins here; None where the words are the user's."""
    start = opening.start()
    if opening["tag"]:
        return _block(text, opening, cut_until, ends)
    if opening["line"]:
        return _Passage(start=start, end=opening.end())
    if opening["paragraph"]:
        end = text.find("\n\n", start)
        return _Passage(start=start, end=end if end >= 0 else len(text))
    place = opening.start("rest")
    if not is_beginning or not any(each.match(text, place) and mark.search(text, place) for each, mark in _RESTS):
        return None
    last = [end.end() for end in _REST_END.finditer(text, start)][-1:]
    report = _REPORT.match(text, place)
    end = last[0] if last else len(text)
    return _Passage(start=start, end=end, tag=_REPORTED if report else "", words=report[0] if report else "")


def _block(text: str, opening: re.Match[str], cut_until: int, ends: dict[str, int]) -> _Passage | None:
    """Return the block of a tag if it stands where a client puts it; what is cut ends at `cut_until` so far.

    `ends` holds where the next end of each tag is, so that many beginnings without an end take no longer.
    """
    tag, start = opening["tag"], opening.start()
    if ends.get(tag, 0) < opening.end():
        found = text.find(f"</{tag}>", opening.end())
        ends[tag] = found if found >= 0 else len(text) + 1
    close = ends[tag]
    if close > len(text):
        return None
    if tag in _MARKED and not _MARKED[tag].search(text, opening.end(), min(close, opening.end() + _NEAR_MARK)):
        return None
    if tag in _ONLY and not (text.lstrip().startswith("<") and text.rstrip().endswith(f"</{tag}>")):
        return None
    end = close + len(tag) + 3
    inside = text[opening.end() : close]
    if tag in _TOLD and (tail := _TAIL.match(text, end)):
        end = tail.end()
    block = _Passage(start=start, end=end, tag=tag, words=inside.strip())
    before = text[max(cut_until, start - _NEAR) : start].rsplit("\n", 1)[-1]
    behind = text[end : end + _NEAR].split("\n", 1)[0]
    if before.lstrip().startswith(">") or before[-1:] in tuple("`\"'“‘«„([") or before.count("`") % 2:
        return None
    # Indented by four, it is code in Markdown; between blocks of the client, blanks are its own.
    after_block = cut_until > 0 and start - cut_until <= _NEAR and not text[cut_until:start].strip()
    begins = not before.strip() and (after_block or len(before) < _CODE_INDENT)
    closes = not behind.strip() or _OPENING.match(behind.lstrip()) is not None
    if begins and closes:
        return block
    is_long = "\n" in inside or len(inside.split(maxsplit=_SOME_WORDS)) >= _SOME_WORDS
    is_glued = behind[:1].isalnum() or (before[-1:].isalnum() or before[-1:] in tuple(".!?"))
    follows_sentence = closes and before.rstrip()[-1:] in tuple(".!?。！？")
    return block if is_long or is_glued or follows_sentence else None


def is_plumbing(tool: str | None) -> bool:
    """Return True for a client's own tool that says nothing of the work: ToolSearch."""
    return tool in _PLUMBING


@cache
def _arguments_of(tool: str) -> frozenset[str]:
    from mcp_memory.domain.model.requests import TOOL_REQUESTS  # Hooks that meet no call of ours do without.

    return frozenset((*_OWN_TOOLS[tool].split(), *arguments(TOOL_REQUESTS[tool])))


def is_own_tool(tool: str | None, arguments: str | None = None) -> bool:
    """Return True for a tool of this memory, whatever a client puts before its name.

    "mcp__mcp-memory__recall" and "memory.recall" are; "recall" is if called with `arguments`, in JSON, that ours takes.
    """
    called = (tool or "").casefold()
    if called == _THROUGH and arguments is not None:
        called, arguments = _told_by(arguments)
    name = next((name for name in _OWN_TOOLS if called.endswith(name)), None)
    if name is None:
        return False
    server = called.removesuffix(name)
    if server[-1:].isalnum():
        return False
    if name in _DISTINCT or "memory" in server:
        return True
    if (server and not server.startswith("mcp")) or arguments is None:
        return False
    return (given := _object(arguments)) is not None and given.keys() <= _arguments_of(name)


def is_own_traffic(record: Record) -> bool:
    """Return True for an entry of a log that no context shows: the client's, or a call of this memory's own tools.

    Logs that an earlier version stored hold both as they were.
    """
    if record.kind == "message":
        said = heard(record.text) if (record.role or "user").lower() in _USERS else Heard(words=record.text)
        return record.text in (CLIENTS_NOTE, OWN_CALL) or not (said.words.strip() or said.told)
    if record.kind not in ("tool_call", "tool_result"):
        return False
    is_shortened = record.text in (CLIENTS_NOTE, OWN_CALL)
    tool, arguments = record.tool, record.text if record.kind == "tool_call" else None
    is_ours = tool in _OWN_TOOLS or is_own_tool(tool, arguments)
    return is_shortened or is_ours or tool in _PLUMBING | _CHECKS


def _told_by(arguments: str) -> tuple[str, str]:
    """Return the tool that a call through another names, with its server before it, and the arguments of that tool."""
    given = _object(arguments) or {}
    inner = given.get("arguments")
    text = inner if isinstance(inner, str) else json.dumps(inner or {})
    return f"{given.get('server_name')}.{given.get('tool_name')}".casefold(), text


def _object(arguments: str) -> dict[str, object] | None:
    """Return the arguments by their names; None where they are no object in JSON."""
    try:
        given: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", given) if isinstance(given, dict) else None


def without_harness(item: NewRecord) -> NewRecord:
    """Return a log's entry without what is the client's, and how many passages that was; its place is kept.

    A message of nothing else gets the tool's role, and says only what others told, or CLIENTS_NOTE. A call of this
    memory's own tools and its result become OWN_CALL; a tool that is the client's plumbing, CLIENTS_NOTE.
    """
    if item.kind == "message":
        return _message(item)
    if item.kind not in ("tool_call", "tool_result") or item.text in (CLIENTS_NOTE, OWN_CALL):
        return item
    if is_own_tool(item.tool, item.text if item.kind == "tool_call" else None):
        return replace(item, text=OWN_CALL, harness=item.harness + 1)
    if is_plumbing(item.tool):
        return replace(item, text=CLIENTS_NOTE, harness=item.harness + 1)
    return _output(item) if item.kind == "tool_result" else item


def _message(item: NewRecord) -> NewRecord:
    role = (item.role or "user").lower()
    if role in ("assistant", "ai", "model") and _ANSWER.fullmatch(item.text.strip()):
        return replace(item, text=CLIENTS_NOTE, role="tool", harness=item.harness + 1)
    if role not in _USERS:
        return item
    said = heard(item.text)
    if not said.cut:
        return item
    if said.words.strip():
        return replace(item, text=said.words, harness=item.harness + said.cut)
    return replace(item, text=said.told or CLIENTS_NOTE, role="tool", harness=item.harness + said.cut)


def _output(item: NewRecord) -> NewRecord:
    """Return a tool's result without what the client appended, or without a receipt."""
    is_receipt = item.tool in _RECEIPTS and item.outcome != "failure" and item.text != NO_OUTPUT
    if is_receipt or _RESULT.fullmatch(item.text.strip()):
        return replace(item, text=NO_OUTPUT, harness=item.harness + 1)
    text, cut = item.text.rstrip(), 0
    while tag := next((tag for tag in _APPENDED if text.endswith(f"</{tag}>")), None):
        start = text.rfind(f"<{tag}>")
        if start < 0 or (start and text[start - 1] != "\n"):
            break
        text, cut = text[:start].rstrip(), cut + 1
    return replace(item, text=text or NO_OUTPUT, harness=item.harness + cut) if cut else item
