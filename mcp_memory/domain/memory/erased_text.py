"""Recognises erased text where it comes again: whole, or quoted. Knows words and digests, and no store.

A text is divided into pieces of PIECE_WORDS words. A text that repeats a whole piece quotes it: so many words in a row
are no accident. Pieces do not overlap, because a chain of overlapping ones could be guessed word by word.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Final

from mcp_memory.domain.model.ids import is_globally_unique
from mcp_memory.domain.model.records import (
    IMPORTED_AT,
    IMPORTED_BY,
    LOG_KINDS,
    Details,
    Instant,
    Json,
    Kind,
    Record,
    map_strings,
)
from mcp_memory.domain.text.lexicon import UNSPACED
from mcp_memory.domain.text.words import normalized

ERASED_PASSAGE: Final = "[erased]"
"""Replaces a quotation."""
PIECE_WORDS: Final = 8
"""Words in a row that nobody repeats by accident."""
LEAST_WORDS: Final = 5
"""Least words of a text that is recognised inside another one; a shorter text is recognised as a whole alone."""
UNSPACED_WORDS: Final = 16
"""Characters that count as PIECE_WORDS in a script without spaces between words."""
WHOLE: Final = 0
"""The width of what is recognised as a whole: a text, or the id that a client gave to a message."""
ANYWHERE: Final = ""
"""Represents every session of a log."""
_NO_WORDS = frozenset({"message_id", "source", "task", "files", IMPORTED_AT, IMPORTED_BY})
"""Details that this server sets."""
_MOST_AROUND = 160
"""Characters of a sentence that go with a quotation in it, on each side."""
_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
# e.g. ". ", "\n", "。", "<summary>": a sentence ends there
_SENTENCE_END = re.compile(r"[.!?](?=[\s\"')\]<]|\Z)|[。！？\n]")

Words = tuple[str, ...]
Holds = Callable[[Words], bool]


@dataclass(frozen=True, slots=True)
class _PlacedWord:
    text: str
    start: int
    end: int


def words_of(text: str) -> Words:
    """Return the words of a text as they are compared: case, punctuation and Unicode form do not count."""
    return tuple(word.text for word in _words(text))


def pieces_of(text: str) -> frozenset[Words]:
    """Return the pieces by which a quotation of the text is recognised; none where it is too short."""
    words = words_of(text)
    width = _width(words)
    if len(words) < (LEAST_WORDS * width // PIECE_WORDS):
        return frozenset()
    if len(words) <= width:
        return frozenset({words})
    last = len(words) - width
    return frozenset(words[start : start + width] for start in (*range(0, last, width), last))


def said(text: str) -> Words:
    """Return what two texts that say the same have in common: their words; of one without words, as "👍", itself."""
    return words_of(text) or (text.strip(),)


def lasting_pieces(record: Record) -> frozenset[Words]:
    """Return the pieces by which a record's words are recognised later on.

    A log's line that is no longer than a piece is a turn of speech, as "Please commit this and push it.": it has none.
    """
    pieces = (piece for text in texts_of(record) for piece in pieces_of(text))
    return frozenset(piece for piece in pieces if record.kind not in LOG_KINDS or len(piece) >= _width(piece))


def texts_of(record: Record) -> Iterator[str]:
    """Yield every text of a record's words that others may quote: its text, and those in its details."""
    yield record.text
    yield from _strings(record.details)


def digest(key: bytes, *parts: str) -> bytes:
    """Return the keyed digest of some words, which nobody without the key can compare with a guess."""
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), key=key, digest_size=12).digest()


def whole_digests(record: Record, key: bytes, common: Collection[Words] = ()) -> Iterator[bytes]:
    """Yield the digests by which a record is recognised as a whole.

    What others than a log's session say is recognised wherever it comes. A short line of a log is recognised in its
    session alone, as "Yes." is said in all of them; one of LEAST_WORDS or more that is not `common`, anywhere, as in a
    fork under other ids.
    """
    message_id = record.details.get("message_id")
    if isinstance(message_id, str):
        yield _named(key, record.session_id, message_id)
    yield _whole(key, record.kind, record.session_id, record.text)
    if pieces_of(record.text) - frozenset(common):
        yield _whole(key, record.kind, ANYWHERE, record.text)


def _named(key: bytes, session_id: str, message_id: str) -> bytes:
    """Return the digest of a client's id: one that is counted in each conversation names a message in its own alone."""
    return digest(key, "id", *([] if is_globally_unique(message_id) else [session_id]), message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedMarks:
    """The digests of what was erased, by their widths, each with the time of the last erasing, and their key."""

    key: bytes = b""
    digests: Mapping[int, Mapping[bytes, Instant]] = field(default_factory=dict[int, Mapping[bytes, Instant]])

    def __bool__(self) -> bool:
        return bool(self.digests)

    def without(self, text: str) -> str:
        """Return the text with ERASED_PASSAGE for each sentence that quotes what was erased."""
        widths = [width for width in self.digests if width != WHOLE]
        return without_quotations(text, widths, self._holds) if widths else text

    def are_in(self, text: str) -> bool:
        return self.without(text) != text

    def has(
        self, kind: Kind, session_id: str, text: str, message_id: Json = None, said_at: Instant | None = None
    ) -> bool:
        """Return True for an item that was erased as a whole.

        A log's line that somebody said after the erasing is no copy, as "Please commit this and push it.".
        """
        whole = self.digests.get(WHOLE)
        if not whole:
            return False
        if isinstance(message_id, str) and _named(self.key, session_id, message_id) in whole:
            return True
        digests = (_whole(self.key, kind, where, text) for where in (session_id, ANYWHERE))
        erased_at = max((whole[each] for each in digests if each in whole), default=-inf)
        return erased_at > -inf and (said_at is None or kind not in LOG_KINDS or said_at <= erased_at)

    def met_in(self, kind: Kind, session_id: str, text: str, details: Details) -> Iterator[tuple[int, bytes]]:
        """Yield the width and the digest of each mark that an item has."""
        message_id = details.get("message_id")
        found = [_whole(self.key, kind, each, text) for each in (session_id, ANYWHERE)]
        if isinstance(message_id, str):
            found.append(_named(self.key, session_id, message_id))
        yield from ((WHOLE, each) for each in found if each in self.digests.get(WHOLE, ()))
        for each_text in (text, *_strings(details)):
            words = words_of(each_text)
            for width in self.digests.keys() - {WHOLE}:
                windows = (words[start : start + width] for start in range(len(words) - width + 1))
                yield from ((width, digest(self.key, "words", *each)) for each in windows if self._holds(each))

    def _holds(self, words: Words) -> bool:
        return digest(self.key, "words", *words) in self.digests[len(words)]


def marks_of(pieces: Iterable[Words], key: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the width and the digest of each piece."""
    for words in pieces:
        yield len(words), digest(key, "words", *words)


def quoting(pieces: Collection[Words]) -> Callable[[str], str]:
    """Return the function that takes quotations of these pieces out of a text, as `ErasedMarks.without` does."""
    widths = sorted({len(piece) for piece in pieces})
    firsts = {piece[0] for piece in pieces}
    return lambda text: without_quotations(text, widths, lambda words: words[0] in firsts and words in pieces)


def finding(pieces: Iterable[Words]) -> Callable[[str], frozenset[Words]]:
    """Return the function that finds those of the pieces that a text has; make it once for many texts."""
    whole = frozenset(pieces)
    widths = {len(piece) for piece in whole}
    firsts = {piece[0] for piece in whole}

    def held_in(text: str) -> frozenset[Words]:
        words = words_of(text)
        starts = [start for start, word in enumerate(words) if word in firsts]
        windows = (words[start : start + width] for start in starts for width in widths)
        return frozenset(each for each in windows if each in whole)

    return held_in


def without_quotations(text: str, widths: Sequence[int], holds: Holds) -> str:
    """Return the text with ERASED_PASSAGE for each sentence in which `holds` knows some words of one of the widths."""
    words = _words(text)
    bare = tuple(word.text for word in words)
    found = [
        (words[start].start, words[start + width - 1].end)
        for width in widths
        for start in range(len(words) - width + 1)
        if holds(bare[start : start + width])
    ]
    if not found:
        return text
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    parts, place = list[str](), 0
    for begin, end in _joined(_sentences(found, ends, text)):
        parts += [text[place:begin], ERASED_PASSAGE]
        place = end
    return "".join([*parts, text[place:]])


def is_all_erased(text: str) -> bool:
    """Return True for a text of which nothing is left."""
    return ERASED_PASSAGE in text and not words_of(text.replace(ERASED_PASSAGE, " "))


def details_without(details: Details, cut: Callable[[str], str]) -> Details:
    """Return details with `cut` applied to every text in them that somebody wrote."""
    said = {name: value for name, value in details.items() if name not in _NO_WORDS}
    return {**details, **dict(zip(said, map_strings(said, cut).values(), strict=True))}


def strings_in(fields: Details) -> list[str]:
    """Return every text inside the fields, names included."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    map_strings(fields, note)
    return found


def fields_without(fields: Details, is_quoting: Callable[[str], bool]) -> Details:
    """Return those of the fields in which no text is a quotation."""
    return {name: value for name, value in fields.items() if not any(map(is_quoting, strings_in({name: value})))}


def _strings(details: Details) -> list[str]:
    """Return every text inside details that somebody wrote."""
    return strings_in({name: value for name, value in details.items() if name not in _NO_WORDS})


def _sentences(found: Iterable[tuple[int, int]], ends: Sequence[int], text: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences around the places, without the blanks in front, as far as they are no longer than useful."""
    spans = list(pairwise(ends))
    at = 0
    for start, end in sorted(found):
        while spans[at][1] <= start:
            at += 1
        last = at
        while spans[last][1] < end:
            last += 1
        begin, close = max(spans[at][0], start - _MOST_AROUND), min(spans[last][1], end + _MOST_AROUND)
        while begin < start and text[begin].isspace():
            begin += 1
        while close > end and text[close - 1].isspace():
            close -= 1
        yield begin, close


def _joined(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans, of which there is one at least, those that overlap or touch as one."""
    current, *others = sorted(spans)
    for span in others:
        if span[0] <= current[1] + 1:
            current = current[0], max(current[1], span[1])
            continue
        yield current
        current = span
    yield current


def _words(text: str) -> list[_PlacedWord]:
    return [_PlacedWord(normalized("NFKC", m.group()).casefold(), m.start(), m.end()) for m in _WORD.finditer(text)]


def _width(words: Words) -> int:
    """Return how many words make a piece: in a script without spaces each character is one."""
    unspaced = sum(1 for word in words if len(word) == 1 and not word.isascii() and _WORD.fullmatch(word) is not None)
    return UNSPACED_WORDS if 2 * unspaced > len(words) else PIECE_WORDS


def _whole(key: bytes, kind: Kind, session_id: str, text: str) -> bytes:
    where = ("log", session_id, kind) if kind in LOG_KINDS else ("text",)
    return digest(key, *where, *said(text))
