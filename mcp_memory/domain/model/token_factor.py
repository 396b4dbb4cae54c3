"""Relates a client's tokens to counted tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor
from typing import NewType

CountedTokens = NewType("CountedTokens", int)
"""Tokens as the store's counter counts them: those of records, logs and texts."""
ClientTokens = NewType("ClientTokens", int)
"""Tokens as the client's model counts them: those of budgets, windows and reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFactor:
    """The factor that turns counted tokens into those of one model family.

    `known_error` is the largest relative error over measured texts; None where not measured.
    """

    family: str
    factor: float
    known_error: float | None
    source: str

    def client(self, tokens: CountedTokens, rounding: Callable[[float], int] = ceil) -> ClientTokens:
        """Return counted tokens as the client's; the default never promises too few."""
        return ClientTokens(rounding(tokens * self.factor))

    def counted(self, tokens: ClientTokens, rounding: Callable[[float], int] = floor) -> CountedTokens:
        """Return the client's tokens as counted; the default never allows too many."""
        return CountedTokens(rounding(tokens / self.factor))


EXACT = ModelFactor(family="the encoding's own", factor=1.0, known_error=0.0, source="The counter is exact.")
