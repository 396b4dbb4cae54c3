import io
import logging

import pytest

from mcp_memory.entrypoints.stdio import GuardedInput

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
NOTE = b'{"jsonrpc":"2.0","method":"note"}\n'


def read_all(sent: bytes, max_line_bytes: int = 1000) -> tuple[bytes, list[str]]:
    """What the protocol library would read, and what was told meanwhile."""
    told: list[str] = []
    guarded = GuardedInput(io.BytesIO(sent), told.append, lambda: told.append("end"), max_line_bytes)
    return io.BufferedReader(guarded).read(), told


def test_messages_pass_and_requests_are_told() -> None:
    assert read_all(PING + NOTE + PING) == (PING + NOTE + PING, ["ping", "ping", "end"])


def test_a_last_line_need_not_be_ended() -> None:
    assert read_all(PING.rstrip()) == (PING, ["ping", "end"])


def test_blank_lines_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    assert read_all(b"\n \r\n" + PING)[0] == PING
    assert caplog.text == ""


def test_what_is_no_message_is_dropped_and_logged_by_its_length(caplog: pytest.LogCaptureFixture) -> None:
    """S3.1."""
    with caplog.at_level(logging.WARNING):
        assert read_all(b"my password\n" + PING)[0] == PING
    assert caplog.messages == ["Dropped a line of 12 bytes that is no JSON-RPC message."]


@pytest.mark.parametrize("length", [99, 100, 101, 199, 200, 201, 250])
def test_a_line_that_is_too_long_is_dropped_whole(length: int) -> None:
    """S3.1."""
    assert read_all(b"[" * (length - 1) + b"\n" + PING, max_line_bytes=100)[0] == PING


def test_a_message_longer_than_the_readers_buffer_arrives_whole() -> None:
    long = PING.replace(b"ping", b"p" * 100_000)
    assert read_all(long + PING, max_line_bytes=1_000_000)[0] == long + PING


def test_a_wire_that_is_lost_is_at_its_end() -> None:
    source = io.BytesIO(PING)
    source.close()
    told: list[str] = []
    assert io.BufferedReader(GuardedInput(source, told.append, lambda: told.append("end"))).read() == b""
    assert told == ["end"]
