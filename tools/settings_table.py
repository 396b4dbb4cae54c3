"""Writes the table of docs/settings.md from the fields of settings.py and their docstrings.

    python tools/settings_table.py

tests/test_settings.py compares them.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from mcp_memory.settings import Settings

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
BEGIN, END = "<!-- settings: begin -->", "<!-- settings: end -->"
BY_DEFAULT = "; by default "


def settings_table() -> str:
    """A row for each setting, in the order of the code."""
    rows = [_row(name, text) for name, text in _docstrings()]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


def written(page: str) -> str:
    """The page with the table as the code has it now."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{settings_table()}\n{END}{after}"


def _docstrings() -> Iterator[tuple[str, str]]:
    """Yield each field with the string below it, on one line; a field without one is an error."""
    (settings,) = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(settings, ast.ClassDef)
    for field, below in pairwise(settings.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.target.id[0] != "_":
            name = field.target.id
            if not (isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)):
                raise ValueError(f"The setting {name} has no docstring.")
            yield name, " ".join(str(below.value.value).split())


def _row(name: str, text: str) -> str:
    said = text.removesuffix(".")
    default = Settings.model_fields[name].default
    if BY_DEFAULT in said:
        said, shown = said.split(BY_DEFAULT)
    elif isinstance(default, bool):
        shown = str(default).lower()
    elif isinstance(default, int | float):
        shown = f"{default:.12g}"
    else:
        shown = f"`{default}`" if default else "none"
    row = f"| `MCP_MEMORY_{name.upper()}` | {shown} | {said} |"
    return re.sub(r"docs/([\w-]+\.md)", r"[\g<0>](\1)", row)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
