"""backup and reindex, while servers go on reading and writing."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.entrypoints.commands.maintenance import backup_file
from mcp_memory.errors import EmbedderMismatch, InvalidRequest, StoreUnavailable, TextRefused
from mcp_memory.locations import NOTES_FOLDER
from mcp_memory.ports.text import Vectors
from mcp_memory.services.memory.reindex import REINDEXED_AT_ONCE
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import Settings, load_settings
from mcp_memory.wiring import restore_backup
from tests.embedders import HashingEmbedder
from tests.entrypoints.cli.conftest import INTERRUPTIBLE
from tests.forked import ForkedProcess, run_forked

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

OpenMemory = Callable[..., App]


embed_many = MiniLMEmbedder.embed_many


def refusing_poison(self: MiniLMEmbedder, texts: Sequence[str]) -> Sequence[Vectors]:
    if any("poison" in text for text in texts):
        raise TextRefused("The embedder refused the text.")
    return embed_many(self, texts)


def remember(memory: App, *texts: str) -> list[str]:
    return [each.id for each in memory.remember([NewRecord(text=text) for text in texts], memory.caller())]


def listed(run: "Run") -> set[str]:
    return {each["text"] for each in run("list", "--limit", "1000", "--json").json["results"]}


def test_a_store_of_another_embedder_refuses_to_mix_and_names_the_remedy(open_memory: OpenMemory) -> None:
    """S2.3: a clear error that names the remedy; nothing is stored."""
    remember(open_memory(embedder=HashingEmbedder()), "The cat sleeps")
    memory = open_memory()
    with pytest.raises(EmbedderMismatch, match="mcp-memory reindex"):
        remember(memory, "The dog barks")
    assert memory.status(memory.caller()).memory.summary.records == {"fact": 1}


def test_recall_over_another_embedders_store_answers_by_word_and_says_what_is_missing(
    run: "Run", open_memory: OpenMemory
) -> None:
    """R5, S2.2: what could not be searched is named."""
    [cat] = remember(open_memory(embedder=HashingEmbedder()), "The cat sleeps")
    ran = run("search", "cat", "--json")
    assert [each["id"] for each in ran.json["results"]] == [cat]
    assert [reason.partition(":")[0] for reason in ran.json["degraded"]] == ["vector"]
    assert "mcp-memory reindex" in ran.err


def test_reindex_repairs_a_store_of_another_embedder(run: "Run", open_memory: OpenMemory) -> None:
    """S7.1, S2.2."""
    texts = [f"The cat sleeps on sofa {number}" for number in range(REINDEXED_AT_ONCE + 3)]
    remember(open_memory(embedder=HashingEmbedder()), *texts, "Invoices are due in May")
    ran = run("reindex", "--json")
    assert ran.json["embedded"] == REINDEXED_AT_ONCE + 4
    assert ran.json["embedder"] == run("status", "--json").json["store"]["embedder"]
    answer = run("search", "kittens on the couch", "--limit", "3", "--json").json
    assert answer["degraded"] == []
    assert all("cat" in each["text"] for each in answer["results"])
    remember(open_memory(), "The dog barks")


def test_reindex_tells_what_it_did(run: "Run", open_memory: OpenMemory) -> None:
    """S7.1."""
    remember(open_memory(embedder=HashingEmbedder()), "one", "two")
    ran = run("reindex")
    assert ran.out.startswith("2 records embedded")
    assert ran.err == ""  # Progress is for terminals.


def test_reindex_and_doctor_say_what_cannot_be_embedded(
    run: "Run", open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2, S7.1: as long as it is refused; nothing is wrong with the memory for it."""
    remember(open_memory(embedder=HashingEmbedder()), "a poison", "The dog barks")
    with monkeypatch.context() as patched:
        patched.setattr(MiniLMEmbedder, "embed_many", refusing_poison)
        assert run("reindex").out.splitlines()[1] == "Texts that it refused, to be found by their words alone: 1."
        ran = run("doctor")
        assert (ran.code, "1 record whose text it refuses can be found by words alone" in ran.out) == (0, True)
    assert run("reindex", "--json").json["refused"] == 0
    assert "refuses" not in run("doctor").out


def test_reindex_with_nothing_to_do_embeds_nothing(run: "Run", open_memory: OpenMemory) -> None:
    """S7.1."""
    remember(open_memory(), "one")
    assert run("reindex", "--json").json["embedded"] == 0
    assert run("reindex").err == ""  # Nor shows it a bar.


def test_an_interrupted_reindex_goes_on_where_it_stopped(run: "Run", open_memory: OpenMemory) -> None:
    """S7.1; until the last record is done the old vectors answer."""
    old = open_memory(embedder=HashingEmbedder())
    remember(old, *(f"Note {number}" for number in range(2 * REINDEXED_AT_ONCE)))

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    memory = open_memory()
    with pytest.raises(KeyboardInterrupt):
        memory.reindex(memory.reindex.waiting(), interrupt)
    assert old.recall(RecallRequest(query="note 7"), old.caller()).degraded == ()
    assert run("status", "--json").json["store"]["embedder"] == HashingEmbedder.id
    assert run("reindex", "--json").json["embedded"] == REINDEXED_AT_ONCE


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal for one process alone")
def test_a_person_who_interrupts_reindex_is_told_how_to_go_on(run: "Run", open_memory: OpenMemory) -> None:
    """S7.1."""
    old = open_memory(embedder=HashingEmbedder())
    remember(old, *(f"Note {number}" for number in range(300)))
    embedder = MiniLMEmbedder().id
    [(first, _, _)] = old.records.unembedded(embedder, 1)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ForkedProcess("reindex", code=INTERRUPTIBLE, **pipes) as process:
        while old.records.unembedded(embedder, 1)[0][0] == first:
            assert process.poll() is None
            time.sleep(0.01)  # A process that is looked at without a pause has half of the machine.
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert b"Run `mcp-memory reindex` again" in err
    assert b"Traceback" not in err
    assert old.recall(RecallRequest(query="note 7"), old.caller()).degraded == ()


def test_a_writer_with_the_old_embedder_loses_nothing_while_reindex_runs(run: "Run", open_memory: OpenMemory) -> None:
    """S7.1, R1: what was acknowledged is embedded before the change of embedder takes place."""
    writer = open_memory(embedder=HashingEmbedder())
    stored = {f"Note {number}" for number in range(REINDEXED_AT_ONCE + 1)}
    [corrected, *_] = remember(writer, *sorted(stored))
    memory = open_memory()
    calls: list[int] = []

    def write_meanwhile(done: int, total: int) -> None:
        assert total >= done
        calls.append(done)
        if len(calls) <= 2:
            stored.add(f"Written after {done}")
            remember(writer, f"Written after {done}")

    done = memory.reindex(memory.reindex.waiting(), write_meanwhile)
    assert done == len(stored) == calls[-1]
    assert memory.reindex.waiting() == 0
    assert listed(run) == stored
    found = memory.recall(RecallRequest(query="Written after 32"), memory.caller())
    assert found.degraded == ()
    assert found.results[0]["text"] == "Written after 32"
    with pytest.raises(EmbedderMismatch, match="hashed-words-64"):
        remember(writer, "too late for the old embedder")
    assert corrected in {each["id"] for each in run("list", "--limit", "1000", "--json").json["results"]}


def test_a_text_corrected_while_reindex_runs_gets_the_new_texts_vectors(open_memory: OpenMemory) -> None:
    """S7.1, R8."""
    writer = open_memory(embedder=HashingEmbedder())
    [record_id, *_] = remember(writer, "The cat sleeps on the sofa", *(f"Note {n}" for n in range(REINDEXED_AT_ONCE)))
    memory = open_memory()

    def correct_once(done: int, total: int) -> None:
        if done == REINDEXED_AT_ONCE:
            writer.revise(Revision(id=record_id, text="Invoices are due in May"), writer.caller())

    memory.reindex(memory.reindex.waiting(), correct_once)
    results = memory.recall(RecallRequest(query="when must bills be paid?", limit=1), memory.caller()).results
    assert [each["id"] for each in results] == [record_id]


def test_backup_is_a_whole_memory_that_opens_elsewhere(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """S7.1: consistent, with the server still running."""
    [cat] = remember(open_memory(), "The cat sleeps on the sofa")
    made = run("backup", str(tmp_path / "copies"), "--json").json
    copy = Path(made["path"])
    assert copy.parent == tmp_path / "copies"
    assert copy.stat().st_size == made["bytes"]
    (tmp_path / "restored").mkdir()
    copy.rename(tmp_path / "restored" / "memory.db")
    answer = run("search", "kitten", "--data-dir", str(tmp_path / "restored"), "--json").json
    assert [each["id"] for each in answer["results"]] == [cat]


def test_backup_during_a_write_holds_only_what_was_committed(
    run: "Run", open_memory: OpenMemory, tmp_path: Path
) -> None:
    """S7.1: all of a write or none of it."""
    memory = open_memory()
    remember(memory, "committed")
    with memory.records.write() as transaction:
        transaction.next_id("r")
        run("backup", str(tmp_path / "copy.db"))
    with sqlite3.connect(tmp_path / "copy.db") as copy:
        assert copy.execute("SELECT text FROM records").fetchall() == [("committed",)]
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    copy.close()


def test_restoring_deletes_the_indexes_of_the_former_history(
    run: "Run", open_memory: OpenMemory, tmp_path: Path
) -> None:
    """R9, S2.2: what they say of erasures means nothing for the one that is restored."""
    memory = open_memory()
    remember(memory, "one")
    run("backup", str(tmp_path / "copy.db"))
    index = memory.settings.data_dir / "chroma" / "index"
    index.mkdir(parents=True)
    (index / "state.json").write_text("{}")
    memory.close()
    assert run("restore", str(tmp_path / "copy.db")).code == 0
    assert not index.exists()


def test_backup_overwrites_nothing(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """S7.1."""
    remember(open_memory(), "one")
    target = tmp_path / "copy.db"
    target.write_text("precious")
    ran = run("backup", str(target))
    assert ran.code == 1
    assert "exists already" in ran.err
    assert target.read_text() == "precious"


@pytest.mark.parametrize("command", [("backup", "copy.db"), ("reindex",)])
def test_a_mistyped_data_dir_is_said_instead_of_made(
    run: "Run", settings: Settings, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """S7.1, S2.3."""
    ran = run(*command, "--data-dir", str(tmp_path / "typo"))
    assert ran.code == 1
    assert "No memory at" in ran.err
    assert not (tmp_path / "typo").exists()


def test_a_folder_gets_a_file_named_after_the_time(tmp_path: Path) -> None:
    """S7.1."""
    now = datetime(2026, 11, 20, 18, 7, 5, tzinfo=UTC)
    dotted = tmp_path / "v1.2"
    dotted.mkdir()
    name = "memory-2026-11-20-180705.db"
    assert backup_file(tmp_path / "new", now) == tmp_path / "new" / name
    assert backup_file(dotted, now) == dotted / name
    assert backup_file(tmp_path / "mine.sqlite", now) == tmp_path / "mine.sqlite"


def test_a_backup_is_restored_beside_what_a_killed_server_left(tmp_path: Path) -> None:
    """S2.3: the log of the former database is not replayed onto it, and that database is kept."""
    settings = load_settings(data_dir=tmp_path / "data", namespace="test")
    code = (
        "import os, sys; from pathlib import Path; from mcp_memory.app import open_app;"
        "from mcp_memory.settings import load_settings; from mcp_memory.domain.model.records import NewRecord;"
        "app = open_app(load_settings(data_dir=Path(sys.argv[1]), namespace='test'));"
        "app.remember([NewRecord(text='Before.')], app.caller()); app.records.backup(sys.argv[2]);"
        "app.remember([NewRecord(text='After.')], app.caller()); os._exit(9)"
    )
    copy = tmp_path / "copy.db"
    killed = run_forked(str(settings.data_dir), str(copy), code=code)
    assert killed.returncode == 9
    assert (settings.data_dir / "memory.db-wal").exists()
    (settings.data_dir / NOTES_FOLDER).mkdir()
    running = open_app(settings)
    with pytest.raises(InvalidRequest, match="no sound backup"):
        restore_backup(settings, _empty_database(tmp_path), "now")
    kept = restore_backup(settings, copy, "now")
    assert kept is not None
    assert kept.exists()
    assert not (settings.data_dir / NOTES_FOLDER).exists()
    with pytest.raises(StoreUnavailable, match="moved or replaced"):
        running.remember([NewRecord(text="Lost?")], running.caller())
    running.close()
    app = open_app(settings)
    assert [r["text"] for r in app.recall(RecallRequest(), app.caller()).results] == ["Before."]
    app.close()


def _empty_database(folder: Path) -> Path:
    path = folder / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    return path


@pytest.mark.parametrize("kind", ["pipe", "trigger", "view"])
def test_what_would_run_or_wait_is_no_backup(run: "Run", open_memory: OpenMemory, tmp_path: Path, kind: str) -> None:
    """X6.4: and a sound one is left as it is, alone in its folder."""
    memory = open_memory()
    memory.remember([NewRecord(text="Mine.")], memory.caller())
    file = tmp_path / "backups" / "copy.db"
    assert run("backup", str(file)).code == 0
    if kind == "pipe":
        file.unlink()
        os.mkfifo(file)
    else:
        what = {
            "trigger": "TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
            "view": "VIEW v AS SELECT * FROM records",
        }
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(f"CREATE {what[kind]}")
    ran = run("restore", str(file))
    assert (ran.code, "cannot be read (not an ordinary file)" in ran.err or "no sound backup" in ran.err) == (1, True)
    assert [each.name for each in file.parent.iterdir()] == ["copy.db"]


def test_a_backup_never_replaces_a_memory_in_postgres(
    run: "Run", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M2.3: the remedy is named, and nothing is looked for at the address."""
    monkeypatch.setenv("MCP_MEMORY_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
    (tmp_path / "memory.dump").touch()
    ran = run("restore", str(tmp_path / "memory.dump"))
    assert (ran.code, "`pg_restore` the backup into a new one" in ran.err) == (1, True)
