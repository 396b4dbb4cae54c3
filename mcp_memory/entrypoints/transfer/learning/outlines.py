"""Reads a document's headings, and the paragraphs and items of a list below each. Markdown and reStructuredText.

Only the forms count, never a word: what is no heading, item or paragraph, such as code and tables, is left out.
"""

import re
from dataclasses import dataclass, field
from typing import Final

# "## Removed", "### ⚠ BREAKING CHANGES ##"
_MARKED = re.compile(r"#{1,6}[ \t]+(\S.*)")
# "**Deprecations**:", "__Removed__", "**Removed:**"
_BOLD = re.compile(r"(?:\*\*|__)([^*_]{2,100}?):?(?:\*\*|__):?")
# "-------------" below a title
_RULE = re.compile(r"([=\-~^\"'+*#.`:_])\1{2,}")
# "- ", "* ", "1. "
_ITEM = re.compile(r"[ \t]*(?:([-*+•])|\d{1,3}[.)])[ \t]+(\S.*)")
_CODE_INDENT: Final = 6
"""Columns behind an item's sign from which a paragraph inside it is code: two for the sign, four for code."""
_STOPPED = re.compile(r"([.!?:]);(?= )")  # between a sentence's end and what the item tells next
_FENCE = re.compile(r"[ \t]{0,12}(?:```|~~~)")
_UNDERLINES: Final = "=-"
"""The signs that underline a heading in Markdown; in reStructuredText it is any sign."""
# '[text](target "title")', "[text][name]"
_LINK = re.compile(r"\[([^\[\]]{1,300})\](?:\([^()]{0,500}\)|\[[^\[\]]{0,100}\])")
_IMAGE = re.compile(r"!\[[^\[\]]{0,300}\]\([^()]{0,500}\)")  # "![alt](target)"
# "[1.2.0]: https://…", ".. _target:", "<!-- a remark", "| a table"
_NO_PROSE = re.compile(r"\[[^\[\]]+\]:\s|\.\. |<!--|\|")
# ":ref:`words <target>`", ":issue:`123`", "`words <https://…>`__"
_ROLE = re.compile(r":([\w-]{1,30}):`([^`<>]{1,200}?)\s?(?:<[^<>`]{0,300}>)?`")
_RST_LINK = re.compile(r"`([^`<>]{1,200}?)\s?<[^<>`\s]{1,300}>`__?")
_NUMBERED: Final = frozenset({"issue", "pr", "pull", "gh", "bug"})


@dataclass(slots=True)
class Outlined:
    """A heading with its paragraphs and items of lists, in their order; its title is "" before the first heading.

    Items inside an item are part of it.
    """

    title: str
    told: list[str] = field(default_factory=list[str])


def outline(text: str) -> list[Outlined]:
    """Return the headings of a document in order."""
    lines = text.split("\n")
    reader = _Reader(is_markdown=any(map(_MARKED.fullmatch, lines)))
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        reader.read(line, following)
    return reader.ended()


def _plain(text: str) -> str:
    """Return a line of prose without images, the targets of links and the marks of roles; code keeps its marks."""
    text = _ROLE.sub(_role, text)
    text = _RST_LINK.sub(r"\1", text)
    text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    return " ".join(text.replace("``", "`").split())


def _role(match: re.Match[str]) -> str:
    return f"#{match[2]}" if match[1] in _NUMBERED else match[2]


class _Reader:
    """Reads line by line."""

    def __init__(self, *, is_markdown: bool) -> None:
        self._is_markdown = is_markdown
        self._parts = [Outlined("")]
        self._paragraph: list[str] = []
        self._item: list[str] = []
        """The text of the item that is open, and of the items inside, as far as it is read."""
        self._indent = 0
        """The indent of the open item."""
        self._sign_indent = 0
        """The indent of the newest item, which may be inside the open one."""
        self._is_behind_blank = False
        self._is_code = False
        self._is_rule_due = False

    def ended(self) -> list[Outlined]:
        self._end()
        return self._parts

    def read(self, line: str, following: str) -> None:
        is_rule = self._is_rule_due or (
            not self._is_markdown and _RULE.fullmatch(line.rstrip()) and not self._paragraph
        )
        self._is_rule_due = False
        if is_rule:
            return
        if _FENCE.match(line):
            self._is_code = not self._is_code
            self._end()
        elif self._is_code:
            return
        elif (heading := self._heading(line, following)) is not None:
            self._end()
            self._parts.append(Outlined(heading))
        elif not line.strip():
            self._end_paragraph()
            self._is_behind_blank = True
        else:
            self._read_prose(line)
            self._is_behind_blank = False

    def _heading(self, line: str, following: str) -> str | None:
        """Return the title of a line that is a heading: "" for a picture alone, None for another line."""
        said = line.strip()
        if marked := _MARKED.fullmatch(line.rstrip()):
            title, _, closing = marked[1].rpartition(" ")
            return _plain(title if title and not closing.strip("#") else marked[1])
        rule = _RULE.fullmatch(following.rstrip())
        if rule and self._is_markdown and rule[1] not in _UNDERLINES:
            rule = None
        item = _ITEM.match(line)
        is_item = item and (item[1] or self._is_markdown)  # "1. Use queues" may be a title in reStructuredText.
        if rule and said and not line[0].isspace() and not is_item and len(rule[0]) >= len(said) - 2:
            self._is_rule_due = True
            return _plain(said)
        bold = _BOLD.fullmatch(said)
        return bold[1].strip() if bold and not line[0].isspace() else None

    def _read_prose(self, line: str) -> None:
        indent = len(line) - len(line.lstrip())
        item = _ITEM.fullmatch(line.rstrip())
        if item and not (self._paragraph and not self._is_behind_blank and not self._item):
            self._sign_indent = indent
            if not self._item or indent <= self._indent or indent < 2:
                self._end()
                self._item, self._indent = [item[2]], indent
            else:
                self._item.append(item[2])
        elif self._item and not self._is_behind_blank:
            self._item[-1] += f" {line.strip()}"
        elif self._item and indent > self._indent and not self._is_literal(self._item[-1], indent, line):
            self._item.append(line.strip())
        elif _NO_PROSE.match(line.strip()) or indent >= 4:
            self._end()
        else:
            if self._item:
                self._end()
            self._paragraph.append(line.lstrip(" \t>").rstrip())

    def _is_literal(self, before: str, indent: int, line: str) -> bool:
        """Return True for the first line of what is no further paragraph of an item, such as code."""
        is_code = before.endswith("::") or indent >= self._sign_indent + _CODE_INDENT
        return is_code or _NO_PROSE.match(line.strip()) is not None

    def _end_paragraph(self) -> None:
        if self._paragraph:
            self._parts[-1].told.append(_plain(" ".join(self._paragraph)))
            self._paragraph = []

    def _end(self) -> None:
        self._end_paragraph()
        if self._item:
            self._parts[-1].told.append(_STOPPED.sub(r"\1", _plain("; ".join(self._item))))
            self._item = []
