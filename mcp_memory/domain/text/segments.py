"""Splits a text into segments that make sense alone: sentences, headings, items, and the key lines of code or output.

Independent of tokens and importance: salience.py weighs the segments.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcp_memory.domain.text.lexicon import ABBREVIATIONS, MONTHS, spaced, unspaced

SegmentRole: TypeAlias = Literal[
    "sentence", "heading", "item", "quote", "row", "pair", "file", "error", "frame", "command", "output", "signature",
    "comment", "code",
]  # fmt: skip

PROSE: frozenset[SegmentRole] = frozenset({"sentence", "item", "quote", "heading", "comment"})
"""Roles of text written to be read."""
STATED: frozenset[SegmentRole] = frozenset({"sentence", "item", "heading"})
"""Roles of the writer's own words."""

MAX_HEAD, MAX_TAIL = 8_000, 2_000
"""Characters read of a longer text: its beginning and its end."""
MAX_SEGMENTS = 400
MAX_SEGMENT = 2_000
"""Longest segment, in characters; longer text was not written to be read."""
MOST_UNSPOKEN = 6
"""Most words of an output line that may still end like a sentence."""
MIN_WRAPPED = 40
"""Characters: a shorter line was ended on purpose, a longer one may be wrapped."""

MIN_COUNTED = 5
"""Characters: a shorter part that is a number counts the text after it: "1. Run it"."""

EMOJI = "\u23e9-\u23ff\u2600-\u27bf\ufe0f\U0001f300-\U0001faff"
# "It works. | It is fast.", "完成。|下一步", "Done 🎉 | Next"
SENTENCE_END = re.compile(
    rf"(?<=[.!?…])(?=[\"'”’)\]\s])[\"'”’)\]]*\s+|(?<=[。！？])(?![。！？」』）”])|(?<=[{EMOJI}])\s+(?=[A-Z])"
)
# "It works.", "as follows:"
_ENDED = re.compile(r"[.!?:;。！？：；…][\"'”’)\]*_`]*$")
# "see e.g. | the log", "J. | Smith"
_ABBREVIATION = re.compile(rf"(?:^|[\s(])(?:{ABBREVIATIONS}|[A-Z])\.$")
# "1. | Run it" begins with its number, "on 3. | Mai" and "the 2. | attempt" continue; "limit 3. We chose …" has ended
_ENUMERATED = re.compile(r"(?:^|[\s(])\d{1,3}\.$")
# "attempt" in "the 2. attempt", "Mai" in "3. Mai"
_GOES_ON = re.compile(rf"[^\W\dA-Z]|(?:{MONTHS})\b")
# the look of a line; each name below is one look
_LINE = re.compile(
    r"""(?P<blank>\s*$)
    |(?P<fence>\s{0,3}(?:```|~~~))
    |(?P<diff>diff\ --git\s|\+\+\+\ |---\ (?:a/|/dev/null)|@@\s|index\ [0-9a-f]{7})
    |(?P<rule>[-=*_~+^#|:.\s]{3,}$|<!--|[=_]{3}.*[=_]{3}$|[.FEsxX]{4,}\s+\[\s*\d+%\]$
        |\s*\.\.\.\ \d+\ more$|During\ handling\ of\ the\ above
        |The\ above\ exception\ was)
    |(?P<heading>\#{1,6}\s+\S)
    |(?P<trace>\s*Traceback\ \(most\ recent)
    |(?P<frame>\s+at\s.*[:(]\S|\s+File\ ".*",\ line\ \d)
    |(?P<command>\s*(?:\$|>>>|PS\s[^>]*>|\w+@[\w.-]+:\S*\$)\s\S)
    |(?P<log>\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d
        |\[?(?:INFO|DEBUG|TRACE|WARN|WARNING|ERROR|FATAL)\b[\s:\]])
    |(?P<error>\s*(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning)\b(?::|\s*$)|Caused\ by:|panic:
        |Uncaught\s|Exception\ in\ thread\s
        |thread\ '.*'\ panicked|(?:npm\ )?(?:ERR!|[Ee]rror:|error\[)|[Ff]atal:|FAILED\s|E\ {3,}[^\s+]))
    |(?P<quote>\s{0,3}>\s?\S)
    |(?P<item>\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ x]\]\s+)?\S)
    |(?P<row>\s*\|.*\|\s*$)
    |(?P<json>\s*(?:[{\[]\s*(?:$|["{\[])|"[^"]*"\s*:\s))
    |(?P<signature>\s*(?:export\s+|pub\s+|public\s+|private\s+|static\s+|async\s+)*
        (?:def|fn|func|function|class|interface|struct|trait|enum)\s+[^\W\d]\w*\s*[(:{<]
        |\s*(?:export\s+)?type\s+\w+\s*=|\s*CREATE\s+(?:TABLE|INDEX|VIEW)\b)
    |(?P<comment>\s*(?://|/\*\*?|\#!?|--)\s*\S|\s*(?:r?\"\"\"|''')\S)
    |(?P<pair>\s*[A-Za-z_][\w.-]*\s*=\s*[^\s=({\[]\S*(?:\s[^=;(]*)?$)
    |(?P<code>\s*(?:import\s+[\w{*]|from\s+\S+\s+import\b|return\b.*[;)\]]$|elif\b|(?:else|try|finally)\s*[:{]
        |(?:if|for|while|with)\b.*[:{]$|const\s|let\s+\w+\s*=|var\s+\w+\s*=|\#include|@\w+|[}\])]+(?:[;,][;,)]*)?$)
        |[^\s].*[;{]$|\s*[\w.]+\(.*\)\s*;?$|\s*[\w.\[\]'"]+(?:,\s*\w+)*\s*(?:[-+*|]?=|:=)\s*\S)""",
    re.VERBOSE,
)
# "```py" opens, "```" closes
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})(.*)")
# The page says: "We chose Redis. It is fast." → one sentence, others' words between its quotation marks
_QUOTED = re.compile(r'"[^"\n]{1,400}"|“[^“”\n]{1,400}”|«[^«»\n]{1,400}»|「[^「」\n]{1,400}」')
# "## 1. Setup" → "Setup", "- [x] done" → "done", "> quoted" → "quoted"
_LINE_MARK = re.compile(r"^\s*(?:#{1,6}\s+(?:\d{1,3}\.\s+)?|>\s?|(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ x]\]\s+)?)")
_TITLE = re.compile(r"(?:\S+ ){2,}\S*[^\s.!?:;,。！？：，][ \t]*\n\s*\n")
"""A first line without a full stop, and a blank one, as in a commit's message."""
# "**Decision.** We chose" → "Decision: We chose"
_BOLD_LABEL = re.compile(r"^(\*\*|__)([^*_]{1,40})[.:]\1:?\s+")
# "keep **the old** queue" → "keep the old queue"
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*|__)(?=\S)(.{1,300}?)(?<=\S)\1(?![\w*])")
# "[the export](https://example.org/a)" → "the export"
_LINK = re.compile(r"(?<!\w)!?\[([^\]\n]{1,200})\]\((?:https?:|/|\.|#)[^)\s]{0,500}\)(?!\w)")
# "E   assert 1 == 2"
_FAILED_ASSERTION = re.compile(r"^E {3,}")
# "// a note", "/** a note */"
_COMMENT_SIGNS = re.compile(r"^(?://+!?|/\*+|\*+|#+!?|--|\"\"\"|''')\s*|(?:(?<!\s)\s+)?(?:\*/|\"\"\"|''')$")
# '  File "a/b.py", line 3, in f'
_PYTHON_FRAME = re.compile(r'\s+File "(.*)", line (\d+)(?:, (in) (\S+))?')
# "…/site-packages/x.py", "at java.util.List"
_FOREIGN = re.compile(
    r"site-packages|dist-packages|/lib/python|<frozen|node_modules|node:|\(internal|\binternal/"
    r"|\bat (?:java|javax|jdk|sun|kotlin"
    r"|scala|org\.(?:springframework|apache|junit|hibernate))\."
)
# "connection refused", "no such file"
_ERROR_WORD = re.compile(
    rf"\b(?:errors?(?!\.\w)|traceback|unresolved|{spaced('trouble')})\b|{unspaced('trouble')}", re.IGNORECASE
)
# "12:00 ERROR lock timeout"
_LEVEL = re.compile(r"\b(?:ERROR|FATAL|CRITICAL|PANIC)\b")
# "0 errors, 2 warnings" is no error
_COUNTED_ERRORS = re.compile(r"\b(?:\d+|no|without) (?:errors?|fail(?:ed|ures?))\b(?=[,.;]|\s+in\b|$)", re.IGNORECASE)
# "… has ended."
_SPOKEN_END = re.compile(r"[a-z][.!?]$")
_PROMPT_SIGNS = frozenset("$>|")
# '"port": 5432' → "port: 5432"
_PAIR = re.compile(r'"([^"\\\n]{1,80})"\s*:\s*("(?:[^"\\\n]|\\.){0,300}"|-?\d[\d.eE+-]*|true|false)')
# "+++ b/src/app.py"
_PATH = re.compile(r"(?:\+\+\+ (?:b/)?|diff --git a/)(\S+)")

_OUTPUT_LOOKS = frozenset({"trace", "frame", "command", "log", "error"})
_CODE_LOOKS = frozenset({"signature", "comment", "code", "pair"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a text in one line, its marks removed. `follows` is True where it stood just behind the one before."""

    text: str
    role: SegmentRole = "sentence"
    follows: bool = True


@dataclass(frozen=True, slots=True)
class _Line:
    """A line and its look on its own; "prose" where it looks like nothing else."""

    text: str
    look: str


def segments_of(text: str, most: int = MAX_HEAD + MAX_TAIL) -> list[Segment]:
    """Return the segments of a text's beginning and end, in order; at least one for a text that is not blank.

    Bounded: of a text longer than `most`, MAX_HEAD + MAX_TAIL characters are read, and MAX_SEGMENTS returned.
    """
    if len(text) <= most:
        return _segments(text)[:MAX_SEGMENTS] or _plain(text)
    head, tail = _segments(text[:MAX_HEAD]), _segments(text[-MAX_TAIL:])
    # At the gap between the two readings, segments are torn.
    head, tail = (head[:-1] or head)[: MAX_SEGMENTS - 100], tail[1:][-100:]
    rest = [Segment(text=p.text, role=p.role, follows=p.follows and n > 0) for n, p in enumerate(tail)]
    return head + rest or _plain(text)


def sentences_of(text: str) -> Iterator[str]:
    """Return the sentences, items and headings of a whole text, in order, without code, output, tables and quotes."""
    return (segment.text for segment in _segments(text) if segment.role in STATED)


def unquoted(text: str) -> str:
    """Return the text with dots in its quotations, its length unchanged; a quoted word in ASCII is a name, and stays.

    'It says "We chose it." twice.' → 'It says "············" twice.'
    """
    return _QUOTED.sub(lambda quoted: _dotted(quoted[0]), text)


def _dotted(quoted: str) -> str:
    is_speech = not quoted[1:-1].isascii() or " " in quoted.strip('" ')
    return f"{quoted[0]}{'·' * (len(quoted) - 2)}{quoted[-1]}" if is_speech else quoted


def _plain(text: str) -> list[Segment]:
    """Return the one segment of a text that holds only marks, like a row of dashes."""
    line = " ".join(text[:MAX_SEGMENT].split())
    return [Segment(text=line)] if line else []


def _segments(text: str) -> list[Segment]:
    found: list[Segment] = []
    for look, lines in _blocks(text):
        for segment in _READERS[look](lines):
            shown = " ".join(segment.text[:MAX_SEGMENT].split())
            if any(sign.isalnum() for sign in shown):
                found.append(Segment(text=shown, role=segment.role, follows=segment.follows))
    if _TITLE.match(text) and len(found) > 1 and found[0].role == "sentence":
        found[0] = Segment(text=found[0].text, role="heading")
    return found


def _blocks(text: str) -> Iterator[tuple[str, list[_Line]]]:
    """Yield runs of lines that are read together: "prose", "output", "code", "json" or "diff"."""
    block: list[_Line] = []
    now, fence = "prose", ""
    for line in text.splitlines():
        look = line_look(line)
        before, fence = fence, _fence_after(line, fence) if look == "fence" else fence
        belongs = _family("prose" if look == "fence" else look, line, now, bool(fence)) if fence == before else ""
        if belongs != now and block:
            yield now, block
            block = []
        now = belongs or "prose"
        if belongs:
            block.append(_Line(line, look))
    if block:
        yield now, block


def line_look(line: str) -> str:
    """Return the look of a line: "prose", "blank", "heading", "item", "row", "log", "code" and so on."""
    match = _LINE.match(line[:MAX_SEGMENT])
    return (match and match.lastgroup) or "prose"


def _fence_after(line: str, fence: str) -> str:
    """Return the fence that is open behind a line: "" where the line closes the one before it.

    Only the same sign, at least as often and alone, closes one; "```x``` is its name" opens none.
    """
    found = _FENCE.match(line)
    sign, rest = (found[1], found[2]) if found else ("", "")
    if fence:
        return "" if sign.startswith(fence) and not rest.strip() else fence
    return "" if "`" in rest else sign


def _family(look: str, line: str, now: str, fenced: bool) -> str:
    """Return the run that a line belongs to, given the one before it."""
    if look == "diff" or (now == "diff" and line[:1] in "+- \\"):
        return "diff"
    if look == "json" or (now == "json" and line[:1] in " \t]}"):
        return "json"
    if look in _OUTPUT_LOOKS:
        return "output"
    is_loose = look in ("prose", "blank", "heading", "item", "rule", "row", "quote")
    # Most lines of output have no mark of their own.
    if now == "output" and (fenced or look != "heading") and not _is_spoken(line):
        return "output"
    if look in _CODE_LOOKS or (is_loose and fenced) or (now == "code" and line[:1] in " \t" and look != "blank"):
        return "code"
    return "prose"


def _is_spoken(line: str) -> bool:
    """Return True for a line that is a sentence of some length: output is over."""
    if not line[:1].isupper() or not _SPOKEN_END.search(line[-2:]):
        return False
    words = line.split()
    return len(words) > MOST_UNSPOKEN and _PROMPT_SIGNS.isdisjoint(words[0])


def _read_prose(lines: Sequence[_Line]) -> Iterator[Segment]:
    """Rejoin wrapped paragraphs, then cut them at the ends of their sentences."""
    parts: list[str] = []
    role: SegmentRole = "sentence"
    for line in [*lines, _Line("", "blank")]:
        if _begins(line, parts, role):
            yield from _sentences(" ".join(parts), role)
            parts, role = [], _ROLE_OF_LOOK.get(line.look, "sentence")
        if line.look not in ("blank", "rule"):
            parts.append(_LINE_MARK.sub("", line.text).strip())


def _begins(line: _Line, parts: Sequence[str], role: SegmentRole) -> bool:
    """Return True where a line begins something new, rather than continuing a wrapped one."""
    if not parts or line.look != "prose" or role in ("heading", "row"):
        return True
    if role == "item":
        return not line.text[:1].isspace() and len(parts[-1]) < MIN_WRAPPED
    return len(parts[-1]) < MIN_WRAPPED or bool(_ENDED.search(parts[-1]))


def _sentences(text: str, role: SegmentRole) -> Iterator[Segment]:
    if "**" in text or "__" in text:
        text = _EMPHASIS.sub(r"\2", _BOLD_LABEL.sub(r"\2: ", text))
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if role == "row":
        cells = [cell.strip() for cell in text.strip("| ").split("|")]
        yield Segment(text=" · ".join(cell for cell in cells if cell), role=role)
        return
    begin = 0
    for end in SENTENCE_END.finditer(unquoted(text)):  # A quotation belongs to its surrounding sentence.
        part = text[begin : end.start()]
        is_counted = _ENUMERATED.search(part[-12:]) and (len(part) < MIN_COUNTED or _GOES_ON.match(text, end.end()))
        if not (is_counted or _ABBREVIATION.search(part[-12:])):
            yield Segment(text=part, role=role)
            begin = end.end()
    yield Segment(text=text[begin:], role=role)


def _read_output(lines: Sequence[_Line]) -> Iterator[Segment]:
    """Yield each trace's last error and deepest own frame, and every other line by itself, errors marked as such."""
    frame, own, skip = "", False, False
    for line in lines:
        is_source = skip and line.text[:1].isspace() and line.look not in _OUTPUT_LOOKS
        if is_source or line.look in ("trace", "rule", "blank"):
            continue
        skip = line.look == "frame"
        if line.look == "frame":
            is_own = not _FOREIGN.search(line.text)
            called = _PYTHON_FRAME.match(line.text)
            # Python names the deepest frame last, the others first.
            if (is_own and (called or not own)) or not frame:
                frame, own = _shown_frame(line.text), is_own
            continue
        shown = Segment(text=_FAILED_ASSERTION.sub("", line.text), role=_output_role(line))
        # Python's frames stand before their error, all others behind it.
        is_above = ":" in frame and not frame.startswith("at ") and line.look == "error"
        around = [Segment(text=frame, role="frame")] if frame else []
        yield from [shown, *around] if is_above else [*around, shown]
        frame, own = "", False
    if frame:
        yield Segment(text=frame, role="frame")


def _shown_frame(line: str) -> str:
    called = _PYTHON_FRAME.match(line)
    if not called:
        return line.strip()
    path, number, word, name = called.groups()
    return f"{path}:{number} {word} {name}" if name else f"{path}:{number}"


def _output_role(line: _Line) -> SegmentRole:
    if line.look in ("command", "error"):
        return "command" if line.look == "command" else "error"
    is_error = _LEVEL.search(line.text) or (_ERROR_WORD.search(line.text) and not _COUNTED_ERRORS.search(line.text))
    return "error" if is_error else "output"


def _read_code(lines: Sequence[_Line]) -> Iterator[Segment]:
    for line in lines:
        role = _ROLE_OF_LOOK.get(line.look, "code") if line.look in _CODE_LOOKS else "code"
        if line.text.lstrip().startswith("* "):
            role = "comment"  # Inside /** … */.
        if role == "code" and _ERROR_WORD.search(line.text[:MAX_SEGMENT]) and line.look in ("prose", "item"):
            role = "error"  # Output between fences, without a mark of its own.
        text = line.text.strip()
        if role == "comment":
            yield from _sentences(_COMMENT_SIGNS.sub("", text), role)
        else:
            yield Segment(text=text.rstrip("{: ") if role == "signature" else text, role=role)


def _read_json(lines: Sequence[_Line]) -> Iterator[Segment]:
    """Yield `key: value` for each plain value, at any depth; the lines themselves where there is none."""
    text = "\n".join(line.text for line in lines)
    pairs = [Segment(text=f"{name}: {value.strip(chr(34))}", role="pair") for name, value in _PAIR.findall(text)]
    yield from pairs or (Segment(text=line.text, role="code") for line in lines)


def _read_diff(lines: Sequence[_Line]) -> Iterator[Segment]:
    """Yield the files that a diff changes, then its added lines."""
    files = dict.fromkeys(match[1] for line in lines if (match := _PATH.match(line.text)) and match[1] != "/dev/null")
    for name in files:
        yield Segment(text=name, role="file")
    for line in lines:
        if line.text.startswith("+") and not line.text.startswith("+++"):
            yield Segment(text=line.text[1:], role="code", follows=False)


_ROLE_OF_LOOK: dict[str, SegmentRole] = {
    "heading": "heading", "item": "item", "quote": "quote", "row": "row",
    "signature": "signature", "comment": "comment", "pair": "pair",
}  # fmt: skip
_READERS = {
    "prose": _read_prose,
    "output": _read_output,
    "code": _read_code,
    "json": _read_json,
    "diff": _read_diff,
}
