"""Which factor a client's or model's name gets."""

import pytest

from mcp_memory.encoders.token_factors import (
    CLAUDE_NEWEST,
    CLAUDE_UP_TO_4_6,
    FAMILIES,
    GPT_CL100K,
    GPT_O200K,
    UNKNOWN,
    ModelFactor,
    factor_for,
)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("claude-code", CLAUDE_NEWEST),
        ("Claude Code/2.1.0", CLAUDE_NEWEST),
        ("claude-ai", CLAUDE_NEWEST),
        ("claude-desktop", CLAUDE_NEWEST),
        ("claude", CLAUDE_NEWEST),
        ("claude-opus-4-7", CLAUDE_NEWEST),
        ("us.anthropic.claude-opus-4-7-v1:0", CLAUDE_NEWEST),
        ("claude-sonnet-5", CLAUDE_NEWEST),
        ("Claude Opus 4.6", CLAUDE_UP_TO_4_6),
        ("claude-opus-4-20250514", CLAUDE_UP_TO_4_6),
        ("claude-3-5-sonnet-20241022", CLAUDE_UP_TO_4_6),
        ("claude_haiku_4_5", CLAUDE_UP_TO_4_6),
        ("claude-instant-1.2", CLAUDE_UP_TO_4_6),
        ("gpt-5", GPT_O200K),
        ("gpt-4.1-mini", GPT_O200K),
        ("gpt-4o", GPT_O200K),
        ("o3-mini", GPT_O200K),
        ("codex-mcp-client", GPT_O200K),
        ("gpt-4", GPT_CL100K),
        ("gpt-4-turbo", GPT_CL100K),
        ("gpt-3.5-turbo", GPT_CL100K),
        ("cursor-vscode", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_name_finds_its_family(name: str, family: ModelFactor) -> None:
    assert factor_for(name) is family


def test_a_client_of_claude_gets_the_factor_of_the_newest_models() -> None:
    assert factor_for("claude-ai").factor == 1.53


def test_an_unknown_name_is_counted_as_o200k_with_an_error_nobody_knows() -> None:
    assert (factor_for("something else").factor, factor_for("something else").known_error) == (1.0, None)


def test_every_family_names_its_source() -> None:
    """A3.4."""
    assert all(family.source for family in FAMILIES)
