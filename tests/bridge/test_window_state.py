"""What a window's process keeps of a conversation, for the next server to be told."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.bridge import window_state
from mcp_memory.bridge.window_state import CALL, WindowState, take_lines


def line(method: str, number: int | None = None, **params: Any) -> bytes:
    named: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(named if number is None else {**named, "id": number}).encode() + b"\n"


def answer(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % number


def call(tool: str, number: int) -> bytes:
    return line("tools/call", number, name=tool, arguments={})


def told(window: WindowState) -> list[bytes]:
    """What the owner has been told by now, but for the numbers of calls."""
    lines = bytes(window.to_owner).splitlines(keepends=True)
    window.to_owner.clear()
    return [each for each in lines if not each.startswith(CALL)]


HELLO = line("initialize", 1)
READY = line("notifications/initialized")


@pytest.fixture
def window() -> WindowState:
    """A window whose client has shaken hands."""
    window = WindowState()
    window.hear(HELLO + READY)
    assert told(window) == [HELLO, READY]
    window.answer(answer(1))
    window.to_client.clear()
    return window


@given(st.binary(max_size=300), st.lists(st.integers(1, 40)))
def test_lines_are_the_same_however_they_arrive(content: bytes, sizes: list[int]) -> None:
    begun = bytearray()
    found: list[bytes] = []
    at = 0
    for size in [*sizes, len(content) + 1]:
        found += take_lines(begun, content[at : at + size])
        at += size
    *whole, rest = content.split(b"\n")
    assert found == [each + b"\n" for each in whole]
    assert bytes(begun) == rest


def test_a_line_that_nobody_takes_passes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_state, "MOST_BYTES", 10)
    begun = bytearray()
    assert take_lines(begun, b"123456") == []
    assert take_lines(begun, b"78901") == [b"12345678901"]
    assert take_lines(begun, b"23\nnext\n") == [b"23\n", b"next\n"]


def test_the_next_server_is_told_the_handshake_and_the_client_hears_of_nothing(window: WindowState) -> None:
    window.begin_anew(is_lost=True)
    assert told(window) == [HELLO, READY]
    window.answer(answer(1))
    assert not window.to_client
    window.answer(answer(1))  # A second one would be a server's fault, and the client's to judge.
    assert window.to_client == answer(1)


def test_a_handshake_without_an_answer_is_answered_by_the_next(window: WindowState) -> None:
    fresh = WindowState()
    fresh.hear(HELLO)
    fresh.begin_anew(is_lost=True)
    assert told(fresh) == [HELLO]
    fresh.answer(answer(1))
    assert fresh.to_client == answer(1)


@pytest.mark.parametrize("request_line", [call("recall", 7), call("assemble_context", 7), line("resources/read", 7)])
def test_a_question_is_asked_again(window: WindowState, request_line: bytes) -> None:
    window.hear(request_line)
    window.begin_anew(is_lost=True)
    assert told(window) == [HELLO, READY, request_line]
    window.answer(answer(7))
    assert window.to_client == answer(7)


def test_a_question_that_may_end_its_server_is_not_asked_of_one_after_another(window: WindowState) -> None:
    asked = call("recall", 7)
    window.hear(asked)
    window.begin_anew(is_lost=False)  # An orderly end says nothing against the question.
    window.begin_anew(is_lost=True)
    assert told(window) == [HELLO, READY, asked]
    window.begin_anew(is_lost=True)
    assert told(window) == [HELLO, READY]
    assert json.loads(window.to_client)["error"]["code"] == -32000


def test_words_between_processes_cannot_come_from_the_client(window: WindowState) -> None:
    window.hear(b"\0?\n" + b"\0" + call("recall", 7))
    assert told(window) == [b"??\n", b"?" + call("recall", 7)]
    assert not window.is_owed


def test_a_call_is_asked_again_once_under_its_number(window: WindowState) -> None:
    """Its owner knows by it whether it was done; a call that ends its owner ends no second one after that."""
    window.hear(call("remember", 7) + line("ping", 8) + call("recall", 9))
    first = bytes(window.to_owner)
    assert first == CALL + b"1\n" + call("remember", 7) + line("ping", 8) + CALL + b"2\n" + call("recall", 9)
    window.begin_anew(is_lost=True)
    assert bytes(window.to_owner).endswith(first)
    window.begin_anew(is_lost=True)
    assert told(window) == [HELLO, READY]
    errors = [json.loads(each) for each in bytes(window.to_client).splitlines()]
    assert [each["id"] for each in errors] == [7, 8, 9]
    assert all("may be stored or not" in each["error"]["message"] for each in errors)
    assert not window.is_owed


def test_a_client_that_uses_an_id_again_makes_another_call(window: WindowState) -> None:
    window.hear(call("remember", 7))
    window.answer(answer(7))
    window.hear(call("remember", 7))
    assert CALL + b"1\n" in window.to_owner
    assert CALL + b"2\n" in window.to_owner


def test_a_call_is_made_by_the_next_however_many_owners_end_in_order(window: WindowState) -> None:
    first, second = call("remember", 7), call("remember", 8)
    window.hear(first + second)
    for is_lost in (False, False, True, False):  # One of them was killed.
        window.begin_anew(is_lost=is_lost)
        assert told(window) == [HELLO, READY, first, second]
        assert not window.to_client
    window.begin_anew(is_lost=True)
    assert len(window.to_client.splitlines()) == 2


def test_of_open_requests_one_may_be_lost_or_fail_alone(window: WindowState) -> None:
    """As over HTTP, where each has a connection of its own."""
    window.hear(call("remember", 7) + call("remember", 8) + call("remember", 9))
    told(window)
    window.ask_again(7, is_lost=True)
    assert bytes(window.to_owner) == CALL + b"1\n" + call("remember", 7)
    window.ask_again(7, is_lost=False)
    window.ask_again(8, is_lost=False)
    window.fail(7, "Nobody is there.")
    window.fail(8, "Nobody is there.")
    window.fail(8, "It is open no more.")
    window.ask_again(8, is_lost=True)
    window.ask_again(9, is_lost=True)
    window.ask_again(9, is_lost=True)
    answers = [json.loads(each)["error"]["message"] for each in bytes(window.to_client).splitlines()]
    assert answers[:2] == ["Nobody is there. What the call was to change may be stored or not.", "Nobody is there."]
    assert len(answers) == 3
    assert not window.is_owed


def test_a_session_is_told_again_beside_its_open_requests(window: WindowState) -> None:
    kept = line("resources/subscribe", 5, uri="memory://tasks")
    window.hear(kept)
    assert window.repeat_session() == [HELLO, READY]
    window.answer(answer(5))
    window.to_client.clear()
    assert window.repeat_session() == [HELLO, READY, kept]
    window.answer(answer(1))
    window.answer(answer(5))
    assert not window.to_client


def test_what_is_followed_is_followed_again_unless_it_was_given_up(window: WindowState) -> None:
    kept, left = (line("resources/subscribe", n, uri=uri) for n, uri in ((5, "memory://tasks"), (6, "memory://status")))
    window.hear(kept + left + line("resources/unsubscribe", 7, uri="memory://status"))
    for number in (5, 6, 7):
        window.answer(answer(number))
    window.to_client.clear()
    window.begin_anew(is_lost=True)
    assert told(window) == [HELLO, READY, kept]
    window.answer(answer(5))
    assert not window.to_client


def test_a_subscription_that_is_answered_when_it_ends_is_not_owed(window: WindowState) -> None:
    listening = line("subscriptions/listen", 9, notifications={})
    window.hear(listening)
    assert not window.is_owed
    window.hear(call("recall", 10))
    assert window.is_owed
    window.begin_anew(is_lost=True)
    assert told(window) == [HELLO, READY, listening, call("recall", 10)]


def test_a_line_that_was_begun_waits_for_its_end(window: WindowState) -> None:
    asked = call("recall", 7)
    window.hear(asked[:20])
    window.begin_anew(is_lost=True)
    assert told(window) == [HELLO, READY]
    window.hear(asked[20:])
    assert told(window) == [asked]


def test_where_nobody_is_to_be_had_each_open_request_is_answered(window: WindowState) -> None:
    """Once; and what makes the session is told the next owner."""
    window.hear(call("remember", 7) + line("ping", 8))
    window.give_up("Nobody is there.")
    window.give_up("Nobody is there.")
    answers = [json.loads(each) for each in bytes(window.to_client).splitlines()]
    assert [(each["id"], each["error"]["message"]) for each in answers] == [
        (number, "Nobody is there. What the call was to change may be stored or not.") for number in (7, 8)
    ]
    assert not window.is_owed
    assert told(window) == [HELLO, READY]


def test_an_owner_is_needed_once_there_is_something_to_say(window: WindowState) -> None:
    """Or to be told: a window that says nothing starts none."""
    window.begin_anew(is_lost=True)
    assert not window.needs_owner
    window.hear(line("ping", 7))
    assert window.needs_owner
    window.answer(answer(7))
    window.begin_anew(is_lost=True)
    assert not window.needs_owner
    window.hear(line("resources/subscribe", 8, uri="memory://tasks"))
    window.answer(answer(8))
    window.begin_anew(is_lost=True)
    assert window.needs_owner


def test_the_last_line_needs_no_end(window: WindowState) -> None:
    window.end()
    assert not window.to_owner
    window.hear(call("recall", 7)[:-1])
    window.end()
    assert told(window) == [call("recall", 7)]


@pytest.mark.parametrize("junk", [b"hello\n", b"[1,2]\n", b'{"id": 3}\n', b'{"id": [1], "method": "x"}\n', b"\xff\n"])
def test_what_is_no_message_is_left_to_the_server(window: WindowState, junk: bytes) -> None:
    window.hear(junk)
    assert told(window) == [junk]
    assert not window.is_owed
    window.answer(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}\n')
    assert window.to_client


def test_what_the_client_cancelled_is_owed_no_more(window: WindowState) -> None:
    """The server answers it no more, and the next one is not asked again."""
    cancelled = line("notifications/cancelled", requestId=2)
    window.hear(call("recall", 2) + cancelled + line("notifications/cancelled", requestId=[]))
    assert not window.is_owed
    window.begin_anew(is_lost=True)
    assert told(window) == [HELLO, READY]
    assert window.to_client == b""


def test_an_id_that_no_request_can_have_is_for_the_server_to_refuse(window: WindowState) -> None:
    odd = line("initialize").replace(b'"method"', b'"id": [], "method"', 1)
    window.hear(odd)
    assert not window.is_owed
    window.begin_anew(is_lost=True)
    assert told(window) == [odd, READY]


def test_an_owner_is_asked_whether_it_lives_between_two_lines_alone() -> None:
    """A word amid a line of several parts would tear it."""
    window = WindowState()
    window.hear(line("ping", 7))
    assert window.asks_between_lines
    window.hear(b"x" * (window_state.MOST_BYTES + 1))
    assert (window.is_owed, window.asks_between_lines) == (True, False)
    window.hear(b"x\n")
    assert window.asks_between_lines


def test_a_request_whose_id_is_none_is_owed_no_answer() -> None:
    window = WindowState()
    window.hear(b'{"jsonrpc":"2.0","id":true,"method":"ping"}\n')
    assert not window.is_owed
