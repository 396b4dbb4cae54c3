import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.entrypoints.hooks.hook_call import Payload, read_payload
from mcp_memory.errors import InvalidRequest

json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def test_fields_that_hooks_use_are_read_and_others_passed_over() -> None:
    raw = json.dumps({"session_id": " s1 ", "prompt": "Why?", "cwd": 7, "permission_mode": "plan", "source": None})
    assert read_payload(b"\xef\xbb\xbf" + raw.encode()) == Payload(session_id="s1", prompt="Why?")


def test_halves_of_pairs_and_bytes_that_are_no_text_are_replaced() -> None:
    assert read_payload(b'{"session_id": "s1", "prompt": "a\\ud800b\xff"}').prompt == "a\ufffdb\ufffd"


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"7", b"{}", b'{"session_id": ""}', b'{"session_id": "a\\u0000b"}', b"[" * 9_999]
)
def test_what_is_no_payload_is_refused_with_the_next_move(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="let the client run the hook"):
        read_payload(raw)


@given(json_values)
def test_any_json_is_read_or_refused(value: object) -> None:
    given_by_client = {"session_id": "s", "prompt": value, "transcript_path": value, "cwd": value}
    assert read_payload(json.dumps(given_by_client).encode()).session_id == "s"
    if not isinstance(value, dict):
        with pytest.raises(InvalidRequest):
            read_payload(json.dumps(value).encode())
