"""Marks on the fields of records, requests and filters: `Annotated[float, Told(4), Merged(max)]`.

A mark says once what the program does with a field. One loop reads it, in the module that its docstring names.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar, get_args, get_origin

# Of a record.


@dataclass(frozen=True, slots=True)
class Derived:
    """Found when the record is read, or counted beside it: no column of its own (stores/records/rows.py)."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Stored with the record; an update leaves it as it is (stores/records/rows.py)."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a caller, in any form.

    Secrets and control characters are taken out of them before they are stored (domain/memory/redaction.py), and
    versions forget them where others may not read them (stores/records/rows.py).
    """


@dataclass(frozen=True, slots=True)
class Unversioned:
    """No version keeps what it was (domain/model/versions.py)."""


@dataclass(frozen=True, slots=True)
class Told:
    """People are told of its changes, in the order of these places (domain/model/versions.py)."""

    place: int


@dataclass(frozen=True, slots=True)
class Merged:
    """What it becomes when the same text is stored again: `how(kept, said)` (domain/model/lifecycle.py)."""

    how: Callable[[Any, Any], Any]


MarkT = TypeVar("MarkT")


def marked(shape: type, mark: type[MarkT]) -> dict[str, MarkT]:
    """Return the fields of a dataclass that bear the mark, by name and in their order, each with its mark."""
    return {
        field.name: found
        for field in fields(shape)
        for found in getattr(field.type, "__metadata__", ())
        if isinstance(found, mark)
    }


def unmarked(wanted: Any) -> Any:
    """Return a field's type without its marks."""
    return get_args(wanted)[0] if get_origin(wanted) is Annotated else wanted


def latest(kept: Any, said: Any) -> Any:
    """Return what was said, or what is kept where nothing was."""
    return kept if said is None else said


def either(kept: bool, said: bool) -> bool:
    return kept or said


def together(kept: Iterable[str], said: Iterable[str]) -> tuple[str, ...]:
    """Return all of them once, those that are kept first."""
    return tuple(dict.fromkeys((*kept, *said)))
