"""What a logged event says of itself in a context: what was read, written or executed, and what went wrong."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache

from mcp_memory.domain.model.records import Detail, Record
from mcp_memory.domain.text.prompt_safety import LINE_CHARACTERS, neutralise, one_line
from mcp_memory.domain.text.words import STOP_WORDS, split_words

OUTPUT_LINES, OUTPUT_CHARACTERS = 4, 100
"""Of what a command wrote, as many of its last lines are shown, each cut to this."""
JSON_CHARACTERS: Mapping[Detail, int] = {"micro": 80, "summary": 400, "full": 400}
_TAIL = 1_000
"""Characters looked at of what a command wrote: it can be megabytes."""
_READ_FROM = 5_000

_WORD = re.compile(r"\w+")
_READ = frozenset("read reading open opened view viewed".split())
_WROTE = frozenset(
    "write writing wrote written edit edited create created modify modified patch patched save saved".split()
)
_EXECUTED = frozenset("execute executed exec command run ran bash shell terminal".split())
_ERROR = frozenset("error exception failure failed crash crashed traceback".split())
_SAYS_NOTHING = STOP_WORDS | _READ | _WROTE | _EXECUTED | _ERROR | frozenset("file path event".split())


def event_body(record: Record, text: str, detail: Detail) -> str:
    """`Read: path`, `Wrote: path [outcome]`, ``Executed: `command` [outcome]`` with output, or `Error: message`.

    Any other event: its details as JSON. The text follows where it says more than the details; it is all there is
    where there are none. `micro` goes without output.
    """
    outcome = _detail(record, "outcome") or record.outcome
    ending = f" [{one_line(outcome)}]" if outcome else ""
    headline, takes_outcome = _headline(record, detail)
    if not headline:
        return neutralise(text) + ending
    line = headline + (ending if takes_outcome else "")
    said = f" — {neutralise(text)}" if says_more(text, _values(record)) else ""
    output = _output(record) if headline.startswith("Executed") and detail != "micro" else ""
    return line + said + output


def says_more(text: str, told: str) -> bool:
    """Whether a text has a word that tells something and is not told already."""
    known = told.casefold()
    words = _WORD.findall(text.casefold())
    return any(word not in _SAYS_NOTHING and word not in known for word in words)


def _headline(record: Record, detail: Detail) -> tuple[str, bool]:
    """What happened, in our words, and whether its outcome belongs behind it; empty where the details are."""
    words = _type_words(_detail(record, "type"))
    path, command = one_line(_detail(record, "path")), one_line(_detail(record, "command"))
    if path and words & _READ:
        return f"Read: {path}", False
    if path and words & _WROTE:
        return f"Wrote: {path}", True
    if command and (words & _EXECUTED or not words):
        return f"Executed: `{command}`", True
    stack = _detail(record, "stack")
    message = _detail(record, "message") or _last_line(stack)
    if message and (words & _ERROR or stack):
        return f"Error: {one_line(message, 2 * LINE_CHARACTERS)}", False
    if not record.details:
        return "", True
    most = JSON_CHARACTERS[detail]
    # A longer text would be cut anyway: it need not be written first.
    shown = {name: value[:most] if isinstance(value, str) else value for name, value in record.details.items()}
    as_json = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    return one_line(as_json, most), "outcome" not in record.details


@lru_cache(maxsize=256)
def _type_words(event_type: str) -> frozenset[str]:
    """A context holds many events of few types."""
    return frozenset(word.casefold() for word in split_words(event_type))


def _output(record: Record) -> str:
    """The last lines that the command wrote, errors last, each on a line of its own."""
    streams = (_detail(record, name)[-_TAIL:].splitlines() for name in ("stdout", "stderr"))
    lines = [line.strip()[:OUTPUT_CHARACTERS] for stream in streams for line in stream if line.strip()]
    # The first is empty, and goes: what follows it is no beginning of a line of ours.
    return "\n  " + neutralise("\n".join(["", *lines[-OUTPUT_LINES:]])) if lines else ""


def _detail(record: Record, name: str) -> str:
    value = record.details.get(name)
    return value if isinstance(value, str) else ""


def _last_line(text: str) -> str:
    lines = text[-_TAIL:].strip().splitlines()
    return lines[-1] if lines else ""


def _values(record: Record) -> str:
    return "\n".join(value[:_READ_FROM] for value in record.details.values() if isinstance(value, str))
