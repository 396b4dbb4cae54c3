"""Reads what an agent did from its calls and their results: plans, changed files, failures and their fixes, commits.

By the form of calls and outputs alone, in any language. Independent of what anybody said, and of sections.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mcp_memory.domain.model.session_log import Entry, SessionLog
from mcp_memory.domain.sessions.changed_files import ChangedFiles, FileChange, FileEdit
from mcp_memory.domain.sessions.commits import Call, Commit, commits_in, commits_itself, publishes
from mcp_memory.domain.sessions.sentences import shape
from mcp_memory.domain.sessions.shell_commands import begun_in, paths_written, programs, within
from mcp_memory.domain.sessions.tool_lines import SHELLS, CallLine, call_fields, call_line, one_line, patches
from mcp_memory.domain.sessions.tool_outputs import MAX_LAST, ends_in_error, errors_of
from mcp_memory.domain.text.words import split_words

ERROR_CHARACTERS, CHANGE_CHARACTERS, ITEM_CHARACTERS, PATH_CHARACTERS = 160, 80, 240, 300
MOST_ITEMS = 30  # of a plan
_HEAD = 300
"""Characters read of an output's beginning and end for its exit code."""

_ITEM_TEXTS = ("content", "step", "description", "title", "task", "text", "name")
_OPEN, _GOING_ON, _DONE = ("pending", "open", "todo", "not_started"), ("in_progress", "active"), ("completed", "done")
# "exited with code 1", '"exit_code": 2', "exit status 1"; not "code 0"
_EXIT = re.compile(r"\bexit(?:ed)?(?: with)?[ _]?(?:code|status)[\"']?\s?[:=]?\s?(\d{1,3})\b", re.IGNORECASE)
# "The user doesn't want to proceed with this tool use", "rejected by user", "[Request interrupted by user]"
_REFUSED = re.compile(
    r"\b(?:user (?:doesn['’]t want|rejected|declined|denied|cancell?ed)"
    r"|(?:rejected|declined|denied|interrupted|aborted|cancell?ed) by (?:the )?user)"
)
# "Your changes have NOT been applied", "No replacement was performed, old_str did not appear verbatim in app.py"
_NOT_APPLIED = re.compile(
    r"\b(?:not (?:been )?applied|no (?:replacement|changes?|edits?) (?:was|were) (?:performed|made)"
    r"|not appear verbatim|(?:unable|failed) to (?:write|edit|apply|save|create)|permission denied)\b",
    re.IGNORECASE,
)
# "2 failed, 30 passed", "FAIL app/zone 0.6s", "Failures: 1", "BUILD FAILED"; not "0 failed"
_FAILED_CHECK = re.compile(
    r"\b[1-9]\d{0,8} (?:failed|failing|failures?|errors?)\b|\b(?:[Ff]ailures|[Ee]rrors|[Ff]ailed)[=:] ?[1-9]"
    r"|^ {0,8}(?:FAIL|FAILED|FAILURES?)\b|\bBUILD FAIL",
    re.MULTILINE,
)
# "HTTP STATUS: 500", "HTTP/1.1 404 Not Found", "Internal Server Error" where a page was asked for
_ASKS_PAGE = re.compile(r"\b(?:curl|wget|https?|xh) ")
_REFUSED_PAGE = re.compile(
    r"^[< ]{0,2}HTTP(?:/[\d.]{1,3})?[ \w]{0,12}[:=]? ?[45]\d\d\b|^Internal Server Error$", re.MULTILINE
)
# "tail -3 app.log", "ssh web 'cat /etc/hosts'", "kubectl logs web"; not "pytest | tail"
_READS = re.compile(
    r"(?:^|[;&\n'\"]) {0,3}(?:sudo )?(?:cat|tail|head|grep|rg|less|more|sed -n|awk|jq|find|journalctl|dmesg)\b"
    r"|\blogs?\b|\bgit (?:show|diff|blame)\b"
)
# "pytest -q", "make lint", "go vet ./...", "npm run build"
_CHECKS = re.compile(
    r"(?:\b|_)(?:tests?|pytest|tox|lint|build|vet|check|tsc|ruff|mypy|pyright|clippy|compile|verify|ctest|rspec|jest|vitest|validate)\b"
)
# Words in the names of tools that look, think, ask or wait.
_LOOKING = frozenset(
    "ask calculate call check count describe fetch find get goto help input inspect list look lookup notebook open"
    " output plan preview query read recall retrieve scroll search select show status stdin think thought todo todos"
    " tool view wait web which".split()
)
# "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE", also with "-------" and "+++++++": "x = 2"
_PUT_IN = re.compile(r"^={5,9}\n((?:(?!={5,9}\n).*\n)*?)[+>]{5,9} REPLACE", re.MULTILINE)
# "Error: payment not found", '{"error": "not found"}'
_TOLD_ERROR = re.compile(r"\s{0,9}(?:\{\s{0,9}[\"']error[\"']\s?:|error\b)", re.IGNORECASE)
# "app.py:199:78: F821 undefined name 'sys'", "src/a.c:3: error: …"
_DIAGNOSED = re.compile(
    r"^\s{0,8}(?P<said>[\w./~@+-]{1,200}:\d+(?::\d+)?:? (?:[A-Z]{1,4}\d{2,5}|error)\b.{1,200})", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAction:
    """One answered call. `place` is the call's in the log; `error` is what went wrong, "" where nothing did.

    `reported` is what a check found behind an edit that was made, in the edit's own output; `has_code` is True where
    the output gives the code with which the command ended.
    """

    place: int
    entry: Entry
    line: CallLine
    command: str
    error: str
    output: Entry
    is_refused: bool = False
    reported: str = ""
    has_code: bool = False

    @property
    def went_well(self) -> bool:
        return not self.error and not self.is_refused

    @property
    def checks(self) -> bool:
        """True for a command that tests or builds."""
        return is_check(self.command)

    @property
    def commits(self) -> bool:
        """True for a tool that by its name commits."""
        return "commit" in {word.lower() for word in split_words(self.line.tool)}

    @property
    def intervenes(self) -> bool:
        """True for a command that went well and neither looks, checks nor publishes: "systemctl disable a.timer"."""
        head = self.command[:ITEM_CHARACTERS]
        is_idle = self.checks or _READS.search(head) or publishes(head)
        return self.went_well and not is_idle and bool(programs(self.command))

    @property
    def acts(self) -> bool:
        """True for a call of a tool, other than a shell, that went well and by its name does more than look.

        What an agent was asked for, it may not have done.
        """
        is_asked = "prompt" in (call_fields(self.entry.text) or {})
        is_code = not SHELLS.isdisjoint(word.lower() for word in split_words(self.line.tool))
        is_done = self.went_well and self.line.act == "called" and not is_asked and not is_code
        return is_done and not only_looks(self.line.tool, self.entry.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An item of a plan. `state` is "open", "going on" or "done"."""

    text: str
    state: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A command that failed.

    `edits` are the places of the changes after it; `fixed_at` is where it first went well then, None for nowhere.
    `times` counts how often it failed until then.
    """

    did: AgentAction
    edits: tuple[int, ...]
    fixed_at: int | None
    times: int = 1


class AgentActions:
    """Reads what was done in these entries, each thing once. Immutable."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._log = SessionLog(tuple(entries))

    @cached_property
    def done(self) -> tuple[AgentAction, ...]:
        """Every answered call, in order."""
        found = (self._did(call, result) for call, *results in self._log.exchanges for result in results[-1:])
        return tuple(found)

    @cached_property
    def plan(self) -> tuple[Step, ...]:
        """The items of the latest plan or list of things to do that a client's tool was given."""
        for did in reversed(self.done):
            if did.went_well and (steps := tuple(_steps(did.entry))):
                return steps
        return ()

    @cached_property
    def changes(self) -> tuple[FileChange, ...]:
        """Every file that was changed and not put back, in the order of its first change."""
        begun = Counter(begun_in(did.command) for did in self.done if begun_in(did.command))
        files = ChangedFiles(root=next((folder for folder, _ in begun.most_common(1)), ""))
        committed = {each.source for each in self._commits}
        tells_ends = any(did.output.failed and did.command and not did.is_refused for did in self.done)
        for did in self.done:
            if did.went_well:
                for written in _written(did):
                    files.edit(did.place, did.entry.id, written, did.reported)
                files.run(did.command, did.entry.id)
            if did.checks and (did.went_well or did.error):
                # A form that marks no failed command marks none that went well either; words of an output tell neither.
                is_told = did.output.failed or did.has_code or (tells_ends and not did.error)
                files.judge(did.error if is_told else None)
            elif did.went_well and (publishes(did.command) or did.entry.id in committed):
                files.commit()
        return files.all

    @cached_property
    def edits(self) -> tuple[int, ...]:
        """The places of all calls that changed files."""
        return tuple(sorted({place for change in self.changes for place in change.edits}))

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """The commands that failed, the last run of each before it went well or was given up."""
        waiting: dict[frozenset[str], tuple[AgentAction, int]] = {}
        ended: list[Failure] = []
        for did in self.done:
            keys = _keys(did)
            if not keys or did.is_refused:
                continue
            if did.error or did.reported:
                times = 1 + sum(waiting.pop(failed)[1] for failed in [*waiting] if failed & keys)
                waiting[keys] = did, times
                continue
            for failed, (first, times) in list(waiting.items()):
                # Another check that passes after an edit vouches for the edit as well.
                if failed & keys or (did.checks and first.checks and self._between(first, did.place)):
                    del waiting[failed]
                    ended.append(self._failure(first, did.place, times))
        ended += [self._failure(did, None, times) for did, times in waiting.values()]
        return tuple(sorted(ended, key=lambda each: each.did.place))

    @cached_property
    def attempts(self) -> tuple[Failure, ...]:
        """The failures after which files were changed, and the same command failed in the same way; `fixed_at` is None.

        The changes between did not help: the next run's error is equal, but for its numbers.
        """
        latest: dict[str, AgentAction] = {}
        found: list[Failure] = []
        for did in self.done:
            if not did.command or did.is_refused:
                continue
            before = latest.pop(did.command, None)
            if did.error:
                latest[did.command] = did
                edits = self._between(before, did.place) if before else ()
                if before and edits and shape(before.error) == shape(did.error):
                    found.append(Failure(did=before, edits=edits, fixed_at=None))
        return tuple(found)

    @cached_property
    def commits(self) -> tuple[tuple[str, str], ...]:
        """Return what each commit that stands, tag and push did, with the call's id."""
        found = [(made.place, made.text, made.source) for made in self._commits if made.stands]
        told = {made.source for made in self._commits}
        for did in self.done:
            if did.went_well and publishes(did.command) and did.entry.id not in told:
                shown = one_line(did.output.text.strip().rpartition("\n")[2], CHANGE_CHARACTERS)
                is_log = commits_itself(did.command) or "git log" in did.command
                found.append((did.place, did.line.done if is_log else f"{did.line.done} → {shown}", did.entry.id))
        return tuple((text, source) for _, text, source in sorted(found, key=lambda each: each[0]))

    @cached_property
    def about_commits(self) -> frozenset[str]:
        """The ids of the outputs that tell of commits, or of what took them back."""
        told = {made.source for made in self._commits}
        undone = {self._log.entries[made.undone_at].id for made in self._commits if made.undone_at is not None}
        return frozenset({did.output.id for did in self.done if did.entry.id in told} | undone)

    @cached_property
    def undone_commits(self) -> tuple[Commit, ...]:
        """The commits that were taken back, in the order in which they were made."""
        return tuple(made for made in self._commits if not made.stands)

    @cached_property
    def _commits(self) -> tuple[Commit, ...]:
        calls: dict[str, Call] = {}
        for did in self.done:
            if did.went_well:
                may_commit = publishes(did.command) or did.line.act in ("edited", "wrote") or did.commits
                calls[did.output.id] = Call(did.place, did.entry.id, did.command, may_commit)
        return commits_in(self._log.entries, calls)

    def _failure(self, did: AgentAction, fixed_at: int | None, times: int) -> Failure:
        return Failure(did=did, edits=self._between(did, fixed_at), fixed_at=fixed_at, times=times)

    def _between(self, did: AgentAction, end: int | None) -> tuple[int, ...]:
        return tuple(place for place in self.edits if did.place < place and (end is None or place < end))

    def _did(self, place: int, result_place: int) -> AgentAction:
        call, result = self._log.entries[place], self._log.entries[result_place]
        line = call_line(call)
        command = _command(call) if line.act == "ran" else ""
        is_refused = bool(_REFUSED.search(result.text[:300]))
        return AgentAction(
            place=place, entry=call, line=line, command=command, output=result, is_refused=is_refused,
            error=(error := "" if is_refused else _error(result, line, command)),
            reported="" if is_refused or error else _reported(result, line), has_code=bool(_exits(result)),
        )  # fmt: skip


def is_check(command: str) -> bool:
    """Return True for a command, or a tool by its name, that tests or builds."""
    head = command[:ITEM_CHARACTERS].partition("git commit")[0]  # What follows is a message.
    return bool(_CHECKS.search(head)) and not _ASKS_PAGE.search(head)


def only_looks(tool: str, arguments: str) -> bool:
    """Return True for a tool that by its name changes nothing, "get_user", "WebSearch", and for an empty command.

    So does one by which a client notes or awaits its own work, "TaskCreate", "Monitor": what is planned is not done.
    """
    words = {word.lower() for word in split_words(tool)}
    is_own = tool.startswith(("Task", "Monitor"))
    return is_own or not _LOOKING.isdisjoint(words) or (not call_fields(arguments) and not SHELLS.isdisjoint(words))


def _error(result: Entry, line: CallLine, command: str) -> str:
    exits = _exits(result)
    is_silent = not exits and _fails(command, line, result)  # Not every client tells how a call ended.
    if not result.failed and not any(int(code) for code in exits[:1]) and not is_silent:
        return ""
    errors = errors_of(result)
    shown = " · ".join(errors[:2]) or result.text.strip().rpartition("\n")[2]
    return one_line(shown, ERROR_CHARACTERS) or "failed"


def _exits(result: Entry) -> list[str]:
    """Return the codes with which an output says that its command ended."""
    return _EXIT.findall(result.text[:_HEAD]) or _EXIT.findall(result.text[-_HEAD:])[-1:]


def _reported(result: Entry, line: CallLine) -> str:
    """Return what a check that runs behind each edit found: "app.py:199:78: F821 undefined name 'sys'"."""
    found = _DIAGNOSED.search(result.text) if line.act in ("edited", "wrote") else None
    return one_line(found["said"], ERROR_CHARACTERS) if found else ""


def _fails(command: str, line: CallLine, result: Entry) -> bool:
    """Return True where an output tells by its last words that the command failed; what only reads shows others'.

    An edit fails where the output says that nothing was applied.
    """
    if line.act in ("edited", "wrote"):
        return bool(_NOT_APPLIED.search(result.text[:_HEAD]) or _NOT_APPLIED.search(result.text[-_HEAD:]))
    if line.act == "called":
        return bool(_TOLD_ERROR.match(result.text))
    if not command or _READS.search(command[:ITEM_CHARACTERS]):
        return False
    if _ASKS_PAGE.search(command[:ITEM_CHARACTERS]) and _REFUSED_PAGE.search(result.text[-MAX_LAST:]):
        return True
    return ends_in_error(result.text) or bool(is_check(command) and _FAILED_CHECK.search(result.text[-MAX_LAST:]))


def _command(call: Entry) -> str:
    fields = call_fields(call.text) or {}
    for name in ("command", "cmd", "script", "code"):
        value = fields.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return " ".join(each for each in value if isinstance(each, str))
    return call.text if not fields else ""


def _keys(did: AgentAction) -> frozenset[str]:
    """Return what two attempts at one thing share: a program that they run, or the file or call of a tool."""
    if did.command:
        return programs(did.command)
    return frozenset({did.line.key} if did.line.act in ("edited", "called") else ())


def _steps(call: Entry) -> Iterator[Step]:
    """Yield the items of a plan in a call's arguments: a list of objects that each have a text and a status."""
    for value in (call_fields(call.text) or {}).values():
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(each, Mapping) and "status" in each for each in value)
        ):
            continue
        for item in value[:MOST_ITEMS]:
            assert isinstance(item, Mapping)
            text = next((item[name] for name in _ITEM_TEXTS if isinstance(item.get(name), str)), "")
            state = str(item["status"]).lower()
            known = "done" if state in _DONE else "going on" if state in _GOING_ON else "open" if state in _OPEN else ""
            if text and known:
                yield Step(text=one_line(str(text), ITEM_CHARACTERS), state=known, source=call.id)


def _written(did: AgentAction) -> Iterator[FileEdit]:
    """Yield what a call did to each file: a patch names several, each with lines of its own."""
    if did.line.act == "ran":
        for path in paths_written(did.command, is_python="python" in did.line.tool):
            yield FileEdit(within(begun_in(did.command), path), "")
    elif did.line.act in ("edited", "wrote"):
        patched = [*patches(did.entry)]
        is_patch = did.line.subject == ", ".join(dict.fromkeys(each.path for each in patched))
        for each in patched if is_patch else ():
            yield FileEdit(each.path, _telling_line(each.added), each.how == "Add", each.how == "Delete")
        if not is_patch:
            put_in = "\n".join(_PUT_IN.findall(did.line.written)) or did.line.written
            yield FileEdit(one_line(did.line.subject, PATH_CHARACTERS), _telling_line(put_in), did.line.act == "wrote")


def _telling_line(text: str) -> str:
    """Return the most telling line of what was written: the longest of the first few that fits."""
    lines = [line.strip() for line in text.split("\n")[:12]]
    telling = [
        line
        for line in lines
        if 8 <= len(line) <= 2 * CHANGE_CHARACTERS
        and not line.startswith(("***", "@@", "-", "#!", "import", "package", "from"))
    ]
    return one_line(max(telling, key=len), CHANGE_CHARACTERS) if telling else ""
