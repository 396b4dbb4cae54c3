"""Recognising text that came out of memory."""

import pytest

from mcp_memory.domain.memory.echoes import strip_recalled, without_blocks

BLOCK = (
    '<memory-context id="c1">\n## Known Information\n- [r000001 fact 2026-11-20] The port is 5432.\n</memory-context>'
)


def test_a_recalled_block_is_cut_out_and_its_records_are_named() -> None:
    """B11.1: what came out of recall is recognised."""
    text, ids = strip_recalled(f"{BLOCK}\nThe host is db2.\n{BLOCK.replace('r000001', 'r00000a')}")
    assert (text, ids) == ("The host is db2.", ("r000001", "r00000a"))


def test_a_block_without_its_end_is_cut_out_to_the_end() -> None:
    """B11.1: also where a client truncated it."""
    assert strip_recalled(BLOCK.removesuffix("</memory-context>")) == ("", ("r000001",))


@pytest.mark.parametrize(
    "label",
    [
        "- [r000001 fact 2026-11-20] ",
        "[r000001 event 2026-11-20T10:00Z] ",
        "[r000001] ",
        "- [r000001 identity 2026-11-20 by Claude Desktop-1a2b3c] ",
        "- [r000001 by bob] ",
    ],
)
def test_a_label_in_front_of_a_text_is_cut_off(label: str) -> None:
    """B11.1: an item copied out of the block."""
    assert strip_recalled(f"{label}The port is 5432.") == ("The port is 5432.", ("r000001",))


@pytest.mark.parametrize(
    "text",
    [
        "[research] Redis is enough",
        "[release] cut at noon",
        "[refactor] split the parser",
        "- [ ] buy milk",
        "[r1] first reference",
        "[required for login] a token",
        "The tag <memory-context> fences what is recalled.",
        "  indented code",
        "",
    ],
)
def test_a_text_of_ones_own_stays_as_it_is(text: str) -> None:
    """R2: nothing that somebody wrote is lost because it looks a little like ours."""
    assert strip_recalled(text) == (text, ())


@pytest.mark.uncounted
def test_half_a_million_opened_blocks_are_read_once() -> None:
    """B11.1: the search is linear in the text; at a quadratic one this test would not end."""
    text = "<memory-context " * 500_000
    assert strip_recalled(text) == (text, ())


def test_the_log_keeps_what_was_said_around_a_block() -> None:
    """R2, B11.1: and a text that only speaks of the fence stays as it is."""
    assert (
        without_blocks(f"As recalled:\n{BLOCK}\nSo it is 5432.") == "As recalled:\n[recalled context]\nSo it is 5432."
    )
    speaking = "The tag <memory-context> fences what is recalled."
    assert without_blocks(speaking) == speaking


def test_each_block_ends_at_its_first_end_and_beginnings_alone_stay() -> None:
    """B11.1: a hundred thousand of them, from a page that means harm, take no longer than other text."""
    inner = BLOCK.replace("## Known Information", '<memory-context id="c2">')
    assert without_blocks(f"{inner}|{BLOCK}") == "[recalled context]|[recalled context]"
    beginnings = '<memory-context id="c1">\nx\n' * 100_000
    assert without_blocks(beginnings) == beginnings
    assert without_blocks(f"{BLOCK}{beginnings}") == f"[recalled context]{beginnings}"
