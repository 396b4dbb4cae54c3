"""Hooks that the memory's owner answers (L3.1), which they start where there is none."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from mcp_memory.bridge import door, hook, private_sockets
from tests.e2e.hook_session import PATIENCE_SECONDS, SESSION, Ran, Session

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")

PORT = "The staging database listens on port 6543."
ASKED = "On which port does the staging database listen?"
Start = Callable[..., "ServerProcess"]


class Window(Session):
    """A session, and the owner that its hooks ask."""

    def ask(self, name: str, **payload: Any) -> Ran:
        told = {"session_id": SESSION, "transcript_path": str(self.transcript), "cwd": str(self.folder), **payload}
        return self.run(json.dumps(told).encode(), name)

    @property
    def data_dir(self) -> str:
        return self.environment["MCP_MEMORY_DATA_DIR"]

    @property
    def live(self) -> Path:
        return Path(self.data_dir) / private_sockets.FOLDER

    def owner(self) -> int:
        """The id of the process that owns the memory."""
        return int(str(door.owner_of(self.data_dir)["pid"]))

    def address(self) -> str:
        """Where the owner listens."""
        return private_sockets.address(self.data_dir, private_sockets.open_private(self.data_dir), door.SOCKET)


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


def test_a_served_session_is_given_each_thing_once_and_logged_whole(knowing: "ServerProcess", window: Window) -> None:
    assert PORT in window.ask("SessionStart", source="startup").context
    assert window.ask("UserPromptSubmit", prompt=ASKED) == Ran(code=0, out=b"", err=b"")
    assert PORT in window.ask("UserPromptSubmit", session_id="another", prompt=ASKED).context
    window.say("u1", "user", "Which port?")
    assert window.ask("PostToolUse") == Ran(code=0, out=b"", err=b"")
    window.say("u2", "assistant", "It is 6543.")
    window.ask("Stop")
    window.ask("Stop")
    found = knowing.call("recall", session_id=SESSION, kinds=["message"])["structuredContent"]["results"]
    assert sorted(one["text"] for one in found) == ["It is 6543.", "Which port?"]


def test_a_sessions_end_is_handed_over(knowing: "ServerProcess", window: Window) -> None:
    window.say("u1", "user", "Good night.")
    assert window.ask("SessionEnd") == Ran(code=0, out=b"", err=b"")
    eventually(lambda: knowing.call("recall", session_id=SESSION, kinds=["message"])["structuredContent"]["results"])


def test_a_sessions_end_without_an_owner_starts_one(start_server: Start, window: Window, tmp_path: Path) -> None:
    window.say("u1", "user", "Good night.")
    assert window.ask("SessionEnd") == Ran(code=0, out=b"", err=b"")
    eventually((tmp_path / "data" / "memory.db").exists)
    server = start_server(tmp_path / "data")
    eventually(lambda: server.call("recall", session_id=SESSION, kinds=["message"])["structuredContent"]["results"])


def test_hooks_that_only_read_begin_no_memory(window: Window, tmp_path: Path) -> None:
    for name, payload in (("SessionStart", {"source": "startup"}), ("UserPromptSubmit", {"prompt": ASKED})):
        assert window.ask(name, **payload) == Ran(code=0, out=b"", err=b"")
    assert not (tmp_path / "data" / "memory.db").exists()


def test_of_a_killed_owner_nothing_stays_in_the_way(knowing: "ServerProcess", window: Window) -> None:
    killed = psutil.Process(window.owner())
    killed.kill()
    killed.wait(10)
    assert PORT in window.ask("UserPromptSubmit", prompt=ASKED).context
    assert window.owner() != killed.pid
    assert knowing.call("recall", query=ASKED)["structuredContent"]["results"]


def test_an_owner_that_stands_still_holds_no_prompt_up_for_long(knowing: "ServerProcess", window: Window) -> None:
    """And nobody else opens the memory; what was asked meanwhile was given to nobody, and so is not taken for known."""
    owned = psutil.Process(window.owner())
    owned.suspend()
    try:
        ran = window.ask("UserPromptSubmit", prompt=ASKED)
    finally:
        owned.resume()
    assert (ran.code, ran.out) == (0, b"")
    assert re.search(b"does not answer|took too long", ran.err)
    assert PORT in window.ask("UserPromptSubmit", prompt=f"Again: {ASKED}").context
    assert window.owner() == owned.pid
    assert knowing.process.poll() is None


def test_a_hook_has_budgets_of_its_own(knowing: "ServerProcess", window: Window) -> None:
    """As its settings have them now, in the file too."""
    assert PORT in window.ask("UserPromptSubmit", prompt=ASKED).context
    window.environment["MCP_MEMORY_HOOK_PROMPT_MAX_TOKENS"] = "0"
    assert window.ask("UserPromptSubmit", prompt=f"Again: {ASKED}") == Ran(code=0, out=b"", err=b"")
    del window.environment["MCP_MEMORY_HOOK_PROMPT_MAX_TOKENS"]
    Path(window.environment["MCP_MEMORY_CONFIG"]).write_text("hook_prompt_max_tokens = 0\n", "utf-8")
    assert window.ask("UserPromptSubmit", prompt=f"Once more: {ASKED}") == Ran(code=0, out=b"", err=b"")
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
    assert told == window.ask("UserPromptSubmit", session_id="another", prompt=ASKED)


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
    assert len(os.fsencode(window.live / door.SOCKET)) > 108
    assert PORT in window.ask("UserPromptSubmit", prompt=ASKED).context


def test_a_folder_that_others_may_look_into_is_closed_to_them(
    knowing: "ServerProcess", start_server: Start, window: Window, tmp_path: Path
) -> None:
    window.live.chmod(0o755)
    assert PORT in window.ask("UserPromptSubmit", prompt=ASKED).context
    start_server(tmp_path / "data")
    assert window.live.stat().st_mode & 0o777 == 0o700
    assert knowing.process.poll() is None


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


@pytest.mark.parametrize("said", [b"", b"x", door.HERE, door.HERE + b"osome text, but not all"])
def test_who_only_sits_at_an_owners_place_is_not_believed(window: Window, said: bytes) -> None:
    """It has the lock, and says half a word to each client."""
    claimed = door.Door.claim(window.data_dir)
    assert claimed is not None
    Path(window.data_dir, "memory.db").touch()
    heard: list[bytes] = []
    with socket.socket(fileno=os.dup(claimed.descriptors[1])) as listener:
        answering = threading.Thread(target=say, args=(listener, said, heard))
        answering.start()
        ran = window.ask("UserPromptSubmit", prompt=ASKED)
        listener.shutdown(socket.SHUT_RDWR)
        answering.join()
    claimed.pass_on()
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err.startswith(b"mcp-memory hook UserPromptSubmit: ")
    assert heard


def say(listener: socket.socket, said: bytes, heard: list[bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            heard.append(connection.recv(65_536))
            connection.sendall(said)


def test_what_is_no_question_and_what_is_too_long_harms_no_owner(knowing: "ServerProcess", window: Window) -> None:
    for raw in (
        b"",
        b"Stop\n",
        b'{"kind": "hook"}\n',
        b'{"kind": "hook", "name": "Stop", "size": "x"}\n',
        b'{"kind": "hook", "name": "Stop", "size": 10}\n{}',
        b'{"kind": "hook", "name": "Stop", "size": 2}\n{}',
    ):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client, contextlib.suppress(OSError):
            client.connect(window.address())
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65_536):
                pass
    long = {"session_id": "s", "transcript_path": "", "tool_response": "x" * hook.MOST_BYTES}
    assert b"more than 16 MiB" in window.run(json.dumps(long).encode(), "PostToolUse").err
    assert PORT in window.ask("UserPromptSubmit", prompt=ASKED).context
    assert knowing.call("recall", query=ASKED)["structuredContent"]["results"]


def test_hooks_that_say_nothing_keep_no_place_for_ever(knowing: "ServerProcess", window: Window) -> None:
    with contextlib.ExitStack() as silent:
        for _ in range(3):
            client = silent.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            client.connect(window.address())
        assert PORT in window.ask("UserPromptSubmit", prompt=ASKED).context
    assert knowing.process.poll() is None


def test_a_hook_that_asks_imports_nearly_nothing() -> None:
    script = (
        "import sys\n"
        "from mcp_memory.__main__ import main\n"
        "from mcp_memory.bridge import hook\n"
        "slow = {'asyncio', 'dataclasses', 'inspect', 'logging', 'pathlib', 'platformdirs', 'pydantic', 'sqlite3',"
        " 'subprocess', 'tomllib'}\n"
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
