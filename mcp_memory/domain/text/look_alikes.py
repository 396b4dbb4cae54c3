"""Folds a text to its look in plain lower-case ASCII, so that a disguised word is found by its plain form.

A folded text is only for comparison; the shown text keeps its characters. No library is used: the data of those that
know every look-alike of Unicode is larger than this whole server, and they are hardly maintained. The characters'
own names cover nearly all of the Latin ones, and these tables hold the rest of the letters in our words.
"""

import html
import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path


def _plain_by_shape(table: Mapping[str, str]) -> dict[str, str]:
    return {shape: plain for plain, shapes in table.items() for shape in shapes}


_TABLES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("look_alikes.toml").read_text("utf-8"))
_LETTERS = _plain_by_shape(_TABLES["letters"]) | dict(zip("ηνωгпр", "nvwrnp", strict=True))
_SIGNS = _plain_by_shape(_TABLES["signs"])
_LETTER_NAME = re.compile(
    # "LATIN LETTER SMALL CAPITAL B", "LATIN SMALL LETTER O WITH STROKE", "NEGATIVE SQUARED LATIN CAPITAL LETTER A"
    r"(?:.{0,40}\b)?(?:LATIN|REGIONAL INDICATOR)\b.{0,40}\bLETTER (?:SMALL CAPITAL )?(?:[A-Z-]{2,20} ){0,4}"
    r"(?P<letter>[A-Z])(?: WITH .{0,60})?"
)
# "PARENTHESIZED LATIN SMALL LETTER A"
_ENCLOSED = re.compile(r"PARENTHESIZED LATIN .* LETTER (?P<letter>[A-Z])")
UNSEEN = (
    "\u00ad\u034f\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2065\u206a-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Invisible code points (Default_Ignorable_Code_Point), without those that turn the text and those shown as a blank."""
BLANKS = "\u115f\u1160\u3164\uffa0"
"""Letters that show as a blank."""
_INVISIBLE = re.compile(f"[{UNSEEN}{BLANKS}\u202a-\u202e\u2066-\u2069]")
# "é", a tab
_ODD_SPACE = re.compile(r"[^\x20-\x7e\n]")
_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_DROPPED = frozenset({"Mn", "Me", "Cf", "Cc"})
_ENCODED = re.compile(
    # `<` as "&lt;", "&#60;", "&#x3c;" (the semicolon may be missing), "\u003c", "\u{3c}", "\x3c", "\074", "%3C"
    r"&(?:\#0{0,20}\d{1,7}|\#[xX]0{0,20}[0-9a-fA-F]{1,6}|[lL][tT]|[gG][tT]|[aA][mM][pP]|[nN][bB][sS][pP]|[sS][hH][yY]);?"
    r"|&[A-Za-z][A-Za-z0-9]{1,31};"
    r"|\\u\{(?P<braced>[0-9a-fA-F]{1,6})\}|\\u(?P<four>[0-9a-fA-F]{4})|\\U(?P<eight>0[0-9a-fA-F]{7})"
    r"|\\x(?P<two>[0-9a-fA-F]{2})|\\(?P<octal>[01][0-7]{2})|%(?P<percent>[0-7][0-9a-fA-F])"
)
_ENCODING_SIGNS = ("&", "\\", "%")
_NARROW = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F) if chr(wide) != "＼"} | dict(
    zip(map(ord, "﹟﹠﹔﹪"), map(ord, "#&;%"), strict=True)
)
"""Wide forms of ASCII, as `＆＃６０；`: a reference spelled with them reads as an entity as well.

Not the backslash: a sign that only looks like one escapes nothing.
"""
MOST_LAYERS = 4
"""Layers of entities inside entities to decode; nobody reads through more than a few."""
_KNOWN_AT_MOST = 20_000


class _Folds(dict[int, str]):
    """A map of code points to their folded form, for `str.translate`; each is computed when first met."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _KNOWN_AT_MOST:
            self.clear()
        self[code] = plain = _fold(chr(code))
        return plain


OPENING = "<[(*_"
"""Signs that begin everything in one line that reads as ours, written plainly or encoded."""
_OPENS = re.compile(
    f"[{re.escape(OPENING)}&%\\\\{''.join(re.escape(sign) for sign, plain in _SIGNS.items() if plain in OPENING)}"
    # Their compatibility forms: NFKC identifies each, and one search is a tenth of the work.
    "\u013f\u0140\u0387\u207d\u208d\u226e\u2280\u2329\u2474-\u2487\u3200-\u3243\ufe13-\ufe6b\uff05-\uff3f\uff5f\uff62\uffed"
    "\U0001f110-\U0001f12a\U0001f240-\U0001f248]"
)


def may_open(text: str) -> bool:
    """Return True where the text holds a sign of `OPENING`, in any disguise; rarely true of prose."""
    return _OPENS.search(text) is not None


def folded(text: str) -> str:
    """Fold a text to its look: look-alikes, capitals and compatibility forms, without marks and invisible signs.

    Escapes stay unchanged. Takes time linear in the length of the text.
    """
    return text.lower() if _is_plain(text) else text.translate(_FOLDS)


def _is_plain(text: str) -> bool:
    """Return True where every character folds to one, itself in lower case."""
    return text.isascii() and not _ODD_SPACE.search(text)


def decoded(text: str) -> str:
    """Return the text with entities and escapes decoded, as deep as anybody would read them."""
    text = _narrowed(text)
    for _ in range(MOST_LAYERS):
        if not any(sign in text for sign in _ENCODING_SIGNS) or not _ENCODED.search(text):
            break
        text = _ENCODED.sub(_decode, text)
    return text


def origins(text: str) -> Sequence[tuple[int, int]] | None:
    """Return, for each character of `folded(decoded(text))`, the start and end of its source in the text.

    None where each comes from the character in its own place, as in nearly every text.
    """
    layer, spans = _narrowed(text), None
    for _ in range(MOST_LAYERS):
        if not _ENCODED.search(layer):
            break
        layer, spans = _peeled(layer, spans or [(place, place + 1) for place in range(len(layer))])
    sizes = [1] * len(layer) if _is_plain(layer) else [len(_FOLDS[ord(each)]) for each in layer]
    if spans is None and sizes.count(1) == len(sizes):
        return None
    spans = spans or [(place, place + 1) for place in range(len(layer))]
    return [span for span, size in zip(spans, sizes, strict=True) for _ in range(size)]


def _narrowed(text: str) -> str:
    """Return the text with wide forms of ASCII as ASCII, character for character."""
    return text if text.isascii() else text.translate(_NARROW)


def _peeled(layer: str, spans: Sequence[tuple[int, int]]) -> tuple[str, Sequence[tuple[int, int]]]:
    """Return the text with one layer of encoding removed, and the spans of its characters."""
    parts, kept, end = list[str](), list[tuple[int, int]](), 0
    for match in _ENCODED.finditer(layer):
        plain = _decode(match)
        parts += layer[end : match.start()], plain
        kept += spans[end : match.start()]
        kept += [(spans[match.start()][0], spans[match.end() - 1][1])] * len(plain)
        end = match.end()
    return "".join([*parts, layer[end:]]), [*kept, *spans[end:]]


def _decode(match: re.Match[str]) -> str:
    if match[0].startswith("&"):
        return html.unescape(match[0] if match[0].endswith(";") else f"{match[0]};")
    number = int(match["octal"], 8) if match["octal"] else int(match[match.lastgroup or 0], 16)
    return chr(number) if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF else match[0]


def _fold(character: str) -> str:
    if plain := _LETTERS.get(character) or _SIGNS.get(character):
        return plain
    if enclosed := _ENCLOSED.fullmatch(unicodedata.name(character, "")):  # NFKD leaves the brackets in.
        return enclosed["letter"].lower()
    return "".join(map(_fold_part, unicodedata.normalize("NFKD", character)))


def _fold_part(part: str) -> str:
    """Fold one character of a compatibility decomposition."""
    if part.isspace():
        return "\n" if part in _BREAKS else " "
    if unicodedata.category(part) in _DROPPED or _INVISIBLE.match(part):
        return _SIGNS.get(part, "")
    lower = part.casefold()
    plain = _LETTERS.get(part) or _SIGNS.get(part) or _LETTERS.get(lower)
    if plain or part.isascii():
        return plain or lower
    named = _LETTER_NAME.fullmatch(unicodedata.name(part, ""))
    return named["letter"].lower() if named else lower


_FOLDS = _Folds()
