"""Places windows over a long text: equal in size, evenly spread. Knows neither models nor the units it counts."""


def window_bounds(length: int, *, window: int, overlap: int, most: int) -> list[tuple[int, int]]:
    """Return start and end of each window over `length` units, from the first unit to the last.

    At most `most` windows of at most `window` units. Neighbours share `overlap` units where that many windows suffice,
    fewer where they do not, and leave even gaps where the text is longer still.
    """
    if length <= window:
        return [(0, length)]
    count = min(-(-(length - overlap) // (window - overlap)), most)
    size = min(-(-(length + (count - 1) * overlap) // count), window)
    return [(start, start + size) for start in spread(length - size, count)]


def spread(last: int, count: int) -> list[int]:
    """Return `count` whole numbers from 0 to `last`, evenly spaced; count >= 2."""
    return [round(i * last / (count - 1)) for i in range(count)]
