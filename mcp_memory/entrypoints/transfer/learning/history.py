"""Makes records of what a git repository tells by its form: reverts, breaking changes, changelogs, decision records."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from mcp_memory.domain.model.records import Json, NewRecord
from mcp_memory.entrypoints.transfer.learning.changelogs import ChangelogEntry, changelog_entries, is_changelog
from mcp_memory.entrypoints.transfer.learning.commit_forms import PATTERNS, ToldCommit, not_landed_again, told_by
from mcp_memory.entrypoints.transfer.learning.decision_records import decision_record, is_decision_record
from mcp_memory.entrypoints.transfer.learning.git_repository import CommittedFile, FileTimes, GitRepository

LEARNED: Final = "learned"
"""The tag of all records that were learned."""
SHORT_HASH: Final = 12
MOST_DOCUMENTS: Final = 1_000
MOST_COMMITS: Final = 5_000
"""Decision records, and commits of a form, that are read; the newest."""
_UNEXPLAINED: Final = "reverts that give no reason or do not stand"
_UNDECIDED: Final = "decision records without a decision that was taken"


def read_history(folder: Path, left_out: Counter[str]) -> Iterator[NewRecord]:
    """Yield the records of a repository, sort by sort. Raises InvalidRequest where git cannot read it."""
    repository = GitRepository(folder)
    files = [each for each in repository.files() if is_changelog(each.path) or is_decision_record(each.path)]
    changelogs = [each for each in files if is_changelog(each.path)]
    decisions = [each for each in files if is_decision_record(each.path)][-MOST_DOCUMENTS:]
    times = repository.times_of([each.path for each in (*changelogs, *decisions)])
    tags = repository.tags()
    for file in decisions:
        yield from _decision(file, times.get(file.path), repository, left_out)
    entries = set[str]()
    for file in changelogs:
        for entry in changelog_entries(repository.text_of(file)):
            entries.add(entry.text.casefold())
            yield _entry(entry, file, times.get(file.path), tags)
    yield from _commits(repository, _major_begin(tags), entries, left_out)


def _commits(repository: GitRepository, since: float, entries: set[str], left_out: Counter[str]) -> Iterator[NewRecord]:
    unexplained: list[str] = []
    told = told_by(islice(repository.commits(*PATTERNS), MOST_COMMITS), unexplained)
    standing = not_landed_again(told, repository.subjects())
    left_out.update([_UNEXPLAINED] * (len(unexplained) + len(told) - len(standing)))
    for each in standing:
        is_known = any(each.text.casefold() in entry for entry in entries)
        if each.sort == "revert" or (each.commit.at >= since and not is_known):
            yield _commit(each)


def _commit(told: ToldCommit) -> NewRecord:
    text = told.text if told.sort == "revert" else f"Breaking change: {told.text}"
    return _record(text, told.sort, told.commit.at, {"commit": told.commit.hash[:SHORT_HASH]})


def _entry(
    entry: ChangelogEntry, file: CommittedFile, times: FileTimes | None, tags: dict[str, float]
) -> NewRecord:
    tagged = next((tags[name] for name in (entry.version, f"v{entry.version}") if name in tags), 0.0)
    at = entry.at or tagged or (times.last if times else None)
    version = entry.version if entry.version == "unreleased" else f"version {entry.version}"
    text = f"{entry.sort.capitalize()} ({version}): {entry.text}"
    commit: dict[str, Json] = {"commit": times.commit[:SHORT_HASH]} if times else {}
    return _record(text, entry.sort, at, {"path": file.path, "line": entry.line, **commit})


def _decision(
    file: CommittedFile, times: FileTimes | None, repository: GitRepository, left_out: Counter[str]
) -> Iterator[NewRecord]:
    found = decision_record(repository.text_of(file))
    if not found:
        left_out[_UNDECIDED] += 1
        return
    text = f"{found.title.rstrip('.')}: {found.decided}"
    at = found.at or (times.first if times else None)
    until = times.last if times and found.ended else None
    told = f"No longer holds ({found.ended}). {text}" if found.ended else text
    commit: dict[str, Json] = {"commit": times.commit[:SHORT_HASH]} if times else {}
    yield _record(told, "decision record", at, {"document": file.path, **commit}, until)


def _record(
    text: str, sort: str, at: float | None, source: dict[str, Json], until: float | None = None
) -> NewRecord:
    tags = (LEARNED, sort.replace(" ", "-"))
    return NewRecord(
        text=text, kind="decision", tags=tags, details=source, occurred_at=at, valid_until=until, session_id="learn-git"
    )


def _major_begin(tags: dict[str, float]) -> float:
    """Return when the last version of the major version before the present one was tagged; 0 without one."""
    return 0.0
