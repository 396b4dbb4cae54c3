"""What a lean summary says of a session, and what it leaves out as overtaken, unproven or chat."""

import json

import pytest

from mcp_memory.domain.sessions.sentence_sections import is_standing_order
from mcp_memory.domain.sessions.slots import given_in
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


PORT = ("assistant", "I would take port 8443 for the gate then.")
"""What an agent proposes."""


def test_a_go_ahead_decides_where_something_exact_was_proposed_and_done() -> None:
    """P1.2: one that was withdrawn before anything was done is none."""
    asked = [("user", "Open the gate of the depot."), PORT, ("user", "Yes, please go ahead. I wait in the depot.")]
    done = [("assistant", "Now it comes."), run("systemctl start gate@8443", ""), ("assistant", "It runs.")]
    assert any("port 8443" in text for text in told(session(*asked, *done), "decisions"))
    withdrawn = [("assistant", "It costs 90 euros."), ("user", "Then I hold off.")]
    assert not any("go ahead" in text for text in told(session(*asked, *withdrawn), "decisions"))


def test_a_report_is_answered_only_where_its_number_is_taken_up() -> None:
    edit = json.dumps({"path": "a.toml", "old": "x", "new": "y"})
    made = [
        ("user", "Let claims lapse."),
        ("edit", f"{edit} => Edited a.toml"),
        ("assistant", "Claims lapse in 15 min."),
    ]
    later = [("assistant", "Well."), ("user", "Bye.")]
    assert told(session(*made, ("user", "Make the header calmer by 30 px."), *later), "decisions") == []
    [decided] = told(session(*made, ("user", "15 min suits us very well."), *later), "decisions")
    assert "lapse in 15 min" in decided


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
