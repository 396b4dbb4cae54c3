import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.entrypoints.conversations.transcripts import read_part
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.services.tasks.task_stack import PushRequest

if TYPE_CHECKING:
    from mcp_memory.app import App
    from tests.entrypoints.hooks.conftest import RunHook, Transcript

SESSION = "0a1b2c3d-0000-4000-8000-000000000001"


def texts(memory: "App") -> list[str]:
    return [entry.text for entry in memory.logs.log(memory.caller(SESSION)).entries]


def test_each_thing_said_is_in_the_log_once_however_many_hooks_run(
    memory: "App", run_hook: "RunHook", transcript: "Transcript", tmp_path: Path
) -> None:
    """S7.2."""
    transcript.say("user", "Which port?")
    transcript.call("c1", "Bash", {"command": "ss"}, "8123")
    for name in ("PostToolUse", "Stop", "Stop"):
        assert run_hook(name) == ""
    transcript.say("assistant", [{"type": "text", "text": "It is 8123."}])
    run_hook("Stop")
    run_hook("SessionEnd")
    said = ["Which port?", '{"command":"ss"}', "8123", "It is 8123."]
    assert texts(memory) == said
    for note in (tmp_path / "data" / "hooks").iterdir():
        note.unlink()
    run_hook("Stop")
    assert texts(memory) == said


def test_the_log_stands_in_the_task_that_the_agents_server_is_in(
    memory: "App", run_hook: "RunHook", transcript: "Transcript"
) -> None:
    me = memory.caller()
    task = memory.tasks.push(PushRequest(goal="Find the port"), me).path[-1]
    transcript.say("user", "Which port?")
    run_hook("Stop")
    (said,) = memory.records.list(RecordFilter(scopes=me.scopes, kinds=frozenset({"message"})), "created", 5)
    assert (said.task_id, said.session_id) == (task.id, SESSION)


def test_after_a_call_it_is_fed_only_now_and_then(
    memory: "App", run_hook: "RunHook", transcript: "Transcript", tmp_path: Path
) -> None:
    transcript.say("user", "One")
    run_hook("PostToolUse")
    transcript.say("user", "Two")
    run_hook("PostToolUse")
    assert texts(memory) == ["One"]
    (note,) = (tmp_path / "data" / "hooks").iterdir()
    os.utime(note, (0, 0))
    run_hook("PostToolUse")
    assert texts(memory) == ["One", "Two"]


def test_a_log_that_hooks_fed_past_its_ceiling_is_compacted_at_once(
    memory: "App", run_hook: "RunHook", transcript: "Transcript"
) -> None:
    """P1.1: one prompt, and calls faster than a server's upkeep."""
    transcript.say("user", "Work until it is done.")
    for number in range(60):
        transcript.call(f"c{number}", "Bash", {"command": f"cat {number}.py"}, f"line {number} of the file\n" * 30)
    run_hook("Stop", {"compaction_window": 4_000})
    (session_id,) = {
        record.session_id
        for record in memory.records.list(
            RecordFilter(scopes=memory.caller().scopes, kinds=frozenset({"message"})), "created", 10
        )
    }
    assert memory.logs.size(memory.caller(session_id)).tokens <= 0.9 * 4_000


def test_switched_off_it_keeps_no_log(memory: "App", run_hook: "RunHook", transcript: "Transcript") -> None:
    transcript.say("user", "Between us: nothing of this.")
    off: dict[str, object] = {"hook_log": False}
    for name in ("PostToolUse", "Stop", "PreCompact", "PostCompact", "SessionEnd"):
        run_hook(name, off, compact_summary="We spoke of this.")
    assert memory.inspect.status(memory.caller()).summary.records == {}


def test_where_the_memory_lies_on_a_server_nothing_is_kept_or_given_here(
    memory: "App", run_hook: "RunHook", transcript: "Transcript"
) -> None:
    memory.tasks.push(PushRequest(goal="Find the port"), memory.caller())
    transcript.say("user", "Which port?")
    elsewhere: dict[str, object] = {"url": "http://127.0.0.1:1/mcp"}  # where nobody listens
    for name in ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "PostCompact", "SessionEnd"):
        with pytest.raises(StoreUnavailable, match="gave no answer"):
            run_hook(name, elsewhere, prompt="Which port?")
    assert texts(memory) == []


def test_a_line_still_being_written_waits_for_the_next_hook(
    memory: "App", run_hook: "RunHook", transcript: "Transcript"
) -> None:
    transcript.say("user", "One")
    whole = transcript.path.read_bytes()
    transcript.say("user", "Two")
    both = transcript.path.read_bytes()
    transcript.path.write_bytes(both[:-20])
    run_hook("Stop")
    assert texts(memory) == ["One"]
    assert read_part(transcript.path, len(whole)).end == len(whole)
    transcript.path.write_bytes(both)
    run_hook("Stop")
    assert texts(memory) == ["One", "Two"]


def test_a_missing_transcript_is_named(run_hook: "RunHook") -> None:
    with pytest.raises(InvalidRequest, match="There is no file at this path"):
        run_hook("Stop")
    assert run_hook("Stop", transcript_path="") == ""


def test_a_result_in_a_later_piece_is_told_by_its_tools_name(transcript: "Transcript") -> None:
    transcript.call("c1", "Bash", {"command": "ss"}, "8123")
    first = read_part(transcript.path, most_bytes=1)
    second = read_part(transcript.path, first.end)
    assert [(one.kind, one.tool) for one in (*first.records, *second.records)] == [
        ("tool_call", "Bash"),
        ("tool_result", "Bash"),
    ]
    assert read_part(transcript.path, second.end).records == ()


def test_a_shorter_file_is_another_one(transcript: "Transcript") -> None:
    transcript.say("user", "One")
    assert [one.text for one in read_part(transcript.path, 1_000_000).records] == ["One"]


def test_a_folder_is_no_transcript(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no ordinary file"):
        read_part(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="/proc/self/mem is read-protected on Linux alone")
def test_what_cannot_be_read_is_named() -> None:
    if not Path("/proc/self/mem").exists():
        pytest.skip("there is no /proc here")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read_part(Path("/proc/self/mem"))


def test_another_transcript_of_the_session_is_read_from_its_beginning(
    memory: "App", run_hook: "RunHook", transcript: "Transcript", tmp_path: Path
) -> None:
    """S7.2: in another folder, or put in the former one's place; longer than what was read of that."""
    transcript.say("user", "One")
    run_hook("Stop")
    other = tmp_path / "elsewhere.jsonl"
    lines = [f'{{"type":"user","uuid":"o{n}","message":{{"role":"user","content":"Other {n}"}}}}\n' for n in range(9)]
    other.write_text("".join(lines[:6]), "utf-8")
    run_hook("Stop", transcript_path=str(other))
    assert texts(memory) == ["One", *(f"Other {n}" for n in range(6))]
    transcript.path.write_text(lines[8] * 30 + lines[7], "utf-8")
    run_hook("Stop")
    assert texts(memory)[-2:] == ["Other 8", "Other 7"]
    run_hook("Stop")
    assert len(texts(memory)) == 9


def test_what_the_user_goes_back_to_is_in_the_log_again(
    memory: "App", run_hook: "RunHook", transcript: "Transcript"
) -> None:
    """P2.1: also where the prompt's hook comes later than what a long output put in between."""
    for text, parent in (("Which store?", None), ("Use MySQL.", "u1"), ("Use SQLite.", "u1")):
        transcript.say("user", text, parentUuid=parent)
    run_hook("Stop")
    assert texts(memory) == ["Which store?", "Use SQLite."]
    transcript.say("assistant", "So be it. " * 20_000, parentUuid="u3")
    run_hook("Stop")
    transcript.say("user", "No, back.", parentUuid="u2")
    run_hook("Stop")
    assert texts(memory) == ["Which store?", "Use MySQL.", "No, back."]
