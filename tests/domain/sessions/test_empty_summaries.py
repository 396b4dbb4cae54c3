"""Summaries that say nothing of what they would replace."""

import pytest

from mcp_memory.domain.sessions.empty_summaries import says_nothing

TITLES = ("Goal", "Key facts", "Current state", "Next steps", "Decisions", "Dead ends")
SAID = [
    "Please move the billing service to port 5433. Nothing else was decided, and no files were changed so far.",
    "I have reported the state: amber-relay is set in services/amber/settings.toml, and the old port stays open.",
    "请把服务移动到端口5433。数据库不要动，没有决定。",
]


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
    assert says_nothing(summary(line.strip()), SAID)


@pytest.mark.parametrize("form", ["No {} were stated.", "[{}]", "{}: none", "The {} of the conversation."])
def test_what_only_repeats_the_headings_says_nothing(form: str) -> None:
    assert says_nothing("\n".join(f"## {title}\n- {form.format(title.lower())}" for title in TITLES), SAID)


def test_the_users_words_alone_say_nothing() -> None:
    """They are quoted anyway."""
    assert says_nothing(f"## User instructions\n> {SAID[0]}\n{summary('none')}", SAID)


@pytest.mark.parametrize(
    "line",
    [
        "Move the billing service.",
        "Set in services/amber/settings.toml.",
        "Der Dienst für Rechnungen lauscht jetzt dort, wo der Benutzer ihn haben wollte; amber bleibt daneben offen.",
        "把服务移动到端口5433",
    ],
)
def test_one_line_of_what_happened_is_enough(line: str) -> None:
    """Short, or in another language than the messages."""
    assert not says_nothing(summary(line, "none"), SAID)


def test_a_text_without_sections_is_read_as_lines() -> None:
    assert not says_nothing("The billing service listens on its new port.", SAID)
    assert says_nothing("none\n\n...", SAID)
