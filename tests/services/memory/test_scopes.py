"""Nothing of another scope appears in any answer, whatever is asked."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import Conflict
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from mcp_memory.settings import load_settings

EMBEDDER = MiniLMEmbedder()
ANN = Caller(namespace="here", agent="ann", session_id="ann-session", inherited=("library",))
BOB = Caller(namespace="here", agent="bob", session_id="bob-session")
STRANGER = Caller(namespace="there", agent="ann", session_id="ann-elsewhere")
LIBRARIAN = Caller(namespace="library", agent="lib", session_id="lib-session")
TEXT = "The deployment of the payment service is done by {}"

kinds = st.sampled_from(["fact", "decision", "procedure", "censor", "identity", "event", "message"])
items = st.builds(
    NewRecord,
    text=st.just("set below"),
    kind=kinds,
    importance=st.floats(0, 10),
    pinned=st.booleans(),
    tags=st.sampled_from([(), ("deploy",)]),
    entities=st.sampled_from([(), (Entity(name="payment", type="service"),)]),
    relations=st.sampled_from([(), (Relation(source="payment", type="is", target="critical"),)]),
)


@contextmanager
def opened() -> Generator[App]:
    with tempfile.TemporaryDirectory() as folder:
        app = open_app(load_settings(data_dir=Path(folder), namespace="here", agent="ann"), embedder=EMBEDDER)
        yield app
        app.close()


def tell(app: App, item: NewRecord, who: str, caller: Caller, **fields: Any) -> str:
    made = replace(item, text=TEXT.format(who), **fields)
    return app.remember([made], caller)[0].id


def plant_foreign(app: App, item: NewRecord) -> dict[str, str]:
    """A record in every scope that ann must not see: what it says in a word of its own, to its id."""
    planted = {
        "strangerword": tell(app, item, "strangerword", STRANGER),
        "elsewhereword": tell(app, item, "elsewhereword", STRANGER, visibility="private"),
        "bobword": tell(app, item, "bobword", BOB, visibility="private"),
        "libraryword": tell(app, item, "libraryword", LIBRARIAN, visibility="private"),
    }
    app.tasks.push(PushRequest(goal="try something", branch=True), BOB)
    planted["branchword"] = tell(app, item, "branchword", BOB)
    planted["branchuserword"] = tell(app, item, "branchuserword", BOB, visibility="user")
    app.tasks.push(PushRequest(goal="secretgoal of the library", branch=True), LIBRARIAN)
    planted["librarybranchword"] = tell(app, item, "librarybranchword", LIBRARIAN)
    app.tasks.push(PushRequest(goal="secretgoal of another namespace"), STRANGER)
    return planted


@settings(max_examples=4, deadline=None)
@given(item=items)
def test_storing_what_is_known_elsewhere_reveals_nothing_and_stores_it_here(item: NewRecord) -> None:
    """S4.1, R1: the answer names no foreign record, and what was stored is found by who stored it."""
    with opened() as app:
        planted = plant_foreign(app, item)
        foreign = {i for word, i in planted.items() if not word.startswith("branch")}
        for word in planted:
            (answer,) = app.remember([replace(item, text=TEXT.format(word))], ANN)
            assert foreign.isdisjoint({answer.id, *answer.similar})
            shown = app.recall(RecallRequest(ids=(answer.id,), detail="full"), ANN).results
            assert [result["text"] for result in shown] == [TEXT.format(word)]
        (near,) = app.remember([replace(item, text=TEXT.format("branchuserword") + "!", visibility="user")], ANN)
        assert planted["branchuserword"] not in near.similar


def test_an_inherited_namespace_is_read_only_when_configured_and_never_written() -> None:
    """S4.1: inheriting is reading."""
    with opened() as app:
        known = tell(app, NewRecord(text=""), "the library", LIBRARIAN)
        assert app.recall(RecallRequest(query="deployment"), ANN).results[0]["id"] == known
        assert app.recall(RecallRequest(query="deployment"), replace(ANN, inherited=())).results == ()
        with pytest.raises(Conflict, match="only read here"):
            app.revise(Revision(id=known, importance=9.0), ANN)
        with pytest.raises(Conflict, match="only read here"):
            app.forget([known], "retire", ANN)
        with pytest.raises(Conflict, match="only read here"):
            app.remember([NewRecord(text="newer", supersedes=(known,))], ANN)
        assert "status" not in app.recall(RecallRequest(ids=(known,)), ANN).results[0]


def test_what_a_branch_hid_comes_to_light_when_it_ends() -> None:
    """S4.1: hidden while the branch is open, from everyone but who stands in it."""
    with opened() as app:
        branch = app.tasks.push(PushRequest(goal="try", branch=True), BOB).current
        assert branch is not None
        known = tell(app, NewRecord(text=""), "the branch", BOB)
        query = RecallRequest(query="deployment of payment")
        assert app.recall(query, ANN).results == ()
        assert app.recall(query, BOB).results[0]["id"] == known
        app.tasks.push(PushRequest(task_id=branch.id, takeover=True), ANN)
        assert app.recall(query, ANN).results[0]["id"] == known
        app.tasks.pop(PopRequest(result="it works"), ANN)
        assert app.recall(query, replace(ANN, agent="cleo")).results[0]["id"] == known


def test_a_preference_of_the_person_is_read_in_every_namespace() -> None:
    """S4.1: visibility `user`."""
    with opened() as app:
        known = tell(app, NewRecord(text=""), "Sunday", STRANGER, visibility="user")
        for caller in (ANN, BOB, LIBRARIAN):
            assert app.recall(RecallRequest(query="deployment"), caller).results[0]["id"] == known
