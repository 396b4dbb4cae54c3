"""Follow files: lets records say what a client's own memory files say now, section by section.

A section that changed replaces its record, one that is gone retires it, and an unchanged one writes nothing. What
somebody corrected or forgot since is theirs: the file does not bring it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from mcp_memory.domain.model.lifecycle import moved_to
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.shown import ShownTexts
from mcp_memory.ports.text import Clock
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.memory.prepare_record import RecordDraft, RecordPreparer, unerased
from mcp_memory.services.memory.remember import Remember

FROM_FILE: Final = "from-file"
"""The tag of all records that follow a file. The client loads that file itself, so nobody is given them unasked."""
_REASON: Final = "read from its file"
_SESSION: Final = "files"
"""The session of these writes, which is in no task."""
_MOST_RECORDS: Final = 5_000
_ALIKE: Final = 0.6
"""The share of a section's signs from which on it is taken for the same one, changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSection:
    """A paragraph or an item of a list, and the heading above it, "" for none."""

    heading: str
    text: str


class FollowFiles:
    """Thread-safe.

    A record belongs to the folder and path whose file told it first: of two clones that differ, both stand.
    """

    def __init__(
        self,
        records: RecordStore,
        drafting: RecordPreparer,
        remember: Remember,
        shown_texts: ShownTexts,
        clock: Clock,
    ) -> None:
        self._records = records
        self._drafting = drafting
        self._remember = remember
        self._shown_texts = shown_texts
        self._clock = clock

    def paths(self, folder: str, caller: Caller) -> frozenset[str]:
        """Return the paths of the files whose records hold, in a folder."""
        return frozenset(self._told(folder, caller))

    def __call__(self, folder: str, files: Mapping[str, Sequence[FileSection]], caller: Caller) -> None:
        """Let the records of these files, by their paths, say what is in them.

        A file that is gone has no sections. Nothing is embedded yet. At most 500 sections a file.

        Raises:
            Conflict: somebody changed a record that a section replaces, since it was read here.
            StoreUnavailable: the files that were not written yet follow when they are read again.
        """
        caller = caller.in_session(_SESSION)
        told = self._told(folder, caller)
        for path, sections in files.items():
            self._follow(_items(folder, path, sections), told.get(path, ()), caller)

    def _told(self, folder: str, caller: Caller) -> Mapping[str, Sequence[Record]]:
        where = RecordFilter(scopes=(caller.scope("shared"),), all_tags=frozenset({FROM_FILE}))
        told: dict[str, list[Record]] = {}
        for record in self._records.list(where, "created", _MOST_RECORDS):
            if record.holds and record.details.get("folder") == folder:
                told.setdefault(str(record.details.get("path")), []).append(record)
        return told

    def _follow(self, items: Mapping[str, NewRecord], told: Sequence[Record], caller: Caller) -> None:
        if {*items} == {record.text for record in told}:
            return
        cleaned = (self._drafting.clean(item, caller) for item in items.values())
        drafts = {draft.item.text: draft for draft in cleaned}
        with self._records.write(caller, _REASON) as transaction:
            changed = transaction.versions([record.id for record in told])
            present = [found for record in told if (found := transaction.get(record.id))]
            stale = [
                record
                for record in present
                if record.holds and record.text not in drafts
                if not any("text" in each.told for each in changed.get(record.id, ()))
            ]
            erased = transaction.erased(dict.fromkeys((caller.scope("shared"), *caller.scopes)))
            kept = [draft for draft in drafts.values() if unerased(draft, erased, caller) is draft]
            new = _paired([item for draft in kept if (item := _news(draft, transaction))], stale)
            replaced = {record_id for item in new for record_id in item.supersedes}
            for record in stale:
                if record.id not in replaced:
                    transaction.update(replace(moved_to(record, "retired"), updated_at=self._clock()))
        if new:
            self._shown_texts.see(caller, replaced, max((record.version for record in stale), default=0))
            self._remember(new, caller, advise=False, embed=False, undoable=_REASON)


def _items(folder: str, path: str, sections: Sequence[FileSection]) -> Mapping[str, NewRecord]:
    """Return the sections as records by their texts, which begin with the place: no other record says the same."""
    items: dict[str, NewRecord] = {}
    for section in sections:
        place = f"{path}, {section.heading}" if section.heading else path
        text, details = f"{place}: {section.text}", {"path": path, "heading": section.heading, "folder": folder}
        items[text] = NewRecord(text=text, tags=(FROM_FILE,), details=details, session_id=_SESSION)
    return items


def _news(draft: RecordDraft, transaction: Transaction) -> NewRecord | None:
    """Return a section's item where it is new, or returned to a file; None where it is known, or was taken back."""
    item = draft.item
    known = transaction.find_text(draft.scope, content_hash(item.text))
    known = known or transaction.find_corrected(draft.scope, normal_hash(item.text))
    if known is None:
        return item
    history = transaction.versions([known.id]).get(known.id, ())
    is_files = not known.holds and bool(history) and history[-1].reason == _REASON
    return replace(item, reassert=True) if is_files else None


def _paired(new: Sequence[NewRecord], stale: Sequence[Record]) -> list[NewRecord]:
    """Let each new section replace the one below the same heading that it resembles most, if it does."""
    left = list(stale)
    paired: list[NewRecord] = []
    for item in new:
        heading = item.details["heading"]
        former = {_body(each.text): each for each in left if each.details.get("heading") == heading}
        alike = get_close_matches(_body(item.text), former, n=1, cutoff=_ALIKE)
        for body in alike:
            left.remove(former[body])
        paired.append(replace(item, supersedes=tuple(former[body].id for body in alike)))
    return paired


def _body(text: str) -> str:
    """Return a record's text without its path; of two below one heading, what differs."""
    return text.partition(": ")[2]
