"""Blocks and recall for questions about a time: what happened then, and nothing else."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.text.times import iso
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PushRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
AGES = {"now": 5 * 60, "today": 4 * 3_600, "yesterday": 26 * 3_600, "last week": 7 * 86_400, "long ago": 90 * 86_400}
"""Seconds before noon on a Friday."""


@pytest.fixture
def days(app: App, clock: "Clock") -> list[str]:
    """One event and one episode for each of AGES."""
    items: list[NewRecord] = []
    for name, age in AGES.items():
        at = clock() - age
        items.append(
            NewRecord(text=f"make dock {name}", kind="event", details={"command": f"dock {name}"}, occurred_at=at)
        )
        items.append(NewRecord(text=f"The crew talked {name}.", kind="episode", occurred_at=at))
    app.remember(items, app.caller())
    return [*AGES]


def told(app: App, query: str, **more: int) -> list[list[str]]:
    """Of which ages a block and a recall tell."""
    block = app.assemble_context(ContextRequest(query=query, max_tokens=2_000), app.caller()).text
    recalled = "\n".join(str(each["text"]) for each in app.recall(RecallRequest(query=query), app.caller()).results)
    return [
        [name for name in AGES if f"talked {name}." in text or f"dock {name}" in text] for text in (block, recalled)
    ]


@pytest.mark.uncounted
@pytest.mark.parametrize(
    ("query", "ages"),
    [
        ("what happened in the last ten minutes?", ["now"]),
        ("what did I do just now?", ["now"]),
        ("What have we done today?", ["now", "today"]),
        ("was ist gestern passiert?", ["yesterday"]),
        ("今天发生了什么？", ["now", "today"]),
        ("昨天发生了什么？", ["yesterday"]),
        ("Que s'est-il passé la semaine dernière ?", ["last week"]),
        ("what happened last week?", ["last week"]),
        ("¿qué pasó ayer?", ["yesterday"]),
    ],
)
@pytest.mark.parametrize("with_task", [False, True], ids=["without a task", "in a task"])
def test_a_time_selects(app: App, days: list[str], query: str, ages: list[str], with_task: bool) -> None:
    """W6.1: in a block as in a recall; the goals of the current task do not join such a question."""
    if with_task:
        app.tasks.push(PushRequest(goal="Paint the crane at the dock"), app.caller())
    assert told(app, query) == [ages, ages]


def test_events_carry_their_time(app: App, days: list[str], clock: "Clock") -> None:
    """W6.1: of today alone, of yesterday with the day."""
    text = app.assemble_context(ContextRequest(query="what happened today?", max_tokens=2_000), app.caller()).text
    assert f" {iso(clock() - AGES['now'])[11:16]}]" in text
    lines = app.recall(RecallRequest(query="what happened yesterday?"), app.caller()).shown
    (event,) = (each.line for each in lines if "dock" in each.line)
    assert f"{iso(clock() - AGES['yesterday'])[5:16].replace('T', ' ')}" in event


def test_days_are_the_users(open_memory: Callable[..., App], clock: "Clock") -> None:
    """W6.1: what UTC counts as yesterday may be today elsewhere, in what is asked and in what is read."""
    app = open_memory(timezone="Pacific/Kiritimati")  # 14 hours ahead: noon is two o'clock on the next day.
    items = [
        NewRecord(text=f"The crew talked {name}.", kind="episode", occurred_at=clock() - hours * 3_600)
        for name, hours in (("after midnight", 1), ("before midnight", 3))
    ]
    app.remember(items, app.caller())
    found = app.recall(RecallRequest(query="what happened today?"), app.caller()).results
    assert [each["text"] for each in found] == ["The crew talked after midnight."]
    listed = app.recall(RecallRequest(since="today"), app.caller()).shown
    assert [each.line.partition("]")[0].split()[-1] for each in listed] == ["11-21"]


def test_a_time_beside_a_subject_leaves_the_subject(app: App, days: list[str]) -> None:
    """R6: "right now" asks of what is, not of the last half hour."""
    app.remember([NewRecord(text="The harbour's cache is Redis.")], app.caller())
    found = app.recall(RecallRequest(query="which cache does the harbour run right now?"), app.caller()).results
    assert found[0]["text"] == "The harbour's cache is Redis."
