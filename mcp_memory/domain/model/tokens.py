"""The relation of a client's tokens to those that are counted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFactor:
    """The factor that turns counted tokens into those of one family of models.

    `known_error` is the largest share by which measured texts were off; None where that was not measured.
    """

    family: str
    factor: float
    known_error: float | None
    source: str


EXACT = ModelFactor(family="the encoding's own", factor=1.0, known_error=0.0, source="The counter is exact.")
