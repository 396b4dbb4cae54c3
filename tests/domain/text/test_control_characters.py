"""Control characters are taken out of texts that come in, whatever wrote them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.memory.redaction import clean_record
from mcp_memory.domain.model.records import Entity, NewRecord
from mcp_memory.domain.text.control_characters import (
    details_without_controls,
    visible,
    whole_characters,
    without_controls,
)

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PIECES = [
    "\x1b",
    "[",
    "]",
    "0;",
    "31m",
    "\x07",
    "\x9b",
    "\x9c",
    "\x1b\\",
    "\r",
    "\n",
    "\t",
    "\x85",
    "\x1c",
    "\x00",
    "a",
    " ",
    "é",
]


@pytest.mark.parametrize(
    ("text", "plain", "cleaned"),
    [
        ("\x1b[31mFAILED\x1b[0m", "FAILED", 2),
        ("\x1b[38;2;255;0;0mred\x1b[m", "red", 2),
        ("\x9b1;31mred", "red", 1),
        ("\x1b]0;a title\x07prompt", "prompt", 1),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link", 2),
        ("\x1bPq#0\x1b\\picture", "picture", 1),
        ("\x1b(Bascii\x1b=", "ascii", 2),
        ("\x1b]0;never ended\nnext line", "]0;never ended\nnext line", 1),
        ("half a sequence \x1b[31", "half a sequence [31", 1),
        ("\x1b\x1b[0m[31m", "[31m", 2),
        ("10%\r20%\r\n", "10%\n20%\n", 1),
        ("one\r\ntwo\r\n", "one\ntwo\n", 0),
        ("a\x0bb\x0cc\x85d", "a\nb\nc\nd", 3),
        ("a\x1fb", "a b", 1),
        ("a\x00b\x08c\x7fd\x9de", "abcde", 4),
        ("tab\tand\nline", "tab\tand\nline", 0),
        ("Grüße, 日本, 👩‍👩‍👧, शक्ति", "Grüße, 日本, 👩‍👩‍👧, शक्ति", 0),
    ],
)
def test_sequences_go_whole_and_other_controls_one_by_one(text: str, plain: str, cleaned: int) -> None:
    """D8.2: lines stay lines, and words stay words."""
    assert without_controls(text) == (plain, cleaned)


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_nothing_is_left_to_clean(text: str) -> None:
    """D8.2: what is cleaned has no control character, also where taking one out brings others together."""
    plain, _ = without_controls(text)
    assert not CONTROL.search(plain)
    assert without_controls(plain) == (plain, 0)


@pytest.mark.uncounted
@pytest.mark.parametrize("unit", ["\x1b", "\x1b[", "\x1b[0", "\x1b]", "\x1b]0;", "\x1b ", "\x9b1;", "\x1bPq"])
def test_no_sequence_is_read_again_and_again(unit: str) -> None:
    """X3.1: so many beginnings without an end would hang here if each were read to the end of the text."""
    assert len(without_controls(unit * (300_000 // len(unit)))[0]) < 300_000


def test_every_field_of_an_item_is_cleaned_before_secrets_are_looked_for() -> None:
    """D8.2: an escape code inside a key would hide it; what the reader took out already counts as well."""
    item = NewRecord(
        text="key is se\x1b[1mcret", details={"na\x00me": ["se\x1b[0mcret"]}, speaker="Bo\x07b", tags=("se\x00cret",),
        entities=(Entity(name="d\x01b"),), cleaned=10,
    )  # fmt: skip
    safe, redacted, cleaned = clean_record(item, lambda text: (text.replace("secret", "[X]"), text.count("secret")))
    assert (safe.text, safe.speaker, safe.tags, safe.entities[0].name) == ("key is [X]", "Bob", ("[X]",), "db")
    assert safe.details == {"name": ["[X]"]}
    assert (redacted, cleaned) == (3, 16)


def test_details_are_counted_names_included() -> None:
    assert details_without_controls({"a\x00": {"b": ["\x1b[0mc", 1]}}) == ({"a": {"b": ["c", 1]}}, 2)


def test_what_a_terminal_is_shown_has_no_control_characters_and_no_half_characters() -> None:
    """S7.1."""
    assert visible("\x1b[31mred\x1b[0m \ud83c end") == "red \N{REPLACEMENT CHARACTER} end"


def test_what_no_encoding_carries_is_replaced_before_it_is_sent() -> None:
    """A folder's name that is not UTF-8, as Python reads it."""
    assert whole_characters("/work/bad\udcff") == "/work/bad\N{REPLACEMENT CHARACTER}"
    assert whole_characters("/work/grün") == "/work/grün"
    assert whole_characters("/work/plain") == "/work/plain"
