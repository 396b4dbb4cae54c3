import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.entrypoints.json_lines import HALF_PAIR, MAX_DEPTH, UNREADABLE, mend

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    TEXT | st.integers() | st.booleans() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
)


def line_with(value: str) -> bytes:
    """A request whose one parameter is this JSON."""
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"value":%s}}' % value.encode()


def read(line: bytes) -> Any:
    mended = mend(line)
    assert mended is not None
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
    levels = MAX_DEPTH - 3  # the list is inside the message, its parameters, and the list around it
    assert value[1] == json.loads("[" * levels + f'"{UNREADABLE}"' + "]" * levels)


def test_a_number_of_too_many_digits_is_replaced() -> None:
    """S3.1."""
    assert read(line_with(f'[{"9" * 5000}, "{"9" * 5000}"]')) == [UNREADABLE, "9" * 5000]


def test_broken_utf_8_arrives_with_replacement_characters() -> None:
    """S5.2."""
    assert read(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"value":"\xff"}}') == "\ufffd"


def test_a_byte_order_mark_and_carriage_returns_are_tolerated() -> None:
    assert read(b"\xef\xbb\xbf" + line_with("[1,\r2]") + b"\r\n") == [1, 2]


@pytest.mark.parametrize("line", [b"", b"hello", b"{", b"[1]", b'{"jsonrpc":"2.0"}', b'"\\ud800', b"[" * 100_000])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    """S3.1."""
    assert mend(line) is None


def test_only_requests_are_known_by_their_method() -> None:
    notification = mend(b'{"jsonrpc":"2.0","method":"m"}')
    answer = mend(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert notification is not None
    assert answer is not None
    assert (notification.method, answer.method) == ("", "")
