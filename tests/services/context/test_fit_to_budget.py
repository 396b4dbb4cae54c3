"""Fitting a block whose estimates were too low."""

from mcp_memory.domain.context.budget import LEARNT, REST, Form, Item
from mcp_memory.domain.context.items import Measure
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.services.context.fit_to_budget import BlockDraft, compose

COUNTER = TiktokenCounter()
MEASURE = Measure(count_raw=COUNTER.count, truncate_raw=COUNTER.truncate)


def item(name: str, kind: str, share: str) -> Item:
    """An item that costs more than its estimate."""
    text = f"- [{name}] {'The pump hums in the night. ' * 5}"
    form = Form(detail="full", text=text, tokens=COUNTER.count(text) // 2)
    return Item(id=name, kind=kind, source="recent", section="Recent Activity", share=share, score=1.0, forms=(form,))


def test_the_log_gives_way_before_what_was_learnt() -> None:
    """A3.1, F9.1: the block never exceeds its budget, whatever was estimated."""
    items = [item("said", "message", REST), item("done", "event", REST), item("known", "fact", LEARNT)]
    draft = BlockDraft(items=items, omitted=(), budget=130, digest="", strategy="balanced", shares={LEARNT: 0.6})
    block = compose(draft, MEASURE)
    assert [each.id for each in block.report.components] == ["known"]
    assert COUNTER.count(block.text) == block.report.token_count <= 130
