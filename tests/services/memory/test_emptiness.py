"""A memory with nothing in it says so, and where there is something."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.emptiness import nothing_stored
from tests.services.tasks.moves import push

if TYPE_CHECKING:
    from mcp_memory.services.memory.remember import Remembered

Open = Callable[..., App]
EMPTY = "Nothing is stored in the namespace test yet."


def fill(open_memory: Open, names: Sequence[str]) -> None:
    for name in names:
        app = open_memory(namespace=name)
        app.remember([NewRecord(text="Something.")], app.caller())


@pytest.mark.parametrize("query", ["", "Which port?"])
def test_an_empty_memory_says_so_in_one_line(app: App, query: str) -> None:
    context = app.assemble_context(ContextRequest(query=query), app.caller())
    assert context.text.splitlines()[1:-1] == ["## Note", f"- {EMPTY}"]
    assert not context.report.truncated


@pytest.mark.uncounted
def test_it_names_where_there_is_something(open_memory: Open) -> None:
    """F4.2: a few of them, and only those that the caller may know of."""
    app = open_memory()
    fill(open_memory, [f"project-{n}" for n in range(7)])
    line = nothing_stored(app.records, app.caller())
    assert line == f"{EMPTY} There is something in: {', '.join(f'project-{n}' for n in range(5))} and 2 more."
    assert line in app.assemble_context(ContextRequest(), app.caller()).text
    small = app.assemble_context(ContextRequest(max_tokens=64), app.caller())
    assert EMPTY in small.text
    assert small.report.token_count <= 64
    grant = Grant(agent="ann", person="ann", namespaces=("test", "project-3", "none"), right="read")
    of_token = grant.caller("test", "s", ())
    assert nothing_stored(app.records, of_token) == f"{EMPTY} There is something in: project-3."
    assert nothing_stored(app.records, replace(app.caller(), knows=())) == EMPTY


def test_it_is_not_empty_with_a_task_or_a_record_that_a_filter_leaves_out(
    open_memory: Open, remember: "Callable[..., Remembered]", app: App
) -> None:
    remember("The port is 5432.")
    assert EMPTY not in app.assemble_context(ContextRequest(kinds=("episode",)), app.caller()).text
    other = open_memory(namespace="other")
    assert nothing_stored(other.records, other.caller())
    push(other, "Ship it")
    assert not nothing_stored(other.records, other.caller())
