"""What a lean summary says of a session, and what it leaves out as overtaken, unproven or chat."""

import json

import pytest

from mcp_memory.domain.sessions.sentence_sections import is_standing_order
from mcp_memory.domain.sessions.slots import given_in, slots_of
from tests.domain.sessions.made_sessions import run, session, told


def test_given_is_what_commands_were_given_and_what_settings_were_written_and_mentioned() -> None:
    edit = json.dumps({"path": "a.toml", "old": "x", "new": "retries=3\nidle=9"})
    entries = session(
        ("user", "My id is ana_99."),
        run("systemctl restart a.timer", ""),
        ("edit", f"{edit} => Edited a.toml"),
        ("assistant", "There is retries=3 now."),
    )
    assert given_in(entries) == (json.dumps({"command": "systemctl restart a.timer"}), "retries=3")


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


def test_a_goal_that_is_committed_gives_way_to_the_next_and_a_command_to_the_client_is_none() -> None:
    """P1.2."""
    commit = run("git commit -am 'Add a JSON flag to the export'", "[main 22bb33c] Add a JSON flag to the export")
    first = [("user", "/add app.py"), ("user", "Add a JSON flag to the export."), ("assistant", "Well.")]
    later = ("user", "Make the import read it.")
    assert told(session(*first, later), "goal") == ["Add a JSON flag to the export."]
    assert told(session(*first, commit, later), "goal") == ["Make the import read it."]
    assert told(session(*first, commit), "goal") == ["Add a JSON flag to the export."]
    assert told(session(("user", "/compact"), ("assistant", "Well.")), "goal") == ["/compact"]


def test_a_finding_stands_as_the_agent_s_where_the_result_before_it_prints_its_numbers() -> None:
    """P1.2: what no result bears out may be a mistake."""
    counted = [("user", "Why is it slow?"), run("count", "48211 goroutines in pump_all, at 10:24:07")]
    found = "It turned out that 48211 goroutines wait in pump_all."
    assert told(session(*counted, ("assistant", found)), "fixes") == [f"The agent says: {found}"]
    wrong = "It turned out that 48211 goroutines wait for 24 hours."
    assert told(session(*counted, ("assistant", wrong)), "fixes") == []
    assert told(session(("user", "Why?"), ("assistant", found)), "fixes") == []


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
    ],
)
def test_a_summary_quotes_rules_and_values_but_no_chat_and_no_pastes(text: str, is_quoted: bool) -> None:
    """P1.2, D6.1."""
    assert is_standing_order(text) is is_quoted
