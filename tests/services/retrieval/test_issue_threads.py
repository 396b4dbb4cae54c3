"""Threads in an answer and in a block: the newest state of an issue, and what was reverted."""

from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Instant, Kind
from mcp_memory.domain.model.requests import ContextRequest, RecallRequest
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.errors import StoreUnavailable
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.retrieval.issue_threads import ThreadFinder, Threads
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.graph.store import LinkGraphStore

Remember = Callable[..., Remembered]
MARCH, JUNE, AUGUST = 1772323200.0, 1780272000.0, 1785542400.0
ISSUE = "CRANE-142: the release of the crane scheduler waits for "
OLD = "New encode_path_component functions\n\nSlashes in table names are encoded as U+002F."
REVERT = 'Revert "New encode_path_component functions"\n\nASGI has raw_path now.'


@pytest.fixture
def store(remember: Remember) -> Callable[[Instant, str], str]:
    """Store a text of a day, and return its id."""

    def stored(at: Instant, text: str, kind: Kind = "fact") -> str:
        return remember(text, occurred_at=at, kind=kind).id

    return stored


@pytest.fixture
def threads(app: App) -> Callable[..., Threads]:
    """Return the threads of these ids, best first, of which the first `bearing` bear on the query."""
    finder = ThreadFinder(LinkGraphStore(Follower(app.records)), app.records)

    def found(ids: Sequence[str], bearing: int = 9, past: Collection[str] = ()) -> Threads:
        hits = [Fused(id=each, score=0.5) for each in ids]
        return finder(hits[:bearing], hits, past, RecordFilter(scopes=app.caller().scopes))

    return found


def test_the_newest_state_of_an_issue_follows_the_best_record(
    store: Callable[[Instant, str], str], threads: Callable[..., Threads]
) -> None:
    """W5.2: in whatever order they were stored; each once; not what does not bear on the question, or is past."""
    newest = store(AUGUST, f"{ISSUE}a mended leak.")
    old, later = store(MARCH, f"{ISSUE}a certificate."), store(JUNE, f"{ISSUE}a leak.")
    assert threads([old, later, newest]) == Threads({old: newest})
    assert threads([newest, later, old]) == threads([later, old, newest], 2) == threads([]) == Threads()
    assert threads([old, later, newest], 2) == threads([old, later, newest], past=[newest]) == Threads({old: later})
    assert threads([later, newest, old]) == Threads({later: newest})


@pytest.mark.uncounted
@pytest.mark.parametrize(
    ("kind", "at", "text"),
    [("message", JUNE, f"{ISSUE}what?"), ("fact", MARCH, f"{ISSUE}a leak."), ("fact", JUNE, "PORT-7 uses max_rows")],
    ids=["a line of the log", "the same time", "another issue"],
)
def test_what_is_no_later_state_makes_no_thread(
    store: Callable[..., str], threads: Callable[..., Threads], kind: Kind, at: Instant, text: str
) -> None:
    """W5.2, W8.1: a shared identifier alone makes none."""
    assert threads([store(MARCH, f"{ISSUE}the setting max_rows."), store(at, text, kind)]) == Threads()


def test_what_was_replaced_or_erased_is_no_state(
    app: App,
    store: Callable[..., str],
    remember: Remember,
    threads: Callable[..., Threads],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """W5.2: nor is there any where the graph does not answer."""
    old, gone = store(MARCH, f"{ISSUE}a certificate."), store(JUNE, f"{ISSUE}a leak.")
    remember("The leak is mended.", supersedes=(gone,))
    assert threads([old, gone]) == Threads()

    def beside(_: LinkGraphStore, record_id: str, *__: object) -> Mapping[str, Sequence[str]]:
        return {"crane-142": [old if record_id == "r00zzzz" else "r00zzzz"]}

    monkeypatch.setattr(LinkGraphStore, "named_beside", beside)
    assert threads([old, "r00zzzz"]) == Threads()

    def fails(*_: object) -> None:
        raise StoreUnavailable("graph: not now")

    monkeypatch.setattr(LinkGraphStore, "named_beside", fails)
    assert threads([old, gone]) == Threads()


def test_what_reverts_a_record_needs_not_bear_on_the_question(
    store: Callable[..., str], threads: Callable[..., Threads]
) -> None:
    """W5.2: it quotes the title, and shares a name; it is no thread of its own."""
    old, other, revert = store(MARCH, OLD), store(JUNE, "encode_path_component is slow."), store(AUGUST, REVERT)
    assert threads([old, other, revert], 1) == threads([old, revert, other], 3) == Threads({}, {old: revert})


def test_an_answer_and_a_block_show_what_took_the_best_record_back(app: App, store: Callable[..., str]) -> None:
    """W5.2: before it; a question about a time is told what held then."""
    old, revert = store(MARCH, OLD), store(JUNE, REVERT)
    query, caller = "How are slashes in table names encoded?", app.caller()
    assert [each["id"] for each in app.recall(RecallRequest(query=query), caller).results][:2] == [revert, old]
    block = app.assemble_context(ContextRequest(query=query, max_tokens=300), caller).text
    assert 0 < block.index(revert) < block.index(old)
    then = app.recall(RecallRequest(query=f"{query} March 2026"), caller).results
    assert next(iter(then))["id"] == old


def test_a_block_shows_the_newest_state_first(app: App, store: Callable[..., str]) -> None:
    """W5.2: however much better the words of an older one fit the question."""
    old = store(MARCH, f"{ISSUE}the vendor's certificate, which keeps it from being installed.")
    new = store(JUNE, f"{ISSUE}nothing any more.")
    query = "Which certificate keeps the crane scheduler from being installed?"
    found = [each["id"] for each in app.recall(RecallRequest(query=query), app.caller()).results]
    block = app.assemble_context(ContextRequest(query=query, max_tokens=300), app.caller()).text
    assert sorted(map(str, found)) == sorted((old, new))
    assert 0 < block.index(new) < block.index(old)
