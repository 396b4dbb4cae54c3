"""What a user took back in a transcript, and what only looks like it."""

import json
from pathlib import Path
from typing import Any

from mcp_memory.entrypoints.conversations.rewound import taken_back, taken_back_in


def line(own: str, parent: str | None, content: Any = "words", role: str = "assistant", **fields: Any) -> bytes:
    entry = {"type": role, "uuid": own, "parentUuid": parent, "message": {"role": role, "content": content}, **fields}
    return json.dumps(entry).encode() + b"\n"


def prompt(own: str, parent: str | None, **fields: Any) -> bytes:
    return line(own, parent, role="user", **fields)


def result(own: str, parent: str) -> bytes:
    return line(own, parent, [{"type": "tool_result", "tool_use_id": own, "content": "ok"}], role="user")


BEGINNING = [prompt("p1", None), line("a1", "p1")]
BRANCH = [prompt("p2", "a1"), line("a2", "p2"), line("c2", "a2"), result("r2", "c2"), prompt("p3", "r2")]


def test_a_prompt_that_another_one_took_the_place_of_goes_with_all_that_followed() -> None:
    """P2.1: its answers, calls and later prompts; not what the user went back to."""
    assert taken_back([*BEGINNING, *BRANCH, prompt("p4", "a1"), line("a4", "p4")]) == ["p2", "a2", "c2", "r2", "p3"]


def test_a_client_s_own_line_between_changes_nothing() -> None:
    """Its notes stand in the chain."""
    note = json.dumps({"type": "system", "uuid": "s", "parentUuid": "a1"}).encode()
    assert taken_back([*BEGINNING, note, prompt("p2", "s"), line("a2", "p2"), prompt("p4", "a1")]) == ["p2", "a2"]


def test_going_back_twice_and_to_the_beginning() -> None:
    """Each branch is left for itself."""
    twice = [*BEGINNING, prompt("p2", "a1"), prompt("p3", "a1"), prompt("p4", "a1")]
    assert taken_back(twice) == ["p2", "p3"]
    assert taken_back([*BEGINNING, prompt("p9", None)]) == ["p1", "a1"]


def test_the_client_may_name_the_line_that_lives() -> None:
    """Of two branches the last one need not."""
    lines = [*BEGINNING, prompt("p2", "a1"), prompt("p4", "a1"), b'{"type": "last-prompt", "leafUuid": "p4"}\n']
    assert taken_back(lines) == ["p2"]
    assert taken_back([*lines[:-1], b'{"type": "last-prompt", "leafUuid": "gone"}\n']) == ["p2"]


def test_calls_side_by_side_and_subagents_are_no_branches() -> None:
    """Only a prompt takes something back."""
    calls = [line("c1", "a1"), result("r1", "c1"), line("c2", "c1"), result("r2", "c2"), line("a3", "r2")]
    beside = [prompt("x", "a1", isSidechain=True), prompt("m", "a1", isMeta=True)]
    assert taken_back([*BEGINNING, *calls, *beside, prompt("p2", "a3")]) == []


def test_a_client_s_compaction_takes_nothing_back() -> None:
    """The chain begins anew, and names the line that it continues; where it names none, nothing is certain."""
    boundary = json.dumps({"type": "system", "uuid": "s", "parentUuid": None, "logicalParentUuid": "a1"}).encode()
    assert taken_back([*BEGINNING, boundary, prompt("p2", "s")]) == []
    summary = prompt("s", None, isCompactSummary=True)
    assert taken_back([*BEGINNING, summary, prompt("p2", "s"), line("a2", "p2")]) == []
    assert taken_back([*BEGINNING, line("a9", "lost"), prompt("p2", "a9")]) == []


def test_lines_without_a_chain_are_not_taken_back() -> None:
    """Other clients name no line before, or none for all."""
    assert taken_back([prompt("p1", None), prompt("p2", None), prompt("p3", None)]) == []
    assert taken_back([b'{"type": "user", "uuid": "p1", "message": {"content": "x"}}', *BEGINNING]) == []


def test_odd_lines_do_no_harm(tmp_path: Path) -> None:
    """S3: a loop, lines that are no objects, a file that is not there."""
    loop = [prompt("x", "y"), prompt("y", "x"), prompt("z", "y")]
    assert taken_back([*loop, b"[1]\n", b"{", b'{"uuid": 7}', prompt("p1", None, content=7)]) == []
    assert taken_back([]) == []
    assert taken_back_in(tmp_path / "none.jsonl") == []
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"".join([*BEGINNING, *BRANCH, prompt("p4", "a1")]))
    assert taken_back_in(file)[0] == "p2"
