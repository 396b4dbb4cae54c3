"""The one process of a memory that serves the windows of the others, and how it is found."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from mcp_memory.entrypoints.hooks.answering import _tidy  # pyright: ignore[reportPrivateUsage]
from mcp_memory.entrypoints.server import lead, private_sockets
from mcp_memory.entrypoints.server.lead import HERE, Lead, connect
from tests.forked import run_forked

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")


@pytest.fixture
def data_dir(tmp_path: Path) -> str:
    return str(tmp_path)


def test_one_leads_and_the_next_when_it_resigns(data_dir: str) -> None:
    first = Lead.claim(data_dir, "memory")
    assert first is not None
    assert Lead.claim(data_dir, "memory") is None
    other = Lead.claim(data_dir, "another")
    assert other is not None
    first.resign()
    assert first.next_arrival() is None
    second = Lead.claim(data_dir, "memory")
    assert second is not None
    for each in (other, second):
        each.resign()
        each.resign()
    assert list(Path(data_dir, private_sockets.FOLDER).iterdir()) == []
    with pytest.raises(OSError, match=r"such file|refused"):
        connect(data_dir, "memory")


def test_only_one_of_many_that_claim_at_once_leads(data_dir: str) -> None:
    for _ in range(20):
        won: list[Lead] = []
        ready = threading.Barrier(6)

        def claim(won: list[Lead] = won, ready: threading.Barrier = ready) -> None:
            ready.wait()
            if taken := Lead.claim(data_dir, "memory"):
                won.append(taken)

        threads = [threading.Thread(target=claim) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        won[0].resign()


def test_a_window_is_heard_once_it_has_said_who_it_is(data_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says nothing, or too much, keeps nobody waiting for long."""
    monkeypatch.setattr(lead, "PATIENCE_SECONDS", 0.2)
    leading = Lead.claim(data_dir, "memory")
    assert leading is not None
    with connect(data_dir, "memory"), connect(data_dir, "memory") as endless, connect(data_dir, "memory") as window:
        endless.sendall(b"x" * (lead.MOST_HELLO_BYTES + 1))
        window.settimeout(10)
        window.sendall(b"it is")
        window.sendall(b" me\n")
        assert window.recv(len(HERE)) == HERE
        arrived = leading.next_arrival()
        assert arrived is not None
        assert arrived[1] == b"it is me\n"
        assert endless.recv(1) == b""
        arrived[0].close()
    leading.resign()


def test_a_lead_that_was_killed_leaves_what_the_next_takes_over(data_dir: str) -> None:
    folder = Path(data_dir, private_sockets.FOLDER)
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / f"memory{lead.SOCKET_SUFFIX}"))
    (folder / f"memory{lead.LOCK_SUFFIX}").touch(0o600)
    leading = Lead.claim(data_dir, "memory")
    assert leading is not None
    leading.resign()


def test_where_there_can_be_no_socket_the_lead_is_left_free(data_dir: str) -> None:
    folder = Path(data_dir, private_sockets.FOLDER)
    (folder / f"memory{lead.SOCKET_SUFFIX}").mkdir(parents=True)
    folder.chmod(0o700)
    with pytest.raises(OSError, match=r"directory|permitted"):
        Lead.claim(data_dir, "memory")
    (folder / f"memory{lead.SOCKET_SUFFIX}").rmdir()
    leading = Lead.claim(data_dir, "memory")
    assert leading is not None
    leading.resign()


def test_a_lead_that_turns_windows_away_keeps_none_of_them(data_dir: str) -> None:
    leading = Lead.claim(data_dir, "memory")
    assert leading is not None
    with connect(data_dir, "memory") as window:
        window.sendall(b"{}\n")
        assert window.recv(len(HERE)) == HERE
        leading.turn_away()
        assert window.recv(1) == b""
    second = Lead.claim(data_dir, "memory")
    assert second is not None
    second.resign()


WITHOUT_FILES = """
import contextlib, os, resource, socket, sys, time
from mcp_memory.entrypoints.server.lead import Lead

leading = Lead.claim(sys.argv[1], "memory")
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
window, taken = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), []
resource.setrlimit(resource.RLIMIT_NOFILE, (window.fileno() + 20, most))
with contextlib.suppress(OSError):
    while True:
        taken.append(os.dup(0))
window.connect(os.path.join(sys.argv[1], "live", "memory.mcp"))  # For this one the lead has taken a file before.
window.sendall(b"hello\\n")
time.sleep(0.5)
for each in taken:
    os.close(each)
print(Lead.claim(sys.argv[1], "memory") is not None, flush=True)
os._exit(0)
"""


def test_a_lead_that_can_let_nobody_in_resigns(data_dir: str) -> None:
    """In a process of its own: no other thread may take or leave a file meanwhile."""
    assert run_forked(data_dir, code=WITHOUT_FILES, timeout=60).stdout == b"True\n"


def test_a_server_that_tidies_up_takes_no_living_lead_for_a_dead_one(data_dir: str) -> None:
    """It may have opened the file of one that has just resigned, whose name is the next one's."""
    folder = Path(data_dir, private_sockets.FOLDER)
    folder.mkdir(0o700)
    place = private_sockets.open_private(data_dir)
    is_over = threading.Event()

    def tidy() -> None:
        while not is_over.is_set():
            _tidy(place)

    thread = threading.Thread(target=tidy)
    thread.start()
    try:
        for _ in range(1_500):
            if leading := Lead.claim(data_dir, "memory"):
                time.sleep(0.001)
                there = (folder / "memory.lead").exists()
                leading.resign()
                assert there
    finally:
        is_over.set()
        thread.join()
        os.close(place)
