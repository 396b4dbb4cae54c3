"""Splits the prose of a text into segments that make sense alone: sentences, headings and items; no code, no output."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcp_memory.domain.text.lexicon import ABBREVIATIONS, MONTHS

SegmentRole: TypeAlias = Literal["sentence", "heading", "item", "quote", "row"]
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

LEAST_HEADLINE, MOST_HEADLINE = 12, 80
"""Characters of a headline: a shorter sentence says little alone, a longer one is no headline."""
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
# "… has ended."
# "by hand; | retention", "the file → | dead end", and any blank
_CUT = re.compile(r"(?P<clause>[;:,；：，、]\s|\s[—–→](?=\s)|[；：，、])|\s")
# "`a. b`"
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_SPOKEN_END = re.compile(r"[a-z][.!?]$")
_PROMPT_SIGNS = frozenset("$>|")
_OUTPUT_LOOKS = frozenset({"trace", "frame", "command", "log", "error"})
_CODE_LOOKS = frozenset({"signature", "comment", "code", "pair"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a text in one line, its marks removed."""

    text: str
    role: SegmentRole = "sentence"


@dataclass(frozen=True, slots=True)
class _Line:
    """A line and its look on its own; "prose" where it looks like nothing else."""

    text: str
    look: str


def segments_of(text: str) -> list[Segment]:
    """Return the segments of a text's beginning and end, in order.

    Bounded: MAX_HEAD + MAX_TAIL characters are read, and MAX_SEGMENTS returned.
    """
    if len(text) <= MAX_HEAD + MAX_TAIL:
        return _segments(text)[:MAX_SEGMENTS]
    head, tail = _segments(text[:MAX_HEAD]), _segments(text[-MAX_TAIL:])
    # At the gap between the two readings, segments are torn.
    return (head[:-1] or head)[: MAX_SEGMENTS - 100] + tail[1:][-100:]


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


def _segments(text: str) -> list[Segment]:
    found: list[Segment] = []
    for look, lines in _blocks(text):
        for segment in _read_prose(lines) if look == "prose" else ():
            shown = " ".join(segment.text[:MAX_SEGMENT].split())
            if any(sign.isalnum() for sign in shown):
                found.append(Segment(text=shown, role=segment.role))
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
        is_apart = bool(block) and block[-1].look == "blank" and not line[:1].isspace()
        run = "prose" if now == "output" and is_apart and not fence else now
        belongs = _family("prose" if look == "fence" else look, line, run, bool(fence)) if fence == before else ""
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
    # Most lines of output have no mark of their own; one behind a blank line has one, or output is over.
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
    for end in _sentence_ends(text):
        yield Segment(text=text[begin : end.start()], role=role)
        begin = end.end()
    yield Segment(text=text[begin:], role=role)


def _sentence_ends(text: str) -> Iterator[re.Match[str]]:
    """Yield what parts the sentences of a line: the closing marks and the blanks behind each but the last."""
    begin = 0
    for end in SENTENCE_END.finditer(unquoted(text)):  # A quotation belongs to its surrounding sentence.
        part = text[begin : end.start()]
        is_counted = _ENUMERATED.search(part[-12:]) and (len(part) < MIN_COUNTED or _GOES_ON.match(text, end.end()))
        if not (is_counted or _ABBREVIATION.search(part[-12:])):
            yield end
            begin = end.end()


def headline(text: str) -> tuple[str, str]:
    """Return the first line of a text up to its first sentence's end, without its marks, and the rest in one line.

    A sentence of a few words takes the next one along; a long one is cut behind a clause or else a word, outside of
    code. In the rest, dots part items and headings.
    """
    line, _, below = text.strip().partition("\n")
    line = _LINE_MARK.sub("", line[:MAX_SEGMENT]).strip()
    read = _CODE_SPAN.sub(lambda code: "·" * len(code[0]), line[: 2 * MOST_HEADLINE])
    ends = (end.end() for end in _sentence_ends(read))
    end = next((each for each in ends if each >= LEAST_HEADLINE), len(line))
    if end > MOST_HEADLINE + LEAST_HEADLINE:
        cuts = [*_CUT.finditer(read, LEAST_HEADLINE, MOST_HEADLINE)] or [*_CUT.finditer(read, MOST_HEADLINE)][:1]
        end = max((each.end() for each in cuts if each["clause"]), default=cuts[-1].end() if cuts else MOST_HEADLINE)
    rest = [line[end:].strip()]
    for each in filter(None, (each.lstrip(" \\") for each in below[:MAX_SEGMENT].splitlines())):
        mark = _LINE_MARK.match(each)
        if mark and rest != [""]:
            rest.append("·")
        rest.append(each[mark.end() :] if mark else each)
    return line[:end].strip(), " ".join(rest).strip()


_ROLE_OF_LOOK: dict[str, SegmentRole] = {"heading": "heading", "item": "item", "quote": "quote", "row": "row"}
