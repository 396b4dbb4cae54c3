"""review, review settle, undo: the queue in a person's hands."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.services.memory.revise import Revision

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

ALIKE = ("The database listens on port 5432.", "The database listens on port 5433.")
TEXTS = ("The port is 80.", "The moon is full.", "The sky is grey.", "The sea is calm.")


@pytest.fixture
def memory(open_memory: Callable[..., App]) -> App:
    return open_memory()


@pytest.fixture
def pair(memory: App) -> list[str]:
    """Two records that wait for a review."""
    return [memory.remember([NewRecord(text=text)], memory.caller())[0].id for text in ALIKE]


def test_groups_are_shown_settled_and_undone(run: "Run", pair: list[str]) -> None:
    """N2.1: as text and as JSON; the status counts what waits."""
    (group,) = run("review", "--json").json["groups"]
    assert {each["id"]: each["text"] for each in group["records"]} == dict(zip(pair, ALIKE, strict=True))
    assert (group["kind"], group["why"]) == (
        "contradictions",
        'The first may contradict: "5432" there, "5433" here.',
    )
    screen = run("review").out
    assert group["id"] in screen
    assert ALIKE[0] in screen
    assert "To review 1 group, 0 for you: `mcp-memory review`" in " ".join(run("status").out.split())
    settled = run("review", "settle", group["id"], "supersedes", "--keep", pair[0], "--reason", "newer", "--json").json
    assert (settled["settled"], settled["group"]) == ("supersedes", group["id"])
    assert run("review").out.strip() == "Nothing waits for a review."
    assert run("status", "--json").json["reviews"] == {"waiting": 0, "asked": 0}
    assert f"Change {settled['change']} is undone: {pair[1]}, {group['id']}." in run("undo", str(settled["change"])).out
    assert f"undo {settled['change']}" not in run("review", "settle", group["id"], "ask", "--reason", "Which?").out
    assert "for you: Which?" in run("review").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["review", "settle", "g00zzzz", "unrelated"], "No group 'g00zzzz' to review"),
        (["review", "settle", "g00zzzz", "both"], "There is no way 'both'; the ways are merge, supersedes, both-true"),
        (["undo", "99999"], "There is no change 99999."),
        (["undo", "1"], "Change 1 replaced nothing that you may restore."),
        (["undo", "--last"], "No change that default made with this client is left to undo; `mcp-memory undo` lists"),
        (["undo", "3", "--last"], "leave out the number, or --last."),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(run: "Run", memory: App, arguments: list[str], says: str) -> None:
    """N2.1."""
    memory.remember([NewRecord(text="One.")], memory.caller())
    ran = run(*arguments)
    assert (ran.code, says in ran.err) == (1, True)


def test_the_latest_changes_are_listed_and_the_last_own_one_is_taken_back(run: "Run", memory: App) -> None:
    """U2.1: beside other agents and other clients of the same agent, which keep what they changed."""
    assert run("undo").out.strip() == "Nothing that an undo takes back was changed yet."
    port, moon, *more = [memory.remember([NewRecord(text=text)], memory.caller())[0].id for text in TEXTS]
    edited = run("edit", port, "--text", "The port is 81.", "--tag", "net", "--json").json["change"]
    retired = run("forget", port, moon, *more, "--json").json["change"]
    memory.revise(
        Revision(id=moon, pinned=True, version=memory.revision()), replace(memory.caller(client="ide"), agent="bob")
    )
    memory.forget([port], "restore", memory.caller(client="ide"), memory.revision())
    known = run("undo", "--json").json
    assert [(each["change"], each["by"]) for each in known[2:]] == [
        (retired, "default (command line)"), (edited, "default (command line)"),
    ]  # fmt: skip
    assert [each["by"] for each in known[:2]] == ["default (ide)", "bob (ide)"]
    assert [each["what"] for each in known] == [
        f"Restored {port} “The port is 81.”.",
        f"Changed the pin of {moon} “The moon is full.”.",
        f"Retired {port} “The port is 81.”, {moon}, {more[0]} and 1 more.",
        f"Changed the text, tags of {port} “The port is 81.”.",
    ]
    assert f"{retired} " in run("undo", "--limit", "3").out
    assert f"{edited} " not in run("undo", "--limit", "3").out
    refused = run("undo", "--last").err
    assert f"Record {moon} was changed since, by bob on" in refused or f"Record {port} was changed since" in refused
    assert run("undo", str(known[0]["change"])).code == run("undo", str(known[1]["change"])).code == 0
    assert f"Change {retired} is undone:" in run("undo", "--last").out
    last = run("undo", "--last")
    assert last.out.startswith(f"Change {edited} is undone: {port}. What it did: Changed the text, tags of {port} ")
    assert [each["undone"] > 0 for each in run("undo", "--json").json] == [True] * 4
    assert "Undone by change" in run("undo").out
