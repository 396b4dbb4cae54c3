"""Makes records of what a git repository tells by its form: breaking changes, changelogs, decision records."""

import posixpath
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
)
from mcp_memory.entrypoints.transfer.learning.commit_forms import PATTERNS, breaking_changes
from mcp_memory.entrypoints.transfer.learning.decision_records import (
    DecisionRecord,
    decision_record,
    is_decision_record,
)
from mcp_memory.entrypoints.transfer.learning.git_repository import CommittedFile, FileTimes, GitRepository
from mcp_memory.entrypoints.transfer.learning.self_contained import code_names, in_code, is_sentence, without_numbers
from mcp_memory.services.memory.learn import DOCUMENT, LEARNED

SHORT_HASH: Final = 12
MOST_DOCUMENTS: Final = 1_000
MOST_COMMITS: Final = 5_000
"""Decision records, and commits of a form, that are read; the newest."""
_UNDECIDED: Final = "decision records without a decision that was taken and can be told alone"
_UNBUILT: Final = "decision records that name nothing in the code"
_UNHELD: Final = "deprecations of what the code does not hold"
_PROSE: Final = (
    "**/*.md", "**/*.markdown", "**/*.rst", "**/*.adoc", "**/*.txt", "**/changelog*", "**/changes*", "**/.vale/**",
    "**/*cspell*",
)  # fmt: skip
"""Files that may tell what is planned, or was, and the words of spelling checkers."""
# "v2.4.1", "2.4.1", "my-lib@2.4.1"
_VERSION_TAG = re.compile(r"(?:[\w./-]{0,60}@|[a-z-]{0,40}-)?v?(\d{1,5})\.(\d{1,5})\.(\d{1,5})")


def read_history(folder: Path, left_out: Counter[str]) -> Iterator[NewRecord]:
    """Yield the records of a repository, sort by sort. Raises InvalidRequest where git cannot read it."""
    repository = GitRepository(folder)
    files = [*repository.files()]
    changelogs = [each for each in files if is_changelog(each.path)]
    decisions = [each for each in files if is_decision_record(each.path)][-MOST_DOCUMENTS:]
    times = repository.times_of([each.path for each in (*changelogs, *decisions)])
    tags = repository.tags()
    yield from _decisions(decisions, times, repository, left_out)
    told = [(file, entry) for file in changelogs for entry in changelog_entries(repository.text_of(file))]
    subjects = [_subject(entry) for _, entry in told if entry.sort == "deprecated"]
    held = repository.holding({*filter(None, subjects)}, _PROSE)
    for file, entry in told:
        if entry.sort == "deprecated" and (subject := _subject(entry)) and subject not in held:
            left_out[_UNHELD] += 1
        else:
            yield _entry(entry, file, times.get(file.path), tags)
    yield from _breaking(repository, _behind(tags), [without_numbers(entry.text) for _, entry in told])


def _decisions(
    files: Iterable[CommittedFile], times: Mapping[str, FileTimes], repository: GitRepository, left_out: Counter[str]
) -> Iterator[NewRecord]:
    """Yield the decisions; one that names things holds where the code, or a configuration, has one of them."""
    taken: list[tuple[CommittedFile, DecisionRecord]] = []
    for file in files:
        if found := decision_record(repository.text_of(file)):
            taken.append((file, found))
        else:
            left_out[_UNDECIDED] += 1
    folders = {f"{posixpath.dirname(file.path)}/**" for file, _ in taken}
    names = {in_code(name) for _, found in taken for name in found.names}
    held = repository.holding({*filter(None, names)}, (*_PROSE, *sorted(folders)))
    for file, found in taken:
        own = {in_code(name) for name in found.names}
        if own and not found.ended and own.isdisjoint(held):
            left_out[_UNBUILT] += 1
        else:
            yield _decision(file, found, times.get(file.path))


def _subject(entry: ChangelogEntry) -> str:
    """Return the first name in backticks of an entry as code has it; "" for none."""
    return next((in_code(name) for name in code_names(entry.text)), "")


def _breaking(repository: GitRepository, behind: str, entries: Collection[str]) -> Iterator[NewRecord]:
    """Yield the breaking changes since the last tag of the former major version that the changelog does not tell."""
    for each in breaking_changes(islice(repository.commits(PATTERNS, behind), MOST_COMMITS)):
        footer = without_numbers(each.footer)
        if not any(footer in entry or entry in footer for entry in entries):
            source: dict[str, Json] = {"commit": each.commit.hash[:SHORT_HASH]}
            yield _record(each.text, "breaking change", each.commit.at, source)


def _entry(entry: ChangelogEntry, file: CommittedFile, times: FileTimes | None, tags: Mapping[str, float]) -> NewRecord:
    tagged = next((tags[name] for name in (entry.version, f"v{entry.version}") if name in tags), 0.0)
    at = entry.at or tagged or (times.last if times else None)
    version = entry.version if entry.version == "unreleased" else f"version {entry.version}"
    # Not "Removed: files must always be opened in binary mode", nor "Removed: a fix".
    is_whole = entry.sort == "removal or deprecation" or (entry.sort == "removed" and is_sentence(entry.text))
    text = f"{version.capitalize() if is_whole else f'{entry.sort.capitalize()} ({version})'}: {entry.text}"
    commit: dict[str, Json] = {"commit": times.commit[:SHORT_HASH]} if times else {}
    return _record(text, entry.sort, at, {"path": file.path, "line": entry.line, **commit})


def _decision(file: CommittedFile, found: DecisionRecord, times: FileTimes | None) -> NewRecord:
    text = f"{found.title}: {found.decided}"
    first = times.first if times else None
    at = found.at if found.at and (first is None or found.at <= first) else first
    until = times.last if times and found.ended else None
    told = f"No longer holds ({found.ended}). {text}" if found.ended else text
    commit: dict[str, Json] = {"commit": times.commit[:SHORT_HASH]} if times else {}
    return _record(told, "decision record", at, {DOCUMENT: file.path, **commit}, until)


def _record(text: str, sort: str, at: float | None, source: dict[str, Json], until: float | None = None) -> NewRecord:
    tags = (LEARNED, sort.replace(" ", "-"))
    return NewRecord(
        text=text, kind="decision", tags=tags, details=source, occurred_at=at, valid_until=until, session_id="learn-git"
    )


def _behind(tags: Iterable[str]) -> str:
    """Return the tag of the highest version before the present major one, else the first stable one; "" without one.

    "v2.4.1" of v2.4.0, v2.4.1, v3.0.0; a pre-release such as "v3.0.0-rc.1" is none. "v3.0.0" of v3.0.0 and v3.1.0.
    """
    versions = {tuple(map(int, found.groups())): tag for tag in tags if (found := _VERSION_TAG.fullmatch(tag))}
    present = max(versions)[0] if versions else 0
    former = [version for version in versions if version[0] < present]
    stable = [version for version in versions if version[0]]
    return versions[max(former)] if former else versions[min(stable)] if stable else ""
