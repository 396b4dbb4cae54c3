"""Makes records of what a git repository tells by its form: reverts, breaking changes, changelogs, decision records."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from mcp_memory.domain.model.records import Json, NewRecord
from mcp_memory.entrypoints.transfer.learning.changelogs import (
    ChangelogEntry,
    changelog_entries,
    is_changelog,
    without_numbers,
)
from mcp_memory.entrypoints.transfer.learning.commit_forms import PATTERNS, ToldCommit, not_landed_again, told_by
from mcp_memory.entrypoints.transfer.learning.decision_records import decision_record, is_decision_record
from mcp_memory.entrypoints.transfer.learning.git_repository import CommittedFile, FileTimes, GitRepository
from mcp_memory.services.memory.learn import DOCUMENT, LEARNED

SHORT_HASH: Final = 12
MOST_DOCUMENTS: Final = 1_000
MOST_COMMITS: Final = 5_000
"""Decision records, and commits of a form, that are read; the newest."""
MOST_REVERTS: Final = 200
_UNEXPLAINED: Final = "reverts that give no reason"
_GONE: Final = "reverts in files that are gone"
_UNDECIDED: Final = "decision records without a decision that was taken"
# "v2.4.1", "2.4.1", "my-lib@2.4.1"
_VERSION_TAG = re.compile(r"(?:[\w./-]{0,60}@|[a-z-]{0,40}-)?v?(\d{1,5})\.(\d{1,5})\.(\d{1,5})")


def read_history(folder: Path, left_out: Counter[str]) -> Iterator[NewRecord]:
    """Yield the records of a repository, sort by sort. Raises InvalidRequest where git cannot read it."""
    repository = GitRepository(folder)
    files = {each.path: each for each in repository.files()}
    changelogs = [each for each in files.values() if is_changelog(each.path)]
    decisions = [each for each in files.values() if is_decision_record(each.path)][-MOST_DOCUMENTS:]
    times = repository.times_of([each.path for each in (*changelogs, *decisions)])
    tags = repository.tags()
    for file in decisions:
        yield from _decision(file, times.get(file.path), repository, left_out)
    entries: list[str] = []
    for file in changelogs:
        for entry in changelog_entries(repository.text_of(file)):
            entries.append(without_numbers(entry.text))
            yield _entry(entry, file, times.get(file.path), tags)
    yield from _reverts(repository, files, left_out)
    yield from _breaking(repository, _last_of_former_major(tags), entries)


def _reverts(repository: GitRepository, files: Collection[str], left_out: Counter[str]) -> Iterator[NewRecord]:
    """Yield the reverts that give a reason and stand: nothing brought the change again, and a file of it is left."""
    unexplained: list[str] = []
    told = told_by(islice(repository.commits(PATTERNS), MOST_COMMITS), unexplained)
    standing = not_landed_again([each for each in told if each.sort == "revert"], repository.subjects())
    left_out[_UNEXPLAINED] += len(unexplained)
    for each in standing[:MOST_REVERTS]:
        if repository.paths_of(each.commit.hash).isdisjoint(files):
            left_out[_GONE] += 1
        else:
            yield _commit(each)


def _breaking(repository: GitRepository, behind: str, entries: Collection[str]) -> Iterator[NewRecord]:
    """Yield the breaking changes since the last tag of the former major version that the changelog does not tell."""
    for each in told_by(islice(repository.commits(PATTERNS, behind), MOST_COMMITS), []):
        about = without_numbers(each.about)
        if each.sort == "breaking change" and not any(about in entry or entry in about for entry in entries):
            yield _commit(each)


def _commit(told: ToldCommit) -> NewRecord:
    return _record(told.text, told.sort, told.commit.at, {"commit": told.commit.hash[:SHORT_HASH]})


def _entry(entry: ChangelogEntry, file: CommittedFile, times: FileTimes | None, tags: Mapping[str, float]) -> NewRecord:
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
    yield _record(told, "decision record", at, {DOCUMENT: file.path, **commit}, until)


def _record(text: str, sort: str, at: float | None, source: dict[str, Json], until: float | None = None) -> NewRecord:
    tags = (LEARNED, sort.replace(" ", "-"))
    return NewRecord(
        text=text, kind="decision", tags=tags, details=source, occurred_at=at, valid_until=until, session_id="learn-git"
    )


def _last_of_former_major(tags: Iterable[str]) -> str:
    """Return the tag of the highest version before the present major one; "" without one.

    "v2.4.1" of v2.4.0, v2.4.1, v3.0.0; a pre-release such as "v3.0.0-rc.1" is none.
    """
    versions = {tuple(map(int, found.groups())): tag for tag in tags if (found := _VERSION_TAG.fullmatch(tag))}
    present = max(versions)[0] if versions else 0
    former = [version for version in versions if version[0] < present]
    return versions[max(former)] if former else ""
