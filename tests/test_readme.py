"""README.md states what a test or a figure holds: each of its sentences, and each of its numbers."""

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker

from benchmarks.peers import results
from mcp_memory.entrypoints.clients.catalogue import CLIENTS
from tests.e2e.conftest import server_environment
from tests.forked import run_forked

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PROSE = re.compile(r"^(```|~~~~).*?^\1$|<!--.*?-->|^[#|!].*?$|\]\([^)]*\)|\[", re.DOTALL | re.MULTILINE)
"""What is no sentence: code, comments, headings, rows, pictures, and what makes words a link."""
HELD = """
a memory server for agents, over: test_a_client_of_the_sdk_is_served_in_both_eras
They store what they learn: test_what_was_acknowledged_is_there_for_the_next_process
inside a hard token budget: test_both_blocks_keep_their_budget_by_an_independent_count
Codex or another MCP client: test_every_client_gets_an_entry_in_its_own_form
one SQLite file, no API key: test_it_works_without_a_network_in_one_file
An agent planned a feature: test_what_failed_is_a_dead_end_with_its_reason_and_no_fact
asks with only a budget: test_with_nothing_but_a_budget_a_new_process_learns_where_it_stands
From its context: test_the_excerpt_on_the_front_page_is_lines_of_the_real_block
You need Linux: test_what_it_needs_is_what_the_package_asks_for
this is not published yet: test_no_line_installs_what_has_our_former_name
The second line runs a demo: test_the_demo_shows_what_it_promises
108 packages, 451 MB: test_packages_are_those_of_the_lock_file_and_sizes_those_that_were_measured
take the plugin: test_a_session_of_claude_code_has_its_memory_and_its_guardrails
load memory when a session starts: test_a_session_begins_with_what_the_memory_holds
enforce guardrails: test_a_guardrail_that_blocks_denies_what_meets_it_and_nothing_else
log the session on this machine: test_each_thing_said_is_in_the_log_once_however_many_hooks_run
For **other clients**: test_the_clients_with_hooks_are_named
or `--instructions`: test_a_block_of_instructions_goes_in_and_out
A plain install: test_every_client_gets_an_entry_in_its_own_form
Restart the client: test_a_session_of_claude_code_has_its_memory_and_its_guardrails
In the next session ask: test_a_session_begins_with_what_the_memory_holds
`mcp-memory ui` shows it in a browser: test_ui_opens_by_its_file_alone
fill a new memory: test_what_an_agent_proposes_is_shown_first_and_stored_with_a_yes
All clients in a folder share: test_all_clients_of_a_project_meet_in_its_memory
On two shared cores: test_what_is_said_of_the_table_stands_in_it
48 and 47 are equal: test_what_is_said_of_the_table_stands_in_it
A plain search over a long history: test_what_is_said_of_the_table_stands_in_it
It gives no open task: test_with_nothing_but_a_budget_a_new_process_learns_where_it_stands
`mcp-memory search` takes: test_what_a_search_takes_is_what_was_measured
rejected if repeated verbatim: test_a_corrected_fact_does_not_come_back
a paraphrase can get back in: test_a_corrected_value_in_other_words_is_named_and_ranks_below
best at English: test_the_model_is_best_at_english
All limits: test_every_link_names_a_file_and_every_anchor_a_heading
ten minutes, then: test_every_command_of_the_tutorial_prints_what_it_shows
share it between clients: test_every_command_of_a_how_to_prints_what_the_page_shows
tools, commands, clients, settings: test_the_index_names_every_page_once_in_one_of_four_parts
overview, architecture: test_the_index_names_every_page_once_in_one_of_four_parts
All pages; llms.txt: test_the_site_has_the_pages_of_the_index_by_their_titles_and_in_its_order
CONTRIBUTING.md has the rules: test_every_link_names_a_file_and_every_anchor_a_heading
Licence: MIT: test_the_package_carries_the_licences_of_what_it_ships
"""
"""Words of a sentence, and the test that holds it. Rows have tests too; `.ci/run` looks for its two commands itself."""
OFFLINE = """
import ctypes, os, sys
def watch(event, given):
    if event == "socket.getaddrinfo" or (event == "socket.connect" and not isinstance(given[1], str | bytes)):
        print("asked for the network:", event, given, file=sys.stderr)
sys.addaudithook(watch)
user = os.getuid()
if not ctypes.CDLL(None).unshare(0x50000000):  # New namespaces of users and of networks, where that is allowed.
    with open("/proc/self/uid_map", "w") as file:
        file.write(f"{user} {user} 1")
from mcp_memory.__main__ import main
main()
"""


def row(name: str, text: str = README) -> list[str]:
    """The cells of the one row that begins so."""
    [line] = [line for line in text.splitlines() if re.match(rf"\| ?{re.escape(name)}", line)]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_each_sentence_is_held_by_a_test() -> None:
    """U3.2: the words of each stand in README.md, and the test is there; no sentence has none."""
    held = [line.rsplit(": ", 1) for line in HELD.strip().splitlines()]
    prose = " ".join(PROSE.sub("", README).split())
    tests = "".join(each.read_text("utf-8") for each in (ROOT / "tests").rglob("test_*.py"))
    assert [words for words, name in held if words not in prose or f"def {name}(" not in tests] == []
    sentences = re.split(r"(?<=[.?])\s+(?=[A-Z`\"*-])", prose)
    assert len(sentences) > 20
    assert [each for each in sentences if not any(words in each for words, _ in held)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces of networks")
def test_it_works_without_a_network_in_one_file(tmp_path: Path) -> None:
    """U3.1, S7.1: nor does it ask for one; what was stored is found by its meaning, and lies in one file."""
    environment = server_environment(tmp_path / "data")
    for command in (("add", "The tide gauge is read every ten minutes."), ("search", "how often is the sea measured")):
        ran = run_forked(*command, code=OFFLINE, env=environment, cwd=tmp_path, timeout=60, check=True)
        assert ran.stderr == b""
    assert b"tide gauge" in ran.stdout
    assert [each.name for each in (tmp_path / "data").glob("memory.db*")] == ["memory.db"]


def test_what_it_needs_is_what_the_package_asks_for() -> None:
    """U3.1: no workflow runs on macOS; the tutorial has measured the room."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"
    assert "Python 3.11 or newer" in README
    assert [each for each in (ROOT / ".github").rglob("*.yml") if "macos" in each.read_text("utf-8")] == []
    [room] = re.findall(r"it is (\d+) MB in all", (ROOT / "docs" / "tutorial.md").read_text("utf-8"))
    assert 0.7 < int(room) / 1_000 < 1, "1 GB"
    assert json.loads((ROOT / "manifest.json").read_text("utf-8"))["license"] == project["license"] == "MIT"
    folder = ROOT / "mcp_memory" / "encoders" / "data" / "minilm"
    assert "Apache License\n" in (folder / "LICENSE").read_text("utf-8")


LINUX = {
    "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix",
    "python_version": "3.11", "python_full_version": "3.11.9",
    "implementation_name": "cpython", "platform_python_implementation": "CPython",
}  # fmt: skip


def installed(packages: Sequence[Mapping[str, Any]], *extras: str) -> set[str]:
    """The distributions that a lock file's packages install of core with these extras, on Linux with Python 3.11."""
    found, todo = set[tuple[str, str]](), [("mcp-memory-stack-core", None, extra) for extra in ("", *extras)]
    while todo:
        name, version, extra = todo.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        [one] = [each for each in packages if each["name"] == name and version in (None, each.get("version"))]
        for each in one["optional-dependencies"][extra] if extra else one.get("dependencies", []):
            if "marker" not in each or Marker(each["marker"]).evaluate(LINUX):
                todo += [(each["name"], each.get("version"), more) for more in ("", *each.get("extra", ()))]
    return {name for name, _ in found}


def test_packages_are_those_of_the_lock_file_and_sizes_those_that_were_measured() -> None:
    """U3.1: the whole is core, Chroma, and the distribution that names both."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
    counts = {
        "mcp-memory-stack": len(installed(packages, "chroma")) + 1,
        "mcp-memory-stack-core": len(installed(packages)),
    }
    measured = (ROOT / "docs" / "installing.md").read_text("utf-8").partition("## What it takes")[2]
    for name, count in counts.items():
        _, told, size, *_ = row(f"`{name}` |", measured)
        assert int(told) == count
        assert f"{told} packages, {size}" in README


def test_the_clients_with_hooks_are_named() -> None:
    """U4.1: and the eight tools are those of the bundle, whose test asks a server for them."""
    assert f"({', '.join(sorted(each.title for each in CLIENTS if each.hooks))})" in README
    tools = [each["name"] for each in json.loads((ROOT / "manifest.json").read_text("utf-8"))["tools"]]
    assert re.findall(r"^\|`(\w+)`\|", README, re.MULTILINE) == tools
    assert (len(tools), "## The eight tools" in README) == (8, True)


def test_what_is_said_of_the_table_stands_in_it() -> None:
    """U3.2: the two shares that it calls equal have intervals that overlap; the benchmarks had the two cores."""
    _, mine, others = row("60 questions answered among five")
    shares = [results.share(int(each.split()[0]), 60) for each in (mine, others)]
    assert f"{shares[0]['hits']} and {shares[1]['hits']} are equal" in README
    assert all(one["low"] <= other["high"] for one, other in (shares, shares[::-1]))
    _, mine, plain = row("59 questions answered in 300 tokens")
    assert mine == plain.partition(" (")[0]
    assert results.read()["parts"]["cost"]["conditions"]["cores"] == 2


def test_what_a_search_takes_is_what_was_measured() -> None:
    """U3.2."""
    measured = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    alone, beside = (
        [float(each) for each in re.findall(r"[\d.]+", row(begins, measured)[1])]
        for begins in ("nothing runs: the command", "a client is open, whose owner")
    )
    assert {round(each) for each in alone} == {4}
    assert f"takes four seconds, [{min(beside)} to {max(beside)}](docs/" in README


def test_the_model_is_best_at_english() -> None:
    """U3.2: among ten results it finds less in each of the four other languages, and another model nearly all."""
    measured = (ROOT / "docs" / "benchmarks.md").read_text("utf-8").partition("### Many languages")[2]
    ours, other = (
        [float(each.split(", ")[1]) for each in row(f"`{name}` |", measured)[1:]] for name in ("minilm", "e5")
    )
    assert max(ours[:4]) < min(ours[4:])
    assert min(other[:4]) > 90
