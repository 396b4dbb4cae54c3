"""Finds the parts of a tool's output to keep when it is archived: its errors, its result, its exact values.

Independent of the tool: lines are recognised by their form.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.ledger import SEPARATOR, values_in
from mcp_memory.domain.sessions.tool_lines import one_line
from mcp_memory.domain.text.exact_values import files_hit
from mcp_memory.domain.text.lexicon import spaced, unspaced
from mcp_memory.domain.text.prompt_safety import LINE_CHARACTERS
from mcp_memory.domain.text.statements import MOST_CHARACTERS, tells_its_reader

MAX_END = 100_000
"""Characters read of an output's beginning, and as many of its end."""
VALUE_HEAD, VALUE_TAIL = 3_000, 1_500
"""Characters read for exact values, which takes longer."""
MAX_ERRORS, MAX_VALUES = 3, 8
LAST_LINES, MAX_LAST = 3, 2_000
"""The lines in which a command says how it ended, and the characters that they may take."""
FIRST, KEPT = "First line: ", "Kept: "
"""Prefixes of the mask's lines that show the output's first line, and the other kept parts."""

# "\x1b[31m" begins red
_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
# "ValueError: no", "- E999 SyntaxError: unmatched ')'", "FAILED tests/x.py", "npm ERR! missing"
_ERROR_LINE = re.compile(
    r"""\s{0,40}(?:
        E\ {3,8}[^\s+]
        |(?:-\ )?(?:[A-Z]{1,4}\d{2,5}\ )?(?:[A-Za-z_][\w.]{0,80})?(?:Error|Exception|Interrupt)(?::|\s*$)
        |(?:\[?[\d:.,/TZ+-]{4,40}\]?\s){0,2}(?:\S{1,40}\s)?[\[(]?(?:ERROR|FATAL|CRITICAL|PANIC)[\])]?[\s:]{1,8}[\w"'(\[/]
        |(?:npm\ )?(?:ERR!|error\b.{0,40}:)|FAILED\b|FAIL\b|---\ FAIL|[Ff]atal:|panic:|Caused\ by:|Uncaught\s
        |thread\ '.{0,80}'\ panicked|make(?:\[\d{1,3}\])?:\ \*\*\*|Segmentation\ fault|[✗✘❌]
        |(?:错误|失败|エラー|失敗)\s?[:：]
    )|.{0,200}(?:[\s:](?:fatal\ )?error(?:\[\w{1,20}\]|\ [A-Z]{1,6}\d{1,6})?:\s
        |:\ (?:command\ not\ found|No\ such\ file|[Pp]ermission\ denied|[Cc]onnection\ refused))""",
    re.VERBOSE,
)
# "permission denied", "could not … unexpected"
_TROUBLE_WORD = re.compile(
    rf"\b(?:errors?|can't|invalid|unable|unexpected|fehler|erreur|{spaced('trouble')})\b|无法|{unspaced('trouble')}",
    re.IGNORECASE,
)
# "E   assert …", "=== 3 passed ==="
# "Error: trim trailing whitespace.......Passed": the client's mark before a list of checks
_PASSED = re.compile(r"\.{3}(?:Passed|Skipped)\s{0,9}\Z")
_MARKS = re.compile(r"^(?:E {3,8}|[=_~*#]{2,80}\s)\s*|\s[=_~*#]{2,80}$")
# "3 passed, 1 failed", "exit code 2"
_TALLY = re.compile(
    r"\b\d{1,9} (?:passed|failed|passing|failing|failures?|errors?)\b|\bexit(?:ed with)? (?:code|status) \d"
    r"|\btest result: |\bBUILD (?:SUCCESS|FAIL)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """The kept parts of an output, verbatim: lines with errors, its result, exact values."""

    errors: tuple[str, ...]
    point: str
    values: tuple[str, ...]


def remains_of(output: Entry) -> Remains:
    """Find the parts to keep of an output, original or masked."""
    if output.form == "mask":
        return _remains_of_mask(output)
    text = _COLOUR.sub("", _ends(output.text, MAX_END, MAX_END))
    lines = _lines(text)
    errors = _errors(lines, output.failed)
    return Remains(errors=errors, point=_tally(text) or ("" if errors else _shown(_first(lines))), values=_exact(text))


def errors_of(output: Entry) -> tuple[str, ...]:
    """Return only the lines with an output's errors, as `remains_of` finds them."""
    if output.form == "mask":
        return _remains_of_mask(output).errors
    return _errors(_lines(_COLOUR.sub("", _ends(output.text, MAX_END, MAX_END))), output.failed)


def kept_line(remains: Remains, room: int, count: Callable[[str], int], *, said: str = "", terse: bool = False) -> str:
    """Return the errors and the point, then as many values as `room` tokens hold, without parts in `said`.

    `terse` returns the errors alone.
    """
    parts: list[str] = []
    for part in (*remains.errors, "" if terse else remains.point):
        if part and not is_said(part, [said, *parts]):
            parts.append(part)
    values: list[str] = []
    for value in () if terse else remains.values:
        if not is_said(value, [said, *parts, *values]) and count(SEPARATOR.join([*values, value])) <= room:
            values.append(value)
    return SEPARATOR.join([*parts, *values])


def ends_in_error(text: str) -> bool:
    """Return True where one of the last lines of an output is an error's."""
    return any(_ERROR_LINE.match(line[: 2 * LINE_CHARACTERS]) for line in _lines(text[-MAX_LAST:])[-LAST_LINES:])


def first_line(output: Entry, most: int) -> str:
    """Return the first line that is not blank."""
    start = _COLOUR.sub("", output.text[:MAX_END]).lstrip()
    return one_line(next(iter(start.splitlines()), ""), most)


def _remains_of_mask(mask: Entry) -> Remains:
    """Read the kept parts of a mask: its `Kept:` line, else the first line it shows."""
    _, *lines = mask.text.split("\n")
    kept = [line.removeprefix(KEPT) for line in lines if line.startswith(KEPT)] or lines
    said = kept[0].removeprefix(FIRST) if kept else ""
    is_error = bool(said) and (mask.failed or _ERROR_LINE.match(said[: 2 * LINE_CHARACTERS]) is not None)
    return Remains(errors=(said,) if is_error else (), point="" if is_error else _first([said]), values=())


def _first(lines: Sequence[str]) -> str:
    """Return the first line; "" for one that tells its reader what to do."""
    return next((line for line in lines[:1] if not tells_its_reader(line[:MOST_CHARACTERS])), "")


def _ends(text: str, head: int, tail: int) -> str:
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[-tail:]}"


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.isspace()]


def _errors(lines: Sequence[str], failed: bool) -> tuple[str, ...]:
    """Return the first error and the last two; for a failed output, at least a line that may explain it."""
    lines = [line for line in lines if not _PASSED.search(line[-LINE_CHARACTERS:])]
    found = [line for line in lines if _ERROR_LINE.match(line[: 2 * LINE_CHARACTERS])]
    if failed and not found:
        found = [line for line in lines if _TROUBLE_WORD.search(line[: 2 * LINE_CHARACTERS])] or list(lines[-1:])
    distinct = _distinct(_shown(line) for line in [*found[:20], *found[20:][-40:]])
    return (*distinct[:1], *distinct[1:][1 - MAX_ERRORS :])


def _distinct(lines: Iterable[str]) -> list[str]:
    """Return each line once, without those contained in another: a test's error recurs in its summary."""
    shown = list(dict.fromkeys(lines))
    return [line for line in shown if not any(line in other for other in shown if other != line)]


def _exact(text: str) -> tuple[str, ...]:
    read = _ends(text, VALUE_HEAD, VALUE_TAIL)
    return tuple(one_line(each, LINE_CHARACTERS) for each in (*files_hit(read), *values_in(read, MAX_VALUES)))


def _tally(text: str) -> str:
    """Return the last line that counts passes and failures."""
    found = deque(_TALLY.finditer(text), maxlen=1)
    if not found:
        return ""
    last = found.pop()
    begin, end = text.rfind("\n", 0, last.start()) + 1, text.find("\n", last.end())
    return _shown(text[max(begin, last.start() - LINE_CHARACTERS // 2) : end if end >= 0 else None])


def _shown(line: str) -> str:
    return one_line(_MARKS.sub("", line[: 8 * LINE_CHARACTERS].strip()), LINE_CHARACTERS)


def is_said(part: str, said: Iterable[str]) -> bool:
    """Return True where one of the texts contains the part: "port 54" is not in "port 5433", but "por…" is."""
    beginning = part.rstrip("….")
    may_go_on = part.endswith("…") or not beginning[-1:].isalnum()
    for text in said:
        at = text.find(beginning)
        while at >= 0:
            if may_go_on or not text[at + len(beginning) : at + len(beginning) + 1].isalnum():
                return True
            at = text.find(beginning, at + 1)
    return False
