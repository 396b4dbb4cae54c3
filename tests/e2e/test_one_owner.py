"""The one process that owns a memory (L1.2, O1, S1.1): all windows share it, and nothing is lost when it ends."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import mcp_memory
from mcp_memory.bridge import door, private_sockets
from tests.e2e.conftest import HANDSHAKE
from tests.e2e.hook_session import Session
from tests.forked import run_forked

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")

Start = Callable[..., "ServerProcess"]
PORT = "The staging database listens on port 6543."


@pytest.fixture
def start(start_server: Start, tmp_path: Path) -> Start:
    """Starts a window of one memory, with further variables, in a folder of its own."""

    def start_one(folder: str = ".", *, handshake: bool = True, **variables: str) -> "ServerProcess":
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        return start_server(tmp_path / "data", variables, folder=place, handshake=handshake)

    return start_one


def owner(data_dir: Path) -> psutil.Process:
    """The process that owns the memory, once there is one that lives: the file may still name the last."""
    until = time.monotonic() + 60
    while True:
        if said_of_it := door.owner_of(str(data_dir)):
            with contextlib.suppress(psutil.NoSuchProcess):
                return psutil.Process(int(str(said_of_it["pid"])))
        assert time.monotonic() < until
        time.sleep(0.01)


def arrived_at(owned: psutil.Process) -> list[object]:
    """The sockets of the door in that process: the one that listens, and one for each client."""
    return [each for each in owned.net_connections("unix") if str(each.laddr).endswith("/owner.sock")]


def kill_owner(data_dir: Path) -> None:
    killed = owner(data_dir)
    killed.kill()
    killed.wait(10)


def said(answer: dict[str, Any]) -> str:
    """The text of a tool's result."""
    assert not answer.get("isError"), answer
    return answer["content"][0]["text"]


def stop(process: psutil.Process) -> None:
    """Let the process stand still, each of its threads: one that is at work stops a moment later."""
    process.suspend()
    tasks = list(Path(f"/proc/{process.pid}/task").glob("*/stat"))
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
    """O1.1: and each sees what is its own."""
    one = start()
    bob = start("elsewhere", MCP_MEMORY_AGENT="bob")
    other = start(MCP_MEMORY_NAMESPACE="other")
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
    blue.call("remember", text=PORT, visibility="private")
    assert PORT not in said(red.call("recall", query="staging database port"))
    assert PORT in said(blue.call("recall", query="staging database port"))
    for window in (red, blue):
        window.close_input()
        window.process.wait()
    assert one.call("recall", query="staging database port")


def test_a_server_serves_on_whoever_says_nonsense(start: Start, tmp_path: Path) -> None:
    one, two = start(), start()
    address = tmp_path / "data" / private_sockets.FOLDER / door.SOCKET
    nonsense = b"", b"\n", b"[" * 60_000 + b"\n", b'{"kind": 1}\n', b'{"kind": "window", "given": 7}\n', b"x" * 300_000
    for hello in nonsense:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
            stranger.settimeout(10)
            stranger.connect(str(address))
            with contextlib.suppress(BrokenPipeError):
                stranger.sendall(hello)
            if not hello:
                stranger.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while stranger.recv(1_000):
                    pass
    for window in (one, two):
        assert window.call("recall", query="staging database port")


def test_names_count_however_their_variables_are_written(start: Start, tmp_path: Path) -> None:
    one = start()
    bob = start(mcp_memory_agent="bob")
    bob.call("remember", text=PORT, visibility="private")
    assert PORT not in said(one.call("recall", query="staging database port"))


def test_each_folder_has_its_own_memory_where_no_namespace_is_named(start: Start, tmp_path: Path) -> None:
    one, two = (start(folder, MCP_MEMORY_NAMESPACE="") for folder in ("red", "blue"))
    one.call("remember", text=PORT)
    assert PORT not in said(two.call("recall", query="staging database port"))
    again = start("red", MCP_MEMORY_NAMESPACE="")
    assert PORT in said(again.call("recall", query="staging database port"))
    folders: list[str] = []
    for window in (one, two, again):
        status = window.request("resources/read", {"uri": "memory://status"})["contents"][0]["text"]
        folders.append(json.loads(status)["folder"]["namespace"])
    assert folders[0] == folders[2] != folders[1]


def test_a_window_is_told_of_settings_that_do_not_count(start: Start, tmp_path: Path) -> None:
    """Those of the memory; its own, as the budget of a context, are its own."""
    one = start()
    owned = owner(tmp_path / "data")
    other = start(MCP_MEMORY_MAX_TOKENS="500", MCP_MEMORY_EXPIRED_DAYS="3", MCP_MEMORY_REDACT_SECRETS="false")
    assert owner(tmp_path / "data") == owned
    assert "differ" not in one.hello["instructions"]
    assert "MCP_MEMORY_EXPIRED_DAYS, MCP_MEMORY_REDACT_SECRETS" in other.hello["instructions"]
    assert "MAX_TOKENS" not in other.hello["instructions"]


def test_each_window_has_budgets_of_its_own(start: Start) -> None:
    one, small = start(), start(MCP_MEMORY_MAX_TOKENS="300")
    texts = (f"Pump {number} was mended on day {number} with part {number * 37}." for number in range(40))
    one.call("remember", items=[{"text": text, "kind": "fact"} for text in texts])
    long, short = (said(window.call("assemble_context", query="which pumps were mended")) for window in (one, small))
    assert len(long) > 2 * len(short)


def test_a_name_that_is_refused_is_refused_by_the_owner_too(start: Start, environment: dict[str, str]) -> None:
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
    copy.stop()
    session = Session(tmp_path / "copy", environment | {"MCP_MEMORY_NAMESPACE": ""})
    assert "mcp-memory trust" in session.hook("SessionStart", source="startup").context


@pytest.fixture
def at_work(start: Start) -> tuple["ServerProcess", "ServerProcess", "ServerProcess"]:
    """Three windows of an agent; the second and third are in tasks of their own."""
    windows = start(), start(), start()
    windows[0].call("remember", text=PORT)
    windows[1].call("push_task", goal="Mend the pump")
    windows[2].call("push_task", goal="Paint the door")
    return windows


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_when_its_owner_ends_each_window_goes_on_where_it_was(
    at_work: tuple["ServerProcess", ...], tmp_path: Path, end: str
) -> None:
    _, two, three = at_work
    two.request("resources/subscribe", {"uri": "memory://tasks"})
    ended = owner(tmp_path / "data")
    {"kill": ended.kill, "terminate": ended.terminate}[end]()
    ended.wait(10)
    assert PORT in said(three.call("recall", query="staging database port"))
    assert "Paint the door" in said(three.call("assemble_context", query="what is to be done"))
    assert json.loads(said(two.call("pop_task", result="It runs.")))["popped"]["goal"] == "Mend the pump"
    assert json.loads(said(three.call("pop_task", result="It is red.")))["popped"]["goal"] == "Paint the door"
    number = two.send_request("ping", {})
    seen = [json.loads(two.lines.next())]
    while seen[-1].get("id") != number:
        seen.append(json.loads(two.lines.next()))
    until = time.monotonic() + 30
    while not any(each.get("method") == "notifications/resources/updated" for each in seen):
        assert time.monotonic() < until
        seen.append(json.loads(two.lines.next()))


def store(window: "ServerProcess", text: str) -> int:
    """Send a call that stores the text; return its number."""
    return window.send_request("tools/call", {"name": "remember", "arguments": {"text": text}})


def made_by(answer: dict[str, Any]) -> list[str]:
    """The ids that a call made, as its answer says them, also where that was lost at first."""
    content = answer["result"]["structuredContent"]
    return content["made"] if "done_before" in content else [each["id"] for each in content["records"]]


def test_a_call_that_a_kill_interrupts_is_done_once(at_work: tuple["ServerProcess", ...], tmp_path: Path) -> None:
    """O1.3: whether its effect was on disk or not; and what only reads is asked again."""
    _, two, three = at_work
    made: list[str] = []
    for count in range(4):
        number = store(two, f"Kill {count} came while {count * 37} was stored.")
        reading = three.send_request("tools/call", {"name": "recall", "arguments": {"query": "staging database port"}})
        time.sleep(0.012 * count)
        kill_owner(tmp_path / "data")
        made += made_by(read_to(two, number))
        assert PORT in said(three.result_of(reading))
    texts = said(two.call("recall", ids=made, max_tokens=20_000))
    assert len(set(made)) == 4
    assert all(f"Kill {count} came" in texts for count in range(4))
    listed = two.call("recall", kinds=["fact", "episode", "note"], query="Kill came while stored", limit=100)
    assert said(listed).count("Kill 3 came") == 1


def test_a_task_is_pushed_and_popped_once_whatever_is_killed(start: Start, tmp_path: Path) -> None:
    """O1.3."""
    window = start()
    for count in range(3):
        number = window.send_request("tools/call", {"name": "push_task", "arguments": {"goal": f"Mend pump {count}"}})
        time.sleep(0.01 * count)
        kill_owner(tmp_path / "data")
        assert "result" in read_to(window, number)
    for count in range(2):
        number = window.send_request("tools/call", {"name": "pop_task", "arguments": {"result": f"Pump {count} runs."}})
        time.sleep(0.01 * count)
        kill_owner(tmp_path / "data")
        assert "result" in read_to(window, number)
    assert json.loads(said(window.call("pop_task", result="Done.")))["popped"]["goal"] == "Mend pump 0"


def test_a_call_that_ends_each_owner_is_not_asked_for_ever(start: Start, tmp_path: Path) -> None:
    window = start()
    window.call("remember", text=PORT)
    items = [{"text": f"Chapter {number}: {'a long story of many words ' * 40}"} for number in range(300)]
    number = window.send_request("tools/call", {"name": "remember", "arguments": {"items": items}})
    for _ in range(2):
        window.send_request("ping", {})
        while json.loads(window.lines.next()).get("id") == number:
            pass
        kill_owner(tmp_path / "data")
        time.sleep(0.5)
    assert "may be stored or not" in read_to(window, number)["error"]["message"]
    assert PORT in said(window.call("recall", query="staging database port"))


def test_an_orderly_end_leaves_no_call_in_doubt_that_was_soon_done(start: Start, tmp_path: Path) -> None:
    """Neither one that was read and has not begun, nor one whose answer is not written yet."""
    windows = [start() for _ in range(3)]
    for count in range(2):
        asked = {"name": "remember", "arguments": {"text": f"The end {count} is near, said {count * 37} people."}}
        numbers = [window.send_request("tools/call", asked) for window in windows]
        time.sleep(0.02)
        ended = owner(tmp_path / "data")
        ended.terminate()
        for window, number in zip(windows, numbers, strict=True):
            assert "result" in read_to(window, number)
        ended.wait(10)


def test_an_owner_that_ends_answers_first_what_it_has_begun(
    at_work: tuple["ServerProcess", ...], tmp_path: Path
) -> None:
    """And what it has not read is asked of the next, once."""
    _, two, three = at_work
    numbers = [
        window.send_request("tools/call", {"name": "remember", "arguments": {"text": f"Note {n} of {name}: {n * 7}."}})
        for n in range(15)
        for name, window in (("two", two), ("three", three))
    ]
    owner(tmp_path / "data").terminate()
    answers = [answer for n, window in enumerate((two, three)) for answer in answers_to(window, numbers[n::2])]
    kept = [json.loads(each["result"]["content"][0]["text"])["records"][0] for each in answers if "result" in each]
    assert len(kept) == len(numbers)
    assert len({each["id"] for each in kept}) == len(numbers)
    assert {each["status"] for each in kept} == {"stored"}


def test_a_clients_end_reaches_no_other(at_work: tuple["ServerProcess", ...], tmp_path: Path) -> None:
    """Though it was the first, and ends its whole group of processes; a long call of another is finished."""
    one, two, _ = at_work
    before = owner(tmp_path / "data")
    items = [{"text": f"Chapter {number}: {'a long story of many words ' * 40}"} for number in range(10)]
    number = two.send_request("tools/call", {"name": "remember", "arguments": {"items": items}})
    two.request("ping", {})  # By now the call has begun.
    assert os.getsid(before.pid) != os.getsid(one.process.pid)
    assert before.ppid() == 1 or before.parent() not in psutil.Process(one.process.pid).children()
    one.stop()
    assert {each["status"] for each in json.loads(said(read_to(two, number)["result"]))["records"]} == {"stored"}
    assert owner(tmp_path / "data") == before


def test_a_window_keeps_the_names_that_it_was_started_with(start: Start, tmp_path: Path) -> None:
    """The file may name another agent by the time that the window must serve itself."""
    config = tmp_path / "data" / "config.toml"
    config.parent.mkdir()
    config.write_text('agent = "alice"\n', "utf-8")
    two = start(MCP_MEMORY_CONFIG=str(config))
    two.call("remember", text="Alice is fond of tea.", visibility="private")
    config.write_text('agent = "bob"\n', "utf-8")
    kill_owner(tmp_path / "data")
    assert "tea" in said(two.call("recall", query="who is fond of tea"))


def test_nothing_acknowledged_is_lost_while_servers_are_killed(start: Start, tmp_path: Path) -> None:
    """O1.3, S1.1: the owner is killed, again and again, while windows store; no call meets two kills."""
    windows = [start() for _ in range(3)]
    stored: list[tuple[str, str]] = []
    done = Counter[int]()

    def note(number: int) -> None:
        for count in range(12):
            text = f"Window {number} noted the value {number * 1_000 + count}."
            (made,) = made_by(read_to(windows[number], store(windows[number], text)))
            stored.append((made, text))
            done[number] += 1

    threads = {number: threading.Thread(target=note, args=(number,)) for number in range(3)}
    for thread in threads.values():
        thread.start()
    for _ in range(2):
        before = done.copy()
        while any(thread.is_alive() and done[number] <= before[number] for number, thread in threads.items()):
            time.sleep(0.01)
        kill_owner(tmp_path / "data")
    for thread in threads.values():
        thread.join(120)
    assert len({each for each, _ in stored}) == len(stored) == 36
    found = said(windows[0].call("recall", ids=[each for each, _ in stored], max_tokens=20_000))
    assert all(text in found for _, text in stored)


def test_an_owner_that_stands_still_is_waited_for_and_nobody_else_opens_the_memory(
    at_work: tuple["ServerProcess", ...], start: Start, tmp_path: Path
) -> None:
    """O1.4: as when a machine sleeps: what only reads is answered once it goes on, and a new window is served too."""
    _, two, _ = at_work
    owned = owner(tmp_path / "data")
    stop(owned)
    asked = two.send_request("tools/call", {"name": "recall", "arguments": {"query": "staging database port"}})
    late = start(handshake=False)
    hello = late.send_request("initialize", HANDSHAKE)
    time.sleep(8)
    assert owner(tmp_path / "data") == owned
    assert two.lines.is_empty
    owned.resume()
    assert PORT in said(two.result_of(asked))
    assert late.result_of(hello)
    assert owner(tmp_path / "data") == owned


def test_a_client_is_told_of_an_owner_that_stands_still_for_long(start_server: Start, tmp_path: Path) -> None:
    """Also where it goes on asking; and it is served again once the owner goes on. Here, 8 s are long."""
    impatient = "from mcp_memory.bridge import door\ndoor.LOST_SECONDS = 8.0\n"
    two = start_server(tmp_path / "data", code=f"{impatient}from mcp_memory.__main__ import main\nmain()")
    owned = owner(tmp_path / "data")
    stop(owned)
    asked = two.send_request("tools/call", {"name": "recall", "arguments": {"query": "staging database port"}})
    until = time.monotonic() + 60
    while two.lines.is_empty and time.monotonic() < until:
        two.send_request("ping", {})
        time.sleep(0.5)
    assert f"pid {owned.pid}) does not answer" in read_to(two, asked)["error"]["message"]
    owned.resume()
    assert two.call("recall", query="staging database port")


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


def test_what_a_window_gave_up_is_done_once(at_work: tuple["ServerProcess", ...], tmp_path: Path) -> None:
    """Its owner stood still: it reads nothing more of the connection, and is asked again by another."""
    _, two, three = at_work
    owned = owner(tmp_path / "data")
    stop(owned)
    number = store(two, "The pump is number 4711.")
    time.sleep(8)
    owned.resume()
    (made,) = made_by(read_to(two, number))
    time.sleep(1)
    found = three.call("recall", query="number of the pump")["structuredContent"]["results"]
    assert [each["id"] for each in found if "4711" in each["text"]] == [made]
    assert owner(tmp_path / "data") == owned


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
    """O1.1, L2.1: so it starts in a blink, and takes at most 10 MiB of its own."""
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
        assert psutil.Process(process.pid).memory_full_info().uss <= 10 << 20
        process.kill()
    assert at_work[0].process.poll() is None


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the package, to be updated."""
    place = tmp_path / "installed"
    shutil.copytree(Path(mcp_memory.__file__).parent, place / "mcp_memory")  # With what is compiled.
    return place


def test_an_owner_hands_over_to_a_later_build_and_starts_again_after_an_update(
    start_server: Start, tmp_path: Path, installed: Path
) -> None:
    """O1.2: never back to an earlier build; and what an owner has loaded fits no module that an update has replaced."""
    started = time.time()
    one = start_server(tmp_path / "data", folder=tmp_path)
    one.call("remember", text=PORT)
    before = owner(tmp_path / "data")
    changed = installed / "mcp_memory/bridge/door.py"
    os.utime(changed, (started + 60, started + 60))
    command = (sys.executable, "-m", "mcp_memory")
    two = start_server(tmp_path / "data", {"PYTHONPATH": str(installed)}, command, folder=tmp_path)
    assert PORT in said(two.call("recall", query="staging database port"))
    later = owner(tmp_path / "data")
    assert later != before
    assert PORT in said(one.call("recall", query="staging database port"))
    earlier = start_server(tmp_path / "data", {}, command, folder=tmp_path)
    assert earlier.call("recall", query="staging database port")
    assert owner(tmp_path / "data") == later
    for window in (one, earlier):
        window.stop()
    os.utime(changed, (started + 120, started + 120))
    later.wait(20)
    assert PORT in said(two.call("recall", query="staging database port"))
    after = owner(tmp_path / "data")
    assert after != later
    assert "mcp_memory.entrypoints.owner.main" in after.cmdline()[-2], "an old window starts the next of the new build"
    two.close_input()
    assert two.process.wait(timeout=10) == 0


def test_an_owner_ends_when_its_last_client_has_left_and_when_its_folder_is_gone(start: Start, tmp_path: Path) -> None:
    """O1.2."""
    one, two = start(), start()
    owned = owner(tmp_path / "data")
    one.close_input()
    time.sleep(1)
    assert owned.is_running()
    two.close_input()
    owned.wait(10)
    three = start()
    owned = owner(tmp_path / "data")
    (tmp_path / "data").rename(tmp_path / "gone")
    owned.wait(10)
    three.stop()


def test_a_person_sees_the_owner_and_ends_it(start: Start, tmp_path: Path, environment: dict[str, str]) -> None:
    """O1.2: its windows go on with the next; where nobody owns the memory, that is said."""
    window = start(MCP_MEMORY_IDLE_MINUTES="5")
    window.call("remember", text=PORT)
    owned = owner(tmp_path / "data")
    shown = json.loads(run_forked("status", "--json", env=environment, timeout=60, check=True).stdout)
    assert shown["owner"]["pid"] == owned.pid
    told = run_forked("stop", env=environment, timeout=60, check=True).stdout.decode()
    assert told == f"Process {owned.pid} has ended.\n"
    assert not owned.is_running() or owned.status() == psutil.STATUS_ZOMBIE
    assert PORT in said(window.call("recall", query="staging database port"))
    window.stop()
    run_forked("stop", env=environment, timeout=60, check=True)
    again = run_forked("stop", env=environment, timeout=60)
    assert (again.returncode, b"No process serves" in again.stderr) == (1, True)


def test_a_window_ends_with_its_client_also_while_nobody_owns_the_memory(start: Start, tmp_path: Path) -> None:
    window = start()
    kill_owner(tmp_path / "data")
    window.close_input()
    assert window.process.wait(timeout=20) == 0


def test_a_window_without_a_call_keeps_its_task_when_its_owner_ends(start: Start, tmp_path: Path) -> None:
    one = start()
    one.call("push_task", goal="Mend the pump")
    kill_owner(tmp_path / "data")
    next_one = owner(tmp_path / "data")
    until = time.monotonic() + 60
    while len(arrived_at(next_one)) < 2:  # The listener, and the window, which has found the next by itself.
        assert time.monotonic() < until
        time.sleep(0.01)
    two = start()
    assert two.call("pop_task", result="Not mine.")["isError"]
    assert json.loads(said(one.call("pop_task", result="It runs.")))["popped"]["goal"] == "Mend the pump"


def test_a_client_that_waits_for_no_child_has_an_owner_too(start_server: Start, tmp_path: Path) -> None:
    """An ignored SIGCHLD is inherited; the window must not keep the lock."""
    ignoring = "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    window = start_server(tmp_path / "data", code=f"{ignoring}from mcp_memory.__main__ import main\nmain()")
    window.call("remember", text=PORT)
    assert window.owner.pid != window.process.pid
    kill_owner(tmp_path / "data")
    assert PORT in said(window.call("recall", query="staging database port"))


def test_a_window_that_wants_secrets_removed_is_refused_where_they_are_kept(
    start: Start, environment: dict[str, str]
) -> None:
    start(MCP_MEMORY_REDACT_SECRETS="false")
    ended = run_forked(input=b"", env=environment, timeout=60)
    assert (ended.returncode, b"REDACT_SECRETS" in ended.stderr) == (1, True)


def test_an_owner_opens_the_memory_that_was_claimed(start_server: Start, tmp_path: Path) -> None:
    """Whatever the file says by the time that the next is started."""
    config = tmp_path / "config.toml"
    for name in ("one", "two"):
        (tmp_path / name).mkdir(0o700)
    config.write_text(f'data_dir = "{tmp_path / "one"}"\n', "utf-8")
    variables = {"MCP_MEMORY_CONFIG": str(config), "MCP_MEMORY_DATA_DIR": ""}
    window = start_server(tmp_path / "one", variables)
    window.call("remember", text=PORT)
    config.write_text(f'data_dir = "{tmp_path / "two"}"\n', "utf-8")
    kill_owner(tmp_path / "one")
    assert PORT in said(window.call("recall", query="staging database port"))
    assert not (tmp_path / "two" / "memory.db").exists()


def test_many_windows_that_start_at_once_have_one_owner(start: Start, tmp_path: Path) -> None:
    """O1.1: where nothing is there yet, too: the folder of the memory included."""
    with ThreadPoolExecutor(6) as pool:
        windows = [each.result() for each in [pool.submit(start) for _ in range(6)]]
    windows[0].call("remember", text=PORT)
    assert all(PORT in said(each.call("recall", query="staging database port")) for each in windows)


def test_a_memory_that_cannot_be_opened_is_refused_with_a_sentence(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "data").mkdir(0o700)
    (tmp_path / "data" / "memory.db").write_bytes(b"no database " * 100)
    command = (sys.executable, "-m", "mcp_memory")
    asked = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    ended = subprocess.run(command, input=asked, capture_output=True, env=environment, timeout=60, check=False)
    assert ended.returncode == 1
    assert b"mcp-memory: " in ended.stderr


def test_hooks_of_each_window_are_answered_by_the_one_server(
    start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    start().call("remember", text="The default agent prefers tea.", visibility="private")
    bob = start(MCP_MEMORY_AGENT="bob")
    bob.call("remember", text="Bob prefers coffee without sugar.", visibility="private")
    asked = {"prompt": "What does Bob prefer, coffee or tea?"}
    session = Session(tmp_path, environment)
    told = {"session_id": "s1", "transcript_path": "", "cwd": str(tmp_path), **asked}
    ran = session.run(json.dumps(told).encode(), "UserPromptSubmit", MCP_MEMORY_AGENT="bob")
    assert "coffee" in ran.context
    assert "tea." not in ran.context


def with_roots(window: "ServerProcess", number: int, folder: Path) -> dict[str, Any]:
    """The answer of that number, from a server that asks meanwhile which folder is open."""
    while line := window.lines.next():
        told: dict[str, Any] = json.loads(line)
        if told.get("method") == "roots/list":
            window.send({"jsonrpc": "2.0", "id": told["id"], "result": {"roots": [{"uri": folder.as_uri()}]}})
        elif told.get("id") == number:
            return told["result"]
    raise AssertionError(window.log)


def test_a_window_that_says_its_folder_is_in_its_task_again_after_a_kill(start: Start, tmp_path: Path) -> None:
    """The next owner asks again: the place is one in that project's tasks."""
    (shop := tmp_path / "shop").mkdir()
    window = start(handshake=False, MCP_MEMORY_NAMESPACE="default", MCP_MEMORY_ROOTS="true")
    window.request("initialize", {**HANDSHAKE, "capabilities": {"roots": {}}})
    window.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(tool: str, **arguments: Any) -> str:
        number = window.send_request("tools/call", {"name": tool, "arguments": arguments})
        return said(with_roots(window, number, shop))

    call("push_task", goal="Mend the pump")
    kill_owner(tmp_path / "data")
    assert json.loads(call("pop_task", result="It runs."))["popped"]["goal"] == "Mend the pump"
    other = start("shop", MCP_MEMORY_NAMESPACE="")
    assert "Mend the pump" in said(other.call("assemble_context", query="pump")), "beside a client that starts there"
