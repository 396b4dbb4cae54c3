"""The log of one session: what was said and done, in order, and what stands in it for parts that were compacted.

Knows no store and no tokenizer. Token counts are the store counter's, without any factor.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Literal, TypeAlias, get_args

from mcp_memory.domain.model.records import Instant

Role = Literal["system", "user", "assistant", "tool"]
EntryKind = Literal["message", "tool_call", "tool_result"]
Form = Literal["original", "mask", "tools", "batch", "summary", "external"]
"""What an entry is: as it was said; a result whose output is put away; a block for calls and their results, for turns,
for a span; or a message whose text is put away."""

ENTRY_KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
_ROLES: Mapping[str, Role] = {
    "system": "system", "user": "user", "assistant": "assistant", "tool": "tool",
    "human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool",
}  # fmt: skip
STANDS_FOR_MANY: frozenset[Form] = frozenset({"tools", "batch", "summary"})
IMPORTANT = 5.0
"""Of 10: an original of that importance stays in its log until the log is at its ceiling."""
Places: TypeAlias = tuple[int, ...]
"""Places of entries in their log, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a log as it stands now: an original record, or what stands for one or more of them.

    `covers` names the originals it answers for, in their order; an original covers itself. `level` is 0 for those,
    and one more than the highest it stands for where others were written down in other words. `summary` and `micro`
    are the record's own short forms, "" for what stands for something else. `original_tokens` are those of `covers`.
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
    failed: bool = False
    pinned: bool = False
    importance: float = 1.0
    form: Form = "original"
    level: int = 0

    @property
    def is_kept(self) -> bool:
        """True for what is kept longest: somebody pinned it, or called it important."""
        return self.pinned or (self.form == "original" and self.importance >= IMPORTANT)

    @property
    def is_users(self) -> bool:
        """True for the user's own words, as they were said or put away; not for a block in the user's role."""
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
        """A digest of what the log shows: the same for the same entries, whenever it is read."""
        shown = "\n".join(f"{entry.id} {entry.tokens} {entry.pinned:d}" for entry in self.entries)
        return blake2b(shown.encode(), digest_size=8).hexdigest()

    @cached_property
    def anchor(self) -> Entry | None:
        """The one summary that stands in the log, which the next is merged into; None where none does."""
        return next((entry for entry in self.entries if entry.form == "summary"), None)

    @cached_property
    def turns(self) -> tuple[Places, ...]:
        """The turns, each from a user's message to the next; what comes before the first message is one by itself."""
        turns: list[list[int]] = []
        for place, entry in enumerate(self.entries):
            if entry.is_users or not turns:
                turns.append([])
            turns[-1].append(place)
        return tuple(tuple(turn) for turn in turns)

    @cached_property
    def turns_since(self) -> tuple[int, ...]:
        """For each entry how many turns began after its own."""
        since: list[int] = [0] * len(self.entries)
        for number, turn in enumerate(self.turns):
            for place in turn:
                since[place] = len(self.turns) - 1 - number
        return tuple(since)

    @cached_property
    def exchanges(self) -> tuple[Places, ...]:
        """Each answered call with its results: the results of its id up to the next call of that id.

        A call without an id is answered by the next entry, where that is a result without one.
        """
        open_calls: dict[str, list[int]] = {}
        found: list[list[int]] = []
        for place, entry in enumerate(self.entries):
            if entry.kind == "tool_call":
                call = [place]
                found.append(call)
                open_calls[entry.call_id or f"at {place}"] = call
            elif entry.kind == "tool_result":
                answered = open_calls.get(entry.call_id or f"at {place - 1}")
                if answered is not None:
                    answered.append(place)
        return tuple(tuple(exchange) for exchange in found if len(exchange) > 1)

    @cached_property
    def exchange_of(self) -> dict[int, Places]:
        """For each entry that is part of an answered call, the whole exchange."""
        return {place: exchange for exchange in self.exchanges for place in exchange}

    @cached_property
    def unanswered(self) -> frozenset[int]:
        """Calls whose results have not come."""
        return frozenset(
            place
            for place, entry in enumerate(self.entries)
            if entry.kind == "tool_call" and place not in self.exchange_of
        )

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """For each original its number in the order in which they were told, from 1: whatever was compacted since."""
        originals = sorted((covered for entry in self.entries for covered in entry.covers), key=id_order)
        return {covered: number for number, covered in enumerate(originals, start=1)}

    def covered_numbers(self, entry: Entry) -> str:
        """The numbers of what one of the entries covers: `1-17 19`."""
        runs: list[list[int]] = []
        for number in sorted(self.numbers[covered] for covered in self.numbers.keys() & entry.covers):
            if runs and number == runs[-1][-1] + 1:
                runs[-1][1:] = [number]
            else:
                runs.append([number])
        return " ".join("-".join(map(str, run)) for run in runs)

    def closed(self, places: Iterable[int]) -> frozenset[int]:
        """The places, and the rest of every exchange that one of them is part of."""
        return frozenset(part for place in places for part in self.exchange_of.get(place, (place,)))

    def within(self, places: Iterable[int]) -> frozenset[int]:
        """Those of the places whose whole exchange is among them."""
        chosen = frozenset(places)
        return frozenset(place for place in chosen if chosen.issuperset(self.exchange_of.get(place, ())))

    def at(self, places: Iterable[int]) -> tuple[Entry, ...]:
        """The entries at these places, in the log's order."""
        return tuple(self.entries[place] for place in sorted(places))


def role_of(kind: str, role: str | None) -> Role:
    """Whose entry a record of this kind is, whatever word was used for the role; a message of nobody is the user's."""
    if kind != "message":
        return "assistant" if kind == "tool_call" else "tool"
    return "user" if role is None else _ROLES.get(role.lower(), "assistant")


def in_order(entries: Iterable[Entry]) -> SessionLog:
    """A log of these entries, ordered by the first original that each covers: ids sort by time."""
    return SessionLog(tuple(sorted(entries, key=lambda entry: id_order(entry.covers[0]))))


def id_order(entry_id: str) -> tuple[int, str]:
    """What ids of records sort by: a longer one is later."""
    return len(entry_id), entry_id


def level_over(entries: Sequence[Entry]) -> int:
    """The level of a text that says in other words what these say."""
    return 1 + max((entry.level for entry in entries), default=0)
