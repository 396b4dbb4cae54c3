"""PostgreSQL on loopback: a primary and its sudden death, a standby beside it, and a pooler before them."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import psycopg
from psycopg.rows import dict_row

PATIENCE_SECONDS = 60.0
PROGRAMS = "POSTGRES_PROGRAMS"
"""Names a folder with PostgreSQL's programs to use, e.g. /usr/lib/postgresql/15/bin, in the environment."""
_DEBIAN = Path("/usr/lib/postgresql")
_ACCOUNT = "embedded_postgres"
STANDBY = "standby"
"""The name by which a standby asks for the log."""
_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "max_connections": "150",
    "max_wal_size": "512MB",
    "wal_keep_size": "256MB",
    # In its own folder, which is deleted: of what is killed, segments of the system's would stay until the next boot.
    "dynamic_shared_memory_type": "mmap",
}


def programs() -> Path:
    """Return the folder of PostgreSQL's programs: the one that is named, else the package's, else Debian's newest."""
    if named := os.environ.get(PROGRAMS):
        return Path(named)
    try:
        with warnings.catch_warnings():  # It looks for a folder of the user's session, and says that there is none.
            warnings.simplefilter("ignore")
            from embedded_postgres._commands import POSTGRES_BIN_PATH
    except ImportError:
        return max(_DEBIAN.glob("*/bin"), key=lambda each: int(each.parent.name))
    return POSTGRES_BIN_PATH


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def owner_of(folder: Path) -> Mapping[str, Any]:
    """Make the folder, and return the account that owns it, as `Popen` takes it: servers refuse to run as root."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        return {}
    import pwd

    try:
        account = pwd.getpwnam(_ACCOUNT)
    except KeyError:
        subprocess.run(["useradd", _ACCOUNT], check=True)
        account = pwd.getpwnam(_ACCOUNT)
    for parent in folder.parents:  # A folder for temporary files may be its user's alone.
        if not (mode := parent.stat().st_mode) & stat.S_IXOTH:
            parent.chmod(mode | stat.S_IXGRP | stat.S_IXOTH)
    os.chown(folder, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


class Cluster:
    """One PostgreSQL server in a folder of its own, on a loopback port of its own."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """Prepare the folder, which is made where it is not there; `create` or `follow` fills it."""
        self.port = free_port()
        self.data = folder / "data"
        self._programs = programs()
        self._settings = {**_SETTINGS, **settings}
        self._log = folder / "log"
        self._user = owner_of(folder)
        self._process: subprocess.Popen[Any] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{self.address}/postgres"

    def create(self) -> None:
        """Make an empty cluster."""
        self._run(
            "initdb", "--no-sync", "--pgdata", self.data, "--auth=trust", "--encoding=utf8", "--username=postgres"
        )

    def follow(self, primary: Cluster) -> None:
        """Make a copy of the primary that follows it, in place of what was here; start it next."""
        self.copy(primary, "-R")
        # The copy has the primary's settings: once promoted, it would wait for ever for a standby of that name.
        with (self.data / "postgresql.auto.conf").open("a") as settings:
            settings.write("synchronous_standby_names = ''\n")

    def copy(self, source: Cluster, *options: str) -> None:
        """Make a base backup of a cluster that runs, in place of what was here."""
        shutil.rmtree(self.data, ignore_errors=True)
        address = f"host=127.0.0.1 port={source.port} user=postgres application_name={STANDBY}"
        self._run("pg_basebackup", "-D", self.data, "-d", address, "-X", "stream", "-c", "fast", "-N", *options)

    def go_to(self, moment: str, archive: Path) -> None:
        """Make the next start of a base backup replay an archive up to a moment, and take writes then."""
        settings = {
            "restore_command": f"cp {archive}/%f %p",
            "recovery_target_time": moment,
            "recovery_target_action": "promote",
        }
        with (self.data / "postgresql.auto.conf").open("a") as kept:
            kept.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        (self.data / "recovery.signal").touch()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.data), "-p", str(self.port), *settings]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.data, text=False, **self._user)
        self._process = process
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.ask("SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return

    def wait_for_standby(self, *, synchronous: bool) -> None:
        """Ask for a synchronous standby or none, and wait until the standby follows so."""
        self.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY if synchronous else ''}'")
        self.ask("SELECT pg_reload_conf()")
        wanted, deadline = ("sync" if synchronous else "async"), time.monotonic() + PATIENCE_SECONDS
        while [(wanted,)] != self.ask("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {wanted} standby of {self.address}; look at {self._log}")
            time.sleep(0.05)

    def promote(self) -> None:
        self.ask("SELECT pg_promote(wait => true)")

    def kill(self) -> None:
        """Kill the server and all its children, at once."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                postmaster = psutil.Process(self._process.pid)
                for process in (postmaster, *postmaster.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def ask(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Return what a statement answers, outside of any transaction."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **self._user)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr[-500:]}")


class Pooler:
    """PgBouncer on loopback before a cluster, in transaction mode: a connection goes on after each transaction."""

    def __init__(self, folder: Path, port: int, connections: int) -> None:
        """Prepare a pooler of so many connections to the cluster on that port. Raises FileNotFoundError without it."""
        self.port = free_port()
        self._program = pooler_program()
        if self._program is None:
            raise FileNotFoundError("pgbouncer is not installed (apt-get install pgbouncer)")
        self._folder = folder
        self._user = owner_of(folder)
        self._process: subprocess.Popen[Any] | None = None
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": folder / "users",
            "admin_users": "postgres",
            "pool_mode": "transaction",
            "default_pool_size": connections,
            "max_client_conn": 1_000,
            "server_round_robin": 1,  # Two transactions of one client go over two connections, where there are two.
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        databases = f"[databases]\n* = host=127.0.0.1 port={port}\n"
        (folder / "users").write_text('"postgres" ""\n', "utf-8")
        (folder / "settings").write_text("\n".join([databases, "[pgbouncer]", *lines, ""]), "utf-8")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(self._program), str(self._folder / "settings")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", text=False, **self._user)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.ask("SHOW VERSION")
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def ask(self, question: str) -> Sequence[dict[str, Any]]:
        """Return what its console answers, e.g. to "SHOW STATS"."""
        with psycopg.connect(self.address("pgbouncer"), autocommit=True, connect_timeout=10) as connection:
            connection.prepare_threshold = None
            cursor = psycopg.ClientCursor(connection, row_factory=dict_row)
            return cursor.execute(question.encode()).fetchall()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None


def pooler_program() -> str | None:
    """Return where PgBouncer is; None where it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")


def address_of(clusters: Sequence[Cluster]) -> str:
    """Return the address that names all hosts and asks for the one that takes writes."""
    hosts = ",".join(cluster.address for cluster in clusters)
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
