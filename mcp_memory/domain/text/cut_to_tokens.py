"""Cuts a text to a number of tokens: it ends early, with an ellipsis. No word is added."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mcp_memory.domain.text.lexicon import ABSENCES, DENIALS, EXCEPTIONS, LIMITS_UNSPACED
from mcp_memory.domain.text.segments import SENTENCE_END

MAX_COUNTED = 40
"""Characters for each token of a limit: a longer text does not fit and is not counted."""

# "…, but never to write", "… apart from billing", "… cannot be deleted", "不要 …"
_DENIAL = re.compile(rf"(?<![a-z])(?:{DENIALS}|{ABSENCES}|{EXCEPTIONS})(?![a-z])|{LIMITS_UNSPACED}", re.IGNORECASE)
# A reason may contain denials: "…, because it is not fast" leaves the words before it unchanged.
_REASON = re.compile(r"[,;]?\s(?:because|since|due to|so that|in order to|(?:even )?though|although)\s")
# Where a clause begins, "… on Fridays, | but never …", and where it ends, "… never on Fridays |, as …".
_CLAUSE_START = re.compile(
    r"(?<=[,;:])\s|(?<=[，；：])|\s(?=[—–(]|(?:but|and|or|so|because|unless|except|only|may|must|should|can|will"
    r"|shall|is|are)\s)"
)
_CLAUSE_END = re.compile(r"[,;:，；：](?=\s|[^\s\x00-\x7f])|\s[-–—(]\s?|(?<=[、。])")
MAX_SENTENCE = 600
"""Characters: a longer text is no sentence and is not searched for denials."""
MIN_ROOM = 6
"""Tokens of a beginning that says anything."""
MAX_STARTS = 6
"""Clause beginnings before a denial from which the ending may start."""

Count: TypeAlias = Callable[[str], int]
Truncate: TypeAlias = Callable[[str, int], str]


@dataclass(frozen=True, slots=True)
class Room:
    """Counts the tokens of texts, no more often than needed, and cuts them."""

    count: Count
    truncate: Truncate

    def holds(self, text: str, limit: int) -> bool:
        """Return True for a text of at most `limit` tokens. A token is at least one byte, a character at most four."""
        if len(text) * 4 <= limit or (len(text) <= limit and text.isascii()):
            return True
        return len(text) <= limit * MAX_COUNTED and self.count(text) <= limit

    def cut(self, text: str, limit: int) -> str:
        """Return the text, or as much of its beginning as fits, with an ellipsis behind it.

        Where that would drop the denial of the first sentence, the denial's clause follows the ellipsis.
        """
        if self.holds(text, limit):
            return text
        first = text[: MAX_SENTENCE + 1]
        end = SENTENCE_END.search(first)
        sentence = first[: end.start()] if end else first
        is_cut = len(sentence) <= MAX_SENTENCE and not self.holds(sentence, limit)
        return (self._with_denial(sentence, limit) if is_cut else "") or self._begun(text, limit)

    def _begun(self, text: str, limit: int, end: str = "…") -> str:
        """Return the longest beginning that ends with a word, else any character; at most `limit` tokens with `end`."""
        head = self.truncate(text[: limit * MAX_COUNTED], limit - self.count(end))
        word = head.rfind(" ")
        while True:
            shown = (head[:word] if word > len(head) // 2 else head).rstrip(" ,;:—–-，；、") + end
            if self.count(shown) <= limit or not head:
                return shown
            head = head[:-1]
            word = head.rfind(" ")

    def _with_denial(self, text: str, limit: int) -> str:
        """Return the beginning, an ellipsis and the denial's clause that the beginning drops; "" where it drops none.

        "Use the database for all of the manual tests, but never write to it." → "Use the database … but never write
        to it."
        """
        reason = _REASON.search(text)
        said = text[: reason.start()] if reason else text
        denial = _DENIAL.search(said)
        if not denial or denial.end() < len(self._begun(text, limit)):
            return ""
        end = _CLAUSE_END.search(said, denial.start())
        starts = [0, *(m.end() for m in _CLAUSE_START.finditer(said) if m.end() <= denial.start()), denial.start()]
        clauses = (said[start : end.start() if end else None].strip() for start in starts[-MAX_STARTS:])
        tail = next((tail for clause in clauses if self.count(tail := f"… {clause}") <= limit), "")
        left = limit - self.count(tail)
        return self._begun(said[: denial.start()], limit, f" {tail}") if tail and left >= MIN_ROOM else tail
