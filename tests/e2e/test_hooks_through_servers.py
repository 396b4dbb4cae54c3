"""Hooks that a running server answers (L3.1): the same answers, and a way of their own wherever it cannot."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.entrypoints.hooks import live_sockets
from mcp_memory.entrypoints.hooks.answering import AT_ONCE
from mcp_memory.entrypoints.server import private_sockets
from tests.e2e.hook_session import PATIENCE_SECONDS, SESSION, Ran, Session

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")

PORT = "The staging database listens on port 6543."
ASKED = "On which port does the staging database listen?"
SERVED = """\
import sys
from mcp_memory.entrypoints.hooks import runner
runner.SECONDS = dict.fromkeys(runner.SECONDS, 60.0)
runner._run_alone = lambda *_: b"alone"
runner.main(sys.argv[2], {})
"""
"""A hook that can only ask."""
ALONE = """\
import sys
from mcp_memory.entrypoints.hooks import runner
runner.SECONDS = dict.fromkeys(runner.SECONDS, 60.0)
runner.ask = lambda *_: None
runner.main(sys.argv[2], {})
"""
"""A hook that asks nobody."""
LEFT_ALONE = Ran(code=0, out=b"alone", err=b"")

Start = Callable[..., "ServerProcess"]


class Window(Session):
    """A session whose hooks ask a server, or do not."""

    def ask(self, name: str, code: str = SERVED, **payload: Any) -> Ran:
        told = {"session_id": SESSION, "transcript_path": str(self.transcript), "cwd": str(self.folder), **payload}
        return self.run(json.dumps(told).encode(), name, code=code)

    @property
    def live(self) -> Path:
        return Path(self.environment["MCP_MEMORY_DATA_DIR"]) / private_sockets.FOLDER

    def sockets(self) -> list[Path]:
        return sorted(self.live.glob(f"*{live_sockets.SUFFIX}"))

    def address(self) -> str:
        """Where the one server listens."""
        (place,) = self.sockets()
        data_dir = str(self.live.parent)
        return private_sockets.address(data_dir, private_sockets.open_private(data_dir), place.name)


@pytest.fixture
def window(tmp_path: Path, environment: dict[str, str]) -> Window:
    return Window(tmp_path, environment)


@pytest.fixture
def knowing(server: "ServerProcess") -> "ServerProcess":
    """A server whose memory holds a few things."""
    server.call("push_task", goal="Let customers export invoices")
    server.call("remember", text=PORT)
    server.call("remember", text="Exports are CSV in UTF-8.", kind="decision")
    return server


@contextlib.contextmanager
def stopped(process: Any) -> Generator[None]:
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def without_ids(told: bytes) -> bytes:
    """Each context has a number of its own."""
    return re.sub(rb'id=\\"c\w+\\"', b"", told)


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("SessionStart", {"source": "startup"}),
        ("SessionStart", {"source": "resume"}),
        ("SessionStart", {"source": "compact"}),
        ("UserPromptSubmit", {"prompt": ASKED}),
        ("UserPromptSubmit", {"prompt": "Write a haiku about the moon."}),
        ("PreCompact", {"trigger": "auto"}),
        ("Stop", {"transcript_path": "/there/is/none.jsonl"}),
        ("Stop", {"session_id": ""}),
    ],
)
def test_an_answer_is_the_same_whoever_gives_it(
    knowing: "ServerProcess", window: Window, tmp_path: Path, name: str, payload: dict[str, str]
) -> None:
    window.say("u1", "user", "Write the rows to exports/writer.py, with port 5433 for the replica.")
    window.ask("PreCompact", ALONE)
    notes = {each: each.read_bytes() for each in (tmp_path / "data" / "hooks").iterdir()}
    served = window.ask(name, **payload)
    for file in (tmp_path / "data" / "hooks").iterdir():
        file.unlink()
    for file, content in notes.items():
        file.write_bytes(content)
    alone = window.ask(name, ALONE, **payload)
    assert without_ids(served.out) == without_ids(alone.out)
    assert (served.code, served.err) == (alone.code, alone.err)
    assert knowing.process.poll() is None


def test_a_served_session_is_given_each_thing_once_and_logged_whole(knowing: "ServerProcess", window: Window) -> None:
    assert PORT in window.ask("SessionStart", source="startup").context
    assert window.ask("UserPromptSubmit", prompt=ASKED) == Ran(code=0, out=b"", err=b"")
    assert PORT in window.ask("UserPromptSubmit", session_id="another", prompt=ASKED).context
    window.say("u1", "user", "Which port?")
    assert window.ask("PostToolUse") == Ran(code=0, out=b"", err=b"")
    window.say("u2", "assistant", "It is 6543.")
    window.ask("Stop")
    window.ask("Stop", ALONE)
    found = knowing.call("recall", session_id=SESSION, kinds=["message"])["structuredContent"]["results"]
    assert sorted(one["text"] for one in found) == ["It is 6543.", "Which port?"]


def test_a_sessions_end_is_handed_over(knowing: "ServerProcess", window: Window) -> None:
    window.say("u1", "user", "Good night.")
    assert window.ask("SessionEnd") == Ran(code=0, out=b"", err=b"")
    eventually(lambda: knowing.call("recall", session_id=SESSION, kinds=["message"])["structuredContent"]["results"])


def test_a_sessions_end_without_a_server_goes_on_behind_it(start_server: Start, window: Window, tmp_path: Path) -> None:
    window.say("u1", "user", "Good night.")
    assert window.ask("SessionEnd", ALONE) == Ran(code=0, out=b"", err=b"")
    eventually((tmp_path / "data" / "memory.db").exists)
    server = start_server(tmp_path / "data")
    eventually(lambda: server.call("recall", session_id=SESSION, kinds=["message"])["structuredContent"]["results"])


def test_of_killed_servers_nothing_stays_and_hooks_go_on(
    knowing: "ServerProcess", start_server: Start, window: Window, tmp_path: Path
) -> None:
    (left,) = window.sockets()
    knowing.process.kill()
    knowing.process.wait()
    assert window.ask("UserPromptSubmit", prompt=ASKED) == LEFT_ALONE
    assert left.exists()
    start_server(tmp_path / "data")
    (anew,) = window.sockets()
    assert anew != left
    assert len(list(window.live.iterdir())) == 4  # A socket for hooks and one for windows, each with its lock.
    assert PORT in window.ask("UserPromptSubmit", prompt=f"Again: {ASKED}").context


def test_a_server_that_ends_takes_its_socket_with_it(server: "ServerProcess", window: Window) -> None:
    assert len(window.sockets()) == 1
    server.close_input()
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert list(window.live.iterdir()) == []
    assert window.ask("Stop") == LEFT_ALONE


def test_of_two_servers_of_one_memory_either_answers(start_server: Start, window: Window, tmp_path: Path) -> None:
    alone = {"MCP_MEMORY_SHARE_SERVER": "false"}
    knowing, second = (start_server(tmp_path / "data", alone) for _ in range(2))
    knowing.call("remember", text=PORT)
    window.environment |= alone
    assert len(window.sockets()) == 2
    for process in (knowing.process, second.process):
        with stopped(process):
            assert PORT in window.ask("UserPromptSubmit", session_id=f"s{process.pid}", prompt=ASKED).context
    with stopped(knowing.process), stopped(second.process):
        assert window.ask("UserPromptSubmit", prompt=ASKED) == LEFT_ALONE
    # What was asked meanwhile was given to nobody, and so is not taken for known.
    assert PORT in window.ask("UserPromptSubmit", prompt=f"Again: {ASKED}").context


def test_a_server_with_other_settings_is_not_asked(knowing: "ServerProcess", window: Window) -> None:
    window.environment["MCP_MEMORY_HOOK_MAX_TOKENS"] = "500"
    assert window.ask("UserPromptSubmit", prompt=ASKED) == LEFT_ALONE
    assert knowing.process.poll() is None


@pytest.mark.parametrize(
    ("other", "finds"),
    [
        ({"MCP_MEMORY_AGENT": "bob"}, True),
        ({"MCP_MEMORY_NAMESPACE": "elsewhere"}, False),
        ({"MCP_MEMORY_SESSION": "monday"}, True),
    ],
)
def test_a_server_answers_under_the_names_of_the_hook(
    knowing: "ServerProcess", window: Window, other: dict[str, str], finds: bool
) -> None:
    knowing.call("remember", text="The staging database's password is kept by ann.", visibility="private")
    window.environment |= other
    told = window.ask("UserPromptSubmit", prompt=ASKED)
    assert (PORT.encode() in told.out) == finds
    assert (b"kept by ann" in told.out) == ("MCP_MEMORY_SESSION" in other)
    assert told == window.ask("UserPromptSubmit", ALONE, session_id="another", prompt=ASKED)


def test_settings_are_read_as_the_file_is_now(knowing: "ServerProcess", window: Window) -> None:
    assert PORT in window.ask("UserPromptSubmit", prompt=ASKED).context
    Path(window.environment["MCP_MEMORY_CONFIG"]).write_text("hook_log = false\n", "utf-8")
    assert window.ask("Stop") == LEFT_ALONE
    assert knowing.process.poll() is None


def test_arguments_and_variables_may_say_the_same(start_server: Start, window: Window, tmp_path: Path) -> None:
    start_server(tmp_path / "data", {"MCP_MEMORY_AGENT": "bob"})
    raw = json.dumps({"session_id": "s", "transcript_path": ""}).encode()
    code = SERVED.replace("{}", '{"agent": "bob", "namespace": None}')
    assert window.run(raw, "Stop", code=code) == Ran(code=0, out=b"", err=b"")


def test_each_folder_has_the_server_of_its_own_memory(start_server: Start, window: Window, tmp_path: Path) -> None:
    """Also where the hook's process works elsewhere: the session's folder counts."""
    unnamed = {"MCP_MEMORY_NAMESPACE": ""}
    window.environment |= unnamed
    for name in ("shop", "bank"):
        (tmp_path / name / ".git").mkdir(parents=True)
        server = start_server(tmp_path / "data", unnamed, folder=tmp_path / name)
        server.call("remember", text=f"The {name} keeps its ledger in Postgres.")
    for name in ("shop", "bank"):
        asked = {"cwd": str(tmp_path / name), "session_id": name, "prompt": "Where is the ledger kept, in Postgres?"}
        told = window.ask("UserPromptSubmit", **asked).context
        assert f"The {name} keeps" in told
        assert told.count("keeps its ledger") == 1
    (tmp_path / "third").mkdir()
    third = window.ask("UserPromptSubmit", cwd=str(tmp_path / "third"), prompt="Where is the ledger?")
    assert third == Ran(code=0, out=b"", err=b"")


def test_in_a_deep_directory_it_works_as_well(start_server: Start, window: Window, tmp_path: Path) -> None:
    if sys.platform == "darwin":
        pytest.skip("the path of a socket has 103 bytes there")
    deep = tmp_path / ("deep" * 30)
    window.environment["MCP_MEMORY_DATA_DIR"] = str(deep)
    config = {"MCP_MEMORY_CONFIG": window.environment["MCP_MEMORY_CONFIG"]}
    start_server(deep, config).call("remember", text=PORT)
    assert len(os.fsencode(window.sockets()[0])) > 108
    assert PORT in window.ask("UserPromptSubmit", prompt=ASKED).context


def test_a_folder_that_others_may_look_into_is_not_used(
    knowing: "ServerProcess", start_server: Start, window: Window, tmp_path: Path
) -> None:
    window.live.chmod(0o755)
    assert window.ask("UserPromptSubmit", prompt=ASKED) == LEFT_ALONE
    start_server(tmp_path / "data")
    assert len(window.sockets()) == 1


def test_sockets_are_their_owners_alone(knowing: "ServerProcess", window: Window) -> None:
    assert window.live.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in window.live.iterdir()} == {0o600}
    assert knowing.process.poll() is None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_is_told_apart(tmp_path: Path) -> None:
    script = (
        "import os, socket, sys\n"
        "os.setuid(65534)\n"
        "one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)\n"
        "one.connect(sys.argv[1])\n"
        "one.recv(1)\n"
    )
    # In a folder that the other user may enter, which pytest's are not.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        path = Path(tempfile.gettempdir(), f"mcp-memory-test-{os.getpid()}-{time.monotonic_ns()}")
        try:
            listener.bind(str(path))
            path.chmod(0o666)
            listener.listen()
            for user, expected in (("65534", False), ("0", True)):
                other = subprocess.Popen([sys.executable, "-I", "-c", script.replace("65534", user), str(path)])
                connection, _ = listener.accept()
                with connection:
                    assert private_sockets.is_same_user(connection) == expected
                assert other.wait(PATIENCE_SECONDS) == 0
        finally:
            path.unlink()


@pytest.mark.parametrize(
    "said", [b"", b"x", b"+", b"+o", b"+osome text, but not all", b"+n\0", b"+" + b"o" * 1_100_000 + b"\0"]
)
def test_who_only_sits_at_a_servers_place_is_not_believed(
    knowing: "ServerProcess", window: Window, said: bytes
) -> None:
    address = window.address()
    knowing.stop()
    window.sockets()[0].unlink()
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        answering = threading.Thread(target=say, args=(listener, said, heard))
        answering.start()
        assert window.ask("UserPromptSubmit", prompt=ASKED) == LEFT_ALONE
        answering.join()
    assert ASKED.encode() in heard[0]


def say(listener: socket.socket, said: bytes, heard: list[bytes]) -> None:
    connection, _ = listener.accept()
    told = b""
    with connection, contextlib.suppress(OSError):
        while part := connection.recv(65_536):
            told += part
        heard.append(told)
        connection.sendall(said)


def test_what_is_no_question_and_what_is_too_long_harms_no_server(knowing: "ServerProcess", window: Window) -> None:
    for raw in (
        b"",
        b"Stop",
        b"\0\0",
        b"Stop\0/\0{",
        b"NoSuch\0/\0{}",
        b"\xff\0\xff\0\xff",
        b"Stop\0" + b"x" * 9_000_000,
    ):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hook, contextlib.suppress(OSError):
            hook.connect(window.address())
            hook.sendall(raw)
            hook.shutdown(socket.SHUT_WR)
            while hook.recv(65_536):
                pass
    long = {"session_id": "s", "transcript_path": "", "tool_response": "x" * live_sockets.MOST_BYTES}
    assert window.run(json.dumps(long).encode(), "PostToolUse", code=SERVED) == LEFT_ALONE
    assert PORT in window.ask("UserPromptSubmit", prompt=ASKED).context
    assert knowing.call("recall", query=ASKED)["structuredContent"]["results"]


def test_hooks_that_say_nothing_keep_no_place_for_ever(knowing: "ServerProcess", window: Window) -> None:
    with contextlib.ExitStack() as silent:
        for _ in range(AT_ONCE):
            hook = silent.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            hook.connect(window.address())
        eventually(lambda: window.ask("UserPromptSubmit", prompt=ASKED) != LEFT_ALONE)
    assert knowing.process.poll() is None


def test_a_hook_that_asks_imports_nearly_nothing() -> None:
    script = (
        "import sys\n"
        "from mcp_memory.__main__ import main\n"
        "from mcp_memory.entrypoints.hooks import runner\n"
        "slow = {'asyncio', 'contextlib', 'dataclasses', 'json', 'logging', 'pathlib', 'platformdirs', 'pydantic',"
        " 're', 'subprocess', 'tomllib', 'typing'}\n"
        "print(sorted(slow & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{script}"],
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().strip() == "[]"


def eventually(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
