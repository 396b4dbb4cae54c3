"""What was true at a time, as it is known now; and as of a time before anything was stored."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.retrieval.recall import RecallRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
QUERY = "What does the berth at the north quay cost?"


def instant(app: App, day: str, *, end: bool = False) -> float:
    return app.searcher.instant(day, end=end)


def best(app: App, valid_at: str | None) -> str:
    found = app.recall(RecallRequest(query=QUERY, valid_at=valid_at), app.caller()).results
    return str(found[0]["text"])


@pytest.fixture
def prices(app: App, remember: RememberOne) -> tuple[str, str]:
    """Two prices, told today, each true for a time of its own."""
    for text, begin, end in (
        ("The berth at the north quay costs 40 euros.", "2024-01-01", "2024-12-31"),
        ("The berth at the north quay costs 55 euros.", "2025-01-01", "2027-12-31"),
    ):
        remember(text, valid_from=instant(app, begin), valid_until=instant(app, end, end=True))
    return "40 euros", "55 euros"


def test_what_was_true_then_comes_first(app: App, prices: tuple[str, str]) -> None:
    """N4.1: though it was stored today, and is past now."""
    old, new = prices
    assert old in best(app, "2024-06-01")
    assert new in best(app, "2026-06-01")
    assert new in best(app, None)


def test_a_block_tells_what_was_true_then(app: App, prices: tuple[str, str]) -> None:
    """N4.1: with little room only that."""
    old, new = prices
    request = ContextRequest(query=QUERY, max_tokens=4_000, valid_at="2024-06-01")
    text = app.assemble_context(request, app.caller()).text
    assert text.index(old) < text.index(new)
    text = app.assemble_context(ContextRequest(query=QUERY, max_tokens=4_000), app.caller()).text
    assert text.index(new) < text.index(old)


def test_what_was_replaced_may_have_been_true(app: App, remember: RememberOne) -> None:
    """N4.1: where its dates say so; its successor was not yet."""
    begin, end = instant(app, "2024-01-01"), instant(app, "2024-12-31", end=True)
    old = remember("The berth at the north quay costs 40 euros.", valid_from=begin, valid_until=end).id
    remember("The berth at the north quay costs 55 euros.", valid_from=end, supersedes=(old,))
    assert "40 euros" in best(app, "2024-06-01")
    assert "55 euros" in best(app, "2025-06-01")
    shown = ContextRequest(query=QUERY, max_tokens=4_000, valid_at="2024-06-01")
    assert "costs 40 euros" in app.assemble_context(shown, app.caller()).text
    undated = remember("The gate at the south quay opens at six.").id
    remember("The gate at the south quay opens at seven.", supersedes=(undated,))
    gate = ContextRequest(query="When does the gate at the south quay open?", valid_at="2024-06-01")
    assert f"[{undated}" not in app.assemble_context(gate, app.caller()).text


def test_an_identity_has_its_place_in_the_block_of_a_time_at_which_it_was_true(app: App, remember: RememberOne) -> None:
    """N4.1: among others it has to earn one."""
    end = instant(app, "2024-12-31", end=True)
    remember("You are the night shift's clerk.", kind="identity", valid_until=end)
    told = [
        app.assemble_context(ContextRequest(query="crane", valid_at=at), app.caller()).text
        for at in ("2024-06-01", None)
    ]
    assert ["clerk" in text for text in told] == [True, False]


def test_without_a_query_nothing_is_asked_of_a_time(app: App) -> None:
    """S3.1: a list is in the order of time, whatever was true."""
    with pytest.raises(InvalidRequest, match="valid_at needs a query"):
        app.recall(RecallRequest(valid_at="2024-06-01"), app.caller())


def test_before_anything_was_stored_the_block_says_so(app: App, remember: RememberOne, clock: "Clock") -> None:
    """N4.1: instead of that nothing bears on the question."""
    remember("The berth at the north quay costs 40 euros.")
    clock.advance(days=2)
    request = ContextRequest(query=QUERY, as_of="2020-01-01")
    assert "Nothing was stored yet on 2020-01-01" in app.assemble_context(request, app.caller()).text
    late = ContextRequest(query="Who plays the trombone in the band?", as_of="yesterday")
    assert "Nothing was stored yet" not in app.assemble_context(late, app.caller()).text
