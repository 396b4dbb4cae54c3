"""Hooks whose memory lies on a server over HTTP (L3.1): in the name of their token, with notes on their own machine."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.types import TextResourceContents

from mcp_memory.entrypoints.hooks.remote import MAX_LINE_BYTES, PIECE_BYTES, read_piece
from tests.entrypoints.http.conftest import (
    PATIENCE_SECONDS,
    HttpServer,
    connected,
    environment_of,
    found,
    headers_of,
    make_token,
    wait_until,
    web,
)
from tests.forked import run_forked

WIPE = "rm -rf /mnt/share"
PORT = "The staging database listens on port 6543."
ASKED = "On which port does the staging database listen?"
PATIENT = """\
import sys
from mcp_memory.bridge import hook
from mcp_memory.entrypoints.hooks import remote
from mcp_memory.entrypoints.owner.client_start import run_hook
remote.TIMEOUT_SECONDS = 60.0
hook.SECONDS = dict.fromkeys(hook.SECONDS, 60.0)
run_hook(sys.argv[2], {})
"""
PLAIN: dict[str, Any] = {"hook": "SessionStart", "payload": {"session_id": "s"}, "max_tokens": [2000, 600]}


class Laptop:
    """A machine with a client, whose memory is elsewhere."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        self.transcript = folder / "transcript.jsonl"
        self.environment = environment_of(folder / "notes", MCP_MEMORY_URL=url, MCP_MEMORY_TOKEN=token)
        del self.environment["MCP_MEMORY_NAMESPACE"]

    def say(self, text: str, **fields: str | None) -> None:
        line = {"type": "user", "message": {"role": "user", "content": text}, "uuid": text, "sessionId": "s"} | fields
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def hook(self, name: str, code: str = PATIENT, **payload: Any) -> tuple[str, str]:
        """What a hook prints, and what it complains of."""
        told = {
            "session_id": "s",
            "transcript_path": str(self.transcript),
            "cwd": str(self.transcript.parent),
            **payload,
        }
        options: dict[str, Any] = {"env": self.environment, "timeout": PATIENCE_SECONDS, "check": True}
        done = run_forked("hook", name, code=code, input=json.dumps(told).encode(), **options)
        return done.stdout.decode(), done.stderr.decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> HttpServer:
    data_dir = tmp_path_factory.mktemp("remote") / "data"
    make_token(data_dir, "nobody")
    return start_http(data_dir)


@pytest.fixture
def laptop(server: HttpServer, tmp_path: Path) -> Laptop:
    return Laptop(tmp_path, server.url, make_token(server.data_dir, f"ann-{tmp_path.name}", tmp_path.name))


async def stored(server: HttpServer, laptop: Laptop, query: str) -> list[str]:
    async with connected(server.url, laptop.environment["MCP_MEMORY_TOKEN"]) as client:
        return await found(client, query)


async def in_log(server: HttpServer, laptop: Laptop) -> list[str]:
    async with connected(server.url, laptop.environment["MCP_MEMORY_TOKEN"]) as client:
        [page] = (await client.read_resource("memory://session/s/anthropic")).contents
    assert isinstance(page, TextResourceContents)
    return re.findall(r'"text": ?"((?:[^"\\]|\\.)*)"', page.text)


async def remember(server: HttpServer, laptop: Laptop, text: str) -> None:
    async with connected(server.url, laptop.environment["MCP_MEMORY_TOKEN"]) as client:
        assert not (await client.call_tool("remember", {"text": text})).is_error


async def test_a_session_is_given_what_its_token_may_read_once(server: HttpServer, laptop: Laptop) -> None:
    await remember(server, laptop, PORT)
    assert PORT in laptop.hook("SessionStart", source="startup")[0]
    assert laptop.hook("UserPromptSubmit", prompt=ASKED) == ("", "")
    assert PORT in laptop.hook("UserPromptSubmit", prompt=ASKED, session_id="another")[0]
    laptop.hook("SessionStart", source="clear", session_id="another")
    laptop.environment["MCP_MEMORY_TOKEN"] = make_token(server.data_dir, "stranger", "elsewhere")
    assert laptop.hook("UserPromptSubmit", prompt=ASKED, session_id="third") == ("", "")


async def test_a_guardrail_of_the_server_holds_a_call_on_the_clients_machine(
    server: HttpServer, laptop: Laptop
) -> None:
    """U4.1, L3.1: of the arguments, what the call runs is sent, and what it writes is not."""
    rule = {"pattern": WIPE, "reason": "It holds the backups.", "action": "block"}
    async with connected(server.url, laptop.environment["MCP_MEMORY_TOKEN"]) as client:
        told = {"text": "Never wipe the share.", "kind": "censor", "details": rule}
        assert not (await client.call_tool("remember", told)).is_error
    wipe: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": WIPE}}
    denied, complaint = laptop.hook("PreToolUse", **wipe)
    assert complaint == ""
    answer = json.loads(denied)["hookSpecificOutput"]
    assert (answer["hookEventName"], answer["permissionDecision"]) == ("PreToolUse", "deny")
    assert "It holds the backups." in answer["permissionDecisionReason"]
    written = {"file_path": "notes.md", "content": WIPE}
    for tool, arguments in (("Bash", {"command": "ls /mnt/share"}), ("Write", written)):
        assert laptop.hook("PreToolUse", tool_name=tool, tool_input=arguments) == ("", "")
    laptop.environment["MCP_MEMORY_HOOK_GUARDRAILS"] = "false"
    assert laptop.hook("PreToolUse", **wipe) == ("", "")


async def test_a_hook_stands_in_the_task_of_its_agents_one_live_window(server: HttpServer, laptop: Laptop) -> None:
    """N5.3: which has the second place here; what was in the first has ended."""
    token = laptop.environment["MCP_MEMORY_TOKEN"] = make_token(server.data_dir, "carol", "windows")
    async with connected(server.url, token, "legacy") as two:
        async with connected(server.url, token, "legacy") as one:
            await one.call_tool("push_task", {"goal": "Ship the importer"})
            await two.call_tool("push_task", {"goal": "Draw the chart"})
        block = laptop.hook("SessionStart", source="clear")[0]
        assert re.search(r"- now \[t\w+\]: Draw the chart", block), block


async def test_the_log_is_fed_from_the_clients_machine(server: HttpServer, laptop: Laptop) -> None:
    laptop.say("Write the rows to exports/writer.py.")
    for name in ("PostToolUse", "Stop", "Stop"):
        assert laptop.hook(name) == ("", "")
    laptop.say("Read the rows from the replica.")
    assert laptop.hook("PreCompact", trigger="auto")[0].startswith("Keep word for word")
    assert laptop.hook("PostCompact", compact_summary="The writer reads rows from the replica.") == ("", "")
    after = laptop.hook("SessionStart", source="compact")[0]
    assert "exports/writer.py" in after
    assert "Its summaries: r0" in after
    rows = await stored(server, laptop, "rows")
    assert [each for each in rows if "Write the" in each and len(each) < 50] == ["Write the rows to exports/writer.py."]
    assert rows.count("Read the rows from the replica.") == 1


async def test_going_back_is_found_however_far(server: HttpServer, laptop: Laptop) -> None:
    """P2.1: behind more than is sent twice, and back to what was left, too."""
    words, last = "and go on with it " * 500, "Which store?"
    laptop.say(last, parentUuid=None)
    for number in range(12):
        laptop.say(f"Step {number} {words}", uuid=f"{number}", parentUuid=last)
        last = f"{number}"
    assert laptop.hook("Stop") == ("", "")
    laptop.say("Use SQLite.", parentUuid="Which store?")
    assert laptop.hook("Stop") == ("", "")
    assert await in_log(server, laptop) == ["Which store?", "Use SQLite."]
    laptop.say("No, back.", parentUuid="10")
    assert laptop.hook("Stop") == ("", "")
    texts = await in_log(server, laptop)
    assert [each[:7].strip() for each in texts] == ["Which s", *(f"Step {n}"[:7] for n in range(11)), "No, bac"]


async def test_a_sessions_end_is_told_behind_the_client(server: HttpServer, laptop: Laptop) -> None:
    laptop.say("Good night, shop.")
    assert laptop.hook("SessionEnd") == ("", "")
    notes = Path(laptop.environment["MCP_MEMORY_DATA_DIR"]) / "hooks"
    wait_until(lambda: notes.is_dir() and any(notes.glob("*.json")))
    assert await stored(server, laptop, "Good night") == ["Good night, shop."]


async def test_without_a_log_nothing_of_the_transcript_leaves_the_machine(server: HttpServer, laptop: Laptop) -> None:
    laptop.environment["MCP_MEMORY_HOOK_LOG"] = "false"
    laptop.say("Between us: nothing of this.")
    for name in ("PostToolUse", "Stop", "SessionEnd"):
        assert laptop.hook(name) == ("", "")
    assert laptop.hook("PostCompact", compact_summary="Between us.") == ("", "")
    assert await stored(server, laptop, "Between us") == []


async def test_budgets_are_those_of_the_clients_machine(server: HttpServer, laptop: Laptop) -> None:
    await remember(server, laptop, PORT)
    laptop.environment |= {"MCP_MEMORY_HOOK_MAX_TOKENS": "0", "MCP_MEMORY_HOOK_PROMPT_MAX_TOKENS": "0"}
    assert laptop.hook("SessionStart", source="startup") == ("", "")
    assert laptop.hook("UserPromptSubmit", prompt=ASKED) == ("", "")


def test_a_token_that_only_reads_is_given_things_and_stores_nothing(server: HttpServer, laptop: Laptop) -> None:
    laptop.environment["MCP_MEMORY_TOKEN"] = make_token(server.data_dir, "reader", "shop", right="read")
    assert laptop.hook("SessionStart", source="startup") == ("", "")
    laptop.say("Which port?")
    for name in ("Stop", "PreCompact", "PostCompact", "SessionEnd"):
        body = {**PLAIN, "hook": name}
        refused = web.post(f"{server.url}/hook", json=body, headers=headers_of(laptop.environment["MCP_MEMORY_TOKEN"]))
        assert "your token has 'read'" in refused.json()["error"]
    out, complaint = laptop.hook("Stop")
    assert out == ""
    assert "your token has 'read'" in complaint
    assert complaint.count("\n") == 1
    laptop.environment["MCP_MEMORY_HOOK_LOG"] = "false"
    assert laptop.hook("PreCompact", trigger="auto")[0].startswith("Keep word for word")


async def test_without_a_log_a_compaction_leaves_nothing_in_the_memory(server: HttpServer, laptop: Laptop) -> None:
    """The server's own setting is for hooks on its machine."""
    laptop.environment["MCP_MEMORY_HOOK_LOG"] = "false"
    async with connected(server.url, laptop.environment["MCP_MEMORY_TOKEN"]) as client:
        assert not (await client.call_tool("push_task", {"goal": "Move the staging database"})).is_error
        assert "Move the staging database" in laptop.hook("PreCompact", trigger="auto")[0]
    assert "Where it stood" not in laptop.hook("SessionStart", source="compact")[0]


def test_before_a_compaction_a_missing_transcript_keeps_nobody_from_saying_what_counts(laptop: Laptop) -> None:
    assert laptop.hook("PreCompact", trigger="auto")[0].startswith("Keep word for word")


def test_a_transcript_of_odd_bytes_holds_up_nothing(laptop: Laptop) -> None:
    laptop.transcript.write_bytes(b"\xff\x00\x01" * 200_000 + b"\n" + b"[" * 100_000 + b"\n" + b"\n" * 1_000)
    assert laptop.hook("Stop") == ("", "")
    laptop.say("Which port?")
    assert laptop.hook("Stop") == ("", "")


@pytest.mark.parametrize("token", ["", "mcpm_wrong"])
def test_without_a_token_nothing_is_given(laptop: Laptop, token: str) -> None:
    laptop.environment["MCP_MEMORY_TOKEN"] = token
    out, complaint = laptop.hook("SessionStart", source="startup")
    assert (out, complaint.count("\n")) == ("", 1)
    assert "refused (401" in complaint


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"{}", b"[" * 9_999,
        json.dumps(PLAIN | {"hook": "NoSuch"}).encode(),
        json.dumps(PLAIN | {"payload": {}}).encode(),
        json.dumps(PLAIN | {"max_tokens": [-1, 600]}).encode(),
        json.dumps(PLAIN | {"max_tokens": [2000, 60_000]}).encode(),
        json.dumps(PLAIN | {"given": "r000001"}).encode(),
        json.dumps(PLAIN | {"before": -1}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_hook_is_refused(server: HttpServer, laptop: Laptop, body: bytes) -> None:
    own = headers_of(laptop.environment["MCP_MEMORY_TOKEN"])
    refused = web.post(f"{server.url}/hook", content=body, headers=own)
    assert refused.status_code == 400
    assert set(refused.json()) == {"error"}


def test_of_what_is_too_large_and_of_pages_nothing_is_taken(server: HttpServer, laptop: Laptop) -> None:
    own = headers_of(laptop.environment["MCP_MEMORY_TOKEN"])
    assert web.post(f"{server.url}/hook", content=b" " * 5_000_000, headers=own).status_code == 413
    foreign = own | {"origin": "https://evil.example"}
    assert web.post(f"{server.url}/hook", json=PLAIN, headers=foreign).status_code == 403
    assert web.get(f"{server.url}/hook", headers=own).status_code == 405
    assert web.post(f"{server.url}/hook", json=PLAIN, headers=own).json() == {"output": "", "given": []}


def test_a_transcript_goes_in_pieces_of_whole_lines(tmp_path: Path) -> None:
    line = b"x" * 999 + b"\n"
    many = PIECE_BYTES // len(line) + 1
    long = b"y" * (MAX_LINE_BYTES + 5) + b"\n"
    file = tmp_path / "transcript.jsonl"
    file.write_bytes(line * (many + 1) + long + line + b"unfinished")
    before, first, end = read_piece(file, 0)
    assert (before, first, end) == (b"", line * many, len(line) * many)
    before, second, end = read_piece(file, end)
    assert before.endswith(line)
    assert (second, end) == (line * 2, len(line) * (many + 2) + len(long))
    assert read_piece(file, end)[1:] == (b"", end)
