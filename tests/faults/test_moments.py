"""A PostgreSQL that goes back to a moment, and an index of Chroma's that knew what came later (docs/runbook.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from benchmarks.postgres_clusters import PATIENCE_SECONDS, Cluster, owner_of
from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import RecallRequest

SUBJECTS = "gauge ferry tide printer crane lamp rope anchor buoy ladder winch radar".split()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's user may enter, which pytest's own are not."""
    with TemporaryDirectory(prefix="moments-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def wait_for(cluster: Cluster, question: str) -> None:
    """Wait until a question is answered by true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with suppress(psycopg.OperationalError):
            if cluster.ask(question) == [(True,)]:
                return
        assert time.monotonic() < deadline, question
        time.sleep(0.1)


def store(app: App, when: str) -> None:
    made = [NewRecord(text=f"The {subject} was checked {when}, by somebody from pier 4.") for subject in SUBJECTS]
    app.remember(made, app.caller())


def found(app: App) -> list[list[tuple[object, object]]]:
    """Ids and scores of what is found for some questions, without those of words alone."""
    asked = [RecallRequest(query=f"who looked at the {subject}?", limit=10, explain=True) for subject in SUBJECTS]
    return [[(each["id"], each["score"]) for each in app.recall(request, app.caller()).results] for request in asked]


def leave_backup(app: App, one: Cluster, two: Cluster) -> str:
    """Store before a base backup, before a moment and after it; end the server, and return the moment."""
    store(app, "before the backup")
    two.copy(one)
    store(app, "before the moment")
    ((moment,),) = one.ask("SELECT now()::text")
    wait_for(one, f"SELECT now() > '{moment}'::timestamptz + interval '10 ms'")
    store(app, "too late")
    assert app.index.settle(PATIENCE_SECONDS)
    app.close()
    ((last,),) = one.ask("SELECT pg_walfile_name(pg_switch_wal())")
    wait_for(one, f"SELECT last_archived_wal >= '{last}' FROM pg_stat_archiver")
    one.kill()
    return moment


@pytest.mark.rounds
def test_after_a_restore_to_a_moment_no_result_is_of_what_came_later(
    open_memory: Callable[..., App], folder: Path
) -> None:
    """M2.3: the index is put right by its keys, and a server that builds its own finds the same."""
    archive = folder / "archive"
    owner_of(archive)
    one = Cluster(folder / "one", {"archive_mode": "on", "archive_command": f"cp %p {archive}/%f"})
    two = Cluster(folder / "two")
    try:
        one.create()
        one.start()
        app = open_memory(folder="servers", database_url=one.url, semantic_store="chroma")
        app.index.start()
        two.go_to(leave_backup(app, one, two), archive)
        two.start()
        wait_for(two, "SELECT NOT pg_is_in_recovery()")
        texts = [text for (text,) in two.ask("SELECT text FROM records")]
        assert len(texts) == 2 * len(SUBJECTS)
        assert not any("too late" in text for text in texts)

        back = open_memory(folder="servers", database_url=two.url, semantic_store="chroma")
        assert "wrong" in {finding.state for finding in back.examine(repair=False)}
        assert "repaired" in {finding.state for finding in back.examine(repair=True)}
        assert "wrong" not in {finding.state for finding in back.examine(repair=False)}
        store(back, "afterwards")
        back.index.start()
        assert back.index.settle(PATIENCE_SECONDS)
        fresh = open_memory(folder="another server", database_url=two.url, semantic_store="exact")
        assert found(back) == found(fresh)
    finally:
        one.kill()
        two.kill()
