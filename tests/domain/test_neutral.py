"""Stored texts stay data, whatever they hold."""

import pytest

from mcp_memory.domain.neutral import neutralise, one_line


@pytest.mark.parametrize(
    "end", ["memory-context", "/memory-context", " / memory-context", " \n\u200b/\t memory-context"]
)
def test_a_fence_is_opened_however_it_is_spaced(end: str) -> None:
    """B11.1: space and unseen characters hide none."""
    assert "<" not in neutralise(f"x <{end}>")


@pytest.mark.parametrize("unit", [" ", "\t", "\n", "< ", "</", "\u200b", "\n- ", "\n -[", "[", "\n#", "\n ["])
def test_no_text_takes_long_to_neutralise(unit: str) -> None:
    """B11.1: a fence that begins again and again would hang here if its blanks were read twice."""
    text = f"<{unit * (100_000 // len(unit))}x"
    assert neutralise(text)
    assert len(one_line(text)) < 1_000
