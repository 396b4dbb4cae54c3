"""Text from anywhere, as a terminal may show it and a memory may hold it."""

import re

from mcp_memory.domain.control_characters import without_controls

_HALF = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """The text without escape sequences and other control characters; halves of surrogate pairs are replaced."""
    return _HALF.sub("\N{REPLACEMENT CHARACTER}", without_controls(text)[0])
