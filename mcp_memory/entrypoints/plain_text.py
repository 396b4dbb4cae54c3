"""Text from anywhere, as a terminal may show it and a memory may hold it."""

import unicodedata


def visible(text: str) -> str:
    """The text without escape sequences, other control characters and halves of surrogate pairs."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else "\N{REPLACEMENT CHARACTER}" for c in text
    )
