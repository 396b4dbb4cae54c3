"""Ids: short strings that sort by time, made from the store's change numbers, so that none is ever used twice."""

import re

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no letter that is read as another."""
WIDTH = 6
"""32^6 is a thousand million changes; later ids grow by a digit and then sort by length first."""

MADE_AT_MOST = 32 ** (WIDTH - 1)
"""The highest change number, some 33 million, that an id from elsewhere is believed to be made of.

Indexes hold a place for every number up to the newest: of a thousand million they would fill any computer.
"""

RECORD, TASK, CONTEXT = "r", "t", "c"
_MADE = re.compile(rf"[a-z](?:[{ALPHABET}]{{{WIDTH}}}|[1-9a-z][{ALPHABET}]{{{WIDTH},11}})")
_TO_PYTHONS = str.maketrans(ALPHABET, "0123456789abcdefghijklmnopqrstuv")


def make_id(prefix: str, change: int) -> str:
    """The id of what a change made: the prefix and six base-32 digits."""
    digits = ""
    while change or not digits:
        change, digit = divmod(change, 32)
        digits = ALPHABET[digit] + digits
    return prefix + digits.rjust(WIDTH, "0")


def number_of(made_id: str) -> int:
    """The change number that an id was made of, by `make_id` with a prefix of one letter; 0 for any other text."""
    return int(made_id[1:].translate(_TO_PYTHONS), 32) if _MADE.fullmatch(made_id) else 0
