"""Slots of a session: filled from what was done before what was said, and changed by what happens later."""

import json

import pytest

from mcp_memory.domain.memory.harness import CLIENTS_NOTE, OWN_CALL
from mcp_memory.domain.sessions.slots import slots_of
from tests.domain.sessions.made_sessions import Line, run, session, told


@pytest.mark.parametrize(
    ("tool", "field", "text"),
    [("TodoWrite", "todos", "content"), ("update_plan", "plan", "step"), ("write_todos", "todos", "description")],
)
def test_the_latest_list_of_things_to_do_says_what_is_open(tool: str, field: str, text: str) -> None:
    """D9.1: whichever client wrote it; an item of an earlier list that is done now is open no more."""

    def plan(*states: str) -> Line:
        items = [{text: f"Part {n} of the importer", "status": state} for n, state in enumerate(states)]
        return tool, f"{json.dumps({field: items})} => ok"

    entries = session(
        ("user", "Build the importer, please."), plan("pending", "pending"), plan("completed", "in_progress", "pending")
    )
    assert told(entries, "completed") == ["Part 0 of the importer"]
    wrote = ("Write", '{"file_path": "a.py", "content": "x"} => ok')
    assert told(session(*[("user", "Build it, please."), wrote], plan("completed")), "completed") == []
    assert told(entries, "in_progress") == ["Part 1 of the importer"]
    assert told(entries, "next_steps") == ["Part 2 of the importer"]


def test_a_file_says_that_a_check_passed_since() -> None:
    """D9.1: what was wrong before says no slot (P1.2)."""
    entries = session(
        ("user", "Make the clock tests pass."),
        run("pytest -q", "!E   assert 174 == 180\n1 failed"),
        ("assistant", "The host runs 94 s ahead. I compare with the database's clock instead."),
        ("Edit", '{"file_path": "src/clock.py", "old_string": "a", "new_string": "expires_at > now()"} => ok'),
        run("pytest -q", "12 passed"),
    )
    assert told(entries, "changes") == ["src/clock.py: edited, last `expires_at > now()`; a check passed since"]
    assert [*told(entries, "fixes"), *told(entries, "open_items")] == []


def test_a_file_that_was_removed_again_says_so_and_a_failing_check_stays_open() -> None:
    """D9.1: what a file is worth follows from what happened after it was written."""
    entries = session(
        ("user", "Expire the holds, please."),
        ("Write", '{"file_path": "/src/ticker.go", "content": "package hold // every 30 s"} => ok'),
        ("Edit", '{"file_path": "/src/store.go", "old_string": "15", "new_string": "const HoldTTL = 12"} => ok'),
        run("rm src/ticker.go && go vet ./...", "!store.go:9: error: undefined: HoldTTL"),
    )
    assert "store.go: edited, last `const HoldTTL = 12`; a check fails since: " in told(entries, "changes")[1]
    [still_red] = told(entries, "open_items")
    assert "undefined: HoldTTL" in still_red
    gone = session(
        *[("user", "Go on with it.")], ("Write", '{"file_path": "a/b.go", "content": "x"} => ok'), run("rm b.go", "ok")
    )
    assert told(gone, "changes") == ["a/b.go: removed again"]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("sed -i 's/15/12/; s/a/b/' src/store.go && gofmt -l .", "src/store.go"),
        ("cat > conf/app.toml <<'EOF'\necho no > other.toml\nEOF", "conf/app.toml"),
        ("cat <<EOF > conf/app.toml\nport = 5433\nEOF", "conf/app.toml"),
        ("echo 'PORT=5433' >> .env", ".env"),
        ("grep -v old hosts | tee -a hosts.new > /dev/null", "hosts.new"),
        ("git mv tides.py clock.py", "clock.py"),
        ("ssh web 'sed -i s/old@x.example/new@x.example/ /srv/sync.sh'", "/srv/sync.sh"),
        ("ssh -o StrictHostKeyChecking=no web make && report.py --out out/may.html", "out/may.html"),
        ("cp -r conf/app.toml conf/new.toml", "conf/new.toml"),
        ("python3 - <<'EOF'\nrows = open('in.csv').read()\nopen('out.csv', 'w').write(rows)\nEOF", "out.csv"),
        ("python3 -c \"from pathlib import Path; Path('notes.md').write_text('x')\"", "notes.md"),
        ("bash -lc 'apply_patch <<EOF\n*** Begin Patch\n*** Update File: app.py\n*** End Patch\nEOF'", "app.py"),
    ],
)
def test_a_file_that_a_shell_changes_is_a_changed_file(command: str, path: str) -> None:
    """D9.1: whichever way it was written; what a command prints into a file is none of its text."""
    entries = session(("user", "Move the port, please."), run(command, "ok"), run("pytest -q > out.log", "3 passed"))
    assert told(entries, "changes") == [f"{path}: edited"]
    assert (
        told(session(("user", "Look at it."), run("sed -n 1,9p a.py; echo 'a > b' > /dev/null", "x")), "changes") == []
    )


@pytest.mark.parametrize(
    ("tool", "fields"),
    [
        ("apply_diff", {"path": "app.py", "diff": "-a\n+b"}),
        ("update_file", {"path": "app.py", "content": "b"}),
        ("python", {"code": "frame.to_csv('app.py')"}),
    ],
)
def test_a_file_that_a_tool_changes_is_a_changed_file(tool: str, fields: dict[str, str]) -> None:
    """D9.1: whatever the client calls its tool."""
    entries = session(("user", "Change it, please."), (tool, f"{json.dumps(fields)} => ok"))
    assert [text.partition(":")[0] for text in told(entries, "changes")] == ["app.py"]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("go test ./...", 'zone_test.go:33: got "a", want "b"\nFAIL\tapp/zone\t0.632s'),
        ("npx jest", "Tests: 1 failed, 30 passed\nTime: 2.1 s"),
        ("vendor/bin/phpunit tests", "Tests: 3, Assertions: 5, Failures: 1."),
        ("make check 2>&1 | tail -5", "  File \"import.py\", line 3\nKeyError: 'sailing_id'"),
        (
            "ssh web 'make verify'",
            "replay: 41 minutes\nERROR sub closed with 1 undelivered message\ndropped: 612",
        ),
    ],
)
def test_a_command_that_fails_is_known_by_its_last_words(command: str, output: str) -> None:
    """D9.1: not every client tells how a command ended."""
    failing = [("user", "Make it run."), run(command, output), run("sed -i 's/a/b/' app.cfg", "ok")]
    [item] = told(session(*failing), "open_items")
    assert item.endswith("; edited app.cfg since, not run again")
    assert told(session(*failing, run(command, "all 31 went well, 0 failed")), "open_items") == []


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("tail -3 app.log", "ERROR sub closed"),
        ("ssh web 'cat app.log'", "ERROR sub closed"),
        ("kubectl logs web", "fatal: no such key"),
        ("pytest -q", "31 passed, 0 failed"),
        ("make check", "exit code 0\nFAIL is a word of the tests"),
    ],
)
def test_what_a_command_only_shows_is_no_failure_of_its_own(command: str, output: str) -> None:
    assert told(session(("user", "Look at it."), run(command, output)), "open_items") == []


def test_an_edit_after_a_failure_that_nobody_ran_again_stays_open() -> None:
    """D9.1: it is no fix yet."""
    entries = session(
        ("user", "Make the import run."),
        run("pytest -q", "!KeyError: 'sailing_id'"),
        run("sed -i 's/sailing_id/id/' import.py", "ok"),
    )
    [item] = told(entries, "open_items")
    assert "KeyError: 'sailing_id'" in item
    assert item.endswith("; edited import.py since, not run again")
    assert told(entries, "fixes") == []


def test_what_was_committed_and_pushed_is_done() -> None:
    """D9.1: by the tool's own words."""
    entries = session(
        ("user", "Fix the clock."),
        run("git commit -am 'Fix the clock'", "[main 3f2a1bc] Fix the clock\n 1 file changed"),
        run("git push", "To origin\n   11aa22b..3f2a1bc  main -> main"),
    )
    committed, pushed = told(entries, "completed")
    assert committed == "Committed 3f2a1bc: Fix the clock"
    assert pushed == "Ran `git push` → 11aa22b..3f2a1bc main -> main"


def test_a_command_in_parts_is_a_command_and_a_dropped_step_no_step() -> None:
    """D9.1: other clients give the words of a command as a list."""
    steps = [{"step": "Part 1", "status": "cancelled"}, {"step": "Part 2", "status": "pending"}]
    entries = session(
        ("user", "Run the tests of the importer."),
        ("shell", json.dumps({"command": ["bash", "-lc", "pytest -q"]}) + " => !E   assert 174 == 180"),
        ("update_plan", json.dumps({"plan": steps}) + " => ok"),
    )
    assert "assert 174 == 180" in told(entries, "open_items")[0]
    assert told(entries, "next_steps") == ["Part 2"]


def test_neither_the_client_nor_this_memory_fills_a_slot() -> None:
    """D9.1: also where an earlier version stored a call as it was."""
    entries = session(
        ("mcp__mcp-memory__remember", f"{OWN_CALL} => !{OWN_CALL}"),
        ("mcp__mcp-memory__push_task", '{"goal": "Import the sailings"} => !Error: database is locked'),
        ("ToolSearch", f"{CLIENTS_NOTE} => {CLIENTS_NOTE}"),
    )
    assert slots_of(entries) == ()


def test_a_call_that_nobody_mentions_and_nothing_answers_is_told() -> None:
    assert told(session(run("ls", "x"))[:1], "facts") == ['Bash called once, with {"command": "ls"}']


@pytest.mark.parametrize(
    "text",
    [
        "Still open: the retention of the logs.",
        "Offen: die Stanza für db-neu.",
        "Queda: el despliegue del viernes 16.",
        "Reste : lancer ferme_lebrun pour de vrai.",
        "还剩：7月7日复查。",
        "残り：デプロイ。",
    ],
)
def test_what_a_label_calls_open_is_open_in_any_of_six_languages(text: str) -> None:
    """D9.1: without a label nobody can tell (P1.2)."""
    entries = session(
        ("user", "Look after the release of the tidebook, please."), ("assistant", text), *[("assistant", "Fine.")] * 4
    )
    assert [*told(entries, "open_items"), *told(entries, "next_steps")] == [text]


def test_nothing_said_and_nothing_done_fills_no_slot() -> None:
    assert slots_of(()) == ()
    assert slots_of(session(("user", "ok"))) == ()


def test_a_civility_is_no_state() -> None:
    entries = session(
        ("user", "Mend it."),
        ("assistant", "The clock is mended in a.py, and 3 tests pass."),
        ("user", "Thanks!"),
        ("assistant", "You're welcome! If there's anything else, feel free to ask me about it."),
    )
    assert told(entries, "state") == ["The clock is mended in a.py, and 3 tests pass."]


def test_what_follows_closes_what_is_open_and_tells_the_state_itself() -> None:
    """P1.2: a summary says nothing that the part behind it has overtaken."""
    entries = session(
        ("user", "Move the tables to the new host."),
        ("assistant", "Two of 9 tables are on the new host."),
        ("user", "Move the last 7 tables, too."),
        ("assistant", "All 9 tables are on the new host now."),
    )
    shown = slots_of(entries[:2], entries[2:])
    assert all(slot.source == entries[0].id or slot.source == entries[1].id for slot in shown)
    assert not any(slot.section in ("state", "next_steps") for slot in shown)
    assert [slot.text for slot in shown if slot.section == "goal"] == ["Move the tables to the new host."]


def test_a_go_ahead_small_talk_and_a_served_request_decide_nothing() -> None:
    entries = session(
        ("user", "Make the theme calmer."),
        ("assistant", "The headings are grey now. Shall I go on with the links?"),
        ("user", "Yes, that's correct. Please go ahead with the links of all pages."),
        ("assistant", "The links are grey."),
        ("user", "think then say hello"),
        ("assistant", "Hello!"),
        ("user", "No, the border stays as it is."),
        ("assistant", "It stays."),
    )
    assert told(entries, "decisions") == []


def test_a_choice_of_the_next_tool_is_no_decision() -> None:
    entries = session(("user", "Mend it."), ("assistant", "Let's use find_file to see where it is."), run("ls", "a.py"))
    assert told(entries, "decisions") == []


def test_what_is_asked_for_last_is_one_next_step_without_civilities() -> None:
    found = ("assistant", "I found six reservations of yours, in business and in economy.")
    asked = (
        "user",
        "Thank you for it! Please downgrade all to economy. Will the difference be refunded to my credit card?",
    )
    entries = session(("user", "Find my reservations."), found, asked)
    step = "Please downgrade all to economy. Will the difference be refunded to my credit card?"
    assert told(entries, "next_steps") == [step]
    assert told(entries, "decisions") == []
