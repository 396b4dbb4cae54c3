import json
from pathlib import Path
from typing import Any

import pytest

from mcp_memory import __version__
from mcp_memory.bridge.hook import SECONDS
from mcp_memory.entrypoints.hooks.events import HOOKS

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "plugin"


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def front_matter(path: Path) -> dict[str, str]:
    _, head, body = path.read_text("utf-8").split("---\n", 2)
    assert body.strip()
    return dict(line.split(": ", 1) for line in head.splitlines())


def test_the_plugin_has_the_packages_version() -> None:
    """S7.2."""
    manifest = read(PLUGIN / ".claude-plugin" / "plugin.json")
    assert manifest["version"] == __version__
    assert manifest["name"] == "memory"


def test_the_marketplace_offers_the_plugin_where_it_lies() -> None:
    (offered,) = read(ROOT / ".claude-plugin" / "marketplace.json")["plugins"]
    assert (ROOT / offered["source"] / ".claude-plugin" / "plugin.json").exists()
    assert offered["name"] == "memory"
    assert offered["description"] == read(PLUGIN / ".claude-plugin" / "plugin.json")["description"]


def test_every_hook_is_run_with_a_timeout_behind_its_own_deadline() -> None:
    """S7.2."""
    hooks = read(PLUGIN / "hooks" / "hooks.json")["hooks"]
    assert hooks.keys() == HOOKS.keys() == SECONDS.keys()
    for name, matchers in hooks.items():
        ((one,),) = [matcher["hooks"] for matcher in matchers]
        assert one["command"] == f"PYTHONHOME= PYTHONPATH= PYTHONPYCACHEPREFIX= PYTHONSAFEPATH=1 mcp-memory hook {name}"
        assert one["timeout"] >= SECONDS[name] + 2, "an interpreter takes a while to start"
        assert one.get("async", False) == (name == "PostToolUse")


def test_the_server_is_the_command_without_arguments() -> None:
    isolated = {"PYTHONHOME": "", "PYTHONPATH": "", "PYTHONPYCACHEPREFIX": "", "PYTHONSAFEPATH": "1"}
    entry: dict[str, Any] = {"command": "mcp-memory", "args": [], "env": isolated}
    assert read(PLUGIN / ".mcp.json") == {"mcpServers": {"memory": entry}}


def test_the_skill_says_when_to_use_each_tool() -> None:
    skill = PLUGIN / "skills" / "memory" / "SKILL.md"
    head = front_matter(skill)
    assert head["name"] == "memory"
    assert head["description"].startswith("Use when")
    assert len(head["description"]) <= 1_024
    for tool in ("remember", "recall", "assemble_context", "push_task", "pop_task", "compact", "revise", "forget"):
        assert f"`{tool}`" in skill.read_text("utf-8")


@pytest.mark.parametrize("name", ["remember", "recall", "learn", "review", "status"])
def test_each_command_says_what_it_does(name: str) -> None:
    assert front_matter(PLUGIN / "commands" / f"{name}.md")["description"]
