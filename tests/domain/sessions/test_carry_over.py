"""What is carried over a client's compaction: the user's words whole, choices with reasons, what sub-agents found."""

import json

import pytest

from mcp_memory.domain.sessions.carry_over import CarriedLine, carried_over, choices_in, fitted, room_for, shared_out
from tests.domain.sessions.made_sessions import run, session

RULES = (
    "Please answer in German from here on.",
    "Port 7443, not 8080, for the gateway.",
    "Alle Beträge sind in Cent, überall.",
    "Keine neuen Abhängigkeiten.",
    "Appelle-moi Jo.",
    "On utilise pnpm ici, pas npm.",
    "提交信息用英文写。",
    "不要动 legacy 目录。",
    "The customer's name is spelled Kjærgaard.",
    "Stick to Python 3.11 syntax.",
    "Five lines at most in an answer.",
    "Logs gehören nach stderr.",
    "Les dates en ISO 8601.",
    "金额一律用分。",
    "Call the branch release/9.",
)


def tokens(text: str) -> int:
    return len(text) // 4


def line(text: str, rank: int = 2) -> CarriedLine:
    return CarriedLine(text=text, source="r1", tokens=tokens(text), rank=rank)


def test_every_message_of_the_user_is_carried_whole_and_in_order() -> None:
    """P1.3: fifteen short rules in four languages among hundreds of calls."""
    noise = [run(f"pytest tests/test_m{n}.py -q", f"{n} passed") for n in range(20)]
    told = [each for rule in RULES for each in (("user", rule), ("assistant", "All right."), *noise)]
    carried = carried_over(
        session(("user", "Rebuild the exporter."), *told, ("user", "ok"), ("user", "Go on.")), tokens
    )
    assert [each.text for each in carried.said] == ["Rebuild the exporter.", *RULES]
    room = room_for(carried.said)
    assert fitted(carried.said, room, tokens) == ["Rebuild the exporter.", *RULES]


def test_a_list_of_rules_keeps_its_lines() -> None:
    carried = carried_over(session(("user", "Two rules:\n\n- Never push.\n- Use tabs.\n")), tokens)
    assert fitted(carried.said, 40, tokens) == ["Two rules:\n- Never push.\n- Use tabs."]


def test_where_not_all_fit_questions_and_long_messages_give_way_first() -> None:
    """P1.3: the first and the last message, then rules, then the shorter."""
    pasted = "Here is the log of yesterday. " + "It says nothing new at all. " * 60
    entries = session(
        ("user", "Rebuild the exporter."),
        ("user", "Why did the build of last week take so very long on the second runner of the old farm?"),
        ("user", pasted),
        ("user", "Never touch the table legacy_sailings."),
        ("user", "We use pnpm here."),
        ("user", "Now write the release notes."),
    )
    said = carried_over(entries, tokens).said
    assert fitted(said, 40, tokens) == [
        "Rebuild the exporter.",
        "Never touch the table legacy_sailings.",
        "We use pnpm here.",
        "Now write the release notes.",
    ]
    longer = fitted(said, 150, tokens)
    assert len(longer) == 6
    assert longer[2].startswith("Here is the log of yesterday.")
    assert longer[2].endswith("… (r00002)")


def test_of_a_long_message_the_sentences_that_demand_are_kept() -> None:
    """P1.3: a brief may state a rule in its middle."""
    brief = (
        "We move the shop. "
        + "The old one ran for nine years. " * 40
        + "Never touch the table sailings. "
        + "Fine. " * 90
    )
    said = carried_over(session(("user", brief), ("user", "Begin with the cart.")), tokens).said
    [first, last] = fitted(said, 70, tokens)
    assert "Never touch the table sailings." in first
    assert first.startswith("We move the shop.")
    assert last == "Begin with the cart."


LOG = "\n".join(f"2026-11-01 12:00:{n:02} ERROR worker-{n} timed out after {n} s" for n in range(60))
TRACE = "\n".join(f'  File "/app/m{n}.py", line {n}, in f{n}\n    raise ValueError("x{n}")' for n in range(40))
DATA = "{\n" + ",\n".join(f'  "k{n}": {{"port": {7000 + n}}}' for n in range(60)) + "\n}"
PROSE = "We looked at port 8443 and it failed. " * 60
ENDLESS = "\n".join(f"2026-11-01 12:00:00 ERROR {n} failed" for n in range(900))


@pytest.mark.uncounted
@pytest.mark.parametrize("pasted", [LOG, TRACE, DATA, PROSE, ENDLESS, "word " * 300, "字" * 900])
@pytest.mark.parametrize("rule", ["Antworte bitte auf Deutsch.", "金额一律用分。", "Call me Jo.", "Five lines at most"])
def test_a_rule_before_or_behind_pasted_text_is_kept(rule: str, pasted: str) -> None:
    """P1.3: which line is the rule, no look of it tells; it stands at an end."""
    for text in (f"Log:\n{pasted}\n\n{rule}", f"{rule}\n\nHere it is:\n{pasted}", f"See this.\n{pasted}\n{rule}"):
        [shown] = fitted(carried_over(session(("user", text)), tokens).said, 90, tokens)
        assert rule in shown
        assert tokens(shown) <= 90


def test_rules_between_pasted_texts_are_kept() -> None:
    """P1.3: the one that demands goes first."""
    text = f"Look.\n\n{LOG}\n\nNever touch the schema.\n\n{LOG}\n\nThanks."
    [shown] = fitted(carried_over(session(("user", text)), tokens).said, 90, tokens)
    assert "Never touch the schema." in shown


def test_one_sentence_without_an_end_is_cut_at_a_word() -> None:
    [text] = fitted([line("word " * 500)], 40, tokens)
    assert text.startswith("word word")
    assert text.endswith("word … (r1)")
    assert tokens(text) <= 40
    assert fitted([line("word " * 500)], 10, tokens) == []


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("I looked. We decided to use Postgres because MySQL lacks row security.",
         ["We decided to use Postgres because MySQL lacks row security."]),
        ("I'm going with Redis Streams, since the broker is there.",
         ["I'm going with Redis Streams, since the broker is there."]),
        ("Decision: amounts in cents. Reason: floats lose money.",
         ["Decision: amounts in cents. Reason: floats lose money."]),
        ("Wir nehmen SQLite, weil es ohne Server läuft.", ["Wir nehmen SQLite, weil es ohne Server läuft."]),
        ("On garde le cache, parce que la base est lente.", ["On garde le cache, parce que la base est lente."]),
        ("我们采用 SQLite，因为它不需要服务器。", ["我们采用 SQLite，因为它不需要服务器。"]),
        ("Shall we use Redis because it is there?", []),
        ("The tests pass. I use grep.", []),
    ],
)  # fmt: skip
def test_a_choice_is_told_with_its_reason(text: str, chosen: list[str]) -> None:
    assert [*choices_in(text)] == chosen


def test_a_proposal_with_a_reason_that_the_user_takes_is_a_choice() -> None:
    entries = session(
        ("user", "Build the queue."),
        ("assistant", "I read it. Redis Streams would do, because the broker is there. Shall I take it?"),
        ("user", "yes"),
        ("assistant", "All tests pass. Shall I go on?"),
        ("user", "yes"),
    )
    [chosen] = carried_over(entries, tokens).chosen
    assert chosen.text.endswith("Redis Streams would do, because the broker is there. Shall I take it? → yes")


@pytest.mark.parametrize(
    ("proposal", "answer", "chosen"),
    [
        ("I'd keep the tokens in Redis, because they expire by themselves there.", "yes, Redis", True),
        ("Seen. I suggest one queue a tenant. Otherwise a large one starves the rest.", "ok", True),
        ("Ich würde die Beträge in Cent speichern, weil Rundung sonst wandert.", "einverstanden, Cent", True),
        ("Propongo usar UTC, porque los husos cambian.", "sí", True),
        ("建议用 SQLite，因为不需要服务器。", "好的，用 SQLite", True),
        ("The build failed because the disk is full.", "ok, clean it up", False),
        ("I'd keep the tokens in Redis, because they expire by themselves there.", "no, in Postgres", False),
        ("I'd keep the tokens in Redis.", "yes", False),
        ("It failed because the disk is full. I'd clean it up.", "yes", False),
    ],
)
def test_a_proposal_that_asks_nothing_is_a_choice_where_the_user_agrees(
    proposal: str, answer: str, chosen: bool
) -> None:
    """P1.3: a report with a cause that the user takes note of is none."""
    carried = carried_over(session(("user", "Go."), ("assistant", proposal), ("user", answer)), tokens)
    told = proposal.removeprefix("Seen. ")
    assert [each.text for each in carried.chosen] == ([f"{told} → {answer}"] if chosen else [])


def test_what_a_sub_agent_found_is_told_with_what_it_was_asked() -> None:
    """P1.3: a report is no log; a start without one is no report."""
    asked = json.dumps({"description": "review backend", "prompt": "Review it all"})
    report = (
        "Root cause: N+1 query in ExportWriter.rows at writer.py:214.\nagentId: a12 (for resuming)\n<usage>x: 3</usage>"
    )
    entries = session(
        ("user", "Why is it slow?"),
        ("Task", f"{asked} => {report}"),
        ("Agent", "{} => Async agent launched successfully.\nagentId: a13"),
        ("Bash", '{"command": "ls"} => a.py'),
    )
    [found] = carried_over(entries, tokens).found
    assert found.text.startswith(
        "review backend: Root cause: N+1 query in ExportWriter.rows at writer.py:214. (r00002)"
    )


def test_what_is_left_goes_to_what_wants_more() -> None:
    shares = {"a": 0.5, "b": 0.3, "c": 0.2}
    assert shared_out({"a": 90, "b": 10, "c": 90}, shares, 100) == {"a": 70, "b": 10, "c": 20}
    assert shared_out({"a": 1, "b": 2, "c": 3}, shares, 100) == {"a": 1, "b": 2, "c": 3}
