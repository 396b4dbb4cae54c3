"""Renders a context as text: its sections, the lines of its items, and the fence around them."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mcp_memory.domain.model.graph import EntityFacts
from mcp_memory.domain.model.lifecycle import NOTED
from mcp_memory.domain.model.records import (
    ASKED_AS,
    HOLDS,
    IMPORTED_AT,
    IMPORTED_BY,
    LOG_KINDS,
    Instant,
    Json,
    Record,
    Relation,
    ShownDetail,
    output_lines,
)
from mcp_memory.domain.model.sections import CONTEXT_TITLES
from mcp_memory.domain.text.lexicon import STOP_WORDS
from mcp_memory.domain.text.prompt_safety import LINE_CHARACTERS, bold_name, by, neutralise, one_line
from mcp_memory.domain.text.times import iso_day, iso_minute
from mcp_memory.domain.text.words import split_words

JSON_CHARACTERS: Mapping[ShownDetail, int] = {"micro": 80, "summary": 400, "passage": 400, "full": 400}
_TAIL = 1_000
"""Characters read from the end of an error's stack."""
_READ_FROM = 5_000
_UNTOLD = frozenset({ASKED_AS, IMPORTED_AT, IMPORTED_BY})
"""Details that are about a record, and no part of the event that it tells."""

_ANY_WORD = re.compile(r"\w+")
_READ_WORDS = frozenset("read reading open opened view viewed".split())
_WRITE_WORDS = frozenset(
    "write writing wrote written edit edited create created modify modified patch patched save saved".split()
)
_RUN_WORDS = frozenset("execute executed exec command run ran bash shell terminal".split())
_ERROR_WORDS = frozenset("error exception failure failed crash crashed traceback".split())
_SAYS_NOTHING = STOP_WORDS.union(_READ_WORDS, _WRITE_WORDS, _RUN_WORDS, _ERROR_WORDS, ("file", "path", "event"))


def event_body(record: Record, text: str, detail: ShownDetail) -> str:
    """Return `Read: path`, `Wrote: path [outcome]`, ``Executed: `command` [outcome]`` with output, or `Error: message`.

    Any other event: its details as JSON. The text follows where it adds to the details; without details it is the
    whole body. `micro` omits the output.
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
    """Return True where a text has a meaningful word that `told` lacks."""
    known = told.casefold()
    words = _ANY_WORD.findall(text.casefold())
    return any(word not in _SAYS_NOTHING and word not in known for word in words)


def _headline(record: Record, detail: ShownDetail) -> tuple[str, bool]:
    """Return the headline of an event, and whether its outcome belongs behind it; empty without details."""
    words = _type_words(_detail(record, "type"))
    path, command = one_line(_detail(record, "path")), one_line(_detail(record, "command"))
    if path and words & _READ_WORDS:
        return f"Read: {path}", False
    if path and words & _WRITE_WORDS:
        return f"Wrote: {path}", True
    if command and (words & _RUN_WORDS or not words):
        return f"Executed: `{command}`", True
    stack = _detail(record, "stack")
    message = _detail(record, "message") or _last_line(stack)
    if message and (words & _ERROR_WORDS or stack):
        return f"Error: {one_line(message, 2 * LINE_CHARACTERS)}", False
    most = JSON_CHARACTERS[detail]
    # A longer text would be cut anyway: skip writing it.
    told = ((name, value) for name, value in record.details.items() if name not in _UNTOLD)
    shown = {name: value[:most] if isinstance(value, str) else value for name, value in told}
    if not shown:
        return "", True
    as_json = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    return one_line(as_json, most), "outcome" not in record.details


@lru_cache(maxsize=256)
def _type_words(event_type: str) -> frozenset[str]:
    """Return the words of an event's type. Cached: a context holds many events of few types."""
    return frozenset(word.casefold() for word in split_words(event_type))


def _output(record: Record) -> str:
    """Return the last lines that the command wrote, each on a line of its own."""
    lines = output_lines(record.details)
    # The empty first line is dropped: the text after it begins no line of ours.
    return "\n  " + neutralise("\n".join(["", *lines])) if lines else ""


def _detail(record: Record, name: str) -> str:
    value = record.details.get(name)
    return value if isinstance(value, str) else ""


def _last_line(text: str) -> str:
    lines = text[-_TAIL:].strip().splitlines()
    return lines[-1] if lines else ""


def _values(record: Record) -> str:
    told = (value for name, value in record.details.items() if name not in _UNTOLD)
    return "\n".join(value[:_READ_FROM] for value in told if isinstance(value, str))


PROPERTIES_SHOWN = 8
"""Most properties shown of an entity."""
SHORT_CHARACTERS = 80
"""Characters shown of a name or a property's value."""
_CLOSED = (".", "!", "?", "…", "。")
# e.g. "- [r000017 procedure 2026-03-03] **Release:** "
_NAMED_PROCEDURE = re.compile(r"^(- \[[^\]\n]*\] )\*\*(.+?):\*\* ")
"""The opening of a named procedure's line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One item of a section, already rendered.

    Items of one `group` may share its title; then each shows its `short` text, in the order of `time`.
    """

    section: str
    text: str
    group: str = ""
    short: str = ""
    time: Instant = 0.0


def record_frame(
    record: Record, *, day_only: bool = False, author: str = "", says_role: bool = False
) -> tuple[str, str]:
    """Return the text around a record's body: `- [id kind date by author] speaker: ` and ` (outcome: …)`.

    The author is inside the brackets, where no stored text can be; the reader's own records name none. The log's
    times are UTC and to the minute unless the day is enough. An event's body includes its outcome. With `says_role`, a
    message without a speaker names who spoke: `user: `.
    """
    to_the_minute = record.kind in LOG_KINDS and not day_only
    date = iso_minute(record.occurred_at).rstrip("Z") if to_the_minute else iso_day(record.occurred_at)
    role = f"{record.role}: " if says_role and record.role and not record.speaker and record.kind == "message" else ""
    return f"- [{record.id} {record.kind} {date}{by(author)}] {_opening(record)}{role}", _ending(record)


def group_title(record: Record) -> str:
    """Return the title that a record of the log shares with others of its day and kind; empty for any other.

    Turns of one day come by the dozen, and their common part would take a third of their tokens.
    """
    return f"{iso_day(record.occurred_at)} {record.kind}" if record.kind in LOG_KINDS else ""


def frame_in_group(record: Record, author: str = "") -> str:
    """Return the text before a record's body below the title of its group: `- [id by author] speaker: `."""
    return f"- [{record.id}{by(author)}] {_opening(record)}"


def record_body(record: Record, text: str, detail: ShownDetail = "summary") -> str:
    """Return a record's body in one of its forms: the text, or text made from its details, safe to show."""
    if shows_text_alone(record):
        # A procedure without a name has none: bold text at its beginning does not become a title.
        return f"\\{neutralise(text)}" if record.kind == "procedure" and text.startswith("**") else neutralise(text)
    if record.kind == "event":
        return event_body(record, text, detail)
    if record.kind == "decision":
        return _decision(record, text, detail)
    return _constraint(record, text, LINE_CHARACTERS // 2 if detail == "micro" else LINE_CHARACTERS)


def record_line(record: Record, text: str, detail: ShownDetail = "summary", author: str = "") -> str:
    """Return the whole item of a record in one of its forms."""
    before, after = record_frame(record, author=author)
    return f"{before}{record_body(record, text, detail)}{after}"


def shows_text_alone(record: Record) -> bool:
    """Return True where the body is only the text, so that the text's token count is the body's."""
    if record.kind == "censor":
        return not any(str(record.details.get(name) or "").strip() for name in ("trigger", "reason"))
    if record.kind == "decision":
        return not record.details.get("reasons")
    return record.kind != "event" or not (record.details or record.outcome)


def entity_line(entity: EntityFacts) -> str:
    """Return `- **type**: name (key: value, …)`, without the brackets for an entity without properties."""
    said = [
        f"{one_line(key, SHORT_CHARACTERS)}: {value_line(value, SHORT_CHARACTERS)}"
        for key, value in entity.properties.items()
    ]
    shown = [*said[:PROPERTIES_SHOWN], "…"] if len(said) > PROPERTIES_SHOWN else said
    properties = f" ({', '.join(shown)})" if shown else ""
    return f"- **{bold_name(entity.type, SHORT_CHARACTERS)}**: {one_line(entity.name)}{properties}"


def relation_line(relation: Relation) -> str:
    """Return `- a --[type]--> b`."""
    source, kind, target = (one_line(name) for name in (relation.source, relation.type, relation.target))
    return f"- {source} --[{kind}]--> {target}"


def render(lines: Sequence[Line], request_digest: str = "", link: str = "") -> tuple[str, str]:
    """Return the fenced block and its id, a digest of its text and of the request.

    `link` is an attribute of the fence that names the block this one continues.
    """
    body = _body(lines)
    digest = hashlib.blake2b(f"{request_digest}{link}\n{body}".encode("utf-8", "replace"), digest_size=5).hexdigest()
    context_id = f"c{digest}"
    inside = f"{body}\n" if body else ""
    return f'<memory-context id="{context_id}"{link}>\n{inside}</memory-context>', context_id


def _body(lines: Sequence[Line]) -> str:
    parts: list[str] = []
    for section in CONTEXT_TITLES:
        here = [line for line in lines if line.section == section]
        if section == "Procedure":
            parts.extend(_procedures([line.text for line in here]))
        elif here:
            parts.append("\n".join([f"## {section}", *_grouped(here)]))
    return "\n".join(parts)


def _grouped(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the items of a section: single ones, then the groups, the best item's first, each in order of time."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.group, []).append(line)
    alone = {title for title, members in groups.items() if not title or len(members) == 1}
    yield from (line.text for line in lines if line.group in alone)
    for title in (title for title in groups if title not in alone):
        yield f"### {title}"
        yield from (line.short for line in sorted(groups[title], key=lambda line: line.time))


def _procedures(texts: Sequence[str]) -> Sequence[str]:
    """Render procedures: a single one gives its name to the section, several each keep their own."""
    if len(texts) != 1:
        return ["\n".join(["## Applicable Patterns", *texts])] if texts else []
    named = _NAMED_PROCEDURE.match(texts[0])
    return (
        [f"## Procedure: {named[2]}\n{named[1]}{texts[0][named.end() :]}"] if named else [f"## Procedure\n{texts[0]}"]
    )


def _opening(record: Record) -> str:
    """Return the body's prefix: a censor's action, a procedure's name, the speaker, the tool."""
    name = record.details.get("name")
    if record.kind == "censor":
        opening = "**BLOCK:** " if record.details.get("action") == "block" else "**WARN:** "
    elif record.kind == "procedure" and isinstance(name, str) and name.strip():
        opening = f"**{bold_name(name, SHORT_CHARACTERS)}:** "
    elif record.kind in ("tool_call", "tool_result") and record.tool:
        opening = f"{one_line(record.tool, SHORT_CHARACTERS)}: "
    else:
        opening = ""
    return opening + (f"{one_line(record.speaker, SHORT_CHARACTERS)}: " if record.speaker else "")


def _constraint(record: Record, text: str, most: int) -> str:
    """Return `when trigger — text. Because: reason`, without what another part says already.

    "when push to main — Use a branch. Because: it broke production"
    """
    trigger, reason = (str(record.details.get(name) or "").strip() for name in ("trigger", "reason"))
    adds = says_more(text, f"{trigger}\n{reason}")
    when = f"when {one_line(trigger, most)}" if trigger else ""
    said = " — ".join(part for part in (when, neutralise(text) if adds else "") if part)
    why = "" if adds and not says_more(reason, text) else one_line(reason, most)
    if not said or not why:
        return said or why
    return f"{said}{'' if said.endswith(_CLOSED) else '.'} Because: {why}"


def _decision(record: Record, text: str, detail: ShownDetail) -> str:
    """Return the decision and, where there is room, its reasons, unless the text contains them."""
    given = record.details.get("reasons")
    reasons = given if isinstance(given, str) else "; ".join(map(str, given)) if isinstance(given, Sequence) else ""
    if detail == "micro" or not says_more(reasons, text):
        return neutralise(text)
    return f"{neutralise(text)} (because: {one_line(reasons)})"


def _ending(record: Record) -> str:
    """Return the outcome, the confidence, marks (mostly failing, not confirmed yet), and when or where it holds."""
    outcome = f"outcome: {record.outcome}" if record.outcome and record.kind != "event" else ""
    confidence = "" if record.confidence is None else f"confidence: {round(record.confidence * 100)} %"
    flag = "ineffective" if record.kind == "procedure" and record.status == "ineffective" else ""
    noted = "noted, not confirmed" if record.status == NOTED else ""
    holds = f"holds: {one_line(str(record.details[HOLDS]))}" if record.details.get(HOLDS) else ""
    known = ", ".join(part for part in (outcome, confidence, flag, noted, holds) if part)
    check = to_be_checked([ground.id for ground in record.check], iso_day(record.check[0].at)) if record.check else ""
    return (f" ({known})" if known else "") + (f" {check}" if check else "")


def to_be_checked(ground_ids: Sequence[str], day: str) -> str:
    """Return the note on a record whose grounds changed: "to be checked (r000017 changed 2026-11-03)"."""
    return f"to be checked ({', '.join(ground_ids)} changed {day})"


def value_line(value: Json, most: int) -> str:
    """Return a value in one line of at most so many characters: a list of texts by commas, any but a text as JSON."""
    if isinstance(value, str):
        return one_line(value, most)
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return one_line(", ".join(str(item) for item in value), most)
    return one_line(json.dumps(value, ensure_ascii=False, separators=(",", ":")), most)
