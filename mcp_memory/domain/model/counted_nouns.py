"""A number with its noun, in the number that the noun has in English."""


def counted(number: int, noun: str) -> str:
    """Return a number of things: "1 record", "1,204 records", "2 memories"; the noun is given in the singular."""
    return f"{number:,} {in_number(number, noun)}"


def in_number(number: int, noun: str) -> str:
    """Return the noun alone: "record" of one, "records" of another number."""
    if number == 1:
        return noun
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:] not in ("ay", "ey", "oy") else f"{noun}s"
