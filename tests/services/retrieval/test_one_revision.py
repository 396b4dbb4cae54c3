"""Every answer is of one revision, whatever is written while it is made."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Event
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.retrieval.keyword import KeywordSource
from mcp_memory.retrieval.vector import VectorSource
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.retrieval.search import Ranking, Searcher
from mcp_memory.stores.records import sql_files
from mcp_memory.stores.records.database_sqlite import SqliteDatabase
from tests.contract.conftest import BLANK

QUERY = "Which port does the database listen on?"
OLD, NEW = "The database listens on port 5432.", "The database listens on port 6543."
SECONDS = 60.0
"""For whoever waits for what has to come."""


def stored(app: App, text: str, **fields: Any) -> str:
    return app.remember([NewRecord(text=text, **fields)], app.caller())[0].id


def recalled(app: App) -> set[str]:
    return {str(each["id"]) for each in app.recall(RecallRequest(query=QUERY), app.caller()).results}


def assembled(app: App, **asked: Any) -> set[str]:
    request = ContextRequest(query=QUERY, max_tokens=2_000, **asked)
    return {each.id for each in app.assemble_context(request, app.caller()).report.components if each.id[0] == "r"}


@pytest.fixture
def other(app: App, open_memory: Callable[..., App]) -> App:
    """Another server over the same store."""
    return open_memory()


@pytest.mark.uncounted
def test_what_is_written_between_two_sources_of_a_recall_is_in_the_next(
    app: App, other: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: the words are searched before a change, the meaning after it, and the answer is as if there were none."""
    old = stored(app, OLD)
    assert recalled(app) == {old}
    changed: list[str] = []
    has_searched, has_changed = Event(), Event()

    def by_words(self: KeywordSource, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        found = search_words(self, query, where, limit)
        has_searched.set()
        return found

    def by_meaning(self: VectorSource, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        assert has_searched.wait(SECONDS)
        if not changed:
            changed.append(stored(other, NEW))
            other.forget([old], "erase", other.caller())
        has_changed.set()
        return search_meaning(self, query, where, limit)

    search_words, search_meaning = KeywordSource.search, VectorSource.search
    monkeypatch.setattr(KeywordSource, "search", by_words)
    monkeypatch.setattr(VectorSource, "search", by_meaning)
    (answer,) = app.recall(RecallRequest(query=QUERY, explain=True), app.caller()).results
    assert has_changed.is_set()
    assert (answer["id"], answer["text"]) == (old, OLD)
    assert recalled(app) == set(changed)


@pytest.mark.uncounted
def test_what_is_written_in_the_middle_of_a_context_is_in_the_next(
    app: App, other: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9, B4.1: what is searched, listed and opened by id, pinned and always there is of one moment."""
    before = {stored(app, OLD), stored(app, "I am the release bot.", kind="identity")}
    later: set[str] = set()

    def then_changed(self: Searcher, *given: Any, **named: Any) -> Ranking:
        ranking = rank(self, *given, **named)
        if not later:
            later.update((
                stored(other, NEW),
                stored(other, "I am the night watch.", kind="identity"),
                stored(other, "The database port is never opened to the world.", pinned=True),
            ))  # fmt: skip
            other.forget(sorted(before), "erase", other.caller())
        return ranking

    rank = Searcher.rank
    monkeypatch.setattr(Searcher, "rank", then_changed)
    assert assembled(app) == before
    assert assembled(app) == later


@dataclass
class Reads:
    """What connections that only read were asked, each statement."""

    statements: list[str] = field(default_factory=list[str])

    def count(self, sql: str) -> int:
        return sum(each.startswith(sql[:60]) for each in self.statements)

    def taken(self) -> tuple[int, list[int]]:
        """How often the revision was read, and by each index what changed, since the last look."""
        parts = ("vectors", "terms", "columns", "places")
        changes = [self.count(sql_files.statement(f"index_{part}")) for part in parts]
        counts = (self.count("SELECT value FROM sequence"), changes)
        self.statements.clear()
        return counts


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    seen = Reads()
    connect, read = SqliteDatabase._borrow, seen.statements.append  # noqa: SLF001

    def traced(self: SqliteDatabase) -> sqlite3.Connection:
        connection = connect(self)
        connection.set_trace_callback(read)
        return connection

    monkeypatch.setattr(SqliteDatabase, "_borrow", traced)
    return seen


@pytest.mark.uncounted
def test_a_request_reads_the_revision_once_and_changes_once(app: App, other: App, reads: Reads) -> None:
    """L2.3, R9: whatever the request, however many sources it asks, and not at all where nothing changed."""
    stored(app, OLD)
    app.caller()
    requests: list[Callable[[], object]] = [
        lambda: recalled(app),
        lambda: app.recall(RecallRequest(), app.caller()),
        lambda: assembled(app),
        lambda: app.remind(QUERY, (), 500, app.caller()),
        lambda: app.remember([NewRecord(text=f"{NEW} {next(numbers)}")], app.caller()),
    ]
    numbers = count()
    for request in requests:  # The first that needs an index loads it.
        request()
    for place, request in enumerate(requests):
        stored(other, f"Backup {next(numbers)} ran at night.")
        reads.taken()
        request()
        revisions, changes = reads.taken()
        assert (place, revisions, max(changes)) == (place, 1, 1)  # An index that is not asked stays where it is.
    for request in requests[:4]:
        recalled(app)
        reads.taken()
        request()
        assert reads.taken() == (1, [0] * 4)


def test_a_hook_that_feeds_reads_the_revision_once(app: App, reads: Reads) -> None:
    """B6.1: what was said and what is in the log are of one moment."""
    app.caller()
    reads.taken()
    app.feed([NewRecord(text="go on", kind="message", role="user")], app.caller())
    assert reads.taken() == (1, [0] * 4)
    app.checkpoints.draft(app.caller())
    assert reads.taken() == (1, [0] * 4)


@pytest.mark.uncounted
def test_no_answer_mixes_revisions_while_several_write(app: App, other: App, embedder: MiniLMEmbedder) -> None:
    """R9: two writers replace a pair of records again and again, each time at once; three agents ask meanwhile."""
    texts = ("The database listens on port", "The port of the database is")
    vectors = embedder.embed_many(texts)
    generations: dict[str, int] = {}
    number, present = count(), list[str]()
    is_over = Event()

    def write(memory: App) -> None:
        with memory.records.write() as transaction:
            generation, fresh = next(number), list[str]()
            transaction.erase(present)
            for text, vector in zip(texts, vectors, strict=True):
                record = made(transaction.next_id(RECORD), f"{text} {generation}.", memory)
                transaction.insert(record, vector, (), ())
                generations[record.id] = generation
                fresh.append(record.id)
            present[:] = fresh

    def keep_writing(memory: App) -> None:
        while not is_over.wait(0.005):
            write(memory)

    def asked_often(ask: Callable[[App], set[str]]) -> list[set[str]]:
        return [ask(app) for _ in range(8)]

    write(app)
    with ThreadPoolExecutor(5) as pool:
        writing = [pool.submit(keep_writing, memory) for memory in (app, other)]
        try:
            asking = [pool.submit(asked_often, ask) for ask in (recalled, assembled, recalled)]
            answers = [answer for each in asking for answer in each.result()]
        finally:
            is_over.set()
        for each in writing:
            each.result()
    for answer in answers:
        assert (len(answer), len({generations[record_id] for record_id in answer})) == (2, 1)
    assert len({generations[record_id] for answer in answers for record_id in answer}) > 1
    assert recalled(app) == recalled(other) == set(present)


def made(record_id: str, text: str, app: App) -> Record:
    scope = app.caller().scopes[0]
    return replace(
        BLANK, id=record_id, scope=scope, namespace="test", text=text, summary=text, micro=text, text_tokens=9,
        summary_tokens=9, micro_tokens=9,
    )  # fmt: skip


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A defect in one source, while another is still searching."""

    def broken(self: KeywordSource, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(KeywordSource, "search", broken)
        yield


def test_a_request_that_fails_lets_the_next_ones_go_on(app: App, other: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: its snapshot ends with it, and the indexes follow."""
    stored(app, OLD)
    with failing(monkeypatch), pytest.raises(ZeroDivisionError):
        recalled(app)
    new = stored(other, NEW)
    assert new in recalled(app)
