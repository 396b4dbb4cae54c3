"""Ids: short strings that sort by time, made from the store's change numbers, so that none is ever used twice."""

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no letter that is read as another."""
WIDTH = 6
"""32^6 is a thousand million changes; later ids grow by a digit and then sort by length first."""

RECORD, TASK, CONTEXT = "r", "t", "c"


def make_id(prefix: str, change: int) -> str:
    """The id of what a change made: the prefix and six base-32 digits."""
    digits = ""
    while change or not digits:
        change, digit = divmod(change, 32)
        digits = ALPHABET[digit] + digits
    return prefix + digits.rjust(WIDTH, "0")
