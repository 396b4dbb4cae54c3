"""Finds the commits that calls made, by the words of git and of tools that commit, and what took them back.

Independent of how a call is read: it is told which outputs may hold a commit.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mcp_memory.domain.model.session_log import Entry

# "git commit -am x", "git push", "docker push", "npm publish"
_PUBLISHES = re.compile(
    r"\b(?:git (?:-\S{1,60} )?(?:commit|push|tag|merge)|docker push|(?:npm|cargo|uv|twine) (?:publish|upload)"
    r"|(?:kubectl|terraform) apply|helm upgrade)\b"
)
_COMMITS = re.compile(r"\bgit (?:-\S{1,60} )?commit\b")
# "[main 3f2a1bc] Fix the clock", "Commit 3f2a1bc Fix the clock"
_COMMITTED = re.compile(
    r"^(?:\[[^\]\n]{1,80} |Commit(?:ted)?:? )(?P<digest>[0-9a-f]{7,40})\]?:? (?P<title>.{1,120})", re.MULTILINE
)
# "git commit -q -m 'Fix the clock'", "git commit -F - <<'EOF'\nFix the clock", '-m "$(cat <<EOF\nFix the clock'
_SUBJECT = re.compile(
    r"\bgit (?:-\S{1,60} )?commit\b[^\n;&|\"']{0,80}?(?: -\w{0,4}m|--message[= ]|(?= -F| --file)) ?"
    r"(?:[^\n;|]{0,30}<<-? ?['\"]?\w{1,20}['\"]?\n(?P<poured>[^\n]{1,120})"
    r"|\"(?!\$\()(?P<double>[^\"\n]{1,120})|'(?P<single>[^'\n]{1,120}))"
)
_NOTHING = re.compile(r"^(?:nothing (?:added )?to commit|no changes added to commit)", re.MULTILINE)
# "Removed: 3f2a1bc Fix the clock", "Reverted commit 3f2a1bc"
_REMOVED = re.compile(
    r"^\W{0,3}(?:Removed|Reverted|Undid|Undone|Dropped)(?: commit)?:? (?P<digest>[0-9a-f]{7,40})\b", re.MULTILINE
)
# "HEAD is now at 3f2a1bc Fix the clock"
_RESET_TO = re.compile(r"^HEAD is now at (?P<digest>[0-9a-f]{7,40})\b(?P<title>.{0,120})", re.MULTILINE)
# "1a2b3c4 (HEAD -> main) Add the export", "1a2b3c4 Add the export"
_LOGGED = re.compile(r"(?P<digest>[0-9a-f]{7,40}) (?:\([^()\n]{1,80}\) )?(?P<title>.*)")
# "git reset --hard HEAD~1", "git -C app reset 3f2a1bc"
_RESETS = re.compile(r"\bgit (?:-\S{1,60} )?reset\b")
# "git reset --soft HEAD~2", "git reset HEAD^": git names no commit that it goes to
_STEPS_BACK = re.compile(r"\bgit (?:-\S{1,60} )?reset (?:--?\w+ )?HEAD(?:~(?P<steps>\d{0,2})|(?P<hats>\^{1,9}))")
# "I've reset the previous commit", "Oops, I reset the commit back", "ich habe den Commit zurückgesetzt"
_USER_UNDID = re.compile(
    r"\b(?:i|we)(?:['’]ve| have|['’]m| just| already)? (?:reset|reverted|undid|undone|rolled back|dropped|removed)\b"
    r"[^.!?\n]{0,40}\bcommit\b"
    r"|\bcommit\b[^.!?\n]{0,40}\b(?:zurückgesetzt|zurückgenommen|rückgängig gemacht)\b"
    r"|\bj['’]ai annulé [^.!?\n]{0,20}\bcommit\b|\bhe (?:deshecho|revertido) [^.!?\n]{0,20}\bcommit\b"
    r"|(?:撤销|回退|重置)了[^。\n]{0,20}提交",
    re.IGNORECASE,
)
_LEAST_DIGITS = 7
_TOLD = "Committed"


class Call(NamedTuple):
    """A call that went well: its place and id, its command, and whether it may have committed."""

    place: int
    source: str
    command: str
    may_commit: bool


@dataclass(slots=True, kw_only=True)
class Commit:
    """A commit that was made at `place`. `undone_at` is the place of what took it back, None while it is there.

    `digest` is empty where git was told to say nothing: a log behind it tells it only before the same subject.
    """

    digest: str
    title: str
    place: int
    source: str
    undone_at: int | None = None

    @property
    def stands(self) -> bool:
        return self.undone_at is None

    @property
    def text(self) -> str:
        return f"{_TOLD} {self.digest}: {self.title}" if self.digest else f"{_TOLD}: {self.title}"


def publishes(command: str) -> bool:
    """Return True for a command that commits, or gives something out: "git push", "npm publish"."""
    return bool(_PUBLISHES.search(command))


def commits_itself(command: str) -> bool:
    """Return True for a command that makes a commit: what follows its output is no part of it."""
    return bool(_COMMITS.search(command))


def tells_commit(line: str) -> bool:
    """Return True for a summary's line that tells what was committed or given out."""
    return line.startswith((f"{_TOLD} ", f"{_TOLD}: ")) or publishes(line)


def commits_in(entries: Sequence[Entry], calls: Mapping[str, Call]) -> tuple[Commit, ...]:
    """Return every commit in order. `calls` names the calls that went well by the ids of their outputs."""
    made: list[Commit] = []
    for place, entry in enumerate(entries):
        call = calls.get(entry.id) if entry.kind == "tool_result" else None
        if call and call.may_commit:
            made += _made(entry.text, call)
        if call or entry.kind == "message":
            gone = _gone(made, entry.text, call) if call or entry.role == "assistant" else _users(made, entry)
            for each in gone:
                made[each].undone_at = made[each].undone_at or place
    return tuple(made)


def _users(made: Sequence[Commit], entry: Entry) -> frozenset[int]:
    """Return the place in `made` of the latest commit where the user says to have taken one back."""
    latest = [place for place, each in enumerate(made) if each.stands][-1:]
    return frozenset(latest if entry.is_users and _USER_UNDID.search(entry.text) else ())


def _made(text: str, call: Call) -> Iterator[Commit]:
    """Yield the commits that an output shows; of a call that shows none, those of its command."""
    told = [(each["digest"], each["title"]) for each in _COMMITTED.finditer(text)]
    asked = [] if told or _NOTHING.search(text) else [*_SUBJECT.finditer(call.command)]
    quiet = ["".join(filter(None, each.groups())).strip() for each in asked]
    for digest, title in told or [(_listed(title, text), title) for title in quiet]:
        yield Commit(digest=digest, title=title.strip(), place=call.place, source=call.source)


def _listed(title: str, text: str) -> str:
    """Return the hash that a log behind a quiet commit shows before this very subject; "" without one."""
    lines = (_LOGGED.match(line) for line in text.splitlines())
    return next((line["digest"] for line in lines if line and line["title"] == title), "")


def _gone(made: Sequence[Commit], text: str, call: Call | None) -> frozenset[int]:
    """Return the places in `made` of those commits that a text says were taken back."""
    removed = {each["digest"] for each in _REMOVED.finditer(text)}
    reverted = {each["title"].strip() for each in _COMMITTED.finditer(text)} if call else set[str]()
    gone = {n for n, each in enumerate(made) if each.digest in removed or f'Revert "{each.title}"' in reverted}
    if call and _RESETS.search(call.command) and (to := _RESET_TO.search(text)):
        base, title = to["digest"][:_LEAST_DIGITS], to["title"].strip()
        kept = next((n for n, each in enumerate(made) if each.digest.startswith(base) or each.title == title), -1)
        gone |= {*range(kept + 1, len(made))}
    elif call and (back := _STEPS_BACK.search(call.command)):
        steps = len(back["hats"] or "") or int(back["steps"] or 1)
        standing = [n for n, each in enumerate(made) if each.stands and each.place < call.place]
        gone |= {*standing[max(len(standing) - steps, 0) :]}
    return frozenset(gone)
