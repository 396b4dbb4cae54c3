"""Slots of deeds: what was refused, taken back, tried in vain, asked, and left unchanged."""

import json

import pytest

from tests.domain.sessions.made_sessions import Line, run, session, told

REFUSED = "!The user doesn't want to proceed with this tool use. The tool use was rejected."


def edit(path: str, old: str, new: str) -> Line:
    return "Edit", json.dumps({"file_path": path, "old_string": old, "new_string": new}) + " => ok"


def test_an_edit_that_was_taken_back_is_a_dead_end() -> None:
    """D9.1: what the agent undid came to nothing, whatever it says of it."""
    there, back = (
        ("Edit", json.dumps({"file_path": "app.py", "old_string": old, "new_string": new}) + " => ok")
        for old, new in (("pool = 10", "pool = 100"), ("pool = 100", "pool = 10"))
    )
    assert told(session(("user", "Go."), there, back), "dead_ends") == ["app.py: tried `pool = 100` and took it back"]
    assert told(session(("user", "Go."), there, back, there), "dead_ends") == []
    patch = "*** Begin Patch\n*** Update File: app.py\n@@\n-{}\n+{}\n*** End Patch => ok"
    patches = [
        ("apply_patch", patch.format(*each))
        for each in (("labels: []", "labels: [id]"), ("labels: [id]", "labels: []"))
    ]
    assert len(told(session(("user", "Go."), *patches), "dead_ends")) == 1
    gone = session(("user", "Go."), there, run("git checkout -- app.py", "ok"))
    assert told(gone, "dead_ends") == ["app.py: tried `pool = 100` and took it back"]


def test_the_reason_for_taking_an_edit_back_is_kept() -> None:
    """D9.1: a dead end without its reason is tried again."""
    entries = session(
        ("user", "Cut the metrics."),
        edit("values.yaml", "labels: []", "labels: [request_id]"),
        ("user", "Dropping the label gives duplicate samples, take it out again."),
        run("git checkout values.yaml", "Updated 1 path"),
    )
    [tried] = told(entries, "dead_ends")
    assert tried.startswith("values.yaml: tried `labels: [request_id]` and took it back: ")
    assert "duplicate samples" in tried


@pytest.mark.parametrize(
    "lines",
    [
        (edit("a.py", "x = 1", "x = 123456"), run("git mv a.py b.py", "ok")),
        (edit("a.py", "x = 1", "x = 123456"), run("git restore --staged a.py", "ok")),
        (
            ("Write", json.dumps({"file_path": "probe.py", "content": "print('probe me')"}) + " => ok"),
            run("python probe.py", "probe me"),
            run("rm probe.py", "ok"),
        ),
    ],
)
def test_a_moved_file_and_a_helper_are_no_dead_ends(lines: tuple[Line, ...]) -> None:
    """D9.1: a file that was run before it was removed had served its purpose."""
    assert told(session(("user", "Go."), *lines), "dead_ends") == []


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
    [fix] = told(entries, "fixes")
    assert "The loop leaves out the last row." in fix


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


@pytest.mark.parametrize(
    "command",
    ["MAIL=off pytest -q", "bash -lc 'pytest -q'", "ssh -p 2222 web 'pytest -q'", "cd app && sudo pytest -q"],
)
def test_two_runs_of_one_program_are_known_whatever_stands_before_it(command: str) -> None:
    """D9.1: and another command behind the same words in front is another one."""
    other = command.replace("pytest -q", "make docs")
    red, green = run(command, "!E   KeyError: 'rows'"), run(command, "3 passed")
    assert told(session(("user", "Go."), red, run(other, "ok")), "fixes") == []
    [fix] = told(session(("user", "Go."), red, green), "fixes")
    assert "KeyError: 'rows'" in fix


def test_what_the_user_found_out_and_the_agent_changed_is_a_fix() -> None:
    """D9.1: also where nobody proposed anything."""
    entries = session(
        ("user", "Why does nobody get the mails?"),
        run("grep -i mailto sync.sh", "MAILTO=harald@druck.example"),
        ("user", "Harald retired, that explains it. Make it technik@druck.example."),
        run("sed -i s/harald/technik/ sync.sh", "ok"),
    )
    assert any("that explains it" in text for text in told(entries, "fixes"))


def test_files_that_are_still_to_be_changed_or_only_used_are_told() -> None:
    """D9.1: a file that no call changes has a state as well."""
    todos = [{"content": f"Wire it into src/main.{end}", "status": "pending"} for end in ("go", "py")]
    entries = session(
        ("user", "Plan it with rows.csv and notes.md, and leave util.py alone."),
        run("head rows.csv", "1;2"),
        edit("src/main.py", "x = 1", "x = 123"),
        ("TodoWrite", json.dumps({"todos": todos}) + " => ok"),
    )
    changes = told(entries, "changes")
    assert "src/main.go: not changed yet: Wire it into src/main.go" in changes
    assert "rows.csv: used, not changed" in changes
    assert [text.partition(":")[0] for text in changes] == ["src/main.py", "src/main.go", "rows.csv"]


def test_a_page_that_was_refused_and_comes_after_a_change_is_a_fix() -> None:
    """D9.1: the address tells which runs are of one thing; the program's exit code does not tell that a page failed."""
    url = "http://localhost:8000/ingestion"
    entries = session(
        ("user", "Try the ingestion."),
        run(f"curl -s -X POST {url} | python3 -m json.tool", "!Exit code 1\nExpecting value: line 1 column 1 (char 0)"),
        run(f"curl -s -w '%{{http_code}}' -X POST '{url}'", "Internal Server Error\nHTTP STATUS: 500"),
        ("assistant", "The column has no time zone, so the driver refuses the date."),
        edit("model.py", "mapped_column()", "mapped_column(DateTime(timezone=True))"),
        run(f"sleep 3 && curl -s -X POST {url}", '{"works_stored":5}\nHTTP STATUS: 200'),
    )
    [fix] = [text for text in told(entries, "fixes") if text.startswith("`curl")]
    assert all(part in fix for part in ("HTTP STATUS: 500", "no time zone"))


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
    assert told(repaired, "fixes") == []


@pytest.mark.parametrize(
    ("command", "is_fix"),
    [
        ("ssh skua 'systemctl disable --now prune.timer'", True),
        ("chmod 600 /etc/restic/pw-skua", True),
        ("cat /etc/restic/pw-skua", False),
        ("make lint", False),
        ("git push", False),
        ("!chmod 600 /etc/restic/pw-skua", False),
    ],
)
def test_a_command_that_changes_a_system_behind_an_error_is_a_fix(command: str, is_fix: bool) -> None:
    """D9.1: not every repair edits a file; what looks, checks, publishes or fails repairs nothing."""
    failing, command = command.startswith("!"), command.removeprefix("!")
    entries = session(
        ("user", "Move the backups."),
        run("journalctl -u backup", "Fatal: 33 bytes: wrong password"),
        ("assistant", "The password file ends in a newline, 33 bytes instead of 32."),
        run(command, "exit code 1: not permitted" if failing else "ok"),
        ("assistant", "Next is gannet."),
    )
    assert any("newline" in text for text in told(entries, "fixes")) == is_fix


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
    assert told(entries, "completed") == ["confirm", f"change_booking: id={named} and 2 more; cabin=economy"]


def test_a_users_words_are_no_cause_of_a_fix() -> None:
    """P1.2: a cause comes from who did it."""
    entries = session(
        ("user", "Mend the tests."),
        run("pytest -q", "!1 failed"),
        ("user", "My sister says hello, she lives in Graz now."),
        edit("app.py", "x = 1", "x = 2"),
        run("pytest -q", "1 passed"),
    )
    [fix] = told(entries, "fixes")
    assert "Graz" not in fix


@pytest.mark.parametrize(
    "undone",
    [
        ("assistant", "Removed: 3f2a1bc Pool of 900\nNow at: 11aa22b Start"),
        run("git reset --hard 11aa22b", "HEAD is now at 11aa22b Start"),
        run("git reset --hard HEAD~1", "HEAD is now at 22bb33c Read the pool from app.toml"),
        run("git revert --no-edit HEAD", '[main 77ee88f] Revert "Pool of 900"'),
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
    assert told(gone, "dead_ends") == ["Committed 4f2a1bc: Format; taken back again"]


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
    assert told(mended, "fixes")[0].startswith(
        "Edited app.py brought app.py:199:78: F821 undefined name 'sys' → The import of sys is missing in app.py."
    )


def test_a_refusal_that_comes_again_and_again_is_told_with_its_number() -> None:
    """P1.2: two say nothing, three cost something."""
    refused = (
        "Edit",
        json.dumps({"file_path": "app.py", "old_string": "x", "new_string": "y = 12345"}) + " => !no match",
    )
    done = edit("app.py", "z", "y = 12345")
    assert told(session(("user", "Set y."), refused, refused, done), "fixes") == []
    [often] = told(session(("user", "Set y."), refused, refused, refused, done), "fixes")
    assert "failed: no match (3 times)" in often


def test_how_a_run_that_failed_before_went_in_the_end_is_the_state() -> None:
    """P1.2: a script that shows the fault is a check, whatever its name; the last command stands behind it."""
    entries = session(
        ("user", "Mend it."),
        run("python show_bug.py", "!AttributeError: no pixels"),
        edit("app.py", "x = 1", "x = 123456"),
        run("python show_bug.py", "Result: True"),
        run("submit", "ok"),
    )
    [state] = told(entries, "state")
    assert state == "last change: app.py; `python show_bug.py` went well: Result: True; last: Ran `submit`"
    looked = session(("user", "Mend it."), edit("app.py", "x = 1", "x = 123456"), run("cat app.py", "x"))
    assert told(looked, "state") == ["last change: app.py"]


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
    assert told(undone, "dead_ends") == ["Committed 3f2a1bc: Pool of 900; taken back again"]


def test_of_a_list_of_checks_the_one_that_failed_is_told() -> None:
    """P1.2."""
    shown = "!Error: trim trailing whitespace.......Passed\nruff-format........Failed"
    [item] = told(session(("user", "Check it."), run("make check", shown)), "open_items")
    assert item == "`make check` failed: ruff-format........Failed"
