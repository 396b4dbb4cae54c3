"""A record's versions for a person: when, by whom and why, what each replaced, and texts compared by words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.versions import TOLD, Version, is_storing
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.entrypoints.page.rendering import DiffPart, WordDiff, status_in_words
from mcp_memory.entrypoints.page.sign_in import CLIENT

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Details
    from mcp_memory.domain.model.scopes import Caller

VERSIONS_SHOWN: Final = 50
LOOKED_AT: Final = 4
"""Versions, the latest, in which the reason of a status is looked for."""
MOST_CHARACTERS: Final = 3_000_000
"""Characters of earlier texts from which on a page takes in no more versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersion:
    """A version for a person: when, by whom, why; what changed beside the text; and its text against the next one."""

    version: Version
    by: str
    changes: Sequence[str]
    diff: Sequence[DiffPart] = ()
    is_gone: bool = False
    has_made: bool = False
    """True where a person put a new record in its place by this change, which goes with an undo."""


def taken(versions: Iterable[Version]) -> tuple[list[Version], bool]:
    """Return as many versions as one page shows, and True where there are more."""
    taken: list[Version] = []
    characters = 0
    for each in versions:
        if len(taken) == VERSIONS_SHOWN or characters > MOST_CHARACTERS:
            return taken, True
        taken.append(each)
        characters += len(str(each.before.get("text", "")))
    return taken, False


def reason_of_status(versions: Iterator[Version]) -> str:
    """Return the reason for which a record has its status, from its latest versions; "" where none was given."""
    return next((each.reason for each in islice(versions, LOOKED_AT) if "status" in each.before), "")


def shown_versions(
    versions: Sequence[Version], text: str, record: Record, caller: Caller, *, is_older: bool
) -> tuple[list[ShownVersion], int]:
    """Return versions for a person, newest first; and the change of the last one that says an earlier text.

    Of older ones than the latest it is not known what they came to, but by those that are shown.
    """
    compare, text_before = WordDiff(), 0
    known = {} if is_older else {name: getattr(record, name) for name in TOLD}
    shown: list[ShownVersion] = []
    for each in versions:
        diff: Sequence[DiffPart] = ()
        if "text" in each.before:
            earlier = str(each.before["text"])
            diff, text, text_before = compare(earlier, text), earlier, each.change
        fields = {name: value for name, value in each.before.items() if name in TOLD}
        changes = [] if is_storing(each, record.id) else [*_changes(fields, known)]
        known |= fields
        is_gone = "normal_hash" in each.before and "text" not in each.before
        by = (author(each.agent, caller) or each.agent) if each.session_id else each.agent or "unknown"
        has_made = each.client == CLIENT and record.superseded_by == make_id(RECORD, each.write)
        shown.append(ShownVersion(version=each, by=by, changes=changes, diff=diff, is_gone=is_gone, has_made=has_made))
    return shown, text_before


def difference(before: Record, after: Record, compare: WordDiff) -> tuple[Sequence[str], Sequence[DiffPart]]:
    """Return what a change made of a record: its fields in words, and its text word by word, () where that stayed.

    `compare` is that of the page, whose comparisons take a bounded number of steps together.
    """
    was, now = ({name: getattr(each, name) for name in TOLD} for each in (before, after))
    changes = _changes({name: old for name, old in was.items() if old != now[name]}, now)
    return [*changes], compare(before.text, after.text) if before.text != after.text else ()


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    """Yield the changes of fields in words: "new → superseded by r00001a", "Pinned", "importance 1 → 4"."""
    for name, old in before.items():
        new = after.get(name)
        if name == "superseded_by" and "status" in before:  # It is told with the status.
            continue
        if name not in after:
            yield f"{name.replace('_', ' ')} {'were' if name == 'tags' else 'was'} {_value(name, old)}"
        elif name == "pinned":
            yield "Pinned" if new else "Unpinned"
        elif name == "status":
            by = f" by {after['superseded_by']}" if new == "superseded" and after.get("superseded_by") else ""
            yield f"{_value(name, old)} → {_value(name, new)}{by}"
        elif name == "details" and isinstance(old, Mapping) and isinstance(new, Mapping):
            was, now = cast("Details", old), cast("Details", new)
            keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
            yield from (f"{key} {value_in_words(was.get(key))} → {value_in_words(now.get(key))}" for key in keys)
        else:
            yield f"{name.replace('_', ' ')} {_value(name, old)} → {_value(name, new)}"


def _value(name: str, value: object) -> str:
    return status_in_words(str(value)) if name == "status" else value_in_words(value)


def value_in_words(value: object) -> str:
    """Return a stored value in words: a list with dots, as a tag may hold a comma; anything nested as it is stored."""
    if value in (None, "", [], ()):
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in cast("Sequence[object]", value)):
        return " · ".join(cast("Sequence[str]", value))
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
