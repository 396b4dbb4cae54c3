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
from mcp_memory.entrypoints.page.rendering import DiffPart, WordDiff
from mcp_memory.entrypoints.page.sign_in import CLIENT

if TYPE_CHECKING:
    from mcp_memory.domain.model.scopes import Caller

VERSIONS_SHOWN: Final = 50
LOOKED_AT: Final = 4
"""Versions, the latest, in which the reason of a status is looked for."""
MOST_CHARACTERS: Final = 3_000_000
"""Characters of earlier texts from which on a page takes in no more versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersion:
    """A version for a person: when, by whom, why; what it was before, by field; and its text against the next one."""

    version: Version
    by: str
    before: Mapping[str, str]
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
    versions: Sequence[Version], text: str, record: Record, caller: Caller
) -> tuple[list[ShownVersion], int]:
    """Return versions for a person, newest first; and the change of the last one that says an earlier text."""
    compare, text_before = WordDiff(), 0
    shown: list[ShownVersion] = []
    for each in versions:
        diff: Sequence[DiffPart] = ()
        if "text" in each.before:
            earlier = str(each.before["text"])
            diff, text, text_before = compare(earlier, text), earlier, each.change
        fields = {name: value_in_words(value) for name, value in each.before.items() if name in TOLD}
        if is_storing(each, record.id):
            fields = {}
        is_gone = "normal_hash" in each.before and "text" not in each.before
        by = (author(each.agent, caller) or each.agent) if each.session_id else each.agent or "unknown"
        has_made = each.client == CLIENT and record.superseded_by == make_id(RECORD, each.write)
        shown.append(ShownVersion(version=each, by=by, before=fields, diff=diff, is_gone=is_gone, has_made=has_made))
    return shown, text_before


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
