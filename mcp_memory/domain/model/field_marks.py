"""Marks on the fields of records, requests and filters: `Annotated[float, Told(4), MergedBy(max)]`.

A mark says once what the program does with a field. One loop reads it, in the module that its docstring names.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

# Of a record.


class Derived:
    """Found when the record is read, or counted beside it: no column of its own (stores/records/rows.py)."""


class Fixed:
    """Stored with the record; an update leaves it as it is (stores/records/rows.py)."""


class CallerWords:
    """Words of a caller, in any form.

    Secrets and control characters are taken out of them before they are stored (domain/memory/redaction.py), and
    versions forget them where others may not read them (stores/records/rows.py).
    """


class Unversioned:
    """No version keeps what it was (domain/model/versions.py)."""


@dataclass(frozen=True, slots=True)
class Told:
    """Its changes are told to people, in the order of these places (domain/model/versions.py)."""

    place: int


@dataclass(frozen=True, slots=True)
class MergedBy:
    """The same text, stored again, makes it `how(kept, said)` (domain/model/lifecycle.py)."""

    how: Callable[[Any, Any], Any]


# Of a request, whose fields are the arguments of a tool (entrypoints/server/request_arguments.py).


class NoArgument:
    """The program's own: no call gives it."""


@dataclass(frozen=True, slots=True)
class Described:
    """A description in the tool's schema, for the model that calls it."""

    text: str


@dataclass(frozen=True, slots=True)
class Size:
    """The most and the least characters of a text, or items of a list or object."""

    most: int
    least: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest number, or one that it must be `above`."""

    least: float | None = None
    most: float | None = None
    above: float | None = None


class NotBlank:
    """A text of more than white space."""


class NoControls:
    """A name without control characters: cleaned as a text is, it would be another name."""


class Unlisted:
    """One of a few words, which the schema does not list; the error for another one names them."""


# Of a revision.


class Replaces:
    """The value, where one is given, takes the place of the record's (services/memory/revise.py)."""


# Of a filter.

Comparison = Literal["equal", "any of", "none of", "from", "before"]


@dataclass(frozen=True, slots=True)
class Compares:
    """Records pass whose column compares so with the filter's value; "none of" passes those without a value, too.

    stores/records/where_clause.py makes a condition of it, and stores/filter_index.py compares the array of that name.
    """

    column: str
    how: Comparison


MarkT = TypeVar("MarkT")


def marked(shape: type, mark: type[MarkT]) -> dict[str, MarkT]:
    """Return the fields of a dataclass that bear the mark, by name and in their order, each with its mark."""
    return {
        field.name: found
        for field in fields(shape)
        for found in getattr(field.type, "__metadata__", ())
        if isinstance(found, mark)
    }


def arguments(request: type) -> list[str]:
    """Return the names of the fields of a request that a call may give."""
    inner = marked(request, NoArgument)
    return [field.name for field in fields(request) if field.name not in inner]


def unmarked(wanted: Any) -> Any:
    """Return a field's type without its marks."""
    return get_args(wanted)[0] if get_origin(wanted) is Annotated else wanted


def latest(kept: Any, said: Any) -> Any:
    """Return what was said, or what is kept where nothing was."""
    return kept if said is None else said


def either(kept: bool, said: bool) -> bool:
    return kept or said


def together(kept: Iterable[str], said: Iterable[str]) -> tuple[str, ...]:
    """Return all of them once, those that are kept first; case makes no other one."""
    named: dict[str, str] = {}
    for each in (*kept, *said):
        named.setdefault(each.casefold(), each)
    return tuple(named.values())
