"""The documents lead on to what is there, and each has a place in the index."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "plugin").rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")
"""`[settings](settings.md#where-your-data-is-stored)`, `![The page](docs/page.png)`; not `[site](https://example.org)`."""
CODE = re.compile(r"^(```|~~~~).*?^\1|`[^`\n]*`", re.DOTALL | re.MULTILINE)
"""A block between fences, or `code`: a bracket in it is no link."""
PARTS = ["Tutorial", "How-to", "Reference", "Explanation"]


def headings(page: Path) -> set[str]:
    """The anchors of a page, as they are made of its headings: "## The eight tools" is `#the-eight-tools`."""
    text = re.sub(r"^(```|~~~~).*?^\1", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


def test_every_link_names_a_file_and_every_anchor_a_heading() -> None:
    """U3.2."""
    dead: list[str] = []
    for page in PAGES:
        for target, anchor in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
            file = (page.parent / target).resolve() if target else page
            there = file.exists() and file.is_relative_to(ROOT)
            if not there or (anchor and anchor not in headings(file)):
                dead.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert not dead


def test_the_index_names_every_page_once_in_one_of_four_parts() -> None:
    """U3.2: the decisions as one."""
    index = (DOCS / "README.md").read_text("utf-8")
    assert re.findall(r"^## (.+)$", index, re.MULTILINE) == PARTS
    listed = re.findall(r"^\| \[[^\]]*\]\(([^)]+)\) \| .*\? \|$", index, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert {*listed} - {"decisions/README.md"} == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


def test_links_and_headings_are_found_where_they_are() -> None:
    """U3.2: the two patterns, on a text that has both and code between."""
    text = "See [a](b.md#c), ![d](e.png) and [f](#g).\n```toml\n[h](i)\n```\n`[j](k)` [l](https://m.org)"
    assert LINK.findall(CODE.sub("", text)) == [("b.md", "c"), ("e.png", ""), ("", "g")]
    assert "where-your-data-is-stored" in headings(DOCS / "settings.md")
