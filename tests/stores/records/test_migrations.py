"""A store of an earlier schema, opened by this version."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.records import Kind, NewRecord, Outcome, Status
from mcp_memory.domain.model.reviews import ReviewKind
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import replacing
from mcp_memory.domain.text.words import normal_hash
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.review.enqueue import enqueue
from mcp_memory.services.review.settle import Settling
from mcp_memory.stores.records import FILE_NAME, SqliteRecordStore
from mcp_memory.stores.records.schema_sqlite import migrations

OLD: list[tuple[Kind, Status, Outcome | None, int]] = [
    ("decision", "active", None, 0),
    ("decision", "active", "pending", 0),
    ("decision", "active", "partial", 0),
    ("decision", "retired", "success", 0),
    ("censor", "active", None, 0),
    ("censor", "active", None, 1),
    ("censor", "escalated", None, 3),
    ("procedure", "active", None, 0),
]

WITHOUT_ERASED = """
DROP TABLE quotas; DROP TABLE partitions; DROP TABLE departures; DROP INDEX records_by_partition;
DROP TABLE read_records; DROP TABLE reads;
DROP TABLE calls_done; DROP TABLE shared_lines; DROP TABLE taken_back; DROP TABLE erased_texts;
DROP INDEX records_by_message;
DROP TABLE project_folders; DROP TABLE former_namespaces;
"""
"""What takes a store back to the twentieth schema."""
WITHOUT_QUEUE = f"""
{WITHOUT_ERASED}
DROP INDEX tasks_by_parent; DROP INDEX tasks_by_change; DROP INDEX tasks_open; DROP INDEX branches_open;
CREATE INDEX tasks_by_branch ON tasks (namespace) WHERE branch; DROP TABLE unembedded;
"""
"""What takes a store back to the fifteenth schema."""
WITHOUT_REVIEWS = f"""
{WITHOUT_QUEUE}
DROP TABLE exclusions; DROP INDEX records_with_files; DROP TABLE logs_left; DROP TABLE task_changes; DROP TABLE moves;
DROP TABLE review_records; DROP TABLE reviews;
"""
WITHOUT_VERSIONS = f"""
{WITHOUT_REVIEWS}
DROP TABLE grounds; DROP TABLE versions; ALTER TABLE records DROP COLUMN client;
ALTER TABLE records DROP COLUMN rewritten_by; ALTER TABLE records DROP COLUMN changed;
DROP INDEX records_by_updated; DROP INDEX records_by_kind_occurred;
DROP INDEX records_by_end; ALTER TABLE records DROP COLUMN valid_from; ALTER TABLE records DROP COLUMN valid_until;
CREATE TABLE old_texts (record_id TEXT, change INTEGER, normal_hash TEXT, text TEXT, replaced_at REAL);
"""
"""What takes a store back to the fifth schema."""
WITHOUT_COMPACTIONS = f"""
{WITHOUT_VERSIONS} DROP TABLE folders; DROP TABLE tokens;
DROP TABLE pass_runs; DROP TABLE undone_summaries; DROP TABLE covered; DROP TABLE replacements; DROP TABLE compactions;
DROP INDEX records_in_log;
"""
"""What takes a store back to the second schema."""


def test_episodes_of_the_sixteenth_schema_are_as_old_as_they_are_stored(
    open_memory: Callable[..., App], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G1.1, C8.2, P4.2: what a history's dates had archived comes back, counted; a version keeps its status."""
    memory = open_memory()
    ages: list[tuple[Status, float]] = [
        ("archived", 1), ("summarized", 1), ("archived", 40), ("summarized", 40), ("archived", 400), ("active", 1),
    ]  # fmt: skip
    items = [NewRecord(text=f"Day {number} went by.", kind="episode") for number in range(len(ages))]
    items.append(NewRecord(text="Hello.", kind="message"))
    *ids, message = (each.id for each in memory.remember(items, memory.caller()))
    memory.close()
    with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as connection:
        for record_id, (status, days) in zip(ids, ages, strict=True):
            stored = time.time() - days * DAY_SECONDS
            row = (status, stored, stored - 9e8, stored - 9e8, record_id)
            connection.execute(
                "UPDATE records SET status = ?, created_at = ?, accessed_at = ?, occurred_at = ? WHERE id = ?", row
            )
        connection.execute("UPDATE records SET status = 'archived', accessed_at = 1 WHERE id = ?", (message,))
        connection.executescript(f"{WITHOUT_ERASED} PRAGMA user_version = 16")
        connection.commit()
        before = connection.execute("SELECT value FROM sequence").fetchone()[0]
    memory = open_memory()
    records = memory.records.get([*ids, message], memory.caller().scopes)
    assert [records[each].status for each in ids] == [
        "active", "active", "summarized", "summarized", "archived", "active",
    ]  # fmt: skip
    assert records[message].status == "archived"
    assert memory.records.revision() == before + 3
    histories = memory.records.versions(ids[:3])
    assert [[(v.agent, v.write, v.before) for v in histories[each]] for each in ids[:3]] == [
        [("upkeep", before + 1, {"status": status})] for status, _ in ages[:3]
    ]
    assert [records[each].version for each in ids[:3]] == [before + 1, before + 2, before + 3]
    counted = "episodes shown whole again, as their age counts from when they were stored: 3"
    counted += "; records whose words upkeep indexes anew, by the rules of their languages: 7"
    assert memory.records.migrated() == counted
    assert caplog.messages.count(f"brought the memory up to date: {counted}") == 1
    assert counted in " ".join(finding.says for finding in memory.examine(repair=False))
    assert memory.records.defects() == []
    memory.close()
    memory = open_memory()
    assert caplog.messages.count(f"brought the memory up to date: {counted}") == 1


def _with_old_extracts(app: App) -> tuple[list[str], list[str], list[str]]:
    """Store what earlier rules extracted; return its ids, those of what is none or was vouched for, and the sources."""
    ann = app.caller()
    (episode,) = app.remember([NewRecord(text="We met. The port is 443.", kind="episode", occurred_at=5.0)], ann)
    (prompt,) = app.remember([NewRecord(text="It failed.", kind="message", role="user", occurred_at=6.0)], ann)
    (summary,) = app.remember([NewRecord(text="All of it.", kind="summary", occurred_at=5.0)], ann)

    def of(source: Remembered, text: str, **given: Any) -> NewRecord:
        fields: dict[str, Any] = {"occurred_at": 5.0, **given}
        return NewRecord(text=text, details={"source": source.id}, **fields)

    old = [
        of(episode, "The port is 443."), of(episode, "We chose Redis.", kind="decision"),
        of(prompt, "Tried make: failed.", kind="episode", occurred_at=6.0),
    ]  # fmt: skip
    other = [
        of(episode, "Stored by hand.", occurred_at=7.0), of(episode, "An episode of its own.", kind="episode"),
        of(summary, "Of a summary."), of(episode, "Pinned.", pinned=True),
        *(of(episode, sort) for sort in ("Used.", "Corrected.", "Successor.", "Ground.", "Core.", "Settled.")),
    ]  # fmt: skip
    ids = [each.id for each in app.remember([*old, *other], ann)]
    used, corrected, successor, ground, core, _ = ids[-6:]
    app.revise(Revision(id=used, feedback="used"), ann)
    app.revise(Revision(id=corrected, text="Corrected again."), ann)
    app.revise(Revision(id=core, status="core"), ann)
    stands, replaced = app.remember(
        [NewRecord(text="Stands.", depends_on=(ground,)), NewRecord(text="Old value.")], ann
    )
    app.revise(Revision(id=successor, supersedes=(replaced.id,)), ann)
    return ids[:3], [*ids[3:], stands.id], [episode.id, prompt.id, summary.id]


def _as_of_eighteen(path: Path, sources: Sequence[str], settled: str) -> int:
    """Take a store back to the eighteenth schema, stored long ago, with a settled group; return its change number."""
    with closing(sqlite3.connect(path)) as connection:
        stored = time.time() - 100 * DAY_SECONDS
        connection.execute("UPDATE records SET created_at = ?, updated_at = ?", (stored, stored))
        connection.executemany("UPDATE records SET created_at = 1 WHERE id = ?", [(each,) for each in sources])
        group = ("g000001", "duplicate", "", 1.0, "", 0, "", "unrelated", 1, 1.0, "ann", "")
        connection.execute(f"INSERT INTO reviews VALUES ({', '.join('?' * 12)})", group)
        connection.execute("INSERT INTO review_records VALUES ('g000001', 0, ?, '')", (settled,))
        connection.executescript(f"{WITHOUT_ERASED} PRAGMA user_version = 18")
        connection.commit()
        before: int = connection.execute("SELECT value FROM sequence").fetchone()[0]
    return before


def test_what_rules_read_out_of_sentences_is_noted(
    open_memory: Callable[..., App], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G1.1, D10.1: counted, with a version each, undone by its number, not expired yet; what was vouched for stays."""
    memory = open_memory()
    old, others, sources = _with_old_extracts(memory)
    memory.close()
    before = _as_of_eighteen(tmp_path / "data" / FILE_NAME, sources, others[-2])
    memory = open_memory()
    ann = memory.caller()

    def statuses(ids: Sequence[str]) -> list[str]:
        records = memory.records.get(ids, ann.scopes)
        return [records[each].status for each in ids]

    assert statuses(old) == ["noted"] * 3
    assert "noted" not in statuses(others)
    counted = "records that rules had read out of sentences, noted for their sessions alone until confirmed: 3"
    assert memory.records.migrated() == counted
    assert f"brought the memory up to date: {counted}" in caplog.messages
    assert counted in " ".join(finding.says for finding in memory.examine(repair=False))
    histories = memory.records.versions(old)
    assert [[(v.agent, v.before) for v in histories[each]] for each in old] == [
        [("upkeep", {"status": status})] for status in ("new", "recorded", "active")
    ]
    memory.maintain(lambda done, total: None)
    assert statuses(old) == ["noted"] * 3
    assert memory.recall(RecallRequest(query="port 443", kinds=("fact",)), memory.caller("another")).results == ()
    memory.undo(before + 1, ann)
    assert statuses(old) == ["new", "recorded", "active"]
    assert memory.records.defects() == []


def test_groups_that_a_rule_guessed_wait_no_more(open_memory: Callable[..., App], tmp_path: Path) -> None:
    """N2.1, G1.1: counted; what waits for the user, what was settled and what changed its ground stays."""
    memory = open_memory()
    ids = [each.id for each in memory.remember([NewRecord(text=f"Gate {n}.") for n in range(5)], memory.caller())]
    kinds: list[ReviewKind] = ["contradictions", "duplicates", "dependents", "contradictions", "duplicates"]
    with memory.records.write() as transaction:
        made = [enqueue(kind, [one], "Why.", 0.0, transaction) for kind, one in zip(kinds, ids, strict=True)]
    groups = [each.id for each in made if each]
    memory.settle(Settling(id=groups[3], settle="ask", reason="Which?"), memory.caller())
    memory.settle(Settling(id=groups[4], settle="unrelated"), memory.caller())
    memory.close()
    with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as connection:
        connection.executescript(f"{WITHOUT_ERASED} PRAGMA user_version = 19")
        connection.commit()
    memory = open_memory()
    assert [each.review.id for each in memory.reviews.waiting(memory.caller())] == [groups[2], groups[3]]
    assert [each.review.id for each in memory.reviews.settled(memory.caller(), 9)] == [groups[4]]
    assert memory.records.migrated() == "groups that waited for a review because a rule guessed, and wait no more: 2"
    memory.close()


def test_a_migration_that_counts_nothing_says_nothing(
    open_memory: Callable[..., App], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G1.1: what an earlier one said is forgotten."""
    open_memory().close()
    with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as connection:
        connection.execute("INSERT INTO meta VALUES ('migrated', 'of before')")
        connection.executescript(f"{WITHOUT_ERASED} PRAGMA user_version = 16")
        connection.commit()
    assert open_memory().records.migrated() == ""
    assert caplog.messages == []


def test_a_store_of_the_first_schema_counts_contexts_from_now_on(tmp_path: Path) -> None:
    """S2.3, C9.1: what it holds stays; what was assembled before is not known."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript(migrations()[0])
        connection.execute("UPDATE sequence SET value = 41")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    store = SqliteRecordStore(tmp_path, "e")
    ann = Caller(namespace="here", agent="ann", session_id="s1")
    assert store.revision() == 41
    assert store.assembled(ann, 0.0).contexts == 0
    report = ContextReport(id="c1", token_count=1, truncated=False, strategy="recent", components=(), omitted=())
    store.keep_context(report, ann, 1.0)
    assert store.assembled(ann, 0.0).strategies == {"recent": 1}
    store.close()


def test_decisions_and_censors_of_the_first_schema_have_their_own_stages(
    open_memory: Callable[..., App], tmp_path: Path
) -> None:
    """S2.3, C8.4, C8.5: those that were active, by their outcomes and by whether they were triggered."""
    memory = open_memory()
    items = [NewRecord(text=f"Record {number}.", kind=kind) for number, (kind, *_) in enumerate(OLD)]
    ids = [each.id for each in memory.remember(items, memory.caller())]
    memory.close()
    with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as connection:
        for record_id, (_, status, outcome, activated) in zip(ids, OLD, strict=True):
            row = (status, outcome, activated, record_id)
            connection.execute("UPDATE records SET status = ?, outcome = ?, activated = ? WHERE id = ?", row)
        connection.commit()
        connection.executescript(f"{WITHOUT_COMPACTIONS} DROP TABLE assemblies; DROP INDEX records_by_source;")
        connection.execute("PRAGMA user_version = 1")
    memory = open_memory()
    assert [each.status for each in memory.records.get(ids, memory.caller().scopes).values()] == [
        "recorded", "pending", "reviewed", "retired", "created", "active", "escalated", "active",
    ]  # fmt: skip


def test_sessions_of_the_second_schema_have_logs_that_can_be_compacted(
    open_memory: Callable[..., App], tmp_path: Path
) -> None:
    """S2.3, E2.4: what was said before is their log, in its order; nothing in it is compacted yet."""
    memory = open_memory()
    items = [NewRecord(text=f"Said {number}.", kind="message", role="user") for number in range(3)]
    ids = [each.id for each in memory.remember([*items, NewRecord(text="A fact.")], memory.caller())]
    caller = memory.caller()
    memory.close()
    with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as connection:
        connection.executescript(f"{WITHOUT_COMPACTIONS} PRAGMA user_version = 2")
    store = SqliteRecordStore(tmp_path / "data", "e")
    logs = store.session_logs()
    log = logs.log(caller)
    assert [entry.id for entry in log.entries] == ids[:3]
    assert (logs.size(caller).tokens, list(logs.compactions(caller))) == (log.tokens, [])
    made = replacing(log.entries[:2], "summary", lambda own: f"Two. {own}", len)
    with store.write() as transaction:
        number = transaction.begin_compaction(caller, "call", 1.0, log.tokens)
        transaction.replace_entries([made], number, "threshold", caller, 1.0, {})
    assert [entry.id for entry in logs.log(caller).entries] == [made.entry.id, ids[2]]
    assert store.defects() == []
    store.close()


def test_earlier_texts_of_the_fifth_schema_are_versions_of_unknown_origin(
    open_memory: Callable[..., App], tmp_path: Path
) -> None:
    """S2.3, N5.1, R8: what was corrected is known again, also where only its hash was kept."""
    memory = open_memory()
    fact = memory.remember([NewRecord(text="The port is 443.")], memory.caller())[0].id
    memory.close()
    rows = [(fact, 1, normal_hash("The port is 80."), "The port is 80.", 5.0), (fact, 2, normal_hash("Gone."), "", 6.0)]
    with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as connection:
        connection.executescript(f"{WITHOUT_VERSIONS} PRAGMA user_version = 5")
        connection.executemany("INSERT INTO old_texts VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()
    memory = open_memory()
    first, second = memory.records.versions([fact])[fact]
    assert (first.change, first.write, first.at, first.agent, first.session_id) == (1, 1, 5.0, "", "")
    assert (first.before["text"], "text" in second.before) == ("The port is 80.", False)
    for text in ("the port is 80", "Gone."):
        (answer,) = memory.remember([NewRecord(text=text)], memory.caller())
        assert (answer.status, answer.superseded_by) == ("superseded", fact)
    assert memory.records.defects() == []


def test_records_of_the_fifteenth_schema_go_on_waiting_for_their_vectors(
    open_memory: Callable[..., App], tmp_path: Path
) -> None:
    """S2.3, S2.2: those that lack them where some were known to, and no others."""
    memory = open_memory()
    items = [NewRecord(text=f"Fact {number}.") for number in range(3)]
    ids = [each.id for each in memory.remember(items, memory.caller())]
    memory.close()
    with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as connection:
        connection.executescript(f"{WITHOUT_QUEUE} PRAGMA user_version = 15")
        connection.execute("DELETE FROM vectors WHERE row = 2")
        connection.execute("INSERT INTO meta VALUES ('unembedded', '2')")
        connection.commit()
        kept = connection.execute("SELECT * FROM vectors ORDER BY row").fetchall()
        memory = open_memory()
        assert connection.execute("SELECT * FROM vectors ORDER BY row").fetchall() == kept
    assert [record_id for record_id, _, _ in memory.records.awaiting_vectors(9)] == [ids[1]]
    assert (memory.reindex.catch_up(), memory.records.count_unembedded()) == (1, 0)
    assert memory.records.defects() == []
