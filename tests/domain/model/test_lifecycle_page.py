"""docs/lifecycle.md says what the code does."""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_memory.domain.model.lifecycle import lifecycle_weight
from mcp_memory.domain.model.records import Record

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "lifecycle.md").read_text("utf-8")
MakeRecord = Callable[..., Record]


def test_the_tables_and_diagrams_are_those_of_the_code() -> None:
    """C8.6: `python tools/lifecycle_page.py` writes them."""
    spec = importlib.util.spec_from_file_location("lifecycle_page", ROOT / "tools" / "lifecycle_page.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.written(PAGE) == PAGE


def test_the_page_gives_the_weights_of_the_code(make_record: MakeRecord) -> None:
    """C8.1: every status, once."""
    rows = re.findall(r"^\| ([a-z, ]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    told = {status: float(weight) for statuses, weight in rows for status in statuses.split(", ")}
    assert told == {status: lifecycle_weight(make_record(status=status)) for status in told}
    assert len(told) == 16


@pytest.mark.parametrize("kind", ["fact", "episode", "procedure", "censor", "decision", "identity"])
def test_every_kind_has_a_diagram(kind: str) -> None:
    """C8.1, C8.2, C8.3, C8.4, C8.5."""
    assert re.search(rf"^### (?:\w+, )*{kind}(?:, \w+)*\n\n```mermaid\nstateDiagram-v2\n", PAGE, re.MULTILINE)
