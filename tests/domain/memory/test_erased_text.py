"""What was erased is recognised when it comes again, whole or quoted, and by nobody without the key."""

import sys
from dataclasses import replace
from types import FrameType

import pytest

from mcp_memory.domain.memory.erased_text import (
    WHOLE,
    ErasedMarks,
    details_without,
    finding,
    is_all_erased,
    marks_of,
    pieces_of,
    quoting,
    whole_digests,
    words_of,
)
from tests.contract.conftest import BLANK

SAID = "The user lives at 12 Plum Lane in Oakham, and nobody but the courier may know."
KEY = b"k" * 32
TWICE = "[erased] Then we went on, and much was done. [erased] So it stood."


def marks(text: str, key: bytes = KEY) -> ErasedMarks:
    digests: dict[int, set[bytes]] = {}
    for width, digest in marks_of(pieces_of(text), key):
        digests.setdefault(width, set()).add(digest)
    return ErasedMarks(key=key, digests={width: dict.fromkeys(each, 0.0) for width, each in digests.items()})


@pytest.mark.parametrize(
    ("quoting_text", "rest"),
    [
        (SAID, "[erased]"),
        (SAID.upper().replace(",", ""), "[erased]"),
        (f"Done. The user said: {SAID} Then we went on.", "Done. [erased] Then we went on."),
        (f"First: {SAID} Then we went on, and much was done. Again: {SAID} So it stood.", TWICE),
        ("Goal\n- the user lives at 12 plum lane in Oakham\n- ship", "Goal\n[erased]\n- ship"),
        ("The user lives at home.", "The user lives at home."),
        ("", ""),
    ],
)
def test_sentences_that_quote_it_go(quoting_text: str, rest: str) -> None:
    """G2.1: by words in a row; case and punctuation do not count."""
    assert marks(SAID).without(quoting_text) == rest
    assert quoting(pieces_of(SAID))(quoting_text) == rest
    assert bool(finding(pieces_of(SAID))(quoting_text)) == (rest != quoting_text)


def test_another_memory_s_digests_recognise_nothing() -> None:
    """G2.1: whoever has the digests of one memory cannot compare them with another's."""
    assert replace(marks(SAID), key=b"other").without(SAID) == SAID


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("Yes, do it.", 0), ("Never print the vault word.", 1), (SAID, 2)]
)
def test_a_text_is_divided_into_pieces(text: str, count: int) -> None:
    """A short text is one piece, a very short one none, since anybody says it."""
    assert len(pieces_of(text)) == count


def test_scripts_without_spaces_have_longer_pieces() -> None:
    """A character there is less than a word."""
    said = "用户的家庭住址是橡树镇梅子巷十二号,只有快递员可以知道。"
    assert {len(piece) for piece in pieces_of(said)} == {16}
    assert is_all_erased(marks(said).without(said))
    assert words_of("橡树 Oak") == ("橡", "树", "oak")


def test_a_line_without_an_end_loses_what_is_near() -> None:
    """One line of a tool's output may be a whole file."""
    around = "lorem " * 200
    rest = marks(SAID).without(f"{around}{SAID[:-1]} {around}")
    assert "Plum" not in rest
    assert len(rest) > 2 * len(around) - 400


def test_details_lose_it_but_for_those_that_nobody_wrote() -> None:
    """An id may look like words."""
    details = {"message_id": SAID, "reasons": [SAID, "It is cheap."]}
    assert details_without(details, marks(SAID).without) == {
        "message_id": SAID,
        "reasons": ["[erased]", "It is cheap."],
    }


def test_marks_that_are_none_are_false() -> None:
    assert not ErasedMarks()
    assert ErasedMarks().without(SAID) == SAID
    assert not ErasedMarks().has("fact", "s", SAID)


def test_an_id_that_each_conversation_counts_is_erased_in_its_own_alone() -> None:
    """P2.1: "m3" of another session is another message; a transcript's line is the same one in a fork."""
    line = "0b9c1f64-2d3a-4e5f-8a71-c60f9d2e47b8"
    said = [replace(BLANK, text=SAID, kind="message", session_id="a", details={"message_id": i}) for i in ("m3", line)]
    erased = frozenset(each for record in said for each in whole_digests(record, KEY))
    found = ErasedMarks(key=KEY, digests={WHOLE: dict.fromkeys(erased, 0.0)})
    assert [found.has("message", "a", "Yes.", i) for i in ("m3", "m4", line)] == [True, False, True]
    assert [found.has("message", "b", "Yes.", i) for i in ("m3", "m4", line)] == [False, False, True]
    assert [width for width, _ in found.met_in("message", "a", "Yes.", {"message_id": "m3"})] == [WHOLE]
    assert not [*found.met_in("message", "b", "Yes.", {"message_id": "m3"})]


def test_a_quotation_over_two_sentences_takes_both() -> None:
    piece = words_of("at the gate. Nobody knows it but Bob")
    assert quoting({piece})("He waits at the gate. Nobody knows it but Bob. Go on.") == "[erased] Go on."


@pytest.mark.uncounted
def test_it_takes_linear_time() -> None:
    """S3: twice the text takes twice the calls, however many quotations."""
    held = marks(SAID)

    def calls(times: int) -> int:
        made = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            assert is_all_erased(held.without(f"{SAID} " * times))
        finally:
            sys.setprofile(None)
        return made

    assert 500 < calls(200) < calls(400) < 2.1 * calls(200)
