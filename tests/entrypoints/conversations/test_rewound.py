"""What a user took back in a transcript, and what only looks like it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.entrypoints.conversations import rewound
from mcp_memory.entrypoints.conversations.rewound import branches, branches_in, goes_back


def line(own: str, parent: str | None, content: Any = "words", role: str = "assistant", **fields: Any) -> bytes:
    entry = {"type": role, "uuid": own, "parentUuid": parent, "message": {"role": role, "content": content}, **fields}
    return json.dumps(entry).encode() + b"\n"


def prompt(own: str, parent: str | None, **fields: Any) -> bytes:
    return line(own, parent, role="user", **fields)


def result(own: str, parent: str) -> bytes:
    return line(own, parent, [{"type": "tool_result", "tool_use_id": own, "content": "ok"}], role="user")


def left(lines: Iterable[bytes]) -> list[str]:
    return [*branches(lines).left]


BEGINNING = [prompt("p1", None), line("a1", "p1")]
BRANCH = [prompt("p2", "a1"), line("a2", "p2"), line("c2", "a2"), result("r2", "c2"), prompt("p3", "r2")]


def test_a_prompt_that_another_one_took_the_place_of_goes_with_all_that_followed() -> None:
    """P2.1: its answers, calls and later prompts; not what the user went back to."""
    assert left([*BEGINNING, *BRANCH, prompt("p4", "a1"), line("a4", "p4")]) == ["p2", "a2", "c2", "r2", "p3"]


def test_a_client_s_own_line_between_changes_nothing() -> None:
    """Its notes stand in the chain."""
    note = json.dumps({"type": "system", "uuid": "s", "parentUuid": "a1"}).encode()
    assert left([*BEGINNING, note, prompt("p2", "s"), line("a2", "p2"), prompt("p4", "a1")]) == ["p2", "a2"]


def test_going_back_twice_and_to_the_beginning() -> None:
    """Each branch is left for itself."""
    twice = [*BEGINNING, prompt("p2", "a1"), prompt("p3", "a1"), prompt("p4", "a1")]
    assert left(twice) == ["p2", "p3"]
    assert left([*BEGINNING, prompt("p9", None)]) == ["p1", "a1"]


def test_the_client_may_name_the_line_that_lives() -> None:
    """Of two branches the last one need not."""
    lines = [*BEGINNING, prompt("p2", "a1"), prompt("p4", "a1"), b'{"type": "last-prompt", "leafUuid": "p4"}\n']
    assert left(lines) == ["p2"]
    assert left([*lines[:-1], b'{"type": "last-prompt", "leafUuid": "gone"}\n']) == ["p2"]


def test_calls_side_by_side_and_subagents_are_no_branches() -> None:
    """Only a prompt takes something back."""
    calls = [line("c1", "a1"), result("r1", "c1"), line("c2", "c1"), result("r2", "c2"), line("a3", "r2")]
    beside = [prompt("x", "a1", isSidechain=True), prompt("m", "a1", isMeta=True)]
    assert left([*BEGINNING, *calls, *beside, prompt("p2", "a3")]) == []


def test_a_client_s_compaction_takes_nothing_back() -> None:
    """The chain begins anew, and names the line that it continues; where it names none, nothing is certain."""
    boundary = json.dumps({"type": "system", "uuid": "s", "parentUuid": None, "logicalParentUuid": "a1"}).encode()
    assert left([*BEGINNING, boundary, prompt("p2", "s")]) == []
    summary = prompt("s", None, isCompactSummary=True)
    assert left([*BEGINNING, summary, prompt("p2", "s"), line("a2", "p2")]) == []
    assert left([*BEGINNING, line("a9", "lost"), prompt("p2", "a9")]) == []


def test_lines_without_a_chain_are_not_left() -> None:
    """Other clients name no line before, or none for all."""
    assert left([prompt("p1", None), prompt("p2", None), prompt("p3", None)]) == []
    assert left([b'{"type": "user", "uuid": "p1", "message": {"content": "x"}}', *BEGINNING]) == []


def test_odd_lines_do_no_harm(tmp_path: Path) -> None:
    """S3: a loop, lines that are no objects, a file that is not there."""
    loop = [prompt("x", "y"), prompt("y", "x"), prompt("z", "y")]
    assert left([*loop, b"[1]\n", b"{", b'{"uuid": 7}', prompt("p1", None, content=7)]) == []
    assert left([]) == []
    assert branches_in(tmp_path / "none.jsonl").left == ()
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"".join([*BEGINNING, *BRANCH, prompt("p4", "a1")]))
    assert branches_in(file).left[0] == "p2"


def test_going_back_to_a_branch_that_was_left_makes_it_stand_again() -> None:
    """P2.1: the branch in between is left, also where the user leaves a third one for it."""
    two = [*BEGINNING, *BRANCH, prompt("p4", "a1"), line("a4", "p4"), prompt("p5", "a4")]
    again = branches([*two, prompt("p6", "r2"), line("a6", "p6")])
    assert again.left == ("p3", "p4", "a4", "p5")
    assert again.standing == ("p1", "a1", "p2", "a2", "c2", "r2", "p6", "a6")
    thrice = [*two, prompt("p6", "r2"), line("a6", "p6"), prompt("p7", "r2")]
    assert left(thrice) == [*again.left, "p6", "a6"]


def test_a_prompt_beside_the_chain_that_nobody_left_stands() -> None:
    """The client went on by itself, and the user went back elsewhere later."""
    beside = [*BEGINNING, prompt("p2", "a1"), line("a2", "p2"), prompt("x", "a1"), line("a3", "a2"), prompt("p3", "a3")]
    lines = [*beside, line("a4", "p3"), prompt("p5", "a3")]
    assert left(lines) == ["p3", "a4"]
    assert "x" in branches(lines).standing


def test_a_branch_that_begins_nowhere_is_neither_left_nor_standing() -> None:
    """Lines before a client's compaction that names none of them."""
    assert branches([*BEGINNING, line("a9", "lost"), prompt("p2", "a9")]).standing == ("a9", "p2")


def test_going_back_is_seen_in_new_lines_by_those_before() -> None:
    """Not where the user went back in those before."""
    before, back = b"".join([*BEGINNING, *BRANCH]), prompt("p4", "a1")
    assert goes_back(before, back)
    assert not goes_back(before + back, line("a4", "p4"))
    assert not goes_back(b"", b"".join(BEGINNING))


def test_each_line_is_looked_at_a_few_times_however_long_a_branch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch of prompts alone, which begins nowhere, and one that was left."""
    looked: list[str] = []

    class Tallied:
        def __init__(self, **fields: Any) -> None:
            self.id, self.is_prompt, self._parent = fields["id"], fields["is_prompt"], fields["parent"]

        @property
        def parent(self) -> str | None:
            looked.append(self.id)
            return self._parent

    monkeypatch.setattr(rewound, "ChainLine", Tallied)
    for first in ("lost", "a1"):
        looked.clear()
        branch = [prompt(f"b{each}", f"b{each - 1}" if each else first) for each in range(300)]
        assert len(branches([*BEGINNING, *branch, prompt("p4", "a1")]).left) == (300 if first == "a1" else 0)
        assert len(looked) < 10 * 300
