"""What a git repository tells by its form alone: breaking changes, changelogs, decision records."""

import os
from collections import Counter
from pathlib import Path

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.transfer.learning import git_repository
from mcp_memory.entrypoints.transfer.learning.changelogs import changelog_entries
from mcp_memory.entrypoints.transfer.learning.decision_records import decision_record, is_decision_record
from mcp_memory.entrypoints.transfer.learning.history import read_history
from mcp_memory.errors import InvalidRequest
from tests.made_repository import FIRST_DAY, MadeRepository


@pytest.fixture
def made(tmp_path: Path) -> MadeRepository:
    return MadeRepository(tmp_path / "made")


def learned(made: MadeRepository, left_out: Counter[str] | None = None) -> list[NewRecord]:
    return list(read_history(made.folder, left_out if left_out is not None else Counter()))


def texts(made: MadeRepository) -> list[str]:
    return [record.text for record in learned(made)]


def test_footers_tell_what_broke_since_the_former_major_version(made: MadeRepository) -> None:
    made.commit("feat!: drop YAML\n\nBREAKING CHANGE: YAML files are not read any more")
    made.git("tag", "v1.9.0")
    footer = "BREAKING CHANGE: `read()` returns `bytes`\nfor every file\nReviewed-by: Bo <bo@example.org>"
    made.commit(f"feat(api)!: return bytes (#7)\n\nIt was text.\n\n{footer}")
    gone = made.commit("feat!: close early\n\nBREAKING CHANGE: a file is closed by `shut()`", app_py="2")
    made.git("tag", "v2.0.0")
    made.revert(gone)
    assert texts(made) == ["Breaking change: `read()` returns `bytes` for every file (return bytes)"]
    made.commit(
        "Tell it", CHANGELOG_md="# 2.0.0\n\n## Breaking changes\n\n- `read()` returns `bytes` for every file. (#7)\n"
    )
    assert texts(made) == ["Breaking change (version 2.0.0): `read()` returns `bytes` for every file. (#7)"]


@pytest.mark.parametrize(
    ("footer", "told"),
    [
        ("`watch()` has changed its behavior", ""),
        ("the page has been adjusted according to https://example.org/a_page.html", ""),
        ("the page has been adjusted. See https://example.org/a_page.html.", ""),
        ("`<portal>` is renamed to `<teleport>`", "`<portal>` is renamed to `<teleport>`"),
        ("files are closed early, because pages took them all", "files are closed early, because pages took them all"),
        ("the signature of `read()` has changed from\n\n```\nread(file)\n```", ""),
        ("the options of `read()` are other ones:\n\n* `size` is new\n* `max` went",
         "the options of `read()` are other ones: `size` is new; `max` went"),
        ("the options of `read()` are other ones:\n\nSee the page.", ""),
        ("read what option 2 says of `read()` first", ""),
    ],
)  # fmt: skip
def test_a_footer_tells_the_new_state_whole_or_nothing(made: MadeRepository, footer: str, told: str) -> None:
    made.commit(f"feat!: go on\n\nBREAKING CHANGE: {footer}")
    assert texts(made) == ([f"Breaking change: {told} (go on)"] if told else [])


def test_a_footer_yields_to_a_newer_one_on_its_subject_and_none_is_from_before_the_first_stable_version(
    made: MadeRepository,
) -> None:
    made.commit("feat!: a\n\nBREAKING CHANGE: `Loader` reads text by `read_all()`")
    made.git("tag", "v0.9.0")
    made.git("tag", "v3.0.0")
    made.commit("feat!: b\n\nBREAKING CHANGE: `Page` is drawn by `draw_page()`")
    made.commit("feat!: go on\n\nBREAKING CHANGE: each `Page` is drawn by `draw_all()`")
    made.git("tag", "v3.1.0")
    assert texts(made) == ["Breaking change: each `Page` is drawn by `draw_all()` (go on)"]


CHANGES = """# Changelog

## [Unreleased]

### Removed

- Python 3.9 is not supported any more. (#31)

## [2.1.0] - 2026-02-03

### Fixed

- `/plugins` returns a list again.

### Changed

- The page is drawn in another colour.

### Deprecated

- The option `--fast` goes in version 3;
  use `--mode fast`.
- The function `load_all()` goes in version 3; use `load()`.

## v2.0.0 (1st January, 2026)

### ⚠ BREAKING CHANGES

* `/plugins` returns an object with a [list](https://example.org/list).
* **api:** the port is 8081 and no longer 8080
  * also in tests

- Update the workflow of the tests

**Removed**:

- Python 3.8 is not supported any more.
- Too short.
- The function `read_all` was removed.
- The function `read_most` was removed in favor of `read()`.

### Changed

#### Give the token in a header

The query is not read for it.

```
- no item of a list
```

## 1.4.0 - 2020-01-01

### Removed

- The module `old` went with its four functions.
"""


def test_a_changelog_tells_what_broke_went_or_goes_and_nothing_that_a_newer_entry_tells() -> None:
    found = changelog_entries(CHANGES)
    assert [(each.sort, each.version, each.text, each.line) for each in found] == [
        ("removed", "unreleased", "Python 3.9 is not supported any more. (#31)", 7),
        ("deprecated", "2.1.0", "The option `--fast` goes in version 3; use `--mode fast`.", 21),
        ("deprecated", "2.1.0", "The function `load_all()` goes in version 3; use `load()`.", 23),
        ("breaking change", "2.0.0", "**api:** the port is 8081 and no longer 8080; also in tests", 30),
        ("removed", "2.0.0", "The function `read_most` was removed in favor of `read()`.", 40),
        ("changed", "2.0.0", "Give the token in a header. The query is not read for it.", 44),
    ]
    assert [each.at for each in found] == [0.0, 1_770_076_800.0, 1_770_076_800.0, *[1_767_225_600.0] * 3]
    assert changelog_entries("# Notes\n\n## Removed\n\n- The module `old` went.\n") == []


def test_deprecations_of_what_the_code_does_not_hold_are_left_out(made: MadeRepository) -> None:
    made.commit("Begin", CHANGELOG_md=CHANGES, app_py="def load_all(): ...", docs__page_md="--fast")
    left_out = Counter[str]()
    told = [record.text.partition(": ")[::2] for record in learned(made, left_out)]
    assert told[0] == ("Unreleased", "Python 3.9 is not supported any more. (#31)")
    assert [text for head, text in told if head.startswith("Deprecated")] == [
        "The function `load_all()` goes in version 3; use `load()`."
    ]
    assert left_out["deprecations of what the code does not hold"] == 1


RST = """\
Changelog
=========

1.1 (2026-03-04)
----------------

Breaking changes
~~~~~~~~~~~~~~~~

- :ref:`Hooks <hooks>` get the ``request`` as a keyword. (:issue:`12`)

Other
~~~~~

- A page about the grammar of queries.
"""


def test_a_changelog_may_be_restructured_text() -> None:
    assert [each.text for each in changelog_entries(RST)] == ["Hooks get the `request` as a keyword. (#12)"]


PARAGRAPHS = """\
Changelog
=========

2.0.0 (2026-03-04)
------------------

Deprecations and Removals
~~~~~~~~~~~~~~~~~~~~~~~~~

- Remove the digest of
  an upload.

  It is no
  secret.

  Servers read two:

  - The length.

    It is in
    bytes.
  - The name. (`#12 <https://example.org/12>`_)
- Fix files that have no end. Those without a name are refused.
- Take a page by its number.

  Write::

      page(1)
      page(2)

- Ask for a page in words. Say::

    page one
    of two
"""


def test_an_entry_has_all_its_paragraphs_up_to_code_and_a_heading_for_two_sorts_calls_it_neither(
    made: MadeRepository,
) -> None:
    made.commit("Begin", **{"CHANGELOG.rst": PARAGRAPHS})
    first = (
        "Remove the digest of an upload. It is no secret. Servers read two: The length. It is in bytes. The name. (#12)"
    )
    assert texts(made) == [
        f"Version 2.0.0: {first}",
        "Version 2.0.0: Fix files that have no end. Those without a name are refused.",
        "Version 2.0.0: Take a page by its number.",
        "Version 2.0.0: Ask for a page in words.",
    ]


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("Remove the deprecated `Pages` type", ""),
        ("(core, apps) [\\#12](https://example.org/12) chore: rm the endpoint for pages (#12)", ""),
        ("Drop `read_all()`, `read_most()` and `read_one()`.", ""),
        ("The following functions have been removed:\n  - `read_all`\n  - `read_most`\n  - `read_one`", ""),
        ("Drop `read_all()` in favour of `read()`", "Drop `read_all()` in favour of `read()`"),
        ("Remove `read_all()`. Pages are read one by one.", "Remove `read_all()`. Pages are read one by one."),
        ("Drop support for Python 3.9.", "Drop support for Python 3.9."),
        ("The file `pages.py` has been removed and is made by the build",
         "The file `pages.py` has been removed and is made by the build"),
        ("(apps/pages) [\\#12](https://example.org/12) imp(pages): use lists for what waits",
         "(apps/pages) use lists for what waits"),
        ("fix(pages)!: the first one has the number 0", "(pages) the first one has the number 0"),
        ("[#12](https://example.org/12) Pages begin with the number 0", "Pages begin with the number 0"),
        ("(pages) pages: the first one is 0", "(pages) pages: the first one is 0"),
    ],
)  # fmt: skip
def test_an_entry_has_no_number_or_type_before_it_and_more_to_tell_than_that_something_went(
    item: str, told: str
) -> None:
    found = changelog_entries(f"# Changes\n\n## 2.0.0\n\n### Breaking changes\n\n- {item}\n")
    assert [each.text for each in found] == ([told] if told else [])


ADR = """# 4. Use SQLite

Date: 2026-01-05

## Status

{status}

## Context

A server is one thing more to run.

## Decision

We keep all in one file:

- no server
- one copy

## Consequences

One writer at a time.
"""


def test_a_decision_record_tells_what_was_decided_and_whether_it_holds(made: MadeRepository) -> None:
    path = "docs/adr/0004-use-sqlite.md"
    made.commit(
        "Decide",
        docs__adr__template_md="# Template",
        app_py="import sqlite3",
        **{"docs__adr__0004-use-sqlite_md": ADR.format(status="Accepted")},
    )
    [record] = learned(made)
    commit = made.git("rev-parse", "HEAD")[:12]
    assert record.text == "Use SQLite: We keep all in one file: no server; one copy"
    assert (record.details, record.valid_until) == ({"document": path, "commit": commit}, None)
    assert record.occurred_at == FIRST_DAY  # The day in it is later than the commit.
    made.write(path, ADR.format(status="Accepted").replace("2026-01-05", "2025-12-24"))
    made.commit("Tell the day")
    assert learned(made)[0].occurred_at == FIRST_DAY - 8 * 86_400
    made.write(path, ADR.format(status="Accepted\n\nSuperseded by [7. Use Postgres](0007.md). See there."))
    made.commit("Decide anew")
    [record] = learned(made)
    assert record.text.startswith("No longer holds (Superseded by 7). Use SQLite: ")
    assert record.valid_until == FIRST_DAY + 2 * 86_400
    made.write(path, ADR.format(status="Proposed"))
    made.commit("Think again")
    left_out = Counter[str]()
    assert learned(made, left_out) == []
    assert left_out["decision records without a decision that was taken and can be told alone"] == 1


def test_a_numbered_title_is_one_in_restructuredtext() -> None:
    found = decision_record(
        f"1. Use queues\n=============\n\nStatus\n------\n\n**Accepted**\n\nDecision\n--------\n\n{NONE}\n"
    )
    assert found is not None
    assert (found.title, found.decided) == ("Use queues", NONE)


def test_a_decision_about_what_no_code_names_is_a_plan(made: MadeRepository) -> None:
    text = "# Use Crossplane\n\n## Decision\n\nWe ask it for each database that an application needs.\n"
    made.commit("Decide", docs__adr__0001_a_md="", **{"docs__adr__0001-use_md": text, "docs__page_md": "Crossplane"})
    left_out = Counter[str]()
    assert learned(made, left_out) == []
    assert left_out["decision records that name nothing in the code"] == 1
    made.commit("Build", app_py="uncrossplaned = 1")
    assert learned(made) == []
    made.commit("Build", app_py="import crossplane")
    assert len(learned(made)) == 1


CHOSEN = 'Chosen option: "Redis"'
NONE = "We scrape no page of anybody else."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"---\nstatus: accepted\n---\n# Cache\n\n## Decision Outcome\n\n{CHOSEN}, because\n\n* it is there\n",
         f"{CHOSEN}, because it is there"),
        (f"# Scraping\n\n* Status: accepted\n\n## Proposal\n\n- {NONE}\n", NONE),
        (f"# Scraping\n\n## Proposal\n\n- {NONE}\n", None),
        (f"# Scraping\n\n* Status: rejected\n\n## Decision\n\n{NONE}\n", None),
        (f"# Scraping\n\n* Status: **Provisional**, to be accepted\n\n## Decision\n\n{NONE}\n", None),
        (f"# Scraping\n\n## Status\n\n**Provisional**\n\n## Decision\n\n{NONE}\n", None),
        (f"# Scraping\n\n## Status\n\n**Accepted**\n\n## Decision\n\n{NONE}\n", NONE),
        (f"# Scraping\n\nDate: 2026-02-31\n\n## Decision\n\n### Pages\n\n> {NONE}\n", NONE),
        (f"No heading.\n\n## Decision\n\n{NONE}\n", None),
        (f"# Record architecture decisions\n\n## Decision\n\n{NONE}\n", None),
        ("# Scraping\n\n## Decision\n\nScrape no page of others.\n", None),
        (f"# Scraping\n\n## Decision\n\n{NONE} This holds for:\n\n```\na.org\n```\n\n- others\n", NONE),
        (f"# Scraping\n\n## Decision\n\n{NONE} This holds for:\n\n- a.org\n- b.org\n\nAsk us.\n",
         f"{NONE} This holds for: a.org; b.org; Ask us."),
        (f"# Scraping\n\n## Decision\n\n{NONE} As the Context section says, they are many. Ask.\n", NONE),
        (f"# Scraping\n\n## Decision\n\n{NONE} These are two folders:\n- One has a. It is old.\n- b\n", NONE),
        (f"# Scraping\n\n## Decision\n\nWe blend options 2 and 3 for all pages. {NONE}\n", None),
        (f"# Scraping\n\n## Decision\n\n{NONE} Each {'word ' * 120}.\n", NONE),
        (f"# Scraping\n\n## Decision\n\n{NONE} These are:\n\n- {'word. ' * 60}\n- {'word. ' * 60}\n", NONE),
    ],
)  # fmt: skip
def test_only_a_decision_that_was_taken_counts(text: str, told: str | None) -> None:
    found = decision_record(text)
    assert (found and found.decided) == told


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("docs/adr/0004-use-sqlite.md", True),
        ("docs/architecture/adr-004-use-sqlite.md", True),
        ("packages/core/docs/adr/20201002-explicit.md", True),
        ("architecture/decisions/adr-12.queue.md", True),
        ("docs/adr/README.md", False),
        ("docs/0004-use-sqlite.md", False),
        ("integration-tests/docs/adr/0001-first.md", False),
    ],
)
def test_decision_records_are_known_by_folder_and_name(path: str, is_one: bool) -> None:
    assert is_decision_record(path) == is_one


def test_what_git_cannot_read_is_said_with_the_next_step(
    tmp_path: Path, made: MadeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, says in (
        (tmp_path / "none", "There is no folder"),
        (tmp_path, "is in no git repository; name one with --git"),
        (made.folder, "has no commit yet"),
    ):
        with pytest.raises(InvalidRequest, match=says):
            list(read_history(folder, Counter()))
    made.commit("Begin", app_py="1")
    (made.folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n[", "utf-8")
    (made.folder / ".git" / "config").write_text("[core\n", "utf-8")
    with pytest.raises(InvalidRequest, match="git cannot read the repository"):
        list(read_history(made.folder, Counter()))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequest, match="git is not installed"):
        list(read_history(made.folder, Counter()))


def test_a_repositorys_settings_run_nothing(made: MadeRepository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n", "utf-8")
    program.chmod(0o700)
    made.commit("Begin", app_py="1", CHANGELOG_md=CHANGES)
    for name, value in (
        ("log.showSignature", "true"), ("gpg.program", str(program)), ("core.fsmonitor", str(program)),
        ("core.pager", str(program)), ("pager.log", "true"), ("diff.external", str(program)),
    ):  # fmt: skip
        made.git("config", name, value)
    assert len(learned(made)) == 4
    assert not ran.exists()


def test_another_repository_that_a_hook_names_is_not_read(
    made: MadeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.commit("Begin", app_py="1", CHANGELOG_md=CHANGES)
    other = MadeRepository(tmp_path / "other")
    other.commit("Begin")
    monkeypatch.setenv("GIT_DIR", os.fspath(other.folder / ".git"))
    assert len(learned(made)) == 4


def test_a_long_message_and_a_large_file_are_not_held(made: MadeRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_repository, "MAX_MESSAGE_BYTES", 2_000)
    monkeypatch.setattr(git_repository, "MAX_DOCUMENT_BYTES", 100)
    made.commit("Begin", app_py="1", CHANGELOG_md=CHANGES)
    made.commit(f"feat!: y\n\nBREAKING CHANGE: no file is left open, because\nthey are few\n\n{'word ' * 900}")
    made.commit("feat!: z\n\nBREAKING CHANGE: no socket is left to `open_all()`")
    assert texts(made) == [
        "Breaking change: no socket is left to `open_all()` (z)",
        "Breaking change: no file is left open, because they are few",
    ]
