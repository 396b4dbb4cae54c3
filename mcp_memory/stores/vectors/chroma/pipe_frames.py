"""Messages between a process and its index process: named values and raw bytes, over a pair of pipes."""

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

Fields = Mapping[str, Any]
_LENGTHS = struct.Struct("<II")


def write_frame(stream: IO[bytes], fields: Fields, body: bytes = b"") -> None:
    """Write a message and flush it. Raises OSError or ValueError where nobody reads any more."""
    head = json.dumps(fields).encode()
    stream.write(_LENGTHS.pack(len(head), len(body)) + head + body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next message, or None at the end, also where it comes in the middle of one."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head_size, body_size = _LENGTHS.unpack(lengths)
    rest = stream.read(head_size + body_size)
    if len(rest) < head_size + body_size:
        return None
    return json.loads(rest[:head_size]), rest[head_size:]
