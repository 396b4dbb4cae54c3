import io
import json
import logging
import os
import threading
from typing import BinaryIO

import pytest

from mcp_memory.entrypoints.server.line_streams import GuardedInput, LineOutput

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
NOTE = b'{"jsonrpc":"2.0","method":"note"}\n'


def guard(source: BinaryIO, told: list[object], max_line_bytes: int = 1000) -> GuardedInput:
    return GuardedInput(
        source, told.append, lambda refusal: told.append((refusal.code, refusal.id)), lambda: told.append("end"),
        max_line_bytes,
    )  # fmt: skip


def read_all(sent: bytes, max_line_bytes: int = 1000) -> tuple[bytes, list[object]]:
    """What the protocol library would read, and what was told meanwhile."""
    told: list[object] = []
    return io.BufferedReader(guard(io.BytesIO(sent), told, max_line_bytes)).read(), told


def test_messages_pass_and_requests_are_told() -> None:
    assert read_all(PING + NOTE + PING) == (PING + NOTE + PING, ["ping", "ping", "end"])


def test_a_last_line_need_not_be_ended() -> None:
    assert read_all(PING.rstrip()) == (PING, ["ping", "end"])


def test_blank_lines_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    assert read_all(b"\n \r\n" + PING) == (PING, ["ping", "end"])
    assert caplog.text == ""


def test_what_is_no_message_is_refused_and_logged_by_its_length(caplog: pytest.LogCaptureFixture) -> None:
    """S3.1, X3.2."""
    with caplog.at_level(logging.WARNING):
        assert read_all(b"my password\n" + PING) == (PING, [(-32700, None), "ping", "end"])
    assert caplog.messages == ["Dropped a line of 12 bytes that is not a JSON-RPC message."]


def test_a_malformed_notification_is_logged_and_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    """X3.2."""
    with caplog.at_level(logging.WARNING):
        assert read_all(b'{"jsonrpc":"2.0","method":"note","params":1}\n' + PING) == (PING, ["ping", "end"])
    assert caplog.messages == ["Dropped a line of 45 bytes that is not a JSON-RPC message."]


@pytest.mark.parametrize("length", [99, 100, 101, 199, 200, 201, 250])
def test_a_line_that_is_too_long_is_refused_once_and_whole(length: int) -> None:
    """S3.1, X3.2."""
    sent = b"[" * (length - 1) + b"\n" + PING
    read, told = read_all(sent, max_line_bytes=100)
    assert (read, len(told), told[1:]) == (PING, 3, ["ping", "end"])
    assert told[0] == (-32600 if length > 100 else -32700, None)


def test_a_line_that_is_too_long_and_cut_off_by_the_end_is_refused() -> None:
    """X3.2."""
    assert read_all(b'{"id":5,' + b"x" * 300, max_line_bytes=100) == (b"", [(-32600, 5), "end"])


def test_a_message_longer_than_the_readers_buffer_arrives_whole() -> None:
    long = PING.replace(b"ping", b"p" * 100_000)
    assert read_all(long + PING, max_line_bytes=1_000_000)[0] == long + PING


def test_a_wire_that_is_lost_is_at_its_end() -> None:
    source = io.BytesIO(PING)
    source.close()
    told: list[object] = []
    assert io.BufferedReader(guard(source, told)).read() == b""
    assert told == ["end"]


def test_lines_from_two_threads_never_mix() -> None:
    """X3.2: nor do lines that the library writes in pieces."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as target:
        output = LineOutput(target)
        library = io.TextIOWrapper(io.BufferedWriter(output), encoding="utf-8")

        def write_long() -> None:
            for _ in range(50):
                library.write(json.dumps("l" * 100_000))
                library.write("\n")
                library.flush()

        writer = threading.Thread(target=write_long)
        writer.start()
        for _ in range(200):
            output.send_later(b'"short"\n')
        lines = [json.loads(source.readline()) for _ in range(250)]
        writer.join()
        library.detach()
    assert sorted(map(len, lines)) == [5] * 200 + [100_000] * 50


def test_who_refuses_does_not_wait_for_a_reader_of_refusals() -> None:
    """X3.2: a client that sends much before it reads must be read on."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as target:
        output = LineOutput(target)
        line = b'"%s"\n' % (b"x" * 1_000)
        for _ in range(1_000):  # a pipe holds no more than a few dozen
            output.send_later(line)
        assert [source.readline() for _ in range(1_000)] == [line] * 1_000
        output.wait(60)


def test_a_client_that_is_gone_is_told_nothing() -> None:
    target = io.BytesIO()
    target.close()
    output = LineOutput(target)
    output.send_later(b"late\n")
    output.wait(60)
    with pytest.raises(ValueError, match="closed"):
        output.send(b"late\n")


def test_a_line_goes_out_as_one_for_every_reader() -> None:
    """P3.2: JavaScript and Python have readers that break lines at these; a reader of JSON gets them back."""
    text = "first\u0085second\u2028third\u2029ü…"
    target = io.BytesIO()
    LineOutput(target).write(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n")
    assert len(target.getvalue().decode().splitlines()) == 1
    assert json.loads(target.getvalue()) == {"text": text}
