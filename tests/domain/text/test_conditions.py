"""When a standing instruction applies: what the user has to ask about."""

import pytest

from mcp_memory.domain.text.conditions import asked_subject


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Always name the version when I ask about software libraries.", "software libraries"),
        ("From now on, show the SQL as well whenever I ask you for sales figures, and round them.", "sales figures"),
        ("user: Never spoil the ending if I mention a film!", "a film"),
        ("I use Arch.\nPlease answer in metric units every time I'm asking about distances.", "distances"),
        ("Don't suggest stopovers when we talk about flights to Lisbon; I hate them.", "flights to Lisbon"),
    ],
)
def test_a_standing_instruction_says_what_is_asked_about(text: str, subject: str) -> None:
    """R5: the condition, without what is wanted then."""
    assert asked_subject(text) == subject


@pytest.mark.parametrize(
    "text",
    [
        "The staff smiled when I asked about the bill.",
        "I love that you share your day in detail when I ask about it.",
        "Where must I stand when I talk to granny?",
        "Always do that when I ask about it.",
        "If the user requests a facet that times out, always show it.",
        "`Always` is a keyword. It fails when I ask about ports.",
        "The port is 7443.",
        "",
    ],
)
def test_nothing_else_is_one(text: str) -> None:
    """R5: reports, wishes of others, questions."""
    assert asked_subject(text) == ""
