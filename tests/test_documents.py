"""The documents lead on to what is there, and each has a place in the index."""

import re
from pathlib import Path

import pytest

from mcp_memory.bridge import hook
from mcp_memory.domain.model import limits
from mcp_memory.encoders.embed_minilm import DIMENSIONS
from mcp_memory.entrypoints.clients.catalogue import CLIENTS
from mcp_memory.entrypoints.clients.files import MAX_CONFIGURATION_BYTES
from mcp_memory.entrypoints.hooks import events
from mcp_memory.entrypoints.transfer.memory_file import FORMAT
from mcp_memory.settings import Settings
from tools import llms_txt
from tools.build_site import loaded_from_elsewhere

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "plugin").rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")
"""`[settings](settings.md#where-your-data-is-stored)`, `![The page](docs/page.png)`; not `[site](https://example.org)`."""
CODE = re.compile(r"^(```|~~~~).*?^\1|`[^`\n]*`", re.DOTALL | re.MULTILINE)
"""A block between fences, or `code`: a bracket in it is no link."""
LONGEST_DECISION = 320
"""Words: half a page."""
NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
DEFAULTS = {name: field.default for name, field in Settings.model_fields.items()}
SAID = {
    "overview.md": [f"registers the server with {NUMBERS[len(CLIENTS)]} clients"],
    "tutorial.md": [f"{NUMBERS[len(CLIENTS) - 1].capitalize()} other clients work in the same way"],
    "clients.md": [
        f"Files are read up to {MAX_CONFIGURATION_BYTES >> 20} MB",
        f"ends by itself {NUMBERS[int(DEFAULTS['idle_minutes'])]} minutes after",
    ],
    "claude-code.md": [
        f"a skill and {NUMBERS[len([*(ROOT / 'plugin' / 'commands').iterdir()])]} commands",
        f"({sorted(hook.SECONDS.values())[1]:.0f} to {max(hook.SECONDS.values()):.0f} seconds by event",
        f"on Windows after {hook.SECONDS[hook.ENDING]} seconds",
        f"in the background, every {events.FEED_PAUSE_SECONDS:.0f} seconds at most",
        f"steps of maintenance, for {NUMBERS[int(hook.BEHIND_SECONDS)]} seconds at most",
        f"`MCP_MEMORY_HOOK_MAX_TOKENS` ({DEFAULTS['hook_max_tokens']:,})",
        f"`MCP_MEMORY_HOOK_PROMPT_MAX_TOKENS` ({DEFAULTS['hook_prompt_max_tokens']})",
    ],
    "limits.md": [
        f"at most {limits.MAX_TEXT_CHARS:,} characters; a call stores at most {limits.MAX_ITEMS} records",
        f"{4 * DIMENSIONS / 1_000:.1f} kB for each",
    ],
}
"""What pages say in numbers that the code has."""
PARTS = ["Tutorial", "How-to", "Reference", "Explanation"]


def headings(page: Path) -> set[str]:
    """The anchors of a page, as they are made of its headings: "## The eight tools" is `#the-eight-tools`."""
    text = re.sub(r"^(```|~~~~).*?^\1", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


TIGHT_LIST = re.compile(r"^(?![-#|<\s]|\d+\. ).+\n(?:- |\d+\. ).*", re.MULTILINE)
"""A list behind a line of a paragraph, "**Why.**\\n- A backup …": GitHub shows a list, the site one paragraph."""


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


def test_the_site_has_the_pages_of_the_index_by_their_titles_and_in_its_order() -> None:
    """U3.2: and llms.txt is made of both."""
    listed = llms_txt.index()
    assert list(listed) == PARTS
    assert llms_txt.navigation() == {part: list(pages) for part, pages in listed.items()}
    for page, (title, _) in [each for pages in listed.values() for each in pages.items()]:
        assert (DOCS / page).read_text("utf-8").startswith(f"# {title}\n")
    assert llms_txt.PAGE.read_text("utf-8") == llms_txt.llms_txt(), "python -m tools.llms_txt"


def test_a_page_of_the_site_needs_nothing_from_outside_docs_and_reads_as_on_github() -> None:
    """U3.2."""
    outside: list[str] = []
    for page in sorted(DOCS.rglob("*.md")):
        text = CODE.sub("", page.read_text("utf-8"))
        links = [
            target for target, _ in LINK.findall(text) if not (page.parent / target).resolve().is_relative_to(DOCS)
        ]
        outside += [f"{page.name}: {each}" for each in [*links, *TIGHT_LIST.findall(text)]]
    assert not outside
    assert TIGHT_LIST.findall("**Why.**\n- a\n- b\n\n- c\n  d\n- e") == ["**Why.**\n- a"]


def test_what_a_page_of_the_site_would_load_from_elsewhere_is_found() -> None:
    """U3.2: `just site` fails over it; a link that a reader may follow is none."""
    page = """<link rel="canonical" href="https://a.org/"><link rel=stylesheet href=//b.org/c.css><a href="https://d.org">
    <script defer src='https://e.org/f.js'></script><img src="page.png"><pre class="mermaid">
    <style>@import "https://g.org/h.css"; @font-face { src: url(https://i.org/j.woff2) }</style>"""
    assert loaded_from_elsewhere(page) == [
        "//b.org/c.css", "https://e.org/f.js", "mermaid", "https://g.org/h.css", "https://i.org/j.woff2",
    ]  # fmt: skip


def test_each_promise_about_upgrades_is_held_by_a_test() -> None:
    """G1.2."""
    page = (DOCS / "upgrading.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    held = re.findall(r"`(tests/[\w/]+\.py)::(\w+)` \|$", page, re.MULTILINE)
    assert len(held) == len(rows) > 5
    assert [(file, name) for file, name in held if f"def {name}(" not in (ROOT / file).read_text("utf-8")] == []
    assert f"Formats 1 to {FORMAT}," in page


@pytest.mark.parametrize("page", SAID)
def test_numbers_of_a_page_are_those_of_the_code(page: str) -> None:
    """U3.2."""
    text = " ".join((DOCS / page).read_text("utf-8").split())
    assert [said for said in SAID[page] if said not in text] == []


def test_every_decision_fits_on_half_a_page() -> None:
    words = {page.name: len(page.read_text("utf-8").split()) for page in (DOCS / "decisions").glob("0*.md")}
    assert {name: count for name, count in words.items() if count > LONGEST_DECISION} == {}
