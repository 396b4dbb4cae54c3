"""The messages that docs/faults.md promises."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
_ROW = re.compile(r"^\| (?P<fault>[a-z-]+) \| .*? \| (?P<told>.*?) \| .*? \|$", re.MULTILINE)
_PLACEHOLDERS = {"FOLDER": r"\S+", "FILE": r"\S+", "NUMBER": r"\d+", "NAME": r"\w+"}


def documented(fault: str) -> re.Pattern[str]:
    """What the page says is told about a fault."""
    told = {row["fault"]: row["told"] for row in _ROW.finditer(PAGE.read_text("utf-8"))}[fault]
    return re.compile("(mcp-memory: )?" + re.sub("[A-Z]{4,}", _placeholder, re.escape(told)) + r"\s*")


def _placeholder(word: re.Match[str]) -> str:
    return _PLACEHOLDERS.get(word[0], word[0])
