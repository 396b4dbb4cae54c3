"""What a summary's body quotes of the user where no rule can read the language."""

from types import SimpleNamespace
from typing import cast

import pytest

from mcp_memory.domain.model.session_log import Span
from mcp_memory.domain.sessions.sentence_sections import unread
from mcp_memory.domain.sessions.summary import parsed
from mcp_memory.ports.text import TokenCounter
from mcp_memory.services.sessions.summarize_span import body_over
from tests.domain.sessions.made_sessions import session

TURNED = "kebalik, dashboard utama harusnya v2, bukan v1"
GO_ON = "ok dah lanjut dulu aja, jangan kelamaaannn"
FIRST = "tolong cek file ini, halamannya kosong terus ketika dibuka"


def quarter(text: str) -> int:
    return len(text) // 4


COUNTER = cast("TokenCounter", SimpleNamespace(count=quarter))


def quoted(*lines: tuple[str, str], target: int = 0, share: int = 0, earlier: str = "") -> tuple[str, ...]:
    """Return what the body quotes; with `earlier`, a summary's body to merge it into."""
    entries = session(*lines)
    anchor = session(("user", f"[CONTEXT SUMMARY x1] 2 messages\n\n{earlier}"))[0] if earlier else None
    span = Span(
        entries=entries, anchor=anchor, max_tokens=500, most_tokens=900, ledger_tokens=0, target_tokens=target,
        quote_tokens=share,
    )  # fmt: skip
    return parsed(body_over(span, entries, parsed(""), COUNTER)).of("instructions")


@pytest.mark.parametrize(
    ("texts", "is_unread"),
    [
        ((FIRST, TURNED), True),
        (("Bitte den Kopf der Seite dunkler, und den Fuß auch; danach weiter mit dem Bericht.",), True),
        (("green diff is #b5bd68", "what is the footer using? it should be dimmer, look into the sources"), False),
        (("kebalik, bukan v1",), False),
        ((), False),
    ],
)
def test_a_language_is_told_by_its_function_words(texts: tuple[str, ...], is_unread: bool) -> None:
    """P1.2: a few words tell none."""
    assert unread(texts) == (frozenset(texts) if is_unread else frozenset())


def test_short_messages_in_another_language_are_quoted_in_their_order() -> None:
    """P1.2: no rule can tell which of them still hold; a long one is quoted only where it is a rule."""
    long = "saya mau ringkasan semua proyek di halaman utama " * 10
    lines = [("user", FIRST), ("assistant", "Baik."), ("user", TURNED), ("user", long), ("user", GO_ON)]
    assert quoted(*lines, target=500) == (FIRST, TURNED, GO_ON)


@pytest.mark.parametrize(("target", "kept"), [(35, (TURNED, GO_ON)), (25, (GO_ON,)), (0, ())])
def test_the_oldest_go_where_not_all_fit(target: int, kept: tuple[str, ...]) -> None:
    """P1.2: also of those that an earlier summary quotes."""
    assert quoted(("user", FIRST), ("user", TURNED), ("user", GO_ON), target=target) == kept
    assert quoted(("user", FIRST), ("user", TURNED), ("user", GO_ON), share=max(target - 10, 0)) == kept
    earlier = f"## User instructions\n> {FIRST}\n\n> {TURNED}"
    assert quoted(("user", GO_ON), target=target, earlier=earlier) == kept


EDITED = ("Edit", '{"file_path": "a.py", "old": "x"} => ok')
SAID = [
    ("user", "The export is a cent short for most of the invoices."), ("assistant", "I look."),
    ("user", "What is it that the totals of May say?"), ("assistant", "42."),
    ("user", "Take null and an empty text for the same thing there."), EDITED,
    ("user", "do whatever is best"), EDITED, ("user", "One commit for each of the fixes, please."), EDITED,
    ("user", "Never push to main."), ("assistant", "Well."),
]  # fmt: skip
WISHES = (SAID[0][1], SAID[4][1], SAID[8][1], SAID[10][1])


@pytest.mark.parametrize(("room", "kept"), [(500, (0, 1, 2, 3)), (35, (0, 2, 3)), (20, (0, 3)), (0, (3,))])
def test_of_english_the_first_wish_and_the_latest_that_were_worked_for_are_quoted(
    room: int, kept: tuple[int, ...]
) -> None:
    """P1.2: while there is room for them; what still holds is quoted in any case."""
    shown = tuple(WISHES[place] for place in kept)
    assert quoted(*SAID, target=room + 11, share=500) == shown
    assert quoted(*SAID, target=500, share=room) == shown


def test_english_wishes_of_an_earlier_summary_go_before_later_ones() -> None:
    """P1.2: the first one of all goes last."""
    earlier = f"## User instructions\n> {WISHES[0]}\n\n> {WISHES[1]}"
    later = [("user", WISHES[2]), EDITED]
    assert quoted(*later, target=500, share=500, earlier=earlier) == WISHES[:3]
    assert quoted(*later, target=500, share=35, earlier=earlier) == (WISHES[0], WISHES[2])
