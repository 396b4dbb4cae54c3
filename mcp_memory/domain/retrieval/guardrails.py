"""Guardrails at the moment of decision: which of them a call of a tool meets, and how surely.

A guardrail reminds with force; it is no sandbox. What a script does that a command starts, nobody sees here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from mcp_memory.domain.model.records import Details, Json, Record
from mcp_memory.domain.retrieval.queries import coverage, query_terms

Meeting = Literal["pattern", "words", "text"]
"""Says how a guardrail is met: by a pattern that it gives, by all words of its trigger, or by what its text forbids."""

MOST_CHARACTERS: Final = 20_000
"""Characters read of a command; behind them there is data that is poured into a program."""
MOST_COMMANDS: Final = 200
MOST_TEXT: Final = 2_000
MOST_DEPTH: Final = 3
"""Shells within shells: `ssh web "bash -c 'rm -rf /srv'"` are two."""
LEAST_WORDS: Final = 2
"""One word of a trigger, as "push", would meet half of all commands."""
NAMED: Final = frozenset({"file_path", "path", "notebook_path", "url", "paths", "files"})
"""Arguments that name what a tool works on; its other texts are contents, which may speak of anything."""
COMMANDS: Final = frozenset({"command", "cmd", "script"})
"""Arguments that are a line of shell."""
# "Read", "Grep", "read_file", "mcp__files__list_directory"
_LOOKS: Final = re.compile(r"(?:\A|_)(?:read|grep|glob|ls|list|view|search|find|get)(?:_|\Z)", re.IGNORECASE)
"""Tools that only look: a guardrail against changing a file does not mean them, unless a pattern names the tool."""
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash"})
_LEADS: Final = frozenset({"sudo", "time", "nice", "nohup", "exec", "command", "env", "doas"})
# "FOO=1 make", of which the first word is no program
_ASSIGNED: Final = re.compile(r"\w{1,60}=")
# "Bash(git push:*)", "Write(migrations/**)", "mcp__github__merge*()"
_OF_TOOL: Final = re.compile(r"\A(?P<tool>[\w*]{1,100})\((?P<rest>.{0,500})\)\Z", re.DOTALL)
# "Never use `git add .` or `git add -A`", "do not edit anything in `build/`", "never rm -rf on a share"; not "do not
# commit `.env`", which may be written, nor what stands behind "without", "unless", "instead"
_FORBIDS: Final = re.compile(
    r"\b(?:never|(?:do|must|should) not|don't|mustn't|shouldn't|avoid)[ *]{1,3}(?:"
    r"(?P<bare>[a-z][\w.-]{0,30}(?: [a-z][\w-]{0,30}){0,2}(?: --?[a-z][\w-]{0,30}){1,4})(?P<on>[^.;:,\n\u2014(]{0,200})"
    r"|(?:\w{1,20} ){0,2}?(?:run|us|execut|call|invok|edit|modif|touch|delet|remov|writ|chang|overwrit|renam|mov|read"
    r"|open)(?:e|y|ing|ying)?\b(?P<rest>(?:`[^`\n]{1,200}`|[^`.;:\n\u2014(])*)"
    r")",
    re.IGNORECASE,
)
_BEHIND: Final = re.compile(
    r"\b(?:without|unless|instead|until|rather|but|except|to|use|prefer)\b.*", re.IGNORECASE | re.DOTALL
)
_QUOTED: Final = re.compile(r"`([^`\n]{0,200})`")
# "-rf", but not "-1" or "--force"
_SHORT_FLAGS: Final = re.compile(r"\A-[A-Za-z]{2,}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a client is about to make: the tool, the commands that it runs, and what it names to work on."""

    tool: str
    commands: tuple[tuple[str, ...], ...] = ()
    """Each program with its arguments, without quotes, in the order of the shell."""
    names: tuple[str, ...] = ()
    """Paths and addresses."""

    @property
    def changed(self) -> tuple[str, ...]:
        """The names, of a tool that does not only look."""
        return () if _LOOKS.search(self.tool) else self.names

    @staticmethod
    def of(tool: str, arguments: Mapping[str, Json]) -> ToolCall:
        """Read a call as clients report it, e.g. "Bash" with `{"command": "rm -rf build"}`."""
        commands, names = list[tuple[str, ...]](), list[str]()
        for name, value in arguments.items():
            texts = [value] if isinstance(value, str) else [each for each in _listed(value) if isinstance(each, str)]
            if name in COMMANDS:
                commands += [each for text in texts for each in commands_of(text)]
            elif name in NAMED:
                names += texts
        return ToolCall(tool=tool, commands=tuple(commands[:MOST_COMMANDS]), names=tuple(names[:MOST_COMMANDS]))


def _listed(value: Json) -> Sequence[Json]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def meeting(guardrail: Record, call: ToolCall) -> Meeting | None:
    """Return how a guardrail is met; None where it is not.

    Where it gives patterns, they alone count. Else all words of its trigger have to be in one command, or in one name;
    without a trigger the call has to be of a form that the text forbids.
    """
    if patterns := patterns_of(guardrail.details):
        return "pattern" if any(is_met(pattern, call) for pattern in patterns) else None
    if not (trigger := trigger_of(guardrail.details)):
        return "text" if any(each.is_met_by(call) for each in forbidden_in(guardrail.text)) else None
    terms = _trigger_terms(trigger)
    if not terms:
        return None
    said = (*map(_words_of, call.commands), *call.changed)
    return "words" if any(coverage(terms, each) == 1.0 for each in said) else None


def has_form(text: str, details: Details) -> bool:
    """Return True for a guardrail that some call can meet; any other is only told, and acts on none."""
    return bool(forms_of(text, details) or _trigger_terms(trigger_of(details)))


def forms_of(text: str, details: Details) -> Sequence[str]:
    """Return the forms of calls that meet a guardrail, as patterns; none where the words of its trigger decide."""
    return patterns_of(details) or ([] if trigger_of(details) else [each.pattern for each in forbidden_in(text)])


def patterns_of(details: Details) -> Sequence[str]:
    """Return the patterns that a guardrail gives; none where it is met otherwise."""
    given = details.get("pattern")
    return [each for each in ([given] if isinstance(given, str) else _listed(given)) if isinstance(each, str)]


def trigger_of(details: Details) -> str:
    """Return the words of the work that a guardrail is about; "" where it names none."""
    trigger = details.get("trigger")
    return trigger.strip() if isinstance(trigger, str) else ""


def _trigger_terms(trigger: str) -> Sequence[str]:
    """Return the words that a call has to have; none where they are too few to tell calls apart."""
    terms = query_terms(trigger)
    return terms if len(terms) >= LEAST_WORDS else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """A command or a path that a text forbids, as a pattern, and the words that a command has to have beside it."""

    pattern: str
    words: tuple[str, ...] = ()

    def is_met_by(self, call: ToolCall) -> bool:
        """Return True where the call is of the form, and one of its commands has all of the words."""
        said = any(coverage(self.words, _words_of(command)) == 1.0 for command in call.commands)
        return is_met(self.pattern, call) and (said or not self.words)


def forbidden_in(text: str) -> list[Forbidden]:
    """Return what a text forbids by its form; see `_FORBIDS`."""
    found = list[Forbidden]()
    for match in _FORBIDS.finditer(text[:MOST_TEXT]):
        if match["bare"]:  # "rm -rf on a share" says where.
            found.append(Forbidden(pattern=match["bare"], words=tuple(query_terms(match["on"]))))
            continue
        kept = len(_QUOTED.findall(_BEHIND.sub("", _QUOTED.sub("``", match["rest"]))))
        # What is quoted may hold the words that end a prohibition, as `git checkout -- but.py` does.
        found += [Forbidden(pattern=each) for each in _QUOTED.findall(match["rest"])[:kept]]
    return found


def is_met(pattern: str, call: ToolCall) -> bool:
    """Return True where a call is of the pattern's form; `*` matches anything.

    "rm -rf /mnt/share" is a command: that program, with these flags in whatever order, on these paths or what lies
    below them. "migrations/*.sql" is a path that a tool changes. "Read(secrets/*)" is of that tool alone, and
    "WebFetch()" any call of it.
    """
    of_tool = _OF_TOOL.match(pattern.strip())
    wanted = (of_tool["rest"] if of_tool else pattern).strip().removesuffix(":*")
    if of_tool and not fnmatchcase(call.tool, of_tool["tool"]):
        return False
    if not wanted:
        return of_tool is not None
    words, names = _split(wanted), call.names if of_tool else call.changed
    return any(_is_of(command, words) for command in call.commands) or any(_lies_in(name, wanted) for name in names)


def commands_of(text: str, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield each command of a line of shell: its program first, without assignments, `sudo`, and what quotes hold.

    What a shell is given as a command is read as well: "bash -c 'rm -rf x'", "ssh web 'rm -rf x'".
    """
    command = list[str]()
    for word in (*_tokens(text), ";"):
        if not word or word.strip("();<>|&"):
            command.append(word)
            continue
        yield from _command(command, depth)
        command = []


def _command(words: Sequence[str], depth: int) -> Iterator[tuple[str, ...]]:
    start = 0
    while start < len(words) and (words[start] in _LEADS or _ASSIGNED.match(words[start])):
        start += 1
    if not (found := tuple(words[start:])):
        return
    program = found[0].rsplit("/", 1)[-1]
    yield program, *found[1:]
    if depth < MOST_DEPTH and (program in _SHELLS or program in {"ssh", "eval", "xargs"}):
        for word in found[1:]:
            if " " in word:
                yield from commands_of(word, depth + 1)


def _tokens(text: str) -> list[str]:
    """Return the words of a line of shell, and its operators; what is poured into a program is left out."""
    head, mark, rest = text[:MOST_CHARACTERS].partition("<<")
    line = head + (mark and " ; " + rest.partition("\n")[0].partition(" ")[2])
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # A quote without an end.
        return re.findall(r"[;|&()]+|[^\s;|&()'\"]+", line)


def _split(pattern: str) -> list[str]:
    try:
        return shlex.split(pattern)
    except ValueError:
        return pattern.split()


def _is_of(command: tuple[str, ...], wanted: Sequence[str]) -> bool:
    """Return True for the wanted program with all wanted flags, and the wanted words in their order among its own."""
    if not wanted or not fnmatchcase(command[0], wanted[0].rsplit("/", 1)[-1]):
        return False
    given = _flags(command[1:])
    if not all(any(fnmatchcase(flag, each) for flag in given) for each in _flags(wanted[1:])):
        return False
    own = iter([word for word in command[1:] if not word.startswith("-")])
    return all(any(_lies_in(word, each) for word in own) for each in wanted[1:] if not each.startswith("-"))


def _flags(words: Iterable[str]) -> frozenset[str]:
    """Return the flags among some words, each by itself: "-rf" is "-r" and "-f", "--force=yes" is "--force"."""
    given = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
    return frozenset(
        flag for each in given for flag in ((f"-{one}" for one in each[1:]) if _SHORT_FLAGS.match(each) else (each,))
    )


def _lies_in(name: str, wanted: str) -> bool:
    """Return True for the wanted name, or for what lies below it; a path may begin in any folder of the name's."""
    wanted = wanted.removeprefix("./").rstrip("/") or wanted
    name = name.removeprefix("./")
    whole = fnmatchcase(name, wanted) or fnmatchcase(name, f"{wanted}/*")
    if whole or wanted[:1] in "/~*" or "/" not in name:
        return whole
    return fnmatchcase(name, f"*/{wanted}") or fnmatchcase(name, f"*/{wanted}/*")


def _words_of(command: tuple[str, ...]) -> str:
    """Return a command's words; what was quoted as a sentence, as a commit's message is, mentions things."""
    return " ".join(word for word in command if " " not in word)
