"""What compaction may do to a session's log: its options, what it leaves alone, and plans of what replaces what.

A plan is a value. Whoever makes one changes nothing; whoever commits one changes all of it or nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, Protocol, TypeAlias

from mcp_memory.domain.model.session_log import (
    Entry,
    EntryKind,
    Form,
    Role,
    SessionLog,
    id_order,
    in_order,
    level_over,
)

Preset = Literal["default", "aggressive", "conservative", "off"]
PassName = Literal["mask", "tool_calls", "threshold", "goal_batch", "ceiling"]
Count: TypeAlias = Callable[[str], int]
Pause: TypeAlias = Callable[[], object]
"""Called now and then by what takes long, so that others in the same process may go first."""

REPLACEMENT = "x"
"""How ids of replacements begin."""
PRESERVED_ENTRIES, PRESERVED_SHARE = 20, 0.2
INSTRUCTION_TOKENS = 200
"""A longer message of the user's holds material as well, and stands as it is; a shorter one may be quoted whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a log is compacted. Shares are of the window, which is in tokens as counted.

    `old_turns`: so many turns must have begun after a call, or a turn, for it to be old. `least_output`: a shorter tool
    output stays. `fold_material`: the user's long messages may be put away with the rest, their instructions quoted.
    `summary_tokens`: what a summary may take, user's instructions and exact values aside. `ledger_share`: what of the
    window these values may take in it.
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
    summary_tokens: int = 2_000
    ledger_share: float = 0.04
    passes: tuple[PassName, ...] = ("mask", "tool_calls", "threshold", "goal_batch")

    def share(self, tokens: int) -> float:
        """Tokens as a share of the window."""
        return tokens / self.window

    def tokens(self, share: float) -> int:
        """A share of the window in tokens."""
        return int(self.window * share)


PRESETS: Mapping[Preset, Options] = {
    "default": Options(window=100_000),
    "aggressive": Options(window=150_000, old_turns=5, threshold=0.75),
    "conservative": Options(window=100_000, old_turns=20, threshold=0.9),
    "off": Options(window=100_000, passes=()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A new entry, and the entries that it takes the place of."""

    entry: Entry
    replaces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a pass would do, and why; no replacements where it would do nothing."""

    reason: str
    replacements: tuple[Replacement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What is to be summarised: entries in the log's order, exchanges whole, and the summary to merge them into.

    The anchor, the one live summary, is not among the entries. `max_tokens` is for the summary's own words, and
    `ledger_tokens` for exact values; the user's instructions come on top.
    """

    entries: tuple[Entry, ...]
    anchor: Entry | None
    max_tokens: int
    ledger_tokens: int

    @property
    def replaced(self) -> tuple[Entry, ...]:
        """All that the summary takes the place of: the anchor, where there is one, and the entries."""
        return self.entries if self.anchor is None else (self.anchor, *self.entries)


class Pass(Protocol):
    """One way to make a log shorter. Pure: the same log gives the same plan."""

    @property
    def name(self) -> PassName: ...

    def plan(self, log: SessionLog, options: Options) -> Plan:
        """What would replace what; never an entry twice, never part of an exchange alone unless it stays one."""
        ...


def replacing(
    entries: tuple[Entry, ...],
    form: Form,
    text: Callable[[str], str],
    count: Count,
    *,
    role: Role = "assistant",
    kind: EntryKind = "message",
) -> Replacement:
    """What stands for these entries from now on. `text` writes it, given the id that it will have.

    A mask or an external text says what the entry is, so it keeps its level, its tool and its call.
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
    """The log with each replacement in the place of what it replaces."""
    made = tuple(replacements)
    gone = {entry_id for one in made for entry_id in one.replaces}
    return in_order([entry for entry in log.entries if entry.id not in gone] + [one.entry for one in made])


def saved(log: SessionLog, replacements: Iterable[Replacement]) -> int:
    """How many tokens shorter the replacements make the log."""
    return log.tokens - applied(log, replacements).tokens


def preserved(log: SessionLog, options: Options) -> frozenset[int]:
    """Places of what stays as it is, to the byte: the end of the log, the current turn, and what must not be lost.

    The end is the last 20 entries or 20 % of the window, whichever is more. System messages stay, and what is pinned or
    important, calls whose results have not come, and long messages of the user's; a short one may be quoted whole
    elsewhere. An exchange stays as a whole.
    """
    last = len(log.entries)
    kept = set(range(_tail(log, options), last)) | set(log.unanswered)
    if log.turns and log.entries[log.turns[-1][0]].is_users:
        kept.update(log.turns[-1])
    for place, entry in enumerate(log.entries):
        is_material = entry.is_users and entry.tokens > INSTRUCTION_TOKENS and not options.fold_material
        if entry.is_kept or entry.role == "system" or is_material:
            kept.add(place)
    return log.closed(kept)


def _tail(log: SessionLog, options: Options) -> int:
    """Where the preserved end begins."""
    begin, tokens = len(log.entries), 0
    while begin and tokens + log.entries[begin - 1].tokens <= options.tokens(PRESERVED_SHARE):
        begin -= 1
        tokens += log.entries[begin].tokens
    return min(begin, max(len(log.entries) - PRESERVED_ENTRIES, 0))
