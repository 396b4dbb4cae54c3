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
from tests.clients.model_api import Model, ToolUse, parts, serving
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
WARNING = "Folders on the share are made by its owner."
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
    request = RecallRequest(kinds=kinds, session_id=session_id, include_inactive=True, limit=100, max_tokens=50_000)
    return [str(result["text"]) for result in memory.recall(request, memory.caller()).results][::-1]


def tool_results(model: Model) -> str:
    """What the tools of the session have answered."""
    every = (part for message in model.requests[-1]["messages"] for part in parts(message))
    return json.dumps([part for part in every if part["type"] == "tool_result"])


def logged(memory: App, session_id: str) -> list[str]:
    """What was said in a session, and what tools were asked and answered."""
    return list_texts(memory, "message", "tool_call", "tool_result", session_id=session_id)


def guard(memory: App, rule: str, pattern: str, agent: str = "") -> None:
    """Store a guardrail that is to block the commands of a pattern; an agent's own, or the session's."""
    caller = replace(memory.caller(), agent=agent) if agent else memory.caller()
    memory.remember([NewRecord(text=rule, kind="censor", details={"pattern": pattern, "action": "block"})], caller)


def test_a_session_of_claude_code_has_its_memory_and_its_guardrails(
    packages: NodePackages, memory: App, tmp_path: Path
) -> None:
    """S7.2: at its start, on a prompt, after a compaction and when resumed; tool calls work; what was said is kept.

    What the memory's own tools were told is a record already, so the log leaves their calls out.
    U4.1: of the resumed session's commands a guardrail denies one, and its model reads why; another agent's only warns.
    """
    select = ToolUse(name="ToolSearch", arguments={"query": f"select:{tool('remember')}"})
    noting = [select, ToolUse(name=tool("remember"), arguments={"text": LEARNT})]
    share = tmp_path / "share"
    share.mkdir()
    commands = [
        f"rm -rf {share}/",
        f"mkdir {share}/made",
        *(f"touch {share}/{n}" for n in "123"),
        "echo 'rm -rf share'",
    ]
    uses = [ToolUse(name="Bash", arguments={"command": each}) for each in commands]
    model = Model(replies={NOTE: noting, COMPACTION: [f"<summary>{SUMMARY}</summary>"], MORNING: uses})
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

            said = len(model.requests[-1]["messages"])
            claude.say("/compact")
            claude.say(GO_ON)
            assert len(model.requests[-1]["messages"]) < said
            assert SUMMARY in model.was_told(-1)
            assert DECISION in model.was_told(-1)
            assert GOAL in model.was_told(-1)
            assert claude.end() == 0

        guard(memory, RULE, f"rm -rf {share}")
        guard(memory, WARNING, "mkdir *", agent="else")
        asked_before = len(model.requests)
        with session(packages.claude, url, tmp_path, resumed=claude.id, also="Bash") as claude:
            claude.say(MORNING)
            assert RULE in model.was_told(asked_before)
            assert claude.end() == 0
    assert sorted(path.name for path in share.iterdir()) == ["1", "2", "3", "made"]
    assert f"] {RULE}" in tool_results(model), "why the command is denied"
    assert f"by else {WARNING}" in json.dumps(model.requests[-1]["messages"])

    # The hook of a session's end hands what is left to a process that outlives it.
    until(lambda: logged(memory, claude.id).count(model.words) == len(PROMPTS))
    assert [text for text in logged(memory, claude.id) if text in PROMPTS] == list(PROMPTS)
    assert not any(LEARNT in text for text in logged(memory, claude.id))
    assert any(SUMMARY in text for text in list_texts(memory, "summary"))
