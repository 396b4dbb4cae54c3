"""Files of the memory that are cut, overwritten, replaced or deleted while three processes have them open."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.errors import StoreUnavailable
from mcp_memory.stores.records import restore
from mcp_memory.stores.records.database_sqlite import SqliteDatabase
from mcp_memory.stores.records.file_errors import note_of
from tests.faults.documented import documented
from tests.forked import ForkedProcess, run_forked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody delete or rename what is open")

PROCESSES = 3
WORKER = """
import sys
from pathlib import Path
from mcp_memory.errors import StoreUnavailable
from mcp_memory.stores.records.database_sqlite import SqliteDatabase

try:
    database = SqliteDatabase(Path(sys.argv[1]))
    print("open", flush=True)
except StoreUnavailable as error:
    print(error, flush=True)
    sys.exit()
for line in sys.stdin:
    command, *words = line.split()
    try:
        if command == "write":
            with database.write() as connection:
                connection.executemany("INSERT INTO meta VALUES (?, ?)", [(word, "x" * 600) for word in words])
                connection.execute("UPDATE sequence SET value = value + 1")
            print("done", flush=True)
        elif command == "fold":
            print(database.empty_log(), flush=True)
        elif command == "read":  # Over three of the pool's connections.
            with database.read() as one, database.read() as two, database.read() as three:
                count = {each.execute("SELECT count(*) FROM meta").fetchone()[0] for each in (one, two, three)}
            print(count.pop(), flush=True)
    except StoreUnavailable as error:
        print(error, flush=True)
database.close()
"""


class Worker:
    """A process that has the memory open, and writes and reads when told to."""

    def __init__(self, folder: Path) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = ForkedProcess(str(folder), code=WORKER, **pipes, text=True)

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> int:
        """Close the memory, and leave; the exit code."""
        self.process.communicate()
        return self.process.returncode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A memory with a hundred pages, closed; `older.db` beside its folder is a copy from before the last fifty."""
    data = tmp_path / "data"
    for part in ("early", "late"):
        database = SqliteDatabase(data)
        with database.write() as connection:
            rows = [(f"{part}{number}", "x" * 600) for number in range(300)]
            connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            connection.execute("UPDATE sequence SET value = value + 1")
        database.close()
        if part == "early":
            shutil.copy(data / "memory.db", tmp_path / "older.db")
    with closing(sqlite3.connect(data / "memory.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(tmp_path / "backup.db"),))
    return data


@pytest.fixture
def workers(folder: Path) -> Iterator[Sequence[Worker]]:
    """Three processes, each of which has written a record and read."""
    started = [Worker(folder) for _ in range(PROCESSES)]
    assert [worker.answer() for worker in started] == ["open"] * PROCESSES
    assert started[0].ask("write before") == "done"
    assert started[0].ask("fold") == "True"
    assert [worker.ask(f"write first{number}") for number, worker in enumerate(started)] == ["done"] * PROCESSES
    assert len({worker.ask("read") for worker in started}) == 1
    yield started
    for worker in started:
        worker.process.kill()
        worker.process.communicate()


def in_place(path: Path, data: bytes) -> None:
    """As `cp` does: the same file with other bytes."""
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(data)


def cut(path: Path, part: float) -> None:
    os.truncate(path, int(path.stat().st_size * part) // 4096 * 4096)


def replace(path: Path, data: bytes) -> None:
    fresh = path.with_name("fresh")
    fresh.write_bytes(data)
    fresh.rename(path)


def overwritten_by(name: str) -> Callable[[Path], None]:
    return lambda path: in_place(path, (path.parents[1] / name).read_bytes())


OVERWRITTEN: dict[str, Callable[[Path], None]] = {
    "emptied": lambda path: cut(path, 0),
    "cut to a half": lambda path: cut(path, 0.5),
    "cut by a page": lambda path: os.truncate(path, path.stat().st_size - 4096),
    "rolled back in place": overwritten_by("older.db"),
    "a backup copied over it": overwritten_by("backup.db"),
    "a backup renamed over it": lambda path: replace(path, (path.parents[1] / "backup.db").read_bytes()),
    "other bytes at its start": lambda path: in_place(path, b"Dear aunt, " * 30_000),
}
LOG: dict[str, Callable[[Path], None]] = {
    "log emptied": lambda path: cut(path, 0),
    "log cut by its last frame": lambda path: os.truncate(path, path.stat().st_size - 4120),
    "log overwritten": lambda path: in_place(path, bytes(path.stat().st_size)),
    "log replaced": lambda path: replace(path, path.read_bytes()),
    "log deleted": Path.unlink,
}
INDEX: dict[str, Callable[[Path], None]] = {
    "index emptied": lambda path: os.truncate(path, 0),
    "index deleted": Path.unlink,
    "index replaced": lambda path: replace(path, path.read_bytes()),
}


def refuse_all(workers: Sequence[Worker], fault: str) -> None:
    """Each of them, again and again, and each stays up."""
    told = documented(fault)
    for command in ("write after", "read", "write after", "read"):
        for number, worker in enumerate(workers):
            answer = worker.ask(command)
            assert told.fullmatch(answer), (number, command, answer)
            assert worker.process.poll() is None


@pytest.mark.parametrize("how", OVERWRITTEN)
def test_an_overwritten_database_takes_no_write_and_gives_no_answer_until_it_is_restored(
    folder: Path, tmp_path: Path, workers: Sequence[Worker], how: str
) -> None:
    """X6.2: by none of three processes, nor by one that starts later; not a byte is written, not even by closing."""
    database, log = folder / "memory.db", folder / "memory.db-wal"
    OVERWRITTEN[how](database)
    before = database.read_bytes(), log.read_bytes()
    refuse_all(workers, "overwritten")
    with pytest.raises(StoreUnavailable, match="written over"):
        SqliteDatabase(folder)
    assert [worker.end() for worker in workers] == [0] * PROCESSES
    assert (database.read_bytes(), log.read_bytes()) == before
    kept = restore(folder, tmp_path / "backup.db", "now")
    assert kept is not None
    assert (kept.read_bytes(), kept.with_name(f"{kept.name}-wal").read_bytes()) == before
    restored = SqliteDatabase(folder)
    with restored.read() as connection:
        assert connection.execute("SELECT count(*) FROM meta WHERE value = ?", ("x" * 600,)).fetchone()[0] == 600
    restored.close()


@pytest.mark.parametrize("how", LOG)
def test_a_log_that_was_lost_is_noticed_before_a_write_is_acknowledged(
    folder: Path, workers: Sequence[Worker], how: str
) -> None:
    """X6.2: the newest writes are in the log alone, and those after it would be lost too."""
    database = folder / "memory.db"
    before = database.read_bytes()
    LOG[how](folder / "memory.db-wal")
    refuse_all(workers, "log-lost")
    late = Worker(folder)
    assert late.answer() == "open" if how == "log replaced" else documented("log-lost").fullmatch(late.answer())
    late.end()
    assert [worker.end() for worker in workers] == [0] * PROCESSES
    is_rescued = how in ("log deleted", "log replaced")  # What the processes still held, or what lies there.
    assert is_rescued or database.read_bytes() == before
    again = SqliteDatabase(folder)
    with again.read() as connection:
        found = {row[0] for row in connection.execute("SELECT name FROM meta")}
    again.close()
    assert {"before", "early0", "late299"} <= found
    assert not is_rescued or {f"first{number}" for number in range(PROCESSES)} <= found


@pytest.mark.parametrize("how", INDEX)
def test_a_lost_index_of_the_log_is_noticed_and_costs_nothing(
    folder: Path, workers: Sequence[Worker], how: str
) -> None:
    """X6.2: a process that touches what was cut off would be killed by SIGBUS; after a restart all is there."""
    INDEX[how](folder / "memory.db-shm")
    refuse_all(workers, "index-lost")
    assert [worker.end() for worker in workers] == [0] * PROCESSES
    again = SqliteDatabase(folder)
    with again.read() as connection:
        found = {row[0] for row in connection.execute("SELECT name FROM meta")}
    again.close()
    assert {f"first{number}" for number in range(PROCESSES)} | {"before", "early0", "late299"} <= found
    assert "after" not in found


def test_a_folder_that_was_renamed_takes_no_write_until_it_is_back(folder: Path, workers: Sequence[Worker]) -> None:
    """X6.2: nobody would look for them there; and nothing is to be restarted once it is where it was."""
    elsewhere = folder.with_name("elsewhere")
    folder.rename(elsewhere)
    refuse_all(workers, "moved")
    assert not folder.exists()
    elsewhere.rename(folder)
    assert [worker.ask(f"write again{number}") for number, worker in enumerate(workers)] == ["done"] * PROCESSES


def test_a_backup_restored_under_running_processes_takes_none_of_their_writes(
    folder: Path, tmp_path: Path, workers: Sequence[Worker]
) -> None:
    """X6.2: they say that they are to be restarted; a truncated backup is refused, and changes nothing."""
    short = tmp_path / "short.db"
    short.write_bytes((tmp_path / "backup.db").read_bytes())
    for part in (0.5, 0):
        cut(short, part)
        done = run_forked("restore", str(short), "--data-dir", str(folder), text=True, timeout=60)
        assert done.returncode != 0
        assert "backup" in done.stderr
    assert [worker.ask(f"write still{number}") for number, worker in enumerate(workers)] == ["done"] * PROCESSES
    restore(folder, tmp_path / "backup.db", "now")
    refuse_all(workers, "moved")
    late = Worker(folder)
    assert late.answer() == "open"
    assert late.ask("write late") == "done"
    assert [worker.end() for worker in workers] == [0] * PROCESSES
    assert late.ask("write later") == "done"
    assert late.ask("read") == str(600 + 2)
    assert late.end() == 0
    assert not note_of(folder / "memory.db").exists()
