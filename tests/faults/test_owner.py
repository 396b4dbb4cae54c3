"""What hinders the one process that owns a memory: its files, its working directory, and what others say to it."""

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from mcp_memory.bridge import door, private_sockets
from mcp_memory.bridge.door import Door, owner_of
from mcp_memory.bridge.owner_start import LOG_FILE
from mcp_memory.locations import as_told
from tests.e2e.conftest import HANDSHAKE, server_environment
from tests.forked import run_forked

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")

Start = Callable[..., "ServerProcess"]
PORT = "The staging database listens on port 6543."
WITHOUT_SOCKETS = """
import socket
def forbid(*given, **named):
    raise PermissionError(1, "Operation not permitted")
socket.socket.bind = forbid
from mcp_memory.__main__ import main
main()
"""
WITHOUT_FOLDER = """
import os
os.mkdir({folder!r})
os.chdir({folder!r})
os.rmdir({folder!r})
from mcp_memory.__main__ import main
main()
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def holders(data_dir: Path) -> set[int]:
    """The processes that have the database open."""
    found: set[int] = set()
    for process in psutil.process_iter():
        try:
            files = [each.path for each in process.open_files()]
        except psutil.Error:
            continue
        found |= {process.pid} if str(data_dir / "memory.db") in files else set()
    return found


def said(answer: dict[str, Any]) -> str:
    assert not answer.get("isError"), answer
    return answer["content"][0]["text"]


def run(data_dir: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code of a command, and what it complained of."""
    ended = run_forked(*arguments, env=server_environment(data_dir) | variables, timeout=60)
    return ended.returncode, ended.stderr.decode()


def test_a_window_that_may_make_no_socket_keeps_the_memory_to_itself(data_dir: Path, start: Start) -> None:
    """O1.1: who comes second is told why, and opens nothing: a window, a command, a hook."""
    one = start(data_dir, code=WITHOUT_SOCKETS)
    one.call("remember", text=PORT)
    assert holders(data_dir) == {one.process.pid}
    sentence = f"(pid {one.process.pid}) serves its own client alone"
    for arguments in ((), ("list",), ("stop",)):
        code, told = run(data_dir, *arguments)
        assert (code, sentence in told, "Traceback" in told) == (1, True, False), told
    code, told = run(data_dir, "hook", "UserPromptSubmit")
    assert (code, sentence in told) == (0, True)
    assert PORT in said(one.call("recall", query="staging database port"))
    one.close_input()
    one.process.wait(20)
    assert start(data_dir).call("recall", query="staging database port")


def test_a_folder_that_is_none_is_refused_to_windows_commands_and_hooks(data_dir: Path) -> None:
    data_dir.mkdir(0o700)
    (data_dir / private_sockets.FOLDER).touch()
    (data_dir / "memory.db").touch()
    for arguments in ((), ("list",), ("hook", "UserPromptSubmit")):
        code, told = run(data_dir, *arguments)
        assert f"{data_dir / private_sockets.FOLDER} is no folder" in told
        assert (code, "Traceback" in told) == (0 if "hook" in arguments else 1, False)
    assert not holders(data_dir)


def test_nobody_opens_the_memory_while_its_owner_stands_still_without_its_files(data_dir: Path, start: Start) -> None:
    """O1.4."""
    one = start(data_dir)
    one.call("remember", text=PORT)
    owned = one.owner
    owned.suspend()
    try:
        shutil.rmtree(data_dir / private_sockets.FOLDER)
        two = start(data_dir, handshake=False)
        hello = two.send_request("initialize", HANDSHAKE)
        time.sleep(2)
        assert holders(data_dir) == {owned.pid}
    finally:
        owned.resume()
    assert two.result_of(hello)
    owned.wait(20)
    assert PORT in said(one.call("recall", query="staging database port"))


@pytest.mark.parametrize("in_place", ["link", "folder"])
def test_an_owner_without_a_log_serves_its_clients(data_dir: Path, start: Start, in_place: str) -> None:
    log = data_dir / private_sockets.FOLDER / LOG_FILE
    log.parent.mkdir(0o700, parents=True)
    if in_place == "link":
        log.symlink_to(os.devnull)
    else:
        log.mkdir()
    window = start(data_dir)
    window.call("remember", text=PORT)
    assert window.owner.pid != window.process.pid
    shutil.rmtree(log) if in_place == "folder" else log.unlink()


def test_an_owner_whose_socket_was_replaced_makes_place_for_one_that_is_found(data_dir: Path, start: Start) -> None:
    one = start(data_dir)
    owned = one.owner
    path = data_dir / private_sockets.FOLDER / door.SOCKET
    path.unlink()
    path.touch()
    owned.wait(20)
    assert start(data_dir).call("remember", text=PORT)
    assert PORT in said(one.call("recall", query="staging database port"))


def test_a_window_begins_no_empty_memory_where_its_folder_was_moved(data_dir: Path, start: Start) -> None:
    """It goes on once the folder is back; a new window at the new path has the memory, and is its one holder."""
    one = start(data_dir)
    one.call("remember", text=PORT)
    owned, moved = one.owner, data_dir.with_name("moved")
    data_dir.rename(moved)
    two = start(moved)
    assert PORT in said(two.call("recall", query="staging database port"))
    assert holders(moved) <= {two.owner.pid}
    owned.wait(20)
    refused = one.send_request("tools/call", {"name": "recall", "arguments": {"query": "staging database port"}})
    answer = json.loads(one.lines.next())
    assert (answer["id"], "was moved, deleted or replaced" in answer["error"]["message"]) == (refused, True)
    assert not data_dir.exists()
    two.stop()
    moved.rename(data_dir)
    assert PORT in said(one.call("recall", query="staging database port"))


def test_stop_says_in_a_sentence_that_an_owner_stands_still(data_dir: Path, start: Start) -> None:
    owned = start(data_dir).owner
    owned.suspend()
    try:
        code, told = run(data_dir, "stop")
    finally:
        owned.resume()
    assert (code, f"(pid {owned.pid}) does not answer" in told, "Traceback" in told) == (1, True, False), told


@pytest.mark.parametrize("namespace", ["test", ""])
def test_where_the_working_directory_is_gone_calls_are_answered(
    data_dir: Path, tmp_path: Path, start: Start, namespace: str
) -> None:
    code = WITHOUT_FOLDER.format(folder=str(tmp_path / "gone"))
    # One that imports where there is no folder, and one that has everything imported.
    started: dict[str, Any] = {"command": (sys.executable, "-c", code)} if namespace else {"code": code}
    window = start(data_dir, {"MCP_MEMORY_NAMESPACE": namespace}, **started)
    answer = window.call("remember", text=PORT)
    if namespace:
        assert PORT in said(window.call("recall", query="staging database port"))
    else:
        assert answer["isError"]
        assert "The working directory is gone" in answer["content"][0]["text"]
    assert window.owner.pid != window.process.pid


class Impostor:
    """An owner between two others, which says what it is told to, and ends without having read a word."""

    def __init__(self, data_dir: Path, window: "ServerProcess") -> None:
        self._data_dir = data_dir
        self._window = window

    def serve(self, words: bytes) -> None:
        """Kill the owner, and be the next to which the window comes."""
        os.kill(self._window.process.pid, signal.SIGSTOP)
        owned = self._window.owner
        owned.kill()
        owned.wait(10)
        taken = Door.claim(str(self._data_dir))
        assert taken is not None
        taken.open()
        os.kill(self._window.process.pid, signal.SIGCONT)
        arrived = taken.next_arrival()
        assert arrived is not None
        with arrived.connection:
            arrived.connection.sendall(words)
            time.sleep(0.5 if words else 0)
        taken.release()


def test_an_owner_that_has_read_nothing_of_a_call_is_not_its_second(data_dir: Path, start: Start) -> None:
    """The call is done once by the third."""
    window = start(data_dir)
    window.call("remember", text="The pump is old.")
    window.owner.suspend()
    number = window.send_request("tools/call", {"name": "remember", "arguments": {"text": PORT}})
    time.sleep(0.3)
    Impostor(data_dir, window).serve(b"")
    assert window.result_of(number)
    found = window.call("recall", query="staging database port")["structuredContent"]["results"]
    assert [each["text"] for each in found].count(PORT) == 1


def test_what_is_no_text_or_no_word_that_a_window_knows_ends_none(data_dir: Path, start: Start) -> None:
    window = start(data_dir)
    window.call("push_task", goal="Mend the pump")
    Impostor(data_dir, window).serve(door.PLACE + b"\xff\xfe\n" + b"\0x\n" + b"\0\n")
    assert window.call("remember", text=PORT)
    assert window.lines.is_empty


def test_a_window_leaves_the_memory_to_a_later_build_that_it_was_told_of(data_dir: Path, start: Start) -> None:
    """For a while: where none comes, it starts an owner as ever."""
    window = start(data_dir)
    window.call("push_task", goal="Mend the pump")
    Impostor(data_dir, window).serve(door.LATER)
    number = window.send_request("tools/call", {"name": "recall", "arguments": {"query": "pump"}})
    until = time.monotonic() + door.YIELD_SECONDS - 2
    while time.monotonic() < until:
        assert private_sockets.is_free(str(data_dir))
        time.sleep(0.1)
    assert "Mend the pump" in said(window.result_of(number)) or window.owner


def test_windows_of_an_earlier_build_are_told_of_a_later_one(
    data_dir: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = start(data_dir)
    version, at = door.OWN_BUILD[:-1], door.OWN_BUILD[-1]
    for build, told in (((*version, at - 1), b"\0later\n"), ((), b"\0here\n")):
        monkeypatch.setattr(door, "OWN_BUILD", build)
        monkeypatch.setattr(door, "build", lambda build=build: build)
        hello = as_told({"data_dir": data_dir, "namespace": "test"}) | {"folder": str(data_dir)}
        # A window of its own each: the last one may not have been missed yet.
        with door.greet(str(data_dir), "window", hello, session=f"window {len(told)}", place=None) as connection:
            assert connection.recv(len(told)) == told
    monkeypatch.setattr(door, "OWN_BUILD", (*version, at + 1))
    monkeypatch.setattr(door, "build", lambda: (*version, at + 1))
    owned = window.owner
    door.greet(str(data_dir), "hook", hello, name="Stop", size=0).close()
    owned.wait(20)


@pytest.fixture
def owned(data_dir: Path, start: Start) -> Iterator["ServerProcess"]:
    window = start(data_dir)
    window.call("remember", text=PORT)
    yield window
    assert owner_of(str(data_dir))


def test_the_client_of_a_command_ends_no_owner(data_dir: Path, owned: "ServerProcess") -> None:
    """It is interrupted before the command has said its first word, or gives what no command takes."""
    before = owned.owner
    for content in (b"{}", b'{"as_json": true, "limit": 5, "offset": 0}', b"[]", b"null"):
        told = as_told({"data_dir": data_dir, "namespace": "test", "noted_days": "3"}) | {"folder": str(data_dir)}
        told |= {"name": "list_records", "encodings": ["utf-8"] * 3, "screen": {}, "size": len(content)}
        with door.greet(str(data_dir), "command", told) as client:
            null = os.open(os.devnull, os.O_RDWR)
            socket.send_fds(client, [b"\n"], [null] * 3)
            os.close(null)
            client.sendall(content)
            client.shutdown(socket.SHUT_WR)
            client.settimeout(20)
            while client.recv(100):
                pass
    assert PORT in said(owned.call("recall", query="staging database port"))
    assert owned.owner == before
    assert json.loads(run_forked("list", "--json", env=server_environment(data_dir), check=True).stdout)
