"""Texts made from a pattern to cost it as much as can be.

Its beginnings and the bodies of its unbounded repeats, again and again, with ends that fit and ends that do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product, zip_longest
from typing import Any

from benchmarks.backtracking import Node, Test, bounds, one_character, parse, sre

MOST = 400
_BREAKS = ("\0", "\n", "!")
_IN_WORDS = "a1A_0bZé中か"
_OTHERS = "- ./:'\"`*#,;=(){}[]<>@+?!%&|~\\^$\n\t。"
_BODIES = 5
_ALTERNATIVES = 60
_Repeat = tuple[str, Sequence[Node], int]
"""What stands before a repeat, its body, and the flags that hold there."""


@dataclass(frozen=True, slots=True)
class Pump:
    """A text that repeats: its beginning, what is repeated, and its end."""

    head: str
    period: str
    tail: str

    def text(self, times: int) -> str:
        return self.head + self.period * times + self.tail


def pumps(pattern: re.Pattern[str], most: int = MOST) -> Sequence[Pump]:
    """Each once, the most telling first; none of a pattern that repeats nothing without a bound, which is linear."""
    repeats = list(_unbounded(parse(pattern), pattern.flags, ""))
    if not repeats:
        return []
    return list(islice((each for each in dict.fromkeys(_all(pattern, repeats)) if each.period), most))


def _all(pattern: re.Pattern[str], repeats: Sequence[_Repeat]) -> Iterator[Pump]:
    """Some of each repeat, of the beginnings and of the characters in turn, so that the first ones are of all kinds."""
    nodes = parse(pattern)
    kinds = [*(_of_repeat(*each) for each in repeats), _of_beginnings(nodes, pattern), _of_characters(nodes, pattern)]
    for in_turn in zip_longest(*kinds):
        yield from filter(None, in_turn)


def _of_beginnings(nodes: Sequence[Node], pattern: re.Pattern[str]) -> Iterator[Pump]:
    for end in range(len(nodes), 0, -1):
        for each in _samples(nodes[:end], pattern.flags):
            yield Pump("", each, "")
            yield Pump("", each, _BREAKS[0])


def _of_characters(nodes: Sequence[Node], pattern: re.Pattern[str]) -> Iterator[Pump]:
    characters = list(dict.fromkeys(each for one in _samples(nodes, pattern.flags) for each in one))[:12]
    for each in (*characters, *map("".join, product(characters[:8], repeat=2))):
        yield Pump("", each, "")
        yield Pump("", each, _BREAKS[0])


def _of_repeat(before: str, body: Sequence[Node], flags: int) -> Iterator[Pump]:
    bodies = list(_bodies(before, body, flags))
    for tail in ("", *_BREAKS):
        for each in bodies:
            yield Pump(before, each, tail)
            yield Pump("", before + each, tail)
            yield Pump("", each, tail)
            yield Pump("", each + tail, "")


def _unbounded(nodes: Sequence[Node], flags: int, before: str) -> Iterator[_Repeat]:
    """Each repeat without a bound."""
    for node in nodes:
        operation, argument = node
        if operation is sre.SUBPATTERN:
            yield from _unbounded(argument[3], (flags | argument[1]) & ~argument[2], before)
        elif operation is sre.BRANCH:
            for each in argument[1]:
                yield from _unbounded(each, flags, before)
        elif operation in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _unbounded(argument[1], flags, before)
        elif operation is sre.ATOMIC_GROUP:
            yield from _unbounded(argument, flags, before)
        elif operation in _REPEATS:
            if bounds(argument[0], argument[1])[1] is None:
                yield before, argument[2], flags
            yield from _unbounded(argument[2], flags, before)
        before += _of_node(node, flags)[0]


def _bodies(before: str, body: Sequence[Node], flags: int) -> Iterator[str]:
    yield from _samples(body, flags)[:_BODIES]
    test = one_character(body[0], flags) if len(body) == 1 else None
    if test and before and all(map(test, before)):
        yield before
    for end in range(1, len(before)):
        if test and all(map(test, before[end:])):
            yield before[end:]
            break


def _samples(nodes: Sequence[Node], flags: int) -> Sequence[str]:
    """Short texts that a sequence matches, by and large: the plainest, and others that differ from it in one place."""
    options = [_of_node(node, flags) for node in nodes]
    plain = [each[0] for each in options]
    found = {"".join(plain): None}
    for place, each in enumerate(options):
        for other in each[1:]:
            found["".join([*plain[:place], other, *plain[place + 1 :]])] = None
    return list(islice(found, _ALTERNATIVES))


def _of_node(node: Node, flags: int) -> Sequence[str]:
    operation, argument = node
    test = one_character(node, flags)
    if operation is sre.LITERAL:
        return [chr(argument)]
    if test is not None:
        return _characters(test)
    if operation is sre.SUBPATTERN:
        return _samples(argument[3], (flags | argument[1]) & ~argument[2])
    if operation is sre.BRANCH:
        return [_samples(each, flags)[0] for each in argument[1]]
    if operation is sre.ATOMIC_GROUP:
        return _samples(argument, flags)
    if operation in _REPEATS:
        fewest = bounds(argument[0], argument[1])[0]
        inner = _samples(argument[2], flags)
        return [inner[0] * fewest, *(each * max(fewest, 1) for each in inner)]
    if operation is sre.ASSERT and argument[0] < 0:
        return _samples(argument[1], flags)
    return [""]


def _characters(test: Test) -> Sequence[str]:
    """Of a set of characters two that words hold and two that they do not, since edges lie between these."""
    in_words = list(islice((each for each in _IN_WORDS if test(each)), 2))
    others = list(islice((each for each in _OTHERS if test(each)), 2))
    return [*in_words, *others] or [next(filter(test, map(chr, range(0x3000))), "")]


_REPEATS: tuple[Any, ...] = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
