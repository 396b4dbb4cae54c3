"""Defines the record, which holds everything remembered, and the request to store one. Independent of storage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Protocol, TypeAlias, get_args

from mcp_memory.domain.model.field_marks import (
    CallerWords,
    Derived,
    Described,
    Fixed,
    MergedBy,
    NoArgument,
    Range,
    Size,
    Told,
    Unversioned,
    either,
    latest,
    together,
)
from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.limits import (
    MAX_FIELDS,
    MAX_NAME_CHARS,
    Ids,
    LongText,
    Name,
    OptionalId,
    OptionalName,
    SessionName,
    Tags,
)
from mcp_memory.domain.model.message_files import Attachment
from mcp_memory.errors import InvalidRequest

GivenKind = Literal[
    "fact", "decision", "procedure", "episode", "censor", "identity",
    "event", "message", "tool_call", "tool_result", "summary",
]  # fmt: skip
"""Kinds that a caller stores; a `result` is stored where a task ends."""
Kind = Literal[GivenKind, "result"]
Visibility = Literal["private", "shared", "user"]
Status = Literal[
    "noted",  # facts, decisions, episodes: read out of a session, and not confirmed yet
    "new", "confirmed", "core",  # facts
    "active",  # several kinds; each has its own stages: domain/model/lifecycle.py
    "summarized", "archived",  # episodes
    "effective", "ineffective",  # procedures
    "created", "escalated",  # censors
    "recorded", "pending", "reviewed",  # decisions
    "superseded", "inactive", "retired",  # all
]  # fmt: skip
Outcome = Literal["success", "partial", "pending", "failure"]
Detail = Literal["micro", "summary", "full"]
ShownDetail = Literal["micro", "summary", "passage", "full"]
"""The form in which a context shows a record; a passage is chosen by the query."""

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Details: TypeAlias = Mapping[str, Json]
Instant: TypeAlias = float
"""Seconds since 1970-01-01 UTC."""

KINDS: tuple[Kind, ...] = get_args(Kind)
LOG_KINDS: frozenset[Kind] = frozenset({"event", "message", "tool_call", "tool_result", "summary"})
RAW: frozenset[Kind] = frozenset({"event", "tool_call", "tool_result"})
"""Events, and inputs and outputs of tools: a block that nobody asked for tells their results."""
LASTING_KINDS: frozenset[Kind] = frozenset(KINDS) - LOG_KINDS
"""Kinds outside the session log; in the log, equal texts stay separate records."""
OUT_OF_SEARCH: frozenset[Status] = frozenset({"inactive", "retired"})

DEFAULT_IMPORTANCE = 1.0
MAX_IMPORTANCE = 10.0

Importance = Annotated[float, Range(0, 10)]
Confidence = Annotated[float, Range(0, 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A thing that records mention. `properties` are the caller's; `found` is True for an entity no caller gave."""

    name: Name
    type: OptionalName = "thing"
    properties: Annotated[Details, Size(MAX_FIELDS)] = field(default_factory=dict[str, Json])
    found: Annotated[bool, NoArgument()] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """`source --[type]--> target` between entity names; `weight` in (0, 1]."""

    source: Name
    type: Name
    target: Name
    weight: Annotated[float, Range(above=0, most=1)] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """One item a caller asks to remember. The service fills in what is None, and the text of an event from its details.

    `cleaned` counts control characters that the reader of the item already removed, `harness` passages of the client's.
    `files` are the images and documents that the text has marks of.
    """

    text: LongText = ""
    kind: Kind = "fact"
    importance: Importance = DEFAULT_IMPORTANCE
    confidence: Confidence | None = None
    tags: Tags = ()
    entities: Annotated[tuple[Entity, ...], Size(100)] = ()
    relations: Annotated[tuple[Relation, ...], Size(100)] = ()
    outcome: Outcome | None = None
    details: Annotated[
        Details,
        Size(MAX_FIELDS),
        Described(
            "procedure: name, description; censor: trigger, reason, action (warn|block), domain, pattern (of calls:"
            " `rm -rf /mnt/*`, `Write(sql/*)`); "
            "decision: reasons, alternatives; event: type, path, command, stdout, stderr, message, stack"
        ),
    ] = field(default_factory=dict[str, Json])
    supersedes: Annotated[Ids, Described("Records this one replaces")] = ()
    depends_on: Ids = ()
    reassert: Annotated[bool, Described("Store though a newer record superseded this text")] = False
    task_id: OptionalId | None = None
    session_id: SessionName | None = None
    occurred_at: Instant | None = None
    valid_from: Instant | None = None
    valid_until: Instant | None = None
    pinned: Annotated[bool, Described("First in contexts")] = False
    visibility: Annotated[
        Visibility, Described("private: this agent; shared: this project; user: this person, in every project")
    ] = "shared"
    speaker: OptionalName | None = None
    role: OptionalName | None = None
    tool: OptionalName | None = None
    call_id: OptionalName | None = None
    cleaned: Annotated[int, NoArgument()] = 0
    harness: Annotated[int, NoArgument()] = 0
    files: Annotated[tuple[Attachment, ...], NoArgument()] = ()


HOLDS = "holds"
"""The detail that says when or where a record holds, beside another one that is true as well."""
IMPORTED_AT, IMPORTED_BY = "imported_at", "imported_by"
"""The details that say when a record came from another memory, whose dates it keeps, and which agent imported it."""
ASKED_AS, MAX_ASKED = "asked_as", 3
"""The detail with the questions that a record answers, of any kind, and their greatest number."""
SEARCHED_DETAILS = (
    "name", "description", "trigger", "reason", "reasons", "alternatives", "message", "artifacts", ASKED_AS,
)  # fmt: skip
"""Details with meaning that the text may lack: the reason for a decision, the trigger of a constraint."""
OUTPUT_LINES, OUTPUT_CHARACTERS = 4, 100
"""The number of a command's last output lines that are shown and indexed, and the length of each."""
_OUTPUTS = ("stdout", "stderr")
_TAIL = 1_000
"""Characters read from the end of a command's output, which can be megabytes."""
_INDEXED_CHARACTERS = 400
"""Characters of an event's detail that are indexed: no more are shown."""


def searchable_text(text: str, speaker: str | None, details: Details) -> str:
    """Return the text to index: the speaker, so that short turns match on the name; the text; the searched details."""
    said = f"{speaker}: {text}" if speaker else text
    lines = [line for name in SEARCHED_DETAILS for line in _texts(details.get(name))]
    return "\n".join([said, *lines])


def output_lines(details: Details) -> list[str]:
    """Return the last lines that a command wrote, errors last, each cut to OUTPUT_CHARACTERS."""
    streams = (str(details.get(name) or "")[-_TAIL:].splitlines() for name in _OUTPUTS)
    return [line.strip()[:OUTPUT_CHARACTERS] for stream in streams for line in stream if line.strip()][-OUTPUT_LINES:]


def _texts(value: Json) -> list[str]:
    """Return a detail as texts: itself, or those of a list."""
    if isinstance(value, str):
        return [value]
    return [part for part in value if isinstance(part, str)] if isinstance(value, Sequence) else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counts how often a record was opened, met again, applied and judged.

    Opening a record does not advance the revision.
    """

    accessed: Annotated[int, Fixed()] = 0
    confirmed: int = 0
    activated: int = 0
    succeeded: int = 0
    used: int = 0
    ignored: int = 0
    false_positives: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGround:
    """Something that a record stands on, another record or a task, and the time of its change."""

    id: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as stored. Times are instants; token counts are the store counter's, without any factor.

    Agent, session and client are those that stored it. Others may have changed it since (domain/model/versions.py):
    `rewritten_by` is the agent that wrote the present text, "" where that is the first one, and `changed` the number of
    the last change that left a version, 0 for none. It says what is true from `valid_from` on and before `valid_until`;
    None leaves that side open. `check` names the grounds that changed since anybody vouched for the record, the latest
    first. It is found when the record is read to be shown, and never stored.
    """

    id: Annotated[str, Fixed()]
    scope: str
    namespace: str
    visibility: Annotated[Visibility, Told(7)]
    agent: Annotated[str, Fixed()]
    session_id: Annotated[str, Fixed(), CallerWords()]
    task_id: Annotated[str | None, Fixed()]
    branch_id: str | None
    kind: Annotated[Kind, Told(11)]
    text: Annotated[str, CallerWords()]
    summary: Annotated[str, CallerWords()]
    micro: Annotated[str, CallerWords()]
    text_tokens: int
    summary_tokens: int
    micro_tokens: int
    importance: Annotated[float, Told(3), MergedBy(max)]
    confidence: Annotated[float | None, Told(4), MergedBy(latest)]
    status: Annotated[Status, Told(0)]
    outcome: Annotated[Outcome | None, Told(2)]
    pinned: Annotated[bool, Told(5), MergedBy(either)]
    tags: Annotated[tuple[str, ...], CallerWords(), Told(6), MergedBy(together)]
    details: Annotated[Details, CallerWords(), Told(8)]
    speaker: Annotated[str | None, Fixed(), CallerWords()]
    role: Annotated[str | None, Fixed(), CallerWords()]
    tool: Annotated[str | None, Fixed(), CallerWords()]
    call_id: Annotated[str | None, Fixed(), CallerWords()]
    superseded_by: Annotated[str | None, Told(1)]
    created_at: Annotated[Instant, Fixed()]
    updated_at: Instant
    accessed_at: Annotated[Instant, Unversioned()]
    occurred_at: Annotated[Instant, Told(12)]
    client: Annotated[str, Fixed()] = ""
    rewritten_by: str = ""
    changed: Annotated[int, Unversioned()] = 0
    valid_from: Annotated[Instant | None, Told(9)] = None
    valid_until: Annotated[Instant | None, Told(10)] = None
    counters: Annotated[Counters, Derived(), Unversioned()] = Counters()
    check: Annotated[tuple[ChangedGround, ...], Derived(), Unversioned()] = ()

    @property
    def author(self) -> str:
        """The agent that wrote the text as it is now."""
        return self.rewritten_by or self.agent

    @property
    def version(self) -> int:
        """The number of the change that made the record what it is: its last version's, or that in its id."""
        return self.changed or number_of(self.id)

    @property
    def searchable_text(self) -> str:
        """The text that is embedded; its words are indexed as well."""
        return searchable_text(self.text, self.speaker, self.details)

    @property
    def indexed_text(self) -> str:
        """The text whose words are indexed: also what the line of an event shows, its command, path and output."""
        if self.kind != "event":
            return self.searchable_text
        shown = [value for name, value in self.details.items() if name not in (*_OUTPUTS, *SEARCHED_DETAILS)]
        lines = [text[-_INDEXED_CHARACTERS:] for value in shown for text in _texts(value)]
        return "\n".join([self.searchable_text, *lines, *output_lines(self.details)])

    @property
    def is_shortened(self) -> bool:
        """True where the summary leaves out some of the text."""
        return self.text_tokens > self.summary_tokens

    @property
    def is_live(self) -> bool:
        """True where recall may return the record without being asked for inactive ones."""
        return self.status not in OUT_OF_SEARCH

    @property
    def holds(self) -> bool:
        """True where the record is live and not superseded."""
        return self.is_live and self.status != "superseded"


def rewritten(record: Record, text: str, agent: str) -> Record:
    """Return the record with another text, by that agent."""
    return replace(record, text=text, rewritten_by="" if agent == record.agent else agent)


class Dated(Protocol):
    """Something that is true for a time."""

    @property
    def valid_from(self) -> Instant | None: ...
    @property
    def valid_until(self) -> Instant | None: ...


def is_valid(said: Dated, at: Instant) -> bool:
    """Return True where what is said is true at that time, as far as it names a beginning or an end."""
    return (said.valid_from is None or said.valid_from <= at) and (said.valid_until is None or at < said.valid_until)


def may_both_hold(one: Dated, other: Dated) -> bool:
    """Return True where what two say is true at one time: "100 until June" and "200 from June on" never are."""
    begins = [each.valid_from for each in (one, other) if each.valid_from is not None]
    ends = [each.valid_until for each in (one, other) if each.valid_until is not None]
    return not begins or not ends or max(begins) < min(ends)


def with_validity(record: Record, said: Dated) -> Record:
    """Return the record with the beginning and the end that are given.

    Raises:
        InvalidRequest: nothing would lie between them.
    """
    begin = record.valid_from if said.valid_from is None else said.valid_from
    end = record.valid_until if said.valid_until is None else said.valid_until
    refuse_no_time(begin, end)
    return replace(record, valid_from=begin, valid_until=end)


def refuse_no_time(begin: Instant | None, end: Instant | None) -> None:
    """Raise InvalidRequest where the beginning is not before the end."""
    if begin is not None and end is not None and begin >= end:
        raise InvalidRequest("valid_from is not before valid_until; exchange them.")


TEXT, _TEXTS = "a text", "a list of texts"
KNOWN_DETAILS: Mapping[Kind, Mapping[str, str]] = {
    "procedure": {"name": TEXT, "description": TEXT},
    "censor": {"trigger": TEXT, "reason": TEXT, "action": "warn or block", "domain": TEXT, "pattern": _TEXTS},
    "decision": {"reasons": _TEXTS, "alternatives": _TEXTS},
    "event": dict.fromkeys(("type", "path", "command", "stdout", "stderr", "message", "stack"), TEXT),
}
"""Details with a fixed meaning, per kind. Others are kept unchanged."""


def checked_details(kind: Kind, details: Details) -> dict[str, Json]:
    """Return the details, with a single text turned into a list where a list is expected.

    Raises:
        InvalidRequest: a detail with a fixed meaning has another type.
    """
    checked = dict(details)
    if ASKED_AS in checked:
        checked[ASKED_AS] = asked_as = [*together(_texts(checked[ASKED_AS]), ())]
        if not 0 < len(asked_as) <= MAX_ASKED or max(map(len, asked_as)) > MAX_NAME_CHARS:
            raise InvalidRequest(
                f"details.{ASKED_AS} must be 1 to {MAX_ASKED} questions of at most {MAX_NAME_CHARS} characters."
            )
    for name, wanted in KNOWN_DETAILS.get(kind, {}).items():
        if name not in checked:
            continue
        value = checked[name]
        if wanted == _TEXTS and isinstance(value, str):
            checked[name] = value = [value]
        if not _fits(value, wanted):
            raise InvalidRequest(f"details.{name} of a {kind} must be {wanted}.")
    return checked


def map_strings(details: Details, change: Callable[[str], str]) -> dict[str, Json]:
    """Return the details with every text inside changed, names included."""

    def walk(value: Json) -> Json:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, Mapping):
            return {change(key): walk(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [walk(item) for item in value]
        return value

    return {change(key): walk(item) for key, item in details.items()}


def _fits(value: Json, wanted: str) -> bool:
    if wanted == TEXT:
        return isinstance(value, str)
    if wanted == _TEXTS:
        return (
            isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value)
        )
    return value in ("warn", "block")
