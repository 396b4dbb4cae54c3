"""The wall around a request: the scopes whose texts its reads may find, whatever their conditions let pass.

An edge at which a request begins says whose it is; upkeep says that it works for the memory as a whole. A store that
has walls finds nothing where nobody said either: a forgotten edge fails, and does not leak.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Wall = tuple[str, ...] | None
"""The scopes to read; `EVERYTHING`; None where nobody said."""
EVERYTHING: Final = ("*",)
"""No scope's key."""
_wall: ContextVar[Wall] = ContextVar("_wall", default=None)


def wall() -> Wall:
    """Return what this context may read."""
    return _wall.get()


def stay_within(scopes: tuple[str, ...]) -> None:
    """Let this context, and copies of it that are made from now on, read these scopes alone."""
    _wall.set(scopes)


@contextmanager
def within(scopes: Wall) -> Generator[None]:
    """Let what is done inside read these scopes alone."""
    token = _wall.set(scopes)
    try:
        yield
    finally:
        _wall.reset(token)


@contextmanager
def beyond() -> Generator[None]:
    """Let what is done inside read everything, as upkeep does and a command of who has the memory; also a decorator."""
    with within(EVERYTHING):
        yield
