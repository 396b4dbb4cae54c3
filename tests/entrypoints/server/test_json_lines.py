import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.entrypoints.server.json_lines import (
    HALF_PAIR,
    MAX_ECHO_CHARS,
    MAX_JSON_DEPTH,
    UNREADABLE,
    JsonRpcMessage,
    Refusal,
    parse_message,
    refuse_long_line,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    TEXT | st.integers() | st.booleans() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
)


def line_with(value: str) -> bytes:
    """A request whose one parameter is this JSON."""
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"value":%s}}' % value.encode()


def read(line: bytes) -> Any:
    mended = parse_message(line)
    assert isinstance(mended, JsonRpcMessage)
    assert mended.method == "m"
    assert mended.line.endswith(b"\n")
    assert mended.line.count(b"\n") == 1
    return json.loads(mended.line)["params"]["value"]


@given(VALUES, st.booleans())
def test_a_readable_message_arrives_as_it_was_sent(value: object, ascii_only: bool) -> None:
    assert read(line_with(json.dumps(value, ensure_ascii=ascii_only))) == value


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (r'"\ud800"', HALF_PAIR),
        (r'"\uDC00x"', f"{HALF_PAIR}x"),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\ud800\ud83d\ude00"', f"{HALF_PAIR}😀"),
        (r'"\\ud800"', r"\ud800"),
        (r'"\\\ud800"', f"\\{HALF_PAIR}"),
        (r'"\n\ud83d"', f"\n{HALF_PAIR}"),
    ],
)
def test_only_half_a_surrogate_pair_is_replaced(sent: str, arrives: str) -> None:
    """S3.1."""
    assert read(line_with(sent)) == arrives


def test_what_is_nested_too_deep_is_replaced_where_it_stands() -> None:
    """S3.1."""
    deep = "[" * 300 + "]" * 300
    value = read(line_with(f'["a", {deep}, "]", {{"b": {deep}}}, 3]'))
    assert [value[0], value[2], value[4]] == ["a", "]", 3]
    levels = MAX_JSON_DEPTH - 3  # the list is inside the message, its parameters, and the list around it
    assert value[1] == json.loads("[" * levels + f'"{UNREADABLE}"' + "]" * levels)


def test_a_number_of_too_many_digits_is_replaced() -> None:
    """S3.1."""
    assert read(line_with(f'[{"9" * 5000}, "{"9" * 5000}"]')) == [UNREADABLE, "9" * 5000]


def test_broken_utf_8_arrives_with_replacement_characters() -> None:
    """S5.2."""
    assert read(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"value":"\xff"}}') == "\ufffd"


def test_a_byte_order_mark_and_carriage_returns_are_tolerated() -> None:
    assert read(b"\xef\xbb\xbf" + line_with("[1,\r2]") + b"\r\n") == [1, 2]


def refused(line: bytes) -> Refusal:
    refusal = parse_message(line)
    assert isinstance(refusal, Refusal)
    return refusal


@pytest.mark.parametrize("line", [b"", b"hello", b"{", b'"\\ud800', b"[" * 100_000, b"{'id':1}", b"\xff\xfe", b"\x00"])
def test_what_is_no_json_is_a_parse_error_of_nobody(line: bytes) -> None:
    """X3.2."""
    assert (refused(line).code, refused(line).id, refused(line).is_owed) == (-32700, None, True)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":7,"method":"m\x01"}',
        b'{"jsonrpc":"2.0","id":7,"method":"m"} rubbish',
        b'{"jsonrpc":"2.0","id":7,"method":"m"}{"jsonrpc":"2.0","id":8,"method":"m"}',
        b'{"jsonrpc":"2.0","method":"m","params":{"id":8},"id":7,}',
        b'{"method":"a \\" \\"id\\":8","id":7,"params":{"text":"cut of',
        b'{"id":7,"params":[[[{"id":8}]],"id"',
        b'\xef\xbb\xbf{"id" : 7 , "method":}',
    ],
)
def test_the_id_of_what_is_no_json_is_read_where_it_stands(line: bytes) -> None:
    """X3.2."""
    assert (refused(line).code, refused(line).id) == (-32700, 7)


@pytest.mark.parametrize(
    "fields",
    [
        '"jsonrpc":"2.0","method":7',
        '"jsonrpc":"2.0"',
        '"jsonrpc":"2.0","method":"m","params":[1]',
        '"jsonrpc":"2.0","method":"m","params":"p"',
        '"jsonrpc":"1.0","method":"m"',
        '"jsonrpc":2.0,"method":"m"',
        '"method":"m"',
        '"jsonrpc":"2.0","method":"m","result":{}',
        '"jsonrpc":"2.0","method":"m","error":{"code":1,"message":"e"}',
    ],
)
def test_an_object_that_is_no_message_is_an_invalid_request(fields: str) -> None:
    """X3.2."""
    for some_id in (7, "seven"):
        refusal = refused(f'{{{fields},"id":{json.dumps(some_id)}}}'.encode())
        assert (refusal.code, refusal.id, refusal.is_owed) == (-32600, some_id, True)


@pytest.mark.parametrize("line", [b"[]", b"{}", b"7", b"null", b'"text"', b'[{"jsonrpc":"2.0","id":1,"method":"m"}]'])
def test_what_is_no_single_object_is_an_invalid_request_of_nobody(line: bytes) -> None:
    """X3.2."""
    assert (refused(line).code, refused(line).id, refused(line).is_owed) == (-32600, None, True)


@pytest.mark.parametrize(
    "some_id",
    ["null", "1.5", "7.0", "1e3", "true", "[7]", "{}", "NaN", "9" * 201, "9" * 5000, f'"{"i" * 201}"', r'"\ud800"'],
)
def test_an_id_that_cannot_come_back_as_it_was_sent_is_refused(some_id: str) -> None:
    """X3.2: the library would take such a request for a notification."""
    refusal = refused(f'{{"jsonrpc":"2.0","id":{some_id},"method":"m"}}'.encode())
    assert (refusal.code, refusal.id) == (-32600, None)
    assert "`id`" in refusal.why


@pytest.mark.parametrize("some_id", [0, -1, "", 2**63, int("9" * MAX_ECHO_CHARS), "i" * MAX_ECHO_CHARS])
def test_any_other_id_is_taken(some_id: int | str) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": some_id, "method": "m"}).encode()
    assert isinstance(parse_message(line), JsonRpcMessage)
    assert refused(line + b"}").id == some_id


def test_of_two_ids_the_last_counts_as_everywhere() -> None:
    """X3.2."""
    assert isinstance(parse_message(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}'), JsonRpcMessage)
    assert refused(b'{"jsonrpc":"2.0","id":1,"id":2,"method":7}').id == 2
    assert refused(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"},').id == 2


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"1.0","method":"m"}',
        b'{"jsonrpc":"2.0","method":"m","params":[]}',
        b'{"jsonrpc":"2.0","id":1,"result":"text"}',
        b'{"jsonrpc":"2.0","id":1.5,"result":{}}',
        b'{"id":1,"error":{}}',
    ],
)
def test_nothing_is_owed_to_notifications_and_responses(line: bytes) -> None:
    """X3.2: two servers that answered each other's errors would never end."""
    assert refused(line).is_owed is False


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": "v" * 201},
        {"_meta": {"progressToken": "t" * 201}},
        {"_meta": {"progressToken": 10**201}},
        {"_meta": {"io.modelcontextprotocol/protocolVersion": "v" * 201}},
    ],
)
def test_texts_that_the_library_repeats_are_limited(params: dict[str, object]) -> None:
    """X3.2."""
    refusal = refused(json.dumps({"jsonrpc": "2.0", "id": 3, "method": "m", "params": params}).encode())
    assert (refusal.code, refusal.id) == (-32602, 3)
    assert "vvv" not in refusal.line.decode()


@pytest.mark.parametrize(
    ("head", "tail", "some_id"),
    [
        (b'{"jsonrpc":"2.0","id":4,"method":"m","params":{"text":"', b'"}}\n', 4),
        (b'{"method":"m","params":{"id":9,"text":"', b'"},"jsonrpc":"2.0","id":"four"}\n', "four"),
        (b'{"method":"m","params":{"text":"', b'"},"id":4,"jsonrpc":"2.0"}', 4),
        (b'{"method":"m","params":{"text":"', b'","id":9}}', None),
        (b"xxx", b"xxx", None),
    ],
)
def test_a_line_that_is_too_long_is_refused_by_its_id(head: bytes, tail: bytes, some_id: int | str | None) -> None:
    """X3.2: at whichever end it stands."""
    refusal = refuse_long_line(head + b"x" * 2**20, b"x" * 2_000 + tail, 2**20)
    assert (refusal.code, refusal.id) == (-32600, some_id)
    assert "1 MiB" in refusal.why


def test_a_refusal_is_one_line() -> None:
    assert json.loads(Refusal(code=-1, why="No.", id="a\nb").line) == {
        "jsonrpc": "2.0",
        "id": "a\nb",
        "error": {"code": -1, "message": "No."},
    }
    assert Refusal(code=-1, why="No.", id="a\nb").line.count(b"\n") == 1


@pytest.mark.parametrize("start", ["{", '{"', '{"\\"', '{"id":"', '{"id":', "[{"])
def test_a_hostile_line_takes_steps_in_proportion_to_its_length(start: str) -> None:
    """X3.1: an unended string with many escaped quotes was read again from each of them."""
    assert refused((start + '\\"' * 200_000).encode()).code == -32700


def test_only_requests_are_known_by_their_method() -> None:
    notification = parse_message(b'{"jsonrpc":"2.0","method":"m"}')
    answer = parse_message(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert isinstance(notification, JsonRpcMessage)
    assert isinstance(answer, JsonRpcMessage)
    assert (notification.method, answer.method) == ("", "")
