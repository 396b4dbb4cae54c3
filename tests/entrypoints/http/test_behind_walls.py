"""Whatever is asked of a server in front of walls is answered: each way in says whose scopes it reads, or is upkeep."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.postgres_clusters import programs
from mcp_memory.app import open_app
from mcp_memory.domain.model.scopes import Grant, RecordFilter
from mcp_memory.entrypoints.cli.program import app as command_line
from mcp_memory.entrypoints.hooks.events import HOOKS
from mcp_memory.entrypoints.page.site import SCREENS
from mcp_memory.ports.walls import beyond, within
from mcp_memory.settings import load_settings
from tests.entrypoints.http.conftest import HttpServer, connected, headers_of, wait_until, web
from tests.entrypoints.page.conftest import person
from tests.stores.records.test_walls import WORDS, fill

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
FORGOTTEN = "whose scopes it reads"
"""The database's words where nobody said so."""
LINES = [
    {"type": "user", "message": {"role": "user", "content": "Which oak is it?"}, "uuid": "u1", "sessionId": "s"},
    {"type": "user", "message": {"role": "user", "content": "The oak by the gate."}, "uuid": "u2", "sessionId": "s"},
]
PAYLOAD = {
    "session_id": "s", "source": "startup", "prompt": "What has the garden by the gate?", "trigger": "auto",
    "compact_summary": "The oak stays.", "tool_name": "Bash", "tool_input": {"command": "fell the oak"},
}  # fmt: skip


@dataclass(kw_only=True)
class Walled:
    """A server over a memory of two tenants, the secret of the one, and how to reach the same memory otherwise."""

    server: HttpServer
    secret: str
    settings: Mapping[str, str]
    ids: Mapping[str, str]
    """One id of the tenant's own for each kind that an address names, by its first letter."""

    @property
    def headers(self) -> dict[str, str]:
        return headers_of(self.secret)


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walled]:
    from tests.postgres import walled_database

    settings: dict[str, Any] = {name: value for name, value in walled_database().items() if name != "owner_url"}
    folder = tmp_path_factory.mktemp("walled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_MEMORY_CONFIG", str(folder / "none.toml"))
        memory = open_app(load_settings(data_dir=folder / "own", namespace="here", **settings))
        for caller, word in WORDS.items():
            with within(caller.scopes):
                fill(memory, caller, word)
        ann = next(iter(WORDS))
        with beyond():
            grant = Grant(agent=ann.agent, person=ann.person, namespaces=("here",), right="admin")
            secret = memory.tokens.add("ann", grant)[0]
            ids = {
                "r": memory.records.list_ids(RecordFilter(scopes=ann.scopes), "created", 1)[0],
                "t": memory.tasks.tree(ann)[0].id,
                "c": memory.records.contexts(ann, 1)[0][1].id,
                "p": memory.logs.stand_ins(ann)[0].entry.id,
            }
        memory.close()
    server = HttpServer(folder / "data", namespace="here", **settings)
    yield Walled(server=server, secret=secret, settings=settings, ids=ids)
    server.kill()


def hook(walled: Walled, name: str) -> dict[str, Any]:
    before, *lines = ["", *(json.dumps(each) + "\n" for each in LINES)] if name == "Stop" else ["", ""]
    question = {"hook": name, "payload": PAYLOAD, "max_tokens": [2_000, 600], "before": len(before)}
    body = json.dumps(question) + "\n" + before + "".join(lines)
    answer = web.post(f"{walled.server.url}/hook", content=body.encode(), headers=walled.headers)
    assert answer.status_code == 200, (name, answer.text)
    return answer.json()


async def test_hooks_and_figures_are_answered(walled: Walled) -> None:
    """M3.1, L3.1, M4.3: each hook; what it fed is embedded by the server's own upkeep."""
    told = {name: str(hook(walled, name)) for name in HOOKS}
    assert "oak" in told["SessionStart"]
    assert [name for name, answer in told.items() if "zebra" in answer] == []

    def figures() -> str:
        answer = web.get(walled.server.address("/metrics"), headers=walled.headers)
        assert answer.status_code == 200, answer.text
        return answer.text

    assert float(re.findall(r"^mcp_memory_records (\S+)", figures(), re.MULTILINE)[0]) > 20
    wait_until(lambda: "\nmcp_memory_unembedded_records 0.0" in figures())
    async with connected(walled.server.url, walled.secret, "legacy") as client:
        for prompt in (await client.list_prompts()).prompts:
            arguments = {each.name: "oak" for each in prompt.arguments or () if each.required}
            assert "zebra" not in str(await client.get_prompt(prompt.name, arguments))
        for resource in (await client.list_resources()).resources:
            assert "zebra" not in str(await client.read_resource(resource.uri))
    assert FORGOTTEN not in walled.server.log


def test_each_screen_and_form_of_the_page_is_answered(walled: Walled) -> None:
    """M3.1, U1: an export among them."""
    visitor = person(walled.server, walled.secret)
    csrf, seen, failed = visitor.csrf, "", list[str]()
    for screen in sorted(SCREENS, key=lambda each: each.changes):
        kinds = {"/task": "t", "/context": "c", "/block": "p", "/review": "g"}
        kind = next((kinds[each] for each in kinds if screen.path.startswith(f"{each}/")), "r")
        own = "day" if "session" in screen.path or "stated" in screen.path else walled.ids.get(kind, "g000001")
        path = re.sub(r"\{id(:path)?\}", own, screen.path.replace("{number}", "1"))
        fields = {
            "csrf": csrf,
            "way": "unrelated",
            "do": "pin",
            "text": "x",
            "back": "/",
            "session": "day",
            "number": "1",
        }
        fields |= dict.fromkeys(("ids", "id", "typed", "keep", "holds", "by", "task_id", "record", "task"), own)
        fields |= dict.fromkeys(("number", "version", "seen", "change"), "1")
        answer = visitor.post(path, fields) if screen.changes else visitor.get(f"{path}?q=garden")
        failed += [f"{path}: {answer.status_code}"] if answer.status_code >= 500 else []
        assert "zebra" not in answer.text, path
        seen += answer.text
    assert failed == []
    assert "oak" in seen
    assert FORGOTTEN not in walled.server.log
    assert "Traceback" not in walled.server.log


def test_each_command_works_on_the_memory_as_a_whole(
    walled: Walled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3.1: who has the address stands beyond the walls."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("MCP_MEMORY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("MCP_MEMORY_NAMESPACE", "here")
    monkeypatch.setenv("MCP_MEMORY_AGENT", "ann")
    monkeypatch.setenv("PATH", f"{programs()}{os.pathsep}{os.environ['PATH']}")
    for name, value in walled.settings.items():
        monkeypatch.setenv(f"MCP_MEMORY_{name.upper()}", value)

    failed = ""
    record, file = walled.ids["r"], str(tmp_path / "memory.jsonl")
    for words in (
        "status", "search oak", "list", f"show {record}", "tasks", "sessions", "contexts", "reads",
        f"reads --record {record}", "graph garden", "projects", "add Told.", f"edit {record} --importance 3",
        f"pin {record}", f"forget {record}", f"restore {record}", "review", "tokens list", "maintain", "reindex",
        f"export {file}", f"import {file}", f"backup {tmp_path / 'copy'}", "doctor", "projects rename here elsewhere",
        "projects rename elsewhere here",
    ):  # fmt: skip
        ran = CliRunner().invoke(command_line, words.split())
        if ran.exit_code:
            failed += f"{words}: {ran.output[-300:]} {ran.exception!r}\n"
    assert failed == ""
    lines = Path(file).read_text("utf-8")
    assert "oak" in lines
    assert "zebra" in lines
