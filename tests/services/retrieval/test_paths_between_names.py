"""Two things that a question names, tied by records of which none has both."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.requests import ContextRequest, RecallRequest
from mcp_memory.domain.retrieval.fusion import Background, Fused
from mcp_memory.errors import StoreUnavailable
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval import paths_between_names
from mcp_memory.services.retrieval.paths_between_names import is_name, with_tie
from mcp_memory.services.retrieval.recall import RecallAnswer
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.stores.graph.store import LinkGraphStore

RememberOne = Callable[..., Remembered]
QUESTION = "How is Acme Foods tied to the outage INC-7?"


def asked(app: App, query: str = QUESTION, **fields: Any) -> RecallAnswer:
    return app.recall(RecallRequest(query=query, **fields), app.caller())


def ids(answer: RecallAnswer) -> list[str]:
    return [str(each["id"]) for each in answer.results]


@pytest.fixture
def noise(app: App) -> None:
    """Records that are nearer to the question than the middle of the path."""
    for number in range(8):
        texts = (f"Acme Foods asked for invoice {number}.", f"The report of INC-7, part {number}, is late.")
        app.remember([NewRecord(text=text) for text in texts], app.caller())


@pytest.fixture
def chain(app: App, noise: None, remember: RememberOne) -> list[str]:
    """A path that was given, from Acme Foods by way of a service and a person to INC-7."""
    del noise
    uses = remember(
        "Their integration was done in spring.",
        entities=(Entity(name="Acme Foods"),),
        relations=(Relation(source="Acme Foods", type="uses", target="tide-api"),),
    )
    keeps = remember("Dana keeps it alive.", relations=(Relation(source="tide-api", type="kept by", target="Dana"),))
    had = remember(
        "Who had the pager that night.", relations=(Relation(source="Dana", type="handled", target="INC-7"),)
    )
    return [uses.id, keeps.id, had.id]


def line(chain: list[str]) -> str:
    return f"Acme Foods → {chain[0]} → tide-api → {chain[1]} → Dana → {chain[2]} → INC-7"


@pytest.mark.uncounted
def test_a_rare_name_that_was_given_once_ties_the_texts_that_have_it(
    app: App, noise: None, remember: RememberOne
) -> None:
    """O4.2: no rule finds "brae clock" in a text; part of another word it is not the name."""
    del noise
    remember("Acme Foods runs Copperline.", entities=(Entity(name="Acme Foods"), Entity(name="Copperline")))
    middle = remember("Copperline takes its time from the brae clock.", entities=(Entity(name="Copperline"),))
    last = remember("The leap second came with INC-7.", entities=(Entity(name="brae clock"), Entity(name="INC-7")))
    remember("The brae clockwork was sold by Acme Foods.")
    found = asked(app)
    assert found.tie.endswith(f"→ Copperline → {middle.id} → brae clock → {last.id} → INC-7")


def test_a_path_leads_through_what_is_true_now_and_few_names_are_looked_up(
    app: App, chain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """O4.2, N4.1: what has ended ties nothing, nor is a time asked for; a graph that fails leaves the results."""
    assert not asked(app, valid_at="2026-11-20").tie
    monkeypatch.setattr(paths_between_names, "LOOKED_UP", 0)
    assert asked(app).tie == line(chain)
    app.revise(Revision(id=chain[1], valid_until=app.searcher.instant("2026-11-19")), app.caller())
    assert not asked(app).tie

    def fails(*_: object) -> None:
        raise StoreUnavailable("graph: not now")

    monkeypatch.setattr(LinkGraphStore, "tie", fails)
    assert asked(app).results


def test_the_whole_path_is_among_the_results_and_said_in_a_line(app: App, chain: list[str]) -> None:
    """O4.2: behind the best, in recall and in a block, whatever their words."""
    found = asked(app)
    assert set(chain) <= set(ids(found))
    assert not set(chain) & set(ids(found)[:2])
    assert found.tie == line(chain)
    block = app.assemble_context(ContextRequest(query=QUESTION, max_tokens=1_000), app.caller()).text
    assert f"- Tied: {line(chain)}\n" in block
    assert all(f"[{each} " in block for each in chain)


@pytest.mark.uncounted
def test_names_count_in_lower_case_and_by_what_the_texts_say(app: App, noise: None, remember: RememberOne) -> None:
    """O4.2: nobody gave an entity; the words name nothing else."""
    del noise
    first = remember("Acme Foods moved to ledger-sync in May.").id
    second = remember("INC-7: ledger-sync dropped messages.", kind="episode").id
    found = asked(app, "what has acme foods to do with inc-7?")
    assert {first, second} <= set(ids(found))
    assert found.tie == f"Acme Foods → {first} → ledger-sync → {second} → INC-7"
    assert not asked(app, "what has acme foods to do with it?").tie
    assert not asked(app, "what is it, acme foods?", offset=1).tie


@pytest.mark.uncounted
def test_a_word_that_many_records_have_names_nothing(app: App, noise: None, remember: RememberOne) -> None:
    """O4.2: "site" is one, though a record mentions a Site."""
    del noise
    remember("Ask the Site about Dana.", entities=(Entity(name="Site"), Entity(name="Dana")))
    remember("Dana wrote to Acme Foods.")
    for number in range(9):
        remember(f"The site was slow on day {number}.")
    assert asked(app, "Is the Site slow for Acme Foods?").tie
    assert not asked(app, "is the site slow for acme foods?").tie
    assert is_name("acme", 0.5, Background(records=100, nats={"acme": 4.0}))
    assert not is_name("site", 0.9, Background(records=100, nats={"site": 1.0}))
    assert not is_name("gone", 0.9, Background(records=100))


@pytest.mark.uncounted
def test_what_is_filtered_out_or_hidden_is_no_part_of_a_path(
    app: App, open_memory: Callable[..., App], chain: list[str]
) -> None:
    """B1.4, S4.1: kinds, branches, private records, other projects; nor is what was believed earlier."""
    assert asked(app, kinds=("fact",)).tie
    unlike: Sequence[dict[str, Any]] = (
        {"kinds": ("decision",)},
        {"kinds": ("message",)},
        {"as_of": "2026-11-20T12:00:00Z"},
    )
    for fields in unlike:
        assert not asked(app, **fields).tie
    assert not asked(open_memory(namespace="elsewhere")).tie
    private = open_memory(namespace="own", agent="bob")
    for text, source, target in (("One.", "Acme Foods", "tide-api"), ("Two.", "tide-api", "INC-7")):
        relation = Relation(source=source, type="uses", target=target)
        private.remember(
            [NewRecord(text=f"{text} {QUESTION[:-1]}", relations=(relation,), visibility="private")], private.caller()
        )
    assert not asked(open_memory(namespace="own", agent="ann")).tie
    trial = app.caller("trial")
    app.tasks.push(PushRequest(goal="try", branch=True), trial)
    short = (
        Relation(source="Acme Foods", type="is", target="x-api"),
        Relation(source="x-api", type="broke", target="INC-7"),
    )
    app.remember([NewRecord(text=f"Trial {n}.", relations=(each,)) for n, each in enumerate(short)], trial)
    assert app.recall(RecallRequest(query=QUESTION), app.caller("elsewhere")).tie == line(chain)
    assert "x-api" in app.recall(RecallRequest(query=QUESTION), trial).tie


@pytest.mark.uncounted
def test_a_prompt_that_names_both_ties_them_to_nothing(app: App, chain: list[str], remember: RememberOne) -> None:
    """O4.2: a line of the log does not stand in the way of the path either."""
    remember(QUESTION, kind="message")
    assert asked(app).tie == line(chain)


def test_a_question_that_names_one_thing_loads_no_networkx(
    app: App, chain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """O4.2: its import takes a tenth of a second."""
    monkeypatch.setitem(sys.modules, "networkx", None)
    assert chain[0] in ids(asked(app, "When was the integration of Acme Foods done?"))
    with pytest.raises(ImportError):
        asked(app)


@pytest.mark.uncounted
def test_where_nothing_bears_on_a_question_no_path_is_shown(app: App, chain: list[str]) -> None:
    """C4.2: what is unknown stays unknown."""
    del chain
    found = asked(app, "Which colour of bicycle did Dana paint for grandmother on Acme Foods Saturday picnic weather?")
    assert bool(found.results) == bool(found.tie)


def test_the_records_of_a_path_stand_behind_the_best_as_strong_as_the_last_of_these() -> None:
    """O4.2: those among the best stay where they are, those below move up."""
    hits = [Fused(id=f"r{n}", score=0.9 - n / 10) for n in range(8)]
    found = with_tie(hits[:7], hits, ["r9", "r1", "r6", "r7"])
    assert [hit.id for hit in found] == ["r0", "r1", "r2", "r3", "r4", "r9", "r6", "r7", "r5"]
    assert [hit.score for hit in found[4:8]] == [hits[4].score] * 4
