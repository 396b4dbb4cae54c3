"""Finds the lines of a resent conversation that the log already holds. A line is only its content and id."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mcp_memory.domain.model.session_log import HEADED, LABELS

LEAST_MET = 3
"""Least number of unique lines matched in order: fewer may be a coincidence."""
# e.g. "[GOAL BATCH x4175782e0a] 3 turns", "[MESSAGE ARCHIVED id=r000102 role=tool]"; a call's arguments hold theirs
_REPLACES = re.compile(
    rf'(?:\{{"archived":")?\[(?:(?:{"|".join(LABELS[form] for form in HEADED)}) (?P<block>x[0-9a-f]{{1,20}})\]'
    rf"|(?:{LABELS['mask']}|{LABELS['external']}) id=(?P<original>[rx][0-9a-z]{{1,30}})\b)"
)
_RETOLD, _RETELLS = f"[{LABELS['tools']}] ", re.compile(r" \(open (x[0-9a-f]{1,20})\)\s{0,9}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a conversation. `content` identifies speaker and text; `id` is the client's own, where it has one."""

    content: Hashable
    id: str | None = None


def replaced_by(text: str) -> str | None:
    """Return the id that a replacement's text names: its own, or its only original's; None for any other text."""
    if text.startswith(_RETOLD):
        found = _RETELLS.search(text, max(len(text) - 40, 0))
        return found[1] if found else None
    found = _REPLACES.match(text)
    return (found["block"] or found["original"]) if found else None


def held_as(
    told: Sequence[LogLine], standing: Mapping[int, tuple[str, ...]], said: Sequence[tuple[str, Hashable]]
) -> list[tuple[str, ...]]:
    """Return, for each told line, the ids of the originals that it repeats or replaces; () for a line unknown.

    `standing` has those of replacements, by their places in `told`; `said` the originals in order, each with its
    content. Of equal originals the last ones count, because a conversation is told up to its end.
    """
    taken = {covered for covers in standing.values() for covered in covers}
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, (record_id, content) in enumerate(said):
        if record_id not in taken:
            places[content].append(place)
    found: list[tuple[str, ...]] = [()] * len(told)
    before = len(said)
    for place in reversed(range(len(told))):
        if place in standing:
            found[place] = standing[place]
            continue
        at = places[told[place].content]
        while at and at[-1] >= before:
            at.pop()
        if at:
            before = at.pop()
            found[place] = (said[before][0],)
    return found


def new_places(told: Sequence[LogLine], said: Sequence[LogLine], live: Sequence[Hashable]) -> list[int]:
    """Return the places in `told` of lines that no log holds yet.

    A line with an id is matched by it; one with an unknown id, by content among the logged lines without ids, each
    once. Lines without ids match as far as their beginning equals the end of the logged lines, or of the log as
    shown (`live`). So you may send a whole conversation, a compacted one, or only the newest part. Where the log
    instead holds at least two thirds of the told lines up to a common line, and that leaves fewer new ones, the held
    lines are known. So part of a conversation may have been erased or changed, or continued since. Lines only in the
    log as shown, such as summaries, are never new.
    """
    shown_only = set(live) - {line.content for line in said}
    places = [place for place, line in enumerate(told) if line.content not in shown_only]
    if any(told[place].id for place in places):
        return unmatched(told, places, said)
    contents, before = [told[place].content for place in places], [line.content for line in said]
    known = _overlap(before, contents)
    if shown_only:
        # `places` leaves out the summaries in the log as shown: leave them out here too.
        known = max(known, _overlap([content for content in live if content not in shown_only], contents))
    amid = _new_amid(before, contents)
    return places[known:] if len(amid) >= len(places) - known else [places[each] for each in amid]


def unmatched(told: Sequence[LogLine], places: Iterable[int], said: Sequence[LogLine]) -> list[int]:
    """Return the places in `told` whose line matches no logged line: by its id, else by content, each once."""
    ids = {line.id for line in said if line.id}
    unnamed = Counter(line.content for line in said if not line.id)
    new: list[int] = []
    for place in places:
        line = told[place]
        if line.id and line.id in ids:
            continue
        if unnamed[line.content]:
            unnamed[line.content] -= 1
            continue
        new.append(place)
        if line.id:
            ids.add(line.id)
    return new


def _overlap(before: Sequence[Hashable], after: Sequence[Hashable]) -> int:
    """Return the most entries that both end `before` and begin `after`, in linear time.

    Knuth, Morris and Pratt (SIAM J. Comput., 1977): the length of the pattern matched when the text ends.
    """
    if not after:
        return 0
    borders = [0] * len(after)
    matched = 0
    for place in range(1, len(after)):
        while matched and after[place] != after[matched]:
            matched = borders[matched - 1]
        matched += after[place] == after[matched]
        borders[place] = matched
    matched = 0
    for content in before[-len(after) :]:
        while matched and (matched == len(after) or content != after[matched]):
            matched = borders[matched - 1]
        matched += content == after[matched]
    return matched


def _new_amid(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[int]:
    """Return the places in `after` that are new beside the part mostly held by `before`; else all places.

    That part ends with the last of the lines that are unique in both and in the same order in both: the anchors of
    patience sorting, their longest row found in O(n log n). Equal lines from there on belong to it.
    """
    said, told = Counter(before), Counter(after)
    at = {content: place for place, content in enumerate(before) if said[content] == 1}
    rows: list[tuple[int, int]] = []
    for place, content in enumerate(after):
        if told[content] == 1 and content in at:
            length = bisect_left(rows, (at[content], 0))
            rows[length : length + 1] = [(at[content], place)]
    everything = list(range(len(after)))
    if len(rows) < LEAST_MET:
        return everything
    where, end = rows[-1][0] + 1, rows[-1][1] + 1
    while end < len(after) and where < len(before) and after[end] == before[where]:
        where, end = where + 1, end + 1
    new: list[int] = []
    for place in range(end):
        if said[after[place]]:
            said[after[place]] -= 1
        else:
            new.append(place)
    return everything if 3 * len(new) > end else new + everything[end:]
