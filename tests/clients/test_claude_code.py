"""Claude Code with the plugin, against a stand-in for its model: what the model is given, and what is kept."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import Kind, NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.settings import load_settings
from tests.chroma import until
from tests.clients.claude_code import install_plugin, session, tool
from tests.clients.model_api import Model, ToolUse, serving
from tests.clients.node_packages import NodePackages
from tests.clients.programs import memory_in

pytestmark = pytest.mark.long

DECISION = "Invoices are numbered by the database, since two workers once gave out the same number."
GOAL = "Move the invoices to the new ledger"
PORT = "The exporter of metrics listens on port 9273."
LEARNT = "The ledger refuses amounts with more than two decimals."
QUESTION = "On which port does the exporter of metrics listen?"
GO_ON = "What else is there to do?"
MORNING = "Good morning."
RULE = "Never run an export against the primary database."
SUMMARY = "The user asked for a note on decimals, and it was taken."
NOTE = "Keep in mind what the ledger refuses."
PROMPTS = (NOTE, QUESTION, GO_ON, MORNING)
COMPACTION = "<summary>"
"""Stands in what Claude Code asks for a summary with."""


@pytest.fixture
def memory(tmp_path: Path, embedder: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """The memory of Claude Code's project, as another agent has it open, with a decision and a goal in it."""
    for name, value in memory_in(tmp_path).items():
        monkeypatch.setenv(name, value)
    app = open_app(load_settings(), embedder=embedder)
    app.remember([NewRecord(text=DECISION, kind="decision")], app.caller())
    app.tasks.push(PushRequest(goal=GOAL), app.caller())
    yield app
    app.close()


def list_texts(memory: App, *kinds: Kind, session_id: str | None = None) -> list[str]:
    """What the memory holds of these kinds, oldest first."""
    request = RecallRequest(kinds=kinds, session_id=session_id, include_inactive=True, limit=50, max_tokens=50_000)
    return [str(result["text"]) for result in memory.recall(request, memory.caller()).results][::-1]


def test_a_session_of_claude_code_has_its_memory(packages: NodePackages, memory: App, tmp_path: Path) -> None:
    """S7.2: at its start, on a prompt, after a compaction and when resumed; tool calls work; what was said is kept.

    What the memory's own tools were told is a record already, so the log leaves their calls out.
    """
    select = ToolUse(name="ToolSearch", arguments={"query": f"select:{tool('remember')}"})
    note = ToolUse(name=tool("remember"), arguments={"text": LEARNT})
    summary = f"<analysis>Short.</analysis><summary>{SUMMARY}</summary>"
    model = Model(replies={NOTE: [select, note], COMPACTION: [summary]})
    install_plugin(packages.claude, tmp_path)
    with serving(model) as url:
        with session(packages.claude, url, tmp_path) as claude:
            claude.say(NOTE)
            assert DECISION in model.was_told(0)
            assert GOAL in model.was_told(0)
            assert LEARNT in list_texts(memory, "fact")

            memory.remember([NewRecord(text=PORT)], memory.caller())
            claude.say(QUESTION)
            assert PORT in model.was_told(-1)

            window = model.requests[-1]["messages"]
            claude.say("/compact")
            claude.say(GO_ON)
            assert len(model.requests[-1]["messages"]) < len(window)
            assert SUMMARY in model.was_told(-1)
            assert DECISION in model.was_told(-1)
            assert GOAL in model.was_told(-1)
            assert claude.end() == 0

        memory.remember([NewRecord(text=RULE, kind="censor")], memory.caller())
        with session(packages.claude, url, tmp_path, resumed=claude.id) as claude:
            claude.say(MORNING)
            assert RULE in model.was_told(-1)
            assert claude.end() == 0

    def logged() -> list[str]:
        return list_texts(memory, "message", "tool_call", "tool_result", session_id=claude.id)

    # The hook of a session's end hands what is left to a process that outlives it.
    until(lambda: logged().count(model.words) == len(PROMPTS))
    log = logged()
    assert [text for text in log if text in PROMPTS] == list(PROMPTS), log
    assert not any(LEARNT in text for text in log)
    assert any(SUMMARY in text for text in list_texts(memory, "summary"))


def test_a_guardrail_denies_one_command_of_claude_code_and_lets_twenty_pass(
    packages: NodePackages, memory: App, tmp_path: Path
) -> None:
    """U4.1: the client does what the hook says, and its model reads why; another agent's guardrail only warns."""
    share = tmp_path / "share"
    share.mkdir()
    blocks = {"pattern": f"rm -rf {share}", "action": "block"}
    memory.remember([NewRecord(text=RULE, kind="censor", details=blocks)], memory.caller())
    warned = {"pattern": "mkdir *", "action": "block"}
    memory.remember([NewRecord(text=LEARNT, kind="censor", details=warned)], replace(memory.caller(), agent="else"))
    passing = [f"touch {share}/{number}" for number in range(19)] + ["echo 'rm -rf share'"]
    commands = [f"rm -rf {share}/", f"mkdir {share}/made", *passing]
    model = Model(replies={NOTE: [ToolUse(name="Bash", arguments={"command": each}) for each in commands]})
    install_plugin(packages.claude, tmp_path)
    with serving(model) as url, session(packages.claude, url, tmp_path, also="Bash") as claude:
        claude.say(NOTE)
        assert claude.end() == 0
    assert sorted(path.name for path in share.iterdir()) == sorted([*map(str, range(19)), "made"])
    told = json.dumps(model.requests[-1]["messages"])
    assert f"] {RULE}" in told
    assert f"by else {LEARNT}" in told
