"""What a lean summary says of a session, and what it leaves out as overtaken, unproven or chat."""

import json

import pytest

from mcp_memory.domain.sessions.sentence_sections import is_standing_order
from mcp_memory.domain.sessions.slots import slots_of, standing_in
from tests.domain.sessions.made_sessions import run, session, told


@pytest.mark.parametrize(
    ("offer", "answer", "taken"),
    [
        ("Shall we store cents or euros?", "cents, since floats round", True),
        ("In Cent oder in Euro speichern?", "in Cent bitte", True),
        ("用 Redis 还是 SQLite?", "SQLite", True),
        ("## Option 1: Port 8443\n\nIt is free.\n\n## Option 2: Port 9443\n\n1. Open it.", "do option 1 for me", True),
        ("1. A table of jobs\n2. Celery\n\nWhich one?", "2", True),
        ("1. A table of jobs\n2. Celery\n\nOpen it:\n1. ssh\n2. sudo", "2", False),
        ("1. A table of jobs\n2. Celery", "2 or 1?", False),
        ("Cents or euros?", "both, cents and euros", False),
        ("Cents or euros?", "not euros", False),
        ("Cents or euros?", "Are euros exact?", False),
        ("Cents or euros?", "Yes, please go ahead with it.", False),
        ("Shall I cancel or change XEHM4B?", "I would first like to upgrade the reservation, then change it.", False),
        ("Shall I take cents?", "cents", False),
        ("Or shall I wait for the cents?", "wait", False),
        ("I would take cents or euros.", "cents", False),
        ("The totals are in cents now.", "Make the header calmer by 30 px.", False),
    ],
)
def test_an_answer_decides_where_it_takes_one_of_the_things_offered(offer: str, answer: str, taken: bool) -> None:
    """P1.2: a go-ahead, a further request and an answer to a report decide nothing."""
    entries = session(("user", "Store the totals."), ("assistant", offer), ("user", answer), ("assistant", "Done."))
    decided = told(entries, "decisions")
    assert [text.partition(" → ")[2] for text in decided] == [answer] * taken


def test_the_later_answer_to_the_same_question_holds() -> None:
    """P1.2: an overturned decision is replaced."""
    asked = ("assistant", "Shall we store cents or euros?")
    entries = session(("user", "Store it."), asked, ("user", "cents"), asked, ("user", "euros"), ("assistant", "Done."))
    first, second = (f"Shall we store cents or euros? → {each}" for each in ("cents", "euros"))
    assert told(entries, "decisions") == [f"{second} (no longer: {first})"]


def test_what_is_taken_back_in_a_later_span_replaces_the_earlier_decision() -> None:
    entries = session(("user", "Go on."), ("user", "Actually, use Memcached instead of Redis for the cache."))
    back = entries[1].text
    assert [slot.text for slot in slots_of(entries) if slot.section == "decisions"] == []
    shown = slots_of(entries, decided=("Let's use Redis for the cache.",))
    decided = [slot.text for slot in shown if slot.section == "decisions"]
    assert decided == [f"{back} (no longer: Let's use Redis for the cache.)"]


def test_what_an_agent_says_that_it_chose_is_no_decision() -> None:
    entries = session(("user", "Queue the jobs."), ("assistant", "We decided to use Celery."), ("user", "Yes, go on."))
    assert told(entries, "decisions") == []


def test_what_the_user_stopped_without_a_reason_is_no_dead_end() -> None:
    stopped = run("sleep 900", "![Request interrupted by user]")
    entries = session(("user", "Wait for it."), stopped, ("user", "go on"), ("assistant", "I go on."))
    assert told(entries, "dead_ends") == []


@pytest.mark.parametrize(
    ("text", "is_quoted"),
    [
        ("Ines reviews whatever touches the totals, so tell her before you merge.", True),
        ("The totals are off by a cent, look at rounding.py first.", True),
        ("default stays pool until I say so", True),
        ("prune bitte erst ab März scharf", True),
        ("Put lamp 3 on shelf 9, and tell me when.", True),
        ("turns three on 2 september", True),
        ("the codeblock color was #b5bd68", True),
        ("f0c674", False),
        ("I think it is KHIK97.", False),
        ("follow camelCase", True),
        ("please use the staging database", True),
        ("w8, I still want ruff there, is that done?", True),
        ("write another one without an offer", False),
        ("is port 8443 open?", False),
        ("sleep 5 seconds via bash", False),
        ("think then say hello", False),
        ("➜  app git:(main) ✗ echo $TERM\nxterm-256color", False),
        ("'/tmp/Screenshot 2025-11-21.png'\n\nthis is odd", False),
        ("IT's not working", False),
        ("/drop scenes/car\n/add scenes/car/Car2.cs", False),
        ("how would I separate out the engine class from Car3", False),
        ("You use max with 3 values although it only takes 2. What was intended?", False),
        ("My id is ana_99. Can we proceed with that?", True),
        ("no, not that", False),
    ],
)
def test_a_summary_quotes_rules_and_values_but_no_chat_and_no_pastes(text: str, is_quoted: bool) -> None:
    """P1.2, D6.1."""
    assert is_standing_order(text) is is_quoted


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("Bump the version to 1.0.2 and write the changelog, so I can publish.", False),
        ("Pass one object instead of single arguments.", False),
        ("When I say bump, always write the changelog.", True),
        ("Use pnpm going forward.", True),
        ("follow camelCase", True),
        ("/add app.py\nNever push to main.", True),
    ],
)
def test_a_commit_serves_what_only_asked_for_a_value_or_a_change(text: str, holds: bool) -> None:
    """P1.2: a rule outlasts it; commands to the client are no words of the user's."""
    asked = session(("user", "Mend it."), ("assistant", "Mended."), ("user", text))
    made = session(*[("user", "x")] * 3, run("git commit -am x", "[main 3f2a1bc] Release"))[3:]
    assert is_standing_order(text)
    assert standing_in(asked[2:], (*asked, *made)) == ((text.rpartition("\n")[2],) if holds else ())
    assert standing_in(asked[2:], asked) == (text.rpartition("\n")[2],)


@pytest.mark.parametrize(
    ("told_by_user", "stands"),
    [
        ("I've reset the previous commit. Make it v1.1.0.", False),
        ("Oops, I reset the commit back.", False),
        ("Ich habe den Commit zurückgesetzt.", False),
        ("Reset the clock before the next commit, please.", True),
    ],
)
def test_a_commit_that_the_user_took_back_is_not_done(told_by_user: str, stands: bool) -> None:
    """P1.2: the latest one; what the user says of it is why."""
    made = run("git commit -am x", "[main 3f2a1bc] Release v1.0.2")
    entries = session(("user", "Release it."), made, ("user", told_by_user), ("assistant", "Well."))
    assert told(entries, "completed") == ["Committed 3f2a1bc: Release v1.0.2"] * stands
    again = run("git reset --soft HEAD~1 && git commit -am x", "[main 77ee88f] Release v1.1.0")
    entries = session(("user", "Release it."), made, again)
    assert told(entries, "completed") == ["Committed 77ee88f: Release v1.1.0"]


def test_the_goal_goes_where_more_was_asked_and_done_since() -> None:
    """P1.2: an answer to a question before anything is done belongs to the same wish."""
    wish, edited = ("user", "Add a JSON flag to the export."), ("Edit", '{"file_path": "a.py", "old": "x"} => ok')
    asked, more = ("assistant", "As a flag or as a setting?"), ("user", "Make the import read it.")
    assert told(session(wish, asked, more, edited), "goal") == [wish[1]]
    assert told(session(wish, edited, ("assistant", "It is there."), more, ("assistant", "How?")), "goal") == [wish[1]]
    assert told(session(wish, edited, ("assistant", "It is there."), more, edited), "goal") == []
    assert told(session(wish, edited, asked, more, edited), "goal") == []
    assert told(session(wish, edited, ("assistant", "It is there."), ("user", "Thanks!"), edited), "goal") == [wish[1]]
    assert told(session(("user", "/add app.py"), wish), "goal") == [wish[1]]
    assert told(session(("user", "/compact"), ("assistant", "Well.")), "goal") == []


def test_a_search_that_finds_nothing_is_no_failing_check() -> None:
    """P1.2."""
    for command in ("pgrep -la test", "which build", "grep -rn test src", "find . -name test"):
        assert told(session(("user", "Look for it."), run(command, "!Exit code 1")), "open_items") == []


def test_a_file_in_two_spellings_is_one() -> None:
    edits = [("Edit", json.dumps({"file_path": path, "old": "x"}) + " => ok") for path in (r"app\a\_.ts", "app/a_.ts")]
    assert told(session(("user", "Mend it."), *edits), "changes") == [r"app\a\_.ts: edited 2 times"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/srv/app/src/a.py", "src/a.py"),
        ("src/a.py", "src/a.py"),
        ("./src/a.py", "src/a.py"),
        ("/tmp/a.py", "/tmp/a.py"),
    ],
)
@pytest.mark.parametrize("begun", ["cd /srv/app && ", "cd '/srv/app/'\n", ""])
def test_a_file_is_told_by_its_path_in_the_folder_where_commands_run(path: str, shown: str, begun: str) -> None:
    """P1.2: whether a tool or a command changed it, by a whole or a relative path."""
    ran = run("cd /srv/app && make", "ok")
    edited = ("Edit", json.dumps({"file_path": path, "old": "x"}) + " => ok")
    poured = run(f"{begun}sed -i s/a/b/ {path}", "ok")
    assert told(session(("user", "Mend it."), edited, ran, poured), "changes") == [f"{shown}: edited 2 times"]
    undone = run("git checkout -- .", "ok")
    assert told(session(("user", "Mend it."), edited, ran, poured, undone), "changes") == []


def test_a_path_stays_where_no_command_tells_the_folder() -> None:
    """P1.2: "a.py" may be another file than "/srv/a.py"."""
    edits = [("Edit", json.dumps({"file_path": path, "old": "x"}) + " => ok") for path in ("/srv/a.py", "a.py")]
    assert told(session(("user", "Mend it."), *edits), "changes") == ["/srv/a.py: edited", "a.py: edited"]


LONG = "The import reads each of the files twice and takes the second reading where they differ. " * 3


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        (f"{LONG}\n\nOpen:\n1. Run patch 4.\n2. Push.", f"{LONG} Open: 1. Run patch 4. 2. Push."),
        (f"{LONG * 2}\n\nOpen: patch 4.", "… Open: patch 4."),
        (f"{LONG * 2}Patch 4 is open.", f"… {LONG[: len(LONG) // 3] * 5}Patch 4 is open."),
        ("x" * 600, ""),
        ("Done.", None),
    ],
)
def test_the_end_of_the_last_report_says_what_is_open(report: str, shown: str | None) -> None:
    """P1.2: where the log goes on behind it, in whole paragraphs, or in whole sentences."""
    entries = session(("user", "Do it."), ("assistant", report), ("user", "Go on."), ("assistant", "Well."))
    slots = slots_of(entries[:3], entries[3:])
    expected = [] if shown is None else [" ".join(f"The agent's last report: {shown}".split())]
    assert [" ".join(slot.text.split()) for slot in slots if slot.section == "state"] == expected


def test_a_report_that_stays_in_the_log_or_is_stale_is_not_told() -> None:
    """P1.2: an earlier one is overtaken, by what was changed since, too; what begins a call reports nothing."""
    first, last = (("assistant", f"Part {n}: {LONG}") for n in (1, 2))
    asked, edited = ("user", "Go on."), ("Edit", '{"file_path": "a.py", "old": "x"} => ok')
    for lines, is_told in (
        ([first, asked, last, asked], False), ([first, asked, edited], False), ([asked, first, edited], False),
        ([edited, first, asked], True),
    ):  # fmt: skip
        entries = session(*lines, ("assistant", "Well."))
        slots = slots_of(entries[:2], entries[2:]) if last in lines else slots_of(entries[:-1], entries[-1:])
        assert ("state" in {slot.section for slot in slots}) is is_told


def test_a_line_of_a_file_is_no_demand() -> None:
    """P1.2."""
    pasted = "Mend it.\n\n111 | // We must only allow ids\n\nNever touch the database."
    assert told(session(("user", pasted)), "constraints") == ["Never touch the database."]


def test_a_step_that_a_commit_tells_is_open_no_more() -> None:
    """D9.1."""
    todos = [{"content": "Wire the importer into main.go", "status": "pending"}]
    planned = ("TodoWrite", json.dumps({"todos": todos}) + " => ok")
    made = run("git commit -am x", "[main 3f2a1bc] Wire the importer into main.go")
    assert told(session(("user", "Build it, please."), planned), "next_steps") == ["Wire the importer into main.go"]
    assert told(session(("user", "Build it, please."), planned, made), "next_steps") == []


def test_a_page_that_is_refused_writes_no_file() -> None:
    """D9.1."""
    asked = "curl -s https://x.example/a -o data/rates.csv"
    assert told(session(("user", "Get it."), run(asked, "HTTP/1.1 404 Not Found")), "changes") == []


def test_the_state_is_as_much_as_fits_of_the_last_messages() -> None:
    """D9.1: whole messages, the newest in any case."""
    said = [
        f"Table {n} has {n}00 rows on the new host, {'all of them read back and counted, ' * 7}once." for n in (1, 2)
    ]
    [state] = told(session(("user", "Move it."), *(("assistant", text) for text in said)), "state")
    assert state == said[1]


SAYS_IT_WENT_WELL = "Application failed to start within the timeout period.\nTesting completed successfully!"


@pytest.mark.parametrize(
    ("outputs", "told_of_it"),
    [
        ([SAYS_IT_WENT_WELL], ""),
        (["2 failed, 30 passed"], ""),
        (["exit code: 0\n3 passed"], "; a check passed since"),
        (["exit code: 1\n1 failed"], "; a check fails since: 1 failed"),
        (["!FAILED test_a.py", "3 passed"], "; a check passed since"),
        (["!FAILED test_a.py", "1 failed"], ""),
    ],
)
def test_a_check_is_told_by_its_code_or_its_mark_alone(outputs: list[str], told_of_it: str) -> None:
    """P1.2: an echo at the end of a batch file says "successfully" whatever came before it."""
    checked = [run("pytest", output) for output in outputs]
    entries = session(("user", "Move the port."), ("Write", '{"file_path": "a.py", "content": "x"} => ok'), *checked)
    assert told(entries, "changes") == [f"a.py: written{told_of_it}"]
