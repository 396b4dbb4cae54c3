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
    assert told(entries, "in_progress") == ["Part 1 of the importer"]
    assert told(entries, "next_steps") == ["Part 2 of the importer"]


def test_a_test_that_was_red_and_is_green_is_a_fix_with_its_reason() -> None:
    """D9.1: the error, what was said of it, and the file that was edited."""
    entries = session(
        ("user", "Make the clock tests pass."),
        run("pytest -q", "!E   assert 174 == 180\n1 failed"),
        ("assistant", "The host runs 94 s ahead. I compare with the database's clock instead."),
        ("Edit", '{"file_path": "src/clock.py", "old_string": "a", "new_string": "expires_at > now()"} => ok'),
        run("pytest -q", "12 passed"),
    )
    [fix] = told(entries, "fixes")
    assert all(part in fix for part in ("`pytest -q` failed", "assert 174 == 180", "94 s ahead", "edited src/clock.py"))
    assert told(entries, "changes") == ["src/clock.py: edited, last `expires_at > now()`; a check passed since"]
    assert "`pytest -q` went well: 12 passed" in told(entries, "state")[-1]


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
        ("curl -s https://x.example/a -o data/rates.csv", "data/rates.csv"),
        ("cp -r conf/app.toml conf/new.toml", "conf/new.toml"),
        ("python3 - <<'EOF'\nrows = open('in.csv').read()\nopen('out.csv', 'w').write(rows)\nEOF", "out.csv"),
        ("python3 -c \"from pathlib import Path; Path('notes.md').write_text('x')\"", "notes.md"),
        ("bash -lc 'apply_patch <<EOF\n*** Begin Patch\n*** Update File: app.py\n*** End Patch\nEOF'", "app.py"),
    ],
)
def test_a_file_that_a_shell_changes_is_a_changed_file(command: str, path: str) -> None:
    """D9.1: whichever way it was written; what a command prints into a file is none of its text."""
    entries = session(("user", "Move the port, please."), run(command, "ok"), run("pytest -q > out.log", "3 passed"))
    assert told(entries, "changes") == [f"{path}: edited; a check passed since"]
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
        ("python import.py 2>&1 | tail -5", "  File \"import.py\", line 3\nKeyError: 'sailing_id'"),
        (
            "ssh web 'replay --speed 20'",
            "replay: 41 minutes\nERROR sub closed with 1 undelivered message\ndropped: 612",
        ),
    ],
)
def test_a_command_that_fails_is_known_by_its_last_words(command: str, output: str) -> None:
    """D9.1: not every client tells how a command ended."""
    entries = session(
        ("user", "Make it run."),
        run(command, output),
        run("sed -i 's/a/b/' app.cfg", "ok"),
        run(command, "all 31 went well, 0 failed"),
    )
    [fix] = told(entries, "fixes")
    assert fix.endswith("→ edited app.cfg")


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


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("kubectl logs issuer --tail 2", "error: TSIG BADALG"),
        ("make issue", "exit code 3\nthe issuer waits\nfor its key"),
    ],
)
def test_what_is_concluded_from_an_error_and_changed_is_a_fix(command: str, output: str) -> None:
    """D9.1: in any language, also where a log told of the error, or an exit code alone."""
    entries = session(
        ("user", "Le certificat, s'il te plaît."),
        run(command, output),
        ("assistant", "Un pas plus loin : la clé est en HMACSHA512, l'émetteur dit HMACSHA256."),
        ("Edit", '{"file_path": "issuer.yaml", "old_string": "HMACSHA256", "new_string": "HMACSHA512"} => ok'),
    )
    assert any("HMACSHA512" in text for text in told(entries, "fixes"))
    assert told(entries[:-2], "fixes") == []


def test_a_long_diagnosis_leaves_room_for_the_remedy() -> None:
    """D9.1: what was wrong, and what was done about it, where much was said between."""
    entries = session(
        ("user", "Make the migration run."),
        run("make migrate", "!error: could not create unique index"),
        (
            "assistant",
            f"There are 37 old duplicates. {'They are in the way of the new key, as was to be expected. ' * 5}",
        ),
        ("assistant", "I set send_reason to 'dup-2026-04' on the second row of each pair."),
        run("make migrate", "ok"),
    )
    [fix] = [text for text in told(entries, "fixes") if text.startswith("`make migrate`")]
    assert all(part in fix for part in ("37 old duplicates", "dup-2026-04"))


def test_an_edit_after_a_failure_that_nobody_ran_again_stays_open() -> None:
    """D9.1: it is no fix yet."""
    entries = session(
        ("user", "Make the import run."),
        run("python import.py", "!KeyError: 'sailing_id'"),
        run("sed -i 's/sailing_id/id/' import.py", "ok"),
    )
    [item] = told(entries, "open_items")
    assert "KeyError: 'sailing_id'" in item
    assert item.endswith("; edited import.py since, not run again")
    assert told(entries, "fixes") == []


def test_what_was_committed_and_pushed_is_done() -> None:
    """D9.1: by the tool's own words, and the last of it is how things stand."""
    entries = session(
        ("user", "Fix the clock."),
        run("git commit -am 'Fix the clock'", "[main 3f2a1bc] Fix the clock\n 1 file changed"),
        run("git push", "To origin\n   11aa22b..3f2a1bc  main -> main"),
    )
    committed, pushed = told(entries, "completed")
    assert committed == "Committed 3f2a1bc: Fix the clock"
    assert pushed == "Ran `git push` → 11aa22b..3f2a1bc main -> main"
    assert told(entries, "state") == [pushed]


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
        "The refund waits for the answer of Jonas.",
        "Still open: the retention of the logs.",
        "Offen: die Stanza für db-neu.",
        "Queda: el despliegue del viernes 16.",
        "Reste : lancer ferme_lebrun pour de vrai.",
        "7月7日复查以后再说，还没确认。",
        "デプロイは来週、まだ未確認です。",
    ],
)
def test_what_is_put_off_is_open_in_any_of_six_languages(text: str) -> None:
    """D9.1."""
    entries = session(
        ("user", "Look after the release of the tidebook, please."), ("assistant", text), *[("assistant", "Fine.")] * 4
    )
    assert [*told(entries, "open_items"), *told(entries, "next_steps")] == [text]


def test_nothing_said_and_nothing_done_fills_no_slot() -> None:
    assert slots_of(()) == ()
    assert slots_of(session(("user", "ok"))) == ()


def test_a_conclusion_ends_with_a_sentence_where_it_is_long() -> None:
    """D9.1: as many as fit."""
    entries = session(
        ("user", "Make the import run."),
        run("python import.py", "!KeyError: 'sailing_id'"),
        ("assistant", "The key is called id in file a.csv. " + "It was renamed by the exporter. " * 15),
        ("Edit", '{"file_path": "import.py", "old_string": "sailing_id", "new_string": "id"} => ok'),
    )
    [fix] = [text for text in told(entries, "fixes") if text.startswith("The key is called id")]
    assert len(fix) <= 320
    assert fix.endswith("exporter.")


def test_a_civility_is_no_state() -> None:
    entries = session(
        ("user", "Mend it."),
        ("assistant", "The clock is mended in a.py, and 3 tests pass."),
        ("user", "Thanks!"),
        ("assistant", "You're welcome! If there's anything else, feel free to ask me about it."),
    )
    assert told(entries, "state") == ["The clock is mended in a.py, and 3 tests pass."]


def test_what_a_message_begins_with_behind_a_result_came_to_nothing() -> None:
    vain = "The flag --fast did not help with build.log."
    tried = [("user", "Speed it up."), run("make --fast", "9 s")]
    assert told(session(*tried, ("assistant", vain)), "dead_ends") == [vain]
    again = run("ls", "build.log")
    assert told(session(*tried, ("assistant", vain), again), "dead_ends") == [vain]
    assert told(session(*tried, ("assistant", f"It took 9 s. It is slow. {vain}"), again), "dead_ends") == []


def test_what_only_the_agent_says_is_wrong_is_no_fix() -> None:
    """P1.2: it may be wrong about why something does not work."""
    found = [("assistant", "It turned out that cache.db drops rows."), run("ls", "a.py")]
    assert told(session(("user", "Speed it up."), *found), "fixes") == []
    listed = "The lock of 30 s fails in worker.py. I would rather not raise it to 1 hour."
    assert told(session(("user", "Why twice?"), ("assistant", listed)), "fixes") == []


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


def test_what_is_announced_before_a_call_is_not_put_off() -> None:
    said = "The server asks a question, I will send Yes to it."
    first, last = ("user", "Read the message, please."), ("assistant", "The answer is in a.txt now.")
    assert told(session(first, ("assistant", said), run("nc host 1337", "ok"), last), "next_steps") == []
    assert told(session(first, ("assistant", said)), "next_steps") == [said]


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
