"""Counting with the packaged vocabularies, against toktok-rs, which shares no code with tiktoken."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
import toktok
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.encoders.tokens_tiktoken import LONGEST_TOKEN, VOCABULARIES, TiktokenCounter
from tests.tallied import TalliedCounter

COUNTERS = {name: TiktokenCounter(name) for name in ("cl100k_base", "o200k_base")}

independent_counts = cast("Callable[[list[str], str], list[int]]", toktok.batch_count)

TEXTS = [
    "",
    "hello world",
    "Don't stop; it's I'LL and we've.",
    "def f(x):\n    return x ** 2  # done\n\n\n\tend",
    '{"id": 12345, "when": "2024-11-02T10:00:00Z", "ok": true}',
    "Пользователь предпочитает краткие ответы.",
    "用户喜欢简短的回答。",
    "사용자는 매주 금요일에",
    "👩‍👩‍👧 family, 🇵🇹 flag, e\u0301 accent",
    "<|endoftext|> and <|fim_prefix|> are ordinary here <|endofprompt|>",
    "   leading, trailing   \r\n\r\n \t ",
    "https://example.org/a/b?c=d&e=%20f#g",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "x" + " " * 5_000 + "y",
]
WORDS = [
    "the ",
    "return",
    " internationalization",
    "'s",
    "12345",
    "\n\n",
    "    ",
    "\t",
    "==",
    "中文",
    "é",
    "😀",
    ".",
    " a",
]
ANY_TEXT = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(WORDS), max_size=15).map("".join))

each_encoding = pytest.mark.parametrize("encoding", sorted(COUNTERS))


def independent_count(text: str, encoding: str) -> int:
    return independent_counts([text], encoding)[0]


def test_the_packaged_files_are_the_ones_their_checksums_name() -> None:
    for line in (VOCABULARIES / "SHA256SUMS").read_text("utf-8").splitlines():
        checksum, name = line.split()
        assert hashlib.sha256((VOCABULARIES / name).read_bytes()).hexdigest() == checksum


@each_encoding
@pytest.mark.parametrize("text", TEXTS)
def test_a_count_equals_an_independent_counter_s(text: str, encoding: str) -> None:
    """A3.4."""
    assert COUNTERS[encoding].count(text) == independent_count(text, encoding)


@each_encoding
@given(text=ANY_TEXT)
@settings(deadline=None)
def test_any_text_s_count_equals_an_independent_counter_s(encoding: str, text: str) -> None:
    """A3.4."""
    assert COUNTERS[encoding].count(text) == independent_count(text, encoding)


@each_encoding
def test_the_empty_text_has_no_tokens(encoding: str) -> None:
    """B7.2."""
    assert COUNTERS[encoding].count("") == 0


def test_the_name_of_a_special_token_counts_as_ordinary_text() -> None:
    assert COUNTERS["o200k_base"].count("<|endoftext|>") > 1


def test_a_lone_surrogate_counts_as_the_replacement_character() -> None:
    counter = COUNTERS["o200k_base"]
    assert counter.count("a\ud800b") == counter.count("a\ufffdb")
    assert counter.truncate("a\ud800b", 100) == "a\ufffdb"


def test_a_counter_is_named_after_its_encoding_and_counts_as_gpt_4o_by_default() -> None:
    assert TiktokenCounter().name == "o200k_base"
    assert TiktokenCounter("cl100k_base").name == "cl100k_base"


def test_an_unknown_encoding_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'p50k_base'; known ones are cl100k_base, o200k_base"):
        TiktokenCounter("p50k_base")


def test_several_threads_may_count_with_a_counter_that_is_not_loaded_yet() -> None:
    counter = TiktokenCounter("cl100k_base")
    with ThreadPoolExecutor(4) as pool:
        pool.submit(counter.load)
        counts = list(pool.map(counter.count, TEXTS * 5))
    assert counts == [COUNTERS["cl100k_base"].count(text) for text in TEXTS * 5]


@each_encoding
@given(text=ANY_TEXT, max_tokens=st.integers(-1, 30))
@settings(deadline=None)
def test_truncation_keeps_the_longest_prefix_that_fits(encoding: str, text: str, max_tokens: int) -> None:
    counter = COUNTERS[encoding]
    kept = counter.truncate(text, max_tokens)
    assert text.startswith(kept)
    assert counter.count(kept) <= max(max_tokens, 0)
    assert all(counter.count(text[:end]) > max_tokens for end in range(len(kept) + 1, len(text) + 1))


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 3, 4, 5])
def test_truncation_never_ends_inside_a_character(max_tokens: int) -> None:
    kept = COUNTERS["cl100k_base"].truncate("🦜🧵🪡", max_tokens)
    assert "🦜🧵🪡".startswith(kept)


def test_truncation_of_a_long_text_is_as_exact_as_of_a_short_one() -> None:
    counter = COUNTERS["o200k_base"]
    text = "Deploys are frozen from December 18, and the index is rebuilt nightly. " * 400
    kept = counter.truncate(text, 3_000)
    assert counter.count(kept) == 3_000
    assert counter.count(text[: len(kept) + 12]) > 3_000


@each_encoding
@pytest.mark.parametrize("unit", ["a", " ", "\n", "=", "7", "中", " \t", "\u0301", "ab", "word "])
def test_a_very_long_text_without_a_break_is_encoded_once_to_be_counted_and_little_of_it_to_be_cut(
    unit: str, encoding: str
) -> None:
    # Only blanks are another case from a million on, whatever the encoding.
    length = 1_000_001 if unit.isspace() and encoding == "o200k_base" else 100_000
    counter, text = TalliedCounter(encoding), unit * (length // len(unit)) + "x"
    assert counter.count(text) > 500
    assert counter.encoded == len(text)
    counter.encoded = 0
    assert len(counter.truncate(text, 500)) > 300
    assert counter.encoded <= 3 * 500 * LONGEST_TOKEN
