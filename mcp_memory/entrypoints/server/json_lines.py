"""Reads lines of JSON-RPC as the protocol library can take them, or says why not. Knows no stream and no tool.

The library gives no answer at all to what its parser refuses, and the caller waits for ever. So half of a surrogate
pair becomes U+FFFD, as everywhere; an unreadable value becomes a noncharacter, which `arguments` then refuses with a
readable error; and any other line is refused here.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Final, TypeAlias, cast

from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json

HALF_PAIR: Final = "\ufffd"
"""Replaces half of a surrogate pair."""
UNREADABLE: Final = "\uffff"
"""Replaces a value the parser refuses: one nested too deep, or a number of too many digits."""
MAX_JSON_DEPTH: Final = 64
MAX_ECHO_CHARS: Final = 200
"""The most that an answer repeats of a request, its id included."""
HEAD_BYTES: Final = 65_536
"""Bytes of a too long line in which its id is looked for: so much of its start, and TAIL_BYTES of its end."""
TAIL_BYTES: Final = 1_000
_BOM: Final = "\ufeff"
_HUGE: Final = 10**MAX_ECHO_CHARS
_LOST = re.compile("[\ufffd-\uffff]")
"""Replacement characters in a repaired text: an id that holds one is not the id that was sent."""

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+'
"""A string without its closing quote, which a line that was cut off lacks."""
_ESCAPE = re.compile(
    r"\\[^u]"  # any other escape, so that the backslash of `\\ud800` is not taken for an escape's
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_JSON_TOKEN = re.compile(
    rf'{_STRING}\\?"?|(?P<number>-?\d{{400,}}[\d.eE+-]*)|(?P<open>[\[{{])|(?P<close>[\]}}])', re.DOTALL
)
_ID_VALUE = rf'(?P<id>-?\d{{1,200}}(?![\d.eE])|{_STRING}")'
_ID_FIELD = re.compile(rf'"id"\s*:\s*{_ID_VALUE}', re.DOTALL)
_LAST_ID = re.compile(  # …},"jsonrpc":"2.0","id":7} as some clients write it, the parameters first
    rf'[,{{]\s*"id"\s*:\s*{_ID_VALUE}\s*(?:,\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*)*\}}\s*$', re.DOTALL
)

_LINE_ENDS: Final = (("\x85".encode(), rb"\u0085"), ("\u2028".encode(), rb"\u2028"), ("\u2029".encode(), rb"\u2029"))

RequestId: TypeAlias = int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRpcMessage:
    """A message that the library can take, on one line, and the method of the request that it is ("" for others)."""

    line: bytes
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error in place of a message that the library would leave without an answer.

    `id` is the request's where it can be read. Notifications and responses are owed no answer: `is_owed` is False.
    """

    code: int
    why: str
    id: RequestId = None
    is_owed: bool = True

    @property
    def line(self) -> bytes:
        """The error as a message, on one line."""
        error = {"code": self.code, "message": self.why}
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "error": error}).encode() + b"\n"


def parse_message(line: bytes) -> JsonRpcMessage | Refusal:
    """Read one message of JSON-RPC; repair lone surrogates and unreadable values."""
    text = line.decode("utf-8", "replace").removeprefix(_BOM).strip()
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPE.sub(lambda match: "\\ufffd" if match["half"] else match[0], text)
    try:
        said: object = from_json(text)
    except ValueError:
        text = _without_unreadable(text)
        try:
            said = from_json(text)
        except ValueError:
            why = "This is not one JSON value; send each message as one object on one line."
            return Refusal(code=PARSE_ERROR, why=why, id=_id_in(text))
    if not isinstance(said, dict):
        why = "A message must be a JSON object; send the messages of a batch one by one."
        return Refusal(code=INVALID_REQUEST, why=why)
    fields = cast("dict[str, object]", said)
    # Only white space between values can hold a bare carriage return here, and a reader of lines would break at it.
    mended = text.replace("\r", " ").encode("utf-8", "replace") + b"\n"
    method = str(fields["method"]) if "id" in fields and "method" in fields else ""
    return _refusal(fields) or JsonRpcMessage(line=mended, method=method)


def in_one_line(message: bytes) -> bytes:
    """Return a message of JSON with U+0085, U+2028 and U+2029 as escapes: some readers of lines break there.

    Outside its strings JSON has none of them.
    """
    for character, escape in _LINE_ENDS:
        message = message.replace(character, escape)
    return message


def refuse_long_line(head: bytes, tail: bytes, max_bytes: int) -> Refusal:
    """Refuse a line of more than `max_bytes`, of which start and end are known."""
    why = f"A message may hold {max_bytes // 2**20} MiB; send less at once."
    found = _id_in(head[:HEAD_BYTES].decode("utf-8", "replace").removeprefix(_BOM).strip())
    if found is None and (last := _LAST_ID.search(tail[-TAIL_BYTES:].decode("utf-8", "replace"))):
        found = _read_id(last["id"])
    return Refusal(code=INVALID_REQUEST, why=why, id=found)


def shorten(text: str) -> str:
    """Cut what a caller sent to half of MAX_ECHO_CHARS: an error may repeat it twice, in its message and its data."""
    return text if len(text) <= MAX_ECHO_CHARS // 2 else f"{text[: MAX_ECHO_CHARS // 2 - 1]}…"


def _refusal(said: Mapping[str, object]) -> Refusal | None:
    """Refuse an object that is no message, or one of which the library would repeat too much."""
    is_response = "method" not in said and ("result" in said or "error" in said)
    is_notification = "id" not in said and isinstance(said.get("method"), str)
    is_owed = not is_response and not is_notification
    if why := _fault(said, is_response=is_response):
        return Refusal(code=INVALID_REQUEST, why=why, id=_checked_id(said.get("id")), is_owed=is_owed)
    if is_owed and (why := _too_long(said)):
        return Refusal(code=INVALID_PARAMS, why=why, id=_checked_id(said.get("id")))
    return None


def _fault(said: Mapping[str, object], *, is_response: bool) -> str:
    """Say what keeps an object from being a message; "" for nothing."""
    if said.get("jsonrpc") != "2.0":
        return '`jsonrpc` must be "2.0".'
    if not is_response and not isinstance(said.get("method"), str):
        return "`method` must be a string."
    if not is_response and "id" in said and _checked_id(said["id"]) is None:
        # The library would take such a request for a notification.
        return f"`id` must be a whole number or a string, of at most {MAX_ECHO_CHARS} characters."
    if not isinstance(said.get("params", {}), (dict, NoneType)):
        return "`params` must be an object."
    if not is_response and ("result" in said or "error" in said):
        return "A request has neither `result` nor `error`."
    try:
        jsonrpc_message_adapter.validate_python(said, by_name=False)
    except ValueError:
        return "This is not a request, notification or response."
    return ""


def _too_long(said: Mapping[str, object]) -> str:
    """Say which of the texts that the library repeats in full is too long for that; "" for none."""
    params = _object(said.get("params"))
    meta = _object(params.get("_meta"))
    repeated = {
        "protocolVersion": params.get("protocolVersion"),
        f"_meta.{PROTOCOL_VERSION_META_KEY}": meta.get(PROTOCOL_VERSION_META_KEY),
        "_meta.progressToken": meta.get("progressToken"),
    }
    for name, value in repeated.items():
        if (isinstance(value, str) and len(value) > MAX_ECHO_CHARS) or _is_huge(value):
            return f"`{name}` may have at most {MAX_ECHO_CHARS} characters."
    return ""


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _is_huge(value: object) -> bool:
    return isinstance(value, int) and abs(value) >= _HUGE


def _checked_id(value: object) -> RequestId:
    """The id of a request, None for what is none, or would not come back as it was sent."""
    if isinstance(value, str):
        return value if len(value) <= MAX_ECHO_CHARS and not _LOST.search(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and not _is_huge(value) else None


def _id_in(text: str) -> RequestId:
    """The id of the object that a text starts with, which may be no sound JSON; None where it cannot be read."""
    found: RequestId = None
    depth = 0
    for match in _JSON_TOKEN.finditer(text) if text.startswith("{") else ():
        depth += bool(match["open"]) - bool(match["close"])
        if depth == 0:
            break
        if depth == 1 and (named := _ID_FIELD.match(text, match.start())):
            found = _read_id(named["id"])
    return found


def _read_id(value: str) -> RequestId:
    try:
        return _checked_id(from_json(value))
    except ValueError:
        return None


def _without_unreadable(text: str) -> str:
    """Replace values nested deeper than MAX_JSON_DEPTH, and numbers too long to be read, by a marker string."""
    kept: list[str] = []
    depth = end = 0
    for match in _JSON_TOKEN.finditer(text):
        if match["open"]:
            depth += 1
        if depth <= MAX_JSON_DEPTH:
            kept += text[end : match.start()], f'"{UNREADABLE}"' if match["number"] else match[0]
        elif depth == MAX_JSON_DEPTH + 1 and match["open"]:
            kept += text[end : match.start()], f'"{UNREADABLE}"'
        end = match.end()
        if match["close"]:
            depth -= 1
    return "".join(kept) + text[end:]
