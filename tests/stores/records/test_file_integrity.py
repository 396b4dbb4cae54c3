"""What the witness takes for the work of SQLite, and when the log is brought into the database."""

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.stores.records import file_integrity
from mcp_memory.stores.records.database_sqlite import CHECKPOINT_FRAMES, SqliteDatabase
from mcp_memory.stores.records.file_errors import note_of
from mcp_memory.stores.records.file_integrity import Unsettled, Witness
from mcp_memory.stores.records.store_sqlite import engine

PAGE, FRAME = 4096, 4096 + 24


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "data")
    yield opened
    opened.close()


def add_pages(database: SqliteDatabase, name: str, pages: int) -> None:
    """A write of about so many pages."""
    with database.write() as connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, "x" * PAGE * pages))


def size_of(database: SqliteDatabase, name: str) -> int:
    with database.read() as connection:
        return connection.execute("SELECT length(value) FROM meta WHERE name = ?", (name,)).fetchone()[0]


def log_of(database: SqliteDatabase) -> Path:
    return database.path.with_name("memory.db-wal")


def test_a_checkpoint_that_was_killed_in_its_middle_is_taken_for_one(database: SqliteDatabase) -> None:
    """X6.2: page 1 is in the database already, which nothing counts yet; whoever writes next goes on."""
    add_pages(database, "note", 20)
    log = log_of(database).read_bytes()
    frames = range(32, len(log), FRAME)
    first_pages = [frame for frame in frames if struct.unpack_from(">I", log, frame)[0] == 1]
    with database.path.open("r+b") as file:
        before = file.read(100)
        file.seek(0)
        file.write(log[first_pages[-1] + 24 : first_pages[-1] + FRAME])
    assert database.path.read_bytes()[:100] != before
    add_pages(database, "more", 1)
    assert size_of(database, "note") == 20 * PAGE


def test_a_checkpoint_that_was_killed_before_its_first_page_is_taken_for_one(database: SqliteDatabase) -> None:
    """X6.2: where a reader keeps the newest first page out, a checkpoint makes the file longer and leaves that page."""
    add_pages(database, "note", 1)
    with database.path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(bytes(20 * PAGE))
    add_pages(database, "more", 40)
    assert size_of(database, "more") == 40 * PAGE
    with database.read() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_what_others_bring_into_the_database_is_taken_for_sound(database: SqliteDatabase) -> None:
    """X6.2: another program's checkpoint, VACUUM and new schema leave a process that has the memory open at work."""
    add_pages(database, "note", 50)
    for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "DELETE FROM meta WHERE name = 'note'", "VACUUM"):
        with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
            other.execute(statement)
            other.execute("PRAGMA wal_checkpoint(RESTART)")
    add_pages(database, "more", 1)
    os.utime(database.path)  # As `touch` does.
    assert size_of(database, "more") == PAGE
    assert not note_of(database.path).exists()


@pytest.mark.parametrize("reads", range(1, 4))
def test_a_checkpoint_between_the_reads_of_a_look_is_taken_for_one(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """X6.2: what a look at the files took together must not make the next one call the database overwritten.

    This checkpoint makes the database longer and leaves its first page alone, so that only its count tells of it.
    """
    read = file_integrity._read  # noqa: SLF001 - to have something happen after one of its calls
    witness, done = Witness(database.path), list[int]()

    def interrupted(descriptor: int, count: int, offset: int) -> bytes:
        content = read(descriptor, count, offset)
        done.append(offset)
        if len(done) == reads:
            with closing(sqlite3.connect(database.path)) as other:
                other.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return content

    add_pages(database, "note", 20)
    with closing(sqlite3.connect(database.path)) as other:
        other.execute("PRAGMA wal_checkpoint(RESTART)")
    add_pages(database, "more", 20)
    with database.read():  # It keeps what follows out of the database, and the first page is among that.
        add_pages(database, "much more", 20)
        witness.begin()
        assert witness.fault() is None
        size = database.path.stat().st_size
        with monkeypatch.context() as during, suppress(Unsettled):
            during.setattr(file_integrity, "_read", interrupted)
            witness.fault(is_settled=False)
        assert len(done) >= reads
        assert database.path.stat().st_size > size
        assert witness.fault() is None
    witness.end()


def test_reading_waits_for_no_writer_while_the_files_are_as_they_were(database: SqliteDatabase) -> None:
    """X6.2: only a database that has changed is looked at with the write lock held."""
    add_pages(database, "note", 1)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        statements: list[str] = []
        with database.outside_transaction() as writer:
            writer.set_trace_callback(statements.append)
        assert [size_of(database, "note") for _ in range(100)] == [PAGE] * 100
        assert statements == []


def test_opening_waits_for_no_writer(database: SqliteDatabase) -> None:
    """X6.2: an import may hold the write lock for minutes, and who only reads need not know."""
    add_pages(database, "note", 1)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        late = SqliteDatabase(database.path.parent)
        assert size_of(late, "note") == PAGE
        late.close()


@pytest.mark.parametrize("times", [1, 1_000])
def test_an_index_that_is_replaced_while_a_process_opens_the_database_loses_nothing(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """X6.2: that process begins again, or is refused; who has the former index open takes no further write."""
    add_pages(database, "kept", 1)
    begin, left = Witness.begin, [None] * times

    def replaced(witness: Witness) -> None:
        """SQLite has the former index open by now, which the witness has not seen."""
        if left:
            left.pop()
            index = database.path.with_name("memory.db-shm")
            fresh = index.with_name("fresh")
            fresh.write_bytes(index.read_bytes())
            fresh.rename(index)
        begin(witness)

    monkeypatch.setattr(Witness, "begin", replaced)
    if times == 1:
        late = SqliteDatabase(database.path.parent)
        add_pages(late, "late", 2)
        late.close()
    else:
        with pytest.raises(StoreBusy, match="call again"):
            SqliteDatabase(database.path.parent)
    monkeypatch.undo()
    with pytest.raises(StoreUnavailable, match=r"memory\.db-shm"):
        add_pages(database, "lost", 1)
    database.close()
    again = SqliteDatabase(database.path.parent)
    with again.read() as connection:
        found = {row[0] for row in connection.execute("SELECT name FROM meta WHERE name IN ('kept', 'late', 'lost')")}
    again.close()
    assert found == ({"kept", "late"} if times == 1 else {"kept"})


def test_a_sequence_that_fell_back_is_noticed_before_the_commit(database: SqliteDatabase) -> None:
    """X6.2: a process remembers the newest change that it has seen; nothing of a database behind it is written to."""
    with database.write() as connection:
        connection.execute("UPDATE sequence SET value = 10")
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("UPDATE sequence SET value = 9")
    with pytest.raises(StoreUnavailable, match="written over"), database.write() as connection:
        connection.execute("UPDATE sequence SET value = 11")
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        assert other.execute("SELECT value FROM sequence").fetchone()[0] == 9


def test_a_log_that_is_lost_in_the_middle_of_a_write_is_noticed(database: SqliteDatabase) -> None:
    """X6.2: also where it goes after the transaction began, and with it what others wrote."""
    add_pages(database, "note", 1)
    with pytest.raises(StoreUnavailable, match=r"memory\.db-wal was deleted, cut"), database.write():
        os.truncate(log_of(database), 0)


def test_a_note_that_a_database_was_overwritten_stops_every_process_until_a_restore(database: SqliteDatabase) -> None:
    """X6.2: whoever finds it out tells all others, whose files may look sound to them."""
    note_of(database.path).touch()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="written over"):
            add_pages(database, "note", 1)
        with pytest.raises(StoreUnavailable, match="written over"):
            size_of(database, "note")
    note_of(database.path).unlink()
    add_pages(database, "note", 1)


def test_no_connection_makes_checkpoints_of_its_own(database: SqliteDatabase) -> None:
    """X6.3: SQLite's, outside the write lock, may meet a writer that begins the log anew: the WAL-reset bug."""
    with database.outside_transaction() as writer, database.read() as one, database.read() as two:
        for connection in (writer, one, two):
            assert connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0] == 0


def test_the_log_is_brought_into_the_database_under_the_write_lock_alone(database: SqliteDatabase) -> None:
    """X6.3: as long as another writes, nothing of the log is applied."""
    add_pages(database, "note", 20)
    before = database.path.read_bytes()
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            database.empty_log()
        assert database.path.read_bytes() == before
        other.execute("ROLLBACK")
    assert database.empty_log()
    assert database.path.read_bytes() != before


@pytest.mark.parametrize("writers", [1, 3])
def test_the_log_does_not_grow_without_end(tmp_path: Path, writers: int) -> None:
    """X6.3: bounded by what is written until a checkpoint is due, and one write of each process."""
    databases = [SqliteDatabase(tmp_path) for _ in range(writers)]

    def write(database: SqliteDatabase, name: str) -> None:
        for turn in range(60 // writers):
            add_pages(database, f"{name}{turn}", 200)

    threads = [
        threading.Thread(target=write, args=(database, str(number))) for number, database in enumerate(databases)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = 60 // writers * writers * 200 * PAGE
    assert log_of(databases[0]).stat().st_size < (CHECKPOINT_FRAMES + 500 * writers) * FRAME < written
    assert size_of(databases[-1], "00") == 200 * PAGE
    for database in databases:
        database.close()
    assert not log_of(databases[0]).exists()


def test_two_stores_of_one_process_keep_their_locks_when_one_is_closed(tmp_path: Path) -> None:
    """X6.2: to close a file drops all locks that the process holds on it, so what the witness reads stays open."""
    one, two = SqliteDatabase(tmp_path), SqliteDatabase(tmp_path)
    add_pages(one, "note", 1)
    one.close()
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None);"
        "c.execute('PRAGMA locking_mode = EXCLUSIVE'); c.execute('PRAGMA journal_mode = DELETE')"
    )
    child = subprocess.run([sys.executable, "-c", script, str(two.path)], capture_output=True, text=True, check=False)
    assert "database is locked" in child.stderr
    add_pages(two, "more", 1)
    two.close()


def test_a_half_copied_database_in_the_place_of_the_old_one_is_not_opened_with_its_log(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    """X6.2: by the next process either, once one has found it out."""
    add_pages(database, "note", 20)
    copy = shutil.copy(database.path, tmp_path / "copy.db")
    os.truncate(copy, PAGE)
    Path(copy).rename(database.path)
    with pytest.raises(StoreUnavailable, match="written over"):
        size_of(database, "note")
    with pytest.raises(StoreUnavailable, match="written over"):
        SqliteDatabase(database.path.parent)


@pytest.mark.parametrize(
    ("version", "has_bug"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 54, 1), False),
    ],
)
def test_versions_of_sqlite_with_the_wal_reset_bug_are_named(version: tuple[int, int, int], has_bug: bool) -> None:
    """X6.3: 3.7.0 to 3.51.2, but for the two older lines that were repaired too."""
    told = engine(version)
    assert told.startswith(f"SQLite {version[0]}.{version[1]}.{version[2]}")
    assert ("WAL-reset bug" in told) == has_bug


def test_a_transaction_that_changes_nothing_is_no_sign_of_another_index(tmp_path: Path) -> None:
    """X6.2: also where it fills a table of its own, and where another process has written in between."""
    with closing(SqliteDatabase(tmp_path)) as database, closing(SqliteDatabase(tmp_path)) as other:
        for _ in range(3):
            with other.write() as connection:
                connection.execute("UPDATE sequence SET value = value + 1")
            with database.write() as connection:
                connection.execute("CREATE TEMP TABLE IF NOT EXISTS passing (name TEXT)")
                connection.execute("INSERT INTO passing VALUES ('x')")
            with database.write():
                pass
