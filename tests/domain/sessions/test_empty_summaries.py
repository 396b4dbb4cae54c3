"""Summaries that say nothing of what they would replace."""

import pytest

from mcp_memory.domain.sessions.empty_summaries import says_nothing

TITLES = ("Goal", "Key facts", "Current state", "Next steps", "Decisions", "Dead ends")


def summary(*lines: str) -> str:
    """Each line in a section, the last one in all that are left."""
    told = [*lines, *[lines[-1]] * len(TITLES)]
    return "\n".join(f"## {title}\n- {line}" for title, line in zip(TITLES, told, strict=False))


@pytest.mark.parametrize(
    "line",
    """none|n/a|—|…|TBD|null|(none)|[goal]|<insert the goal here>|{{decisions}}|____|Nothing to report|
    There is nothing to report for this section.|No files were changed|To be filled in|placeholder|Unknown|See above|
    Lorem ipsum dolor sit amet|keine|Keine Angaben|Es gibt nichts zu berichten|aucun|Rien à signaler|ninguno|
    Nada que informar|nessuno|nenhum|geen|brak|нет|Ничего|无|没有|暂无|没有决定|なし|特になし|없음|لا يوجد""".split(
        "|"
    ),
)
def test_none_in_any_form_and_language_says_nothing(line: str) -> None:
    """P2.2."""
    assert says_nothing(summary(line.strip()))


@pytest.mark.parametrize("form", ["No {} were stated.", "[{}]", "{}: none", "The {} of the conversation."])
def test_what_only_repeats_the_headings_says_nothing(form: str) -> None:
    assert says_nothing("\n".join(f"## {title}\n- {form.format(title.lower())}" for title in TITLES))


def test_the_users_words_alone_say_nothing() -> None:
    """They are quoted anyway."""
    assert says_nothing(f"## User instructions\n> Move the billing service to port 5433.\n{summary('none')}")


@pytest.mark.parametrize(
    "line",
    [
        "Login repaired.",
        "Move the billing service.",
        "Repair the sign-in, the database stays as it is",
        "No leaks in parser_0.c",
        "Nothing is open for the parser, the lexer, the printer, the linker and the loader",
        "Keine Lecks im Parser, im Lexer, im Drucker und im Binder",
        "Todo comments removed from the code",
        "Unknown error in the checkout",
        "I cannot reach the database since the move",
        "[the parser](docs/parser.md) is finished",
        "Set in services/amber/settings.toml.",
        "Der Dienst für Rechnungen lauscht jetzt dort, wo der Benutzer ihn haben wollte; amber bleibt daneben offen.",
        "把服务移动到端口5433",
    ],
)
def test_one_line_of_what_happened_is_enough(line: str) -> None:
    """Short, in any language, or of what was not found; what is in doubt is taken."""
    assert not says_nothing(summary(line, "none"))


@pytest.mark.parametrize(
    "line",
    [
        "I'm sorry, I cannot summarise this conversation about the login and the cookie of the shop.",
        "Unfortunately, I am unable to see the messages.",
        "I’m sorry, but I can’t provide a summary.",
    ],
)
def test_a_refusal_alone_says_nothing(line: str) -> None:
    """P2.2: beside an exact value or another line it may be what happened."""
    assert says_nothing(line)
    assert says_nothing(summary(line, "none"))
    assert not says_nothing(f"{line}\nThe login works.")
    assert not says_nothing(f"{line} See auth.py.")


def test_a_text_without_sections_is_read_as_lines() -> None:
    assert not says_nothing("The billing service listens on its new port.")
    assert says_nothing("none\n\n...")
