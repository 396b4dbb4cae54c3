"""Recognises what of a conversation that is told again is known. Knows no records: a line is what it is known by."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that was said: `content` says who said what, `id` is the client's own for it, where it has one."""

    content: Hashable
    id: str | None = None


def new_places(told: Sequence[Line], said: Sequence[Line], live: Sequence[Hashable]) -> list[int]:
    """Places in `told` of what is in no log yet.

    A line with an id is known by it; one whose id is unknown, by content among what was said without ids, each once.
    Lines without ids are known as far as their beginning is the end of what was said, or of the log as it is shown
    (`live`): so a whole conversation, one that was compacted, and what came since may all be told. What only the log as
    it is shown holds, as summaries, is never new.
    """
    shown_only = set(live) - {line.content for line in said}
    places = [place for place, line in enumerate(told) if line.content not in shown_only]
    if any(told[place].id for place in places):
        return _new_by_id(told, places, said)
    contents = [told[place].content for place in places]
    known = _overlap([line.content for line in said], contents)
    if shown_only:
        # The summaries among what is shown were left out of what is told above: leave them out here too.
        known = max(known, _overlap([content for content in live if content not in shown_only], contents))
    return places[known:]


def _new_by_id(told: Sequence[Line], places: Iterable[int], said: Sequence[Line]) -> list[int]:
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
    """The most entries that are both the end of `before` and the beginning of `after`, in linear time.

    Knuth, Morris and Pratt (SIAM J. Comput., 1977): how much of the pattern is matched when the text ends.
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
