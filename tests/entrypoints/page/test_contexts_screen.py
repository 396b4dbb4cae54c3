"""What would be given is what an agent would get where it works, its parts add up, and blocks are found by agent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Task
from mcp_memory.entrypoints.page.contexts import ask_again, show_context, show_contexts, show_what_would_be_given
from mcp_memory.entrypoints.page.record import show_record
from mcp_memory.entrypoints.page.work import show_work
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.entrypoints.page.conftest import asked, memory_of, words_of


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[App]:
    opened = memory_of(tmp_path / "data")
    yield opened
    opened.close()


def working(memory: App) -> Caller:
    """The agent ann in a window of its own, which the page's process does not have."""
    return memory.caller().in_session("her-window")


def begun(memory: App, goal: str, caller: Caller) -> Task:
    task = memory.tasks.push(PushRequest(goal=goal), caller).current
    assert task
    return task


def given(memory: App, caller: Caller, query: str = "", max_tokens: int = 600) -> str:
    return memory.assemble_context(ContextRequest(query=query, max_tokens=max_tokens), caller).report.id


def block_of(page: str) -> str:
    return page.partition('<pre class="block"')[2].partition("</pre>")[0]


def test_the_block_is_that_of_the_task_that_work_says_the_agent_is_in(memory: App) -> None:
    """U1.1: the innermost, the latest of several; in none where that is chosen, or where nobody works; nobody moves."""
    ann = working(memory)
    memory.remember([NewRecord(text="Refunds move on Monday.")], ann)
    query = {"goal": "when do refunds move", "budget": "600"}
    assert "in no task." in words_of(asked(memory, show_what_would_be_given, query=query))
    begun(memory, "Repaint the office", memory.caller().in_session("another"))
    begun(memory, "Close the quarter", ann)
    inner = begun(memory, "Move the refunds", ann)
    callers = (ann, memory.caller())
    before = [memory.records.places(each) for each in callers], memory.tasks.tree(ann)
    assert "active ann just now" in words_of(asked(memory, show_work))
    for screen, more in ((show_contexts, {}), (show_what_would_be_given, query)):
        page = asked(memory, screen, query=more)
        assert f"ann is in: Move the refunds ({inner.id}).</p>" in page
    assert "Move the refunds" in block_of(page)
    assert "Close the quarter" in block_of(page)
    assert f"To ann, in the task {inner.id}" in words_of(page)
    context = given(memory, memory.caller(), query["goal"])
    again = asked(memory, ask_again, query=query, parts={"id": context})
    assert "Move the refunds" in block_of(again)
    page = asked(memory, show_what_would_be_given, query={**query, "task": "none"})
    assert '<option value="none" selected>' in page
    assert f"now [{inner.id}]" not in block_of(page)
    page = asked(memory, show_what_would_be_given, query={**query, "of": "bob"})
    assert "bob is in no task" in page
    assert f"now [{inner.id}]" not in block_of(page)
    assert ([memory.records.places(each) for each in callers], memory.tasks.tree(ann)) == before
    memory.tasks.pop(PopRequest(result="done", task_id=inner.id), ann)
    assert "ann is in: Close the quarter" in asked(memory, show_contexts)


def test_the_legend_of_a_budget_adds_up_to_its_tokens(memory: App) -> None:
    """U1.1: of a block that was given, and of one that would be, with its headings and its fence."""
    for n in range(60):
        text = f"Machine {n}: pump_{n}.flow=({n}, {7 * n}); valve “{n}” → closed…"
        memory.remember([NewRecord(text=text, kind=("fact", "episode", "message")[n % 3])], memory.caller())
    for strategy, budget in (("", 300), ("", 1_000), ("recent", 1_000), ("balanced", 2_000), ("debugging", 1_000)):
        asking = {"goal": "flow of the pump", "budget": str(budget), "strategy": strategy}
        context = memory.assemble_context(
            ContextRequest(query="flow of the pump", max_tokens=budget, strategy=strategy or None), memory.caller()
        )
        for page in (
            asked(memory, show_what_would_be_given, query=asking),
            asked(memory, show_context, parts={"id": context.report.id}),
        ):
            parts = re.findall(r"</svg>([^<]+) <span class=\"aside\">([\d,]+)</span></li>", page)
            [told] = re.findall(rf"<p>([\d,]+) of {budget:,} tokens", page)
            assert parts[-1][0] == "Headings and markup"
            assert sum(int(tokens.replace(",", "")) for _, tokens in parts) == int(told.replace(",", ""))


def test_the_budget_is_that_of_the_agents_latest_block(memory: App) -> None:
    """U1.1: a reminder has its own; of an agent that was given none it is what is set."""
    bob = replace(memory.caller(), agent="bob")
    memory.remember([NewRecord(text="The herring is salted.")], memory.caller())
    given(memory, bob, "herring", 1_234)
    memory.remind("is the herring salted", (), 300, bob)
    for of, budget in (("bob", "1234"), ("", str(memory.settings.max_tokens))):
        for screen in (show_contexts, show_what_would_be_given):
            page = asked(memory, screen, query={"of": of, "goal": "herring"})
            assert f'name="budget" inputmode="numeric" value="{budget}"' in page
    assert " of 1,234 tokens" in words_of(asked(memory, show_what_would_be_given, query={"of": "bob"}))
    large = given(memory, bob, "herring", 500_000)
    assert 'value="128000"' in asked(memory, show_what_would_be_given, query={"of": "bob"}), "as much as is assembled"
    assert 'value="128000"' in asked(memory, show_context, parts={"id": large}, query={"of": "bob"})


def test_a_block_says_at_its_top_that_its_question_is_not_kept(memory: App) -> None:
    memory.remember([NewRecord(text="The herring is salted.")], memory.caller())
    page = words_of(asked(memory, show_context, parts={"id": given(memory, memory.caller(), "herring")}))
    assert page.index("The question it answered is not kept.") < page.index("found by the question")
    assert re.search(r"of 600 tokens\. Strategy: [a-z]+ \(chosen automatically\)\.", page)


def test_where_no_question_was_asked_nothing_is_measured_by_one(memory: App) -> None:
    """U1.1: the goal of the task was searched by; the title is that of the list; the superseded are not edited."""
    caller = working(memory)
    texts = (
        "The herring is salted in May.",
        "Salt the herring before Easter.",
        *(f"Crane {n} is red." for n in range(9)),
    )
    first, *_ = memory.remember([NewRecord(text=each) for each in texts], caller)
    begun(memory, "When do we salt the herring", caller)
    context = given(memory, caller)
    memory.remember([NewRecord(text="The herring is salted in June.", supersedes=(first.id,))], caller)
    page = words_of(asked(memory, show_context, parts={"id": context}))
    title = re.search(r"When do we salt the herring, today \d\d:\d\d", words_of(asked(memory, show_contexts)))
    assert title
    assert title[0] in page
    assert "No question was asked." in page
    assert "question it answered" not in page
    assert "superseded after this" in page
    assert "edited after this" not in page
    assert "far from the question" not in page
    assert "found by the question" not in page
    assert "too far from the task’s goal" in page


def test_the_blocks_of_one_agent_are_listed_apart(memory: App) -> None:
    """U1.1: for the owner, who sees those of all."""
    ids = [given(memory, replace(memory.caller(), agent=each), f"herring for {each}", 400) for each in ("bob", "eve")]
    page = asked(memory, show_contexts)
    assert [f'/ui/context/{each}"' in page or f"/ui/context/{each}?" in page for each in ids] == [True, True]
    page = asked(memory, show_contexts, query={"of": "eve"})
    assert [f"/ui/context/{each}?of=" in page for each in ids] == [False, True]
    assert '<option value="eve" selected>' in page.partition('id="given-to"')[2].partition("</select>")[0]
    assert "gus was given no context" in words_of(asked(memory, show_contexts, query={"of": "gus"}))


def test_a_record_says_to_whom_and_in_which_task_it_was_given(memory: App) -> None:
    """U1.1: where there was no task, by which strategy; and where it is kept out."""
    [record] = memory.remember([NewRecord(text="The herring is salted.")], memory.caller())
    bob = replace(memory.caller(), agent="bob")
    given(memory, bob, "herring")
    begun(memory, "Open the fish stall", working(memory))
    given(memory, working(memory), "herring")
    memory.exclusions.exclude(record.id, bob, agent="bob")
    words = words_of(asked(memory, show_record, parts={"id": record.id}))
    looked = words.partition("Contexts that considered it")[2]
    assert re.search(r"Open the fish stall, today \d\d:\d\d Given in full To ann, on request", looked)
    assert re.search(
        r"To bob, on request, today \d\d:\d\d Given in full Strategy: [a-z]+ \(chosen automatically\)", looked
    )
    assert "Never given" not in words
    assert "Kept out These contexts do not give it any more; search still finds it. To the agent bob" in words
