"""Removes control characters from incoming texts: terminal escape sequences whole, everything else one by one."""

import re

from mcp_memory.domain.model.records import Details, map_strings

# e.g. "\x00", "\x1b"
_NOT_PLAIN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Any control character but tab and line feed. Nearly every text has none, and this is the fastest test."""
_NO_CHARACTER = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""Half of a surrogate pair, as in JSON's lone `"\\ud83d"` or a byte of another encoding; and noncharacters."""
_STRING_CHARACTERS = 4_000
"""Longest terminal string, such as a window title or a link; a longer run without an end is no sequence."""
_CONTROLS = re.compile(
    r"(?P<line_end>\r\n)"
    # "\x1b[31m" begins red; the same in its one-character form, "\x9b31m".
    r"|\x1b\[[0-?]*+[ -/]*+[@-~]|\x9b[0-9;?]{1,20}[A-Za-z]"
    # "\x1b]8;;https://example.org\x1b\\" begins a link. A string ends in BEL or ST, and holds no line break. What opens
    # one in one character is left alone: in text that was decoded wrongly it is the half of a quotation mark.
    rf"|\x1b[\]PX^_][^\x07\x1b\x9c\n\r]{{0,{_STRING_CHARACTERS}}}+(?:\x07|\x1b\\|\x9c)"
    # "\x1b(B" chooses a character set, "\x1bM" scrolls.
    r"|\x1b[ -/]{1,3}[0-~]|\x1b[0-Z\\^-~]"
    r"|(?P<line>[\x0b\x0c\r\x85])"
    r"|(?P<between>[\x1c-\x1f])"
    r"|[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]"
)


def without_controls(text: str) -> tuple[str, int]:
    """Return the text as plain lines, and the number of removed control characters and escape sequences.

    CR LF becomes LF and is not counted, as nothing is lost by it. A lone CR, VT, FF or NEL becomes a line break, a
    separator (FS to US) a space. All others vanish without a trace, so that a secret they broke up is whole again.
    Takes time linear in the length of the text.
    """
    if not _NOT_PLAIN.search(text):
        return text, 0
    found = 0

    def plain(match: re.Match[str]) -> str:
        nonlocal found
        if match["line_end"]:
            return "\n"
        found += 1
        return "\n" if match["line"] else " " if match["between"] else ""

    return _CONTROLS.sub(plain, text), found


def visible(text: str) -> str:
    """Return the text as a terminal may show it: without control characters, lone surrogates replaced."""
    return whole_characters(without_controls(text)[0])


def whole_characters(text: str) -> str:
    """Return the text with U+FFFD for what no store can keep: each half of a surrogate pair, each noncharacter.

    Python reads the bytes of a file's name that are not UTF-8 as such halves.
    """
    return text if text.isascii() else _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


def details_without_controls(details: Details) -> tuple[Details, int]:
    """Remove control characters from every text inside, names included."""
    total = 0

    def plain(text: str) -> str:
        nonlocal total
        text, found = without_controls(text)
        total += found
        return text

    return map_strings(details, plain), total
