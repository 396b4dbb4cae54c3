"""What events say of themselves in a context."""

from collections.abc import Callable

import pytest

from mcp_memory.domain.context.rendering import (
    event_text,
    is_error,
    record_body,
    record_line,
    shows_text_alone,
)
from mcp_memory.domain.model.records import OUTPUT_CHARACTERS, OUTPUT_LINES, Detail, Json, Record

MakeRecord = Callable[..., Record]


@pytest.mark.parametrize(
    ("text", "details", "outcome", "body"),
    [
        ("Read the file.", {"type": "read", "path": "src/app.py"}, None, "Read: src/app.py"),
        ("read app.py", {"type": "file_read", "path": "src/app.py"}, "success", "Read: src/app.py"),
        ("Edited", {"type": "edit", "path": "a b.md"}, None, "Wrote: a b.md"),
        ("Edited", {"type": "write", "path": "a.md"}, "success", "Wrote: a.md [success]"),
        ("Edited", {"type": "write", "path": "a.md", "outcome": "denied"}, "failure", "Wrote: a.md [denied]"),
        ("pytest -x", {"type": "command", "command": "pytest -x"}, "failure", "Executed: `pytest -x` [failure]"),
        ("ran it", {"command": "make\nmake test"}, None, "Executed: `make make test`"),
        ("boom", {"type": "error", "message": "boom"}, "failure", "Error: boom"),
        ("It failed", {"stack": "Traceback:\n  x.py\nKeyError: 'a'"}, None, "Error: KeyError: 'a'"),
        ("It failed", {"type": "error", "stack": " "}, None, '{"type":"error","stack":" "}'),
        ("deploy", {"type": "deploy", "env": "prod"}, None, '{"type":"deploy","env":"prod"}'),
        ("deploy", {"type": "deploy"}, "success", '{"type":"deploy"} [success]'),
        ("deploy", {"type": "deploy", "outcome": "ok"}, "success", '{"type":"deploy","outcome":"ok"}'),
        ("note", {"type": "read", "n": 1, "l": ["é"]}, None, '{"type":"read","n":1,"l":["é"]} — note'),
        ("note", {"type": "note", "message": "note"}, None, '{"type":"note","message":"note"}'),
        ("Deployed.", {}, "success", "Deployed. [success]"),
        ("Deployed.", {}, None, "Deployed."),
    ],
)
def test_an_event_says_what_was_done_to_what(
    make_record: MakeRecord, text: str, details: dict[str, Json], outcome: str | None, body: str
) -> None:
    """B6.2: Read, Wrote, Executed, Error; any other event as JSON; the text where it says more."""
    record = make_record(text, kind="event", details=details, outcome=outcome)
    assert record_body(record, text) == body
    assert record_line(record, text) == f"- [r000001 event 2026-11-20] {body}"
    assert shows_text_alone(record) == (not details and outcome is None)


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({"kind": "event", "details": {"type": "error", "message": "boom"}}, True),
        ({"kind": "event", "details": {"command": "make"}, "outcome": "failure"}, True),
        ({"kind": "event", "details": {"command": "make"}}, False),
        ({"kind": "event"}, False),
        ({"kind": "fact", "details": {"type": "error", "message": "boom"}}, False),
        ({"kind": "episode", "outcome": "failure"}, True),
    ],
)
def test_what_failed_and_what_reads_as_an_error_is_one(
    make_record: MakeRecord, fields: dict[str, object], failed: bool
) -> None:
    """C7.1."""
    assert is_error(make_record("said", **fields)) is failed


def test_the_text_of_an_event_without_one_is_its_headline_and_is_not_shown_twice(make_record: MakeRecord) -> None:
    """C2.0, B6.2."""
    details = {"type": "deploy", "env": "prod"}
    assert event_text(details) == '{"type":"deploy","env":"prod"}'
    assert event_text({"asked_as": ["Who?"]}) == event_text({}) == ""
    assert record_body(make_record(event_text(details), kind="event", details=details), event_text(details)) == (
        '{"type":"deploy","env":"prod"}'
    )


def test_what_the_text_adds_is_kept(make_record: MakeRecord) -> None:
    """B6.2: behind the headline, before the output."""
    details = {"type": "run", "command": "pytest", "stdout": "1 failed"}
    record = make_record("Ran pytest: the port was taken.", kind="event", details=details, outcome="failure")
    wanted = "Executed: `pytest` [failure] — Ran pytest: the port was taken.\n  1 failed"
    assert record_body(record, record.text) == wanted


@pytest.mark.parametrize("detail", ["summary", "full"])
def test_a_command_shows_the_end_of_what_it_wrote(make_record: MakeRecord, detail: Detail) -> None:
    """B6.2: a few lines, errors last, long ones cut; blank ones and what is far from the end are left out."""
    stdout = "\n\n".join(f"line {n}" for n in range(10_000))
    details = {"type": "run", "command": "make", "stdout": stdout, "stderr": "# bad\n" + "x" * 500}
    record = make_record("make", kind="event", details=details)
    first, *output = record_body(record, "make", detail).split("\n")
    assert first == "Executed: `make`"
    assert output == ["  line 9998", "  line 9999", "  \\# bad", "  " + "x" * OUTPUT_CHARACTERS]
    assert len(output) == OUTPUT_LINES
    assert record_body(record, "make", "micro") == first
    silent = make_record("make", kind="event", details={"command": "make", "stdout": " \n"})
    assert record_body(silent, "make", detail) == first


def test_details_as_json_are_cut(make_record: MakeRecord) -> None:
    """C5.1: the shorter the form, the more."""
    record = make_record("x", kind="event", details={"type": "x", "data": "y" * 1000})
    assert [len(record_body(record, "x", detail)) for detail in ("micro", "summary")] == [80, 400]


def test_how_an_event_was_imported_is_no_part_of_what_it_tells(make_record: MakeRecord) -> None:
    """B6.2: an import notes when and by whom, about the record."""
    told = {"imported_at": "2026-11-20T18:17:28.250000Z", "imported_by": "ann"}
    bare, imported = (make_record("The lift stopped.", kind="event", details=details) for details in ({}, told))
    assert record_body(imported, imported.text, "full") == record_body(bare, bare.text, "full")
