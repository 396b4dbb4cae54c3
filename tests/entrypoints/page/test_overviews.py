"""What a person looks at: blocks that agents were given, the tree of tasks, and how well the memory serves."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.domain.model.tasks import MAX_DEPTH, Task
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.page.command_palette import show_commands
from mcp_memory.entrypoints.page.contexts import PAGE_CONTEXTS
from mcp_memory.entrypoints.page.health import show_health
from mcp_memory.entrypoints.page.work import PAGE_TREES, hand_over, show_task
from mcp_memory.errors import Conflict
from mcp_memory.locations import FAILURES_FILE, NOTES_FOLDER
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.entrypoints.http.conftest import connected, environment_of, text_of
from tests.entrypoints.page.conftest import NAMESPACE, Beside, Person, asked, memory_of, words_of
from tests.forked import ForkedProcess

DAY = 86_400.0


def stored(beside: Beside, text: str, **fields: Any) -> str:
    return beside.memory.remember([NewRecord(text=text, **fields)], beside.memory.caller())[0].id


def given(beside: Beside, query: str = "", **fields: Any) -> str:
    return beside.memory.assemble_context(ContextRequest(query=query, **fields), beside.memory.caller()).report.id


def begun(beside: Beside, goal: str, **fields: Any) -> Task:
    task = beside.memory.tasks.push(PushRequest(goal=goal, **fields), beside.memory.caller()).current
    assert task
    return task


def next_page(text: str) -> str:
    return text.partition('rel="next" href="/ui')[2].partition('"')[0].replace("&amp;", "&")


@contextmanager
def the_owner(beside: Beside) -> Generator[Person]:
    """Somebody who came in by the link of `mcp-memory ui`, as another agent than those who worked."""
    options = ("ui", "--no-browser", "--namespace", NAMESPACE, "--agent", "person")
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with ForkedProcess(*options, env=environment_of(beside.server.data_dir), **pipes) as process:
        try:
            assert process.stdout
            origin, _, path = process.stdout.readline().split()[-1].partition("/ui")
            owner = Person(origin)
            owner.get(path)
            yield owner
        finally:
            process.send_signal(signal.SIGINT)


def test_a_block_is_shown_line_by_line_with_why_each_is_there(beside: Beside) -> None:
    """U1.1: at what event and out of what budget, each line's words and signals, and what was left out and why."""
    fact = stored(beside, "The gateway of the canteen listens on port 4711.")
    censor = stored(beside, "Never restart the gateway at noon, the canteen is full then.", kind="censor")
    long = stored(beside, "The gateway " + "forwards orders of the canteen to the kitchen. " * 40)
    request = ContextRequest(query="port of the canteen gateway", max_tokens=230, occasion="start")
    context = beside.memory.assemble_context(request, beside.memory.caller("canteen")).report.id
    words = words_of(beside.person.get("/contexts"))
    assert re.search(r"The gateway .*?, today \d\d:\d\d .*? To ann, at a session’s start", words)
    assert "of 230 tokens" in words
    words = words_of(beside.person.get(f"/context/{context}"))
    assert re.search(r"The gateway .*?, today \d\d:\d\d .*? To \S+, at a session’s start", words)
    for part in (
        f"listens on port 4711. fact just now {fact} ", "Facts", f"guardrail warns just now {censor} ", "relevance",
        "free of 230 tokens", "Headings and markup", f"[{fact} ", "## Known Information", f"[{censor} ",
    ):  # fmt: skip
        assert part in words, part
    assert long in words.partition("Left out")[2] or f"[{long} " in words
    assert score_parts_of(words) == pytest.approx(1.0, abs=0.02)


async def test_a_context_is_copied_as_the_agent_read_it(beside: Beside) -> None:
    """U1.1: to the letter, with a task, a dead end, a guardrail and records."""
    rule = {"action": "block", "trigger": "running migrations", "reason": "It locked the orders."}
    async with connected(beside.server.url, namespace=NAMESPACE) as client:
        for name, told in (
            ("push_task", {"goal": "Let customers pay in three instalments"}),
            ("push_task", {"goal": "Build our own credit check"}),
            ("pop_task", {"result": "Needs a licence, which takes a year.", "status": "failed"}),
            ("push_task", {"goal": "Add the instalment option"}),
            ("remember", {"text": "Never run migrations by hand.", "kind": "censor", "details": rule}),
            ("remember", {"text": "Instalments need migrations of <orders> & “carts”.", "kind": "decision"}),
        ):
            assert not (await client.call_tool(name, told)).is_error
        answer = await client.call_tool("assemble_context", {"query": "migrations for instalments", "max_tokens": 500})
    read = text_of(answer)
    for part in ("goal [", "dead end (failed) [", "→ Needs a licence", "**BLOCK:**", "<orders> & “carts”"):
        assert part in read
    context = read.partition('id="')[2].partition('"')[0]
    page = beside.person.get(f"/context/{context}").text
    assert 'data-copies="as-read"' in page
    assert unescape(page.partition('id="as-read"')[2].partition(">")[2].partition("</pre>")[0]) == read
    words = words_of(page.partition('id="as-read"')[0].partition('class="lines"')[2])
    assert not re.search(r"\[[rt]0|- now|\*\*|BLOCK:", words), "what marks a line for agents"
    begins = re.compile(r"- [^\]]*\]:? (?:\*\*\w+:\*\* (?:when .*? — )?)?")
    lines = [begins.sub("", each).partition(" Because:")[0] for each in read.split("\n") if each[:2] == "- "]
    places = [words.index(" ".join(each.split())) for each in lines]
    assert places == sorted(places), "in their order"
    assert "dead end" in words
    assert "blocks when running migrations" in words


def score_parts_of(words: str) -> float:
    """The sum of all parts of the first score on a page, by the score that is told."""
    told = re.search(r"score ([\d.]+) ((?:\d* ?[a-z][a-z ]+ -?\d\.\d+ ?)+)", words)
    assert told, words
    return sum(map(float, re.findall(r"\d\.\d+", told[2]))) / float(told[1])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wrong", "The key of the wine cellar hangs by the stove."),
        ("pin", "Wednesday is the day of the cheese market."),
    ],
)
def test_a_line_is_changed_where_one_stands(beside: Beside, name: str, text: str) -> None:
    """U1.1: the same context is shown at the same line, with what was done and its undo."""
    record = stored(beside, text)
    context = given(beside, text, max_tokens=400)
    beside.person.get(f"/context/{context}")
    for action, target in ((f"/record/{record}/{name}", record), ("/undo", record)):
        answer = beside.person.send(action)
        assert answer.url.path == f"/ui/context/{context}"
        assert answer.url.fragment == target
        assert f'id="{target}"' in answer.text
    assert "Undone." in words_of(answer)
    assert beside.person.has_form(f"/record/{record}/pin")


def test_a_record_is_never_given_in_a_task_again(beside: Beside) -> None:
    """U1.1: until that is undone, or taken back on the record's page; the export is then what it was."""
    query = "how is the sauna heated"
    record = stored(beside, "The sauna is heated with birch.")
    task = begun(beside, "Heat the sauna")
    context = given(beside, query, max_tokens=400)
    before = beside.exported()

    def is_given() -> bool:
        report = beside.memory.assemble_context(ContextRequest(query=query), beside.memory.caller()).report
        return record in {each.id for each in report.components}

    beside.person.get(f"/context/{context}")
    answer = beside.person.send(f"/record/{record}/excluded")
    assert (answer.url.path, answer.url.fragment) == (f"/ui/context/{context}", record)
    assert not is_given()
    assert "Undone." in words_of(beside.person.send("/undo"))
    assert is_given()
    assert beside.exported() == before
    beside.person.get(f"/context/{context}")
    fields = beside.person.fields(f"/record/{record}/excluded")
    beside.person.send(f"/record/{record}/excluded")
    assert "Nothing was changed" in words_of(beside.person.post(f"/record/{record}/excluded", fields))
    assert "In the task Heat the sauna" in words_of(beside.person.get(f"/record/{record}"))
    beside.person.send(f"/record/{record}/included")
    assert is_given()
    assert beside.exported() == before
    beside.memory.tasks.pop(PopRequest(result="done", task_id=task.id), beside.memory.caller())


def test_a_line_that_is_kept_out_is_marked_and_taken_back_where_one_stands(beside: Beside) -> None:
    """U1.1: also where it is kept out of a task above the one that the block was given in."""
    query = "which wood does the steam bath burn"
    record = stored(beside, "The steam bath burns oak wood.")
    task = begun(beside, "Light the steam bath")
    context = given(beside, query, max_tokens=400)
    below = begun(beside, "Split the oak wood")
    inner = given(beside, query, max_tokens=400)

    def line_of(page: str) -> str:
        return page.partition(f' id="{record}"')[2].partition(" data-item")[0]

    line = line_of(beside.person.get(f"/context/{context}").text)
    assert "Keep out of this task" in line
    assert "search still finds it" in line
    line = line_of(beside.person.send(f"/record/{record}/excluded").text)
    assert "contexts here no longer give it" in line
    assert "Keep out of this task" not in line
    assert "out of this task’s contexts" in line
    line = line_of(beside.person.get(f"/context/{inner}").text)
    assert f"the task {task.id}, above this one" in line
    again = beside.person.get(f"/context/{inner}/again?goal=wood&budget=400").text
    assert "contexts here no longer give it" in line_of(again)
    beside.person.get(f"/context/{inner}")
    answer = beside.person.send(f"/record/{record}/included")
    assert (answer.url.path, answer.url.fragment) == (f"/ui/context/{inner}", record)
    assert "kept out" not in line_of(answer.text)
    for each in (below, task):
        beside.memory.tasks.pop(PopRequest(result="done", task_id=each.id), beside.memory.caller())


def test_where_there_was_no_task_the_agent_is_never_given_it_again(beside: Beside) -> None:
    """U1.1: a token decides for its own agent; who has the memory's files for all."""
    record = stored(beside, "The sundial is wrong in summer.")
    bob = replace(beside.memory.caller(), agent="bob")
    request = ContextRequest(query="is the sundial right")
    context = beside.memory.assemble_context(request, bob).report.id
    forged = {"csrf": beside.person.csrf, "agent": "bob"}
    assert beside.person.post(f"/record/{record}/excluded", forged).status_code == 400
    with the_owner(beside) as owner:
        owner.get(f"/context/{context}?of=bob")
        answer = owner.send(f"/record/{record}/excluded")
        assert answer.url.query.startswith(b"of=bob&")
        assert "To the agent bob" in words_of(owner.get(f"/record/{record}"))
    assert record not in {each.id for each in beside.memory.assemble_context(request, bob).report.components}
    assert record in {
        each.id for each in beside.memory.assemble_context(request, beside.memory.caller()).report.components
    }


def test_blocks_of_the_list_are_told_apart_without_their_questions(beside: Beside) -> None:
    """U1.1: by the task that they were given in, and what they show first."""
    record = stored(beside, "The regatta starts at the red buoy.")
    task = begun(beside, "Organise the regatta")
    context = given(beside, "where does the regatta start", max_tokens=400)
    beside.memory.tasks.pop(PopRequest(result="done", task_id=task.id), beside.memory.caller())
    listed = words_of(beside.person.get("/contexts")).partition(context)[0]
    assert re.search(r"Organise the regatta, today \d\d:\d\d ", listed)
    assert "The regatta starts at the red buoy." in words_of(beside.person.page)
    assert "where does the regatta start" not in beside.person.page.text
    beside.memory.forget([record], "erase", beside.memory.caller())
    assert "The regatta starts" not in words_of(beside.person.get("/contexts"))


def test_a_block_is_asked_for_again_as_of_another_moment(beside: Beside) -> None:
    """U1.1: what was believed then, in the words of then."""
    days_ago = time.time() - 3 * DAY
    earlier = memory_of(beside.server.data_dir, clock=lambda: days_ago)
    [record] = earlier.remember([NewRecord(text="The ferry to the island leaves at 08:10.")], earlier.caller())
    earlier.close()
    revision = Revision(id=record.id, text="The ferry to the island leaves at 09:40.")
    beside.memory.revise(revision, beside.memory.caller())
    context = given(beside, "ferry to the island", max_tokens=400)
    moment = quote(iso(days_ago + DAY))
    page = beside.person.get(f"/context/{context}/again?goal=ferry+to+the+island&budget=400&as_of={moment}")
    both = words_of(page).partition(" In both ")[2]
    assert "08:10" in both
    assert "09:40" not in both
    for wrong in ("as_of=wish", f"as_of={'x' * 300}"):
        assert beside.person.get(f"/context/{context}/again?goal=ferry&budget=400&{wrong}").status_code == 400


def test_what_would_be_given_is_that_agents_block_in_that_task(beside: Beside) -> None:
    """U1.1: the owner chooses among all agents; looking stores no context, and moves nobody."""
    query = "goal=where+is+the+ladder&budget=600"
    bob = replace(beside.memory.caller(), agent="bob")
    hidden, shared = "The ladder of bob is behind the barn.", "The ladder of all is in the barn."
    beside.memory.remember([NewRecord(text=hidden, visibility="private"), NewRecord(text=shared)], bob)
    task = begun(beside, "Repair the barn roof")
    beside.memory.tasks.pop(PopRequest(result="waits", status="blocked", task_id=task.id), beside.memory.caller())
    ended = begun(beside, "Paint the barn door")
    beside.memory.tasks.pop(PopRequest(result="red", task_id=ended.id), beside.memory.caller())

    def state() -> tuple[object, ...]:
        given = len(beside.memory.records.contexts(bob, 1_000, of_all=True))
        callers = (bob, beside.memory.caller(), replace(bob, agent="person"))
        return given, [beside.memory.records.places(each) for each in callers], beside.exported()

    before = state()
    with the_owner(beside) as owner:
        form = owner.get("/contexts").text.partition("What would be given now?")[2].partition("</form>")[0]
        for option, is_there in (("Repair the barn roof", True), ("Paint the barn door", False), ('value="bob"', True)):
            assert (option in form) == is_there, option
        page = owner.get(f"/contexts/would?{query}&of=bob&task={task.id}")
        words = words_of(page)
        assert f"To bob, in the task {task.id}" in words
        assert hidden in words
        assert f'<option value="{task.id}" selected>' in page.text
        assert "Repair the barn roof" in page.text.partition('<pre class="block"')[2].partition("</pre>")[0]
        words = words_of(owner.get(f"/contexts/would?{query}"))
        assert hidden not in words
        assert shared in words
        assert owner.get(f"/contexts/would?{query}&task=r000001").status_code == 404
    words = words_of(beside.person.get(f"/contexts/would?{query}&of=bob&task={task.id}"))
    assert f"To ann, in the task {task.id}" in words
    assert hidden not in words
    assert 'id="of"' not in beside.person.page.text
    assert state() == before


def test_the_owner_sees_the_blocks_of_all_agents_and_a_token_its_own(beside: Beside) -> None:
    """U1.1: to whom; and what another agent would be given now."""
    stored(beside, "The lighthouse was painted in May.")
    bob = replace(beside.memory.caller(), agent="bob")
    context = beside.memory.assemble_context(ContextRequest(query="when was the lighthouse painted"), bob).report.id
    assert context not in beside.person.get("/contexts").text
    assert beside.person.get(f"/context/{context}?of=bob").status_code == 404
    with the_owner(beside) as owner:
        listed = owner.get("/contexts").text
        assert f'href="/ui/context/{context}?of=bob"' in listed
        words = words_of(owner.get(f"/context/{context}?of=bob"))
        assert "To bob" in words
        assert "The lighthouse was painted in May." in words
        again = owner.get(f"/context/{context}/again?of=bob&goal=the+lighthouse&budget=500&strategy=")
        assert f'href="/ui/context/{context}?of=bob"' in again.text
        assert owner.get(f"/context/{context}").status_code == 404


def test_what_would_be_given_leaves_no_trace(beside: Beside) -> None:
    """U1.1: the block for a goal that a person types, and none of it is counted."""
    stored(beside, "Lobsters are blue before they are cooked.")
    before = beside.memory.records.contexts(beside.memory.caller(), 1)
    words = words_of(beside.person.get("/contexts/would?goal=colour+of+lobsters&budget=500&strategy="))
    assert "Lobsters are blue" in words
    assert "of 500 tokens" in words
    [used] = re.findall(r"([\d,]+) of 500 tokens", words)
    bar = beside.person.page.text.partition('<svg class="bar"')[2].partition("</svg>")[0]
    widths = [float(each) for each in re.findall(r'class="tone\d+" [^>]*? width="([\d.]+)"', bar)]
    assert sum(widths) == pytest.approx(int(used) / 5, abs=1), "what is left of the budget is free"
    assert beside.memory.records.contexts(beside.memory.caller(), 1) == before
    for wrong in ("budget=1", "strategy=wish", f"goal={'x' * 4_001}"):
        assert beside.person.get(f"/contexts/would?{wrong}").status_code == 400


def test_a_block_that_is_asked_for_again_is_compared(beside: Beside) -> None:
    """U1.1: what is new, what is no more, and what is in both."""
    kept, gone = stored(beside, "Walnuts ripen in autumn."), stored(beside, "Walnuts fall on the shed.")
    context = given(beside, "walnuts")
    beside.memory.forget([gone], "retire", beside.memory.caller())
    added = stored(beside, "Walnuts are stored in the attic.")
    page = words_of(beside.person.get(f"/context/{context}/again?goal=walnuts&budget=2000"))
    new, _, rest = page.partition(" Compare New ")[2].partition(" No more ")
    no_more, _, both = rest.partition(" In both ")
    assert f" {added} " in new
    assert f" {gone} " in no_more
    assert f" {kept} " in both


def test_blocks_are_paged(beside: Beside) -> None:
    """U1.1: each once, also where more are given meanwhile."""
    ids = [given(beside, f"page {number}", max_tokens=400) for number in range(PAGE_CONTEXTS + 4)]
    first = beside.person.get("/contexts").text
    given(beside, "meanwhile", max_tokens=400)
    second = beside.person.get(next_page(first)).text
    assert [first.count(f'/context/{each}"') + second.count(f'/context/{each}"') for each in ids] == [1] * len(ids)
    assert beside.person.get("/contexts?before=x").status_code == 400


@pytest.mark.parametrize("path", ["/context/c0", "/context/x000001", "/context/c%22%3E", "/task/t1", "/task/r000001"])
def test_an_id_that_is_none_is_not_repeated(beside: Beside, path: str) -> None:
    """U1.1: nothing of an address gets into a page."""
    answer = beside.person.get(path)
    assert answer.status_code == 404
    said = re.sub(r"[0-9a-f]{16,}", "", answer.text)  # Tokens of forms and digests of files hold any two digits.
    assert path.rpartition("/")[2] not in said


def test_the_tree_says_who_is_where_and_folds_what_led_nowhere(beside: Beside) -> None:
    """U1.1: results, dead ends, branches; and a task's records."""
    tasks, caller = beside.memory.tasks, beside.memory.caller()
    root = begun(beside, "Build the greenhouse", plan=("Glaze it",))
    begun(beside, "Try it in wood", branch=True)
    tried = tasks.pop(PopRequest(result="The wood warps.", status="failed"), caller).popped
    inner = begun(beside, "Pour the foundation")
    note = stored(beside, "The foundation needs 3 m³ of concrete.")
    page = beside.person.get("/work")
    words = words_of(page)
    assert words.index("Pour the foundation") < words.index("Tasks All")
    assert re.search(r"Pour the foundation active ann just now", words)
    assert "<summary>What came of it</summary>" in page.text
    assert "The wood warps." in words
    shown = words_of(beside.person.get(f"/task/{inner.id}"))
    assert "Build the greenhouse" in shown
    assert note in shown
    assert "branch" in words_of(beside.person.get(f"/task/{tried.id}"))
    tasks.pop(PopRequest(result="done", cascade=True, task_id=root.id), caller)


def test_a_person_ends_a_task_and_is_told_first_what_that_means(beside: Beside) -> None:
    """U1.1, N5.2: what was typed is kept, and the same form again goes through."""
    task = begun(beside, "Paint the fence", plan=("Sand it",))
    beside.person.get(f"/task/{task.id}")
    answer = beside.person.send(f"/task/{task.id}/ended", result="Green.", status="complete")
    assert answer.status_code == 409
    assert "unfinished subtask" in words_of(answer)
    for _ in range(2):  # Somebody is in it, which is told once.
        if answer.status_code == 409:
            answer = beside.person.send(f"/task/{task.id}/ended", cascade="1")
    assert "Green." in words_of(answer)
    ended = {each.id: each for each in beside.memory.tasks.tree(beside.memory.caller())}
    assert (ended[task.id].status, ended[task.id].result) == ("complete", "Green.")


@pytest.mark.parametrize("wrong", [{"status": "won"}, {"result": " "}, {"result": "x" * 20_001}])
def test_a_task_does_not_end_without_sense(beside: Beside, wrong: dict[str, str]) -> None:
    """U1.1."""
    task = begun(beside, "Look after the bees")
    beside.person.get(f"/task/{task.id}")
    assert beside.person.send(f"/task/{task.id}/ended", **{"result": "y", **wrong}).status_code == 400
    popped = beside.memory.tasks.pop(PopRequest(result="done", task_id=task.id), beside.memory.caller()).popped
    assert popped.status == "complete"


def test_trees_are_paged_and_the_deepest_is_shown(beside: Beside) -> None:
    """U1.1: the latest first, each once."""
    tasks, caller = beside.memory.tasks, beside.memory.caller().in_session("deep")
    goals = [f"Water tree {number}" for number in range(PAGE_TREES + 3)]
    for goal in goals:
        tasks.push(PushRequest(goal=goal), caller)
        tasks.pop(PopRequest(result="done"), caller)
    first = beside.person.get("/work").text
    second = beside.person.get(next_page(first)).text
    assert [first.count(f">{goal}<") + second.count(f">{goal}<") for goal in goals] == [1] * len(goals)
    assert beside.person.get("/work?before=x").status_code == 400
    for depth in range(MAX_DEPTH + 1):
        tasks.push(PushRequest(goal=f"Level {depth}."), caller)
    assert f"Level {MAX_DEPTH}." in words_of(beside.person.get("/work"))


def test_a_figure_off_its_aim_says_so_by_a_word_and_what_to_do(beside: Beside) -> None:
    """U1.1: first among the numbers, by a sign and a word, not by its colour alone."""
    stored(beside, "Cranes nest on the roof.")
    for _ in range(20):  # Of fewer nobody can tell.
        given(beside, "cranes", max_tokens=8_000)
    page = beside.person.get("/health")
    words = words_of(page)
    assert re.search(
        r" attention\. .*?\d+ % of the budget filled too low Aim: 50 % to 90 % .*? stored in 7 days", words
    )
    assert re.search(r"What to do .*?Contexts fill \d+ % .*? a smaller budget would cost agents less\. Look", words)
    assert re.search(r'<span class="state failed"><svg.*?</svg>too low', page.text)
    assert words.index("What to do") < words.index("What the numbers mean") < words.index("What it holds")


def test_health_counts_the_blocks_that_contexts_lists(beside: Beside) -> None:
    """U1.1: those of all agents for the owner, as whom nobody need have worked; those of its own agent for a token."""
    stored(beside, "Herons fish at the weir.")
    carl = replace(beside.memory.caller(), agent="carl")
    beside.memory.assemble_context(ContextRequest(query="herons"), carl)
    whose = Grant(agent="carl", person="carl", namespaces=(NAMESPACE,), right="read")
    assert "1 in 14 days to carl: 1 " in words_of(asked(beside.memory, show_health, grant=whose))
    with the_owner(beside) as owner:
        listed = len(beside.memory.records.contexts(carl, 1_000, of_all=True))
        words = words_of(owner.get("/health"))
        assert "of their budget on average" in words
        told = re.search(r"(\d+) in 14 days to all agents: ", words)
        assert told
        assert int(told[1]) >= listed > 1


def test_the_check_up_of_all_projects_is_for_the_owner_alone(beside: Beside) -> None:
    """U1.1, S4.1: it names records of every project."""
    fields = {"csrf": beside.person.csrf}
    beside.person.get("/health")
    assert not beside.person.has_form("/health/examined")
    assert beside.person.post("/health/examined", fields).status_code == 404
    with the_owner(beside) as owner:
        owner.get("/health")
        assert "Database : sound" in words_of(owner.send("/health/examined"))


def test_a_task_is_handed_over_and_unblocked(beside: Beside) -> None:
    """U1.1: with the checks and the news that agents have."""
    task = begun(beside, "Sharpen the skates")
    page = beside.person.get(f"/task/{task.id}")
    assert "Hand it over" in words_of(page)
    beside.memory.remember(
        [NewRecord(text="The skates hang by the door.")], replace(beside.memory.caller(), agent="bob")
    )
    page = beside.person.send(f"/task/{task.id}/handed", agent="bob")
    if page.status_code == 409:  # Its agent has another window: the form says so, and goes through as it is.
        assert "call again" not in words_of(page)
        assert "Hand it over anyway" in words_of(page)
        page = beside.person.send(f"/task/{task.id}/handed")
    assert "It waits for bob, who is told at the next move. Handed back, it waits for ann" in words_of(page)
    assert "planned bob planned" in words_of(page)
    assert beside.person.send(f"/task/{task.id}/handed", agent="bob").status_code == 400
    for wrong in ("", "a/b", "x" * 201, "a\nb"):
        page = beside.person.post(f"/task/{task.id}/handed", {"csrf": beside.person.csrf, "agent": wrong})
        assert "Name the agent" in words_of(page)
    beside.person.get(f"/task/{task.id}")
    beside.person.send(f"/task/{task.id}/ended", result="no grindstone", status="blocked")
    beside.person.get(f"/task/{task.id}")
    assert "It waits for bob again" in words_of(beside.person.page)
    page = beside.person.send(f"/task/{task.id}/handed")
    assert page.status_code == 200, words_of(page)
    assert {each.id: each.status for each in beside.memory.tasks.tree(beside.memory.caller())}[task.id] == "planned"


def test_a_task_tells_who_ended_reopened_and_handed_it_over(beside: Beside) -> None:
    """U1.1: latest first; on its line in the tree who ended it, where that is not its own agent."""
    memory, ann = beside.memory, beside.memory.caller()
    bob = replace(ann, agent="bob")
    alone, task = begun(beside, "Tune the harp"), begun(beside, "Restring the harp")

    def insisted(deed: Callable[..., object], *given: object) -> None:
        with suppress(Conflict):  # What others did, and who is in it, is told once.
            deed(*given)
            return
        deed(*given)

    def history(task_id: str) -> list[str]:
        part = beside.person.get(f"/task/{task_id}").text.partition("<h2>History</h2>")[2].partition("</ul>")[0]
        return [words_of(each) for each in part.split("</li>")[:-1]]

    def line() -> str:
        tree = beside.person.get("/work").text.partition("<h2>Tasks</h2>")[2]
        return words_of(tree.partition(f'/ui/task/{task.id}"')[2].partition("</p>")[0])

    insisted(memory.tasks.pop, PopRequest(result="It hums.", task_id=task.id), bob)
    ended = "ended by bob just now : complete"
    assert history(task.id) == [ended]
    assert "last changed just now by bob" in words_of(beside.person.page)
    assert "ann, ended by bob just now" in line()
    insisted(memory.waiting_tasks.reopen, task.id, ann)
    insisted(memory.waiting_tasks.hand_over, task.id, "cara", bob)
    assert history(task.id) == ["handed over to cara by bob just now", "reopened by ann just now", ended]
    assert "next for cara" in line()
    cara = replace(ann, agent="cara")
    memory.tasks.push(PushRequest(task_id=task.id), cara)
    memory.tasks.pop(PopRequest(result="It sings.", task_id=task.id), cara)
    assert history(task.id)[:3] == [
        ended.replace("bob", "cara"),
        "begun by cara just now",
        "handed over by bob just now",
    ]
    assert "ended by" not in line()
    memory.tasks.pop(PopRequest(result="tuned", task_id=alone.id), ann)
    assert history(alone.id) == [ended.replace("bob", "ann")], "its result tells it"


def test_a_notice_puts_nothing_back_that_somebody_has_moved_since(beside: Beside) -> None:
    """U1.1: the form says which state it takes back."""
    somebody, ann = beside.person, beside.memory.caller()
    bob = replace(ann, agent="bob")
    beside.memory.remember([NewRecord(text="Rosin is in the tin.")], bob)
    task = begun(beside, "Tar the hull")
    at = f"/task/{task.id}"
    somebody.get(at)
    if somebody.send(f"{at}/handed", agent="bob").status_code == 409:  # Somebody is in it, which is told once.
        somebody.send(f"{at}/handed")
    with suppress(Conflict):  # The first call is told what others did.
        beside.memory.waiting_tasks.hand_over(task.id, "cara", bob)
    beside.memory.waiting_tasks.hand_over(task.id, "cara", bob)
    assert "Somebody has moved this task since." in words_of(somebody.send(f"{at}/handed")), "by the notice's form"
    [now] = [each for each in beside.memory.tasks.tree(ann) if each.id == task.id]
    assert (now.status, now.agent) == ("planned", "cara")


def test_a_task_that_was_moved_is_put_back_from_the_notice(beside: Beside) -> None:
    """U1.1: Undo where it is then as it was; else the button says what it does. The address alone offers nothing."""
    somebody, ann = beside.person, beside.memory.caller()
    beside.memory.remember([NewRecord(text="Rosin is in the drawer.")], replace(ann, agent="bob"))
    task = begun(beside, "Haul the nets")
    at = f"/task/{task.id}"

    def now() -> tuple[str, str, str | None]:
        each = next(each for each in beside.memory.tasks.tree(ann) if each.id == task.id)
        return each.status, each.agent, each.result

    def sent(action: str, **fields: str) -> str:
        page = somebody.send(f"{at}/{action}", **fields)
        if page.status_code == 409:  # Somebody is in it, which is told once.
            page = somebody.send(f"{at}/{action}")
        return words_of(page).partition("Sign out")[2].partition("Haul the nets")[0]

    somebody.get(at)
    assert "It waits for bob, who is told at the next move. Handed back, it waits for ann" in sent(
        "handed", agent="bob"
    )
    assert "It waits for ann. Undo" in sent("handed"), "the first form is that of the notice"
    assert now() == ("planned", "ann", None)
    assert "It waits for bob, who is told at the next move. Undo" in sent("handed")
    sent("handed")
    sent("ended", result="no boat", status="blocked")
    assert "It waits for ann. Undo" in sent("handed")
    sent("ended")
    assert now() == ("blocked", "ann", "no boat")
    somebody.get(at)
    sent("ended", result="Three cod.", status="failed")
    assert "Reopened. It waits for ann. Undo" in sent("reopened")
    assert now() == ("planned", "ann", None)
    reopened = str(somebody.page.url.query, "ascii")
    sent("ended")
    assert now() == ("failed", "ann", "Three cod.")
    page = somebody.get(at)
    assert "Haul the nets → dead end (failed): Three cod." in words_of(page)
    sent("reopened")
    assert "Reopened. It waits for ann. To take that back, end it again." in words_of(somebody.get(f"{at}?{reopened}"))
    words = words_of(somebody.get(f"{at}?done=handed&earlier=bob"))
    assert "Handed over. " in words, "the latest change was another"
    sent("handed", agent="bob")
    page = somebody.get(f"{at}?done=handed&earlier=mallory")
    assert "It waits for bob" in words_of(page)
    assert "mallory" not in page.text


def test_a_task_lists_its_result_and_a_record_leads_to_its_task(beside: Beside) -> None:
    """U1.1: a session without a log is no link."""
    caller = beside.memory.caller().in_session("tide-1")
    root = begun(beside, "Build the tide mill")
    task = begun(beside, "Dam the creek", parent_id=root.id)
    note = beside.memory.remember([NewRecord(text="The creek is four metres wide.")], caller)[0].id
    beside.memory.tasks.pop(PopRequest(result="Dammed with clay.", task_id=task.id), beside.memory.caller())
    listed = beside.person.get(f"/task/{task.id}").text.partition("Its records")[2]
    result = re.search(r'href="/ui/record/(r\w+)"><b>Dam the creek</b> → Dammed with clay', listed)
    assert result, listed
    page = beside.person.get(f"/record/{result[1]}")
    assert f'<a href="/ui/task/{task.id}">Dam the creek</a>' in page.text.partition("Result of")[2]
    assert f'<a href="/ui/task/{root.id}">Build the tide mill</a>' in page.text.partition("Part of")[2]
    page = beside.person.get(f"/record/{note}")
    assert "tide-1" in words_of(page)
    assert "/ui/session/" not in page.text
    beside.memory.remember([NewRecord(text="How wide is it?", kind="message", role="user")], caller)
    assert 'href="/ui/session/tide-1"' in beside.person.get(f"/record/{note}").text
    beside.memory.tasks.pop(PopRequest(result="done", task_id=root.id), beside.memory.caller())


def test_a_task_that_ended_by_mistake_is_reopened(beside: Beside) -> None:
    """U1.1: what others did to it since one last changed is named first."""
    task = begun(beside, "Wax the sledge")
    beside.memory.tasks.pop(PopRequest(result="waxed", task_id=task.id), beside.memory.caller())
    assert "Reopen it" in words_of(beside.person.get(f"/task/{task.id}"))
    page = beside.person.send(f"/task/{task.id}/reopened")
    if page.status_code == 409:
        assert "Reopen it anyway" in words_of(page)
        page = beside.person.send(f"/task/{task.id}/reopened")
    words = words_of(page)
    assert "Reopened. It waits for ann. Undo" in words
    assert "waxed" not in words
    assert not beside.person.has_form(f"/task/{task.id}/reopened")
    assert beside.person.post(f"/task/{task.id}/reopened", {"csrf": beside.person.csrf}).status_code == 400


def test_a_task_is_handed_to_an_unknown_agent_only_by_a_button_of_its_own(tmp_path: Path) -> None:
    """U1.1: a typing error would let it wait for ever; agents that wrote or hold a token are suggested and known."""
    memory = memory_of(tmp_path / "data")
    task = memory.tasks.push(PushRequest(goal="Oil the hinges"), memory.caller()).path[0]
    memory.remember([NewRecord(text="The oil is green.")], replace(memory.caller(), agent="gustav"))
    memory.tokens.add("holger", Grant(agent="holger", person="", namespaces=(NAMESPACE,), right="write"))
    memory.tokens.add("away", Grant(agent="stranger", person="", namespaces=("toys",), right="write"))
    suggested = asked(memory, show_task, parts={"id": task.id}).partition("<datalist")[2].partition("</datalist>")[0]
    assert [name in suggested for name in ('"gustav"', '"holger"', '"stranger"')] == [True, True, False]

    def agent_now() -> str:
        return {each.id: each.agent for each in memory.tasks.tree(memory.caller())}[task.id]

    def handed(agent: str, **fields: str) -> str:
        return asked(memory, hand_over, parts={"id": task.id}, form={"agent": agent, **fields})

    for typed in ("gustaf", "stranger"):
        page = handed(typed)
        assert f"No agent &#39;{typed}&#39; has written here or holds a token." in page
        known, plain = re.findall(r"<form [^>]*/handed.*?</form>", page, re.DOTALL)
        assert f'name="unknown" value="{typed}"' in known
        assert f"Hand it over to {typed} anyway" in known
        assert 'name="unknown"' not in plain, "a corrected name is sent by the plain button"
        assert '<button class="main">Hand over</button>' in plain
        assert agent_now() == "ann"
    assert "No agent &#39;gustaf&#39;" in handed("gustaf", unknown="stranger")
    for name, fields in (("gustav", {}), ("holger", {}), ("gustaf", {"unknown": "gustaf"})):
        if agent_now() != name:
            page = handed(name, **fields)
            page = handed(name, **fields) if "anyway" in page else page
        assert agent_now() == name
    memory.close()


def test_the_page_of_commands_goes_where_it_is_told_without_a_script(beside: Beside) -> None:
    """U1.1."""
    [record_id] = [each.id for each in beside.memory.remember([NewRecord(text="A lock.")], beside.memory.caller())]
    page = beside.person.get("/go").text
    assert [each in page for each in (">Memories<", ">Health<", ">Pinned memories<")] == [True, True, True]
    goes = {
        record_id: f"/ui/record/{record_id}",
        "work": "/ui/work",
        "t00000k": "/ui/task/t00000k",
        "c0f4b6a5d1e": "/ui/context/c0f4b6a5d1e",
        "pinned memories": "/ui/?pinned=yes",
        "repress & co": "/ui/?q=repress+%26+co",
        "//elsewhere.example": "/ui/?q=%2F%2Felsewhere.example",
    }
    for wanted, place in goes.items():
        answer = beside.person.client.get("/ui/go", params={"to": wanted}, follow_redirects=False)
        assert answer.headers["location"] == place


def test_projects_are_commands_of_who_may_choose(beside: Beside) -> None:
    two = Grant(agent="eve", person="eve", namespaces=("shop", "toys"), right="read")
    page = asked(beside.memory, show_commands, grant=two)
    assert "Project toys" in page
    assert "Access" not in page
    assert "roject" not in words_of(asked(beside.memory, show_commands, grant=replace(two, namespaces=("shop",))))


def test_health_shows_growth_what_answers_cost_and_for_its_owner_hooks_that_failed(beside: Beside) -> None:
    """U1.1, S4.1: in words beside the drawing; failures are those of the whole machine."""
    stored(beside, "The scales are in the shed.")
    given(beside, "scales")
    page = beside.person.get("/health")
    assert "tokens on average, the largest" in words_of(page)
    assert "in the last seven days" in words_of(page)
    assert page.text.count('" width="8" height="') == 26
    failures = beside.server.data_dir / NOTES_FOLDER / FAILURES_FILE
    failures.parent.mkdir(exist_ok=True)
    failures.write_text(f"{time.time():.0f} Stop\n{time.time():.0f} Stop\n1 Stop\n", "utf-8")
    assert "Hooks that failed" not in words_of(beside.person.get("/health"))
    assert "Stop failed 2 times" in words_of(asked(beside.memory, show_health))
    failures.unlink()
    assert "Hooks that failed" not in asked(beside.memory, show_health)
