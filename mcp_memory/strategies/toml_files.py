"""Reads strategies from TOML and from calls, strictly. Knows their form, not their use."""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from mcp_memory.bounded_files import MB, read_regular
from mcp_memory.domain.model.records import Json, Kind
from mcp_memory.domain.model.strategy import (
    COMBINING,
    SECTION_SHARES,
    Formula,
    Layout,
    Share,
    Signal,
    Strategies,
    Strategy,
)
from mcp_memory.errors import InvalidRequest

MAX_BYTES = MB
BUILT_IN = Path(__file__).with_name("builtin.toml")
_STRATEGY_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_PRINTABLE_NAME = re.compile(r"\w{1,40}", re.ASCII)
_ROUNDING = 1e-9
_WRONG = {
    "value_error": "{error}",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} items",
}
"""Messages that replace pydantic's; see entrypoints/server/arguments.py for other arguments."""

_NumbersT = TypeVar("_NumbersT", bound=Mapping[Any, float])


def _check_weights(weights: _NumbersT) -> _NumbersT:
    if not any(weights.values()):
        raise ValueError("must hold one above 0")
    return weights


def _check_shares(shares: _NumbersT) -> _NumbersT:
    if len({name in SECTION_SHARES for name in shares}) > 1:
        sections = ", ".join(sorted(SECTION_SHARES))
        raise ValueError(f"must go either by section ({sections}) or by source (the others), not by both")
    if math.fsum(shares.values()) > 1 + _ROUNDING:
        raise ValueError("must not add up to more than 1")
    return shares


_Line = Annotated[str, StringConstraints(min_length=1, max_length=300)]
_Hours = Annotated[float, Field(gt=0, le=1_000_000)]
_Count = Annotated[int, Field(ge=0, le=1_000)]


class _Table(BaseModel):
    """The fields of a strategy, as a file or a call gives them: nothing unknown, nothing converted, none required."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    description: _Line = ""
    formula: Formula = "weighted"
    weights: Annotated[dict[Signal, Annotated[float, Field(ge=0, le=1_000)]], AfterValidator(_check_weights)] = {}
    decay_hours: _Hours = 1
    half_life_hours: _Hours = 1
    layout: Layout = "by_kind"
    shares: Annotated[dict[Share, Annotated[float, Field(gt=0, le=1)]], AfterValidator(_check_shares)] = {}
    priorities: dict[Kind, Annotated[float, Field(ge=0, le=1)]] = {}
    limits: dict[Kind, _Count] = {}
    least: dict[Kind, _Count] = {}
    questions: Annotated[tuple[_Line, ...], Field(strict=False, max_length=10)] = ()
    domains: Annotated[tuple[_Line, ...], Field(strict=False, max_length=20)] = ()
    depth: Annotated[int, Field(ge=0, le=5)] = 0
    failures: bool = True
    errors_first: bool = False
    flexible_tokens: Annotated[int, Field(ge=100, le=1_000_000)] = 100


def read_strategies(user_file: Path | None) -> Strategies:
    """Return the built-in strategies, overlaid with those of the user's file, if there is one.

    Raises:
        InvalidRequest: the file cannot be read or does not hold strategies; names file, strategy, field and remedy.
    """
    built_in = _built_in()
    return built_in if user_file is None else _File(user_file, built_in).strategies()


def overridden(strategy: Strategy, overrides: Mapping[str, Json]) -> Strategy:
    """Return the strategy with a call's overrides: each named field replaces the former as a whole.

    Raises:
        InvalidRequest: there is no such field, or its value is invalid; the message names it.
    """
    try:
        return _changed(strategy, overrides)
    except ValueError as error:
        raise InvalidRequest(f"`strategy`: {error}") from error


@cache
def _built_in() -> Strategies:
    return _File(BUILT_IN, {}).strategies()


class _File:
    """One file of strategies, in which any may start from any other."""

    def __init__(self, path: Path, known: Strategies) -> None:
        self._path = path
        self._known = known
        self._tables = _read_tables(path)
        self._done: dict[str, Strategy] = {}

    def strategies(self) -> Strategies:
        """Return the known strategies, overlaid with those of the file."""
        for name in self._tables:
            self._strategy(name, ())
        return {**self._known, **self._done}

    def _strategy(self, name: str, waiting: tuple[str, ...]) -> Strategy:
        """Return the strategy of that name; `waiting` lists the strategies that start from it."""
        if name in self._done:
            return self._done[name]
        if name not in self._tables:
            return self._known[name]
        table = dict(self._tables[name])
        try:
            base = self._base(name, table.pop("like", None), (*waiting, name))
            self._done[name] = _changed(base, table)
        except ValueError as error:
            raise InvalidRequest(f"{self._path}, strategy {name}: {error} Correct the file and start again.") from error
        return self._done[name]

    def _base(self, name: str, like: Json, waiting: tuple[str, ...]) -> Strategy:
        """Return the table's base: the strategy it names, else the built-in one of its name, else an empty one."""
        if like is None or (like == name and name in self._known):
            return self._known.get(name) or Strategy(name=name)
        if not isinstance(like, str) or like not in {**self._tables, **self._known}:
            known = ", ".join(sorted({**self._tables, **self._known}))
            raise ValueError(f"like must be the name of another strategy: {known}.")
        if like in waiting:
            raise ValueError(f"like must not lead in a circle, as here: {' > '.join((*waiting, like))}.")
        return replace(self._strategy(like, waiting), name=name)


def _read_tables(path: Path) -> dict[str, Mapping[str, Json]]:
    """Return the tables of a file by name, their content unchecked."""
    try:
        found: dict[str, Json] = tomllib.loads(read_regular(path, MAX_BYTES).decode())
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}. Make it readable, or unset it.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{path} is no TOML: {error}. Correct it and start again.") from error
    for name, table in found.items():
        if not _STRATEGY_NAME.fullmatch(name):
            raise InvalidRequest(
                f"{path}: {name[:40]!r} is no name for a strategy; take a small letter, then at most 39 small letters, "
                "digits, - and _."
            )
        if not isinstance(table, Mapping):
            raise InvalidRequest(f"{path}: {name} stands outside of any strategy; put it under a line [strategy-name].")
    return cast("dict[str, Mapping[str, Json]]", found)


def _changed(base: Strategy, table: Mapping[str, Json]) -> Strategy:
    """Return the strategy with the table's fields; weights imply a formula that weighs. Raises ValueError."""
    try:
        read = _Table.model_validate(table)
    except ValidationError as error:
        raise ValueError(_explain(error)) from error
    fields: dict[str, Any] = {name: getattr(read, name) for name in read.model_fields_set}
    if "weights" in fields:
        fields.setdefault("formula", base.formula if base.combines else "weighted")
    elif fields.get("formula", "weighted") not in COMBINING:
        fields["weights"] = {}
    changed = replace(base, **fields)
    if changed.combines and not changed.weights:
        raise ValueError("weights are required, as in { relevance = 0.7, recency = 0.3 }.")
    if not changed.combines and changed.weights:
        raise ValueError(f"weights have no place in the formula {changed.formula}; take one of the two out.")
    return changed


def _explain(error: ValidationError) -> str:
    """Describe the first error and its place, without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    steps = [str(step) for step in first["loc"] if step != "[key]"]
    field = ".".join(step if _PRINTABLE_NAME.fullmatch(step) else "…" for step in steps)
    if first["type"] == "extra_forbidden":
        return f"{field} is no field. Known: {', '.join(_Table.model_fields)}."
    ours = _WRONG.get(first["type"])
    why = ours.format(**first.get("ctx", {})) if ours else first["msg"].replace("Input should be", "must be")
    return f"{field} {why}."
