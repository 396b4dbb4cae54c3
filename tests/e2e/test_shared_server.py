"""Windows that share the process of the first (L1.2, S1.1): one memory for all, and nothing lost when it ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import mcp_memory
from mcp_memory.entrypoints.server import private_sockets
from tests.e2e.conftest import HANDSHAKE
from tests.e2e.hook_session import Session

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")

Start = Callable[..., "ServerProcess"]
PORT = "The staging database listens on port 6543."


@pytest.fixture
def start(start_server: Start, tmp_path: Path) -> Start:
    """Starts a window of one memory, with further variables, in a folder of its own."""

    def start_one(folder: str = ".", **variables: str) -> "ServerProcess":
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        return start_server(tmp_path / "data", variables, folder=place)

    return start_one


def servers(data_dir: Path) -> int:
    """The processes that have the memory open: each has a socket for hooks while it lives."""
    sockets = list((data_dir / private_sockets.FOLDER).glob("*.sock"))
    return sum(1 for each in sockets if not _is_free(each.with_suffix(".lock")))


def _is_free(lock: Path) -> bool:
    import fcntl

    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def said(answer: dict[str, Any]) -> str:
    """The text of a tool's result."""
    assert not answer.get("isError"), answer
    return answer["content"][0]["text"]


def kill(server: "ServerProcess") -> None:
    server.process.kill()
    server.process.wait()


def stop(server: "ServerProcess") -> None:
    """Let the process stand still, each of its threads: one that is at work stops a moment later."""
    os.kill(server.process.pid, signal.SIGSTOP)
    tasks = list(Path(f"/proc/{server.process.pid}/task").glob("*/stat"))
    until = time.monotonic() + 10
    while any(each.read_text("utf-8").rpartition(")")[2].split()[0] != "T" for each in tasks):
        assert time.monotonic() < until
        time.sleep(0.01)


def read_to(server: "ServerProcess", number: int) -> dict[str, Any]:
    """The answer of that number, an error too."""
    while line := server.lines.next():
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == number:
            return answer
    raise AssertionError(server.log)


def answers_to(server: "ServerProcess", numbers: Sequence[int]) -> list[dict[str, Any]]:
    """The answers of these numbers, in the order in which they come."""
    answers: list[dict[str, Any]] = []
    while len(answers) < len(numbers):
        answer: dict[str, Any] = json.loads(server.lines.next())
        if answer.get("id") in numbers:
            answers.append(answer)
    return answers


def test_windows_of_other_agents_folders_and_projects_share_one_process(start: Start, tmp_path: Path) -> None:
    one = start()
    bob = start("elsewhere", MCP_MEMORY_AGENT="bob")
    other = start(MCP_MEMORY_NAMESPACE="other")
    assert servers(tmp_path / "data") == 1
    one.call("remember", text=PORT)
    one.call("remember", text="The default agent is fond of tea.", visibility="private")
    bob.call("remember", text="Bob keeps the key under the mat.", visibility="private")
    assert PORT in said(bob.call("recall", query="staging database port"))
    assert "tea" not in said(bob.call("recall", query="fond of tea"))
    assert "mat" not in said(one.call("recall", query="key under the mat"))
    assert "mat" in said(bob.call("recall", query="key under the mat"))
    assert PORT not in said(other.call("recall", query="staging database port"))
    other.call("remember", text="The other project is written in Zig.")
    assert "Zig" not in said(one.call("recall", query="which language is the project written in"))
    assert "Zig" in said(other.call("recall", query="which language is the project written in"))


def test_windows_whose_sessions_have_one_name_are_not_taken_for_one_another(start: Start, tmp_path: Path) -> None:
    one = start()
    red = start(MCP_MEMORY_SESSION="release", MCP_MEMORY_NAMESPACE="red")
    blue = start(MCP_MEMORY_SESSION="release", MCP_MEMORY_NAMESPACE="blue", MCP_MEMORY_AGENT="bob")
    assert servers(tmp_path / "data") == 1
    blue.call("remember", text=PORT, visibility="private")
    assert PORT not in said(red.call("recall", query="staging database port"))
    assert PORT in said(blue.call("recall", query="staging database port"))
    for window in (red, blue):
        window.close_input()
        window.process.wait()
    assert one.call("recall", query="staging database port")


def test_a_server_serves_on_whoever_says_nonsense(start: Start, tmp_path: Path) -> None:
    one, two = start(), start()
    (address,) = (tmp_path / "data" / private_sockets.FOLDER).glob("*.mcp")
    for hello in (b"", b"\n", b"[" * 60_000 + b"\n", b'{"folder": 1}\n'):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
            stranger.settimeout(10)
            stranger.connect(str(address))
            stranger.sendall(hello)
            if not hello:
                stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(1_000):
                pass
    for window in (one, two):
        assert window.call("recall", query="staging database port")


def test_names_count_however_their_variables_are_written(start: Start, tmp_path: Path) -> None:
    one = start()
    bob = start(mcp_memory_agent="bob")
    assert servers(tmp_path / "data") == 1
    bob.call("remember", text=PORT, visibility="private")
    assert PORT not in said(one.call("recall", query="staging database port"))


def test_each_folder_has_its_own_memory_where_no_namespace_is_named(start: Start, tmp_path: Path) -> None:
    one, two = (start(folder, MCP_MEMORY_NAMESPACE="") for folder in ("red", "blue"))
    assert servers(tmp_path / "data") == 1
    one.call("remember", text=PORT)
    assert PORT not in said(two.call("recall", query="staging database port"))
    again = start("red", MCP_MEMORY_NAMESPACE="")
    assert PORT in said(again.call("recall", query="staging database port"))
    folders: list[str] = []
    for window in (one, two, again):
        status = window.request("resources/read", {"uri": "memory://status"})["contents"][0]["text"]
        folders.append(json.loads(status)["folder"]["namespace"])
    assert folders[0] == folders[2] != folders[1]


def test_a_window_can_have_a_server_of_its_own(start: Start, tmp_path: Path) -> None:
    for _ in range(2):
        start(MCP_MEMORY_SHARE_SERVER="false")
    assert servers(tmp_path / "data") == 2


def test_other_settings_have_another_server(start: Start, tmp_path: Path) -> None:
    start()
    start(MCP_MEMORY_MAX_TOKENS="500")
    assert servers(tmp_path / "data") == 2


def test_a_name_that_is_refused_is_refused_as_by_a_server_of_its_own(start: Start, environment: dict[str, str]) -> None:
    start()
    command = (sys.executable, "-m", "mcp_memory")
    asked = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    ended = subprocess.run(
        command,
        input=asked,
        capture_output=True,
        env=environment | {"MCP_MEMORY_AGENT": "a/b"},
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert b"MCP_MEMORY_AGENT" in ended.stderr


def claim_a_project(folder: Path) -> None:
    """Make it a clone of the one project, of which the first folder is trusted."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text('[remote "origin"]\n\turl = git@example.com:a/b.git\n', "utf-8")
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n", "utf-8")


def test_a_folder_that_was_refused_its_claim_says_so_at_its_start(start: Start, tmp_path: Path) -> None:
    """The instructions are the server's, so such a window is not served by one whose folder was not refused."""
    for name in ("first", "copy"):
        claim_a_project(tmp_path / name)
    first = start("first", MCP_MEMORY_NAMESPACE="")
    first.call("remember", text=PORT)
    copy = start("copy", MCP_MEMORY_NAMESPACE="")
    assert "mcp-memory trust" not in first.hello["instructions"]
    assert "mcp-memory trust" in copy.hello["instructions"]
    assert PORT not in said(copy.call("recall", query="staging database port"))


def test_a_hook_of_a_folder_that_was_refused_its_claim_says_so(
    start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    for name in ("first", "copy"):
        claim_a_project(tmp_path / name)
    start("first", MCP_MEMORY_NAMESPACE="").call("remember", text=PORT)
    copy = start("copy", MCP_MEMORY_NAMESPACE="")
    copy.call("remember", text="The copy is for experiments.")
    kill(copy)
    session = Session(tmp_path / "copy", environment | {"MCP_MEMORY_NAMESPACE": ""})
    assert "mcp-memory trust" in session.hook("SessionStart", source="startup").context


@pytest.fixture
def at_work(start: Start) -> tuple["ServerProcess", "ServerProcess", "ServerProcess"]:
    """Three windows of an agent; the second and third, which the first serves, are in tasks of their own."""
    windows = start(), start(), start()
    windows[0].call("remember", text=PORT)
    windows[1].call("push_task", goal="Mend the pump")
    windows[2].call("push_task", goal="Paint the door")
    return windows


@pytest.mark.parametrize("end", ["kill", "close", "terminate"])
def test_when_its_server_ends_each_window_goes_on_where_it_was(
    at_work: tuple["ServerProcess", ...], tmp_path: Path, end: str
) -> None:
    one, two, three = at_work
    two.request("resources/subscribe", {"uri": "memory://tasks"})
    {"kill": one.process.kill, "close": one.close_input, "terminate": one.process.terminate}[end]()
    one.process.wait()
    assert PORT in said(three.call("recall", query="staging database port"))
    assert "Paint the door" in said(three.call("assemble_context", query="what is to be done"))
    assert json.loads(said(two.call("pop_task", result="It runs.")))["popped"]["goal"] == "Mend the pump"
    assert json.loads(said(three.call("pop_task", result="It is red.")))["popped"]["goal"] == "Paint the door"
    assert servers(tmp_path / "data") == 1
    number = two.send_request("ping", {})
    seen = [json.loads(two.lines.next())]
    while seen[-1].get("id") != number:
        seen.append(json.loads(two.lines.next()))
    until = time.monotonic() + 30
    while not any(each.get("method") == "notifications/resources/updated" for each in seen):
        assert time.monotonic() < until
        seen.append(json.loads(two.lines.next()))


def slow_call(server: "ServerProcess", text: str) -> int:
    """Send a call that takes seconds, and then stores; return its number."""
    items = [{"text": f"{text} {number}: {'a long story of many words ' * 40}"} for number in range(300)]
    return server.send_request("tools/call", {"name": "remember", "arguments": {"items": items}})


def test_of_a_call_that_a_kill_interrupts_nobody_says_that_it_was_made(at_work: tuple["ServerProcess", ...]) -> None:
    one, two, three = at_work
    storing = slow_call(two, "Unsure")
    reading = three.send_request("tools/call", {"name": "recall", "arguments": {"query": "staging database port"}})
    kill(one)
    assert "may be stored or not" in read_to(two, storing)["error"]["message"]
    assert PORT in said(three.result_of(reading))


def test_a_window_that_takes_over_tells_its_client_of_each_call_in_doubt(start: Start) -> None:
    """There are several such lines, and answers to what it repeats, which the client must not get."""
    one, two = start(), start()
    numbers = [slow_call(two, f"Unsure {n}") for n in range(3)]
    kill(one)
    assert all("may be stored or not" in read_to(two, number)["error"]["message"] for number in numbers)
    assert two.call("recall", query="staging database port")


@pytest.mark.parametrize("end", ["close", "terminate"])
def test_an_orderly_end_leaves_no_call_in_doubt_that_was_soon_done(start: Start, end: str) -> None:
    """Neither one that was read and has not begun, nor one whose answer is not written yet."""
    for count in range(4):
        one, *rest = [start() for _ in range(4)]
        for window in rest:
            window.call("remember", text=f"The value {count} was noted before.")
        asked = {"name": "remember", "arguments": {"text": f"The end {count} is near."}}
        numbers = [window.send_request("tools/call", asked) for window in rest]
        time.sleep(0.02)
        {"close": one.close_input, "terminate": one.process.terminate}[end]()
        for window, number in zip(rest, numbers, strict=True):
            assert "result" in read_to(window, number)
        for window in (one, *rest):
            kill(window)


def test_a_server_that_is_left_by_its_client_answers_first_what_it_has_begun(
    at_work: tuple["ServerProcess", ...],
) -> None:
    """And what it has not read is asked of the next, once."""
    one, two, three = at_work
    numbers = [
        window.send_request("tools/call", {"name": "remember", "arguments": {"text": f"Note {n} of {name}: {n * 7}."}})
        for n in range(40)
        for name, window in (("two", two), ("three", three))
    ]
    one.close_input()
    answers = [answer for n, window in enumerate((two, three)) for answer in answers_to(window, numbers[n::2])]
    kept = [json.loads(each["result"]["content"][0]["text"])["records"][0] for each in answers if "result" in each]
    assert len(kept) == len(numbers)
    assert len({each["id"] for each in kept}) == len(numbers)
    assert {each["status"] for each in kept} == {"stored"}


def test_a_long_call_of_another_window_is_finished(at_work: tuple["ServerProcess", ...]) -> None:
    """Though the client of the process that serves it has left."""
    one, two, _ = at_work
    items = [{"text": f"Chapter {number}: {'a long story of many words ' * 40}"} for number in range(20)]
    number = two.send_request("tools/call", {"name": "remember", "arguments": {"items": items}})
    two.request("ping", {})  # By now the call has begun.
    one.close_input()
    stored = json.loads(said(read_to(two, number)["result"]))["records"]
    assert {each["status"] for each in stored} == {"stored"}


def test_a_window_keeps_the_names_that_it_was_started_with(start: Start, tmp_path: Path) -> None:
    """The file may name another agent by the time that the window must serve itself."""
    config = tmp_path / "data" / "config.toml"
    config.parent.mkdir()
    config.write_text('agent = "alice"\n', "utf-8")
    one, two = (start(MCP_MEMORY_CONFIG=str(config)) for _ in range(2))
    assert servers(tmp_path / "data") == 1
    two.call("remember", text="Alice is fond of tea.", visibility="private")
    config.write_text('agent = "bob"\n', "utf-8")
    kill(one)
    assert "tea" in said(two.call("recall", query="who is fond of tea"))


def test_nothing_acknowledged_is_lost_while_servers_are_killed(start: Start, tmp_path: Path) -> None:
    """S1.1: whichever window leads is killed, again and again, while the others store."""
    windows = [start() for _ in range(5)]
    stored: list[tuple[str, str]] = []

    def store(number: int) -> None:
        for count in range(30):
            text = f"Window {number} noted the value {number * 1_000 + count}."
            request = {"name": "remember", "arguments": {"text": text}}
            answer = read_to(windows[number], windows[number].send_request("tools/call", request))
            if "result" in answer:
                stored.append((json.loads(said(answer["result"]))["records"][0]["id"], text))

    threads = [threading.Thread(target=store, args=(number,)) for number in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for victim in windows[:2]:
        time.sleep(0.4)
        kill(victim)
    for thread in threads:
        thread.join(120)
    assert len(stored) >= 80
    assert servers(tmp_path / "data") == 1
    for at in range(0, len(stored), 50):
        part = stored[at : at + 50]
        found = said(windows[4].call("recall", ids=[each for each, _ in part], max_tokens=20_000))
        assert all(text in found for _, text in part)


def test_a_window_does_without_a_server_that_stands_still(at_work: tuple["ServerProcess", ...], start: Start) -> None:
    """As when a shell stops a client with its server: those that it serves, and new ones, serve themselves."""
    one, two, _ = at_work
    stop(one)
    try:
        asked = two.send_request("tools/call", {"name": "recall", "arguments": {"query": "staging database port"}})
        four = start()
        assert PORT in said(four.call("recall", query="staging database port"))
        assert PORT in said(two.result_of(asked))
    finally:
        os.kill(one.process.pid, signal.SIGCONT)


def test_a_client_that_goes_on_asking_is_not_kept_by_a_server_that_stands_still(start: Start) -> None:
    one, two = start(), start()
    stop(one)
    try:
        asked = two.send_request("tools/list", {})
        until = time.monotonic() + 25
        while two.lines.is_empty and time.monotonic() < until:
            two.send_request("ping", {})
            time.sleep(0.5)
        assert two.result_of(asked)["tools"]
        assert time.monotonic() < until
    finally:
        os.kill(one.process.pid, signal.SIGCONT)


def test_a_window_that_stands_still_keeps_no_notice_from_the_others(start: Start) -> None:
    one, two, three = start(), start(), start()
    for window in (two, three):
        window.request("resources/subscribe", {"uri": "memory://status"})
    for _ in range(100):
        two.send_request("tools/list", {})
    two.lines.next()
    os.kill(two.process.pid, signal.SIGSTOP)  # Its server has more answers for it than a socket holds.
    try:
        for count in range(2):
            one.call("remember", text=f"The value {count} has changed.")
            while json.loads(three.lines.next(timeout=15)).get("method") != "notifications/resources/updated":
                pass
    finally:
        os.kill(two.process.pid, signal.SIGCONT)


def test_what_a_window_gave_up_is_not_done_later(at_work: tuple["ServerProcess", ...]) -> None:
    """Its client has looked for it meanwhile, and made the call again."""
    one, two, three = at_work
    stop(one)
    try:
        storing = two.send_request(
            "tools/call", {"name": "remember", "arguments": {"text": "The pump is number 4711."}}
        )
        assert "may be stored or not" in read_to(two, storing)["error"]["message"]
        assert "4711" not in said(two.call("recall", query="number of the pump"))
    finally:
        os.kill(one.process.pid, signal.SIGCONT)
    one.call("recall", query="number of the pump")
    time.sleep(1)
    assert "4711" not in said(three.call("recall", query="number of the pump"))


@pytest.mark.parametrize("end", ["close", "terminate"])
def test_a_window_that_shares_ends_with_its_client(at_work: tuple["ServerProcess", ...], end: str) -> None:
    """S5.1: and its server does not notice."""
    one, two, _ = at_work
    {"close": two.close_input, "terminate": two.process.terminate}[end]()
    assert two.process.wait(timeout=10) == 0
    assert two.log == ""
    assert PORT in said(one.call("recall", query="staging database port"))


def test_what_a_script_pipes_in_is_answered(at_work: tuple["ServerProcess", ...], environment: dict[str, str]) -> None:
    """Though its input ends before, and its last line has no line feed."""
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE})
    call = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"recall","arguments":{"query":"staging"}}}'
    told = f'{hello}\n{{"jsonrpc":"2.0","method":"notifications/initialized"}}\nno message\n{call}'
    command = (sys.executable, "-m", "mcp_memory")
    ended = subprocess.run(command, input=told.encode(), capture_output=True, env=environment, timeout=60, check=True)
    answers = {each.get("id"): each for each in map(json.loads, ended.stdout.splitlines())}
    assert PORT in said(answers[2]["result"])
    assert "not one JSON value" in answers[None]["error"]["message"]
    assert at_work[0].process.poll() is None


def test_a_window_that_shares_loads_no_library(
    at_work: tuple["ServerProcess", ...], environment: dict[str, str]
) -> None:
    """So it starts in a blink, and takes a tenth of the memory."""
    code = (
        "import sys, threading, time\n"
        "from mcp_memory.__main__ import main\n"
        "def tell():\n"
        "    time.sleep(1)\n"
        "    slow = {'mcp', 'pydantic', 'anyio', 'numpy', 'sqlite3', 'asyncio', 'pathlib', 'inspect', 'subprocess'}\n"
        "    print(sorted(slow & set(sys.modules)), file=sys.stderr, flush=True)\n"
        "threading.Thread(target=tell, daemon=True).start()\n"
        "sys.argv[1:] = []\n"
        "main()\n"
    )
    with subprocess.Popen(
        (sys.executable, "-c", code), stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        env=environment,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline() == b"[]\n"
        process.kill()
    assert at_work[0].process.poll() is None


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the package, to be updated."""
    place = tmp_path / "installed"
    shutil.copytree(
        Path(mcp_memory.__file__).parent, place / "mcp_memory", ignore=shutil.ignore_patterns("__pycache__")
    )
    return place


def test_a_window_that_outlives_an_update_is_served_by_the_new_version(
    start_server: Start, tmp_path: Path, installed: Path
) -> None:
    """What it has loaded fits no module that it would load now."""
    command = (sys.executable, "-m", "mcp_memory")
    variables = {"PYTHONPATH": str(installed)}
    one, two = (start_server(tmp_path / "data", variables, command, folder=tmp_path) for _ in range(2))
    one.call("remember", text=PORT)
    assert two.call("recall", query="staging database port")
    changed = installed / "mcp_memory/entrypoints/server/relay.py"
    changed.write_text(changed.read_text("utf-8") + "\n", "utf-8")
    kill(one)
    assert PORT in said(two.call("recall", query="staging database port"))
    (child,) = psutil.Process(two.process.pid).children()
    two.close_input()
    assert two.process.wait(timeout=10) == 0
    assert not psutil.wait_procs([child], timeout=10)[1]


def test_hooks_of_each_window_are_answered_by_the_one_server(
    start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    start().call("remember", text="The default agent prefers tea.", visibility="private")
    bob = start(MCP_MEMORY_AGENT="bob")
    bob.call("remember", text="Bob prefers coffee without sugar.", visibility="private")
    asked = {"prompt": "What does Bob prefer, coffee or tea?"}
    only_asking = (
        "import sys\n"
        "from mcp_memory.entrypoints.hooks import runner\n"
        "runner.SECONDS = dict.fromkeys(runner.SECONDS, 60.0)\n"
        "runner._run_alone = lambda *_: b'alone'\n"
        "runner.main(sys.argv[2], {})\n"
    )
    session = Session(tmp_path, environment)
    told = {"session_id": "s1", "transcript_path": "", "cwd": str(tmp_path), **asked}
    ran = session.run(json.dumps(told).encode(), "UserPromptSubmit", code=only_asking, MCP_MEMORY_AGENT="bob")
    assert "coffee" in ran.context
    assert "tea." not in ran.context
