"""Finds what a user took back in a transcript whose lines name the line that each follows. Knows lines, and no memory.

Going back leaves the old lines in the file: the next prompt follows an earlier line, and what followed that one before
is a branch that nobody continues. Calls that run side by side branch as well; only a prompt takes anything back.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from mcp_memory.bounded_files import MB, bounded_lines, open_regular

MAX_LINE_BYTES: Final = 64 * MB
_PARENTS: Final = ("parentUuid", "logicalParentUuid")
"""The line before; behind a client's compaction, the last one that it summarised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLine:
    """A line of a chain: its own id, that of the line it follows, and whether a user wrote it."""

    id: str
    parent: str | None
    is_prompt: bool

    def goes_back(self, last: str | None) -> bool:
        """Return True for a prompt that follows another line than the `last` one before it; None is none."""
        return self.is_prompt and self.parent != last


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """Ids of a transcript's lines in order: those that its user `left`, and those that are `standing`.

    A line whose branch has no beginning in the transcript is neither.
    """

    left: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()


def step_of(entry: Mapping[str, JsonValue]) -> ChainLine | None:
    """Return an entry's place in the chain; None for one outside of it, as those of subagents are."""
    own = entry.get("uuid")
    if not isinstance(own, str) or "parentUuid" not in entry or entry.get("isSidechain") is True:
        return None
    parent = next((found for name in _PARENTS if isinstance(found := entry.get(name), str)), None)
    return ChainLine(id=own, parent=parent, is_prompt=_is_prompt(entry))


def goes_back(before: bytes, lines: bytes) -> bool:
    """Return True where a prompt among the lines follows another one than that before it; `before` precedes them."""
    *_, last = [None, *(step.id for step in _steps(before.splitlines()))]
    for step in _steps(lines.splitlines()):
        if step.goes_back(last):
            return True
        last = step.id
    return False


def branches_in(path: Path) -> Branches:
    """Return `branches` of a transcript's file; none where it cannot be read."""
    try:
        with open_regular(path.expanduser()) as file:
            return branches(raw for raw in bounded_lines(file, MAX_LINE_BYTES) if raw)
    except (OSError, RuntimeError):
        return Branches()


def branches(lines: Iterable[bytes]) -> Branches:
    """Return the lines that follow a prompt which the user took back, that prompt among them, and those that stand.

    A prompt was taken back where it is not among the lines before the last one, and where a later prompt, which is,
    follows the line from which its branch begins, or where the user left its branch for another one.
    """
    steps: dict[str, ChainLine] = {}
    last: str | None = None
    for entry in _entries(lines):
        if step := step_of(entry):
            steps.setdefault(step.id, step)
            last = step.id
        elif entry.get("type") == "last-prompt" and entry.get("leafUuid") in steps:
            last = str(entry["leafUuid"])
    live = _before(last, steps)
    if not any(step.parent for step in steps.values()) or not _begins_with_prompt(live, steps):
        live.pop(None, None)  # A chain that a client's compaction has begun takes nothing back.
    tops = _tops(steps, live)
    places = {step_id: place for place, step_id in enumerate(steps)}
    later, left_at = _last_prompts(live, steps, places), _left_at(steps, tops)
    left: set[str] = set()
    for place, step in enumerate(steps.values()):
        top = tops.get(step.id)
        is_left = bool(top) and max(later[steps[top].parent], left_at.get(top, -1)) > place
        if step.id not in live and (step.parent in left or (step.is_prompt and is_left)):
            left.add(step.id)
    return Branches(
        left=tuple(step_id for step_id in steps if step_id in left),
        standing=tuple(step_id for step_id in steps if step_id not in left and (step_id in live or tops[step_id])),
    )


def _entries(lines: Iterable[bytes]) -> Iterator[Mapping[str, JsonValue]]:
    for raw in lines:
        try:
            entry: object = json.loads(raw.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield cast("Mapping[str, JsonValue]", entry)


def _steps(lines: Iterable[bytes]) -> Iterator[ChainLine]:
    return (step for entry in _entries(lines) if (step := step_of(entry)))


def _before(last: str | None, steps: Mapping[str, ChainLine]) -> dict[str | None, None]:
    """Return the chain that ends with this line, from its end; None is its beginning."""
    chain: dict[str | None, None] = {}
    while last in steps and last not in chain:
        chain[last] = None
        last = steps[last].parent if last else None
    return {**chain, None: None} if last is None else chain


def _last_prompts(
    live: Iterable[str | None], steps: Mapping[str, ChainLine], places: Mapping[str, int]
) -> dict[str | None, int]:
    """Return, for each line of the living chain, the place of the first prompt behind it; -1 without one."""
    following, found = -1, dict[str | None, int]()
    for step_id in live:
        found[step_id] = following
        if step_id and steps[step_id].is_prompt:
            following = places[step_id]
    return found


def _begins_with_prompt(live: Iterable[str | None], steps: Mapping[str, ChainLine]) -> bool:
    *_, first = [None, *(step_id for step_id in live if step_id)]
    return first is not None and steps[first].is_prompt


def _tops(steps: Mapping[str, ChainLine], live: Collection[str | None]) -> Mapping[str | None, str | None]:
    """Return, for each line beside the living chain, the first one of its branch; None where that begins nowhere."""
    tops = dict[str | None, str | None]()
    for step_id in steps:
        at, path = cast("str | None", step_id), list[str]()
        while at is not None and at not in live and at not in tops and at in steps:
            tops[at] = None
            path.append(at)
            at = steps[at].parent
        top = path[-1] if path and at in live else tops.get(at)
        tops.update(dict.fromkeys(path, top))
    return tops


def _left_at(steps: Mapping[str, ChainLine], tops: Mapping[str | None, str | None]) -> Mapping[str, int]:
    """Return, for the first line of each branch, the place of the last prompt with which its user left it."""
    return {
        top: place
        for place, (before, step) in enumerate(pairwise(steps.values()), start=1)
        if step.is_prompt and step.parent != before.id and (top := tops.get(before.id)) and top != tops.get(step.id)
    }


def _is_prompt(entry: Mapping[str, JsonValue]) -> bool:
    """Return True for a line that a user wrote: in the user's role, no tool's result and no client's note."""
    message = entry.get("message")
    if (
        entry.get("type") != "user"
        or True in (entry.get("isMeta"), entry.get("isCompactSummary"))
        or not isinstance(message, dict)
    ):
        return False
    content = message.get("content")
    if isinstance(content, list):
        kinds = [part.get("type") for part in content if isinstance(part, dict)]
        return bool(kinds) and "tool_result" not in kinds
    return isinstance(content, str)
