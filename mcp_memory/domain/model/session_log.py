"""Defines the log of one session: its original entries, in order, and the replacements of compacted parts.

Independent of stores and tokenizers. Token counts are the store counter's, without any factor.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import Literal, Protocol, TypeAlias, cast

from mcp_memory.domain.model.records import Instant, Record

Trigger = Literal["call", "idle", "forced"]
"""The trigger of a compaction: a caller, a pause in the session, or a log near the end of its window."""
Role = Literal["system", "user", "assistant", "tool"]
EntryKind = Literal["message", "tool_call", "tool_result"]
Form = Literal["original", "mask", "tools", "dialogue", "batch", "summary", "external"]
"""An entry's form: an original; a result with its output archived; a block that replaces calls and their results,
turns, or a span; or a message with its text archived."""
LABELS: Mapping[Form, str] = {
    "mask": "TOOL OUTPUT ARCHIVED", "external": "MESSAGE ARCHIVED", "summary": "CONTEXT SUMMARY", "tools": "SUMMARIZED",
    "batch": "GOAL BATCH", "dialogue": "DIALOGUE",
}  # fmt: skip
"""The label, in brackets, that opens the text of each form of replacement."""
HEADED: tuple[Form, ...] = ("summary", "batch", "dialogue")
"""Forms whose first line only describes the block, by its id: "[GOAL BATCH x4175782e0a] 3 turns, …"."""

_ROLE_OF_WORD: Mapping[str, Role] = {
    "system": "system", "user": "user", "assistant": "assistant", "tool": "tool",
    "human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool",
}  # fmt: skip
STANDS_FOR_MANY: frozenset[Form] = frozenset({"tools", "dialogue", "batch", "summary"})
IMPORTANT = 5.0
"""Importance, of 10, from which an original stays in its log until the log is at its ceiling."""
Places: TypeAlias = tuple[int, ...]
"""Positions of entries in their log, ascending."""
CHECKPOINT_TAG, CLIENT_SUMMARY_TAG = "checkpoint", "client-summary"
"""Tags of what tells a session's state: the checkpoint before a compaction, and the summary that its client made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the current log: an original record, or the replacement of one or more of them.

    `covers` names the originals that it replaces, in order; an original covers itself. `level` is 0 for originals,
    and one more than the highest level among the replaced entries where they were reworded. `summary` and `micro`
    are the record's own short forms, "" for a replacement. `original_tokens` are those of `covers`.
    """

    id: str
    kind: EntryKind
    role: Role
    text: str
    tokens: int
    at: Instant
    covers: tuple[str, ...]
    original_tokens: int
    summary: str = ""
    micro: str = ""
    tool: str | None = None
    call_id: str | None = None
    speaker: str | None = None
    failed: bool = False
    pinned: bool = False
    importance: float = 1.0
    form: Form = "original"
    level: int = 0

    @property
    def is_kept(self) -> bool:
        """True for entries kept longest: pinned, or originals marked important."""
        return self.pinned or (self.form == "original" and self.importance >= IMPORTANT)

    @property
    def is_users(self) -> bool:
        """True for the user's own words, original or archived; False for a block in the user's role."""
        is_said = self.form in ("original", "external") and self.level == 0
        return self.kind == "message" and self.role == "user" and is_said


@dataclass(frozen=True)
class SessionLog:
    """The live entries of one session, ordered by the first original that each covers. Immutable."""

    entries: tuple[Entry, ...]

    @cached_property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.entries)

    @cached_property
    def revision(self) -> str:
        """A digest of the log's contents: equal entries give an equal digest, whenever you read it."""
        shown = "\n".join(f"{entry.id} {entry.tokens} {entry.pinned:d}" for entry in self.entries)
        return blake2b(shown.encode(), digest_size=8).hexdigest()

    @cached_property
    def anchor(self) -> Entry | None:
        """The one summary in the log, which the next is merged into; None without one."""
        return next((entry for entry in self.entries if entry.form == "summary"), None)

    @cached_property
    def turns(self) -> tuple[Places, ...]:
        """The turns, each from one user message to the next; entries before the first message form one of their own."""
        turns: list[list[int]] = []
        for place, entry in enumerate(self.entries):
            if entry.is_users or not turns:
                turns.append([])
            turns[-1].append(place)
        return tuple(tuple(turn) for turn in turns)

    @cached_property
    def turns_since(self) -> tuple[int, ...]:
        """For each entry, the number of turns that began after its own."""
        since: list[int] = [0] * len(self.entries)
        for number, turn in enumerate(self.turns):
            for place in turn:
                since[place] = len(self.turns) - 1 - number
        return tuple(since)

    @cached_property
    def exchanges(self) -> tuple[Places, ...]:
        """Each answered call with its results: the results of its id up to the next call of that id.

        Results without ids answer the calls without ids that were made before them, in order, up to the user's next
        words or the next such calls.
        """
        open_calls: dict[str, list[int]] = {}
        waiting: list[list[int]] = []  # calls without ids
        is_answering = False
        found: list[list[int]] = []
        for place, entry in enumerate(self.entries):
            if entry.is_users:
                waiting = []
            elif entry.kind == "tool_call":
                found.append([place])
                if entry.call_id:
                    open_calls[entry.call_id] = found[-1]
                else:
                    waiting = [*([] if is_answering else waiting), found[-1]]
                    is_answering = False
            elif entry.kind == "tool_result":
                answered = open_calls.get(entry.call_id) if entry.call_id else self._next_answered(waiting, entry.tool)
                if answered is not None:
                    answered.append(place)
                is_answering = is_answering or not entry.call_id
        return tuple(tuple(exchange) for exchange in found if len(exchange) > 1)

    def _next_answered(self, waiting: list[list[int]], tool: str | None) -> list[int] | None:
        """Take the call that a result without an id answers out of those that wait: the first of its tool, else of any.

        E.g. an interface may order results by its tools, or may not name them.
        """
        of_tool = (at for at, call in enumerate(waiting) if self.entries[call[0]].tool == tool)
        return waiting.pop(next(of_tool, 0)) if waiting else None

    @cached_property
    def exchange_of(self) -> dict[int, Places]:
        """For each entry that is part of an answered call, the whole exchange."""
        return {place: exchange for exchange in self.exchanges for place in exchange}

    @cached_property
    def unanswered(self) -> frozenset[int]:
        """Calls without results so far."""
        return frozenset(
            place
            for place, entry in enumerate(self.entries)
            if entry.kind == "tool_call" and place not in self.exchange_of
        )

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """For each original, its number in arrival order, from 1; compaction does not change it."""
        originals = sorted((covered for entry in self.entries for covered in entry.covers), key=id_order)
        return {covered: number for number, covered in enumerate(originals, start=1)}

    def covered_numbers(self, entry: Entry) -> str:
        """Return the numbers of the originals that an entry covers: `1-17 19`."""
        return _runs(sorted(self.numbers[covered] for covered in self.numbers.keys() & entry.covers))

    def numbered(self, told: Iterable[Sequence[str]]) -> str:
        """Return the numbers of the originals that each told line is or replaces: `(1-17 19) 18 20-65 ?`."""
        shown: list[str] = []
        singles: list[int] = []
        for covers in told:
            numbers = [self.numbers[covered] for covered in covers if covered in self.numbers]
            if len(numbers) == 1:
                singles += numbers
                continue
            shown += [*([_runs(singles)] if singles else []), f"({_runs(numbers)})" if numbers else "?"]
            singles = []
        return " ".join([*shown, *([_runs(singles)] if singles else [])])

    def closed(self, places: Iterable[int]) -> frozenset[int]:
        """Return the places, and the rest of every exchange that one of them is part of."""
        return frozenset(part for place in places for part in self.exchange_of.get(place, (place,)))

    def within(self, places: Iterable[int]) -> frozenset[int]:
        """Return the places whose whole exchange is among them."""
        chosen = frozenset(places)
        return frozenset(place for place in chosen if chosen.issuperset(self.exchange_of.get(place, ())))

    def at(self, places: Iterable[int]) -> tuple[Entry, ...]:
        """Return the entries at these places, in the log's order."""
        return tuple(self.entries[place] for place in sorted(places))


def _runs(numbers: Iterable[int]) -> str:
    """Return numbers in their order, neighbours as one run: `1-17 19`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return " ".join("-".join(map(str, run)) for run in runs)


def role_of(kind: str, role: str | None) -> Role:
    """Return the role of a record of this kind, whatever word names it; a message without a role is the user's."""
    if kind != "message":
        return "assistant" if kind == "tool_call" else "tool"
    return "user" if role is None else _ROLE_OF_WORD.get(role.lower(), "assistant")


def in_order(entries: Iterable[Entry]) -> SessionLog:
    """Return a log of these entries, ordered by the first original that each covers: ids sort by time."""
    return SessionLog(tuple(sorted(entries, key=lambda entry: id_order(entry.covers[0]))))


def id_order(entry_id: str) -> tuple[int, str]:
    """Return the sort key of record ids: a longer one is later."""
    return len(entry_id), entry_id


def level_over(entries: Sequence[Entry]) -> int:
    """Return the level of a text that rewords these entries."""
    return 1 + max((entry.level for entry in entries), default=0)


Preset: TypeAlias = str
"""A name of `PRESETS`, or of one that an extension adds."""
PassName: TypeAlias = str
"""The name of a pass of ours (compaction/), or of one that an extension adds."""
USUAL: PassName = "usual"
"""In a list of passes, a name for all of ours, in their order."""
PassKind = Literal["masking", "rewording", "summarising", "other"]
"""The kind decides where a pass does not run. Those that reword or summarise are needless where masks alone brought the
log to its target. Where the caller writes the summary, it comes before those that summarise."""
Count: TypeAlias = Callable[[str], int]
Pause: TypeAlias = Callable[[], object]
"""A callback that long work calls now and then, so that others in the same process may go first."""

REPLACEMENT = "x"
"""The prefix of replacement ids."""
PRESERVED_ENTRIES, PRESERVED_SHARE = 20, 0.2  # the last entries, or this share of the window
INSTRUCTION_TOKENS = 200
"""A longer user message holds material as well, and stays unchanged; a shorter one may be quoted whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """The options of a compaction. Shares are of the window, which is in tokens as counted.

    `old_turns`: a call or turn is old once this many turns began after it. `least_output`: a shorter tool output
    stays. `fold_material`: the user's long messages may be archived too, their instructions quoted.
    `summary_tokens`: the size of a span's own summary, without the user's instructions and exact values.
    `summary_share`, `ledger_share`: the shares of the window that the summary with all earlier ones, and these values,
    may take. `end_entries`: so many of the last entries stay.
    """

    window: int
    old_turns: int = 10
    notice: float = 0.5
    idle: float = 0.7
    threshold: float = 0.8
    ceiling: float = 0.9
    target: float = 0.5
    least_output: int = 100
    fold_material: bool = False
    summary_tokens: int = 3_000
    summary_share: float = 0.15
    ledger_share: float = 0.04
    end_entries: int = PRESERVED_ENTRIES
    passes: tuple[PassName, ...] = (USUAL,)

    def share(self, tokens: int) -> float:
        """Return tokens as a share of the window."""
        return tokens / self.window

    def tokens(self, share: float) -> int:
        """Return a share of the window in tokens."""
        return int(self.window * share)


PRESETS: dict[Preset, CompactionOptions] = {
    "default": CompactionOptions(window=100_000),
    "aggressive": CompactionOptions(window=150_000, old_turns=5, threshold=0.75),
    "conservative": CompactionOptions(window=100_000, old_turns=20, threshold=0.9),
    "off": CompactionOptions(window=100_000, passes=()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A new entry, and the entries that it replaces."""

    entry: Entry
    replaces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlan:
    """The replacements that a pass would make, and the reason; none where it would do nothing."""

    reason: str
    replacements: tuple[Replacement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The entries to summarise, in the log's order, exchanges whole, and the summary to merge them into.

    The anchor, the one live summary, is not among the entries. `max_tokens` limits the words about these entries,
    `most_tokens` those of the whole summary with what it knew before, and `ledger_tokens` the exact values; the user's
    instructions come on top. With `target_tokens` for the whole summary the log is at its target. Short messages take
    what is left until then, at most `quote_tokens`; those that no rule can read take that at least: the ceiling pass
    makes room. `prompt` is the user's message that begins the turn of the first entry, where it stays; `following` are
    the entries that stay behind it.
    """

    entries: tuple[Entry, ...]
    anchor: Entry | None
    max_tokens: int
    most_tokens: int
    ledger_tokens: int
    target_tokens: int = 0
    quote_tokens: int = 0
    prompt: Entry | None = None
    following: tuple[Entry, ...] = ()

    @property
    def replaced(self) -> tuple[Entry, ...]:
        """All entries that the summary replaces: the anchor, where there is one, and the entries."""
        return self.entries if self.anchor is None else (self.anchor, *self.entries)


class CompactionPass(Protocol):
    """A way to make a log shorter. Pure: the same log gives the same plan.

    One from outside may have no `kind`: then it is of the kind of ours that it replaces, or "other".
    """

    @property
    def name(self) -> PassName: ...

    @property
    def kind(self) -> PassKind: ...

    def plan(self, log: SessionLog, options: CompactionOptions) -> PassPlan:
        """Return the replacements; never an entry twice, never part of an exchange alone unless it stays one."""
        ...


@dataclass(frozen=True)
class Passes:
    """The passes there are: the `usual` ones in their order, one that comes `last` always, and those from outside.

    One from outside replaces ours of its name.
    """

    usual: tuple[CompactionPass, ...]
    last: CompactionPass
    outside: tuple[CompactionPass, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[PassName, CompactionPass]:
        return {one.name: one for one in (*self.usual, self.last, *self.outside)}

    def named(self, names: Iterable[PassName]) -> tuple[PassName, ...]:
        """Return the names with those of the usual passes instead of `USUAL`."""
        usual = tuple(one.name for one in self.usual)
        return tuple(chain.from_iterable(usual if name == USUAL else (name,) for name in names))

    def kind_of(self, name: PassName) -> PassKind:
        ours: dict[PassName, PassKind] = {one.name: one.kind for one in (*self.usual, self.last)}
        return getattr(self.by_name[name], "kind", ours.get(name, "other"))


def entry_of(record: Record) -> Entry:
    """Return a stored record of the log as an original entry."""
    return Entry(
        id=record.id, kind=cast("EntryKind", record.kind), role=role_of(record.kind, record.role), text=record.text,
        tokens=record.text_tokens, at=record.occurred_at, covers=(record.id,), original_tokens=record.text_tokens,
        summary=record.summary, micro=record.micro, tool=record.tool, call_id=record.call_id, speaker=record.speaker,
        failed=record.outcome == "failure", pinned=record.pinned, importance=record.importance,
    )  # fmt: skip


def replacing(
    entries: tuple[Entry, ...],
    form: Form,
    text: Callable[[str], str],
    count: Count,
    *,
    role: Role = "assistant",
    kind: EntryKind = "message",
) -> Replacement:
    """Make the entry that replaces these entries. `text` writes it, given its future id.

    A mask or an external text describes the same entry, so it keeps its level, its tool and its call.
    """
    first = entries[0]
    is_one = form in ("mask", "external")
    said = "\n".join([form, *(entry.id for entry in entries), text("")])
    entry_id = REPLACEMENT + blake2b(said.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
    written = text(entry_id)
    entry = Entry(
        id=entry_id,
        kind=first.kind if is_one else kind,
        role=first.role if is_one else role,
        text=written,
        tokens=count(written),
        at=first.at,
        covers=tuple(sorted((covered for entry in entries for covered in entry.covers), key=id_order)),
        original_tokens=sum(entry.original_tokens for entry in entries),
        tool=first.tool if is_one else None,
        call_id=first.call_id if is_one else None,
        failed=any(entry.failed for entry in entries),
        pinned=first.pinned if is_one else False,
        importance=max(entry.importance for entry in entries),
        form=form,
        level=first.level if is_one else level_over(entries),
    )
    return Replacement(entry=entry, replaces=tuple(entry.id for entry in entries))


def applied(log: SessionLog, replacements: Iterable[Replacement]) -> SessionLog:
    """Return the log with each replacement instead of the entries that it replaces."""
    made = tuple(replacements)
    gone = {entry_id for one in made for entry_id in one.replaces}
    return in_order([entry for entry in log.entries if entry.id not in gone] + [one.entry for one in made])


def check(plan: PassPlan, log: SessionLog) -> None:
    """Raise ValueError where a plan would lose an entry, or leave a call without its result.

    A replacement of one entry may represent that entry, with its kind and call; any other is a message in the place
    of whole exchanges.
    """
    place_of = {entry.id: place for place, entry in enumerate(log.entries)}
    replaced = [entry_id for made in plan.replacements for entry_id in made.replaces]
    if len(replaced) != len(set(replaced)) or not place_of.keys() >= set(replaced):
        raise ValueError("A plan replaces an entry twice, or one that is not in the log.")
    for made in plan.replacements:
        places = frozenset(place_of[entry_id] for entry_id in made.replaces)
        whole = log.at(places)
        same = len(whole) == 1 and (made.entry.kind, made.entry.call_id) == (whole[0].kind, whole[0].call_id)
        if not same and (made.entry.kind != "message" or log.closed(places) != places):
            raise ValueError("A plan leaves a call without its result.")
        if {*made.entry.covers} != {covered for entry in whole for covered in entry.covers}:
            raise ValueError("A replacement covers other originals than the entries that it replaces.")


def saved(log: SessionLog, replacements: Iterable[Replacement]) -> int:
    """Count the tokens by which the replacements shorten the log."""
    return log.tokens - applied(log, replacements).tokens


def preserved(log: SessionLog, options: CompactionOptions) -> frozenset[int]:
    """Return the places of the entries that stay unchanged, to the byte.

    These are the end of the log, the current turn, and protected entries. The end is the last 20 entries or 20 % of
    the window, whichever is more. Of a current turn that is long, only the prompt and the end stay. Protected are
    system messages, pinned or important entries, calls without results, and the user's long messages; a short one may
    be quoted whole elsewhere. An exchange stays as a whole.
    """
    last = len(log.entries)
    kept = set(range(_tail(log, options), last)) | set(log.unanswered)
    if log.turns and log.entries[log.turns[-1][0]].is_users:
        now = log.turns[-1]
        kept.update(now[:1] if is_long(log, now, options) else now)
    for place, entry in enumerate(log.entries):
        is_material = entry.is_users and entry.tokens > INSTRUCTION_TOKENS and not options.fold_material
        if entry.is_kept or entry.role == "system" or is_material:
            kept.add(place)
    return log.closed(kept)


def old(log: SessionLog, options: CompactionOptions) -> frozenset[int]:
    """Return the places that are not preserved, and are `old_turns` back or in a long turn."""
    aged = {
        place
        for turn in log.turns
        if log.turns_since[turn[0]] >= options.old_turns or is_long(log, turn, options)
        for place in turn
    }
    return frozenset(aged - preserved(log, options))


def is_long(log: SessionLog, turn: Places, options: CompactionOptions) -> bool:
    """Return True for a turn that alone exceeds the target, by its originals: it stays long while it is shortened."""
    return sum(log.entries[place].original_tokens for place in turn) > options.tokens(options.target)


def _tail(log: SessionLog, options: CompactionOptions) -> int:
    """Return the place at which the preserved end begins."""
    begin, tokens = len(log.entries), 0
    while begin and tokens + log.entries[begin - 1].tokens <= options.tokens(PRESERVED_SHARE):
        begin -= 1
        tokens += log.entries[begin].tokens
    return min(begin, max(len(log.entries) - options.end_entries, 0))
