"""With the filter taken out of every statement, no read tells what another scope holds: the database's walls stand.

What changes something stands beyond them (docs/decisions/0116), and so is asked with its filter in test_unleakable.
It takes long, as the other tests behind walls do (`pytest.mark.long`).
"""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.entrypoints.page.site import SCREENS
from mcp_memory.ports.walls import beyond
from tests.scopes.calls import OWN_WORDS, STRATEGIES, reads
from tests.scopes.planting import SECRETS, Found
from tests.scopes.test_page_unleakable import answer as page_of
from tests.scopes.test_page_unleakable import parts_of
from tests.scopes.test_unleakable import everything, own_ids
from tests.scopes.worlds import Pair, Who, World, asking
from tests.unfiltered import take_filter_out


@pytest.fixture
def world(who: Who, request: pytest.FixtureRequest) -> Iterator[World]:
    """The memory that holds what is foreign, without the filter."""
    if not who.has_walls:
        pytest.skip("A file has no second wall")
    pair: Pair = request.getfixturevalue("pair")
    found: Found = request.getfixturevalue("found")
    with pytest.MonkeyPatch.context() as patch:
        take_filter_out(patch)
        with beyond():
            assert found.records[0] in pair.full.app.records.get(found.records, pair.full.me.scopes), "it is gone"
        yield pair.full


@pytest.fixture
def foreign(world: World, found: Found) -> Sequence[str]:
    """What else may not be told: words, and ids. Colleagues share some of what they said."""
    shared = {row[0] for row in world.rows(f"SELECT id FROM records WHERE scope IN {world.me.scopes}")}
    return [*SECRETS, *(each for each in found.all if each not in shared)]


def check(asked: object, answer: str, foreign: Sequence[str]) -> str:
    """Return the answer, which holds nothing foreign that was not in the question."""
    told = [each for each in foreign if each in answer and each not in str(asked)]
    assert [answer[max(answer.index(each) - 200, 0) :][:300] for each in told] == [], asked
    return answer


def test_no_read_of_an_agent_needs_the_filter(world: World, found: Found, foreign: Sequence[str]) -> None:
    """M3.1: by word, by id, by tag, by entity, by session."""
    some = [*found.one_a_place, *found.tasks[::16], *found.contexts[::6], found.entries[0]]
    with asking(world) as asker:
        seen = "".join(check(each, asker.ask(each), foreign) for each in everything(some, STRATEGIES[::3]))
    assert [word for word in OWN_WORDS if f"with {word} by" not in seen] == []


def test_no_screen_needs_the_filter(world: World, found: Found, foreign: Sequence[str]) -> None:
    """M3.1, U1."""
    some = [*found.one_a_place[::2], found.tasks[0], found.contexts[0], found.entries[0], *own_ids(world)[:2]]
    seen = ""
    for screen in SCREENS:
        for parts in () if screen.changes else parts_of(screen, some):
            seen += check((screen.path, parts), page_of(world, screen, parts, {}), foreign)
    assert "with oak by" in seen


@settings(max_examples=3)
@given(data=st.data())
def test_no_reads_together_need_the_filter(
    world: World, found: Found, foreign: Sequence[str], data: st.DataObject
) -> None:
    """M3.1: any, one after another."""
    with asking(world) as asker:
        for each in data.draw(st.lists(reads(found, own_ids(world)), min_size=20, max_size=30, unique_by=str)):
            check(each, asker.ask(each), foreign)
