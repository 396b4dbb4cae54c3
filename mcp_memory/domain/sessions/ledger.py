"""Collects the exact values of a session: files, commands, identifiers and values, verbatim, weighted by source.

Purely mechanical: it rewords and interprets nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, get_args

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.session_log import HEADED, INSTRUCTION_TOKENS, LABELS, Count, Entry
from mcp_memory.domain.sessions.tool_lines import call_fields
from mcp_memory.domain.text.exact_values import MAX_EXACT, Sort, exact_in, files_hit, subject_of

MOST_LISTED = 15
"""Most values of a summary's lists: a reader of more finds none."""
VALUES_PER_OUTPUT, FILES_PER_OUTPUT, OF_A_SERIES = 8, 5, 3
SEPARATOR = " · "
"""The separator of values on one line."""

_USERS, _SAID, _FAILED, _CALLED, _PRINTED = 3.0, 2.0, 2.0, 1.5, 0.5
"""Weights of an occurrence in the user's words, in others' words and blocks, in an error, a call, and an output."""
_AGED = 0.7
"""The share of a weight that remains when newer values are merged in."""
_UNUSED, _LOOKING = 0.2, 0.3
"""The shares of a weight that remain for a printed value that nobody took up, and for a command that only looks."""
_LEAST_PRINTED = 0.6
"""Least worth of a value in a tool's output."""
_FILE_KEYS = frozenset(
    "path file file_path filepath filename notebook_path paths files target source destination".split()
)
_COMMAND_KEYS = frozenset("command cmd script commands".split())


class _Weighed(NamedTuple):
    """A value of a text."""

    sort: Sort
    text: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Verbatim strings, each once, in order of first appearance; a value restated after another of its subject is last.

    `weights` gives the resistance of each against being dropped; 1.0 where it has none.
    """

    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict[str, float], compare=False)

    @property
    def lists(self) -> Mapping[Sort, tuple[str, ...]]:
        """The strings by their sort."""
        return {
            "files": self.files, "commands": self.commands, "identifiers": self.identifiers, "values": self.values,
        }  # fmt: skip


# e.g. the numbers in "batch 1: 500 rows"
_NUMBERS = re.compile(r"\d+")
# e.g. "5433", "v2.1", "HOLD_SWEEP", "a3f9c21"
_NAMING = re.compile(r"[\w.:/-]+")
_MOST_NAMING = 20_000
# '"payment_id": ': a field's name is in every record of a listing
_KEY = re.compile(r"\A[\"'][\w.-]{1,60}[\"']\s?:\s?")
# e.g. "ls -la src", "git log -n 3": commands that change nothing
_LOOKS = re.compile(
    r"(?:\S{1,200} )?(?:ls|cat|head|tail|less|grep|rg|find|sed -n|wc|ps|df|du|pwd|which|git (?:log|diff|status|show))\b"
)
# "```python\nx = 1\n```", to the end where nothing closes it
_FENCED = re.compile(r"^ {0,3}```[^\n]*\n(.*?)(?:^ {0,3}```\s*?$|\Z)", re.MULTILINE | re.DOTALL)
_FRAME = re.compile(
    rf"^\[(?:{'|'.join(LABELS[form] for form in (*HEADED, 'external'))})\b[^\n]{{0,200}}"
    rf"|(?<=^\[{LABELS['mask']}) id=\w+|(?: tokens=[\d,]+)(?: lines=[\d,]+)?(?: at=[\d:TZ-]+)?\](?=\n|\Z)"
    r"| \(open x[0-9a-f]+\)",
    re.MULTILINE,
)
"""Frames that blocks add around their content, e.g. "[GOAL BATCH …"; they hold no values."""


def values_in(text: str, limit: int) -> tuple[str, ...]:
    """Return the most informative exact values of a text, verbatim, best first: "port 5433", "timeout=30s"."""
    found = exact_in(text, names=False)
    best: dict[str, None] = {}
    for each in sorted(found, key=lambda one: (-one.worth, one.place)):
        best.setdefault(each.text)
    return tuple(_unlike(best))[:limit]


def ledger_of(entries: Iterable[Entry]) -> Ledger:
    """Collect the exact values of these entries; later and repeated ones weigh more."""
    # The client's prompt is in every request.
    read = tuple(part for entry in entries if entry.role != "system" for part in _code_apart(entry))
    said = frozenset[str]().union(*(_distinct(entry.text) for entry in read if entry.kind != "tool_result"))
    taken_up = frozenset(word for word in said if len(word) > 1)  # "1" numbers the items of a list.
    met: set[tuple[str, str]] = set()
    found: list[_Weighed] = []
    for place, entry in enumerate(read, 1):
        share = 0.5 + 0.5 * place / len(read)
        for sort, text, weight in _of(entry):
            is_unused = entry.kind == "tool_result" and not _distinct(_KEY.sub("", text)) & taken_up
            # A counter that is printed a hundred times is worth no more than once; one who speaks of it is.
            again = (text, entry.kind + entry.role) in met
            met.add((text, entry.kind + entry.role))
            found.append(_Weighed(sort, text, 0.0 if again else weight * share * (_UNUSED if is_unused else 1.0)))
    return _gathered(found)


def _code_apart(entry: Entry) -> Iterator[Entry]:
    """Yield an agent's message, or long material, without its blocks of code, and these like what a call writes.

    Nobody says the names in them.
    """
    is_material = entry.role == "assistant" or entry.tokens > INSTRUCTION_TOKENS
    is_told = entry.kind == "message" and entry.form == "original" and is_material
    blocks: list[str] = _FENCED.findall(entry.text) if is_told else []
    if not blocks:
        yield entry
        return
    yield replace(entry, text=_FENCED.sub("\n\n", entry.text))
    yield replace(entry, kind="tool_call", text="\n\n".join(blocks) + "\n")


def _distinct(text: str) -> frozenset[str]:
    """Return the words of a text that can name one thing: with a digit, or of some length with signs inside."""
    words = (word.strip(".:-/") for word in _NAMING.findall(text[:_MOST_NAMING]))
    return frozenset(word for word in words if "_" in word or any(sign.isdigit() for sign in word))


def merged(older: Ledger, newer: Ledger) -> Ledger:
    """Return both ledgers as one, each string once; the weights of the older one shrink."""
    return _gathered([*_weighed(older, _AGED), *_weighed(newer, 1.0)])


def fitted(ledger: Ledger, max_tokens: int, count: Count) -> Ledger:
    """Return as much of the ledger as fits so many tokens, a line each, and at most MOST_LISTED.

    The lightest goes first, then the earliest.
    """
    ranked = sorted(enumerate(_weighed(ledger, 1.0)), key=lambda each: (-each[1][2], -each[0]))
    kept: list[tuple[int, _Weighed]] = []
    left = max_tokens
    for place, each in ranked[:MOST_LISTED]:
        left -= count(each[1]) + 2
        if left < 0:
            break
        kept.append((place, each))
    return _gathered([each for _, each in sorted(kept)])


def without(ledger: Ledger, text: str) -> Ledger:
    """Return the ledger without what the text holds, if in other words: listing it again adds nothing."""
    told = _distinct(text)
    lists: dict[str, Any] = {
        sort: tuple(each for each in texts if each not in text and not (_distinct(each) and _distinct(each) <= told))
        for sort, texts in ledger.lists.items()
    }
    return replace(ledger, **lists)


def on_one_line(ledger: Ledger) -> str:
    """Return everything on one line, as `ledger_of` reads it back from a block's `Values:` or `Kept:` line."""
    return SEPARATOR.join((*ledger.values, *ledger.files, *ledger.commands, *ledger.identifiers))


def _gathered(found: Iterable[_Weighed]) -> Ledger:
    """Gather each string once. A value restated after another of the same subject is the newest, and goes last."""
    kept: dict[Sort, dict[str, None]] = {sort: {} for sort in get_args(Sort)}
    weights: dict[str, float] = {}
    newest: dict[str, str] = {}
    for sort, text, weight in found:
        weights[text] = weights.get(text, 0.0) + weight
        if sort == "values":
            subject = subject_of(text)
            if newest.get(subject, text) != text:
                kept[sort].pop(text, None)
            newest[subject] = text
        kept[sort].setdefault(text)
    return Ledger(**{sort: tuple(texts) for sort, texts in kept.items()}, weights=weights)


def _weighed(ledger: Ledger, share: float) -> Iterator[_Weighed]:
    for sort, texts in ledger.lists.items():
        yield from (_Weighed(sort, text, share * ledger.weights.get(text, 1.0)) for text in texts)


def _of(entry: Entry) -> Iterator[_Weighed]:
    if entry.form not in ("original", "external"):
        yield from _of_block(entry.text)
    elif entry.kind == "tool_call":
        yield from _of_arguments(entry)
    elif entry.kind == "tool_result":
        yield from _of_output(entry.text, _FAILED if entry.failed else _PRINTED)
    else:
        weight = _USERS if entry.is_users else _SAID
        weight = _SAID / 2 if entry.is_users and entry.tokens > INSTRUCTION_TOKENS else weight  # Mostly material.
        yield from (_Weighed(each.sort, each.text, weight * each.worth) for each in exact_in(entry.text))


def _of_block(text: str) -> Iterator[_Weighed]:
    """Yield the values that a block lists, unchanged, and those in its sentences."""
    rest: list[str] = []
    for line in _FRAME.sub("", text).split("\n"):
        label, _, listed = line.partition(": ")
        if label in ("Values", "Kept", "Files") and SEPARATOR in listed:
            most = MAX_EXACT if label == "Kept" else 2 * MAX_EXACT
            yield from (_Weighed(_sort_of(part), part, _SAID) for part in listed.split(SEPARATOR) if len(part) <= most)
        else:
            rest.append(line)
    for paragraph in "\n".join(rest).split("\n\n"):  # Of a long text only the beginning and the end are read.
        yield from (_Weighed(each.sort, each.text, _SAID * each.worth) for each in exact_in(paragraph))


def _sort_of(text: str) -> Sort:
    found = exact_in(text, names=True)
    return found[0].sort if found and found[0].text == text else "values"


def _of_output(text: str, weight: float) -> Iterator[_Weighed]:
    """Yield the best values of a tool's output: a listing names a hundred files, all equally unimportant."""
    found = exact_in(text, names=False)
    hit = files_hit(text)
    files = dict.fromkeys([*hit, *(each.text for each in found if each.sort == "files")])
    values = [each for each in found if each.sort == "values" and each.worth >= _LEAST_PRINTED]
    best = sorted(values, key=lambda one: (-one.worth, one.place))
    yield from (_Weighed("files", text, weight) for text in tuple(files)[: max(FILES_PER_OUTPUT, len(hit))])
    chosen = dict.fromkeys(each.text for each in best)
    told = frozenset(tuple(_unlike(chosen))[:VALUES_PER_OUTPUT])
    yield from (_Weighed("values", each.text, weight * each.worth) for each in values if each.text in told)


def _unlike(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts, with at most OF_A_SERIES of each series ("batch 1: 500 rows", "batch 2: 500 rows" and so on)."""
    met = Counter[str]()
    for text in texts:
        series = _NUMBERS.sub("0", text)
        met[series] += 1
        if met[series] <= OF_A_SERIES:
            yield text


def _of_arguments(entry: Entry) -> Iterator[_Weighed]:
    """Yield the files and commands that a call names; text that it writes counts like an output."""
    for key, text in _arguments(entry.text):
        if key in _FILE_KEYS and "\n" not in text and 0 < len(text) <= MAX_EXACT:
            yield _Weighed("files", text, _CALLED)
        elif key in _COMMAND_KEYS and text.strip():
            command = text.strip().split("\n", 1)[0]
            if len(command) <= 2 * MAX_EXACT:
                yield _Weighed("commands", command, _CALLED * (_LOOKING if _LOOKS.match(command) else 1.0))
        elif key != "prompt":  # What another agent is asked is no value of this work.
            yield from _of_output(text, _CALLED)


def _arguments(text: str) -> Iterator[tuple[str, str]]:
    """Yield each string of a call's JSON arguments with its key; else the whole text, with an empty key."""
    fields = call_fields(text)
    if fields is None:
        yield "", text
        return
    waiting: list[tuple[str, Json]] = [("", fields)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, Mapping):
            waiting.extend((name.lower(), part) for name, part in reversed(list(value.items())))
        elif isinstance(value, Sequence):
            waiting.extend((key, part) for part in reversed(value))
