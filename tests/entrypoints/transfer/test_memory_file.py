"""The lines of an exported memory: what they look like, and what is said of one that is wrong."""

import hashlib
import json
from dataclasses import MISSING, fields, replace
from io import BytesIO
from typing import Any, get_args

import pytest
from inline_snapshot import snapshot

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.model.versions import Version
from mcp_memory.entrypoints.transfer.memory_file import (
    FORMAT,
    MAX_PIECE_BYTES,
    MemoryFile,
    origin_line,
    piece_line,
    read_piece,
)
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.transfer import (
    EntityMentioned,
    KnownSession,
    Origin,
    Piece,
    RelationSaid,
    WholeRecord,
)
from tests.contract.conftest import BLANK

SESSION = KnownSession(namespace="here", id="s1", agent="ann", started_at=1.0, last_at=2.5)
VERSION = Version(
    change=9, write=8, at=3.0, agent="bob", client="ide", session_id="s9", reason="told so",
    before={"updated_at": 2.0, "text": "Tea", "tags": ["x"], "normal_hash": "x"},
)  # fmt: skip
RECORD = WholeRecord(
    record=replace(BLANK, id="r000001", agent="ann", namespace="here", scope="shared/here"),
    versions=(VERSION,),
    confirmed_in=("s2",),
    mentions=(EntityMentioned(name="Zoë", type="person", properties={"n": 1}, found=False, aliases=("zo",)),),
    relations=(
        RelationSaid(source="Zoë", source_type="person", type="is", target="A", target_type="thing", weight=0.5),
    ),
)


def file_of(*lines: bytes, pieces: int | None = None) -> MemoryFile:
    count = len(lines) if pieces is None else pieces
    first = origin_line(Origin(schema=1, namespace=None, pieces=count))
    return MemoryFile(BytesIO(first + b"".join(lines)), "my.jsonl")


def read(file: MemoryFile) -> list[Piece]:
    with file.located():
        return list(file.pieces(lambda done, total: None))


def changed(**fields: object) -> bytes:
    """The line of a session, with these fields in it; None takes a field out."""
    given: dict[str, Any] = {**json.loads(piece_line(SESSION))["session"], **fields}
    return json.dumps({"session": {name: value for name, value in given.items() if value is not None}}).encode() + b"\n"


def test_a_line_is_an_object_named_after_what_it_holds() -> None:
    """S7.1: what is kept of a record stands beside its own fields; no character is escaped without need."""
    assert piece_line(SESSION).decode() == snapshot(
        '{"session":{"namespace":"here","id":"s1","agent":"ann","started_at":1.0,"last_at":2.5}}\n'
    )
    assert origin_line(Origin(schema=3, namespace="here", pieces=7)).decode() == snapshot(
        '{"memory":{"format":3,"schema":3,"namespace":"here","pieces":7}}\n'
    )
    shown = json.loads(piece_line(RECORD))["record"]
    assert [shown[name] for name in ("kind", "confirmed_in", "tags")] == ["fact", ["s2"], []]
    assert '"name":"Zoë"' in piece_line(RECORD).decode()
    assert read_piece(piece_line(RECORD)) == RECORD


def test_an_earlier_text_of_the_first_format_is_a_version_of_unknown_origin() -> None:
    """S7.1: memories exported by earlier versions; fields that they do not know have their defaults."""
    told = json.loads(piece_line(RECORD))["record"]
    del told["versions"], told["client"]
    told["earlier"] = [
        {"text": "Tea", "normal_hash": "x", "replaced_at": 3.0}, {"text": "", "normal_hash": "y", "replaced_at": 4.0},
    ]  # fmt: skip
    unknown = Version(change=0, write=0, at=3.0, agent="", before={"normal_hash": "x", "text": "Tea"})
    versions = (unknown, replace(unknown, at=4.0, before={"normal_hash": "y"}))
    first = b'{"memory": {"format": 1, "schema": 5, "namespace": null, "pieces": 1}}\n'
    line = json.dumps({"record": told}).encode() + b"\n"
    assert read(MemoryFile(BytesIO(first + line), "old.jsonl")) == [replace(RECORD, versions=versions)]


def test_numbers_without_a_fraction_are_numbers() -> None:
    """S7.1: other programs write 2.0 as 2."""
    assert read(file_of(changed(last_at=2))) == [replace(SESSION, last_at=2.0)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{\n", "not JSON in UTF-8"),
        (b'{"session": "\xff"}\n', "not JSON in UTF-8"),
        (b'{"session": "\\ud800"}\n', "not JSON in UTF-8"),
        (b'{"session": NaN}\n', "not a number"),
        (b"[" * 100_000 + b"\n", "not JSON in UTF-8"),
        (b"[]\n", "not a JSON object"),
        (b"{}\n", "one of task, session"),
        (b'{"sessions": {}}\n', "one of task, session, .* update mcp-memory"),
        (b'{"session": {}, "task": {}}\n', "one field"),
        (b'{"session": 5}\n', "`session` must be an object"),
        (b'{"record": 5}\n', "`record` must be an object"),
        (changed(agent=None), r"`session.agent` is required"),
        (changed(more=1), "`session.more` is not a known field; if a newer version made the file, update mcp-memory."),
        (changed(agent=5), "`session.agent` must be a string"),
        (changed(last_at="now"), "`session.last_at` must be a number"),
        (changed(last_at=True), "`session.last_at` must be a number"),
        (piece_line(RECORD).replace(b'"kind":"fact"', b'"kind":"rumour"'), "`record.kind` must be one .* update"),
        (piece_line(RECORD).replace(b'"tags":[]', b'"tags":"x"'), "`record.tags` must be a list"),
        (piece_line(RECORD).replace(b'"details":{}', b'"details":[]'), "details` must be an object"),
        (piece_line(RECORD).replace(b'"text_tokens":1', b'"text_tokens":1.5'), "must be a whole number"),
        (piece_line(RECORD).replace(b'"micro_tokens":1', b'"micro_tokens":9223372036854775808'), "must be less than 9"),
        (piece_line(RECORD).replace(b'"Tea"', b"7"), "`before.text` must be a string"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named_with_its_number_and_what_is_wrong(line: bytes, why: str) -> None:
    """S7.1."""
    with pytest.raises(InvalidRequest, match=why) as raised:
        read(file_of(piece_line(SESSION), line))
    assert str(raised.value).startswith("my.jsonl, line 3: ")
    assert str(raised.value).endswith(" Nothing was imported.")


@pytest.mark.parametrize("pieces", [0, 2])
def test_a_file_of_another_length_than_it_says_is_refused(pieces: int) -> None:
    """S7.1: it was cut off, or put together."""
    with pytest.raises(InvalidRequest, match=f"{pieces} lines should follow the first"):
        read(file_of(piece_line(SESSION), pieces=pieces))


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"", "not JSON in UTF-8"),
        (piece_line(SESSION), "not an exported memory"),
        (b'{"memory": {"schema": 1}}', "not an exported memory"),
        (b'{"memory": {"format": 4, "new": 1}}', "made by a newer version, and this one reads formats 1 to 3; update"),
        (b'{"memory": {"format": "x"}}', "reads formats 1 to 3; update"),
        (b'{"memory": {"format": 1}}', "`memory.schema` is required"),
    ],
)
def test_what_is_no_exported_memory_is_refused_at_its_first_line(first: bytes, why: str) -> None:
    """S7.1."""
    with pytest.raises(InvalidRequest, match=why) as raised:
        MemoryFile(BytesIO(first), "my.jsonl")
    assert "my.jsonl, line 1: " in str(raised.value)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_file_of_each_earlier_format_is_read(number: int) -> None:
    """G1.2: its records have the defaults of the fields that came since."""
    needed = [each.name for each in fields(Record) if each.default is MISSING and each.default_factory is MISSING]
    plain = replace(RECORD, record=Record(**{name: getattr(RECORD.record, name) for name in needed}))
    since = {each.name for each in fields(Record)} - set(needed)
    told = {name: value for name, value in json.loads(piece_line(plain))["record"].items() if name not in since}
    first = {"memory": {"format": number, "schema": 1, "namespace": None, "pieces": 1}}
    lines = "".join(json.dumps(line) + "\n" for line in (first, {"record": told}))
    assert read(MemoryFile(BytesIO(lines.encode()), "my.jsonl")) == [plain]


def test_a_new_field_or_kind_of_line_raises_the_format() -> None:
    """G1.2: a reader of the earlier format would otherwise call it unknown, and not say to update.

    Where this fails, and the format below was released, raise `FORMAT`; then put the new number and digest here.
    """
    shapes = {shape.__name__: sorted(each.name for each in fields(shape)) for shape in (*get_args(Piece), Record)}
    digest = hashlib.sha256(json.dumps(shapes, sort_keys=True).encode()).hexdigest()[:12]
    assert (FORMAT, digest) == snapshot((3, "4a33c6b62581"))


def test_progress_is_told_line_by_line() -> None:
    """S7.1."""
    told: list[tuple[int, int]] = []
    list(file_of(*[piece_line(SESSION)] * 3).pieces(lambda done, total: told.append((done, total))))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_tasks_keep_their_lists() -> None:
    """S7.1."""
    task = Task(
        id="t000001", namespace="here", parent_id=None, goal="G", status="active", depth=0, agent="ann",
        session_id="s1", created_at=1.0, updated_at=1.0, artifacts=("a", "b"), branch=True,
    )  # fmt: skip
    assert read_piece(piece_line(task)) == task


def of_record(**fields: object) -> bytes:
    """The line of a record with these fields in it."""
    shown: dict[str, Any] = json.loads(piece_line(RECORD))["record"]
    return json.dumps({"record": {**shown, **fields}}).encode() + b"\n"


COUNTERS = {"accessed": 0, "confirmed": -1, "activated": 0, "succeeded": 0, "used": 0, "ignored": 0}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (piece_line(SESSION).replace(b"2.5", b"1e999"), "1e999 is not a number"),
        (piece_line(SESSION).replace(b"2.5", b"1" + b"0" * 400), "must be a number"),
        (piece_line(RECORD).replace(b'{"n":1}', b'{"n":1e999}'), "1e999 is not a number"),
        (changed(started_at=-1e11), "`started_at` must be seconds since 1970"),
        (of_record(occurred_at=1e15), "`occurred_at` must be seconds since 1970"),
        (piece_line(RECORD).replace(b'"at":3.0', b'"at":1e300'), "`at` must be"),
        (piece_line(RECORD).replace(b'"updated_at":2.0', b'"updated_at":1e300'), "`updated_at` must be"),
        (piece_line(RECORD).replace(b'"text":"Tea"', b'"id":"r000002"'), "not a known field"),
        (of_record(importance=11), "`importance` must be 0 to 10"),
        (of_record(confidence=-0.5), "`confidence` 0 to 1"),
        (of_record(summary_tokens=-1), "must not be negative"),
        (of_record(counters={**COUNTERS, "false_positives": 0}), "must not be negative"),
        (of_record(id="t000001"), "begins with 'r'"),
        (b'{"erased":{"id":"x000001","scope":"shared/here"}}\n', "begins with 'r'"),
        (of_record(scope="private/eve/here"), "does not fit"),
        (of_record(scope="user/eve"), "does not fit"),
        (of_record(visibility="user"), "does not fit"),
        (of_record(visibility="user", scope="user/"), "does not fit"),
        (of_record(agent="a/b", visibility="private", scope="private/a/b/here"), "no slash|a slash"),
    ],
)  # fmt: skip
def test_what_no_memory_holds_is_refused(line: bytes, why: str) -> None:
    """S7.1, S4.1: every later call would fail on it, or it would stand where others read."""
    with pytest.raises(InvalidRequest, match=why):
        read(file_of(line))


def test_what_is_kept_for_a_person_is_taken() -> None:
    """S7.1, S4.1: the computer's own person, and those whom tokens name."""
    for scope in ("user", "user/eve", "user/user"):
        [piece] = read(file_of(of_record(visibility="user", scope=scope)))
        assert isinstance(piece, WholeRecord)
        assert piece.record.scope == scope


def test_a_line_that_is_too_long_is_named_with_the_limit() -> None:
    """X6.4: and nothing was kept; the first line too."""
    with pytest.raises(InvalidRequest, match=r"my\.jsonl, line 2: It is longer than 64 MB, .* Nothing was imported\."):
        read(file_of(b'"' + b"x" * MAX_PIECE_BYTES + b'"\n', pieces=1))
    with pytest.raises(InvalidRequest, match=r"sparse, line 1: It is longer than 64 MB"):
        MemoryFile(BytesIO(bytes(MAX_PIECE_BYTES + 1)), "sparse")


def test_no_line_is_read_beyond_those_that_were_announced() -> None:
    """X6.4: so that a file that never ends is refused."""
    endless = file_of(piece_line(SESSION), piece_line(SESSION), pieces=1)
    with pytest.raises(InvalidRequest, match=r"line 3: Only 1 lines should follow the first\. Nothing"):
        read(endless)


@pytest.mark.parametrize("field", ["text", "summary", "versions"])
def test_a_text_longer_than_any_memory_holds_is_refused(field: str) -> None:
    """X6.4: four times what a call may store."""
    text = "x" * 4_000_001
    large = replace(RECORD, versions=(replace(VERSION, before={"summary": text}),))
    if field != "versions":
        longer: dict[str, Any] = {field: text}
        large = replace(RECORD, record=replace(RECORD.record, **longer))
    with pytest.raises(InvalidRequest, match="line 2: A text of a record holds at most 4,000,000 characters"):
        read(file_of(piece_line(large)))


def test_what_is_nested_too_deeply_to_be_stored_is_named_with_its_line() -> None:
    """X6.4."""
    with pytest.raises(InvalidRequest, match=r"line 1: It is nested too deeply\. Nothing"), file_of().located():
        raise RecursionError
