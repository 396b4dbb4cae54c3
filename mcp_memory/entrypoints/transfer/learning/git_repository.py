"""Reads a repository's newest commits, tags and committed files by the `git` program, which the user has installed.

Bounded in memory and time. No setting of the repository makes it run a program, fetch or write anything: its author may
be anybody. Knows no form of a message or file.
"""

import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from mcp_memory.bounded_files import MB
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.errors import InvalidRequest
from mcp_memory.locations import git_variables

MAX_SECONDS: Final = 120.0
"""Time for one question to git: 100,000 commits take a few seconds."""
MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Bytes that are kept of one commit's message, or one path; the rest is left out."""
MAX_DOCUMENT_BYTES: Final = 4 * MB
MAX_TAGS: Final = 20_000
MOST_PHRASES: Final = 300
MOST_PHRASE_CHARACTERS: Final = 120
"""Phrases that git is asked for at once, and the length of each: a program takes no argument of over 128 KiB."""
_SPECIAL = re.compile(r"[.\[\](){}*+?|^$\\]")
"""The signs with a meaning in an extended regular expression."""
_READ_BYTES: Final = 64 * 1024
# What a repository's own configuration could make git run, and asking at a terminal.
_HARMLESS: Final = ("-c", "log.showSignature=false", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_ENVIRONMENT: Final[Mapping[str, str]] = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
"""A partial clone would fetch what it lacks; messages are matched in English."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCommit:
    """A commit: its hash in 40 digits, its time in seconds since 1970, and its message without the trailing space."""

    hash: str
    at: float
    subject: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFile:
    """A file of the newest commit: its path from the top of the repository, the hash of its content, its size."""

    path: str
    content: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTimes:
    """The times at which a file was first and last committed, and the hash of the last commit."""

    first: float
    last: float
    commit: str


class GitRepository:
    """The repository around a folder. Each method asks git once, unless it says otherwise."""

    def __init__(self, folder: Path) -> None:
        """Look whether the folder is in a repository with a commit.

        Raises InvalidRequest where it is not, git refuses to read it, or git is not installed.
        """
        self._git = shutil.which("git") or ""
        self._folder = folder
        if not self._git:
            raise InvalidRequest("git is not installed; install it, or name --transcripts instead of --git.")
        if not folder.is_dir():
            raise InvalidRequest(f"There is no folder {folder}; name one in a git repository.")
        self._ask("rev-parse", "--git-dir")
        try:
            self._ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except InvalidRequest:
            raise InvalidRequest(f"The repository of {folder} has no commit yet; there is nothing to learn.") from None

    def commits(self, patterns: Iterable[str], behind: str = "") -> Iterator[GitCommit]:
        """Yield the commits of which a line of the message matches one of these patterns, newest first, no merges.

        The patterns are extended regular expressions of git's. Behind a tag are those that it does not contain.
        """
        asked = [f"--grep={each}" for each in patterns]
        log = ("log", "-z", "--no-merges", "--encoding=UTF-8", "--extended-regexp", "--format=%H%n%ct%n%B")
        for part in self._parts(*log, *asked, "HEAD", *([f"^refs/tags/{behind}"] if behind else []), "--"):
            name, _, rest = part.partition("\n")
            at, _, message = rest.partition("\n")
            subject, _, body = message.strip().partition("\n")
            yield GitCommit(hash=name, at=float(at), subject=subject.strip(), body=body.strip())

    def holding(self, phrases: Collection[str], excluded: Iterable[str] = ()) -> frozenset[str]:
        """Return which of these phrases stand in a text file of the newest commit, in any case, between no letters.

        Excluded are patterns of paths, such as "**/*.md". Asks git once for 300 phrases; longer ones than 120
        characters are not looked for.
        """
        waiting = {each: standing_alone(each) for each in phrases if 0 < len(each.strip()) <= MOST_PHRASE_CHARACTERS}
        paths = [f":(exclude,top,icase,glob){each}" for each in excluded]
        asked = (
            "grep",
            "--extended-regexp",
            "--ignore-case",
            "-I",
            "-h",
            "--no-color",
            "--no-textconv",
            "--threads=2",
            "--no-recurse-submodules",
        )
        found = set[str]()
        for start in range(0, len(waiting), MOST_PHRASES):
            left = dict([*waiting.items()][start : start + MOST_PHRASES])
            # One pattern: git tries many of them one after the other.
            pattern = "|".join(_SPECIAL.sub(r"\\\g<0>", each) for each in left)
            for line in self._parts(*asked, "-e", pattern, "HEAD", "--", ":(top)", *paths, end=b"\n", none=1):
                said = line.casefold()
                here = [each for each, alone in left.items() if each.casefold() in said and alone.search(line)]
                for each in here:
                    del left[each]
                found.update(here)
                if not left:
                    break
        return frozenset(found)

    def tags(self) -> Mapping[str, float]:
        """Map the names of the newest tags to their times; of 20,000 tags at most."""
        asked = ("--sort=-creatordate", f"--count={MAX_TAGS}", "--format=%(creatordate:unix) %(refname:strip=2)%00")
        parts = (part.strip().partition(" ") for part in self._parts("for-each-ref", *asked, "refs/tags"))
        return {name: float(at) for at, _, name in parts if at.isdigit()}

    def files(self) -> Iterator[CommittedFile]:
        """Yield the regular files of the newest commit, by path."""
        for part in self._parts("ls-tree", "-r", "-z", "-l", "--full-tree", "HEAD"):
            told, _, path = part.partition("\t")
            mode, _, content, size = told.split()
            if mode.startswith("100") and size.isdigit():
                yield CommittedFile(path=path, content=content, size=int(size))

    def text_of(self, file: CommittedFile) -> str:
        """Return a file's content; "" where it is too large, or no text in UTF-8."""
        if file.size > MAX_DOCUMENT_BYTES:
            return ""
        try:
            text = self._ask("cat-file", "blob", file.content).decode("utf-8-sig")
        except UnicodeDecodeError:
            return ""
        return visible(text.replace("\r\n", "\n").replace("\r", "\n"))

    def times_of(self, paths: Collection[str]) -> Mapping[str, FileTimes]:
        """Map each path to the commits of it, without looking behind renames."""
        times: dict[str, FileTimes] = {}
        commit, at = "", 0.0
        log = ("log", "-z", "--no-renames", "--name-only", "--format=%x01%H %ct")
        if not paths:
            return times
        for part in self._parts("--literal-pathspecs", *log, "HEAD", "--", *paths):
            if part.lstrip("\n").startswith("\x01"):
                commit, _, told = part.strip("\n\x01").partition(" ")
                at = float(told)
            elif path := part.lstrip("\n"):
                known = times.get(path, FileTimes(first=at, last=at, commit=commit))
                times[path] = FileTimes(first=min(known.first, at), last=known.last, commit=known.commit)
        return times

    def _ask(self, *arguments: str) -> bytes:
        with self._output(*arguments) as stream:
            return stream.read(MAX_DOCUMENT_BYTES + 1)

    def _parts(self, *arguments: str, end: bytes = b"\0", none: int = 0) -> Iterator[str]:
        """Yield what git writes between zero bytes or other ends, each part cut to MAX_MESSAGE_BYTES.

        git may end with the code `none` where it has nothing to tell.
        """
        part = bytearray()
        with self._output(*arguments, none=none) as stream:
            while read := stream.read(_READ_BYTES):
                *ended, rest = read.split(end)
                for each in ended:
                    part += each[: MAX_MESSAGE_BYTES - len(part)]
                    yield part.decode("utf-8", "replace")
                    part.clear()
                part += rest[: MAX_MESSAGE_BYTES - len(part)]
        if part.strip():
            yield part.decode("utf-8", "replace")

    @contextmanager
    def _output(self, *arguments: str, none: int = 0) -> Generator[IO[bytes]]:
        """Run git, and yield what it writes; it ends when the reader has enough.

        Raises InvalidRequest where git fails, with its own words, or takes too long.
        """
        environment = {**git_variables(), **_ENVIRONMENT}
        command = [self._git, "--no-pager", "--no-replace-objects", *_HARMLESS, "-C", str(self._folder), *arguments]
        is_late = threading.Event()
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
            )
            timer = threading.Timer(MAX_SECONDS, lambda: (is_late.set(), process.kill()))
            timer.start()
            is_read = False
            try:
                assert process.stdout
                with process.stdout as stream:
                    yield stream
                    is_read = not stream.read(1)
            finally:
                timer.cancel()
                if not is_read:
                    process.kill()
                code = process.wait()
            if is_late.is_set():
                raise InvalidRequest(f"git took longer than {MAX_SECONDS:.0f} seconds in {self._folder}; try it again.")
            if is_read and code not in (0, none):
                errors.seek(0)
                raise InvalidRequest(self._refusal(errors.read(MAX_MESSAGE_BYTES).decode("utf-8", "replace")))

    def _refusal(self, said: str) -> str:
        if "not a git repository" in said:
            return f"{self._folder} is in no git repository; name one with --git."
        why = visible(next((line for line in said.splitlines() if line.strip()), "it said nothing"))
        return f"git cannot read the repository of {self._folder} ({why[:200]}); see what `git log` says there."


def standing_alone(phrase: str) -> re.Pattern[str]:
    """Return the pattern of a phrase with no letter beside it: "sqlite" in "import sqlite3", not in "sqlites"."""
    before = r"(?<![^\W\d_])" if phrase[0].isalpha() else ""
    behind = r"(?![^\W\d_])" if phrase[-1].isalpha() else ""
    return re.compile(before + re.escape(phrase) + behind, re.IGNORECASE)
