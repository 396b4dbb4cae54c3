"""Hooks as the client runs them: processes of their own, one for each event, beside the agent's server."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.settings import load_settings
from tests.e2e.hook_session import PATIENCE_SECONDS, SESSION, Ran, Session

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

PORT = "The staging database listens on port 6543."
HURRIED = """\
import sys
from mcp_memory.bridge import hook
from mcp_memory.entrypoints.owner.client_start import run_hook
hook.SECONDS = dict.fromkeys(hook.SECONDS, 1.0)
run_hook(sys.argv[2], {})
"""
"""The same with little time: nobody waits for ten seconds to see a deadline."""


def push_task(data_dir: Path, goal: str) -> None:
    """As the agent's server does, without waiting for one to start."""
    with closing(open_app(load_settings(data_dir=data_dir, namespace="test"))) as app:
        app.tasks.push(PushRequest(goal=goal), app.caller())


@pytest.fixture
def session(tmp_path: Path, environment: dict[str, str]) -> Session:
    return Session(tmp_path, environment)


def test_a_session_is_given_what_it_needs_and_loses_nothing(session: Session, tmp_path: Path) -> None:
    """S7.2: context at the start, at prompts and after a compaction; the log; a checkpoint; the client's summary."""
    # Another process, as the agent's server is: in a session that nobody named.
    with closing(open_app(load_settings(data_dir=tmp_path / "data", namespace="test"))) as server:
        me = server.caller()
        server.remember([NewRecord(text="Exports are CSV in UTF-8.", kind="decision")], me)
        server.tasks.push(PushRequest(goal="Let customers export invoices"), me)
        assert ": Let customers export invoices" in session.hook("SessionStart", source="startup").context

        server.remember([NewRecord(text=PORT)], me)
        asked = {"prompt": "On which port does the staging database listen?"}
        assert PORT in session.hook("UserPromptSubmit", **asked).context
        assert session.hook("UserPromptSubmit", **asked) == Ran(code=0, out=b"", err=b"")

        session.say("u1", "user", "Read the rows from the replica, and write exports/writer.py for it.")
        session.say("u2", "assistant", [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}])
        assert session.hook("PostToolUse") == Ran(code=0, out=b"", err=b"")
        session.say("u3", "user", [{"type": "tool_result", "tool_use_id": "c1", "content": "writer.py"}])

        assert session.hook("PreCompact", trigger="auto").out.decode().endswith('"Let customers export invoices".')
        assert session.hook("PostCompact", compact_summary="The writer reads the replica.").code == 0
        after = session.hook("SessionStart", source="compact").context
        for part in ("compacted just now", ": Let customers export invoices", "exports/writer.py", "Its summaries: r0"):
            assert part in after, (part, after)
        assert PORT in after

        assert session.hook("SessionEnd", reason="other") == Ran(code=0, out=b"", err=b"")
        found = server.recall(RecallRequest(session_id=SESSION, limit=20), me).results
        assert sorted(str(one["kind"]) for one in found) == ["event", "message", "summary", "tool_call", "tool_result"]


def garbled(session: Session) -> Ran:
    return session.run(b"\xff{", "SessionStart")


def said_nothing(session: Session) -> Ran:
    return session.run(b"", "UserPromptSubmit")


def unknown(session: Session) -> Ran:
    return session.run(b"{}", "NoSuchHook")


def unnamed(session: Session) -> Ran:
    return session.run(b"{}")


def without_transcript(session: Session) -> Ran:
    return session.hook("Stop")


def damaged(session: Session) -> Ran:
    data = Path(session.environment["MCP_MEMORY_DATA_DIR"])
    data.mkdir()
    (data / "memory.db").write_bytes(b"no database" * 1_000)
    return session.hook("SessionStart", source="startup")


def from_the_future(session: Session) -> Ran:
    data = Path(session.environment["MCP_MEMORY_DATA_DIR"])
    data.mkdir()
    with closing(sqlite3.connect(data / "memory.db")) as database:
        database.execute("PRAGMA user_version = 9999")
    return session.hook("UserPromptSubmit", prompt="Which port?")


def data_in_the_way(session: Session) -> Ran:
    Path(session.environment["MCP_MEMORY_DATA_DIR"]).write_text("a file", "utf-8")
    session.say("u1", "user", "Which port?")
    return session.hook("Stop")


def refused_setting(session: Session) -> Ran:
    session.environment["MCP_MEMORY_HOOK_MAX_TOKENS"] = "many"
    return session.hook("SessionStart", source="startup")


@pytest.mark.parametrize(
    "breakage",
    [
        garbled, said_nothing, unknown, unnamed, without_transcript, damaged, from_the_future, data_in_the_way,
        refused_setting,
    ],
)  # fmt: skip
def test_nothing_that_goes_wrong_is_seen_by_the_session(session: Session, breakage: Callable[[Session], Ran]) -> None:
    """S7.2: exit code 0, nothing on stdout, one line on stderr."""
    ran = breakage(session)
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err.startswith(b"mcp-memory hook ")
    assert ran.err.endswith(b"\n")
    assert ran.err.count(b"\n") == 1


def test_a_defect_of_ours_is_a_line_too(session: Session) -> None:
    broken = """\
import sys
from mcp_memory.entrypoints.hooks import events
from mcp_memory.entrypoints.owner.client_start import run_hook
def act(hook): raise AssertionError("a\\nremembered\\ntext")
events.HOOKS = {"Stop": act}
run_hook(sys.argv[2], {})
"""
    ran = session.run(b'{"session_id": "s"}', "Stop", code=broken)
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err == b"mcp-memory hook Stop: AssertionError; `mcp-memory doctor` looks for what is wrong.\n"


def test_a_hook_ends_in_time_where_the_store_is_locked(session: Session, tmp_path: Path) -> None:
    """S7.2. A session's end is not waited for: what is left over is no failure."""
    push_task(tmp_path / "data", "Find the port")
    session.say("u1", "user", "Which port?")
    payload = json.dumps({"session_id": SESSION, "transcript_path": str(session.transcript)}).encode()
    with closing(sqlite3.connect(tmp_path / "data" / "memory.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        late = b"mcp-memory hook Stop: it took too long, and was ended; what was stored stays.\n"
        assert session.run(payload, "Stop", code=HURRIED) == Ran(code=0, out=b"", err=late)
        assert session.run(payload, "SessionEnd", code=HURRIED) == Ran(code=0, out=b"", err=b"")
        failures = (tmp_path / "data" / "hooks" / "failures").read_text()
        assert re.fullmatch(r"\d+ Stop\n", failures), "what people are told of it on the page"
        other.execute("ROLLBACK")
        session.hook("Stop")
        assert other.execute("SELECT text FROM records").fetchall() == [("Which port?",)]


def test_an_input_that_never_ends_is_not_waited_for(session: Session) -> None:
    command = [sys.executable, "-c", HURRIED, "hook", "Stop"]
    hook = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=session.environment
    )
    try:
        assert hook.wait(PATIENCE_SECONDS) == 0
    finally:
        hook.kill()
        for stream in (hook.stdin, hook.stdout, hook.stderr):
            assert stream
            stream.close()


def test_what_it_prints_is_utf8_whatever_the_console(session: Session, tmp_path: Path) -> None:
    """S5.2."""
    push_task(tmp_path / "data", "Zürich → 東京 🚄")
    narrow = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    payload = json.dumps({"session_id": SESSION, "source": "startup"}).encode()
    told = session.run(payload, "PreCompact", **narrow)
    assert told.out.decode("utf-8").endswith('"Zürich → 東京 🚄".')
    assert "Zürich → 東京 🚄" in session.run(payload, "SessionStart", **narrow).context


def test_another_clients_event_is_answered_in_its_own_form(session: Session, tmp_path: Path) -> None:
    """By the memory's owner, as Claude Code's; a second process for the same event ends at once."""
    push_task(tmp_path / "data", "Ship the export")
    payload = {"conversation_id": SESSION, "workspace_roots": [str(tmp_path)], "transcript_path": None}
    told = session.run(json.dumps(payload).encode(), "SessionStart", "--client", "cursor")
    assert "Ship the export" in json.loads(told.out)["additional_context"]
    assert session.run(json.dumps(payload).encode(), "SessionStart", "--client", "cursor").out == b""


@pytest.mark.skipif(os.name == "nt", reason="there is no /dev/full")
def test_nobody_there_to_read_is_no_failure(
    session: Session, start_server: "Callable[..., ServerProcess]", tmp_path: Path
) -> None:
    start_server(tmp_path / "data").call("push_task", goal="Find the port")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mcp_memory", "hook", "SessionStart"],
            input=b'{"session_id": "s", "source": "startup"}',
            stdout=full,
            stderr=full,
            env=session.environment,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 0


def test_options_before_and_behind_the_name_are_taken(session: Session, tmp_path: Path) -> None:
    session.say("u1", "user", "Which port?")
    payload = json.dumps({"session_id": SESSION, "transcript_path": str(session.transcript)}).encode()
    ran = session.run(payload, "Stop", "--data-dir", str(tmp_path / "elsewhere"), "--namespace", "other")
    assert ran == Ran(code=0, out=b"", err=b"")
    assert (tmp_path / "elsewhere" / "memory.db").exists()
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "elsewhere" / "chroma").exists(), "no hook starts an index"
