"""Exact values: found in every sort of text, weighed by who said them, and never put in other words."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.ledger import (
    FILES_PER_OUTPUT,
    OF_A_SERIES,
    SEPARATOR,
    VALUES_PER_OUTPUT,
    Ledger,
    fitted,
    ledger_of,
    merged,
    on_one_line,
    values_in,
    without,
)
from mcp_memory.domain.text.exact_values import MAX_EXACT, exact_in, files_hit, is_date, subject_of

SNIPPETS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("exact_snippets.toml").read_text(encoding="utf-8")
)["snippet"]
PLANTED = [(snippet["text"], value) for snippet in SNIPPETS for value in snippet.get("found", [])]


@pytest.fixture
def make_entry() -> Callable[..., Entry]:
    def make(text: str, **fields: Any) -> Entry:
        number = fields.pop("number", 1)
        harmless: dict[str, Any] = {
            "id": f"r{number:06}",
            "kind": "message",
            "role": "user",
            "text": text,
            "tokens": words(text),
            "at": 0.0,
            "covers": (f"r{number:06}",),
            "original_tokens": words(text),
        }
        return Entry(**{**harmless, **fields})

    return make


def words(text: str) -> int:
    return len(text.split())


def found(text: str) -> list[str]:
    return [each.text for each in exact_in(text)]


def test_planted_values_are_found_in_their_own_words() -> None:
    """D6.1: at least 95 % of what is exact in the snippets is found, to the letter."""
    missed = [(value, text) for text, value in PLANTED if not any(value in each for each in found(text))]
    assert len(missed) <= 0.05 * len(PLANTED), missed


@pytest.mark.parametrize("snippet", [snippet for snippet in SNIPPETS if "junk" in snippet])
def test_tallies_progress_stamps_and_line_numbers_are_no_values(snippet: dict[str, Any]) -> None:
    """D6.1: the ledger holds what is worth keeping."""
    assert [each for each in found(snippet["text"]) if any(junk in each for junk in snippet["junk"])] == []


def test_few_things_are_found_that_nobody_planted() -> None:
    """D6.1: the ledger holds what is worth keeping."""
    extra = [
        each
        for snippet in SNIPPETS
        for each in found(snippet["text"])
        if not any(value in each for value in snippet.get("found", []))
    ]
    assert len(extra) <= 0.15 * len(PLANTED), extra


def test_what_is_found_stands_in_the_text_to_the_letter() -> None:
    """D6.1: no value is paraphrased."""
    assert [each for one in SNIPPETS for each in found(one["text"]) if each not in one["text"]] == []


def test_values_that_a_block_lists_are_found_in_it_again() -> None:
    """D6.1: what was kept once stays when blocks become blocks of blocks."""
    values = [each.text for text, _ in PLANTED for each in exact_in(text, names=False)]
    again = {each for value in values for each in found(f"It says {value}; and so on.")}
    kept = [value for value in values if any(value in each for each in again)]
    assert len(kept) >= 0.95 * len(values), sorted(set(values) - set(kept))


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    """D6.1: whatever is found is part of the text, and short."""
    for each in exact_in(text):
        assert each.text in text
        assert len(each.text) <= 2 * MAX_EXACT


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "part",
    ["a", "1", "a=", "a: ", "\n", " ", "`", "1秒", "端口", "/a.b", "12:", " 1", "$ ", "8f3e2ab", "v1.", "a-", "{"],
)
def test_of_a_long_text_of_anything_no_more_is_read_than_of_a_part_of_it(part: str) -> None:
    """D6.1: whatever a tool prints."""
    # Whole parts, so that both texts end alike.
    long, longer = (part * (characters // len(part)) for characters in (30_000, 120_000))
    assert exact_in(long) == exact_in(longer)
    assert values_in(long, 5) == values_in(longer, 5)
    assert files_hit(long) == files_hit(longer)


def test_the_beginning_and_the_end_of_a_long_text_are_read() -> None:
    """D6.1: settings stand at the top, results at the bottom."""
    text = "port = 5433\n" + "and so on and on\n" * 5_000 + "The timeout is 45 s."
    assert values_in(text, 5) == ("timeout is 45 s", "port = 5433")


def test_the_most_telling_values_come_first() -> None:
    """D5.1: a mask has room for a few."""
    text = 'The file notes.md says: on 2026-11-20 the limit is 500 MB, name = "api", commit 8f3e2ab.'
    assert values_in(text, 2) == ("limit is 500 MB", "notes.md")
    assert values_in("Nothing to see here.", 5) == values_in("a-directory/" * 11 + "path.py", 5) == ()


@pytest.mark.parametrize(
    "text",
    [
        "assert x == 3 and f(y) = g[0]",
        "Note: 3 of us agreed: fine",
        "i = 0; https://",
        "result = compute(3) and token = [REDACTED:api-key]",
        "Make the test pass, find the bug and go to the next one.",
        "make it work\ngo on, please\nfind the error",
        "12 of 40, (17), 99 and 3.5",
        "the file 2026, about 12",
        "我有3个问题，还有12个",
        "x" * 200 + "/" + "y" * 200 + ".py",
        "X2026-12-01",
    ],
)
def test_prose_and_code_without_exact_values_hold_none(text: str) -> None:
    """D6.1: a bare number is worthless."""
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("make -j4 all\nOK", ["make -j4 all"]),
        ("It costs $40 and ¥5,000 each.", ["costs $40", "¥5,000"]),
        ("$40 a seat", ["$40"]),
        ("数据 45秒", ["数据 45秒"]),
        ("Raise it to 40: the batch size from 16 to 64", ["batch size from 16 to 64"]),
        ("timeout: 45", ["timeout: 45"]),
        ("締切は12月1日に", ["締切は12月1日"]),
        ("Nan 12, Mar 3 and Sun 4", ["Mar 3"]),
        ("wait for 30 s, for 30", ["for 30 s"]),
        ("per seat: € 40/month", ["per seat: € 40/month"]),
        ("In prod, queue_depth 40 is enough", ["queue_depth 40"]),
        ("debug = on\nverbose: loud", ["debug = on"]),
        ("db_timeout: timeout_ms: 251126", ["db_timeout", "timeout_ms: 251126"]),
        ("Gave: timeout = 30 s", ["timeout = 30 s"]),
        ("server:\n  port: 80\n", ["port: 80"]),
        ("pool::tests::opens and PoolError: the pool is gone", ["PoolError"]),
        ("warning[E0599]: no method", ["E0599"]),
        ("It gave 502 Bad Gateway", ["502 Bad Gateway"]),
        ("see abc.internal:8443 and abc.internal:8443", ["abc.internal:8443", "abc.internal:8443"]),
    ],
)
def test_values_come_with_the_words_that_say_what_they_are(text: str, expected: list[str]) -> None:
    """D6.1: "port 5433", never 5433."""
    assert found(text) == expected


def test_values_of_one_subject_are_known_as_such() -> None:
    assert subject_of("port 5432") == subject_of("Port is 5433") == subject_of("port=5433")
    assert subject_of("2026-12-01") == "2026-12-01"
    assert is_date("due 2026-12-01")
    assert not is_date("port 5433")


def test_a_ledger_tells_files_commands_identifiers_and_values_apart(make_entry: Callable[..., Entry]) -> None:
    """D6.1: in order of first appearance, each once."""
    log = [
        make_entry("Set port=5433 in config/app.toml, as PAY-7 asks."),
        make_entry("Did so; `pytest -q` passes, port=5433 is in config/app.toml.", role="assistant"),
    ]
    ledger = ledger_of(log)
    assert ledger == Ledger(
        files=("config/app.toml",), commands=("pytest -q",), identifiers=("PAY-7",), values=("port=5433",)
    )
    assert on_one_line(ledger) == "port=5433 · config/app.toml · pytest -q · PAY-7"
    assert ledger.weights["port=5433"] > ledger.weights["PAY-7"] > ledger.weights["pytest -q"]


def test_a_value_that_is_set_back_stands_last(make_entry: Callable[..., Entry]) -> None:
    """D6.2: of contradicting values the newest is the last."""
    said = ["Use port 5432.", "No, port 5433.", "Back to port 5432, please."]
    assert ledger_of(make_entry(text) for text in said).values == ("port 5433", "port 5432")


def test_of_a_listing_only_the_telling_is_taken(make_entry: Callable[..., Entry]) -> None:
    """D6.1: a tool that prints a thousand values has not said a thousand things."""
    printed = "\n".join(f"src/part{n}.py\nlimit_{chr(97 + n)} = {n + 20}" for n in range(100))
    ledger = ledger_of([make_entry(printed, kind="tool_result", role="tool")])
    assert len(ledger.files) == FILES_PER_OUTPUT
    assert len(ledger.values) == VALUES_PER_OUTPUT
    assert ledger.commands == ledger.identifiers == ()


def test_the_files_of_few_hits_are_taken(make_entry: Callable[..., Entry]) -> None:
    """D6.1: what a search was for; of many files none tells more."""
    few, many = ("\n".join(f"src/part_{n}.py:12:import os" for n in range(files)) for files in (6, 9))
    assert len(ledger_of([make_entry(text=few, kind="tool_result")]).files) == 6
    assert ledger_of([make_entry(text=many, kind="tool_result")]).files == ()


def test_what_failed_weighs_more_than_what_was_listed(make_entry: Callable[..., Entry]) -> None:
    """E4.1: errors survive."""
    listed = make_entry("limit = 40", kind="tool_result", role="tool", number=1)
    failed = make_entry("quota = 50: exceeded", kind="tool_result", role="tool", failed=True, number=2)
    ledger = ledger_of([listed, failed])
    assert ledger.weights["quota = 50"] > 2 * ledger.weights["limit = 40"]


def test_calls_name_files_and_commands_in_their_arguments(make_entry: Callable[..., Entry]) -> None:
    """D6.1: files and commands to the letter, also of calls; what another agent is asked is no value of this work."""
    arguments = {
        "file_path": "src/Main App.py",
        "command": "pytest -q -k 'not slow'\necho done",
        "edits": [{"new_string": "TIMEOUT_S = 45\n", "count": 3, "all": True, "more": None}],
        "cmd": "x" * 500,
        "path": "",
        "prompt": "Try port=5433.",
    }
    ledger = ledger_of([make_entry(json.dumps(arguments), kind="tool_call", role="assistant")])
    assert ledger == Ledger(
        files=("src/Main App.py",), commands=("pytest -q -k 'not slow'",), values=("TIMEOUT_S = 45",)
    )


@pytest.mark.parametrize("arguments", ["{not json, port=5433", "port=5433", '["port=5433"]', "{" * 9 + "port=5433"])
def test_arguments_that_are_no_json_are_read_as_text(make_entry: Callable[..., Entry], arguments: str) -> None:
    assert ledger_of([make_entry(arguments, kind="tool_call", role="assistant")]).values == ("port=5433",)


def test_deeply_nested_arguments_are_read(make_entry: Callable[..., Entry]) -> None:
    deep = '{"a":' * 100_000 + '"x"' + "}" * 100_000
    assert ledger_of([make_entry(deep, kind="tool_call", role="assistant")]) == Ledger()


def test_blocks_give_back_what_they_list(make_entry: Callable[..., Entry]) -> None:
    """D6.2: nothing exact is lost when a block is summarised with the rest."""
    listed = Ledger(
        files=("src/app.py",), commands=("just check",), identifiers=("PAY-7",), values=("a sum of 3, or 4", "ab=7")
    )
    block = f"[GOAL BATCH x1] 3 turns\n\nThe limit is 40 MB.\nValues: {on_one_line(listed)}\nKept: none"
    ledger = ledger_of([make_entry(block, form="batch")])
    assert ledger.values == (*listed.values, "just check", "limit is 40 MB")
    assert ledger.files == listed.files
    assert ledger.identifiers == listed.identifiers


@pytest.mark.parametrize(
    "block",
    [
        '[TOOL OUTPUT ARCHIVED id=r0002mf tool=Read args={"path":"src/app.py"} tokens=1,190 lines=9'
        " at=2026-11-21T10:02:11Z]\nFirst line: hello",
        "[GOAL BATCH x1a2b3c4d5e] 5 turns, 2026-11-20T10:02Z to 2026-11-20T11:40Z\nIt is in src/app.py.",
        "[CONTEXT SUMMARY x1a2b3c4d5e] 62 messages of 41,200 tokens, until 2026-11-21T10:02:11Z\nIt is in src/app.py.",
        "[SUMMARIZED] Read src/app.py. (open x1a2b3c4d5e)",
        "[DIALOGUE x1a2b3c4d5e] 104 messages, 2026-11-20T10:02Z to 2026-11-20T11:40Z\nann: It is in src/app.py.",
    ],
)
def test_what_a_block_says_of_itself_is_no_value(make_entry: Callable[..., Entry], block: str) -> None:
    """D6.1: the ledger holds what was said, not how it was put away."""
    assert ledger_of([make_entry(block, form="batch", level=1)]) == Ledger(files=("src/app.py",))


def test_ledgers_merge_once_each_and_what_is_old_weighs_less() -> None:
    """D6.2: the newer of two contradicting values is the last; a repeated one weighs more."""
    older = Ledger(files=("a.py", "b.py"), values=("port 1", "limit 5"))
    newer = Ledger(files=("b.py", "c.py"), values=("port 2",))
    both = merged(older, newer)
    assert both == Ledger(files=("a.py", "b.py", "c.py"), values=("port 1", "limit 5", "port 2"))
    assert both.weights["b.py"] > both.weights["c.py"] > both.weights["a.py"]


def test_the_lightest_goes_first_where_not_everything_fits() -> None:
    """D6.2: what came up once, in an output, long ago."""
    ledger = Ledger(values=("old 1", "often 2", "new 3"), weights={"old 1": 0.2, "often 2": 3.0, "new 3": 1.0})
    assert fitted(ledger, 100, words) == ledger
    assert fitted(ledger, 8, words).values == ("often 2", "new 3")
    assert fitted(ledger, 4, words).values == ("often 2",)
    assert fitted(ledger, 3, words) == Ledger()
    assert fitted(Ledger(values=("a 1", "b 2")), 4, words).values == ("b 2",)


@given(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=12), st.integers(0, 60))
@settings(max_examples=50)
def test_a_fitted_ledger_fits_and_keeps_its_order(values: list[str], most: int) -> None:
    kept = fitted(Ledger(files=tuple(values)), most, words).files
    assert sum(words(value) + 2 for value in kept) <= most
    assert list(kept) == [value for value in values if value in kept]


def test_values_on_a_line_are_set_apart() -> None:
    assert on_one_line(Ledger(files=("a.py",), values=("x=1",))) == f"x=1{SEPARATOR}a.py"


def test_of_a_series_a_few_are_enough(make_entry: Callable[..., Entry]) -> None:
    """D6.1: progress that a tool prints does not crowd out what it says once."""
    printed = "\n".join(f"batch {number}: 500 rows" for number in range(1, 30)) + "\npeak memory: 212 MB\ntook 41.7 s"
    entry = make_entry(printed, kind="tool_result", role="tool")
    values = ledger_of([entry]).values
    assert sum("500 rows" in value for value in values) == OF_A_SERIES
    assert any("212 MB" in value for value in values)
    assert sum("500 rows" in value for value in values_in(printed, 10)) <= OF_A_SERIES


def test_a_summary_lists_fifteen_values_and_none_that_it_tells() -> None:
    ledger = Ledger(values=tuple(f"port = {n}" for n in range(5000, 5020)), weights={})
    assert len(fitted(ledger, 10_000, len).values) == 15
    assert "port = 5001" not in without(ledger, "It listens on 5001.").values


@pytest.mark.parametrize(
    "text",
    ["Your name is test.<br />You are 123 years old.", "Similar to this code:```perl", "with `phi = (p-1)*(q-1)`"],
)
def test_marks_of_a_page_a_fence_and_a_formula_are_no_values(text: str) -> None:
    assert [each for each in exact_in(text) if len(each.text) > 3] == []


def test_a_value_in_a_block_of_code_weighs_less_than_one_that_is_said(make_entry: Callable[..., Entry]) -> None:
    """P1.2: nobody says the names in it."""
    said = ledger_of([make_entry("The size is ds.Rows = 512.", role="assistant")])
    shown = ledger_of([make_entry("So:\n\n```python\nds.Rows = 512\n```", role="assistant")])
    assert max(shown.weights.values(), default=0.0) < max(said.weights.values())
