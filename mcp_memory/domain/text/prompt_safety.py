"""Keeps stored texts data: no text closes the fence of a context, or contains a part that reads as one of ours.

The folded form of a text (`look_alikes`) shows its look. The shown text keeps its own characters, and gets a
backslash before each part that reads as ours. Invisible characters, and those that turn the direction of the text,
are removed or spelled out.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache

from mcp_memory.domain.model.context_sections import CONTEXT_TITLES
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import LABELS
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.domain.text.look_alikes import BLANKS, UNSEEN, decoded, folded, may_open, origins

LINE_CHARACTERS = 160
"""Characters of a stored name, path or value within a line of ours; the rest is cut."""

MOST_ROUNDS = 8
"""Rounds of escaping. Two are enough for human texts; this bounds the work for a hostile one."""
_SAME = {"i": "[il1|!]", "l": "[il1|!]", "o": "[o0]", "m": "(?:m|rn)", "w": "(?:w|vv)", " ": r"\s{0,3}"}


def _spelled(words: str) -> str:
    """Return a pattern for words of ours in folded text, where "rn" looks like "m", and "1" like "l"."""
    return "".join(_SAME.get(letter, letter) for letter in words.lower())


def _spaced(word: str) -> str:
    """Return a pattern for a word of ours with white space anywhere inside: a reader of tags passes over it."""
    return r"\s{0,3}".join(_SAME.get(letter, letter) for letter in word)


# e.g. "</memory-context>", "< memory context", "</mem\tory-context>"
_OUR_FENCE = re.compile(rf"<[\s/\\]*+{_spaced('memory')}[-_.*\s]{{0,20}}{_spaced('context')}")
_MARKED = re.compile(rf"(?P<marks>\*[ ]?\*|_[ ]?_)\s{{0,3}}(?:{_spelled('block')}|{_spelled('warn')})\s{{0,3}}[:*_]")
"""Labels `**BLOCK:**` and `**WARN:**`, at the beginning of a constraint."""
_ITEM_LABEL = re.compile(
    # [r000017 decision 2026-03-03], [r000017 03-03], [r000017 10:42]
    r"\[\s{0,20}r[0-9a-z]{6,24}\s{1,20}(?:[a-z_]{3,20}\s{1,20})?(?:[\doil]{4}-|[\doil]{2}[-:][\doil]{2})"
    rf"|\[\s{{0,3}}(?:{'|'.join(map(_spelled, LABELS.values()))})"
)
_AUTHOR = re.compile(r"[(\[](?=\s{0,3}by\s[^()\[\]\n]{1,80}[)\]][^\S\n]*$)", re.MULTILINE)
"""The author `(by NAME)` at the end of a line."""
# e.g. "[r000017] " where a text begins, right behind a label of ours
_LEADING_LABEL = re.compile(r"\s{0,20}(?=\[\s{0,3}[rt][0-9a-z]{6})")
_MARKER = re.compile(
    r"[(\[](?=\s{0,3}(?:"
    r"[\doil]{1,3}\s?% " + _spelled("sure") + rf"|{_spelled('part')} [\doil]+ {_spelled('of')} [\doil]"
    rf"|(?:{_spelled('before')}|{_spelled('superseded by')}) [rt][0-9a-z]{{6}}"
    rf"|(?:{'|'.join(map(_spelled, ('superseded', 'inactive', 'retired', 'ineffective')))})\s{{0,3}}[)\]]"
    rf"|(?:{_spelled('past')}:\s{{0,3}}|{_spelled('not yet')}:\s{{0,3}})?"
    rf"(?:{_spelled('from')}|{_spelled('until')}) [\doil]{{4}}-"
    rf"|{_spelled('task')}(?::| (?:{_spelled('failed')}|{_spelled('abandoned')})\s{{0,3}}[:)\]])"
    rf"|{_spelled('noted, not confirmed')}|{_spelled('holds')}:|{_spelled('to be checked')}))"
    r"|(?<![a-z])(?=because\s{0,3}:)"
    rf"|>(?=\s{{0,3}}(?:{'|'.join(map(_spelled, ('success', 'partial', 'pending', 'failure')))})(?![a-z]))"
)
"""The markers behind a record's words: `(70 % sure)`, `(before r000017, 2026-03-03: …)`, `Because: …`, `→ failure`.

They are made in domain/context/rendering.py and services/tasks/task_marks_on_records.py.
"""
_BARE_MARKER = re.compile("because|>")
"""A part of each marker that stands without brackets, in folded text, where an arrow is ">"."""
_INSIDE = r"(?:[ >]++|[-+](?=[ >#\[*])|\*(?=[ >#\[])|\d{1,9}+[.)](?=[ >]))*+"
"""Quotes and lists that enclose the beginning of a line: `> - 1. `."""
_BEGINNING = re.compile(
    rf"^(?:{_INSIDE}(?:"
    # ## Identity; a title of ours looks like a heading even without the space
    rf"\#{{1,6}}(?:[ ]|$|[*_`~]{{0,3}}(?:{'|'.join(map(_spelled, CONTEXT_TITLES))})\b)"
    r"|\[\s{0,3}(?:[rt][0-9a-z]{6}|[\doil]{4}-[\doil]{2}))"  # [r000017 …], [2026-03-03 12:00] Read:
    r"|[ >]*+(?:=[= ]*+|-[- ]*+)$"  # The underline of a heading.
    r"|[ >]*+(?:\d{1,9}+[.)][ >]++)?[-*+][ ]*+(?:[-*+>][ ]++)*+"
    # - [r000017], - **person**: Ada, - now [t000004]: goal, - Ada --[leads]--> Babbage
    r"(?:\[|\*[ ]?\*|\*(?=[^*\n]{1,60}\*[ ]?\*)|__|[^\[\n]{0,60}\[\s{0,3}t[0-9a-z]{6}"
    r"|[^\n]*?-[ ]?\[[^\[\]\n]{1,60}\][ ]?-++[ ]?>))",
    re.MULTILINE,
)
# e.g. "```py", "> ~~~"
_FENCED = re.compile(r"[ >]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)")

# e.g. "[r000017", or any "[" that opens a line
_ID_BRACKET = re.compile(r"^\[|\[(?=\s*[rt][0-9a-z]{6})")
_PLAIN_SIGNS = re.compile(r"[<>&\\%\[*_(]")
"""Signs of which each pattern above needs at least one, in one line of ASCII."""
# e.g. "\u202e", which turns the text after it
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_OVERRIDE = re.compile("\u202e([^\u202a-\u202e\u2066-\u2069\n]*)")
"""The text that a right-to-left override shows backwards. A browser mirrors brackets as well, other programs do not."""
_MIRRORS: tuple[dict[int, int], ...] = ({}, str.maketrans("()[]<>{}", ")(][><}{"))
_SHOWN_AS_SPACE = str.maketrans({"\u2028": "\n", "\u2029": "\n", **dict.fromkeys(BLANKS, " ")})
"""Line breaks, and letters that show as a blank."""
_ODD = re.compile(f"[{UNSEEN}{BLANKS}\u2028\u2029]")
"""Characters that `readable` may change; nearly every text has none of them."""
_JOINED = "[^\x00-\u00bf\u2000-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
"""Characters that a joiner may join: letters beyond Latin-1, and emoji."""
_SHAPING = (
    # A flag of a region is spelled with tags, and ends with one.
    "(?P<flag>\U0001f3f4[\U000e0030-\U000e007a]{1,8}\U000e007f)"
    # Joiners shape words of many scripts and join emoji; a variation selector chooses how an emoji looks.
    f"|(?<={_JOINED})(?P<joiner>[\u200c\u200d]|[\ufe0e\ufe0f][\u200d]?)(?={_JOINED})"
    # After a virama a joiner chooses the form of the letter before it, also at a word's end, as in Malayalam.
    "|(?<=[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca])(?P<virama>[\u200c\u200d])"
    f"|(?<={_JOINED})(?P<variant>[\ufe0e\ufe0f])|(?<=[0-9#*])(?P<keycap>\ufe0f)(?=\u20e3)"
)
"""Invisible characters that shape what is seen; each is a group of _KEPT."""
_UNSEEN = re.compile(f"{_SHAPING}|[{UNSEEN}]")
_HIDING = re.compile(
    f"{_SHAPING}|(?P<sign>[{UNSEEN}{BLANKS}\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\u2800"
    "\U00013430-\U0001343f\ud800-\udfff])(?P=sign)*+"
)
"""Signs that a page does not show, or that turn what follows; and runs of one such sign."""
_KEPT = ("flag", "joiner", "virama", "variant", "keycap")


SHORT = 400
"""Characters of a text whose harmless form is kept: of a summary, or a line."""


def neutralise(text: str) -> str:
    """Return a stored text as data: it cannot close the fence, or contain a line or a label that reads as one of ours.

    Takes time linear in the length of the text.
    """
    if text.isascii() and text.isprintable() and not _PLAIN_SIGNS.search(text) and "because" not in text.lower():
        return text  # One plain line, as most are.
    return _kept_harmless(text) if len(text) <= SHORT else _harmless(text)


def _harmless(text: str) -> str:
    text = readable(text)
    is_plain = "\n" not in text and not may_open(text) and not _TURNING.search(text)
    if is_plain and not _BARE_MARKER.search(folded(text)):
        return text
    text = _with_turns_spelled_out(_without_imitations(text))
    if "\n" not in text:
        return text
    return "\n  ".join(line for line in _without_open_code(text.split("\n")) if line.strip())


_kept_harmless = lru_cache(maxsize=4_096)(_harmless)
"""Contexts weigh the same short forms again and again, some hundreds each time."""


def one_line(text: str, most: int = LINE_CHARACTERS) -> str:
    """Return a stored name or value for the middle of a line: no line break, no id in brackets, at most `most` long."""
    line = " ".join(readable(text[: 4 * most]).split())
    is_whole = len(line) <= most and len(text) <= 4 * most
    return neutralise(_ID_BRACKET.sub(r"\\[", line if is_whole else f"{line[: most - 1].rstrip()}…"))


def bold_name(text: str, most: int = LINE_CHARACTERS) -> str:
    """Return a stored name for a place in bold, where `**BLOCK:**` must not appear."""
    line = one_line(text, most)
    return f"\\{line}" if _MARKED.match(f"**{folded(line)}:") else line


def readable(text: str) -> str:
    """Return the text without invisible characters, with LF for every line break; direction marks stay.

    Joiners stay where they shape a word or an emoji.
    """
    text, _ = without_controls(text)
    if text.isascii() or not _ODD.search(text):
        return text
    return _UNSEEN.sub(lambda match: match[0] if match.lastgroup in _KEPT else "", text.translate(_SHOWN_AS_SPACE))


def spelled_out(text: str) -> str:
    """Return the text for a person to see: each sign that hides or turns text by its number, as ⟦U+202E⟧.

    A run of one sign is told once, ⟦U+200B × 40⟧. Joiners stay where they shape a word or an emoji. Takes time linear
    in the length of the text.
    """

    def told(match: re.Match[str]) -> str:
        if match.lastgroup in _KEPT:
            return match[0]
        times = f" × {len(match[0])}" if len(match[0]) > 1 else ""
        return f"⟦U+{ord(match['sign']):04X}{times}⟧"

    return _HIDING.sub(told, text)


def _without_imitations(text: str) -> str:
    """Return the text with a backslash before each imitation of ours, and a bracket in place of each fence opening."""
    # An imitation may appear only after a part before it is changed.
    for _ in range(MOST_ROUNDS):
        edits = dict(_edits(folded(decoded(text))))
        if not edits:
            return text
        spans = origins(text)
        placed = {spans[place] if spans else (place, place + 1): instead for place, instead in edits.items()}
        parts, rest = list[str](), 0
        for (start, end), instead in sorted(placed.items()):
            parts += text[rest:start], instead or f"\\{text[start:end]}"
            rest = end
        text = "".join([*parts, text[rest:]])
    # A text that nests imitations deeper than this gets every sign escaped that could begin one.
    escaped = _PLAIN_SIGNS.sub(r"\\\g<0>", text).split("\n")
    return "\n".join(line if line.startswith("\\") else f"\\{line}" for line in escaped)


def _edits(plain: str) -> Iterator[tuple[int, str]]:
    """Yield places in a folded text, each with its replacement; "" for a backslash before it."""
    if "<" in plain:
        yield from ((match.start(), "(") for match in _OUR_FENCE.finditer(plain))
    if any(marks in plain for marks in ("**", "* *", "__", "_ _")):
        for match in _MARKED.finditer(plain):
            yield from ((match.start(), ""), (match.end("marks") - 1, ""))
    if "[" in plain:
        yield from (
            (match.start(), "") for match in _ITEM_LABEL.finditer(plain) if not _is_escaped(plain, match.start())
        )
    yield from ((match.start(), "") for match in _MARKER.finditer(plain) if not _is_escaped(plain, match.start()))
    if (label := _LEADING_LABEL.match(plain)) and not _is_escaped(plain, label.end()):
        yield label.end(), ""
    if "by " in plain:
        yield from ((match.start(), "") for match in _AUTHOR.finditer(plain) if not _is_escaped(plain, match.start()))
    # The beginning of the first line does not begin a line of the block.
    if (break_at := plain.find("\n")) >= 0:
        for match in _BEGINNING.finditer(plain, break_at):
            yield match.start() + len(match[0]) - len(match[0].lstrip(" ")), ""


def _is_escaped(plain: str, place: int) -> bool:
    """Return True where an odd number of backslashes precedes the place: two are one that escapes nothing."""
    start = place
    while start and plain[start - 1] == "\\":  # Runs before different places do not overlap, so all are read once.
        start -= 1
    return (place - start) % 2 == 1


def _with_turns_spelled_out(text: str) -> str:
    """Return the text with direction marks spelled out, or removed in a line that displayed would read as ours."""
    plain = decoded(text)
    if plain.isascii() or not _TURNING.search(plain):
        return text
    lines = text.split("\n")
    for place, line in enumerate(lines):
        plain = decoded(line)
        before = "\n" if place else ""
        if any(True for mirror in _MIRRORS for _ in _edits(folded(before + _as_displayed(plain, mirror)))):
            lines[place] = _TURNING.sub("", plain)
    return _TURNING.sub(lambda match: f"\\u{ord(match[0]):04x}", "\n".join(lines))


def _as_displayed(line: str, mirror: Mapping[int, int]) -> str:
    """Return the line as displayed: text under a right-to-left override backwards, with its brackets mirrored."""

    def backwards(match: re.Match[str]) -> str:
        return match[1][::-1].translate(mirror)

    return _OVERRIDE.sub(backwards, line)


def _without_open_code(lines: list[str]) -> list[str]:
    """Return the lines, with a backslash before each fence of code from the first unclosed one on.

    It would take in the rest of the context.
    """
    plain = folded("\n".join(lines))
    if "```" not in plain and "~~~" not in plain:
        return lines
    fences = [
        (place, fence) for place, line in enumerate(plain.split("\n")) if place and (fence := _FENCED.match(line))
    ]
    opened: tuple[int, str] | None = None
    for place, fence in fences:
        if opened is None:
            opened = (place, fence["fence"])
        elif fence["fence"].startswith(opened[1]) and not fence["info"].strip():
            opened = None
    if opened is None:
        return lines
    open_ones = {place for place, _ in fences if place >= opened[0]}
    return [f"\\{line.lstrip()}" if place in open_ones else line for place, line in enumerate(lines)]


AGENT_CHARACTERS = 32
"""Characters shown of a longer name, with a digest of the whole."""
# e.g. "claude-code", "Ada Lovelace"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@+-]| (?=[A-Za-z0-9]))*")
# e.g. "-4f2a9c"
_LOOKS_LIKE_A_DIGEST = re.compile(r"-[0-9a-f]{6}")
# e.g. the "!" in "Ada!"
_NOT_A_LETTER = re.compile(r"[^\w.@+-]+")
_TAKEN = frozenset(
    "i me my myself you your yourself self us we owner user human person system developer assistant tool admin root"
    " memory mcp-memory by nobody unknown upkeep".split()
)
"""Names that would claim who vouches for a record, instead of naming the agent that stored it."""


def is_own(record: Record, caller: Caller) -> bool:
    """Return True for texts of the caller's agent, and for its person's, which any agent of that person may write."""
    return is_own_by(record, author(record.author, caller))


def is_own_by(record: Record, author: str) -> bool:
    """Return the same of the author that a line names, "" for the reader."""
    return not author or record.visibility == "user"


def author(agent: str, caller: Caller) -> str:
    """Return the name to show for the agent that wrote a text or is in a task; "" for the caller."""
    return "" if agent == caller.agent else shown_name(agent, beside=caller.agent)


def by(name: str) -> str:
    """Return the words behind an id that name its author: ` by NAME`; "" for the reader's own."""
    return f" by {name}" if name else ""


@lru_cache(1_024)  # A list has the same few agents in every line.
def shown_name(agent: str, *, beside: str = "") -> str:
    """Return an agent's name in at most AGENT_CHARACTERS, unchanged where it is plain.

    Any other name, a reserved one, and one that looks like the name `beside` it end in a digest, so that no two
    agents look alike.
    """
    words = set(re.split(r"[ ._@+-]", agent.casefold()))
    is_plain = (
        _PLAIN_NAME.fullmatch(agent) and len(agent) <= AGENT_CHARACTERS and not _LOOKS_LIKE_A_DIGEST.search(agent[-7:])
    )
    if is_plain and not set(map(_shape, words)) & _taken_shapes() and _shape(agent) != _shape(beside):
        return agent
    digest = hashlib.blake2b(agent.encode("utf-8", "replace"), digest_size=3).hexdigest()
    plain = _NOT_A_LETTER.sub("_", readable(agent[: 4 * AGENT_CHARACTERS])).strip("_")[: AGENT_CHARACTERS - 7]
    return f"{plain}-{digest}" if plain else f"agent-{digest}"


@cache
def _taken_shapes() -> frozenset[str]:
    return frozenset(map(_shape, _TAKEN))


def _shape(name: str) -> str:
    """Return the look of a name at a glance."""
    return folded(name).translate(str.maketrans("1i|0", "lllo")).replace("rn", "m").replace("vv", "w").strip()
