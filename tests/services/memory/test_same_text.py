"""The same text of two owners and in several scopes: all stay, whatever is done with the memory as a whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord, Visibility
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.ports.transfer import Origin, Piece
from mcp_memory.ports.walls import beyond, within
from tests.conftest import Clock

TEXT = "The gate of the depot is opened with the key 4711."
ANN = Caller(namespace="here", agent="ann", session_id="s", person="ann")
BOB = replace(ANN, agent="bob", person="bob")
PLACES: list[tuple[Caller, Visibility]] = [
    (ANN, "private"), (BOB, "private"), (ANN, "user"), (BOB, "user"), (ANN, "shared"),
    (replace(ANN, namespace="there"), "shared"), (replace(BOB, namespace="there"), "private"),
]  # fmt: skip
SCOPES = tuple(caller.scope(visibility) for caller, visibility in PLACES)


@pytest.fixture(params=["a file", "behind walls"])
def open_one(request: pytest.FixtureRequest, open_memory: Callable[..., App]) -> Callable[[], App]:
    """Opens a memory of its own, in either store."""

    def open_it() -> App:
        chosen: dict[str, str] = {}
        if request.param == "behind walls":
            if sys.platform == "win32":
                pytest.skip("No package brings PostgreSQL there")
            from tests.postgres import walled_database

            chosen = walled_database()
            del chosen["owner_url"]
        return open_memory(folder=None, **chosen)

    return open_it


@pytest.fixture(autouse=True)
def _as_whoever_has_the_memory() -> Iterator[None]:
    with beyond():
        yield


def stored(app: App) -> list[str]:
    """Where the text is stored and holds."""
    records = app.records.list(RecordFilter(scopes=SCOPES), "created", 100)
    return sorted(each.scope for each in records if each.text == TEXT)


def pieces(app: App) -> list[Piece]:
    return [piece for piece in app.moving.leave() if not isinstance(piece, Origin)]


@pytest.mark.uncounted
def test_it_stays_in_each_scope(open_one: Callable[[], App], clock: Clock) -> None:
    """M3.1: through storing, upkeep, review and importing, into an empty memory and into one that has it."""
    app = open_one()
    for caller, visibility in PLACES * 2:
        with within(caller.scopes):
            app.remember([NewRecord(text=TEXT, visibility=visibility)], caller)
    assert stored(app) == sorted(SCOPES)
    for _ in range(3):
        clock.advance(days=1)
        while app.keep_up():
            pass
    assert stored(app) == sorted(SCOPES)
    for caller in {caller for caller, _ in PLACES}:
        with within(caller.scopes):
            seen = set(app.records.get([*app.records.matching_ids(RecordFilter(scopes=SCOPES))], caller.scopes))
            assert len(seen) == sum(scope in caller.scopes for scope in SCOPES)
            for group in app.reviews.waiting(caller):
                assert seen.issuperset(group.review.record_ids)
    fresh, used = open_one(), open_one()
    assert fresh.moving.enter(pieces(app), lambda: "ann") is None
    assert stored(fresh) == sorted(SCOPES)
    with within(ANN.scopes):
        used.remember([NewRecord(text=TEXT, visibility="private")], ANN)
    merged = used.moving.enter(pieces(app), lambda: "ann")
    assert merged is not None
    assert (merged.stored, merged.known) == (len(SCOPES) - 1, 1)
    assert stored(used) == sorted(SCOPES)
