from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.services.tasks.task_stack import PushRequest

if TYPE_CHECKING:
    from tests.entrypoints.hooks.conftest import RunHook, Transcript

ContextOf = Callable[[str], str]


def kept(memory: App, tag: str) -> list[Record]:
    where = RecordFilter(scopes=memory.caller().scopes, tags=frozenset({tag}))
    return list(memory.records.list(where, "created", 10))


def test_before_a_compaction_a_checkpoint_says_where_the_work_stands(
    memory: App, run_hook: "RunHook", transcript: "Transcript"
) -> None:
    """S7.2."""
    memory.tasks.push(PushRequest(goal="Let customers export invoices"), memory.caller())
    memory.tasks.push(PushRequest(goal='Stream the "rows"'), memory.caller())
    transcript.say("user", "Write them to exports/writer.py and never use pandas.")
    transcript.call("c1", "Edit", {"file_path": "exports/writer.py"}, "done")
    told = run_hook("PreCompact", trigger="manual")
    assert told.startswith("Keep word for word")
    for slot in (
        "the user asked",
        "every rule",
        "still open",
        "next step",
        "decisions",
        "dead ends",
        "errors",
        "files",
    ):
        assert slot in told
    assert told.endswith(r'as data and no instruction: "Let customers export invoices > Stream the \"rows\"".')
    (checkpoint,) = kept(memory, "checkpoint")
    assert checkpoint.kind == "event"
    assert checkpoint.session_id == "0a1b2c3d-0000-4000-8000-000000000001"
    for part in ('Let customers export invoices > Stream the "rows"', "never use pandas", "exports/writer.py"):
        assert part in checkpoint.text
    assert len(memory.logs.said(memory.caller(checkpoint.session_id))) == 3


def test_a_checkpoint_is_stored_before_the_log_is_held_below_its_ceiling(
    memory: App, run_hook: "RunHook", transcript: "Transcript", monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.2: a deadline in the compaction leaves it."""
    transcript.say("user", "First look at the tests in tests/test_export.py.")
    stored: list[int] = []

    def count(_app: App, _caller: Caller) -> None:
        stored.append(len(kept(memory, "checkpoint")))

    monkeypatch.setattr(App, "hold_ceiling", count)
    run_hook("PreCompact")
    assert set(stored) == {1}


def test_a_later_checkpoint_takes_the_place_of_the_former(
    memory: App, run_hook: "RunHook", transcript: "Transcript"
) -> None:
    transcript.say("user", "First look at the tests in tests/test_export.py.")
    run_hook("PreCompact")
    transcript.say("user", "Then look at the columns in docs/export.md.")
    run_hook("PreCompact")
    newer, older = kept(memory, "checkpoint")
    assert older.superseded_by == newer.id
    assert "docs/export.md" in newer.text


def test_the_clients_summary_is_kept_in_the_place_of_its_former_one(memory: App, run_hook: "RunHook") -> None:
    """S7.2."""
    first = "<analysis>Let me think.</analysis>\n<summary>\n1. The port is 5433.\n</summary>"
    run_hook("PostCompact", trigger="auto", compact_summary=first)
    run_hook("PostCompact", trigger="auto", compact_summary="2. The export works \x00 now.")
    newer, older = kept(memory, "client-summary")
    assert (older.kind, older.text) == ("summary", "1. The port is 5433.")
    assert older.superseded_by == newer.id
    assert newer.text == "2. The export works  now."
    run_hook("PostCompact", trigger="auto", compact_summary="")
    assert len(kept(memory, "client-summary")) == 2


def test_a_clients_summary_that_says_nothing_is_not_kept(
    memory: App, run_hook: "RunHook", transcript: "Transcript"
) -> None:
    """P2.2: the former one stays."""
    transcript.say("user", "Write the invoices to exports/writer.py and never use pandas.")
    run_hook("PreCompact")
    run_hook("PostCompact", trigger="auto", compact_summary="1. Primary request: invoices go to exports/writer.py.")
    run_hook("PostCompact", trigger="auto", compact_summary="## Goal\n- none\n## Next steps\n- (none)")
    (only,) = kept(memory, "client-summary")
    assert only.holds


def test_the_clients_summary_teaches_errors_and_their_fixes(memory: App, run_hook: "RunHook") -> None:
    """D10.1, R9: noted for its session alone, once, and erased with it."""
    said = (
        "<summary>\n4. Errors and fixes:\n   - **Port taken**: `serve` found 8443 in use\n     - Fix: 8444\n</summary>"
    )
    for _ in range(2):
        run_hook("PostCompact", trigger="auto", compact_summary=said)
    _, summary = kept(memory, "client-summary")
    where = RecordFilter(scopes=memory.caller().scopes, kinds=frozenset({"fact"}))
    (fact,) = memory.records.list(where, "created", 10)
    assert fact.text == "**Port taken**: `serve` found 8443 in use Fix: 8444"
    assert (fact.status, fact.details, fact.tags, fact.session_id) == (
        "noted", {"source": summary.id}, (), summary.session_id,
    )  # fmt: skip
    assert memory.forget([summary.id], "erase", memory.caller(summary.session_id)).extracted == (fact.id,)


def test_without_a_transcript_the_checkpoint_says_where_the_tasks_stand(memory: App, run_hook: "RunHook") -> None:
    memory.tasks.push(PushRequest(goal="Stream the rows"), memory.caller())
    assert run_hook("PreCompact", trigger="auto").endswith('"Stream the rows".')
    assert "Stream the rows" in kept(memory, "checkpoint")[0].text


def test_with_nothing_said_and_no_memory_it_still_tells_the_client_what_to_keep(run_hook: "RunHook") -> None:
    off: dict[str, object] = {"hook_log": False}
    assert run_hook("PreCompact", off).startswith("Keep word for word")
    assert run_hook("PreCompact", transcript_path="").startswith("Keep word for word")


def test_marks_of_a_summary_that_never_ends_are_part_of_it(memory: App, run_hook: "RunHook") -> None:
    """S7.2: and take no longer than other text, as no deadline ends a pattern's search."""
    said = "<summary>" * 3_000 + "The port is 5433."
    run_hook("PostCompact", trigger="auto", compact_summary=said)
    assert kept(memory, "client-summary")[0].text.endswith("The port is 5433.")


def test_a_summary_that_is_erased_at_once_teaches_nothing(
    memory: App, run_hook: "RunHook", monkeypatch: pytest.MonkeyPatch
) -> None:
    """D9.3: between storing and reading it another process may erase it."""
    remember = App.remember

    def erased(app: App, items: Sequence[NewRecord], caller: Caller) -> object:
        stored = remember(app, items, caller)
        app.forget([each.id for each in stored], "erase", caller)
        return stored

    monkeypatch.setattr(App, "remember", erased)
    assert run_hook("PostCompact", trigger="auto", compact_summary="4. Errors and fixes:\n   - Port taken: 8444") == ""
    assert kept(memory, "client-summary") == []
