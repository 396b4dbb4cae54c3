"""Renders a context as text: its sections, the lines of its items, and the fence around them."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mcp_memory.domain.model.context_sections import CONTEXT_TITLES, section_of
from mcp_memory.domain.model.contexts import BlockPart
from mcp_memory.domain.model.graph import EntityFacts
from mcp_memory.domain.model.lifecycle import NOTED, denies
from mcp_memory.domain.model.records import (
    ASKED_AS,
    HOLDS,
    IMPORTED_AT,
    IMPORTED_BY,
    LOG_KINDS,
    Details,
    Instant,
    Json,
    Kind,
    Record,
    Relation,
    ShownDetail,
    Status,
    output_lines,
)
from mcp_memory.domain.text.lexicon import STOP_WORDS
from mcp_memory.domain.text.prompt_safety import LINE_CHARACTERS, bold_name, by, is_own_by, neutralise, one_line
from mcp_memory.domain.text.times import is_midnight, iso_day, iso_minute, validity
from mcp_memory.domain.text.words import split_words

JSON_CHARACTERS: Mapping[ShownDetail, int] = {"micro": 80, "summary": 400, "passage": 400, "full": 400}
GROUP = "### "
"""Begins the title of items that share it, within a section."""
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
_HEADLINE_WORDS = _READ_WORDS.union(_WRITE_WORDS, _RUN_WORDS, _ERROR_WORDS)
_SAYS_NOTHING = STOP_WORDS.union(_HEADLINE_WORDS, ("file", "path", "event"))


def event_body(record: Record, text: str, detail: ShownDetail) -> str:
    """Return `Read: path`, `Wrote: path [outcome]`, ``Executed: `command` [outcome]`` with output, or `Error: message`.

    Any other event: its details as JSON. The text follows where it adds to the details; without details it is the
    whole body. `micro` omits the output.
    """
    outcome = _detail(record.details, "outcome") or record.outcome
    ending = f" [{one_line(outcome)}]" if outcome else ""
    headline, takes_outcome = _headline(record.details, detail)
    if not headline:
        return neutralise(text) + ending
    line = headline + (ending if takes_outcome else "")
    adds = says_more(text, _values(record)) and text != event_text(record.details)
    said = f" — {neutralise(text)}" if adds else ""
    output = _output(record) if headline.startswith("Executed") and detail != "micro" else ""
    return line + said + output


def event_text(details: Details) -> str:
    """Return the text of an event that nobody gave one: the headline of its line; empty without details."""
    return _headline(details, "full")[0]


def is_error(record: Record) -> bool:
    """Return True for what failed, and for an event whose line reads as an error."""
    is_told_so = record.kind == "event" and event_text(record.details).startswith("Error: ")
    return record.outcome == "failure" or is_told_so


def repair_rank(record: Record) -> int:
    """Return the place of an event or call for who repairs something: 0 for what failed, 1 for an edit, else 2."""
    if is_error(record):
        return 0
    return 1 if record.kind == "event" and event_text(record.details).startswith("Wrote: ") else 2


def has_headline(event_type: str) -> bool:
    """Return True for a type whose events have a headline: read, written, run or an error, in any words."""
    return not _HEADLINE_WORDS.isdisjoint(_type_words(event_type))


def says_more(text: str, told: str) -> bool:
    """Return True where a text has a meaningful word that `told` lacks."""
    known = told.casefold()
    words = _ANY_WORD.findall(text.casefold())
    return any(word not in _SAYS_NOTHING and word not in known for word in words)


def _headline(details: Details, detail: ShownDetail) -> tuple[str, bool]:
    """Return the headline of an event, and whether its outcome belongs behind it; empty without details."""
    words = _type_words(_detail(details, "type"))
    path, command = one_line(_detail(details, "path")), one_line(_detail(details, "command"))
    if path and words & _READ_WORDS:
        return f"Read: {path}", False
    if path and words & _WRITE_WORDS:
        return f"Wrote: {path}", True
    if command and (words & _RUN_WORDS or not words):
        return f"Executed: `{command}`", True
    stack = _detail(details, "stack")
    message = _detail(details, "message") or _last_line(stack)
    if message and (words & _ERROR_WORDS or stack):
        return f"Error: {one_line(message, 2 * LINE_CHARACTERS)}", False
    most = JSON_CHARACTERS[detail]
    # A longer text would be cut anyway: skip writing it.
    told = ((name, value) for name, value in details.items() if name not in _UNTOLD)
    shown = {name: value[:most] if isinstance(value, str) else value for name, value in told}
    if not shown:
        return "", True
    as_json = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    return one_line(as_json, most), "outcome" not in details


@lru_cache(maxsize=256)
def _type_words(event_type: str) -> frozenset[str]:
    """Return the words of an event's type. Cached: a context holds many events of few types."""
    return frozenset(word.casefold() for word in split_words(event_type))


def _output(record: Record) -> str:
    """Return the last lines that the command wrote, each on a line of its own."""
    lines = output_lines(record.details)
    # The empty first line is dropped: the text after it begins no line of ours.
    return "\n  " + neutralise("\n".join(["", *lines])) if lines else ""


def _detail(details: Details, name: str) -> str:
    value = details.get(name)
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
TIMED_SECONDS = 2 * 86_400
"""Events of so long ago, at most, carry their time beside their day."""
REASON_CHARACTERS = 400
"""Characters shown of a decision's reasons."""
REASONED: frozenset[Kind] = frozenset({"decision", "censor"})
"""Kinds whose lines say a reason, behind BECAUSE."""
_WHEN, _APART, BECAUSE = "when ", " — ", " Because: "
"""Words before a guardrail's trigger, behind it, and before a reason. The last stands in no stored text."""
_CLOSED = (".", "!", "?", "…", "。")
_STATES: Mapping[Status, str] = {
    "inactive": "inactive", "retired": "retired", "superseded": "superseded", "ineffective": "ineffective",
    NOTED: "noted, not confirmed",
}  # fmt: skip
"""Statuses that change what a record means to its reader."""
# e.g. "- [r000017 procedure 2026-03-03] **Release:** "
_NAMED_PROCEDURE = re.compile(r"^(- \[[^\]\n]*\] )\*\*(.+?):\*\* ")
"""The opening of a named procedure's line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One item of a section, already rendered; `id` is the item's, "" where nobody asks for it.

    Items of one `group` may share its title; then each shows its `short` text, in the order of `time`.
    """

    section: str
    text: str
    id: str = ""
    group: str = ""
    short: str = ""
    time: Instant = 0.0


def head(
    record: Record,
    *,
    now: Instant | None = None,
    author: str = "",
    section: str = "",
    in_group: bool = False,
    says_role: bool = False,
) -> str:
    """Return the text before a record's words: `- [id kind date by author] speaker: `.

    The author is inside the brackets, where no stored text can be; the reader's own records name none. The kind is left
    out where the title of the `section` says it, the year where it is that of `now`, and the date in a group, whose
    title says it. With `says_role`, a message without a speaker names who spoke, `user: `, in place of its kind.
    """
    is_said = says_role and record.kind == "message"
    role = f"{record.role}: " if is_said and record.role and not record.speaker else ""
    kind = "" if in_group or is_said or _titles_kind(record, section) else f" {record.kind}"
    return f"- [{record.id}{kind}{_date(record, now, in_group=in_group)}{by(author)}] {_opening(record, author)}{role}"


def _titles_kind(record: Record, title: str) -> bool:
    """Return True where the title of the section says the kind: "Past Experience" is of episodes, and of summaries."""
    if not title or record.kind in LOG_KINDS:
        return False
    own = section_of(record)
    return own.title == title and own.kinds[0] == record.kind


def _date(record: Record, now: Instant | None, *, in_group: bool) -> str:
    """Return " 2026-03-03", " 03-03" in the year of `now`, or " 10:42" of a message or an event of today or in a group.

    An event of the last two days carries both: what came before what is half of what a day's events tell.
    Midnight is that of a record whose day alone is known.
    """
    day = iso_day(record.occurred_at)
    today = "" if now is None else iso_day(now)
    is_timed = record.kind in LOG_KINDS and not is_midnight(record.occurred_at)
    clock = f" {iso_minute(record.occurred_at)[11:16]}" if is_timed else ""
    if in_group or (clock and day == today):
        return clock
    is_lately = record.kind == "event" and now is not None and now - record.occurred_at < TIMED_SECONDS
    return f" {short_day(record.occurred_at, now)}{clock if is_lately else ''}"


def short_day(at: Instant, now: Instant | None) -> str:
    """Return "2026-03-03", or "03-03" in the year of `now`."""
    day = iso_day(at)
    return day[5:] if now is not None and day[:5] == iso_day(now)[:5] else day


def group_title(record: Record) -> str:
    """Return the title that a record of the log shares with others of its day and kind; empty for any other.

    Turns of one day come by the dozen, and their common part would take a third of their tokens.
    """
    return f"{iso_day(record.occurred_at)} {record.kind}" if record.kind in LOG_KINDS else ""


def record_body(record: Record, text: str, detail: ShownDetail = "summary") -> str:
    """Return a record's own words in one of its forms: the text, or text made from its details, safe to show."""
    text = text.removesuffix(f" → {record.outcome}")  # The end of a short form; `markers` say it of every form.
    if shows_text_alone(record):
        # A procedure without a name has none: bold text at its beginning does not become a title.
        return f"\\{neutralise(text)}" if record.kind == "procedure" and text.startswith("**") else neutralise(text)
    if record.kind == "event":
        return event_body(record, text, detail)
    if record.kind == "decision":
        return _decision(record, text, detail)
    return _constraint(record, text, LINE_CHARACTERS // 2 if detail == "micro" else LINE_CHARACTERS)


def said(
    record: Record,
    text: str,
    detail: ShownDetail = "summary",
    *,
    now: Instant | None = None,
    place: str = "",
    earlier: str = "",
    task: str = "",
) -> str:
    """Return all that a line says about a record: its own words in one of its forms, and the markers behind them.

    `place` says which part of a long text it is, `earlier` what it replaced, `task` that it was noted in another task.
    """
    return record_body(record, text, detail) + in_brackets(place, earlier) + markers(record, now) + in_brackets(task)


def record_line(
    record: Record,
    text: str,
    detail: ShownDetail = "summary",
    *,
    now: Instant | None = None,
    author: str = "",
    section: str = "",
) -> str:
    """Return the whole line of a record in one of its forms: its head, and what it says."""
    return head(record, now=now, author=author, section=section) + said(record, text, detail, now=now)


def in_brackets(*marks: str) -> str:
    """Return markers as they follow a text: " (part 3 of 9, 1900 tokens) (retired)"; no stored text contains one."""
    return "".join(f" ({mark})" for mark in marks if mark)


def markers(record: Record, now: Instant | None = None) -> str:
    """Return what follows a record's words where it changes their meaning: its outcome, certainty, state and time.

    `Deploy at night → failure (70 % sure) (until 2026-03-31) (to be checked: r000017 changed 2026-11-03)`
    """
    outcome = f" → {record.outcome}" if record.outcome and record.kind != "event" else ""
    holds = record.details.get(HOLDS)
    return outcome + in_brackets(
        "" if record.confidence is None else f"{round(record.confidence * 100)} % sure",
        f"superseded by {record.superseded_by}" if record.superseded_by else _STATES.get(record.status, ""),
        validity(record.valid_from, record.valid_until, now),
        f"holds: {one_line(str(holds))}" if holds else "",
        to_be_checked([ground.id for ground in record.check], iso_day(record.check[0].at)) if record.check else "",
    )


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
    body = "\n".join(text for _, text in _body(lines))
    digest = hashlib.blake2b(f"{request_digest}{link}\n{body}".encode("utf-8", "replace"), digest_size=5).hexdigest()
    context_id = f"c{digest}"
    inside = f"{body}\n" if body else ""
    return f'<memory-context id="{context_id}"{link}>\n{inside}</memory-context>', context_id


def parts_of(text: str, lines: Sequence[Line]) -> tuple[BlockPart, ...]:
    """Return the parts of a block that was rendered of these lines: joined by line breaks, they are its text."""
    fence, _, rest = text.partition("\n")
    return (("", fence), *_body(lines), ("", rest.rpartition("\n")[2]))


def _body(lines: Sequence[Line]) -> list[BlockPart]:
    parts: list[BlockPart] = []
    for section in CONTEXT_TITLES:
        here = [line for line in lines if line.section == section]
        if section == "Procedure":
            parts.extend(_procedures(here))
        elif here:
            parts += [("", f"## {section}"), *_grouped(here)]
    return parts


def _grouped(lines: Sequence[Line]) -> Iterator[BlockPart]:
    """Yield the items of a section: single ones, then the groups, the best item's first, each in order of time."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.group, []).append(line)
    alone = {title for title, members in groups.items() if not title or len(members) == 1}
    yield from ((line.id, line.text) for line in lines if line.group in alone)
    for title in (title for title in groups if title not in alone):
        yield "", f"{GROUP}{title}"
        yield from ((line.id, line.short) for line in sorted(groups[title], key=lambda line: line.time))


def _procedures(lines: Sequence[Line]) -> Iterator[BlockPart]:
    """Yield procedures: a single one gives its name to the section, several each keep their own."""
    if len(lines) != 1:
        yield from [("", "## Applicable Patterns")] * bool(lines)
        yield from ((line.id, line.text) for line in lines)
        return
    [line] = lines
    named = _NAMED_PROCEDURE.match(line.text)
    yield "", f"## Procedure: {named[2]}" if named else "## Procedure"
    yield line.id, f"{named[1]}{line.text[named.end() :]}" if named else line.text


def _opening(record: Record, author: str) -> str:
    """Return the body's prefix: what a censor does with its reader's calls, a procedure's name, the speaker, the tool.

    What only warns this reader says so, whatever it does with its author's calls.
    """
    name = record.details.get("name")
    if record.kind == "censor":
        opening = "**BLOCK:** " if denies(record, own=is_own_by(record, author)) else "**WARN:** "
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
    trigger, reason = str(record.details.get("trigger") or "").strip(), _reasons(record)
    adds = says_more(text, f"{trigger}\n{reason}")
    when = f"{_WHEN}{one_line(trigger, most)}" if trigger else ""
    said = _APART.join(part for part in (when, neutralise(text) if adds else "") if part)
    why = "" if adds and not says_more(reason, text) else one_line(reason, most)
    if not said or not why:
        return said or why
    return _because(said, why)


def _decision(record: Record, text: str, detail: ShownDetail) -> str:
    """Return the decision and, where there is room, its reasons, unless the text contains them."""
    reasons = _reasons(record)
    if detail == "micro" or not says_more(reasons, text):
        return neutralise(text)
    return _because(neutralise(text), one_line(reasons, REASON_CHARACTERS))


def _reasons(record: Record) -> str:
    """Return a decision's reasons or a guardrail's reason; "" without any."""
    given = record.details.get("reason" if record.kind == "censor" else "reasons")
    if isinstance(given, str):
        return given.strip()
    return "; ".join(map(str, given)) if isinstance(given, Sequence) else ""


def _because(said: str, why: str) -> str:
    return f"{said}{'' if said.endswith(_CLOSED) else '.'}{BECAUSE}{why}"


def clauses(record: Record, told: str) -> tuple[str, str, str]:
    """Part what a line says about a record (`said`): its words with the markers, when it applies, and its reason.

    "Use a branch. (70 % sure)", "push to main", "it broke production": the last two are a guardrail's trigger and
    reason, or "" and a decision's reasons, each "" where the line says none.
    """
    trigger = why = ""
    words, is_told, behind = told.partition(BECAUSE)
    if is_told and record.kind in REASONED:
        most = REASON_CHARACTERS if record.kind == "decision" else LINE_CHARACTERS
        reason = one_line(_reasons(record), most)
        if behind.startswith(reason):
            told, why = words + behind.removeprefix(reason), reason
    if record.kind == "censor" and told.startswith(_WHEN) and record.details.get("trigger"):
        trigger, is_apart, words = told.removeprefix(_WHEN).partition(_APART)
        trigger, told = (trigger, words) if is_apart else ("", told)
    return told, trigger, why


def to_be_checked(ground_ids: Sequence[str], day: str) -> str:
    """Return the mark of a record whose grounds changed: "to be checked: r000017 changed 2026-11-03"."""
    return f"to be checked: {', '.join(ground_ids)} changed {day}"


def value_line(value: Json, most: int) -> str:
    """Return a value in one line of at most so many characters: a list of texts by commas, any but a text as JSON."""
    if isinstance(value, str):
        return one_line(value, most)
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return one_line(", ".join(str(item) for item in value), most)
    return one_line(json.dumps(value, ensure_ascii=False, separators=(",", ":")), most)
