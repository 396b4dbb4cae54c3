"""What the page says of contexts is in words that a person understands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.contexts import Component
from mcp_memory.domain.model.records import Details, NewRecord
from mcp_memory.entrypoints.page.context_lines import quiet
from mcp_memory.entrypoints.page.contexts import show_context, show_contexts, show_what_would_be_given
from mcp_memory.entrypoints.page.record import show_record
from mcp_memory.entrypoints.page.wording import (
    line_in_words,
    reason_in_words,
    shortfall,
    signal_in_words,
    source_in_words,
    why_in_words,
)
from mcp_memory.entrypoints.page.work import show_task, show_work
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.context.fit_to_budget import UNLIKELY
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.entrypoints.page.conftest import asked, memory_of, words_of


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[App]:
    made = memory_of(tmp_path / "data")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ("below the relevance floor", "too far from the question"),
        ("says the same as r00001a", "says the same as r00001a, which scored higher"),
        ("superseded by r00001a", "replaced by r00001a"),
        ("no tool_results under this strategy", "this strategy leaves out every tool result"),
        ("of a later version", "of a later version"),
    ],
)
def test_a_reason_is_a_clause_that_a_person_understands(kept: str, shown: str) -> None:
    """U1.1: one that this version does not know is shown as it is kept."""
    assert reason_in_words(kept) == shown


@pytest.mark.parametrize(
    ("omitted", "shown"),
    [
        (("below the relevance floor", 0.374, 0.49), "relevance 0.37, at least 0.49 was needed"),
        (("below the relevance floor", 0.16, None), "relevance 0.16"),
        ((UNLIKELY, 0.12, 0.15), "12 % likely, 15 % was needed"),
        ((UNLIKELY, 0.12, None), "12 % likely"),
        (("no room in the budget", None, None), ""),
    ],
)
def test_what_it_lacked_is_said_in_figures(omitted: tuple[str, float | None, float | None], shown: str) -> None:
    """U1.1."""
    assert shortfall(*omitted) == shown


def test_every_signal_and_source_of_a_real_context_has_words(memory: App) -> None:
    """U1.1: none is left as the machine calls it; a person reads where a line came from."""
    caller = memory.caller()
    for number in range(12):
        memory.remember([NewRecord(text=f"The heron number {number} fishes at the weir {number}.")], caller)
    memory.remember([NewRecord(text="Herons are grey.", pinned=True)], caller)
    report = memory.assemble_context(ContextRequest(query="where do herons fish", max_tokens=300), caller).report
    signals = {name for each in report.components for name in each.parts}
    assert {"recency", "kind", "lifecycle"} & signals
    page = words_of(asked(memory, show_context, parts={"id": report.id}))
    for name in ("recency", "salience", "lifecycle", "cosine", "below the relevance floor"):
        assert name not in page
    assert "no room left in the budget" in page
    assert "found by the question" in page
    assert "as its" not in page
    assert signal_in_words("of_later") == "of later"
    assert source_in_words("elsewhere") == "from elsewhere"


def test_a_line_without_a_record_says_what_it_is(memory: App) -> None:
    """U1.1: in full where nobody was given the block, else what kind of line it was."""
    page = words_of(
        asked(memory, show_what_would_be_given, query={"goal": "what do we know of comets", "budget": "400"})
    )
    assert "note note" not in page
    assert re.search(r"Nothing is stored in the namespace shop yet\. note Why \S+ is here: \d+ tokens", page)
    context = memory.assemble_context(ContextRequest(query="what do we know of comets"), memory.caller()).report
    page = words_of(asked(memory, show_context, parts={"id": context.id}))
    assert "Nothing is stored in the namespace shop yet." in page
    [stored] = memory.remember([NewRecord(text="The comet returns.")], memory.caller())
    memory.forget([stored.id], "erase", memory.caller())
    page = words_of(asked(memory, show_context, parts={"id": context.id}))
    assert "That the memory holds nothing about this" in page
    assert "The text that the agent read went with something that was erased since" in page

    def said(component_id: str, kind: str, text: str = "") -> str:
        made = Component(source=kind, kind=kind, id=component_id, tokens=1, score=0.0, detail="full", text=text)
        return line_in_words(made)

    assert said("news:1", "note") == "What somebody else did to a task of this agent"
    assert said("news:1", "note", "- bob ended it") == "bob ended it"
    assert said("strategy:debugging", "strategy") == "How to go about it, by the strategy debugging"
    assert said("Additional Context", "text") == "What the caller added: Additional Context"
    assert said("of later", "note") == "note"


def test_why_a_group_waits_says_which_record_says_what() -> None:
    """U1.1: a person sees two cards, and no "here" and "there"."""
    why = 'The first may contradict: "30" there, "60" here'
    assert why_in_words(f"{why}.", ("r1", "r2")) == '"60" in the first, "30" in the second.'
    more = 'Olga lives_in Graz there, Vienna here; "not" is said of one; and more.'
    assert why_in_words(f"{why}; {more}", ("r1", "r2", "r3", "r4")) == (
        '"60" in r1, "30" in r2; Vienna in r1, Olga lives_in Graz in r3; "not" is said of one; and more.'
    )
    assert why_in_words("r000017 changed. Is the rest still right?") == "r000017 changed. Is the rest still right?"
    assert why_in_words("they say the same") == "They say the same"


def test_the_list_of_contexts_says_to_whom_each_was_given_and_what_it_is_about(memory: App) -> None:
    """U1.1: the task's goal, else what it shows first, else the strategy."""
    caller = memory.caller()
    memory.assemble_context(ContextRequest(query="comets", strategy="debugging"), caller)
    memory.remember([NewRecord(text="The comet returns in May.")], caller)
    memory.assemble_context(ContextRequest(query="when does the comet return", occasion="start"), caller)
    memory.tasks.push(PushRequest(goal="Watch the comet"), caller)
    memory.assemble_context(ContextRequest(query="the comet"), caller)
    page = words_of(asked(memory, show_contexts))
    for heading in (
        r"By the strategy debugging, today \d\d:\d\d .*? To ann, on request",
        r"The comet returns in May\., today \d\d:\d\d .*? To ann, at a session’s start",
        r"Watch the comet, today \d\d:\d\d .*? To ann, on request",
    ):
        assert re.search(heading, page), heading


def test_a_promotion_is_explained_beside_its_button(memory: App) -> None:
    """U1.1: where there is one."""
    [fact, rule] = memory.remember(
        [NewRecord(text="The comet has two tails."), NewRecord(text="Look up at night.", kind="procedure")],
        memory.caller(),
    )
    page = asked(memory, show_record, parts={"id": fact.id})
    assert '<span id="on-promote">Make it a core fact, which weighs more in contexts.</span>' in page
    assert ">Promote</button>" not in asked(memory, show_record, parts={"id": rule.id})


def test_a_change_of_a_record_is_told_as_what_it_came_to(memory: App) -> None:
    """U1.1: by the words of its fields; of an older page's first change only what was before is known."""
    caller = memory.caller()
    details: Details = {"pattern": ["rm -rf build"], "action": "warn"}
    [rule] = memory.remember([NewRecord(text="Keep the build.", kind="censor", details=details, tags=("a",))], caller)
    person = replace(caller, is_admin=True)
    for change in (
        Revision(id=rule.id, pinned=True),
        Revision(id=rule.id, pinned=False),
        Revision(id=rule.id, tags=("a", "b")),
        Revision(id=rule.id, details={"action": "block"}),
    ):
        memory.revise(change, person)
    [newer] = memory.remember([NewRecord(text="Keep all of the build.", kind="censor", supersedes=(rule.id,))], caller)
    said = words_of(asked(memory, show_record, parts={"id": rule.id})).partition("Versions")[2]
    told = (f"created → superseded by {newer.id}", "action warn → block", "tags a → a · b", "Unpinned", "Pinned")
    assert sorted(map(said.index, told)) == [*map(said.index, told)]
    middle = next(each.change for each in memory.inspect.versions(rule.id) if "details" in each.before)
    older = words_of(asked(memory, show_record, parts={"id": rule.id}, query={"before": str(middle)}))
    assert "tags were a" in older.partition("Versions")[2]


def test_open_work_is_counted_and_shown_alone(memory: App) -> None:
    """U1.1: a tree is there as long as something in it is open."""
    memory.tasks.push(PushRequest(goal="Polish the lens"), memory.caller())
    assert "No task is open." not in words_of(asked(memory, show_work, query={"open": "1"}))
    memory.tasks.pop(PopRequest(result="It shines."), memory.caller())
    memory.tasks.push(PushRequest(goal="Chart the moon"), memory.caller())
    page = words_of(asked(memory, show_work, query={"open": "1"}))
    assert "All 2 Open 1" in page
    assert "Chart the moon" in page
    assert "Polish the lens" not in page
    memory.tasks.pop(PopRequest(result="Done."), memory.caller())
    assert "No task is open." in words_of(asked(memory, show_work, query={"open": "1"}))


def test_a_task_whose_words_were_erased_says_so_and_none_of_them(memory: App) -> None:
    """S3.4, U1.1: the goal that repeats an erased message, and what a task with an erased result has left."""
    caller = memory.caller()
    words = "Carry the ledgers of Kestrel Street to the vault before Friday evening"
    [said] = memory.remember([NewRecord(kind="message", role="user", text=words)], caller)
    top = memory.tasks.push(PushRequest(goal=words, plan=("Call a van",)), caller).current
    failed = memory.tasks.push(PushRequest(goal="Carry them by hand"), caller).current
    assert top
    assert failed
    [kept] = memory.remember([NewRecord(text="The van is blue.")], caller)
    memory.assemble_context(ContextRequest(query="which colour is the van"), caller)
    memory.tasks.pop(PopRequest(result="Nobody lifts the ledgers.", status="failed"), caller)
    [result] = memory.inspect.arrivals(caller, ["result"], 9)
    memory.forget([said.id, result.id], "erase", caller)
    work = asked(memory, show_work)
    assert words_of(work).count("(its goal was erased)") == 3
    assert "What came of it (it was erased)" in words_of(work)
    pages = [work, asked(memory, show_contexts), asked(memory, show_record, parts={"id": kept.id})]
    pages += [asked(memory, show_task, parts={"id": each.id}) for each in (top, failed)]
    for page in pages:
        assert "(its goal was erased)" in page
        assert not re.search(r"ledgers|Kestrel|by hand|lifts|[\[(]erased", page)


def test_the_keys_are_told_of_where_there_are_any(memory: App) -> None:
    """U1.1: a script shows the line: without one no key does anything."""
    foot = (
        asked(memory, show_contexts)
        .partition('<footer class="foot" id="key-hint" hidden>')[2]
        .partition("</footer>")[0]
    )
    assert words_of(foot) == "? shows the keys, Ctrl K goes anywhere."


@pytest.mark.parametrize(
    ("line", "kind", "words", "part", "because", "asides"),
    [
        ("- [r00001a 11-03 by ann] The port is [80].", "fact", "The port is [80].", "", "", ()),
        ("- [r00001b 11-29] CSV. Because: Excel. (75 % sure) (until 2027-01-01)", "decision", "CSV.", "",
         "Excel. (until 2027-01-01)", ("75 % sure",)),
        ("- [r00001c 11-29] **WARN:** when payment — Ask Ines. Because: money", "censor", "Ask Ines.", "", "money",
         ("warns when payment",)),
        ("- [r00001c 11-29] **BLOCK:** Ask Ines.", "censor", "Ask Ines.", "", "", ("blocks",)),
        ("- [r00001d 11-29] We wait. Because: no key", "fact", "We wait. Because: no key", "", "", ()),
        ("- now [t00005g]: Ship it", "task", "Ship it", "now", "", ()),
        ("- dead end (failed) [t00005h by bob]: Dump it → slow", "task", "Dump it → slow", "dead end", "", ("by bob",)),
        ("- [t00001w open, ann since 10:12] Ship", "task", "Ship", "open", "", ("ann since 10:12",)),
        ("(its goal was erased)", "task", "(its goal was erased)", "", "", ()),
        ("Ada --[leads]--> Babbage", "relation", "Ada leads Babbage", "", "", ()),
        ("- no label", "event", "no label", "", "", ()),
    ],
)  # fmt: skip
def test_a_line_of_a_context_is_quiet_for_people(
    line: str, kind: str, words: str, part: str, because: str, asides: tuple[str, ...]
) -> None:
    """U1.1: what marks it for agents is left out, and what it says is kept."""
    told = quiet(line, kind)
    assert (told.words, told.part, told.because, tuple(told.asides)) == (words, part, because, asides)
