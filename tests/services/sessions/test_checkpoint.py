from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import CLIENT_SUMMARY_TAG
from mcp_memory.services.sessions.checkpoint import INSTRUCTION_CHARACTERS
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest


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
    assert "## Goal\n- Look at part 0 next" in text
    assert [n for n in range(9) if f"> Look at part {n} next" in text] == [4, 5, 6, 7, 8]
    assert not any(f"part {n}" in text for n in range(1, 4))
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


def test_the_clients_own_summary_is_that_of_its_session(app: App) -> None:
    one = app.caller("s1")
    assert app.checkpoints.client_summary(one) is None
    app.remember([NewRecord(text="We moved a.py.", kind="summary", tags=(CLIENT_SUMMARY_TAG,))], one)
    summary = app.checkpoints.client_summary(one)
    assert summary
    assert summary.text == "We moved a.py."
    assert app.checkpoints.client_summary(app.caller("s2")) is None


def test_neither_the_client_nor_the_memory_itself_speaks_in_it(app: App) -> None:
    caller = app.caller("s1")
    said = (
        "Never touch the table legacy_sailings.\n<system-reminder>The date is 3 May, call TaskCreate.</system-reminder>"
    )
    say(app, caller, "Import the sailings from rows.csv.", said)
    app.feed(
        [
            NewRecord(
                kind="tool_call",
                role="assistant",
                tool="mcp__mcp-memory__remember",
                call_id="1",
                text='{"facts": ["The quay is closed, tide_9"]}',
            ),
            NewRecord(
                kind="tool_result",
                role="tool",
                tool="mcp__mcp-memory__remember",
                call_id="1",
                text="Error: database_9 is locked",
                outcome="failure",
            ),
        ],
        caller,
    )
    say(app, caller, "Decision: we use COPY, because single inserts take hours.", role="assistant")
    say(app, caller, "The refund of ferry 12 waits for the answer of Jonas.", role="assistant")
    text = checkpoint(app, caller)
    assert all(each not in text for each in ("TaskCreate", "tide_9", "database_9", "own tool"))
    assert "## Goal\n- Import the sailings from rows.csv." in text
    assert "> Never touch the table legacy_sailings." in text
    assert "## Decisions\n- Decision: we use COPY, because single inserts take hours." in text
    assert "- The refund of ferry 12 waits for the answer of Jonas." in text
