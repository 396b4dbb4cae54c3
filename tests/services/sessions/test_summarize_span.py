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
    long = "saya mau ringkasan semua proyek di halaman utama " * 8
    lines = [("user", FIRST), ("assistant", "Baik."), ("user", TURNED), ("user", long), ("user", GO_ON)]
    assert quoted(*lines, target=500) == (FIRST, TURNED, GO_ON)


@pytest.mark.parametrize(("target", "kept"), [(35, (TURNED, GO_ON)), (25, (GO_ON,)), (0, ())])
def test_the_oldest_go_where_not_all_fit(target: int, kept: tuple[str, ...]) -> None:
    """P1.2: also of those that an earlier summary quotes."""
    assert quoted(("user", FIRST), ("user", TURNED), ("user", GO_ON), target=target) == kept
    assert quoted(("user", FIRST), ("user", TURNED), ("user", GO_ON), share=max(target - 10, 0)) == kept
    earlier = f"## User instructions\n> {FIRST}\n\n> {TURNED}"
    assert quoted(("user", GO_ON), target=target, earlier=earlier) == kept


def test_of_english_only_what_still_holds_is_quoted() -> None:
    """P1.2: whatever room there is."""
    lines = [("user", "Look at the page and tell me what you see in it, please."), ("user", "Never push to main.")]
    assert quoted(*lines, target=500) == ("Never push to main.",)
    assert quoted(*lines, target=0) == ("Never push to main.",)
