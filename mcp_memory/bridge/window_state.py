"""A window as the next owner must know it: what its client has said, and which of its requests are open.

Knows no socket. A server over HTTP is an owner too: there answers are lost one by one, and sessions forgotten.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

CALL: Final = b"\0call "
"""The number of a call follows, the same when it is asked again. The next line is the call."""
CALL_HEADER: Final = "mcp-memory-call"
"""The header that says the same over HTTP: the window's label and the call's number, as in `s1f0c9a2b7d34/7`."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes that may wait for one side before the other is read no further, and those of the longest line kept."""
_OF_A_SESSION: Final = ("initialize", "notifications/initialized", "resources/subscribe", "logging/setLevel")
"""Methods that make a session what it is: the next owner is told them again, and the client has had the answers."""
_IN_DOUBT: Final = (
    "The process that served this memory ended during the call. What it was to change may be stored or not:"
    " look for it with recall, then call again if it is missing."
)
_MAYBE: Final = "What the call was to change may be stored or not."


class _Sent(NamedTuple):
    """A request that was passed on: its line, and a call's number.

    A subscription is not owed: it is answered when it ends. One whose owner was killed is not repeatable any more.
    """

    line: bytes
    call: int
    is_repeatable: bool
    is_owed: bool


class WindowState:
    """A window as the next owner must know it: its session, what it has said, which of its requests are open.

    `to_owner` waits to be passed on, `to_client` to be written; `place` is the window's in the task tree, None before
    it has one. Answers to `repeated` requests are for nobody.
    """

    def __init__(self) -> None:
        self.session = f"s{os.urandom(6).hex()}"
        self.place: str | None = None
        self.to_owner = bytearray()
        self.to_client = bytearray()
        self.repeated: set[int | str] = set()
        self._standing: dict[str, bytes] = {}
        self._open: dict[int | str | None, _Sent] = {}
        self._begun = bytearray()
        self._is_amid_line = False
        self.was_answered = False
        """True once the client has had a word of an owner's."""
        self._calls = 0
        self._has_more = False
        """True once there is more than what makes the session."""

    @property
    def needs_owner(self) -> bool:
        """True where something is to be said to an owner, or a place in a task or a subscription to be kept."""
        return (
            self._has_more
            or self.place is not None
            or any(each.startswith("resources/subscribe") for each in self._standing)
        )

    @property
    def is_owed(self) -> bool:
        """True where an answer is due."""
        return any(sent.is_owed for sent in self._open.values())

    @property
    def asks_between_lines(self) -> bool:
        """True where an answer is due, and no line is passed on in part."""
        return self.is_owed and not self._is_amid_line

    def hear(self, piece: bytes) -> None:
        """Take what the client says, and pass on whole lines.

        A zero at their start is kept for words to the owner. Such a line is no message, and stays none.
        """
        for line in take_lines(self._begun, piece):
            self._pass(b"?" + line[1:] if line.startswith(b"\0") else line)

    def answer(self, line: bytes) -> None:
        """Take a message of the owner's; what answers a repeated request is kept from the client."""
        said = read_object(line)
        if "method" not in said and (number := _id(said)) is not None:
            self._open.pop(number, None)
            if number in self.repeated:
                return self.repeated.discard(number)
        self.was_answered = True
        self.to_client += line
        return None

    def begin_anew(self, *, is_lost: bool) -> None:
        """Prepare what the next owner is told. The last one `is_lost` where it did not say that it ends.

        What is open is asked again; owners do once what changes something. After a loss once: a question that ends its
        owner must not be asked of one after another, and the client is told that nobody knows.
        """
        opened, self._open, self._has_more = self._open, {}, False
        self.to_owner.clear()
        self._is_amid_line = False
        self.repeated.clear()
        for line in list(self._standing.values()):
            number = _id(read_object(line))
            if number in opened:
                del opened[number]
                self._pass(line)
                continue
            self._send(line)
            if number is not None:
                self.repeated.add(number)
        for number, sent in opened.items():
            self._pass_again(number, sent, is_lost=is_lost)

    def repeat_session(self) -> list[bytes]:
        """Return what makes the session, for a server over HTTP that has forgotten it. Open requests are no part."""
        opened = [sent.line for sent in self._open.values()]
        lines = [line for line in self._standing.values() if line not in opened]
        self.repeated = {number for line in lines if (number := _id(read_object(line))) is not None}
        return lines

    def ask_again(self, number: int | str | None, *, is_lost: bool) -> None:
        """Pass one open request on again, as `begin_anew` does with all."""
        if sent := self._open.pop(number, None):
            self._pass_again(number, sent, is_lost=is_lost)

    def fail(self, number: int | str | None, why: str) -> None:
        """Answer an open request with an error: it is not asked again."""
        if sent := self._open.pop(number, None):
            self._fail(number, why if sent.is_repeatable else f"{why} {_MAYBE}")

    def give_up(self, why: str) -> None:
        """Answer every open request with an error: no owner will be asked for it again."""
        for number in list(self._open):
            self._fail(number, f"{why} {_MAYBE}")
        self._open.clear()
        self.begin_anew(is_lost=True)

    def end(self) -> None:
        """Take the last line, though no line feed ends it."""
        if self._begun:
            self.hear(b"\n")

    def _pass_again(self, number: int | str | None, sent: _Sent, *, is_lost: bool) -> None:
        if is_lost and not sent.is_repeatable:
            return self._fail(number, _IN_DOUBT)
        self._pass(sent.line, sent.call)
        self._open[number] = sent._replace(is_repeatable=sent.is_repeatable and not is_lost)
        return None

    def _fail(self, number: int | str | None, why: str) -> None:
        error = {"code": -32000, "message": why}
        self.to_client += json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n"

    def _pass(self, line: bytes, call: int = 0) -> None:
        """Pass a line on; `call` is the number of a call that was passed on before."""
        self._has_more = True
        said = read_object(line)
        method, number, params = said.get("method"), _id(said), as_mapping(said.get("params"))
        uri = params.get("uri", "")
        if method in _OF_A_SESSION:
            self._standing[f"{method} {uri}"] = line
        elif method == "resources/unsubscribe":
            self._standing.pop(f"resources/subscribe {uri}", None)
        elif method == "notifications/cancelled":
            self._open.pop(_id(params, "requestId"), None)  # It is answered no more.
        if method == "tools/call" and number is not None:
            self._calls += not call
            call = call or self._calls
            self.to_owner += b"%b%d\n" % (CALL, call)
        self._send(line)
        if isinstance(method, str) and number is not None:
            is_owed = method != "subscriptions/listen"
            self._open[number] = _Sent(line, call, is_repeatable=True, is_owed=is_owed)

    def _send(self, line: bytes) -> None:
        self._is_amid_line = not line.endswith(b"\n")
        self.to_owner += line


def take_lines(begun: bytearray, piece: bytes) -> list[bytes]:
    """Return the lines that this piece ends, and keep in `begun` what begins another.

    One that is longer than anybody takes is returned in parts, whose end alone has a line feed.
    """
    *whole, rest = piece.split(b"\n")
    lines: list[bytes] = []
    for each in whole:
        lines.append(b"%b%b\n" % (begun, each))
        begun.clear()
    begun += rest
    if len(begun) > MOST_BYTES:
        lines.append(bytes(begun))
        begun.clear()
    return lines


def read_object(line: str | bytes) -> Mapping[str, Any]:
    """Return the JSON object of a line; an empty one for anything else."""
    try:
        return as_mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _id(said: Mapping[str, Any], name: str = "id") -> int | str | None:
    """Return the id of a request; None where there is none, or one that no request can have."""
    number = said.get(name)
    return number if isinstance(number, int | str) and not isinstance(number, bool) else None


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a value that is an object of JSON; an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
