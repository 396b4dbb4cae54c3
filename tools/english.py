"""Checks the English of docstrings, messages and pages by the two rules of CONTRIBUTING.md that a program can hold.

    python -m tools.english

Prints each place that breaks one, and ends with 1 where there are any.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parent.parent
OPENINGS = re.compile(
    r"(?:What|Whether|Who|Whoever|Whose|Whatever|How|Which|Whichever|Where|Wherever|When|Why|That|Those|Of)\b"
)
"""Words that open no docstring: "What a filter comes to" hides the noun and the verb of "Turns a filter into ids"."""
REPLACED = tomllib.loads((Path(__file__).with_name("english.toml")).read_text("utf-8"))["replaced"]
"""Turns of phrase that a native engineer stops at, and what is written instead."""
_PHRASE = re.compile("|".join(rf"\b{re.escape(phrase)}\b" for phrase in REPLACED), re.IGNORECASE)


_QUOTED = re.compile(r"(?ms)^[ ]*(?P<fence>```|~~~+).*?^[ ]*(?P=fence)|\| FOLDER/[^|\n]*\|")
"""A fenced block ("```json … ```"), or a cell with a message ("| FOLDER/memory.db is … |")."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring: of modules, classes, functions, and behind a constant or field."""
    for node in ast.walk(tree):
        body = cast("list[ast.stmt] | None", getattr(node, "body", None))
        if not isinstance(body, list):  # a lambda's body is no list
            continue
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        before: ast.AST | None = node if documented else None
        for statement in body:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if is_text and (before is node or isinstance(before, ast.Assign | ast.AnnAssign)):
                text = cast("ast.Constant", cast("ast.Expr", statement).value).value
                if isinstance(text, str):
                    yield statement.lineno, text
            before = statement


def faults() -> Iterator[str]:
    """Yield a line for each fault: the place, the text, and what is wrong with it."""
    for path in sorted((ROOT / "mcp_memory").rglob("*.py")):
        tree, place = ast.parse(path.read_text("utf-8")), path.relative_to(ROOT)
        for line, text in docstrings(tree):
            if OPENINGS.match(text.lstrip()):
                yield f"{place}:{line}: {text.strip().splitlines()[0][:70]!r} opens with no noun and no verb"
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):  # docstrings, messages, helps
                yield from (f"{place}:{node.lineno}: {fault}" for fault in replaced(node.value))
    for path in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]:
        for line, text in enumerate(_without_quotations(path.read_text("utf-8")).splitlines(), 1):
            yield from (f"{path.relative_to(ROOT)}:{line}: {fault}" for fault in replaced(text))


def _without_quotations(page: str) -> str:
    """Blank the fenced blocks of a page, and messages of the program, which stand in tables behind an absolute name."""
    return _QUOTED.sub(lambda found: re.sub(r"[^\n]", "", found[0]), page)


def replaced(text: str) -> Iterator[str]:
    """Yield what to write instead of each turn of phrase in the text that the project does not use."""
    for found in _PHRASE.finditer(text):
        yield f"{found[0]!r}: write {REPLACED[found[0].lower()]!r}"


if __name__ == "__main__":
    found = list(faults())
    print(*found, f"{len(found)} faults" if found else "English: no faults", sep="\n")
    sys.exit(1 if found else 0)
