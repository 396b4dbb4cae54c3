"""Relates a client's tokens to counted tokens."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFactor:
    """The factor that turns counted tokens into those of one model family.

    `known_error` is the largest relative error over measured texts; None where not measured.
    """

    family: str
    factor: float
    known_error: float | None
    source: str


EXACT = ModelFactor(family="the encoding's own", factor=1.0, known_error=0.0, source="The counter is exact.")
