"""Entries and logs with what matters to the test and harmless rest, and random logs for what must always hold."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.domain.model.session_log import CompactionOptions, Entry, SessionLog, in_order

NOON = 1_795_176_000.0
ROLE_OF = {"message": "assistant", "tool_call": "assistant", "tool_result": "tool"}


def quarter(text: str) -> int:
    """Tokens, roughly: a quarter of the characters, rounded up."""
    return (len(text) + 3) // 4


def an_entry(number: int, text: str, **fields: Any) -> Entry:
    """An original; the number is its place in the session."""
    entry_id = make_id(RECORD, number)
    tokens = quarter(text)
    harmless: dict[str, Any] = {
        "id": entry_id,
        "kind": "message",
        "role": ROLE_OF[fields.get("kind", "message")],
        "text": text,
        "tokens": tokens,
        "at": NOON + 60.0 * number,
        "covers": (entry_id,),
        "original_tokens": tokens,
        "summary": text[:120],
        "micro": text[:40],
    }
    return Entry(**{**harmless, **fields})


def a_log(*said: tuple[str, str] | tuple[str, str, Any]) -> SessionLog:
    """A log of (who, text), or (who, text, other fields): who is a role, "call" or "result"."""
    kinds: dict[str, dict[str, Any]] = {"call": {"kind": "tool_call"}, "result": {"kind": "tool_result"}}
    entries: list[Entry] = []
    for number, (who, text, *more) in enumerate(said, start=1):
        fields: dict[str, Any] = {**kinds.get(who, {"role": who}), **(more[0] if more else {})}
        entries.append(an_entry(number, text, **fields))
    return in_order(entries)


@pytest.fixture
def make_entry() -> Callable[..., Entry]:
    return an_entry


@pytest.fixture
def make_log() -> Callable[..., SessionLog]:
    return a_log


PHRASES = (
    "Fix the retry in src/client.py, port 5433. ",
    "请修复 src/client.py 中的重试，端口 5433。",
    "テストを実行してください。",
    "Prüfe bitte die Größe: 45 MB.\n",
    "E   AssertionError: expected 3, got 4\n",
    '{"path": "src/app.py", "limit": 20} ',
    "> quoted\n[GOAL BATCH x] [CONTEXT SUMMARY x] → a\n\nFailed: b\n",
    "x",
    "🙂\u2028\x00\t",
    "",
)
CALL_IDS = ("a", "b", None)
"""Used again and again; most calls have one of their own."""


WHATS = (*("user",) * 8, *("assistant",) * 6, *("calls",) * 8, "result", "system")
TIMES = (0, 1, 1, 2, 5, 20, 60)
ANSWERED = (3, 3, 3, 3, 1, 0)


def _said(step: int, number: int) -> list[dict[str, Any]]:
    """What happens next in a random session, as fields of entries; all of it told by the digits of a number."""
    rest = number

    def one_of(choices: Sequence[Any]) -> Any:
        nonlocal rest
        rest, digit = divmod(rest, len(choices))
        return choices[digit]

    what, text = one_of(WHATS), one_of(PHRASES) * one_of(TIMES)
    one: dict[str, Any] = {"text": text, "pinned": one_of(range(40)) == 1}
    if what == "result":
        return [one | {"kind": "tool_result", "call_id": one_of(CALL_IDS), "tool": "read"}]
    if what != "calls":
        return [one | {"role": what}]
    names = [one_of((*CALL_IDS, *[f"c{step}.{part}"] * 12)) for part in range(1 + one_of(range(3)))]
    calls = [
        {"kind": "tool_call", "text": f'{{"path": "src/{name}.py"}}', "tool": "read", "call_id": name} for name in names
    ]
    # Not all are answered, and the last call first.
    answer = one | {"kind": "tool_result", "tool": "read", "failed": one_of((False, True))}
    return [*calls, *reversed([answer | {"call_id": name} for name in names[: one_of(ANSWERED)]])]


def _log_of(steps: Sequence[int]) -> SessionLog:
    said = [fields for step, number in enumerate(steps) for fields in _said(step, number)]
    return in_order(an_entry(number, **fields) for number, fields in enumerate(said, start=1))


def random_logs() -> st.SearchStrategy[SessionLog]:
    """Sessions of any shape: any order, languages and sizes; parallel, unanswered, orphaned and re-used calls; pins."""
    steps = st.integers(0, 2**48)
    few, many = st.lists(steps, max_size=20), st.lists(steps, min_size=40, max_size=70)
    return (few | many | many).map(_log_of)


random_options: st.SearchStrategy[CompactionOptions] = st.builds(
    CompactionOptions,
    window=st.sampled_from((300, 1_000, 4_000)),
    old_turns=st.integers(0, 4),
    threshold=st.sampled_from((0.0, 0.5, 0.8)),
    target=st.sampled_from((0.1, 0.5)),
    least_output=st.sampled_from((10, 100)),
    fold_material=st.booleans(),
    summary_tokens=st.sampled_from((60, 400)),
)
