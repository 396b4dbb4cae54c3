"""No pattern costs more than linear time, whatever the text; and what counts the steps finds those that do."""

import re

import pytest

from benchmarks.backtracking import MOST_STEPS, Method, ends, steps
from benchmarks.patterns import written_patterns
from benchmarks.pumps import MOST, Pump, pumps
from mcp_memory.domain.memory import harness
from mcp_memory.domain.text import time_phrases
from mcp_memory.domain.text.passages import inflections_of

PERIODS, LONGER = (3, 6, 9), (20, 40, 60)
"""How often a text repeats, in equal steps."""
BOUNDED = {
    "domain.model.projects": "the address of a git remote, of 2,000 characters at most",
    "entrypoints.transfer.importers.basic_memory": "one line of a note, which the importer bounds",
}
"""Modules whose patterns may cost more, since what they read is short; and what that is."""
MADE_AT_RUN_TIME: dict[str, list[tuple[re.Pattern[str], Method]]] = {
    "mcp_memory.domain.memory.harness": [*harness.patterns()],
    "mcp_memory.domain.text.passages": [
        (inflections_of(terms), "search")
        for terms in (["deploy"], ["cat", "dog"], ["a", "aa", "aaaaaa"], ["水泵"], ["v1.2", "x_y", "(a+)+"])
    ],
    "mcp_memory.domain.text.time_phrases": [(pattern, "search") for pattern in time_phrases.patterns()],
}
"""Patterns that a call makes, by their module."""
OFFENDERS: dict[str, str] = {
    # What redaction searched with before: each took minutes for a text made for it.
    "sk-": r"sk-[A-Za-z0-9_-]*[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}",
    "password=": r"(?i:password|secret[_ -]?key)[:=](?=[^\s\"',;]*\d)(?=[^\s\"',;]*[A-Za-z])[\w!@#=~-]{10,}",
    "api_key:": r"(?i:(?:api|access)[_ -]?(?:key|token))[\"']?\s{0,3}[:=](?=[^\s\"',;]*\d)[\w:]{10,}",
    "sk-T3BlbkFJ": r"sk-[A-Za-z0-9-]*T3BlbkFJ[A-Za-z0-9]{20}",
    # What a place in a file, a word with a digit, an end of a line were found with.
    "line in file": r":\d[\d:.,-]*$",
    "word with a digit": r"[\w.:/-]*\d[\w.:/-]*",
    "blank end": r"[ \t]+(?=\n)",
    "two blanks": r"(?<!\s)\s*[,;(]?\s*(?:\w|$)",
    # The classics.
    "nested": r"(?:a+)+b",
    "the same twice": r"(?:a|a)*b",
    "adjacent": r"(?<!\d)\d*\d*x",
    "three gaps": r".*,.*;",
    "rest of a line": r"a.*b",
    "possessive, but from everywhere": r"\s++x",
    "inside a look-ahead": r"(?=\w*:)\w",
    "behind an edge that the body holds": r"\b[\w-]+@",
    "lazy": r"<!--.*?-->",
    "a name in a pattern for lines": r"(?m)[ab]*$(?<=c)",
}
HARMLESS: dict[str, str] = {
    "a word": r"\w+",
    "from the edge of a run only": r"(?<!\w)\w++@",
    "bounded": r"a{0,300}b",
    "a line": r"(?m)^#{1,6} .*$",
    "a quotation": r'"[^"]*"x',
    "all that is not a full stop": r"[^.]*\.?",
    "a look-ahead of some length": r"(?=[^\s:]{0,300}\d)\S",
    "an atomic group": r"(?<![ab])(?>a|b)*c",
}


def superlinear(pattern: re.Pattern[str], methods: tuple[Method, ...] = ("search",), most: int = 40) -> Pump | None:
    """A text on which each further period costs more steps than the one before; None where `most` texts are none."""
    for pump in pumps(pattern, most):
        for method in methods:
            # What is bounded may still be filling up on the short texts.
            if all(_bends(pattern, pump, method, periods) for periods in (PERIODS, LONGER)):
                return pump
    return None


def _bends(pattern: re.Pattern[str], pump: Pump, method: Method, periods: tuple[int, int, int]) -> bool:
    first, second, third = (steps(pattern, pump.text(times), method) for times in periods)
    # One step a period for each period before it is n * n / 2; fewer may be a bounded repeat that ends elsewhere.
    return third >= MOST_STEPS or third - second > second - first + periods[0] ** 2 / 2


@pytest.mark.parametrize("most", [40, pytest.param(MOST, marks=pytest.mark.rounds)])
def test_a_pattern_takes_linear_time(most: int) -> None:
    """X3.1: each of the package's, used as it is used. One test, since to find them is a third of the work."""
    costly = [
        f"{each.place}: {each.pattern.pattern}"
        for each in written_patterns()[0]
        if each.place.rpartition(":")[0] not in BOUNDED
        if superlinear(each.pattern, tuple(each.methods), most) is not None
    ]
    assert not costly


def test_patterns_are_found_in_every_part() -> None:
    """X3.1: else the test above would have nothing to look at."""
    assert {"domain", "entrypoints", "settings"} < {re.split("[.:]", each.place)[0] for each in written_patterns()[0]}


@pytest.mark.parametrize("place", MADE_AT_RUN_TIME)
def test_a_pattern_that_is_made_at_run_time_takes_linear_time(place: str) -> None:
    """X3.1: as made from what the package gives it."""
    assert MADE_AT_RUN_TIME[place]
    costly = [
        pattern.pattern for pattern, method in MADE_AT_RUN_TIME[place] if superlinear(pattern, (method,)) is not None
    ]
    assert not costly


def test_every_pattern_that_is_made_at_run_time_is_among_these() -> None:
    """X3.1: whoever adds one says here what it may look like."""
    assert sorted({each.partition(":")[0] for each in written_patterns()[1]}) == sorted(MADE_AT_RUN_TIME)


def test_every_module_that_is_let_off_still_has_a_pattern() -> None:
    """X3.1: an exception that nobody needs is taken away."""
    assert BOUNDED.keys() <= {each.place.rpartition(":")[0] for each in written_patterns()[0]}


@pytest.mark.parametrize("name", OFFENDERS)
def test_a_pattern_that_takes_more_than_linear_time_is_found(name: str) -> None:
    """X3.1: each of these, put back into the package, fails the test above."""
    assert superlinear(re.compile(OFFENDERS[name])) is not None


@pytest.mark.parametrize("name", HARMLESS)
def test_a_pattern_that_takes_linear_time_is_left_alone(name: str) -> None:
    """X3.1: unbounded repeats are no fault by themselves."""
    assert superlinear(re.compile(HARMLESS[name])) is None


@pytest.mark.parametrize(
    "text", ["", "aaab,a;", "x: 12 3,\n", "password=a1a1a1a1a1", 'aab@x <!-- a --> "q"x # b', "## A\nb"]
)
def test_the_interpreter_matches_where_re_does(text: str) -> None:
    """X3.1: its steps mean something, since it finds the same matches; but for bounded repeats, which it shrinks."""
    for pattern in [re.compile(each) for each in (*OFFENDERS.values(), *HARMLESS.values())]:
        if not any(sign in pattern.pattern for sign in ("{20}", "{10,}", "{0,300}", "{0,3}", "{1,6}")):
            assert ends(pattern, text) == [match.span() for match in pattern.finditer(text)], pattern.pattern


def test_steps_count_what_a_run_takes_and_gives_back() -> None:
    """X3.1: a run of n characters, and every way back."""
    tenfold = steps(re.compile(r"a+b"), "a" * 100) / steps(re.compile(r"a+b"), "a" * 10)
    assert tenfold > 50
    assert steps(re.compile(r"a+"), "a" * 100) < 3 * 100
