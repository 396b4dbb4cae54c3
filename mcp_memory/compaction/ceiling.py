"""Implements the ceiling pass, the last resort: shortens the preserved part as well, the user's task last.

Each entry is replaced by one of its own, so that the time and the speaker of each stay visible; only if that is not
enough, one entry replaces many. Each names the id that opens it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from mcp_memory.compaction.mask_tool_output import mask
from mcp_memory.domain.model.session_log import (
    LABELS,
    PRESERVED_ENTRIES,
    CompactionOptions,
    Count,
    Entry,
    PassKind,
    PassName,
    PassPlan,
    Places,
    Replacement,
    SessionLog,
    replacing,
    saved,
)
from mcp_memory.domain.sessions.tool_lines import one_line
from mcp_memory.domain.sessions.tool_outputs import kept_line, remains_of
from mcp_memory.domain.text.times import iso_minute

WORDS_CHARACTERS = (80, 0)
"""Characters shown of an archived message: at first, and where that leaves the log above its ceiling."""
TASK_CHARACTERS = 1_000
"""Characters shown at first of what goes last: the user's newest message, and the summary."""
MANY, FEW = 100, 3
"""Most entries archived as one block, where a line for each is too much, and the fewest."""
MAX_ERRORS, ERROR_CHARACTERS = 3, 160

_Step: TypeAlias = tuple[Places, bool, Callable[[], Replacement | None]]
"""Places, whether only a log above its ceiling takes the step, and a function that makes their replacement or None."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Masks outputs, then archives messages, from the ceiling down to the threshold."""

    name: PassName = field(default="ceiling", init=False)
    kind: PassKind = field(default="other", init=False)
    count: Count

    def plan(self, log: SessionLog, options: CompactionOptions) -> PassPlan:
        """Plan as few replacements as needed, oldest first.

        The order: outputs, the assistant's words and calls, kept entries, the user's words, the system's. The summary
        and the user's newest message go last.
        """
        full = f"{int(100 * options.share(log.tokens))} % of {options.window:,} tokens"
        if log.tokens <= options.tokens(options.ceiling):
            return PassPlan(reason=f"{full}, not above {100 * options.ceiling:.0f} %")
        ceiling = options.tokens(options.ceiling)
        made = self._made(log, min(options.tokens(options.threshold), ceiling), ceiling)
        made = _needed(log, made, min(options.tokens(options.target), ceiling), ceiling)
        left = log.tokens - saved(log, made)
        reason = f"{full}, above {100 * options.ceiling:.0f} %"
        if left > options.tokens(options.ceiling):
            reason += f"; no shorter than {left:,} tokens: the newest entries keep a line each"
        return PassPlan(reason=reason, replacements=tuple(made))

    def _made(self, log: SessionLog, goal: int, ceiling: int) -> list[Replacement]:
        """Return the replacements that bring the log to the goal, or as near as possible.

        A later step replaces an earlier one's.
        """
        made: dict[int, Replacement] = {}
        tokens = [entry.tokens for entry in log.entries]
        left = log.tokens
        for places, is_last_resort, shorten in self._steps(log):
            if left <= goal:
                break
            if is_last_resort and left <= ceiling:
                continue
            now = sum(tokens[place] for place in places)
            shorter = shorten()
            if shorter is None or shorter.entry.tokens >= now:
                continue
            left -= now - shorter.entry.tokens
            for place in places:
                made.pop(place, None)
                tokens[place] = 0
            made[places[0]], tokens[places[0]] = shorter, shorter.entry.tokens
        return [made[place] for place in sorted(made)]

    def _steps(self, log: SessionLog) -> Iterator[_Step]:
        """Yield the steps that can shorten the log, in the order in which entries may go."""
        outputs = [
            place for place, entry in enumerate(log.entries) if entry.kind == "tool_result" and entry.form == "original"
        ]
        for place in sorted(outputs, key=lambda place: log.entries[place].is_kept):
            shorten = partial(mask, log, place, self.count, at_most=log.entries[place].tokens - 1)
            yield (place,), False, shorten
        dearness = _dearness(log)
        places = sorted(range(len(log.entries)), key=dearness.__getitem__)
        yield from self._lines(log, [place for place in places if dearness[place] < _USERS])
        for many in _many(log, frozenset(place for place in places if dearness[place] < _KEPT)):
            yield many, False, lambda many=many: _put_away_together(log.at(many), self.count)
        yield from self._lines(log, [place for place in places if _USERS <= dearness[place] < _SUMMARY])
        dearest = [place for place in places if dearness[place] >= _SUMMARY]
        yield from self._lines(log, dearest, (TASK_CHARACTERS, *WORDS_CHARACTERS))

    def _lines(
        self, log: SessionLog, places: Sequence[int], shown: Sequence[int] = WORDS_CHARACTERS
    ) -> Iterator[_Step]:
        """Yield a step that archives each of the places on a line of its own, for each number of characters `shown`."""
        for characters in shown:
            for place in places:
                shorten = partial(_put_away, log.entries[place], characters, self.count)
                yield (place,), not characters, shorten


_OUTPUT, _KEPT, _USERS, _SYSTEMS, _SUMMARY, _NEWEST = range(1, 7)


def _dearness(log: SessionLog) -> list[int]:
    """Return each entry's sort key: the first to go is lowest."""
    newest = max((place for place, entry in enumerate(log.entries) if entry.is_users), default=None)
    return [_NEWEST if place == newest else _dearness_of(entry) for place, entry in enumerate(log.entries)]


def _dearness_of(entry: Entry) -> int:
    """Return the sort key of an entry that is not the user's newest message.

    Batches, which quote the user, go with the user's words. The summary is dearer: it replaces all that
    it covers.
    """
    if entry.form == "summary":
        return _SUMMARY
    if entry.role in ("user", "system"):
        return _SYSTEMS if entry.role == "system" else _USERS
    if entry.is_kept:
        return _KEPT
    return _OUTPUT if entry.kind == "tool_result" else 0


def _needed(log: SessionLog, made: Sequence[Replacement], target: int, ceiling: int) -> list[Replacement]:
    """Return the replacements without those that a later one, of a long entry, made needless: the dearest stay first.

    The log stays within the ceiling with the summary and the newest message, and within the target with the others.
    E.g. once a task of 900 tokens is archived, all else has room in a window of 1,000.
    """
    tokens = {entry.id: entry.tokens for entry in log.entries}
    dearness = dict(zip(tokens, _dearness(log), strict=True))
    left = log.tokens - saved(log, made)
    needless = set[int]()
    dearest = [dearness[one.replaces[0]] for one in made]
    for place in sorted(range(len(made)), key=lambda place: (dearest[place], place), reverse=True):
        one = made[place]
        more = sum(tokens[each] for each in one.replaces) - one.entry.tokens
        if left + more <= (ceiling if dearest[place] >= _SUMMARY else target):
            left += more
            needless.add(place)
    return [one for place, one in enumerate(made) if place not in needless]


def _many(log: SessionLog, free: frozenset[int]) -> Iterator[Places]:
    """Yield free places to archive together, oldest first: neighbours, exchanges whole, none of the last entries.

    A call without results keeps its line, so that they find it.
    """
    own = log.within(place for place in free - log.unanswered if place < len(log.entries) - PRESERVED_ENTRIES)
    together: set[int] = set()
    for place in range(len(log.entries)):
        if place in own:
            together |= log.closed((place,))
        if together and (place not in own or len(together) >= MANY):
            yield from [tuple(sorted(together))] if len(together) >= FEW else []
            own -= together
            together = set()


def _put_away_together(entries: tuple[Entry, ...], count: Count) -> Replacement:
    """Make one block for calls, results and messages: their number, times, tools, and last errors."""
    tools = Counter(one_line(entry.tool, 40) for entry in entries if entry.kind == "tool_call" and entry.tool)
    errors = dict.fromkeys(error for entry in entries if entry.failed for error in remains_of(entry).errors)
    said = [f"{len(entries)} messages, calls and results archived, {iso_minute(entries[0].at)} to "]
    said[0] += iso_minute(max(entry.at for entry in entries))
    if tools:
        said.append("calls: " + ", ".join(f"{tool} {times}" for tool, times in tools.most_common(5)))
    if errors:
        shown = [one_line(error, ERROR_CHARACTERS) for error in list(errors)[-MAX_ERRORS:]]
        said.append("failed: " + "; ".join(shown))
    text = ". ".join(said)
    return replacing(entries, "tools", lambda entry_id: f"[{LABELS['tools']}] {text}. (open {entry_id})", count)


def _put_away(entry: Entry, characters: int, count: Count) -> Replacement:
    text = _archived(entry, characters)
    return replacing((entry,), "external", lambda _: text, count)


def _archived(entry: Entry, characters: int) -> str:
    """Return `[MESSAGE ARCHIVED id=… role=… tokens=…] first words`; the id is an original's, or a block's."""
    if entry.form == "external":
        head, _, words = entry.text.partition("]")
    else:
        entry_id = entry.covers[0] if len(entry.covers) == 1 else entry.id
        told = f"id={entry_id} role={entry.role} tokens={entry.original_tokens:,}"
        head, words = f"[{LABELS['external']} {told}", entry.text
    if not characters:
        return f"{head}]"
    if entry.kind == "tool_result" and entry.form in ("original", "mask"):
        words = kept_line(remains_of(entry), 0, len)
    return f"{head}] {one_line(words, characters)}".rstrip()
