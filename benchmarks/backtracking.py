"""Counts the steps that `re` takes: an interpreter of parsed patterns that backtracks as `re` does.

Bounded repeats are shrunk (`{0,300}` to `{0,2}`), so that what is bounded is constant on short texts already. On a
periodic text the steps of a linear pattern grow by the same number with each period, those of any other by more and
more: texts of a few hundred characters tell them apart, and nothing is timed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Literal, cast

sre: Any = import_module("re._constants")
_parser: Any = import_module("re._parser")
"""What `re` itself makes of a pattern is private, and there is no other; `parse` is all that is used of it."""

Node = tuple[Any, Any]
"""An operation and its argument."""
Test = Callable[[str], bool]
Method = Literal["search", "match", "fullmatch"]

UNBOUNDED = 2_000
"""A repeat that may be longer counts as one without a bound."""
SHRUNK = 2
MOST_STEPS = 100_000
"""Enough for any linear pattern on texts of a thousand characters."""


def parse(pattern: re.Pattern[str]) -> Sequence[Node]:
    """The operations that a pattern is made of."""
    return cast("Sequence[Node]", list(_parser.parse(pattern.pattern, pattern.flags)))


def steps(pattern: re.Pattern[str], text: str, method: Method = "search") -> int:
    """How many steps `re` takes for a text, with bounded repeats shrunk; `MOST_STEPS` at most.

    "search" goes on to the end of the text, as `finditer` and `sub` do; "match" and "fullmatch" are tried once.
    """
    machine = _Machine(_program(pattern, method == "fullmatch"), text)
    if method == "search":
        list(_spans(machine, text))
    else:
        machine.run(0)
    return machine.steps


def ends(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """Where `finditer` finds the pattern."""
    return list(_spans(_Machine(_program(pattern, False), text), text))


def _spans(machine: _Machine, text: str) -> Iterator[tuple[int, int]]:
    position = 0
    while position <= len(text) and machine.steps < MOST_STEPS:
        end = machine.run(position)
        if end is not None:
            yield position, end
        position = position + 1 if end is None or end == position else end


def bounds(least: int, most: int, *, shrink: bool = True) -> tuple[int, int | None]:
    """A repeat's bounds as they are run; None where there is none."""
    if not shrink:
        return least, most
    fewest = min(least, SHRUNK)
    return fewest, None if most >= UNBOUNDED else fewest + min(most - least, SHRUNK)


@cache
def _program(pattern: re.Pattern[str], whole: bool) -> _Program:
    program = _Program()
    program.sequence([*parse(pattern), *([(sre.AT, sre.AT_END_STRING)] if whole else [])], pattern.flags)
    program.emit("match")
    return program


class _Program:
    """Instructions: a name and what it needs. Targets are indexes; a split remembers those that a character has."""

    def __init__(self, *, shrink: bool = True) -> None:
        self.code: list[list[Any]] = []
        self.registers = 0
        self._shrink = shrink

    def emit(self, *instruction: Any) -> int:
        self.code.append(list(instruction))
        return len(self.code) - 1

    def sequence(self, nodes: Sequence[Node], flags: int) -> None:
        for node in nodes:
            self._node(node, flags)

    def _node(self, node: Node, flags: int) -> None:
        operation, argument = node
        if (test := one_character(node, flags)) is not None:
            self.emit("one", test)
        elif operation is sre.SUBPATTERN:
            group, added, removed, body = argument
            self.sequence(body, (flags | added) & ~removed)
            if group is not None:
                self.emit("group", group)
        elif operation is sre.BRANCH:
            self._branch(argument[1], flags)
        elif operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            self._repeat(operation, argument, flags)
        elif operation is sre.ATOMIC_GROUP:
            self.emit("atomic", self._inner(argument, flags))
        elif operation in (sre.ASSERT, sre.ASSERT_NOT):
            direction, body = argument
            width = body.getwidth()[0] if direction < 0 else 0
            self.emit("look", self._inner(body, flags, shrink=direction > 0), width, operation is sre.ASSERT)
        elif operation is sre.AT:
            edges = _EDGES | _LINE_EDGES if flags & re.MULTILINE else _EDGES
            self.emit("at", edges[argument])
        else:
            # A reference matches a bounded text here, or none: what it costs is what its group costs.
            assert operation in (sre.GROUPREF, sre.GROUPREF_IGNORE), operation
            self.emit("reference", argument)

    def _inner(self, body: Sequence[Node], flags: int, *, shrink: bool = True) -> _Program:
        inner = _Program(shrink=shrink and self._shrink)
        inner.sequence(list(body), flags)
        inner.emit("match")
        return inner

    def _branch(self, alternatives: Sequence[Sequence[Node]], flags: int) -> None:
        split = self.emit("split", [], {})
        ends: list[int] = []
        for nodes in alternatives:
            first = one_character(nodes[0], flags) if len(nodes) else None
            self.code[split][1].append((first, len(self.code)))
            self.sequence(list(nodes), flags)
            ends.append(self.emit("jump", None))
        for end in ends:
            self.code[end][1] = len(self.code)

    def _repeat(self, operation: Any, argument: tuple[int, int, Sequence[Node]], flags: int) -> None:
        body = list(argument[2])
        least, most = bounds(argument[0], argument[1], shrink=self._shrink)
        test = one_character(body[0], flags) if len(body) == 1 else None
        if test is not None:
            self.emit("run", test, least, most, operation)
        elif operation is sre.POSSESSIVE_REPEAT:
            self.emit("atomic", self._inner([(sre.MAX_REPEAT, argument)], flags))
        else:
            self._loop(body, least, most, flags, lazy=operation is sre.MIN_REPEAT)

    def _loop(self, body: Sequence[Node], least: int, most: int | None, flags: int, *, lazy: bool) -> None:
        for _ in range(least):
            self.sequence(body, flags)
        leaves: list[int] = []
        for _ in range(1 if most is None else most - least):
            split = self.emit("split", [], {})
            into = len(self.code)
            if most is None:
                # A round that matched nothing is the last one.
                self.emit("mark", register := self.registers)
                self.registers += 1
                self.sequence(body, flags)
                self.emit("again", register, split)
            else:
                self.sequence(body, flags)
            self.code[split][1] = [(None, into), (None, None)]
            if lazy:
                self.code[split][1].reverse()
            leaves.append(split)
        for leave in leaves:
            self.code[leave][1] = [(first, len(self.code) if to is None else to) for first, to in self.code[leave][1]]


class _Machine:
    def __init__(self, program: _Program, text: str, counted: list[int] | None = None) -> None:
        self._code = program.code
        self._text = text
        self._counted = counted if counted is not None else [0]
        self._registers = (-1,) * program.registers

    @property
    def steps(self) -> int:
        return self._counted[0]

    def run(self, start: int) -> int | None:  # noqa: C901, PLR0915 - one case an instruction, and it has to be quick
        """The end of the match that begins here."""
        code, text, counted = self._code, self._text, self._counted
        length = len(text)
        waiting: list[tuple[int, int, tuple[int, ...], int, int]] = [(0, start, self._registers, 0, 0)]
        while waiting and counted[0] < MOST_STEPS:
            at, position, registers, step, left = waiting.pop()
            if left > 1 and (step < 0 or (position < length and code[at - 1][1](text[position]))):
                # What is left of a run: one character fewer, or, of a lazy one, one more.
                waiting.append((at, position + step, registers, step, left - 1))
            while True:
                counted[0] += 1
                instruction = code[at]
                name = instruction[0]
                at += 1
                if name == "one":
                    if position >= length or not instruction[1](text[position]):
                        break
                    position += 1
                elif name == "run":
                    _, test, least, most, kind = instruction
                    room = length - position if most is None else min(most, length - position)
                    taken = 0
                    wanted = least if kind is sre.MIN_REPEAT else room
                    while taken < wanted and taken < room and test(text[position + taken]):
                        taken += 1
                    counted[0] += taken
                    if taken < least:
                        break
                    position += taken
                    if kind is sre.MAX_REPEAT and taken > least:
                        waiting.append((at, position - 1, registers, -1, taken - least))
                    elif kind is sre.MIN_REPEAT and taken < room and test(text[position]):
                        waiting.append((at, position + 1, registers, 1, room - taken))
                elif name == "split":
                    character = text[position] if position < length else ""
                    viable = instruction[2].get(character)
                    if viable is None:
                        viable = [
                            to for first, to in instruction[1] if first is None or (character and first(character))
                        ]
                        instruction[2][character] = viable
                    if not viable:
                        break
                    waiting.extend((to, position, registers, 0, 0) for to in reversed(viable[1:]))
                    at = viable[0]
                elif name == "jump":
                    at = instruction[1]
                elif name == "mark":
                    registers = (*registers[: instruction[1]], position, *registers[instruction[1] + 1 :])
                elif name == "again":
                    if registers[instruction[1]] == position:
                        break
                    at = instruction[2]
                elif name == "at":
                    if not instruction[1](text, position):
                        break
                elif name == "look":
                    _, inner, width, wanted = instruction
                    found = position >= width and _Machine(inner, text, counted).run(position - width) is not None
                    if found != wanted:
                        break
                elif name == "atomic":
                    end = _Machine(instruction[1], text, counted).run(position)
                    if end is None:
                        break
                    position = end
                elif name == "match":
                    return position
        return None


def one_character(node: Node, flags: int) -> Test | None:
    """The test of a node that takes one character of the text; None for any other."""
    operation, argument = node
    if operation is sre.ANY:
        return _anything if flags & re.DOTALL else _no_line_end
    if operation is sre.LITERAL:
        return _member(((operation, argument),), bool(flags & re.IGNORECASE))
    if operation is sre.NOT_LITERAL:
        return _member(((sre.NEGATE, None), (sre.LITERAL, argument)), bool(flags & re.IGNORECASE))
    if operation is sre.IN:
        return _member(tuple(argument), bool(flags & re.IGNORECASE))
    return None


@cache
def _member(items: tuple[Node, ...], ignore_case: bool) -> Test:
    negated = items[0][0] is sre.NEGATE

    @cache
    def test(character: str) -> bool:
        forms = {character, character.lower(), character.upper()} if ignore_case else {character}
        return negated != any(_is_in(item, form) for item in items for form in forms if len(form) == 1)

    return test


def _is_in(item: Node, character: str) -> bool:
    operation, argument = item
    if operation is sre.LITERAL:
        return ord(character) == argument
    if operation is sre.RANGE:
        return argument[0] <= ord(character) <= argument[1]
    return operation is sre.CATEGORY and _CATEGORIES[argument](character)


def _anything(character: str) -> bool:
    return True


def _no_line_end(character: str) -> bool:
    return character != "\n"


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _at_boundary(text: str, position: int) -> bool:
    before = position > 0 and _is_word(text[position - 1])
    return before != (position < len(text) and _is_word(text[position]))


def _line_start(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] == "\n"


def _line_end(text: str, position: int) -> bool:
    return position == len(text) or text[position] == "\n"


_CATEGORIES: dict[Any, Test] = {
    sre.CATEGORY_DIGIT: str.isdecimal,
    sre.CATEGORY_NOT_DIGIT: lambda character: not character.isdecimal(),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda character: not character.isspace(),
    sre.CATEGORY_WORD: _is_word,
    sre.CATEGORY_NOT_WORD: lambda character: not _is_word(character),
}
_EDGES: dict[Any, Callable[[str, int], bool]] = {
    sre.AT_BEGINNING: lambda text, position: position == 0,
    sre.AT_BEGINNING_STRING: lambda text, position: position == 0,
    sre.AT_END: lambda text, position: position == len(text) or text[position:] == "\n",
    sre.AT_END_STRING: lambda text, position: position == len(text),
    sre.AT_BOUNDARY: _at_boundary,
    sre.AT_NON_BOUNDARY: lambda text, position: not _at_boundary(text, position),
}
_LINE_EDGES: dict[Any, Callable[[str, int], bool]] = {sre.AT_BEGINNING: _line_start, sre.AT_END: _line_end}
