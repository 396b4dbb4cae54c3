"""Notes that a session's hook processes share: its folder, the log's progress, the records given.

Two small files per session hold names, ids, numbers and a digest, but no remembered text. They may be lost at any
time: then a transcript is read again, whose lines the log already has, and a record may be given again.
"""

import contextlib
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from mcp_memory.locations import FAILURES_FILE, NOTES_FOLDER

KEPT_SECONDS = 14 * 86_400
MAX_NOTES_BYTES = 1_000_000
"""A file of ours is never so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """The folder that a session began in, wherever it went since, its namespace there, and the log's progress.

    The log has the transcript up to the byte `fed_until`; by the digest `fed_mark` before it the transcript is known
    again.
    """

    folder: str = ""
    namespace: str = ""
    fed_until: int = 0
    fed_mark: str = ""


class SessionNotes:
    """The notes on one session. What cannot be written is not: no hook fails for its notes."""

    def __init__(self, data_dir: Path, session_id: str) -> None:
        self._folder = data_dir / NOTES_FOLDER
        name = hashlib.blake2b(session_id.encode("utf-8", "replace"), digest_size=12).hexdigest()
        self._standing = self._folder / f"{name}.json"
        self._given = self._folder / f"{name}.given"

    @property
    def noted(self) -> Noted:
        """The notes; fields that are missing or damaged are empty."""
        try:
            found: object = json.loads(_content(self._standing) or "{}")
        except (ValueError, RecursionError):
            return Noted()
        given = cast("dict[str, object]", found) if isinstance(found, dict) else {}
        noted = Noted(
            **{
                each.name: cast("Any", given[each.name])
                for each in fields(Noted)
                if isinstance(given.get(each.name), type(each.default))
            }
        )
        return noted if noted.fed_until >= 0 else Noted()

    @property
    def written_at(self) -> float:
        """The time of the last writing, in seconds since 1970; 0.0 where there was none."""
        try:
            return self._standing.stat().st_mtime
        except OSError:
            return 0.0

    def write(self, noted: Noted) -> None:
        """Replace all notes. Of two concurrent processes the last one wins, which does no harm."""
        with contextlib.suppress(OSError):
            self._make_folder()
            fresh = self._standing.with_suffix(f".{os.getpid()}")
            fresh.touch(mode=0o600)
            fresh.write_text(json.dumps(asdict(noted)), "utf-8")
            fresh.replace(self._standing)

    def given(self) -> frozenset[str]:
        """Return the ids that the client's window already holds."""
        return frozenset(_content(self._given).split())

    def add_given(self, record_ids: Collection[str]) -> None:
        """Append ids in one write, so that two processes lose nothing of each other's."""
        with contextlib.suppress(OSError):
            self._make_folder()
            self._given.touch(mode=0o600)
            with self._given.open("a", encoding="utf-8") as file:
                file.write("".join(f"{record_id}\n" for record_id in record_ids))

    def _make_folder(self) -> None:
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # Where the memory lies elsewhere.
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def forget_given(self) -> None:
        """Forget the ids given: the window is new."""
        with contextlib.suppress(OSError):
            self._given.unlink(missing_ok=True)

    def prune(self) -> None:
        """Delete the notes on sessions of long ago."""
        with contextlib.suppress(OSError):
            for file in self._folder.iterdir():
                if file.stat().st_mtime < time.time() - KEPT_SECONDS:
                    file.unlink(missing_ok=True)


class NotesElsewhere:
    """The notes on a session whose hooks run on another machine, for one request: that machine keeps them."""

    noted = Noted()
    written_at = 0.0

    def __init__(self, given: Collection[str]) -> None:
        self._given = frozenset(given)

    def given(self) -> frozenset[str]:
        """Return the ids that the client's window already holds."""
        return self._given

    def write(self, noted: Noted) -> None: ...
    def add_given(self, record_ids: Collection[str]) -> None: ...
    def forget_given(self) -> None: ...
    def prune(self) -> None: ...


def forget_namespaces(data_dir: Path, namespaces: Collection[str]) -> None:
    """Delete the notes on all sessions that worked in these namespaces, whose folders may use them no more.

    A session whose folder is gone would go on in the namespace that is noted.
    """
    with contextlib.suppress(OSError):
        for file in (data_dir / NOTES_FOLDER).glob("*.json"):
            with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
                if json.loads(_content(file)).get("namespace") in namespaces:
                    file.unlink()


def failed_hooks(data_dir: Path, since: float) -> Mapping[str, int]:
    """Count the hooks that failed since then by their names, the commonest first, as far as their file goes back."""
    counted = Counter[str]()
    for line in _content(data_dir / NOTES_FOLDER / FAILURES_FILE).splitlines():
        at, _, name = line.partition(" ")
        if at.isascii() and at.isdecimal() and name.isalpha() and int(at) >= since:
            counted[name] += 1
    return dict(counted.most_common())


def _content(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_NOTES_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
