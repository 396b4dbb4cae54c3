"""Health tells a figure and its aim in one unit, and each of its numbers is that of the list that it leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.page.health import show_health
from mcp_memory.entrypoints.page.memories import show_memories
from mcp_memory.entrypoints.page.sessions import show_sessions
from mcp_memory.entrypoints.page.work import show_work
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.tasks.task_stack import PushRequest
from tests.entrypoints.page.conftest import asked, memory_of, words_of


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[App]:
    opened = memory_of(tmp_path / "data")
    yield opened
    opened.close()


def test_a_figure_and_its_aim_have_one_unit(memory: App) -> None:
    caller = memory.caller()
    for n in range(5):
        memory.remember(
            [NewRecord(text=f"We take plan {n}.", kind="decision", confidence=0.9, outcome="failure")], caller
        )
    first = memory.assemble_context(ContextRequest(query="the plan", max_tokens=8_000), caller).report.id
    memory.assemble_context(ContextRequest(query="cranes", max_tokens=500, previous=first), caller)
    memory.remember([NewRecord(text=f"The bank number {n} is closed.") for n in range(10)], caller)
    words = words_of(asked(memory, show_health))
    for figure in (
        r"relevant on average\. Aim: above 60 %", r"fill \d+ % of their budget on average\. Aim: 50 % to 90 %",
        r"ready in \d+ ms\. Aim: below 500 ms", r"0 % of the facts came up again after .*? Aim: above 20 %",
        r"turned out by 0\.81; .*?guessing\. Aim: below 0\.25", r"needed a whole new context\. Aim: below 30 %",
    ):  # fmt: skip
        assert re.search(figure, words), figure
    assert not re.search(r"Aim: [<>]", words)
    for tile in (
        r"\d+ % relevant in contexts too few cases Aim: above 60 %", r"15 stored in 7 days",
        r"\d+ ms to build a context too few cases Aim: below 500 ms", r"– of memories used not known yet",
        r"0\.81 off in confidence; 0\.25 is guessing too few cases Aim: below 0\.25",
        r"\d+ tokens per context at most \d+",
    ):  # fmt: skip
        assert re.search(tile, words), tile
    assert words.index("stored in 7 days") < words.index("too few cases") < words.index("not known yet")
    assert "What to do" not in words
    assert "Health Nothing needs your attention. There is too little use yet to judge" in words


def test_what_waits_for_a_decision_needs_attention(memory: App) -> None:
    """U1.1: the first line counts it."""
    caller = memory.caller()
    said = memory.remember([NewRecord(text=f"Lane {n}: the skittles are put up by hand.") for n in range(4)], caller)
    memory.reviews.queue([("duplicates", [each.id for each in said], "They say the same.")], caller)
    words = words_of(asked(memory, show_health))
    assert "1 to settle waits" in words
    assert "What to do 1 group is waiting for a decision. Settle" in words
    assert "Health One thing needs your attention." in words


def test_topics_are_named(memory: App) -> None:
    """O4.2: nothing where there are none."""
    assert "Topics" not in words_of(asked(memory, show_health))
    memory.remember([NewRecord(text=f"Redis waits for Kafka on host {n}.") for n in range(4)], memory.caller())
    assert "Topics Kafka , Redis" in words_of(asked(memory, show_health))


def test_it_tells_which_store_searches_by_meaning(memory: App) -> None:
    """O4.1: in words, with the number from which Chroma takes over."""
    memory.remember([NewRecord(text="The bank is closed.")], memory.caller())
    assert "exact search over 1 vector; Chroma takes over from 20,000 in one scope" in words_of(
        asked(memory, show_health)
    )


def test_each_number_is_that_of_the_list_that_it_leads_to(memory: App) -> None:
    """U1.1: what is retired or wrong, the tasks above those worked on, and sessions without a log are told apart."""
    caller = memory.caller()
    stored = [memory.remember([NewRecord(text=f"Gate {n} is open.")], caller)[0].id for n in range(6)]
    memory.forget([stored[0]], "retire", caller)
    for wrong in stored[1:3]:
        memory.revise(Revision(id=wrong, feedback="wrong"), caller)
    memory.remember([NewRecord(text="Open the gate.", kind="message", role="user")], caller.in_session("told"))
    for goal in ("Open all gates", "Open gate 9"):
        memory.tasks.push(PushRequest(goal=goal), caller)
    memory.tasks.push(PushRequest(goal="Count the gates"), replace(caller, agent="bob"))
    page = asked(memory, show_health)
    links = {
        name: int(count)
        for count, name in re.findall(r'href="/ui/\?(?:kind|status)=\w+">(?:<svg.*?</svg>)?(\d+) (\w+?)s?<', page)
    }
    assert links == {"fact": 3, "message": 1, "retired": 1, "wrong": 2}
    for name, query in (("kind", "fact"), ("kind", "message"), ("status", "retired"), ("status", "inactive")):
        listed = asked(memory, show_memories, query={name: query}).count('class="text" href="/ui/record/')
        assert listed == links["wrong" if query == "inactive" else query]
    words = words_of(page)
    logs = asked(memory, show_sessions).count("data-item")
    assert logs == 1
    assert f"{logs} with a log ; 2 that stored a record" in words
    now = asked(memory, show_work).partition("<h2>Now</h2>")[2].partition("<h2>Tasks</h2>")[0].count("data-item")
    assert now == 2
    assert f"3 active ( {now} now worked on , the others above them)" in words
