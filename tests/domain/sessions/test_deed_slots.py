"""Slots of deeds: what was refused, taken back, tried in vain, asked, and left unchanged."""

import json

import pytest

from tests.domain.sessions.made_sessions import Line, run, session, told

REFUSED = "!The user doesn't want to proceed with this tool use. The tool use was rejected."

A_SET, B_SET = (f"{path}: edited, last `x = 123456`" for path in ("a.py", "b.py"))


def edit(path: str, old: str, new: str) -> Line:
    return "Edit", json.dumps({"file_path": path, "old_string": old, "new_string": new}) + " => ok"


@pytest.mark.parametrize(
    "lines",
    [
        [edit("app.py", "pool = 10", "pool = 100"), edit("app.py", "pool = 100", "pool = 10")],
        [edit("app.py", "pool = 10", "pool = 100"), run("git checkout -- app.py", "ok")],
    ],
)
def test_an_edit_that_was_taken_back_is_no_dead_end(lines: list[Line]) -> None:
    """P1.2: what the user says next is rarely its reason, and may be another task."""
    entries = session(("user", "Go."), lines[0], ("user", "Explain each fix in DECISIONS.md."), lines[1])
    assert told(entries, "dead_ends") == []


@pytest.mark.parametrize(
    ("commands", "files"),
    [
        (["git checkout HEAD -- a.py"], [B_SET]),
        (["git restore a.py b.py"], []),
        (["git restore --staged a.py"], [A_SET, B_SET]),
        (["git checkout -- ."], []),
        (["git reset --hard"], []),
        (["git stash"], []),
        (["git stash", "git stash pop"], [A_SET, B_SET]),
        (["git stash && make && git stash pop", "git mv b.py c.py"], [A_SET, "b.py: removed again", "c.py: edited"]),
        (["git commit -qam 'Set x'", "git stash"], [A_SET, B_SET]),
    ],
)
def test_a_file_that_git_puts_back_was_not_changed(commands: list[str], files: list[str]) -> None:
    """P1.2: it is not removed either, and what was committed stays."""
    edits = [edit(path, "x = 1", "x = 123456") for path in ("a.py", "b.py")]
    entries = session(("user", "Go."), *edits, *(run(command, "ok") for command in commands))
    assert told(entries, "changes") == files


def test_edits_behind_the_one_that_git_put_back_count() -> None:
    """P1.2: a new file that git does not know stays."""
    wrote = "Write", json.dumps({"file_path": "new.py", "content": "x"}) + " => ok"
    first, second = edit("a.py", "x = 1", "x = 123456"), edit("a.py", "x = 1", "x = 654321")
    entries = session(("user", "Go."), first, wrote, run("git stash", "ok"), second)
    assert told(entries, "changes") == ["new.py: written", "a.py: edited, last `x = 654321`"]


def test_each_file_of_a_patch_has_its_own_last_line_and_its_whole_path() -> None:
    """P1.2."""
    long = f"supabase/patches/{'004_ticket_insert_policy_' * 6}.sql"
    patch = "\n".join(
        (
            *("*** Begin Patch", "*** Update File: lib/a.ts", "@@", "-const a = 1;", "+const a = 123;"),
            *("*** Add File: " + long, "+create policy tickets;", "*** Delete File: old.ts", "*** End Patch"),
        )
    )
    for tool, arguments in (("apply_patch", patch), ("shell", json.dumps({"command": ["apply_patch", patch]}))):
        assert told(session(("user", "Go."), (tool, f"{arguments} => ok")), "changes") == [
            "lib/a.ts: edited, last `const a = 123;`",
            f"{long}: written",
            "old.ts: removed again",
        ]


def test_a_download_is_no_edit() -> None:
    """P1.2: nor is the page that was asked for."""
    asked = "curl -s http://localhost/report -o report.pdf && make -o x.csv"
    assert told(session(("user", "Go."), run(asked, "ok")), "changes") == ["x.csv: edited"]


def test_of_a_replaced_passage_the_new_text_is_told() -> None:
    """P1.2: not the marks around it."""
    diff = "------- SEARCH\nconst a_long_name = 1;\n=======\nconst b = 123;\n+++++++ REPLACE\n"
    arguments = json.dumps({"path": "lib/a.ts", "diff": diff})
    entries = session(("user", "Go."), ("replace_in_file", f"{arguments} => ok"))
    assert told(entries, "changes") == ["lib/a.ts: edited, last `const b = 123;`"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([run("composer require csv", REFUSED), ("user", "No new dependency for that, fgetcsv will do.")], True),
        ([run("composer require csv", f"{REFUSED} The user said:\nfgetcsv will do".replace("The u", "the u"))], True),
        ([run("composer require csv", REFUSED), ("user", "think harder, fgetcsv will do")], False),
        ([run("composer require csv", REFUSED), ("user", "Is fgetcsv not there? If so, go on without it.")], False),
        ([run("composer require csv", REFUSED), run("ls", "a"), ("user", "No, fgetcsv will do.")], False),
        (
            [run("composer require csv", REFUSED), ("user", "No, fgetcsv will do."), run("composer require csv", "ok")],
            False,
        ),
        ([run("composer require csv", REFUSED)], False),
    ],
)
def test_a_refused_call_is_a_dead_end_with_what_the_user_said(lines: list[Line], reason: bool) -> None:
    """D9.1: what was rejected, and why; without a reason, on a condition, or for a time it is none (P1.2)."""
    refused = [text for text in told(session(("user", "Read the table."), *lines), "dead_ends") if "Refused" in text]
    assert [text.startswith("Refused: Ran `composer require csv` → ") for text in refused] == [True] * reason
    assert all("fgetcsv will do" in text for text in refused)


def test_changes_after_which_the_same_error_stays_are_a_dead_end() -> None:
    """D9.1: only the last change before green was the fix."""
    entries = session(
        ("user", "Make the tests pass."),
        run("pytest -q", "!E   AssertionError: total is 12"),
        ("assistant", "The cents are floats, so they lose one."),
        edit("sum.py", "float(x)", "Decimal(x)"),
        run("pytest -q", "!E   AssertionError: total is 14"),
        ("assistant", "The loop leaves out the last row."),
        edit("sum.py", "rows[:-1]", "rows"),
        run("pytest -q", "1 passed"),
        run("pytest -q", "1 passed"),
    )
    [tried] = [text for text in told(entries, "dead_ends") if "→ still" in text]
    assert tried.startswith("The cents are floats, so they lose one.; edited sum.py → still `pytest -q` failed: ")


def test_an_error_that_another_one_replaces_was_no_vain_attempt() -> None:
    """D9.1: a step further is a step."""
    entries = session(
        ("user", "Make the tests pass."),
        run("pytest -q", "!E   AssertionError: total is 12"),
        edit("sum.py", "float(x)", "Decimal(x)"),
        run("pytest -q", "!E   KeyError: 'rows'"),
    )
    assert not any("→ still" in text for text in told(entries, "dead_ends"))


def test_an_answer_to_a_tool_that_asks_is_a_decision() -> None:
    """D9.1: some clients let a tool ask the user."""
    asked = "AskUserQuestion", json.dumps({"questions": [{"question": "Which port?"}]})
    answered = (asked[0], f'{asked[1]} => User has answered your questions: "Which port?"="8443, as in staging".')
    assert told(session(("user", "Go."), answered), "decisions") == ["Which port? → 8443, as in staging"]


def test_an_edit_that_was_not_applied_changed_nothing_and_its_repair_teaches_nothing() -> None:
    """D9.1: by the words of tools that flag no error."""
    refused = "Edit", json.dumps({"file_path": "app.py", "old_string": "x", "new_string": "y = 12345"})
    entries = session(
        ("user", "Set y."),
        (refused[0], f"{refused[1]} => No replacement was performed, old_str `x` did not appear verbatim in app.py."),
    )
    assert told(entries, "changes") == []
    repaired = session(
        ("user", "Set y."), (refused[0], f"{refused[1]} => !not applied"), edit("app.py", "z", "y = 12345")
    )
    assert len(told(repaired, "changes")) == 1


def test_calls_that_did_something_are_told_in_a_line_for_each_tool() -> None:
    """P1.2: what was done; look-ups and failed calls are not."""
    booked = [
        ("change_booking", json.dumps({"id": f"B{n}", "cabin": "economy", "card": f"c{n}"}) + " => ok")
        for n in range(14)
    ]
    entries = session(
        ("user", "Change all my bookings."),
        ("get_booking", '{"id": "B0"} => {"cabin": "business"}'),
        ("cancel_booking", '{"id": "B99"} => Error: no such booking'),
        ("confirm", '{"legs": [1], "note": "' + "x" * 90 + '"} => ok'),
        ("shell", "{} => ok"),
        *booked,
    )
    named = ", ".join(f"B{n}" for n in range(12))
    assert told(entries, "completed") == [f"change_booking: id={named} and 2 more; cabin=economy"]


@pytest.mark.parametrize(
    "undone",
    [
        ("assistant", "Removed: 3f2a1bc Pool of 900\nNow at: 11aa22b Start"),
        run("git reset --hard 11aa22b", "HEAD is now at 11aa22b Start"),
        run("git reset --hard HEAD~1", "HEAD is now at 22bb33c Read the pool from app.toml"),
        run("git revert --no-edit HEAD", '[main 77ee88f] Revert "Pool of 900"'),
        run("git reset --soft HEAD~1", ""),
        run("git reset HEAD^", "Unstaged changes after reset:\nM\tapp.toml"),
    ],
)
def test_a_commit_that_was_taken_back_is_a_dead_end_with_what_the_user_said(undone: Line) -> None:
    """P1.2: neither is it told as done, nor is what was said of its change a decision."""
    first = [run("git commit -am 'Read the pool'", "[main 22bb33c] Read the pool from app.toml")]
    entries = session(
        ("user", "Make the pool of app.toml larger."),
        *(first if "22bb33c" in undone[1] else []),
        ("assistant", "I set the pool in app.toml to 900 connections, which is its largest size."),
        ("apply_edit", json.dumps({"path": "app.toml"}) + " => Applied edit\nCommit 3f2a1bc Pool of 900"),
        ("user", "That broke everything, the database refuses us."),
        undone,
        ("user", "Now write the release notes."),
    )
    [gone] = [text for text in told(entries, "dead_ends") if "Committed" in text]
    assert gone.startswith("Committed 3f2a1bc: Pool of 900; taken back again: That broke everything")
    assert not any("3f2a1bc" in text for text in told(entries, "completed"))
    assert any("22bb33c" in text for text in told(entries, "completed")) == bool(first and "22bb33c" in undone[1])
    assert not any(text.startswith("I set the pool") for text in told(entries, "decisions"))


def test_commits_that_an_edit_made_are_told_and_nobody_speaks_of_the_one_that_went() -> None:
    receipt = "Applied edit\nCommit 3f2a1bc Pool of 900\nCommit 4f2a1bc Format"
    made = "apply_edit", json.dumps({"path": "app.toml"}) + f" => {receipt}"
    kept = session(("user", "Make the pool larger."), made, ("assistant", "Removed: 99ffeed Something else"))
    assert told(kept, "completed") == ["Committed 3f2a1bc: Pool of 900", "Committed 4f2a1bc: Format"]
    gone = session(("user", "Make the pool larger."), made, ("assistant", "Removed: 4f2a1bc Format"))
    assert told(gone, "completed") == ["Committed 3f2a1bc: Pool of 900"]
    assert told(gone, "dead_ends") == []


def test_what_a_check_behind_an_edit_found_is_told_until_an_edit_mends_it() -> None:
    """P1.2: the edit was made all the same."""
    arguments = json.dumps({"file_path": "app.py", "old_string": "x", "new_string": "print(sys.path)"})
    broke = "Edit", f"{arguments} => Applied edit\n\napp.py:199:78: F821 undefined name 'sys'"
    still = session(("user", "Print the path."), broke)
    assert told(still, "open_items") == ["Edited app.py brought app.py:199:78: F821 undefined name 'sys'"]
    assert told(still, "changes") == [
        "app.py: edited, last `print(sys.path)`; a check fails since: app.py:199:78: F821 undefined name 'sys'"
    ]
    mended = session(
        ("user", "Print the path."), broke, ("assistant", "The import of sys is missing in app.py."),
        edit("app.py", "import os", "import os, sys"),
    )  # fmt: skip
    assert told(mended, "open_items") == []


def test_what_a_check_said_is_over_with_a_commit() -> None:
    """P1.2: neither the file nor an open item tells of it; a refused check said nothing."""
    failing = [("user", "Mend it."), edit("a.py", "x = 1", "x = 123456"), run("pytest -q", "!E   KeyError: 'rows'")]
    assert told(session(*failing), "changes") == [
        "a.py: edited, last `x = 123456`; a check fails since: KeyError: 'rows'"
    ]
    committed = session(*failing, edit("a.py", "x = 3", "x = 923456"), run("git commit -am 'Test it'", "ok"))
    assert told(committed, "open_items") == []
    assert told(committed, "changes") == ["a.py: edited 2 times, last `x = 923456`"]
    assert told(session(*failing[:2], run("pytest -q", REFUSED)), "changes") == ["a.py: edited, last `x = 123456`"]


def test_a_tool_called_commit_commits_and_one_that_takes_it_back_did_nothing_else() -> None:
    """P1.2: what is told of a commit is not told of the call as well."""
    made = "commit", json.dumps({"message": "Pool of 900"}) + " => Commit 3f2a1bc Pool of 900"
    assert told(session(("user", "Commit it."), made), "completed") == ["Committed 3f2a1bc: Pool of 900"]
    undone = session(("user", "Commit it."), made, ("undo", "{} => Removed: 3f2a1bc Pool of 900"))
    assert told(undone, "completed") == []
    assert told(undone, "dead_ends") == []


def test_of_a_list_of_checks_the_one_that_failed_is_told() -> None:
    """P1.2."""
    shown = "!Error: trim trailing whitespace.......Passed\nruff-format........Failed"
    [item] = told(session(("user", "Check it."), run("make check", shown)), "open_items")
    assert item == "`make check` failed: ruff-format........Failed"


@pytest.mark.parametrize(
    ("command", "output", "lines"),
    [
        ("git commit -q -m 'Cap it'; git log", "3f2a1bc Cap it\n11aa22b Start", ["Committed 3f2a1bc: Cap it"]),
        ("git commit -qm 'Cap it'; git log", "3f2a1bc Cap it now\n11aa22b Start", ["Committed: Cap it"]),
        ("git commit -qm \"Cap 'it'\n\nBody\"; git log", "11aa22b Start", ["Committed: Cap 'it'"]),
        ("git commit -q -F - <<'EOF'\nCap it\n\nBody\nEOF", "", ["Committed: Cap it"]),
        ("git commit -m a; git log", "[main 3f2a1bc] a\n 1 file\n3f2a1bc a\n11aa22b Start", ["Committed 3f2a1bc: a"]),
        ("git commit -qm 'a' && git commit -qm 'b'", "", ["Committed: a", "Committed: b"]),
        ("git commit -m 'Cap it'", "nothing to commit, working tree clean", ["Ran `git commit -m 'Cap it'`"]),
        ("git push -q; git log", "11aa22b Start", ["Ran `git push -q; git log`"]),
    ],
)
def test_a_commits_hash_is_only_one_that_stands_with_its_subject(command: str, output: str, lines: list[str]) -> None:
    """P1.2: the last line of a log behind it is the oldest commit."""
    assert told(session(("user", "Cap the pool."), run(command, output)), "completed") == lines


def test_a_quiet_commit_that_a_reset_goes_back_to_stands() -> None:
    """P1.2: git names its subject."""
    entries = session(
        ("user", "Cap the pool."),
        run("git commit -qm 'Cap the pool'", ""),
        run("git commit -qm 'Format it'", ""),
        run("git reset --hard HEAD~1", "HEAD is now at 3f2a1bc Cap the pool"),
    )
    assert told(entries, "completed")[0] == "Committed: Cap the pool"
    assert not any("Format it" in text for text in told(entries, "completed"))


@pytest.mark.parametrize(("turns", "is_open"), [(10, True), (11, False)])
def test_a_failure_that_the_user_went_on_without_is_over(turns: int, is_open: bool) -> None:
    """P1.2: nobody took it up."""
    later = [("user", f"Now write page {n} of the manual.") for n in range(turns)]
    entries = session(("user", "Check it."), run("npx tsc --noEmit", "!error TS2339: no VIDEO"), *later)
    assert bool(told(entries, "open_items")) == is_open


def test_a_failure_is_over_where_the_same_command_passed() -> None:
    """P1.2: also without an edit between."""
    entries = session(("user", "Check it."), run("make lint", "!a.py:1: E501"), run("make lint", "ok"))
    assert told(entries, "open_items") == []


@pytest.mark.parametrize(
    ("tool", "completed"),
    [("TaskCreate", False), ("TaskUpdate", False), ("Monitor", False), ("create_task", True), ("cancel_task", True)],
)
def test_what_a_client_notes_of_its_own_work_is_not_done(tool: str, completed: bool) -> None:
    """P1.2: a task that was made is planned, and what is watched is going on."""
    entries = session(("user", "Go."), (tool, json.dumps({"subject": "Deploy to production"}) + " => ok"))
    assert bool(told(entries, "completed")) is completed
