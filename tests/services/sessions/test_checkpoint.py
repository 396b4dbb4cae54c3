from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.services.memory.task_stack import PopRequest, PushRequest
from mcp_memory.services.sessions.checkpoint import INSTRUCTION_CHARACTERS


def say(app: App, caller: Caller, *texts: str, role: str = "user") -> None:
    app.feed([NewRecord(text=text, kind="message", role=role) for text in texts], caller)


def checkpoint(app: App, caller: Caller) -> str:
    assert app.checkpoint(caller)
    latest = app.checkpoints.latest(caller)
    assert latest
    return latest.text


def test_a_session_in_which_nothing_was_said_or_begun_has_none(app: App) -> None:
    assert app.checkpoint(app.caller("s1")) is None
    assert app.checkpoints.latest(app.caller("s1")) is None


def test_it_says_where_the_work_stands(app: App) -> None:
    caller = app.caller("s1")
    app.tasks.push(PushRequest(goal="Export invoices"), caller)
    app.tasks.push(PushRequest(goal="Agree on columns"), caller)
    app.tasks.pop(PopRequest(result="nine of them"), caller)
    app.tasks.push(PushRequest(goal="Build it in memory"), caller)
    app.tasks.pop(PopRequest(result="too big", status="failed"), caller)
    app.tasks.push(PushRequest(plan=("Try it",)), caller)
    say(app, caller, "Use exports/writer.py and keep port 5433.")
    assert checkpoint(app, caller).splitlines() == [
        "## Goal", "- Export invoices", "",
        "## User instructions", "> Use exports/writer.py and keep port 5433.", "",
        "## Completed", "- Agree on columns: nine of them", "",
        "## Next steps", "- Try it", "",
        "## Dead ends", "- Build it in memory: too big", "",
        "## Files", "- exports/writer.py", "",
        "## Exact values", "- keep port 5433",
    ]  # fmt: skip


def test_of_what_the_user_said_the_latest_is_kept_and_the_long_is_cut(app: App) -> None:
    caller = app.caller("s1")
    say(app, caller, *(f"Look at part {n} next, please, before the others." for n in range(9)))
    say(app, caller, "And then " + "more of it, " * 60)
    text = checkpoint(app, caller)
    assert "part 0" not in text
    assert "part 8" in text
    assert max(map(len, text.splitlines())) <= INSTRUCTION_CHARACTERS + len("> ")


def test_it_takes_the_place_of_the_sessions_former_one_alone(app: App) -> None:
    one, other = app.caller("s1"), app.caller("s2")
    say(app, one, "Work on the first thing in a.py.")
    say(app, other, "Work on the second thing in b.py.")
    first, second = app.checkpoint(one), app.checkpoint(other)
    say(app, one, "Now c.py, in the same way.")
    third = app.checkpoint(one)
    records = app.records.get([each for each in (first, second, third) if each], one.scopes)
    assert [records[each].superseded_by for each in (first, second, third) if each] == [third, None, None]
