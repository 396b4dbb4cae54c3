"""Writes docs/llms.txt, the index of the documentation for agents: `python -m tools.llms_txt`.

Parts, pages and their order are the navigation's (zensical.toml). A page's title and the question that it answers are
those of docs/README.md. tests/test_documents.py compares all of them.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGE = DOCS / "llms.txt"


def navigation() -> dict[str, list[str]]:
    """Return the pages of each part, as they are named below docs/."""
    _, *parts = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]  # behind the index
    return {part: pages for each in parts for part, pages in each.items()}


def index() -> dict[str, dict[str, tuple[str, str]]]:
    """Return the title of each page of a part, and the question that it answers, as docs/README.md lists them."""
    _, *parts = re.split(r"^## (.+)$", (DOCS / "README.md").read_text("utf-8"), flags=re.MULTILINE)
    row = re.compile(r"^\| \[([^\]]*)\]\(([^)]+)\) \| (.*\?) \|$", re.MULTILINE)
    return {
        part: {page: (title, question) for title, page, question in row.findall(text)}
        for part, text in zip(parts[::2], parts[1::2], strict=True)
    }


def llms_txt() -> str:
    """Return the file: the project in a sentence, then a line for each page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = ["# mcp_memory", "", f"> {project['description']}"]
    listed = index()
    for part, pages in navigation().items():
        lines += ["", f"## {part}", ""]
        lines += [f"- [{listed[part][page][0]}]({page}): {listed[part][page][1]}" for page in pages]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(llms_txt(), "utf-8")
