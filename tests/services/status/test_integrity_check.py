"""The check-up: what is derived is compared with the truth, and repaired without changing it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord
from mcp_memory.domain.text.words import packed_terms
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import StoreUnavailable, TextRefused
from mcp_memory.ports.indexes import Finding
from mcp_memory.ports.text import Vectors
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.status import integrity_check
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.stores.records import FILE_NAME
from tests.index_rows import terms_of

RememberOne = Callable[..., Remembered]


class Away:
    """The built-in embedder, which can be away, refuses poison, and tells what it has embedded."""

    def __init__(self, inner: MiniLMEmbedder) -> None:
        self._inner = inner
        self.is_away = False
        self.embedded: list[str] = []
        self.id, self.dimensions, self.embed_query = inner.id, inner.dimensions, inner.embed_query
        self.share_known = inner.share_known

    def embed(self, text: str) -> Vectors:
        return self.embed_many([text])[0]

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        if self.is_away:
            raise StoreUnavailable("The embedder is away.")
        if any("poison" in text for text in texts):
            raise TextRefused("The embedder refused the text.")
        self.embedded += texts
        return self._inner.embed_many(texts)


@pytest.fixture
def embedder(embedder: MiniLMEmbedder) -> Away:
    return Away(embedder)


def execute(app: App, *statements: str) -> None:
    """Change the database behind its back."""
    with closing(sqlite3.connect(app.settings.data_dir / "memory.db", isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def examine(app: App, *, repair: bool = False) -> dict[str, Finding]:
    """The findings by part; of several the last."""
    return {finding.part: finding for finding in app.examine(repair=repair)}


def wrong(app: App) -> list[str]:
    return [f"{each.part}: {each.says}" for each in app.examine(repair=False) if each.state == "wrong"]


def found(app: App, query: str) -> list[object]:
    return [result["id"] for result in app.recall(RecallRequest(query=query), app.caller()).results]


def test_a_sound_memory_has_nothing_to_repair(app: App, remember: RememberOne) -> None:
    """S2.2: each part says how it stands; an empty memory too, and nothing is written by looking."""
    assert {finding.state for finding in app.examine(repair=True)} == {"ok"}
    old = remember("The port is 5432.", entities=(Entity(name="Postgres"),))
    remember("The port is 6543.", supersedes=(old.id,))
    app.tasks.push(PushRequest(goal="ship", plan=("test",)), app.caller())
    revision = app.records.revision()
    findings = list(app.examine(repair=True))
    assert [each.part for each in findings] == ["database", "keywords", "vectors", "graph", "index"]
    assert f"at change {revision}, in SQLite 3." in findings[0].says
    assert {each.state for each in findings} == {"ok"}
    assert "2 records (1 mention) and 2 tasks" in findings[3].says
    assert app.records.revision() == revision


def test_missing_and_foreign_terms_are_written_from_the_texts(
    app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: whoever has read the wrong ones hears of it; other records are left alone."""
    monkeypatch.setattr(integrity_check, "TERMS_BATCH", 1)
    missing, foreign, sound = (remember(text) for text in ("Zyx grows.", "Wvu shrinks.", "Tsr rests."))
    execute(
        app,
        f"DELETE FROM terms WHERE row = (SELECT row FROM records WHERE id = '{missing.id}')",
        f"UPDATE terms SET terms = x'{packed_terms('else').hex()}'"
        f" WHERE row = (SELECT row FROM records WHERE id = '{foreign.id}')",
    )
    assert terms_of(app.records) == {
        missing.id: None,
        foreign.id: packed_terms("else"),
        sound.id: packed_terms("Tsr rests."),
    }
    revision = app.records.revision()
    assert wrong(app) == ["keywords: 2 records cannot be found by all their words"]
    assert app.records.revision() == revision
    assert examine(app, repair=True)["keywords"] == Finding(
        part="keywords", state="repaired", says="the words of 2 records were written"
    )
    assert terms_of(app.records, revision) == {
        missing.id: packed_terms("Zyx grows."),
        foreign.id: packed_terms("Wvu shrinks."),
    }
    assert wrong(app) == []


def test_what_waits_for_its_vectors_is_embedded(app: App, embedder: Away, remember: RememberOne) -> None:
    """S2.2: and nothing else is; while the embedder is away the finding says so."""
    remember("The cat sleeps.")
    embedder.is_away = True
    waiting = remember("The dog barks.")
    embedder.embedded.clear()
    told = examine(app)["vectors"]
    assert (told.state, told.says) == ("ok", "1 record waits to be embedded")
    assert told.remedy.startswith("A server embeds them, or `mcp-memory reindex`")
    assert examine(app, repair=True)["vectors"] == Finding(part="vectors", state="wrong", says="The embedder is away.")
    embedder.is_away = False
    assert wrong(app) == []
    assert embedder.embedded == []
    assert examine(app, repair=True)["vectors"].says == "1 record embedded"
    assert embedder.embedded == ["The dog barks."]
    assert found(app, "hound")[0] == waiting.id


def test_what_the_embedder_refuses_is_told_and_nothing_is_asked_of_the_reader(
    app: App, embedder: Away, remember: RememberOne
) -> None:
    """S2.2: it is counted beside what was embedded, and alone; no remedy is named, since there is none."""
    embedder.is_away = True
    for text in ("a poison", "The dog barks."):
        remember(text)
    embedder.is_away = False
    assert examine(app)["vectors"].says == "2 records wait to be embedded"
    refused = "; 1 record whose text it refuses can be found by words alone"
    repaired = Finding(part="vectors", state="repaired", says=f"1 record embedded{refused}")
    assert examine(app, repair=True)["vectors"] == repaired
    whole = Finding(part="vectors", state="ok", says=f"every record has its own, by {embedder.id}{refused}")
    assert examine(app)["vectors"] == whole
    remember("more poison")
    assert examine(app)["vectors"].says == "1 record waits to be embedded"
    assert examine(app, repair=True)["vectors"].says.endswith(
        "; 2 records whose text it refuses can be found by words alone"
    )


def test_vectors_that_were_lost_are_reindexes_to_make(app: App, remember: RememberOne) -> None:
    """S2.2: nobody knows of them; the remedy is named, and it is one."""
    remember("The cat sleeps.")
    execute(app, "DELETE FROM vectors")
    assert wrong(app) == ["vectors: 1 record has none"]
    assert "reindex" in examine(app, repair=True)["vectors"].remedy
    app.reindex(app.reindex.waiting(), lambda done, total: None)
    assert wrong(app) == []


def test_vectors_of_another_embedder_are_compared_with_nothing(app: App, remember: RememberOne) -> None:
    """S2.2: the index is not called wrong for it, and nothing is embedded."""
    remember("The cat sleeps.")
    execute(app, "UPDATE meta SET value = 'another' WHERE name = 'embedder'", "UPDATE vectors SET embedder = 'another'")
    findings = examine(app, repair=True)
    assert "index" not in findings
    assert findings["vectors"].state == "wrong"
    assert findings["vectors"].says.startswith("made by another, but ")
    assert "mcp-memory reindex" in findings["vectors"].remedy


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE records SET superseded_by = 'r99' WHERE id = '{0}'", "1 ({0}) replaced by what is not there"),
        ("UPDATE records SET superseded_by = '{0}'", "4 ({0}, {1}, {2}, …) replaced in a circle"),
        ("UPDATE records SET task_id = 't99' WHERE id = '{1}'", "1 ({1}) part of a task that is not there"),
        ("UPDATE records SET branch_id = 't99' WHERE id = '{1}'", "1 ({1}) part of a task that is not there"),
        ("UPDATE tasks SET parent_id = '{top}'", "2 ({top}, {sub}) part of themselves"),
        ("UPDATE tasks SET namespace = 'x' WHERE id = '{top}'", "1 ({sub}) part of another project's task"),
    ],
)
def test_links_that_lead_nowhere_show_and_are_left_as_they_are(
    app: App, remember: RememberOne, statement: str, says: str
) -> None:
    """R7: they are the truth's, which is repaired by nobody but who wrote it; erased records are no loss."""
    ids = [remember(f"Note {number}.").id for number in range(4)]
    top = app.tasks.push(PushRequest(goal="ship", plan=("test",)), app.caller())
    tasks = {"top": top.path[0].id, "sub": top.children[0].id}
    app.forget([remember("Gone.").id], "erase", app.caller())
    assert wrong(app) == []
    execute(app, statement.format(*ids, **tasks))
    for repair in (False, True):
        finding = examine(app, repair=repair)["graph"]
        assert (finding.state, finding.says) == ("wrong", says.format(*ids, **tasks))
        assert "restore" in finding.remedy


def test_a_way_that_leads_on_and_ends_is_no_circle(app: App, remember: RememberOne) -> None:
    """R8: whichever of a chain is looked at first."""
    first, second, third, fourth = (remember(f"Note {number}.").id for number in range(4))
    for old, new in ((second, third), (first, second), (third, fourth)):
        execute(app, f"UPDATE records SET superseded_by = '{new}' WHERE id = '{old}'")
    assert wrong(app) == []


def test_nothing_is_repaired_from_a_truth_in_doubt(app: App, remember: RememberOne) -> None:
    """S2.3: the finding names the remedy."""
    record = remember("The cat sleeps.")
    execute(app, "DELETE FROM terms", "INSERT INTO versions VALUES ('r99', 1, 1, 0, '', '', '', '', '{}', 0)")
    [finding] = app.examine(repair=True)
    assert (finding.part, finding.says) == ("database", "dangling references: 1")
    assert "mcp-memory restore" in finding.remedy
    assert app.records.stale_terms() == [record.id]


def test_a_damaged_file_is_a_finding(app: App, open_memory: Callable[..., App]) -> None:
    """S2.3: found by reading all of it, though it opens."""
    said = [NewRecord(kind="message", role="user", text=f"Note {number}. " * 200) for number in range(100)]
    app.feed(said, app.caller())
    app.close()
    file = app.settings.data_dir / "memory.db"
    content = bytearray(file.read_bytes())
    page = 4096
    start = len(content) // 2 // page * page
    content[start : start + 8 * page] = b"\xff" * 8 * page
    file.write_bytes(content)
    findings = list(open_memory().examine(repair=True))
    assert {(each.part, each.state) for each in findings} == {("database", "wrong")}


def test_entities_that_nobody_mentions_are_dropped_when_asked_to(app: App, remember: RememberOne) -> None:
    """S2.2: what is mentioned stays."""
    remember("Anna keeps the ports.", entities=(Entity(name="Anna", type="person"),))
    execute(app, "INSERT INTO entities (change, scope, name, name_key, type) VALUES (1, 'shared/test', 'X', 'x', 'y')")
    assert wrong(app) == ["graph: entities that no record mentions: 1"]
    findings = [finding for finding in app.examine(repair=True) if finding.part == "graph"]
    assert [finding.state for finding in findings] == ["repaired", "ok"]
    assert wrong(app) == []
    assert app.records.summarize(app.caller(), frozenset()).records == {"fact": 1}


@pytest.mark.uncounted
def test_words_that_an_earlier_version_derived_are_renewed_step_by_step(app: App, remember: RememberOne) -> None:
    """F6.2: each step looks at a few records, and once all are done at none."""
    events = [remember(f"Ran {n}.", kind="event", details={"command": f"walrus {n}"}).id for n in range(5)]
    execute(app, "DELETE FROM terms WHERE row > 1", "DELETE FROM meta WHERE name = 'terms'")
    assert app.records.stale_terms() == events[1:]
    assert [app.records.catch_up_terms(2), app.records.stale_terms()] == [True, events[2:]]
    assert [app.records.catch_up_terms(2), app.records.stale_terms()] == [True, events[4:]]
    assert [app.keep_up(), app.records.stale_terms()] == [False, []]
    results = app.recall(RecallRequest(query="walrus"), app.caller()).results
    assert sorted(str(each["id"]) for each in results) == events
    execute(app, "DELETE FROM terms")
    assert not app.records.catch_up_terms(2)
    assert app.records.stale_terms() == events


def test_what_a_migration_counted_is_told_until_the_next(open_memory: Callable[..., App], tmp_path: Path) -> None:
    """G1.1."""
    open_memory().close()
    with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as connection:
        connection.execute("INSERT INTO meta VALUES ('migrated', 'episodes shown whole again: 3')")
        connection.commit()
    told = [finding.says for finding in open_memory().examine(repair=False)]
    assert "since its last migration, episodes shown whole again: 3" in told


def test_what_the_database_keeps_of_erased_text_is_told(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """M5.1: it is no fault, and nothing that the program can take away."""
    monkeypatch.setattr(app.records, "erased_remains", lambda: "3 rows wait for a vacuum")
    told = [each for each in app.examine(repair=False) if each.says == "3 rows wait for a vacuum"]
    assert [(each.part, each.state) for each in told] == [("database", "ok")]
