"""Texts of the plugin that other clients get as well: its skill, and what an agent does that fills a memory."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from mcp_memory.domain.model.limits import MAX_ITEMS
from mcp_memory.errors import InvalidRequest

LEARN_TEXT: Final = "commands/learn.md"
USUAL_NUMBER: Final = 15
"""Records that an agent proposes at most where nobody says how many; its instruction says so too."""
_PACKAGE: Final = Path(__file__).parents[2]
_FOLDERS: Final = (_PACKAGE, _PACKAGE.parent / "plugin")
"""The folders of these texts: in an installed package, and in a clone."""
_GIVEN: Final = "$ARGUMENTS"
"""A place in a command of the plugin, where Claude Code puts the words that follow its name."""
_FAR: Final = "`mcp-memory learn` does not reach this memory, which a server holds: store them with `remember`."


@cache
def plugin_file(path: str) -> bytes:
    """Return one of these files by its path in the plugin; b"" where the package lies without it."""
    found = (folder / path for folder in _FOLDERS)
    return next((file.read_bytes() for file in found if file.is_file()), b"")


def front_matter(text: bytes) -> Mapping[str, str]:
    """Return the lines between the first two "---", as "name: memory"; none of ours goes over several."""
    _, head, _ = text.decode().split("---\n", 2)
    return dict(line.split(": ", 1) for line in head.splitlines())


def learn_instruction(number: str = "", *, is_near: bool = True) -> str:
    """Return what an agent has to do that proposes `number` records of a project's history, "" for the usual number.

    The memory is on the agent's machine where it `is_near`.

    Raises:
        InvalidRequest: the number is none from 1 to `MAX_ITEMS`.
    """
    if number and not (number.isdecimal() and len(number) <= 9 and 1 <= int(number) <= MAX_ITEMS):
        raise InvalidRequest(f"The number of records must be from 1 to {MAX_ITEMS}; without one it is {USUAL_NUMBER}.")
    _, _, told = plugin_file(LEARN_TEXT).decode().split("---\n", 2)
    told = told.strip().replace(_GIVEN, number or str(USUAL_NUMBER))
    return told if is_near else f"{told}\n\n{_FAR}"
