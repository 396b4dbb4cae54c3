"""How `auto` chooses: by the query's words and meaning, and by what is found where those leave it open."""

from collections.abc import Callable
from dataclasses import replace
from math import log

import pytest

from mcp_memory.app import App
from mcp_memory.domain.context.scoring import Candidate
from mcp_memory.domain.model.records import Kind, NewRecord, Record
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.context.choose_strategy import ChosenStrategy, StrategyChooser
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.strategies import overridden, read_strategies

RememberOne = Callable[..., Remembered]
CHOOSER = StrategyChooser(read_strategies(None), overridden)


def chosen(query: str = "the tide tables", name: str | None = None, **evidence: float) -> ChosenStrategy:
    """A choice by a query, with these chances of some strategies instead of its own."""
    choice = CHOOSER(name, query, None, {}, Stack(), 8_000)
    if not evidence:
        return choice
    logs = {each: log(chance) for each, chance in evidence.items()}
    best = max(evidence, key=lambda each: evidence[each])
    return replace(choice, strategy=choice.as_picked(best), told={"picked": best, "why": "words"}, evidence=logs)


@pytest.fixture
def found(app: App, remember: RememberOne) -> Callable[..., list[Candidate]]:
    """Candidates of these kinds, found by search, as relevant as is said."""

    def find(source: str = "recall", **relevances: float) -> list[Candidate]:
        ids = {remember(f"The {kind} of the tide.", kind=kind).id: value for kind, value in relevances.items()}
        records: dict[str, Record] = dict(app.records.get(ids, app.caller().scopes))
        return [Candidate(record=records[i], source=source, relevance=value) for i, value in ids.items()]

    return find


def test_what_is_found_decides_where_the_words_leave_it_open(found: Callable[..., list[Candidate]]) -> None:
    """F8.1: episodes support debugging, facts a question."""
    open_choice = chosen(question=0.31, debugging=0.3, coding=0.2, recent=0.19)
    assert CHOOSER.vote(open_choice, found(fact=1.0)) is open_choice
    voted = CHOOSER.vote(open_choice, found(episode=1.0, fact=0.1))
    assert voted.name == "debugging"
    assert voted.told["why"] == "its words leave it open, and what was found supports it (episode)"
    assert voted.strategy.priorities["episode"] == 1.0
    assert voted.strategy.name == "auto"


def test_where_the_words_are_sure_nothing_found_changes_the_choice(found: Callable[..., list[Candidate]]) -> None:
    """F8.1."""
    sure = chosen(question=0.6, debugging=0.4)
    assert CHOOSER.vote(sure, found(episode=1.0)) is sure


@pytest.mark.parametrize("name", ["decision", "auto"])
def test_a_named_strategy_and_a_turn_without_a_subject_are_not_voted_on(
    name: str, found: Callable[..., list[Candidate]]
) -> None:
    """F8.1, A6.1."""
    choice = chosen("and then?", name=name)
    assert CHOOSER.vote(choice, found(episode=1.0)) is choice


def test_only_what_search_found_has_a_vote(found: Callable[..., list[Candidate]]) -> None:
    """F8.1: what is pinned bears on any query."""
    open_choice = chosen(question=0.31, debugging=0.3, coding=0.39)
    assert CHOOSER.vote(open_choice, found(source="pinned", episode=1.0)) is open_choice
    assert CHOOSER.vote(open_choice, []) is open_choice


def test_a_strategy_that_gives_a_kind_no_priority_is_unlikely_but_possible(
    found: Callable[..., list[Candidate]],
) -> None:
    """F8.1."""
    strategies = dict(read_strategies(None))
    strategies["question"] = replace(strategies["question"], priorities={"episode": 0.0})
    chooser = StrategyChooser(strategies, overridden)
    assert chooser.vote(chosen(question=0.45, coding=0.2, research=0.35), found(episode=1.0)).name == "research"


def test_the_block_holds_everything_whatever_was_voted(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """F8.1: `auto` weighs and removes nothing; the report says what decided."""
    kinds: tuple[Kind, ...] = ("episode", "episode", "decision", "fact")
    failed = [NewRecord(text=f"Tide gauge {n} failed at night.", kind=kind) for n, kind in enumerate(kinds)]
    ids = {each.id for each in app.remember(failed, app.caller(), advise=False)}
    request = ContextRequest(query="tide gauge at night")
    plain = app.assemble_context(request, app.caller())

    def votes(_: StrategyChooser, choice: ChosenStrategy, found: list[Candidate]) -> ChosenStrategy:
        assert {each.record.id for each in found} == ids
        return replace(choice, strategy=choice.as_picked("support"), told={"picked": "support", "why": "found"})

    monkeypatch.setattr(StrategyChooser, "vote", votes)
    voted = app.assemble_context(replace(request, max_tokens=8_000), app.caller())
    assert voted.report.metadata["picked"] == "support"
    assert {c.id for c in plain.report.components} == {c.id for c in voted.report.components} == ids
