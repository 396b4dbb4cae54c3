"""Counts tokens exactly as OpenAI's public encodings do, from the package's own vocabularies.

Importing this module is cheap; tiktoken is imported, and the vocabulary read, at the first count. tiktoken's own
loader is not used, because it downloads. Which client uses which encoding is not known here: see token_factors.
"""

import io
import re
import threading
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_memory.domain.model.token_factor import CountedTokens

if TYPE_CHECKING:
    import tiktoken

VOCABULARIES = Path(__file__).parent / "data" / "vocabularies"

# How an encoding splits text before merging bytes; from tiktoken_ext/openai_public.py, tiktoken 0.14.0 (MIT).
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_SPLITS = {
    "cl100k_base": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k_base": "|".join(
        [
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _CONTRACTION,
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _CONTRACTION,
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ]
    ),
}

LONGEST_TOKEN = 128  # bytes, in both vocabularies
SHORT, SHORT_KEPT = 64, 16_384  # characters; texts
LOOKAHEAD = 4  # tokens: a longer prefix can cost fewer tokens than a shorter one, but only just behind the cut
# tiktoken's pattern matcher panics at a million white-space characters in a row.
_BLANKS_AT_ONCE = 500_000
_BLANK_RUN = re.compile(rf"(?<!\s)\s{{{_BLANKS_AT_ONCE},}}+")
# Both encodings always split between a letter or digit and these, whatever surrounds them, e.g. "word| next".
_SURE_SPLIT = re.compile("[^\\W_](?=[ ,.;:\u3001\u3002\uff0c\uff1a\uff1b\uff1f\uff01])")
_REACH = 2_000  # characters
_loading = threading.Lock()


class TiktokenCounter:
    """Counts the tokens of one encoding; thread-safe.

    The names of special tokens count as the ordinary text they are. Lone surrogates count as U+FFFD. Runs of more than
    500,000 white-space characters are counted in pieces of that size; everything else exactly as by tiktoken.
    """

    def __init__(self, encoding: str = "o200k_base") -> None:
        """Raises ValueError for an encoding whose vocabulary is not in the package."""
        if encoding not in _SPLITS:
            raise ValueError(f"No encoding {encoding!r}; known ones are {', '.join(sorted(_SPLITS))}.")
        self._name = encoding
        self._encoding: tiktoken.Encoding | None = None
        # Contexts count the same labels and titles over and over.
        self._count_short = lru_cache(maxsize=SHORT_KEPT)(self._count)

    @property
    def name(self) -> str:
        """The encoding's name."""
        return self._name

    def load(self) -> None:
        """Read the vocabulary now (about 0.2 s) instead of at the first count; call it once, from any thread."""
        self._loaded()

    def count(self, text: str) -> CountedTokens:
        """Return the number of tokens in the text; 0 for the empty text."""
        return self._count_short(text) if len(text) <= SHORT else self._count(text)

    def _count(self, text: str) -> CountedTokens:
        return CountedTokens(len(self._encode(text)))

    def truncate(self, text: str, max_tokens: int) -> str:
        """Return the longest prefix that has at most `max_tokens` tokens; lone surrogates in it become U+FFFD.

        The cut is between characters, never inside one. Returns "" when not even the first character fits. Where 2,000
        characters hold no space or comma after a word, the prefix may be a token shorter than the longest.
        """
        text = _without_surrogates(text)
        head = text[: max(max_tokens, 0) * LONGEST_TOKEN + 1]
        tokens = self._encode(head)
        if len(tokens) <= max_tokens:
            return text  # the head is all of it: one more character than `max_tokens` can hold did not fit
        end = self._length(tokens[: max(max_tokens, 0)])
        start = _sure_split(head, end)
        lookahead = LOOKAHEAD if end - start <= _REACH else 0
        farthest = self._length(tokens[: max(max_tokens, 0) + lookahead])
        spare = max_tokens - self.count(head[:start])
        fits = (stop for stop in range(farthest, start, -1) if self.count(head[start:stop]) <= spare)
        return head[: next(fits, start)]

    def _length(self, tokens: list[int]) -> int:
        """Return the number of characters in the tokens, without one that is cut in the middle."""
        return len(self._loaded().decode_bytes(tokens).decode("utf-8", "ignore"))

    def _encode(self, text: str) -> list[int]:
        encoding = self._loaded()
        tokens: list[int] = []
        for piece in _pieces(_without_surrogates(text)):
            tokens += encoding.encode_ordinary(piece)
        return tokens

    def _loaded(self) -> "tiktoken.Encoding":
        if self._encoding is None:
            with _loading:
                self._encoding = _load(self._name)
        return self._encoding


@cache
def _load(name: str) -> "tiktoken.Encoding":
    """Read once per process: a vocabulary takes 0.2 s and 70 MB."""
    import tiktoken

    # Without special tokens, no text can be mistaken for one.
    ranks = _ranks(name)
    encoding = tiktoken.Encoding(name, pat_str=_SPLITS[name], mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # The encoding has copied them, and keeps the dictionary for pickling alone.
    return encoding


def _ranks(name: str) -> dict[bytes, int]:
    """Read the tokens, each a byte with its length and then its bytes, in the order of their ranks."""
    read = io.BytesIO((VOCABULARIES / f"{name}.bin").read_bytes()).read
    tokens: list[bytes] = []
    while size := read(1):  # 200,000 times: two calls of C each take two thirds of the time of indices into the bytes.
        tokens.append(read(size[0]))
    return dict(zip(tokens, range(len(tokens)), strict=True))


def _pieces(text: str) -> list[str]:
    runs = (run.span() for run in _BLANK_RUN.finditer(text)) if len(text) > _BLANKS_AT_ONCE else ()
    ends = [end for first, last in runs for end in range(first + _BLANKS_AT_ONCE, last, _BLANKS_AT_ONCE)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def _sure_split(text: str, before: int) -> int:
    """Return a position up to `before` where the counts of both sides add up to the whole's; 0 if none is near."""
    splits = [split.end() for split in _SURE_SPLIT.finditer(text, max(before - _REACH, 0), before + 1)]
    return splits[-1] if splits else 0


def _without_surrogates(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
