"""The lock that makes a memory's one owner, and the socket by which its clients arrive."""

import contextlib
import getpass
import json
import os
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

from mcp_memory.bridge import door, private_sockets
from mcp_memory.bridge.door import FAREWELL, HERE, OWN_BUILD, Door, connect, greet, owner_of, refusal
from mcp_memory.errors import StoreUnavailable
from tests.forked import run_forked

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")


@pytest.fixture
def data_dir(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def claimed(data_dir: str) -> Door:
    """The door, open."""
    taken = Door.claim(data_dir)
    assert taken is not None
    taken.open()
    return taken


def test_one_owns_and_the_next_when_it_is_released(data_dir: str) -> None:
    first = claimed(data_dir)
    assert Door.claim(data_dir) is None
    first.close()
    assert first.next_arrival() is None
    assert Door.claim(data_dir) is None
    first.release()
    second = claimed(data_dir)
    second.release()
    second.release()
    with pytest.raises(OSError, match=r"such file|refused"):
        connect(data_dir)


def test_only_one_of_many_that_claim_at_once_owns(data_dir: str) -> None:
    for _ in range(20):
        won: list[Door] = []
        ready = threading.Barrier(6)

        def claim(won: list[Door] = won, ready: threading.Barrier = ready) -> None:
            ready.wait()
            if taken := Door.claim(data_dir):
                won.append(taken)

        threads = [threading.Thread(target=claim) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        won[0].open()
        won[0].release()


def test_who_owns_it_is_told(data_dir: str) -> None:
    assert owner_of(data_dir) == {}
    owned = claimed(data_dir)
    assert owner_of(data_dir)["pid"] == os.getpid()
    assert abs(float(str(owner_of(data_dir)["since"])) - time.time()) < 60
    owned.release()
    assert owner_of(data_dir) == {}


def test_a_client_is_heard_once_it_has_said_who_it_is(data_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says nothing, or too much, keeps nobody waiting for long."""
    monkeypatch.setattr(door, "PATIENCE_SECONDS", 0.2)
    owned = claimed(data_dir)
    with connect(data_dir), connect(data_dir) as endless, connect(data_dir) as client:
        endless.settimeout(10)
        endless.sendall(b"x" * (door.MOST_HELLO_BYTES + 1))
        client.settimeout(10)
        client.sendall(b"it is")
        client.sendall(b" me\n")
        assert client.recv(len(HERE)) == HERE
        arrived = owned.next_arrival()
        assert arrived is not None
        assert arrived.hello == b"it is me\n"
        with contextlib.suppress(ConnectionResetError):  # It was left with what it had said.
            assert endless.recv(1) == b""
        arrived.connection.close()
    owned.release()


def test_who_says_its_first_words_a_byte_at_a_time_is_left_in_time(
    data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an owner that refuses everybody would wait for it, and keep the memory."""
    monkeypatch.setattr(door, "PATIENCE_SECONDS", 0.3)
    owned = claimed(data_dir)
    until = time.monotonic() + 20
    with connect(data_dir) as slow, contextlib.suppress(ConnectionError):
        while True:
            assert time.monotonic() < until
            slow.sendall(b" ")
            time.sleep(0.05)
    owned.close()
    assert owned.next_arrival() is None
    owned.release()


def test_what_a_client_says_first_is_its_kind_and_where_it_works(data_dir: str) -> None:
    owned = claimed(data_dir)
    with greet(data_dir, "window", {"folder": "/here", "given": {}}, session="s1"):
        arrived = owned.next_arrival()
        assert arrived is not None
        said = json.loads(arrived.hello)
        assert (said["kind"], said["folder"], said["session"]) == ("window", "/here", "s1")
        assert said["build"] == list(door.build())
        arrived.connection.close()
    owned.release()


def test_an_owner_that_does_not_hear_is_told_from_one_that_is_not_there(
    data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(FileNotFoundError):
        greet(data_dir, "window", {})
    taken = Door.claim(data_dir)
    assert taken is not None
    with pytest.raises(TimeoutError):
        greet(data_dir, "window", {})
    taken.open()
    taken.release()
    with pytest.raises(ConnectionRefusedError):
        greet(data_dir, "window", {})


def test_what_a_killed_owner_left_is_used_by_the_next(data_dir: str) -> None:
    folder = Path(data_dir, private_sockets.FOLDER)
    folder.mkdir(mode=0o700, parents=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / door.SOCKET))
    (folder / door.ABOUT).write_text('{"pid": 1}', "utf-8")
    owned = claimed(data_dir)
    assert owner_of(data_dir)["pid"] == os.getpid()
    owned.release()


def test_where_there_can_be_no_socket_the_memory_is_one_process_s_alone(data_dir: str) -> None:
    folder = Path(data_dir, private_sockets.FOLDER)
    (folder / door.SOCKET).mkdir(parents=True)
    owned = claimed(data_dir)
    assert not owned.is_reachable
    assert Door.claim(data_dir) is None
    with pytest.raises(StoreUnavailable, match=rf"pid {os.getpid()}\) serves its own client alone"):
        greet(data_dir, "window", {})
    owned.close()
    assert owned.next_arrival() is None
    owned.release()
    (folder / door.SOCKET).rmdir()
    claimed(data_dir).release()


def test_a_process_that_may_make_no_socket_is_told_so_beside_an_owner(
    data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = claimed(data_dir)

    def forbid(*_given: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", forbid)
        with pytest.raises(StoreUnavailable, match="lets this process make no socket"):
            greet(data_dir, "window", {})
    owned.release()


@pytest.mark.parametrize("in_place", ["file", "link"])
def test_what_stands_in_place_of_its_folder_is_named_and_the_memory_left_free(data_dir: str, in_place: str) -> None:
    folder = Path(data_dir, private_sockets.FOLDER)
    folder.parent.mkdir()
    if in_place == "file":
        folder.touch()
    else:
        (folder.parent / "other").mkdir(0o700)
        folder.symlink_to(folder.parent / "other")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=rf"{folder} is no folder; move it away"):
            Door.claim(data_dir)
    folder.unlink()
    claimed(data_dir).release()


def test_another_user_is_told_whose_the_folder_is(data_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is owned, and while it is not."""
    name, owned = getpass.getuser(), claimed(data_dir)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 12_345)
        assert Door.claim(data_dir) is None
        with pytest.raises(StoreUnavailable, match=f"/live is of the user {name}, "):
            greet(data_dir, "window", {})
        owned.release()
        with pytest.raises(StoreUnavailable, match=f"/live is of the user {name}, "):
            Door.claim(data_dir)
    claimed(data_dir).release()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the super-user may open anything")
def test_a_folder_that_may_not_be_opened_is_named(data_dir: str) -> None:
    Path(data_dir).mkdir(0o000)
    with pytest.raises(StoreUnavailable, match=rf"{data_dir}: "):
        Door.claim(data_dir)


@pytest.mark.parametrize("deleted", [door.ABOUT, door.SOCKET, ""])
def test_nobody_else_owns_the_memory_whatever_of_its_files_is_deleted(data_dir: str, deleted: str) -> None:
    """The owner may stand still meanwhile, and find out only when it goes on."""
    owned = claimed(data_dir)
    if deleted:
        Path(data_dir, private_sockets.FOLDER, deleted).unlink()
    else:
        shutil.rmtree(Path(data_dir, private_sockets.FOLDER))
    assert Door.claim(data_dir) is None
    assert owned.is_held == (deleted == door.ABOUT)
    owned.release()
    claimed(data_dir).release()


def test_an_owner_learns_that_its_socket_is_anothers(data_dir: str) -> None:
    owned, path = claimed(data_dir), Path(data_dir, private_sockets.FOLDER, door.SOCKET)
    path.unlink()
    path.touch()
    assert not owned.is_held
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        assert not owned.is_held
    owned.release()


def test_an_owner_that_gets_no_thread_for_a_client_is_not_found_any_more(
    data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be waited for by everybody: the limits are those of the client that started it."""
    owned, start = claimed(data_dir), threading.Thread.start

    def start_one(thread: threading.Thread) -> None:
        if thread.name == "arrival":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_one)
        assert owned.is_held
        with pytest.raises(ConnectionError):
            greet(data_dir, "window", {})
    assert not owned.is_held
    owned.close()
    assert owned.next_arrival() is None
    owned.release()


LIMITED = """
import json, os, resource, sys
from mcp_memory.bridge.door import Door
from mcp_memory.bridge.owner_start import start

limits = resource.RLIMIT_NOFILE, resource.RLIMIT_AS
for limit in limits:
    resource.setrlimit(limit, (2**40 if limit == resource.RLIMIT_AS else 100, resource.getrlimit(limit)[1]))

def own(door, data_dir, chosen):
    with open(data_dir + "/begun", "x") as file:
        json.dump([resource.getrlimit(limit) for limit in limits], file)
    os.rename(data_dir + "/begun", data_dir + "/limits")

assert start(Door.claim(sys.argv[1]), sys.argv[1], {}, own)
"""


def test_an_owner_has_what_the_limits_of_its_first_client_leave_it(data_dir: str) -> None:
    run_forked(data_dir, code=LIMITED, timeout=60, check=True)
    told, until = Path(data_dir, "limits"), time.monotonic() + 20
    while not told.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    for soft, hard in json.loads(told.read_text("utf-8")):
        assert soft == hard


def test_an_owner_that_can_say_nothing_of_itself_serves_all_the_same(data_dir: str) -> None:
    Path(data_dir, private_sockets.FOLDER, door.ABOUT).mkdir(parents=True)
    owned = claimed(data_dir)
    with connect(data_dir):
        assert owner_of(data_dir) == {}
        assert not private_sockets.is_free(data_dir)
    owned.release()


def test_a_folder_that_others_may_look_into_is_closed_to_them(data_dir: str) -> None:
    folder = Path(data_dir, private_sockets.FOLDER)
    folder.mkdir(mode=0o755, parents=True)
    owned = claimed(data_dir)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    connect(data_dir).close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert owned.is_held
    owned.release()


def test_an_owner_learns_that_its_folder_is_gone(data_dir: str) -> None:
    owned = claimed(data_dir)
    assert owned.is_held
    Path(data_dir).rename(f"{data_dir}-gone")
    assert not owned.is_held
    other = claimed(data_dir)
    assert not owned.is_held
    assert other.is_held
    owned.release()
    assert other.is_held
    other.release()


def test_whoever_arrives_may_be_refused_with_a_sentence(data_dir: str) -> None:
    owned = claimed(data_dir)
    with connect(data_dir) as client:
        client.sendall(b"{}\n")
        assert client.recv(len(HERE)) == HERE
        client.sendall(b"a hook's input, which nobody reads")
        owned.close()
        owned.refuse_all("Not today,\nnor tomorrow.")
        assert client.recv(100) == refusal("Not today, nor tomorrow.")
        assert client.recv(1) == b""
    owned.release()


def test_a_window_of_a_later_build_is_refused_nothing_that_its_own_owner_may_do(data_dir: str) -> None:
    owned = claimed(data_dir)
    with connect(data_dir) as client:
        hello = {"kind": "window", "build": [*OWN_BUILD[:-1], OWN_BUILD[-1] + 1]}
        client.sendall(json.dumps(hello).encode() + b"\n")
        assert client.recv(len(HERE)) == HERE
        owned.close()
        owned.refuse_all("This memory is of a later version.")
        assert client.recv(100) == FAREWELL
        assert client.recv(1) == b""
    owned.release()


WITHOUT_FILES = """
import contextlib, os, resource, socket, sys, time
from mcp_memory.bridge.door import FAREWELL, HERE, OWN_BUILD, SOCKET, Door

owned = Door.claim(sys.argv[1])
owned.open()
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
client, taken = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), []
resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 20, most))
with contextlib.suppress(OSError):
    while True:
        taken.append(os.dup(0))
client.connect(os.path.join(sys.argv[1], "live", SOCKET))  # For this one the owner has taken a file before.
client.sendall(b"hello\\n")
time.sleep(0.5)
for each in taken:
    os.close(each)
client.settimeout(10)
print(client.recv(100) == HERE, Door.claim(sys.argv[1]) is None, flush=True)
os._exit(0)
"""


def test_where_files_have_run_out_clients_wait_at_the_door(data_dir: str) -> None:
    """In a process of its own: no other thread may take or leave a file meanwhile."""
    assert run_forked(data_dir, code=WITHOUT_FILES, timeout=60).stdout == b"True True\n"
