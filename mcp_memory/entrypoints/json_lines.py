"""Lines of JSON-RPC as the protocol library can take them. Knows no stream and no tool.

The library gives no answer at all to a line its parser refuses, and the caller waits for ever. So what can
be told apart from the rest of a line becomes a noncharacter, which `arguments` then refuses with a readable error.
"""

import re
from typing import Final, NamedTuple

from mcp_types import JSONRPCMessage, JSONRPCRequest, jsonrpc_message_adapter

HALF_PAIR: Final = "\ufffe"
"""Stands for half of a surrogate pair: no character, so no text can hold it."""
UNREADABLE: Final = "\uffff"
"""Stands for a value the parser refuses: one nested too deep, or a number of too many digits."""
MAX_DEPTH: Final = 64
_BOM: Final = "\ufeff"

_ESCAPE = re.compile(
    r"\\[^u]"  # any other escape, so that the backslash of `\\ud800` is not taken for an escape's
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?P<number>-?\d{400,}[\d.eE+-]*)|(?P<open>[\[{])|(?P<close>[\]}])')


class Mended(NamedTuple):
    """A line that the library can take, and the method of the request that it is ("" where it is none)."""

    line: bytes
    method: str


def mend(line: bytes) -> Mended | None:
    """The line as one JSON-RPC message on one line; None where it is none."""
    text = line.decode("utf-8", "replace").removeprefix(_BOM).strip()
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPE.sub(lambda match: "\\ufffe" if match["half"] else match[0], text)
    message = _read(text)
    if not message:
        text = _without_unreadable(text)
        message = _read(text)
        if not message:
            return None
    # Only white space between values can hold a bare carriage return here, and a reader of lines would break at it.
    mended = text.replace("\r", " ").encode("utf-8", "replace") + b"\n"
    return Mended(mended, message.method if isinstance(message, JSONRPCRequest) else "")


def _read(text: str) -> JSONRPCMessage | None:
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        return None


def _without_unreadable(text: str) -> str:
    """Replace values nested deeper than MAX_DEPTH, and numbers too long to be read, by a marker string."""
    kept: list[str] = []
    depth = end = 0
    for match in _TOKEN.finditer(text):
        if match["open"]:
            depth += 1
        if depth <= MAX_DEPTH:
            kept += text[end : match.start()], f'"{UNREADABLE}"' if match["number"] else match[0]
        elif depth == MAX_DEPTH + 1 and match["open"]:
            kept += text[end : match.start()], f'"{UNREADABLE}"'
        end = match.end()
        if match["close"]:
            depth -= 1
    return "".join(kept) + text[end:]
