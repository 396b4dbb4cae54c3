import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.memory.harness import NO_OUTPUT
from mcp_memory.domain.model.limits import MAX_TEXT_CHARS
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.conversations import transcripts
from mcp_memory.entrypoints.conversations.transcripts import CUT, MAX_KINDS, read_lines, read_part, read_transcript
from mcp_memory.errors import InvalidRequest

SESSION = "0a1b2c3d-0000-4000-8000-000000000001"


def line(kind: str, content: Any, uuid: str | None = None, **fields: Any) -> dict[str, Any]:
    """A line as the client writes it."""
    return {
        "type": kind,
        "message": {"role": kind, "content": content, "id": "msg_shared"},
        "uuid": uuid,
        "parentUuid": None,
        "sessionId": SESSION,
        "timestamp": "2026-11-20T12:00:00.250Z",
        "isSidechain": False,
        "cwd": "/somewhere",
        **fields,
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "named-by-the-file.jsonl"


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines), "utf-8")
    return path


def read(path: Path, *lines: Any) -> tuple[list[NewRecord], dict[str, int]]:
    transcript = read_transcript(write(path, *lines))
    records = list(transcript.records)
    assert transcript.skipped == sum(transcript.skipped_kinds.values())
    return records, dict(transcript.skipped_kinds)


def test_a_session_becomes_the_records_of_its_log(path: Path) -> None:
    transcript = read_transcript(
        write(
            path,
            {"type": "summary", "summary": "Ports", "leafUuid": "u9"},
            line("user", "Which port?", "u1"),
            line("assistant", [{"type": "thinking", "thinking": "hm"}], "u2"),
            line("assistant", [{"type": "text", "text": "I look."}], "u3"),
            line("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ss"}}], "u4"),
            line(
                "user",
                [{"type": "tool_result", "tool_use_id": "t1", "content": "8123", "is_error": True}],
                "u5",
                toolUseResult={"stdout": "8123"},
            ),
            {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        )
    )
    records = list(transcript.records)
    assert [(one.kind, one.role, one.text, one.details["message_id"]) for one in records] == [
        ("message", "user", "Which port?", "u1"),
        ("message", "assistant", "I look.", "u3"),
        ("tool_call", "assistant", '{"command":"ss"}', "u4"),
        ("tool_result", "tool", "8123", "u5"),
    ]
    assert {one.occurred_at for one in records} == {1_795_176_000.25}
    assert [(one.tool, one.call_id, one.outcome) for one in records[2:]] == [
        ("Bash", "t1", None),
        ("Bash", "t1", "failure"),
    ]
    assert transcript.skipped_kinds == {"summary": 1, "no text": 1, "file-history-snapshot": 1}
    assert transcript.skipped == 3


def test_what_is_no_part_of_the_conversation_is_left_out_and_counted(path: Path) -> None:
    records, skipped = read(
        path,
        line("user", "Kept", "u1"),
        line("user", "For a subagent", "u2", isSidechain=True),
        line("user", "A skill's text", "u3", isMeta=True),
        line("user", "This session is being continued", "u4", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        line("user", "<local-command-stdout>ok</local-command-stdout>", "u5"),
        line("assistant", "Overloaded", "u6", isApiErrorMessage=True),
        {**line("assistant", ""), "message": {"role": "assistant", "model": "<synthetic>", "content": "No response"}},
        {"type": "system", "subtype": "compact_boundary", "content": "Compacted"},
        {"type": "attachment", "attachment": {"type": "hook_success", "content": "x"}},
        {"type": "user", "uuid": "u7"},
        {"type": "brand new ☃", "message": "x"},
        {},
    )
    assert [record.text for record in records] == ["Kept"]
    assert skipped == {
        "subagent": 1,
        "client's note": 4,
        "client's summary": 1,
        "system": 1,
        "attachment": 1,
        "user": 1,
        "unknown": 2,
    }


def test_what_the_user_said_while_the_agent_worked_is_kept(path: Path) -> None:
    said = {"type": "queued_command", "commandMode": "prompt", "prompt": "Use tabs.", "origin": {"kind": "human"}}
    notice = {"type": "queued_command", "commandMode": "task-notification", "prompt": "Done."}
    records, skipped = read(
        path,
        {"type": "attachment", "attachment": said, "uuid": "u1", "sessionId": SESSION},
        {"type": "attachment", "attachment": notice, "uuid": "u2"},
    )
    assert [(record.role, record.text) for record in records] == [("user", "Use tabs.")]
    assert skipped == {"attachment": 1}


def test_what_others_say_in_the_users_role_is_not_taken_for_the_users_words(path: Path) -> None:
    records, skipped = read(
        path,
        line("user", "<bash-input>ls</bash-input>", "u1"),
        line("user", "<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>", "u2"),
        line("user", "A background task is done.", "u3", origin={"kind": "task-notification"}),
        line("user", [{"type": "text", "text": "[Request interrupted by user]"}], "u4"),
        line("user", "Go on.", "u5", origin={"kind": "human"}),
    )
    assert [record.role for record in records] == ["tool", "tool", "tool", "user"]
    assert skipped == {"client's note": 1}  # The interruption.


def test_a_line_met_before_is_read_once(path: Path) -> None:
    records, skipped = read(path, line("user", "Hello", "u1"), line("user", "Hello", "u1"), line("user", "Hello"))
    assert [record.details for record in records] == [{"message_id": "u1"}, {}]
    assert skipped == {"met before": 1}


def test_lines_that_cannot_be_read_are_counted_and_the_rest_is_kept(path: Path) -> None:
    records, skipped = read(
        path,
        "\ufeff" + json.dumps(line("user", "First", "u1")),
        "",
        "not json",
        "[1]",
        "[" * 100_000,
        '{"n": ' + "9" * 5000 + "}",
        line("user", 5, "u2"),
        line("user", "Last", "u3", timestamp="no time"),
    )
    assert [record.text for record in records] == ["First", "Last"]
    assert records[1].occurred_at is None
    assert skipped == {"unreadable": 5}


def test_a_last_line_still_being_written_is_counted(path: Path) -> None:
    whole = json.dumps(line("user", "Hello", "u1"))
    path.write_text(f"{whole}\n{whole[:50]}", "utf-8")
    transcript = read_transcript(path)
    assert [record.text for record in transcript.records] == ["Hello"]
    assert transcript.skipped_kinds == {"unfinished": 1}
    path.write_text(whole, "utf-8")
    assert [record.text for record in read_transcript(path).records] == ["Hello"]


def test_characters_that_cannot_be_kept_are_mended(path: Path) -> None:
    raw = json.dumps(line("user", "caf\u00e9 \x1b[31mred\x1b[0m\0 \ud800 \uffff\tend", "u\x001"), ensure_ascii=True)
    result = line("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "\x1b[2J\x07"}], "u2")
    path.write_bytes(
        raw.encode() + b"\n" + json.dumps(line("user", "bad byte: ?", "u3")).encode().replace(b"?", b"\xff")
    )
    records = list(read_transcript(path).records)
    assert [record.text for record in records] == ["café red \ufffd \ufffd\tend", "bad byte: \ufffd"]
    assert records[0].details == {"message_id": "u1"}
    [record], skipped = read(path, result, line("user", "\0", "u4"))
    assert (record.text, skipped) == (NO_OUTPUT, {"no text": 1})


def test_a_text_too_long_is_cut_and_says_so(path: Path) -> None:
    [record], _ = read(path, line("user", "x" * (MAX_TEXT_CHARS + 1), "u1"))
    assert len(record.text) == MAX_TEXT_CHARS
    assert record.text.endswith(f"x{CUT}")


def test_a_line_too_long_is_passed_over_without_being_held(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "MAX_TRANSCRIPT_LINE_BYTES", 1000)
    records, skipped = read(path, line("user", "a", "u1"), line("user", "x" * 5000, "u2"), line("user", "b", "u3"))
    assert [record.text for record in records] == ["a", "b"]
    assert skipped == {"too long": 1}


def test_the_file_is_read_as_its_records_are_asked_for(path: Path) -> None:
    transcript = read_transcript(write(path, line("user", "One", "u1"), {"type": "system"}, line("user", "Two", "u2")))
    assert next(transcript.records).text == "One"
    assert transcript.skipped == 0
    assert next(transcript.records).text == "Two"
    assert transcript.skipped == 1


def test_there_are_only_so_many_kinds_of_skipped_lines(path: Path) -> None:
    _, skipped = read(path, line("user", "Hi", "u1"), *({"type": f"kind-{number}"} for number in range(100)))
    assert len(skipped) == MAX_KINDS + 1
    assert skipped["other"] == 100 - MAX_KINDS


def test_a_file_that_cannot_be_a_transcript_is_refused_with_the_next_move(path: Path, tmp_path: Path) -> None:
    """S3.1."""

    def refusal(wrong: Path) -> str:
        with pytest.raises(InvalidRequest) as caught:
            read_transcript(wrong)
        assert str(caught.value).endswith("Give another path, or the conversation itself as `messages`.")
        return str(caught.value)

    assert refusal(path).startswith("There is no file at this path.")
    assert refusal(tmp_path).startswith("The path names no ordinary file.")
    assert refusal(Path("a\0b")).startswith("The path names no ordinary file.")
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe").startswith("The path names no ordinary file.")
    path.write_bytes(b"")
    assert refusal(path).startswith("This file holds no message")
    assert refusal(path / "below").startswith("The transcript cannot be read (Not a directory).")
    path.write_bytes(bytes(range(256)) * 100)
    assert refusal(path).startswith("This file holds no message")


def test_a_file_that_may_not_be_read_is_refused_with_the_next_move(path: Path) -> None:
    """S3.1."""
    write(path, line("user", "Hi", "u1")).chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(InvalidRequest, match="cannot be read \\(Permission denied\\)"):
        read_transcript(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
LINES = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "attachment", "system"]) | JSON},
    optional={
        "message": st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant"]) | JSON, "content": JSON | st.lists(JSON, max_size=3)}
        )
        | JSON,
        "attachment": st.fixed_dictionaries({"type": st.just("queued_command"), "prompt": JSON, "origin": JSON}) | JSON,
        **dict.fromkeys(("uuid", "sessionId", "timestamp", "origin", "isMeta"), JSON),
    },
)


@given(st.lists(LINES | st.binary(max_size=40), max_size=5))
def test_whatever_a_file_holds_every_line_is_a_record_or_counted(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.jsonl"
    first = json.dumps(line("user", "Hello", "u-first")).encode()
    raw = [one.replace(b"\n", b"") if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    path.write_bytes(b"\n".join([first, *raw, b""]))
    transcript = read_transcript(path)
    records = list(transcript.records)
    assert len(records) + transcript.skipped >= 1 + sum(bool(one.strip()) for one in raw)
    assert all(record.text.strip() for record in records)


def answer(text: str, uuid: str, name: str = "msg_one", **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {
        **line("assistant", content, uuid, **fields),
        "message": {"role": "assistant", "id": name, "content": content},
    }


def test_of_an_answer_in_several_states_the_last_counts(path: Path) -> None:
    """P4: in its place; parts of one answer stay apart."""
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    done = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls -l"}}
    records, skipped = read(
        path,
        line("user", "Explain the cache.", "u1"),
        answer("The cache", "u2"),
        answer("The cache holds forty", "u3"),
        {**answer("", "u4"), "message": {"role": "assistant", "id": "msg_one", "content": [call]}},
        {**answer("", "u4b"), "message": {"role": "assistant", "id": "msg_one", "content": [done]}},
        answer("The cache holds forty entries.", "u5"),
        line("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}], "u6"),
        answer("The cache holds forty entries.", "u7"),
        answer("It drops the oldest.", "u8"),
        answer("The cache", "u9", "msg_two"),
    )
    assert [record.text for record in records] == [
        "Explain the cache.",
        "The cache holds forty entries.",
        '{"command":"ls -l"}',
        "a.py",
        "It drops the oldest.",
        "The cache",
    ]
    assert skipped == {transcripts.STATE: 4}


def test_a_state_with_the_same_id_of_its_line_counts_too(path: Path) -> None:
    records, _ = read(path, line("user", "Go on.", "u1"), answer("One", "u2"), answer("One, two", "u2"))
    assert [record.text for record in records] == ["Go on.", "One, two"]


@pytest.mark.parametrize("most", [1, 300, 100_000])
def test_parts_of_a_file_hold_what_the_whole_holds(path: Path, most: int) -> None:
    """P4: wherever a part ends, each answer is there once; one that may go on waits."""
    lines = [line("user", "Explain.", "u1")]
    lines += [answer("word " * n, f"a{n}", f"msg_{n // 5}") for n in range(1, 21)]
    write(path, *lines, '{"type": "assistant", "unfin')
    texts, start = list[str](), 0
    while (part := read_part(path, start, most, is_growing=True)).end > start:
        texts += [record.text for record in part.records]
        start = part.end
    texts += [record.text for record in read_part(path, start, most).records]
    assert texts == ["Explain.", *("word " * n for n in (4, 9, 14, 19, 20))]
    assert [record.text for record in read_lines(b"", path.read_bytes())] == texts


def test_a_subagents_own_transcript_is_read_and_nothing_in_it_is_the_users(path: Path) -> None:
    """P4: whose prompts another agent wrote."""
    records, _ = read(
        path,
        line("user", "Review the backend.", "u1", isSidechain=True, agentId="a1"),
        answer("The lock is taken twice.", "u2", isSidechain=True, agentId="a1"),
    )
    assert [(record.role, record.text) for record in records] == [
        ("tool", "Review the backend."),
        ("assistant", "The lock is taken twice."),
    ]
    part = read_part(path, path.read_bytes().index(b"\n") + 1)
    assert [record.text for record in part.records] == ["The lock is taken twice."]


MOVED = (
    "<persisted-output>\nOutput too large (52.3KB). Full output saved to: {}\n\n"
    "Preview (first 2KB):\nline\n...\n</persisted-output>"
)


def moved_to(path: Path, named: object) -> str:
    """What is kept of an output of which the client says that it is in this file."""
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": MOVED.format(named)}]
    [record], _ = read(path, line("user", result, "u1"))
    return record.text


def test_an_output_that_the_client_moved_is_read_from_the_sessions_folder(path: Path) -> None:
    """P4: in a session's file, and in that of its subagent."""
    folder = path.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    (folder / "t1.txt").write_text("line 1\nline 2\n", "utf-8")
    assert moved_to(path, folder / "t1.txt") == "line 1\nline 2\n"
    (path.with_suffix("") / "subagents").mkdir()
    assert moved_to(path.with_suffix("") / "subagents" / "agent-a1.jsonl", folder / "t1.txt") == "line 1\nline 2\n"
    (folder / "long.txt").write_text("é" * (MAX_TEXT_CHARS + 5), "utf-8")
    assert moved_to(path, folder / "long.txt").endswith(CUT)
    old = f"<persisted-output>Tool result saved to: {folder / 't1.txt'}\n\nUse Read to view</persisted-output>"
    [record], _ = read(path, line("user", [{"type": "tool_result", "tool_use_id": "t1", "content": old}], "u1"))
    assert record.text == "line 1\nline 2\n"


def test_no_output_leads_out_of_the_sessions_folder(path: Path) -> None:
    """P4, S: an output may be anybody's words; neither "..", nor a link, nor another session's file."""
    folder = path.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    secret = path.parent / "secret.txt"
    secret.write_text("secret", "utf-8")
    (folder / "empty.txt").touch()
    for named in (
        secret,
        folder / ".." / ".." / "secret.txt",
        "secret.txt",
        folder,
        folder / "none",
        "a\0b",
        folder / "empty.txt",
    ):
        assert "Preview" in moved_to(path, named)
    if os.name != "nt":
        (folder / "link.txt").symlink_to(secret)
        assert "Preview" in moved_to(path, folder / "link.txt")
    raw = json.dumps(
        line("user", [{"type": "tool_result", "tool_use_id": "t1", "content": MOVED.format(secret)}], "u1")
    )
    [record] = read_lines(b"", f"{raw}\n".encode())
    assert "Preview" in record.text
