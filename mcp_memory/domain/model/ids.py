"""Ids: short strings that sort by time, made from the store's change numbers, so that none is ever used twice.

A record set is a set of ids that a whole index can be held against at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no letter that is read as another."""
WIDTH = 6
"""Digits of an id. 32^6 is a thousand million changes; later ids grow by a digit and then sort by length first."""

MADE_AT_MOST = 32 ** (WIDTH - 1)
"""The highest change number, some 33 million, accepted from an id of foreign origin.

Indexes hold a place for every number up to the newest: a thousand million would fill any computer.
"""

RECORD, TASK, CONTEXT, REVIEW = "r", "t", "c", "g"
_MADE = re.compile(rf"[a-z](?:[{ALPHABET}]{{{WIDTH}}}|[{ALPHABET[1:]}][{ALPHABET}]{{{WIDTH},11}})")
"""A letter and six digits, "r00001k", or more digits that do not begin with 0, "t1000000"."""
_UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])")
"""e.g. in "run--0b9c1f64-2d3a-4e5f-8a71-c60f9d2e47b8" or "0b9c1f64-2d3a-4e5f-8a71-c60f9d2e47b8/2"."""
_LEAST_DIGITS = 8
"""Different digits of a random UUID; a counted one has few: "00000000-0000-4000-8000-000000000012"."""
_TO_PYTHONS = str.maketrans(ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_PAIRS = [high + low for high in ALPHABET for low in ALPHABET]
"""Two digits at once: a recall makes hundreds of ids."""


def make_id(prefix: str, change: int) -> str:
    """Return the id for a change: the prefix and at least six base-32 digits."""
    high = change >> 20
    first = _PAIRS[high] if high < len(_PAIRS) else make_id("", high).lstrip("0")
    return f"{prefix}{first}{_PAIRS[change >> 10 & 1023]}{_PAIRS[change & 1023]}"


@lru_cache(8_192)  # A recall asks for each of some hundreds several times, and the next one for many of them again.
def number_of(made_id: str) -> int:
    """Return the change number in an id made by `make_id` with a one-letter prefix; 0 for any other text."""
    return int(made_id[1:].translate(_TO_PYTHONS), 32) if _MADE.fullmatch(made_id) else 0


def is_id(text: str, prefix: str) -> bool:
    """Return True for an id that `make_id` makes with this prefix."""
    return text.startswith(prefix) and number_of(text) > 0


def is_globally_unique(client_id: str) -> bool:
    """Return True for a client's id that no other thing has, by its form: a random UUID, which may be part of it.

    Any other one, as "3" or "m3", may be counted from 1 in each conversation.
    """
    found = _UUID.search(client_id.lower())
    return found is not None and len(set(found[0])) > _LEAST_DIGITS  # The hyphen is one more.


@dataclass(frozen=True, slots=True)
class RecordSet:
    """A set of records by the numbers in their ids. `flags` has one byte per number: 1 says that it is in the set.

    The last byte is always 0 and represents every higher number, so an index that knows newer records finds them
    absent.
    """

    flags: bytes

    @classmethod
    def of(cls, record_ids: Iterable[str]) -> RecordSet:
        """Build the set from ids that a store made: a forged id may name a number that takes any amount of memory."""
        numbers = [number_of(record_id) for record_id in record_ids]
        flags = bytearray(max(numbers, default=-1) + 2)
        for number in numbers:
            flags[number] = 1
        flags[0] = 0  # Number 0: not an id.
        return cls(bytes(flags))

    def __contains__(self, record_id: str) -> bool:
        number = number_of(record_id)
        return number < len(self.flags) and bool(self.flags[number])

    def __len__(self) -> int:
        return self.flags.count(1)
