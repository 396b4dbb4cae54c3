"""What clients were shown, as the owner of a file keeps it, and as servers that share a database do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Protocol

import numpy as np
import pytest

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.ports.shown import ShownContext, ShownContexts, ShownItem, ShownTexts
from mcp_memory.stores import own_shown
from mcp_memory.stores.own_shown import OwnShown

ANN = Caller(namespace="here", agent="ann", session_id="s1", named_session=True)
LATER, BOB = replace(ANN, session_id="s2"), replace(ANN, agent="bob")
REPORT = ContextReport(id="c000001", token_count=9, truncated=False, strategy="auto", components=(), omitted=())
ITEM = ShownItem(kind="fact", source="recall", section="Facts", share="rest", content=2**62 + 1)
SHOWN = ShownContext(
    report=REPORT, text="a block", items={"r000001": ITEM, "t000001": replace(ITEM, content=0, texts=("a", "b"))},
    tokens=9, asked="0f", vector=np.array([0.6, 0.8], np.float32), filters="1e", strategy="auto", revision=4,
)  # fmt: skip


class Everything(ShownTexts, ShownContexts, Protocol):
    """Both ports at once."""


Another = Callable[[], Everything]


@pytest.fixture(params=["own", "postgres"])
def another(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Another]:
    """Return the same store, as each server of the memory has it; it keeps three texts, and two contexts."""
    monkeypatch.setattr(own_shown, "KEPT", 3)
    monkeypatch.setattr(own_shown, "CONTEXTS_KEPT", 2)
    if request.param == "own":
        only = OwnShown(begun=lambda _: 4)
        yield lambda: only
        return
    if sys.platform == "win32":
        pytest.skip("No package brings PostgreSQL there")
    from mcp_memory.stores.records import shown
    from mcp_memory.stores.records.store_postgres import PostgresRecordStore
    from tests.postgres import new_database

    for name, value in (("TEXTS_KEPT", 4), ("CONTEXTS_KEPT", 1), ("PRUNING", 1.0)):
        monkeypatch.setattr(shown, name, value)
    moments = iter(range(1_000, 2_000))
    with closing(PostgresRecordStore(new_database(), "model", lambda: float(next(moments)))) as store:
        for number in (1, 2, 3):
            store.keep_context(replace(REPORT, id=f"c00000{number}"), ANN, 1_000.0)
        yield store.shown


def test_a_text_that_was_shown_is_known_to_its_agent(another: Another) -> None:
    """B11.1: in any session and of any server, with or without its label, however it is written."""
    another().note(ANN, [("r000001", "- [r000001 fact 2026-11-20] The port is 5432."), ("r000002", "Fine.")], 7)
    texts = ["the port is 5432", "Fine.", "unknown"]
    assert another().find(LATER, texts) == {"the port is 5432": "r000001", "Fine.": "r000002"}
    assert another().find(BOB, texts) == {}


def test_a_record_was_seen_by_a_session_at_the_latest_revision(another: Another) -> None:
    """N5.2: whatever was shown of it, and by whichever server."""
    another().note(ANN, [("r000001", "one"), ("r000001", "uno")], 7)
    another().see(ANN, ["r000001", "r000002"], 6)
    assert another().seen(ANN, ["r000001", "r000002", "r000003"]) == {"r000001": 7, "r000002": 6}
    assert another().seen(LATER, ["r000001"]) == {}


def test_what_was_shown_is_kept_within_bounds(another: Another) -> None:
    """B11.1: the oldest is forgotten first."""
    another().note(ANN, [("r000001", "one")], 7)
    for number in range(2, 7):
        another().note(ANN, [(f"r00000{number}", f"text {number}")], 3)
    assert another().find(ANN, ["one", "text 2", "text 6"]) == {"text 6": "r000006"}
    assert another().seen(ANN, ["r000001"]) == {}


def test_a_context_is_continued_in_its_session_by_any_server(another: Another) -> None:
    """C7.1: without its words where another server showed it; the oldest is forgotten first, and all on an erasure."""
    another().keep(SHOWN, ANN)
    found = another().shown("c000001", ANN)
    assert found is not None
    assert found.vector is not None
    assert found.vector.tolist() == pytest.approx([0.6, 0.8])
    assert replace(found, vector=None, text="a block") == replace(SHOWN, vector=None)
    assert another().shown("c000001", LATER) is None
    for number in (2, 3):
        another().keep(replace(SHOWN, report=replace(REPORT, id=f"c00000{number}"), vector=None), ANN)
    assert another().shown("c000001", ANN) is None
    assert (kept := another().shown("c000003", ANN)) is not None
    assert kept.vector is None
    another().forget()
    assert another().shown("c000003", ANN) is None
