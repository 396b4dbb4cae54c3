"""review, review settle, undo: the queue in a person's hands."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

ALIKE = ("The database listens on port 5432.", "The database listens on port 5433.")


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
    assert "To review 1 groups, 0 for you: `mcp-memory review`" in " ".join(run("status").out.split())
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
        (["undo"], "Say which change: what changed something named its number"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(run: "Run", memory: App, arguments: list[str], says: str) -> None:
    """N2.1."""
    memory.remember([NewRecord(text="One.")], memory.caller())
    ran = run(*arguments)
    assert (ran.code, says in ran.err) == (1, True)
