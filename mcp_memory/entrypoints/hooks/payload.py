"""What Claude Code says to a hook on its standard input. Knows no memory.

Fields that are missing or of another type count as empty: the client adds some and changes some with every version.
"""

import json
from dataclasses import dataclass, fields
from typing import cast

from mcp_memory.errors import InvalidRequest

MAX_SESSION_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The fields that hooks use, each "" where it is not there. `source` is why a session starts or who prompts."""

    session_id: str
    transcript_path: str = ""
    cwd: str = ""
    source: str = ""
    trigger: str = ""
    prompt: str = ""
    compact_summary: str = ""


def read_payload(raw: bytes) -> Payload:
    """The payload in these bytes, as UTF-8 without halves of pairs.

    Raises:
        InvalidRequest: it is no JSON object, or names no session.
    """
    try:
        given: object = json.loads(raw.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("The hook's input is no JSON; let the client run the hook.") from error
    if not isinstance(given, dict):
        raise InvalidRequest("The hook's input is no JSON object; let the client run the hook.")
    named = cast("dict[str, object]", given)
    told = {field.name: _text(named.get(field.name)) for field in fields(Payload)}
    told["session_id"] = told["session_id"].strip()[:MAX_SESSION_CHARACTERS]
    if not told["session_id"].isprintable() or not told["session_id"]:
        raise InvalidRequest("The hook's input names no session; let the client run the hook.")
    return Payload(**told)


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""
