"""Draws the Markdown of stored texts, and marks words in them: no HTML of theirs, links by http alone, no pictures."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from mcp_memory.domain.text.passages import inflections_of
from mcp_memory.domain.text.prompt_safety import spelled_out
from mcp_memory.domain.text.words import query_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

MOST_DRAWN: Final = 20_000
"""Characters of a text that is drawn; a longer one is shown as it is stored."""
_LINK: Final = re.compile(r"https?://", re.IGNORECASE)
_IN_A_LINE: Final = re.compile(
    # "`just check`", "**never**", "*always*"; not the stars of "src/**/*.py" or "*.py, *.md"
    r"(?P<code>`[^`\n]{1,400}`)|(?<![\w*/])(?P<stars>\*\*?)(?=\w)(?P<words>[^*\n]{1,400})(?<=[\w.:!?)])(?P=stars)(?![\w*/])"
)
_PLAIN: Final = frozenset({"p", "br", "/p"})
_TAG: Final = re.compile(r"<(/?\w+)")


def drawn(text: str) -> Markup:
    """Return a text's Markdown as HTML; signs that hide or turn text are spelled out first."""
    return Markup(_parser().render(spelled_out(text[:MOST_DRAWN])).strip())


def has_markup(html: Markup) -> bool:
    """Return True where the HTML of `drawn` shows more than paragraphs and line breaks."""
    return not _PLAIN.issuperset(_TAG.findall(html))


def inline(text: str, words: re.Pattern[str] | None = None) -> Markup:
    """Return a line with its code and emphasis drawn, and each match of `words` marked; nothing else is changed."""
    parts: list[str] = []  # Joined as texts, of which each is escaped: to format marked-up ones takes most of a list.
    text, end = text if text.isascii() and text.isprintable() else spelled_out(text), 0
    for found in _IN_A_LINE.finditer(text):
        parts.append(_marked(text[end : found.start()], words))
        tag = "code" if found["code"] else "em" if found["stars"] == "*" else "strong"
        body = found["code"][1:-1] if found["code"] else found["words"]
        parts += [f"<{tag}>", _marked(body, words), f"</{tag}>"]
        end = found.end()
    return Markup("".join([*parts, _marked(text[end:], words)]))


def words_of(query: str) -> re.Pattern[str] | None:
    """Return a pattern for the words of a query in any inflection; None where it has none."""
    terms = query_terms(query)
    return inflections_of(terms) if terms else None


def _marked(text: str, words: re.Pattern[str] | None) -> str:
    """Return the escaped text with the words marked."""
    if words is None:
        return escape(text)
    parts, end = list[str](), 0
    for found in words.finditer(text):
        parts += [escape(text[end : found.start()]), "<mark>", escape(found[0]), "</mark>"]
        end = found.end()
    return "".join([*parts, escape(text[end:])])


@cache
def _parser() -> MarkdownIt:
    """Return the reader of Markdown. Headings become paragraphs, so that a page keeps its own order of headings."""
    from markdown_it import MarkdownIt  # Slow to load, and the first page is warmed.

    made = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
    made.enable(["table", "strikethrough"])
    # What is indented, or stands above dashes, is seldom meant as code or as a heading.
    made.disable(["image", "code", "lheading", "reference", "entity", "html_block", "html_inline"])
    setattr(made, "validateLink", _is_link)  # noqa: B010 - its documented way, which types take for a method
    made.inline.ruler.at("emphasis", _emphasis)
    made.add_render_rule("heading_open", _heading_open)
    made.add_render_rule("heading_close", _heading_close)
    made.add_render_rule("link_open", _link_open)
    return made


def _is_link(url: str) -> bool:
    return _LINK.match(url) is not None


def _emphasis(state: StateInline, silent: bool) -> bool:
    """Leave the stars of paths alone: "src/**/*.py"."""
    from markdown_it.rules_inline import emphasis

    at, end = state.pos, state.pos
    while state.src[end : end + 1] == "*":
        end += 1
    if end == at or "/" not in (state.src[at - 1 : at], state.src[end : end + 1]):
        return emphasis.tokenize(state, silent)
    state.pending += state.src[at:end]
    state.pos = end
    return True


def _heading_open(*_: object) -> str:
    return '<p class="heading">'


def _heading_close(*_: object) -> str:
    return "</p>\n"


def _link_open(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    return renderer.renderToken(tokens, index, options, env)
