"""Conversations as a client has them, made from a seed, with things in them that are asked for at the end.

Each message is one entry of the session's log: words, a call, or what it gave.
"""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]

PLANTED: Mapping[str, str] = {
    "who": "Ines Ferrari",
    "what file": "billing/rounding.py",
    "which value": "retry_limit = 7",
    "which decision": "amounts are kept in cents",
    "what next": "backfill the invoices of May",
}
"""What a session says once, by the question that it answers."""
_ASKED = (
    f"{PLANTED['who']} from accounting reviews whatever touches the totals, so tell her before you merge.",
    f"The totals are off by a cent, look at {PLANTED['what file']} first.",
    f"Set {PLANTED['which value']} in the client of the tax service, no higher.",
)
_CONCLUDED = (
    f"Decision: {PLANTED['which decision']}, because floats lost one in every thousand invoices.",
    "The rounding happened twice, once per line and once for the sum; it happens once now.",
)
NEXT = f"Next step: {PLANTED['what next']} once the totals are right."
_NOUNS = "invoice receipt refund voucher ledger tariff discount currency account payment".split()
_VERBS = "merge split export import round check cancel archive".split()


def said(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def used(call_id: str, tool: str, arguments: Mapping[str, str], output: str, *, failed: bool = False) -> list[Message]:
    """A call and its result."""
    call = {"type": "tool_use", "id": call_id, "name": tool, "input": dict(arguments)}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": failed}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def text_of(message: Message) -> str:
    """What the log holds of it."""
    content = message["content"]
    if isinstance(content, str):
        return content
    (part,) = content
    return (
        part["content"]
        if part["type"] == "tool_result"
        else json.dumps(part["input"], ensure_ascii=False, separators=(",", ":"))
    )


def code(source: random.Random, lines: int) -> str:
    """Functions that are alike and never the same."""
    return "\n".join(
        f"def {source.choice(_VERBS)}_{source.choice(_NOUNS)}_{source.randrange(10_000)}(total):"
        f" return total * {source.randrange(2, 1_000)}"
        for _ in range(lines)
    )


def edits(turns: int, seed: int = 1) -> list[list[Message]]:
    """Turns that each edit a file, an early few of them saying what is planted, one in the last third what is next."""
    source = random.Random(seed)
    made = [_edit(turn, source) for turn in range(turns)]
    for turn, asked in enumerate(_ASKED, start=1):
        made[turn][0] = said("user", asked)
    for turn, concluded in enumerate(_CONCLUDED, start=2):
        made[turn][-1] = said("assistant", concluded)
    made[turns * 3 // 4][-1] = said("assistant", f"{text_of(made[turns * 3 // 4][-1])} {NEXT}")
    return made


def _edit(turn: int, source: random.Random) -> list[Message]:
    noun, verb = source.choice(_NOUNS), source.choice(_VERBS)
    path = f"billing/{noun}_{turn}.py"
    new = code(source, source.randint(2, 16))
    asked = f"Please let {path} {verb} each {noun} once." if turn % 3 == 0 else "Go on."
    return [
        said("user", asked),
        *used(f"edit_{turn}", "edit", {"path": path, "new": new}, f"Edited {path}:\n{new}"),
        said("assistant", f"{path} now {verb}s each {noun} once; {source.randrange(20, 90)} tests passed."),
    ]


IN_THE_MIDST = "# The grace period of a lapsed permit is 45 days."


def long_file(lines: int, seed: int = 2) -> list[Message]:
    """A turn that reads a file of so many lines, with one in its midst that is unlike the others."""
    source = random.Random(seed)
    rates = [f"rate_{number} = {source.randrange(1_000)}" for number in range(lines - 1)]
    text = "\n".join([*rates[: lines // 2], IN_THE_MIDST, *rates[lines // 2 :]])
    read = used("read_all", "read_file", {"path": "billing/generated.py"}, text)
    return [said("user", "Read billing/generated.py."), *read, said("assistant", "I have read it.")]


ATTEMPTS = 22
ERRORS = ("KeyError: 'vat_id'", "TimeoutError: tax service on port 5433", "AssertionError: 1999 != 2000")


def attempts() -> list[Message]:
    """A turn in which the same tests are run again and again, failing in three ways, until they pass."""
    made = [said("user", "Make the tests of the totals pass.")]
    for number in range(ATTEMPTS - 1):
        output = f"FAILED tests/test_totals.py::test_sum - {ERRORS[number % len(ERRORS)]}\n1 failed, 32 passed"
        made += used(f"run_{number}", "bash", {"command": "pytest tests/test_totals.py"}, output, failed=True)
    made += used("run_last", "bash", {"command": "pytest tests/test_totals.py"}, "33 passed in 2.1 s")
    return [*made, said("assistant", "All 33 pass now.")]


def crowded(seed: int = 3) -> list[Message]:
    """Four turns and a request, all within the end of a log that is kept as it is: everything said is long."""
    source = random.Random(seed)
    made: list[Message] = []
    for turn in range(4):
        made += [
            said("user", f"Request {turn}: {code(source, 20)}"),
            *used(f"make_{turn}", "bash", {"command": f"make part{turn}"}, f"Output {turn}:\n{code(source, 40)}"),
            said("assistant", f"Answer {turn}: {code(source, 20)}"),
        ]
    return [*made, said("user", f"The last request: {code(source, 10)}")]


def large(turns: int, seed: int) -> list[Message]:
    """Turns that each read a file of some 1,500 tokens."""
    source = random.Random(seed)
    return [
        message
        for turn in range(turns)
        for message in (
            said("user", f"What does billing/part_{turn}.py do?"),
            *used(f"read_{turn}", "read_file", {"path": f"billing/part_{turn}.py"}, code(source, 100)),
            said("assistant", f"billing/part_{turn}.py has a hundred functions, the first of session {seed}."),
        )
    ]


def flat(turns: Sequence[Sequence[Message]]) -> list[Message]:
    return [message for turn in turns for message in turn]
