"""What a summary's body quotes of the user where no rule can read the language."""

from types import SimpleNamespace
from typing import cast

import pytest

from mcp_memory.domain.model.session_log import Span
from mcp_memory.domain.sessions.sentence_sections import unread
from mcp_memory.domain.sessions.summary import parsed, without_beginnings
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


ACTED = ("Read", '{"file_path": "a.py"} => x = 1')
ASKED = "como se trunca un valor float a los dos primeros decimales del porcentaje"


@pytest.mark.parametrize(
    "asked",
    [
        "perfecto, y si ya tiene genero y numero, cuales comparo con cada combinacion?",
        "entiendo que esto daria el porcentaje, no?:\n\n- Masculino: 15.86 %\n\nla suma no da cien",
        'esto estaria bien?\n\n{\n    ("Masc", "Sing"): [],\n}',
        "¿Y en la otra celda? La de los comentarios.",
        "これで合っていますか？",
        ASKED,
        f"claude, {ASKED}",
    ],
)
def test_what_only_asks_is_not_quoted_where_no_rule_reads_the_language(asked: str) -> None:
    """P1.2: an answered question is over; where the user says nothing else, it tells what the session is of."""
    assert quoted(("user", FIRST), ACTED, ("user", asked), ACTED, ("user", GO_ON), target=500) == (FIRST, GO_ON)
    assert quoted(("user", ASKED), ACTED, target=500) == (ASKED,)


def test_what_the_agent_answered_without_a_tool_is_not_quoted_where_no_rule_reads_the_language() -> None:
    """P1.2: nothing was to be done. Messages in a row are answered together, and a rule holds nevertheless."""
    told, rule = "cuentame sobre los tipos que existen en la libreria", "nunca toques la base de datos de produccion"
    said = [("user", FIRST), ("user", TURNED), ACTED, ("user", told), ("assistant", "Hay tres."), ("user", rule)]
    assert quoted(*said, ("assistant", "Bien."), ("user", GO_ON), ACTED, target=500) == (FIRST, TURNED, rule, GO_ON)


TYPED = "instead of the warning print something like\n1. Ignore the warning.\n"


def test_what_was_sent_before_it_was_finished_is_quoted_once() -> None:
    """P1.2: the later one counts, and so does one that stays in the log; a repetition is quoted at its last place."""
    whole = f"{TYPED}2. Never ask again."
    assert quoted(("user", TYPED), EDITED, ("user", whole), EDITED, target=500, share=500) == (whole,)
    again = " ".join(whole.split("\n"))
    assert quoted(("user", whole), EDITED, ("user", again), EDITED, target=500, share=500) == (again,)
    assert without_beginnings((TYPED, "no"), (whole, "nothing of it")) == ("no",)


@pytest.mark.parametrize(
    ("pasted", "is_quoted"),
    [
        ("the deposit of 5 fails\nVault\n2SuRKJ\nProgram\nCQW3Tn\nMint\n", False),
        ("can somebody repair it\n\nTraceback (most recent call last)\nCell In[31], line 16\nTypeError: 2 of 3", False),
        ("the line of the page is\nTypeError: 2 of 3", True),
        ("green diff is #b5bd68\nred diff is #283228\naccent #8abeb7\nerror cc6666\nuser bg is 343541", True),
        ("1. colours as of 2024\n2. fonts\n3. icons\n4. sizes\n5. names\n6. rest", True),
    ],
)
def test_a_pasted_error_or_page_is_no_wish(pasted: str, is_quoted: bool) -> None:
    """P1.2: what it shows is repaired soon; a list of the user's own is one."""
    assert quoted(("user", pasted), EDITED, target=500, share=500) == ((pasted,) if is_quoted else ())


def test_no_section_lists_values_that_the_author_of_the_summary_does_not() -> None:
    """P1.2: on foreign sessions two of eighteen such lines were of use; the values stand in the log and in recall."""
    entries = session(
        ("user", "Set the port to 5433 and retries=3."), ("cancel", '{"id": "B7"} => ok'),
        ("Edit", '{"file_path": "a.toml", "new": "port = 5433\\nretries=3"} => ok'), ("assistant", "port = 5433 now"),
    )  # fmt: skip
    span = Span(
        entries=entries, anchor=None, max_tokens=500, most_tokens=900, ledger_tokens=500, target_tokens=500,
        quote_tokens=500,
    )  # fmt: skip
    assert not parsed(body_over(span, entries, parsed(""), COUNTER)).of("values")
    own = parsed("## Exact values\n- workers = 7")
    assert parsed(body_over(span, entries, own, COUNTER)).of("values") == ("workers = 7",)
