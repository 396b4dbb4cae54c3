"""The database file under everything that can happen to a file."""

import contextlib
import os
import re
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import LASTING_KINDS, NewRecord
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.errors import SchemaTooNew, StoreUnavailable
from mcp_memory.ports.records import RecordOrder
from mcp_memory.stores.records import sql_files, store
from mcp_memory.stores.records.data_folder import linux_mounts, network_file_system
from mcp_memory.stores.records.database import Parameters
from mcp_memory.stores.records.database_sqlite import IDLE_READERS, SqliteDatabase
from mcp_memory.stores.records.schema_sqlite import migrations
from mcp_memory.stores.records.store import _OF_PARTITION
from mcp_memory.stores.records.where_clause import where_clauses
from tests.forked import ForkedProcess

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions and no setuid")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "data")
    yield opened
    opened.close()


def change(database: SqliteDatabase, value: str) -> None:
    with database.write() as connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('note', ?)", (value,))


def note(database: SqliteDatabase) -> str | None:
    with database.read() as connection:
        row = connection.execute("SELECT value FROM meta WHERE name = 'note'").fetchone()
    return row and row["value"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_only_the_owner_may_read_what_is_stored(tmp_path: Path) -> None:
    """S4.3: directory 0700, file, log and shared memory 0600, whatever the umask."""
    before = os.umask(0)
    try:
        database = SqliteDatabase(tmp_path / "deep" / "data")
        change(database, "x")
        modes = {path.name: mode(path) for path in (tmp_path / "deep" / "data").iterdir()}
    finally:
        os.umask(before)
    assert mode(tmp_path / "deep" / "data") == 0o700
    assert modes == {"memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600}
    database.close()


def test_whoever_is_late_finds_a_closed_store_unavailable_and_opens_it_no_more(tmp_path: Path) -> None:
    """S1.1: as a step of upkeep; another process may own the memory by then."""
    database = SqliteDatabase(tmp_path / "data")
    database.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        note(database)
    with pytest.raises(StoreUnavailable, match="closed"):
        change(database, "late")
    assert not [each for each in psutil.Process().open_files() if each.path.startswith(str(tmp_path))]


def test_who_is_amid_a_read_when_the_store_is_closed_is_told_so(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "data")

    def close_amid() -> None:
        with database.read() as connection:
            database.close()
            connection.close()
            connection.execute("SELECT 1")

    with pytest.raises(StoreUnavailable, match="closed"):
        close_amid()


@posix
def test_a_store_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    """S4.3: also where an earlier version, or a copy, left it open."""
    SqliteDatabase(tmp_path / "data").close()
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "data" / "memory.db").chmod(0o644)
    database = SqliteDatabase(tmp_path / "data")
    change(database, "x")
    assert mode(tmp_path / "data") == 0o700
    assert {mode(path) for path in (tmp_path / "data").iterdir()} == {0o600}
    database.close()


@posix
def test_a_directory_with_other_things_in_it_keeps_its_mode(tmp_path: Path) -> None:
    """S4.3: a home directory named by mistake is not locked up."""
    (tmp_path / "home").mkdir(mode=0o755)
    (tmp_path / "home" / "notes.txt").write_text("mine")
    SqliteDatabase(tmp_path / "home").close()
    assert mode(tmp_path / "home") == 0o755
    assert mode(tmp_path / "home" / "memory.db") == 0o600


def test_a_new_store_has_every_migration_applied_once(tmp_path: Path) -> None:
    """S2.3: opening again changes nothing."""
    database = SqliteDatabase(tmp_path)
    change(database, "kept")
    database.close()
    again = SqliteDatabase(tmp_path)
    with again.read() as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == len(migrations()) == again.schema_version
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert note(again) == "kept"
    again.close()


def test_a_migration_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    """S2.1: creating is one transaction; an empty file is as good as none."""
    tmp_path.joinpath("memory.db").touch()
    database = SqliteDatabase(tmp_path)
    change(database, "x")
    assert note(database) == "x"
    database.close()


def test_a_newer_schema_is_left_untouched(tmp_path: Path) -> None:
    """S2.3: opening a store from the future says to update, and writes nothing."""
    SqliteDatabase(tmp_path).close()
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(SchemaTooNew, match="update mcp-memory"):
        SqliteDatabase(tmp_path)
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 999
    connection.close()


def test_a_draft_of_the_first_schema_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """S2.3: it has the number of the first, but words where that has terms; nothing of it is touched."""
    path = tmp_path / "memory.db"
    draft = sqlite3.connect(path, isolation_level=None)
    draft.executescript(
        """
        PRAGMA journal_mode = WAL;
        CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE sequence (value INTEGER NOT NULL);
        INSERT INTO sequence VALUES (0);
        CREATE TABLE records (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL);
        CREATE VIRTUAL TABLE words USING fts5 (terms);
        PRAGMA user_version = 1;
        """
    )
    draft.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match=r"before its first release.*MCP_MEMORY_DATA_DIR to a new folder"):
        SqliteDatabase(tmp_path)
    assert path.read_bytes() == before
    path.rename(tmp_path / "draft.db")
    SqliteDatabase(tmp_path).close()


def test_a_store_migrated_meanwhile_by_a_newer_version_refuses_every_transaction(database: SqliteDatabase) -> None:
    """S2.3, G1.2: what is being read meanwhile is read to its end; nothing is lost."""
    change(database, "before")
    with closing(sqlite3.connect(database.path, isolation_level=None)) as newer:
        with database.snapshot():
            newer.execute("PRAGMA user_version = 999")
            assert note(database) == "before"
        for _ in range(2):
            for attempt in (lambda: change(database, "after"), lambda: note(database), database.pin):
                with pytest.raises(SchemaTooNew, match="Nothing was changed"):
                    attempt()
        newer.execute(f"PRAGMA user_version = {len(migrations())}")
    assert note(database) == "before"


def damage(path: Path, kind: str) -> bytes:
    data = path.read_bytes()
    if kind == "no database":
        data = b"This is a letter to my aunt.\n" * 1000
    elif kind == "cut in the middle":
        data = data[: len(data) // 2 // 4096 * 4096]
    elif kind == "overwritten inside":
        data = data[:4096] + os.urandom(len(data) - 4096)
    path.write_bytes(data)
    return data


@pytest.mark.parametrize("kind", ["no database", "cut in the middle", "overwritten inside"])
def test_a_damaged_file_is_reported_and_left_as_it_is(tmp_path: Path, kind: str) -> None:
    """S2.3: the message names the remedy; not one byte of what may be saved is touched."""
    database = SqliteDatabase(tmp_path)
    with database.write() as connection:
        connection.executemany("INSERT INTO meta VALUES (?, ?)", [(str(n), "x" * 500) for n in range(500)])
    database.close()
    data = damage(tmp_path / "memory.db", kind)
    with pytest.raises(StoreUnavailable, match=r"damaged and was left as it is.*backup"):
        open_read_and_write(tmp_path)
    assert (tmp_path / "memory.db").read_bytes() == data


def test_a_text_that_is_no_text_is_damage_and_a_wrong_statement_is_not(database: SqliteDatabase) -> None:
    """S2.3."""
    with database.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('note', CAST(x'ff' AS TEXT))")
    with pytest.raises(StoreUnavailable, match=r"damaged and was left as it is.*backup"):
        note(database)
    with pytest.raises(sqlite3.OperationalError, match="no such table"), database.read() as connection:
        connection.execute("SELECT * FROM nothing_of_this_name")


def open_read_and_write(folder: Path) -> None:
    damaged = SqliteDatabase(folder)
    try:
        with damaged.read() as connection:
            connection.execute("SELECT * FROM meta").fetchall()
        change(damaged, "x")
    finally:
        damaged.close()


AS_ANOTHER_USER = """
    import os, sys
    from pathlib import Path
    from mcp_memory.errors import StoreUnavailable
    import psutil  # Before the change of user, who may not be let near the libraries.
    from mcp_memory.stores.records.database_sqlite import SqliteDatabase
    from mcp_memory.stores.records.schema_sqlite import migrations
    migrations()
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        SqliteDatabase(Path(sys.argv[1]))
    except StoreUnavailable as error:
        print(error)
"""


def in_a_child(script: str, *arguments: str, through: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*through, sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@posix
@pytest.mark.parametrize("content", ["nothing", "a store"])
def test_a_directory_that_may_not_be_written_is_named_with_the_remedy(tmp_path: Path, content: str) -> None:
    """S2.3: run as a user whom permission bits bind, also where root runs the tests."""
    # Not in tmp_path: the folders above it admit nobody else.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "data"
        folder.mkdir()
        if content == "a store":
            SqliteDatabase(folder).close()
        folder.chmod(0o555)
        for path in folder.iterdir():
            path.chmod(0o444)
        child = in_a_child(AS_ANOTHER_USER, str(folder))
        folder.chmod(0o755)
    assert child.returncode == 0, child.stderr
    assert re.search(r"may not be written; .*MCP_MEMORY_DATA_DIR", child.stdout), child.stdout


FULL_DISK = """
    import sys
    from pathlib import Path
    from mcp_memory.errors import StoreUnavailable
    from mcp_memory.stores.records.database_sqlite import SqliteDatabase
    folder = Path(sys.argv[1])
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 200_000)
    database = SqliteDatabase(folder / "data")
    stored = 0
    try:
        while stored < 1000:
            with database.write() as connection:
                connection.execute("INSERT INTO meta VALUES (?, ?)", (str(stored), "x" * 10_000))
            stored += 1
    except StoreUnavailable as error:
        print(error)
    def count():
        with database.read() as connection:
            return connection.execute("SELECT count(*) FROM meta").fetchone()[0]
    assert 0 < stored < 1000
    assert count() == stored, (count(), stored)
    ballast.unlink()
    {free}
    with database.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('again', 'x')")
    assert count() == stored + 1
    database.close()
    database = SqliteDatabase(folder / "data")
    with database.read() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert count() == stored + 1
    print("went on")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of its own, as only Linux lets any user do")
def test_a_full_disk_stores_nothing_says_so_and_is_used_again_once_there_is_room(tmp_path: Path) -> None:
    """S2.3: on a file system of 2 MB, in a mount name space of the child's own."""
    mount = 'mount -t tmpfs -o size=2m none "$0" && exec "$@"'
    through = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(tmp_path)]
    if subprocess.run([*through, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody mount a small file system (unshare --map-root-user --mount)")
    child = in_a_child(FULL_DISK.format(free=""), str(tmp_path), through=through)
    assert child.returncode == 0, child.stderr
    assert "is full; free space and call again." in child.stdout
    assert child.stdout.endswith("went on\n")


@posix
def test_a_file_that_may_not_grow_is_reported_and_grows_again_once_it_may(tmp_path: Path) -> None:
    """S2.3: a limit on file size, such as a quota, is met like a full disk."""
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);" + (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, resource.RLIM_INFINITY))\n"
    )
    freed = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)"
    child = in_a_child(limited + textwrap.dedent(FULL_DISK.format(free=freed)), str(tmp_path))
    assert child.returncode == 0, child.stderr
    assert re.search(r"full", child.stdout)
    assert child.stdout.endswith("went on\n")


@dataclass(frozen=True)
class Mounted:
    mountpoint: str
    fstype: str
    opts: str = "rw"


MOUNTS = [
    Mounted("/", "ext4"),
    Mounted("/home", "nfs4"),
    Mounted("/home/local", "xfs"),
    Mounted("/mnt/share", "autofs"),
    Mounted("/mnt/share", "CIFS"),
    Mounted("/mnt/over", "nfs"),
    Mounted("/mnt/over", "tmpfs"),
    Mounted("/odd", "strange", "rw,remote"),
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/memory", None),
        ("/home/bo/memory", "nfs4"),
        ("/homework", None),
        ("/home/local/bo", None),
        ("/mnt/share/x", "CIFS"),
        ("/mnt/over/x", None),
        ("/odd/x", "strange"),
    ],
)
def test_the_file_system_that_holds_a_path_is_recognised(path: str, kind: str | None) -> None:
    """S2.3: locks over a network can lose writes; the deepest mount, and the last upon one point, decides."""
    assert network_file_system(Path(path), MOUNTS) == kind


@pytest.mark.skipif(sys.platform != "linux", reason="lists mounts as Linux does")
def test_what_linux_mounts_is_read_as_psutil_reads_it() -> None:
    listed = os.fsdecode(Path("/proc/self/mounts").read_bytes())
    assert [(each.mountpoint, each.fstype, each.opts) for each in linux_mounts(listed)] == [
        (each.mountpoint, each.fstype, each.opts) for each in psutil.disk_partitions(all=True)
    ]


def test_a_mount_point_may_hold_blanks() -> None:
    """S2.3: Linux escapes them, and its own escape."""
    mounts = linux_mounts("host:/x /mnt/my\\040big\\011\\134disk\\043 nfs4 rw,remote 0 0\n")
    assert [each.mountpoint for each in mounts] == ["/mnt/my big\t\\disk#"]
    assert network_file_system(Path("/mnt/my big\t\\disk#/memory"), mounts) == "nfs4"


def test_nothing_mounted_is_nothing_against_it() -> None:
    """S2.3: where mounts cannot be listed, the store opens."""
    assert network_file_system(Path("/x"), []) is None


def test_processes_may_create_the_same_store_at_once(tmp_path: Path) -> None:
    """S1.1: four agents start at the same moment on a new machine, twenty times."""
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from mcp_memory.stores.records.database_sqlite import SqliteDatabase
        for line in sys.stdin:
            database = SqliteDatabase(Path(line.strip()))
            with database.write() as connection:
                connection.execute("INSERT INTO meta VALUES (?, '')", (sys.argv[1],))
            database.close()
            print("done", flush=True)
    """)
    children = [
        ForkedProcess(
            str(number), code=script, **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE), text=True
        )
        for number in range(4)
    ]
    for turn in range(20):
        folder = tmp_path / f"data{turn}"
        for child in children:
            assert child.stdin is not None
            child.stdin.write(f"{folder}\n")
            child.stdin.flush()
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "done\n", child.communicate()[1]
        database = SqliteDatabase(folder)
        with database.read() as connection:
            assert connection.execute("SELECT count(*) FROM meta").fetchone()[0] == 4
        database.close()
    for child in children:
        child.communicate()
        assert child.returncode == 0


def test_readers_at_once_leave_but_a_few_connections_behind(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1.1: connections do not pile up, neither after a crowd of readers nor after threads that ended."""
    opened: list[sqlite3.Connection] = []
    connect = database._connect  # noqa: SLF001 - others in this process have theirs

    def noted() -> sqlite3.Connection:
        opened.append(connect())
        return opened[-1]

    def is_open(connection: sqlite3.Connection) -> bool:
        with contextlib.suppress(sqlite3.ProgrammingError):
            return connection.total_changes >= 0
        return False

    monkeypatch.setattr(database, "_connect", noted)
    started = threading.Barrier(31)

    def read() -> None:
        with database.read() as connection:
            connection.execute("SELECT 1").fetchone()
            started.wait()

    threads = [threading.Thread(target=read) for _ in range(30)]
    for thread in threads:
        thread.start()
    started.wait()
    for thread in threads:
        thread.join()
    change(database, "x")
    assert len(opened) >= 30 - IDLE_READERS
    assert sum(map(is_open, opened)) <= IDLE_READERS


def test_a_reader_cannot_write(database: SqliteDatabase) -> None:
    """S2.1: only the connection that checks the schema and takes the lock writes."""
    with pytest.raises(StoreUnavailable), database.read() as connection:
        connection.execute("INSERT INTO meta VALUES ('x', '')")
    change(database, "still works")
    assert note(database) == "still works"


def test_two_statements_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one in the later file would win unsaid."""
    (tmp_path / "sql").mkdir()
    for name in ("a.sql", "b.sql"):
        (tmp_path / "sql" / name).write_text("-- Queries.\n\n-- name: one\nSELECT 1;\n", "utf-8")
    monkeypatch.setattr(sql_files, "files", lambda *_: tmp_path)  # pyrefly: ignore[implicit-any-lambda] - whatever is asked for
    with pytest.raises(KeyError, match="'one'"):
        sql_files._all_statements.__wrapped__()  # noqa: SLF001


@pytest.mark.parametrize("name", ["mentions_of", "statements_about", "dependents_shown", "predecessors"])
def test_rows_that_were_found_are_not_looked_for_among_a_session_s(tmp_path: Path, name: str) -> None:
    """Each would be compared with each of thousands."""
    parts, given = where_clauses(RecordFilter(scopes=("shared/here",), session_id="s"))
    sql = sql_files.statement(name, **parts)
    asked = dict.fromkeys(re.findall(r":(\w+)", sql)) | given
    database = SqliteDatabase(tmp_path)
    with database.read() as connection:
        plan = [str(row["detail"]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", asked)]
    database.close()
    assert not [step for step in plan if "rowid=?" in step and "SEARCH r " in step]


@pytest.mark.parametrize("order", ["created", "occurred"])
def test_a_listing_looks_for_the_lines_of_a_session_once(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch, order: RecordOrder
) -> None:
    """It did so for each scope and kind."""
    app = open_memory()
    me = app.caller("s")
    made = app.remember([NewRecord(text=text, kind="fact") for text in ("One.", "Two.")], me)
    where = RecordFilter(scopes=me.scopes, kinds=LASTING_KINDS, session_id="s")
    asked: list[str] = []
    rows = SqliteDatabase.rows

    def noted(self: SqliteDatabase, name: str, parameters: Parameters = (), /, **parts: str) -> list[Any]:
        asked.append(sql_files.statement(name, **parts))
        return rows(self, name, parameters, **parts)

    monkeypatch.setattr(SqliteDatabase, "rows", noted)
    assert len(where.scopes) > 1
    assert list(app.records.list_ids(where, order, 5)) == [each.id for each in reversed(made)]
    assert len([sql for sql in asked if ":session_id" in sql]) == 1


@pytest.mark.parametrize("looked_at", [1, 3, 2_000])
def test_the_latest_are_the_same_wherever_they_are_looked_for_first(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    """U1.2: at the end of the table, which others write to as well; else among all."""
    app = open_memory()
    ours = app.remember([NewRecord(text=text, kind="fact") for text in ("One.", "Two.", "Three.")], app.caller())
    theirs = replace(app.caller(), agent="bob")
    app.remember([NewRecord(text="Four.", kind="fact", visibility="private")], theirs)
    monkeypatch.setattr(store, "LATEST_ROWS", looked_at)
    where = RecordFilter(scopes=app.caller().scopes, kinds=frozenset({"fact"}))
    ids = [each.id for each in reversed(ours)]
    for most in (1, 2, 3, 9):
        assert list(app.records.list_ids(where, "created", most)) == ids[:most]


def test_the_rows_of_a_partition_are_read_once(tmp_path: Path) -> None:
    """M5.1: they lie far apart; of nine statements that load its indexes one needs more than the index by partition."""
    names = ("index_scopes", "index_partition_vectors", "index_terms", "index_places", "index_mentions",
             "index_aliases", "index_relations", "index_columns")  # fmt: skip
    database = SqliteDatabase(tmp_path)
    visiting: list[str] = []
    with database.read() as connection:
        for name in names:
            sql = sql_files.statement(name, **_OF_PARTITION)
            plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", dict.fromkeys(re.findall(r":(\w+)", sql)))
            steps = [str(row["detail"]) for row in plan]
            assert [step for step in steps if "SEARCH r USING" in step and "INDEX records_by_partition" in step], name
            visiting += [name] * (not any("COVERING INDEX records_by_partition" in step for step in steps))
    database.close()
    assert visiting == ["index_columns"]
