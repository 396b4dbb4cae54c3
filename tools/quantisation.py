"""Turns float32 weights into small integers, and evens out the inputs they are multiplied with."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

WEIGHT_LEVELS = 127
SMOOTHING = 0.6


def quantise_weights(weights: Floats) -> tuple[Floats, Floats]:
    """Round weights [in, out] to -127..127 with one scale per column; returns both.

    Two neighbouring weights of a column never add up to more than 128 in size: x86 processors without VNNI add two
    products in 16 bits, and 255 * 128 still fits.
    """
    pairs = np.abs(weights[0::2] + weights[1::2]).max(0)
    return _rounded(weights, np.maximum(_peaks(weights), pairs), WEIGHT_LEVELS)


def quantise_table(table: Floats, levels: int) -> tuple[Floats, Floats]:
    """Round a table [in, out] that is only looked up, never multiplied, to -levels..levels."""
    return _rounded(table, _peaks(table), levels)


def smoothing_factors(weights: Floats, peaks: Floats) -> Floats:
    """What each input channel is divided by, and its row of weights multiplied with, before rounding.

    `peaks` is the largest absolute input seen per channel. The factors' geometric mean is 1 (after Xiao et al.,
    SmoothQuant, ICML 2023, with the exponent measured on this model).
    """
    rows = np.maximum(np.abs(weights).max(1), 1e-3)
    factors = np.maximum(peaks, 1e-3) ** SMOOTHING / rows ** (1 - SMOOTHING)
    factors /= np.exp(np.log(factors).mean())
    return factors


def _peaks(weights: Floats) -> Floats:
    return np.maximum(np.abs(weights).max(0), 1e-12)


def _rounded(weights: Floats, peak: Floats, levels: int) -> tuple[Floats, Floats]:
    scale = (peak / levels).astype(np.float32)
    return np.clip(np.rint(weights / scale), -levels, levels), scale
