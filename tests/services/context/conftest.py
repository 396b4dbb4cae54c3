"""Memories that many tests begin with are filled once."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

Copied = Callable[[str, Callable[[], Any]], Any]


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Where filled memories are kept, and what who filled them returned."""
    return tmp_path_factory.mktemp("filled"), {}


@pytest.fixture
def copied(tmp_path: Path, filled: tuple[Path, dict[str, Any]]) -> Copied:
    """`copied(name, fill)` leaves in folder "data" what `fill` left there when it was first asked for, closed.

    It returns what `fill` returned.
    """
    kept, returned = filled

    def copy(name: str, fill: Callable[[], Any]) -> Any:
        if name in returned:
            copytree(kept / name, tmp_path / "data")
        else:
            made = fill()
            copytree(tmp_path / "data", kept / name)
            returned[name] = made
        return returned[name]

    return copy
