"""What counts as evidence inside a context: whole texts of its own items, and nothing that only looks like them."""

from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.evidence import (
    BARE,
    BUDGETS,
    JSON,
    LINES,
    NAMED,
    WHOLE,
    Held,
    assembled,
    recalled,
    shown_items,
    whole_in,
)
from benchmarks.groups import Clock, Group, Question, packed
from mcp_memory.app import open_app, token_counter
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.settings import load_settings

BLOCK = """<memory-context id="c0123456789">
## Known Information
- [r1 fact 2026-01-02] The port is 8080.
- [r2 fact 2026-01-02] The first line
  and the second.
## Recent Activity
### 2026-01-02 message
- [r3] Ada: Shall we ship on…
</memory-context>"""


@pytest.fixture
def group(tmp_path: Path, embedder: MiniLMEmbedder) -> Generator[Group]:
    """A memory of one short answer, one that is too long to be shown whole, and a hundred other texts."""
    clock = Clock()
    long = " ".join(f"Part {number} of the long report on the harbour says that all is well." for number in range(80))
    items = [NewRecord(text="The harbour opens at seven.", speaker="Ada"), NewRecord(text=long)]
    items += [NewRecord(text=f"The harbour master counted {number} ships.") for number in range(100)]
    settings = load_settings(data_dir=tmp_path, namespace="toy", semantic_store="exact")
    with closing(open_app(settings, clock, embedder)) as app:
        ids = [done.id for done in app.remember(items, app.caller())]
        question = Question(
            dataset="toy",
            category="",
            text="When does the harbour open? What does the long report on it say?",
            asked_at=None,
            gold=frozenset(ids[:2]),
        )
        yield Group(app=app, clock=clock, items=dict(zip(ids, items, strict=True)), questions=[question])


def test_the_items_of_a_block_are_told_by_their_ids_with_all_of_their_lines() -> None:
    assert shown_items(BLOCK) == {
        "r1": "fact 2026-01-02] The port is 8080.",
        "r2": "fact 2026-01-02] The first line\n  and the second.",
        "r3": " Ada: Shall we ship on…",
    }


def test_evidence_is_inside_only_where_its_whole_text_stands_in_its_own_item() -> None:
    wanted = {
        "r1": NewRecord(text="The port is 8080."),
        "r2": NewRecord(text="The first line\n\nand the second."),
        "r3": NewRecord(text="Shall we ship on Monday?"),
        "r4": NewRecord(text="The port is 8080."),
    }
    assert whole_in(shown_items(BLOCK), wanted) == {"r1", "r2"}


def test_a_ranking_is_packed_until_the_first_that_does_not_fit() -> None:
    assert list(packed(["a", "b", "c"], {"a": 5, "b": 6, "c": 1}, 10)) == ["a"]
    assert list(packed(["a", "b", "c"], {"a": 5, "b": 5, "c": 1}, 10)) == ["a", "b"]


def test_a_text_shown_by_its_passages_is_named_and_whole_where_there_is_room(group: Group) -> None:
    held = _by_way(assembled(group, group.questions[0]))
    for budget in BUDGETS:
        assert held[WHOLE, budget].found == (0.5 if budget == BUDGETS[0] else 1.0)
        assert held[NAMED, budget].found == 1.0
        assert 0.0 < held[WHOLE, budget].used <= 1.0


def test_what_recall_would_hold_stays_within_each_budget_and_bare_texts_hold_the_most(group: Group) -> None:
    held = _by_way(recalled(group, group.questions[0], token_counter("o200k_base")))
    for budget in BUDGETS:
        found = [held[way, budget].found for way in (JSON, LINES, BARE)]
        assert found == sorted(found)
        assert all(held[way, budget].used <= 1.0 for way in (JSON, LINES, BARE))
    assert held[BARE, BUDGETS[-1]].found == 1.0


def _by_way(held: Iterable[Held]) -> dict[tuple[str, int], Held]:
    return {(each.way, each.budget): each for each in held}
