"""docs/strategies.md says what the strategies are."""

import re
from pathlib import Path
from typing import get_args

from mcp_memory.domain.context.scoring import hyperbolic_decay, recency
from mcp_memory.domain.model.strategy import Share, Signal
from mcp_memory.strategies import read_strategies
from tools.strategies_table import strategies_table

DOCS = Path(__file__).parents[2] / "docs" / "strategies.md"
HOURS = {"now": 0, "1 h": 1, "3 h": 3, "24 h": 24, "3 days": 72, "7 days": 168, "30 days": 720, "180 days": 4320}


def test_the_table_of_built_in_strategies_is_what_the_generator_prints() -> None:
    """A7.1: `python tools/strategies_table.py` prints it anew."""
    text = DOCS.read_text("utf-8")
    shown = text.partition("<!-- printed by tools/strategies_table.py -->\n")[2].partition("\n<!-- end -->")[0]
    assert shown == strategies_table()


def test_the_decay_table_is_right_and_the_hyperbolic_curve_has_no_half_life() -> None:
    """A7.1, A1.3."""
    text = DOCS.read_text("utf-8")
    for age, hours in HOURS.items():
        [row] = re.findall(rf"^\| {age} \|(.*)\|$", text, re.MULTILINE)
        shown = [float(cell) for cell in row.split("|")]
        right = [hyperbolic_decay(hours, 1), hyperbolic_decay(hours, 24), recency(hours, 24), recency(hours, 720)]
        assert all(abs(a - b) <= max(0.05 * b, 0.001) for a, b in zip(shown, right, strict=True)), age
    for sentence in re.split(r"(?<=[.:|])\s", text):
        assert not ("balanced" in sentence and re.search(r"half-li[fv]e", sentence)), sentence


def test_the_docs_speak_of_everything_one_may_write() -> None:
    """A7.1: position bias, importance, when to choose which, and every field, signal and share."""
    text = DOCS.read_text("utf-8")
    for name in (*read_strategies(None), *get_args(Signal), *get_args(Share)):
        assert f"`{name}`" in text, name
    for heading in ("Which one to choose", "Position", "Importance", "Your own"):
        assert re.search(rf"^## {heading}", text, re.MULTILINE)


def test_the_example_of_the_docs_can_be_read(tmp_path: Path) -> None:
    """A7.1."""
    [example] = re.findall(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    file = tmp_path / "strategies.toml"
    file.write_text(example, "utf-8")
    assert set(read_strategies(file)) - set(read_strategies(None)) == {"review", "newest", "proven"}
