"""Reads the memory files of clients, as CLAUDE.md, for windows that have arrived; their records follow the files.

One step of upkeep reads the files of one window, so no call waits for it.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcp_memory.bounded_files import read_regular
from mcp_memory.domain.memory.redaction import Redact, clean_text
from mcp_memory.entrypoints.transfer.learning.outlines import outline
from mcp_memory.errors import McpMemoryError
from mcp_memory.ports.walls import within
from mcp_memory.projects import folder_exists
from mcp_memory.services.memory.follow_files import FileSection

if TYPE_CHECKING:
    from mcp_memory.app import App, Seat

logger = logging.getLogger(__name__)

MOST_FILES: Final = 50
MOST_SECTIONS: Final = 200
MOST_BYTES: Final = 256 * 1024
_LOOKED_AT: Final = 2_000
"""Paths that the patterns may match, before those that are no file of this project are left out."""
LEAST_WORDS: Final = 2
"""Words of a section: a single one is a name, or an import as "@AGENTS.md"."""
_HOME: Final = "~/"
_OF_CLAUDE: Final = (".claude", "projects")
"""Claude Code's folder with one folder for each project, "-home-ann-app" for "/home/ann/app"."""
_NO_NAME = re.compile(r"[^A-Za-z0-9]")
# "---\nname: style\n---\n"
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?:.*\n){0,100}?---[ \t]*(?:\n|$)")


def read_for_arrived(app: "App") -> bool:
    """Read the files of the next window that has arrived; return False where none waits."""
    seat = next((each for each in list(app.arrived) if not each.awaits_folder), None)
    if seat is None:
        return False
    app.arrived.remove(seat)
    try:
        _follow(app, seat)
    except McpMemoryError as error:
        logger.info("Files were not read: %s.", type(error).__name__)
    return True


def _follow(app: "App", seat: "Seat") -> None:
    """Raises McpMemoryError."""
    project, caller = seat.project(), app.caller(seat=seat)
    # A worktree reads the files of its repository, so that two of them do not differ; a bare one has none.
    folder = Path(project.folder if project.root == project.repository else project.root)
    if not folder_exists(folder):  # As of a drive that is not there at present.
        return
    found = _found(seat.settings.read_files, folder)
    with within(caller.scopes):
        texts = {path: text for path, file in found.items() if (text := _text(file)) is not None}
        known = {_real(file) for file in found.values()}
        others = app.follow_files.paths(str(folder), caller) - found.keys()
        gone = {path for path in others if _is_gone(file := _file(path, folder)) or _real(file) in known}
        files = {path: sections_of(text, app.redactor.redact) for path, text in texts.items()}
        app.follow_files(str(folder), files | dict.fromkeys(gone, ()), caller)


def sections_of(text: str, redact: Redact) -> Sequence[FileSection]:
    """Return the sections of a file in their order, the first MOST_SECTIONS.

    Secrets and private passages go first: they may be longer than a section.
    """
    parts = outline(_FRONT_MATTER.sub("", clean_text(text, redact).text, count=1))
    sections = (
        FileSection(heading=part.title, text=told)
        for part in parts
        for told in part.told
        if len(told.split()) >= LEAST_WORDS
    )
    return [*islice(sections, MOST_SECTIONS)]


def _found(patterns: Sequence[str], folder: Path) -> Mapping[str, Path]:
    """Return the files of these patterns by their paths, "CLAUDE.md" or "~/notes.md"; a file that is linked, once.

    A link in the project that leads out of it is left out: the project's author chose it, not you.
    """
    found: dict[str, Path] = {}
    known: set[Path] = set()
    for path, file in islice(chain.from_iterable(_matches(each, folder) for each in patterns), _LOOKED_AT):
        real = _real(file)
        is_apart = not path.startswith(_HOME) and not real.is_relative_to(folder)
        if real not in known and not is_apart and len(found) < MOST_FILES and real.is_file():
            known.add(real)
            found[path] = file
    return found


def _matches(pattern: str, folder: Path) -> Iterator[tuple[str, Path]]:
    if not pattern.startswith(_HOME):
        yield from ((file.relative_to(folder).as_posix(), file) for file in sorted(folder.glob(pattern)))
        return
    home, own = Path.home(), _NO_NAME.sub("-", str(folder))
    for file in sorted(home.glob(pattern.removeprefix(_HOME))):
        parts = file.relative_to(home).parts
        if parts[:2] != _OF_CLAUDE or parts[2:3] == (own,):
            yield _HOME + "/".join(parts), file


def _file(path: str, folder: Path) -> Path:
    return Path.home() / path.removeprefix(_HOME) if path.startswith(_HOME) else folder / path


def _real(file: Path) -> Path:
    return Path(os.path.realpath(file))


def _is_gone(file: Path) -> bool:
    """True where there is no file; False also where nobody may look."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _text(file: Path) -> str | None:
    """Return what a file says; None where it cannot be read now, is too long, or is no text: its records stay."""
    try:
        return read_regular(file, MOST_BYTES).decode("utf-8-sig")
    except (OSError, ValueError):
        return None
