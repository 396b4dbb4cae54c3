"""Tells whether a path still names the file that it named before."""

from pathlib import Path


def file_identity(path: Path) -> tuple[int, int] | None:
    """Device and number of the file; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
