"""What `mcp_memory.client` does without a server."""

from typing import TYPE_CHECKING

import pytest

from mcp_memory.client import compress, count_tokens
from mcp_memory.services.context.assemble import ContextRequest

if TYPE_CHECKING:
    from mcp_memory.app import App

LONG = "The port of the tide table is 5432. " * 40


def test_tokens_are_those_of_contexts(app: "App") -> None:
    """B7.2, A3.4: also of another encoding, and estimated for a model."""
    assert count_tokens("") == 0
    context = app.assemble_context(ContextRequest(), app.caller())
    assert count_tokens(context.text) == context.report.token_count
    assert count_tokens("数据库在东京", encoding="cl100k_base") > count_tokens("数据库在东京")
    assert count_tokens(LONG, model="claude-opus-4-7") > count_tokens(LONG, model="gpt-5") == count_tokens(LONG)


def test_scored_texts_are_cut_until_they_fit() -> None:
    """B7.1."""
    items = [{"text": LONG, "score": 0.2, "id": "r1"}, {"text": LONG, "score": 0.9, "id": "r2"}]
    whole = count_tokens(LONG)
    first, second = compress(items, int(1.5 * whole))
    assert second == items[1]
    assert (first["id"], first["score"]) == ("r1", 0.2)
    assert count_tokens(first["text"]) == pytest.approx(whole / 3, abs=2)
    assert sum(count_tokens(each["text"], model="claude") for each in compress(items, whole, model="claude")) <= whole
