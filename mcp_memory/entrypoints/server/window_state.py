"""A window as the next lead must know it: what its client has said, and which of its requests are open.

Knows no socket. Imports nothing slow, `dataclasses` included: processes that pass messages on load it.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes that may wait for one side before the other is read no further, and those of the longest line kept."""
_OF_A_SESSION: Final = ("initialize", "notifications/initialized", "resources/subscribe", "logging/setLevel")
"""Methods that make a session what it is: the next lead is told them again, and the client has had the answers."""
_ONLY_READ: Final = ("recall", "assemble_context")
"""Tools that may be called again where nobody knows whether the first call was carried out."""
_IN_DOUBT: Final = (
    "The process that served this memory ended during the call. What it was to change may be stored or not:"
    " look for it with recall, then call again if it is missing."
)


class _Sent(NamedTuple):
    """A request that was passed on: its line, and how many lines the lead had been told with it."""

    line: bytes
    number: int
    method: str
    is_repeatable: bool


class WindowState:
    """A window as the next lead must know it: its session, what it has said, which of its requests are open.

    `to_lead` waits to be passed on, `to_client` to be written; `place` is the window's in the task tree, None before it
    has one. Answers to `repeated` requests are for nobody.
    """

    def __init__(self) -> None:
        self.session = f"s{os.urandom(6).hex()}"
        self.place: str | None = None
        self.to_lead = bytearray()
        self.to_client = bytearray()
        self.repeated: set[int | str] = set()
        self._standing: dict[str, bytes] = {}
        self._open: dict[int | str | None, _Sent] = {}
        self._begun = bytearray()
        self._told = 0

    @property
    def is_owed(self) -> bool:
        """True where an answer is due; a subscription is answered when it ends."""
        return any(sent.method != "subscriptions/listen" for sent in self._open.values())

    def hear(self, piece: bytes) -> None:
        """Take what the client says, and pass on whole lines. A zero at their start is kept for words to the lead."""
        for line in take_lines(self._begun, piece):
            self._pass(line.lstrip(b"\0"))

    def answer(self, line: bytes) -> None:
        """Take a message of the lead's; what answers a repeated request is kept from the client."""
        said = read_object(line)
        if "method" not in said and (number := _id(said)) is not None:
            self._open.pop(number, None)
            if number in self.repeated:
                return self.repeated.discard(number)
        self.to_client += line
        return None

    def begin_anew(self, read: int | None) -> None:
        """Prepare what the next lead is told. The last one had `read` so many lines; None where it did not say.

        A call that may have changed something is not made twice: the client is told that nobody knows.
        """
        opened, self._open, self._told = self._open, {}, 0
        self.to_lead.clear()
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
            if read is not None and sent.number > read:
                self._pass(sent.line)
            elif sent.is_repeatable:
                self._pass(sent.line)
                # Once: a question that ends its server must not be asked of one after another.
                self._open[number] = self._open[number]._replace(is_repeatable=read is not None)
            else:
                error = {"code": -32000, "message": _IN_DOUBT}
                self.to_client += json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n"

    def end(self) -> None:
        """Take the last line, though no line feed ends it."""
        if self._begun:
            self.hear(b"\n")

    def rest(self) -> bytes:
        """Return what waits to be passed on, with the line that the client has begun."""
        return bytes(self.to_lead + self._begun)

    def _pass(self, line: bytes) -> None:
        said = read_object(line)
        method, number, params = said.get("method"), _id(said), as_mapping(said.get("params"))
        uri = params.get("uri", "")
        if method in _OF_A_SESSION:
            self._standing[f"{method} {uri}"] = line
        elif method == "resources/unsubscribe":
            self._standing.pop(f"resources/subscribe {uri}", None)
        elif method == "notifications/cancelled":
            self._open.pop(_id(params, "requestId"), None)  # It is answered no more.
        self._send(line)
        if isinstance(method, str) and number is not None:
            repeatable = method != "tools/call" or params.get("name") in _ONLY_READ
            self._open[number] = _Sent(line, self._told, method, repeatable)

    def _send(self, line: bytes) -> None:
        self._told += line.endswith(b"\n")
        self.to_lead += line


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
    return number if isinstance(number, int | str) else None


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a value that is an object of JSON; an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
