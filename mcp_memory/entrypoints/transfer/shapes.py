"""JSON objects as the dataclasses whose fields they name, and back: strictly, nothing missing, unknown or converted."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from mcp_memory.domain.model.records import Details, Json
from mcp_memory.errors import InvalidRequest

ShapeT = TypeVar("ShapeT")
_SAID: Mapping[object, str] = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def as_json(shaped: object) -> dict[str, Json]:
    """A dataclass as a JSON object, with its fields in their order."""
    return {each.name: _value(getattr(shaped, each.name)) for each in fields(cast("Any", shaped))}


def as_shape(shape: type[ShapeT], given: object, path: str) -> ShapeT:
    """The dataclass that an object names the fields of; `path` says where it stands.

    Raises:
        InvalidRequest: names the first place where it does not fit.
    """
    if not isinstance(given, dict):
        raise InvalidRequest(f"`{path}` must be an object.")
    wanted, found = _fields(shape), cast("dict[str, object]", given)
    if unlike := sorted(wanted.keys() ^ found.keys()):
        raise InvalidRequest(f"`{path}` has {'no' if unlike[0] in wanted else 'an unknown'} field {unlike[0][:40]!r}.")
    return shape(**{name: _read(wanted[name], found[name], _inside(path, name)) for name in wanted})


def _inside(path: str, name: str) -> str:
    """A record's own fields stand where the record does."""
    return path if name == path else f"{path}.{name}"


@cache
def _fields(shape: type) -> Mapping[str, Any]:
    return {each.name: each.type for each in fields(shape)}


def _value(value: Any) -> Json:
    if isinstance(value, tuple):
        return [_value(each) for each in cast("tuple[object, ...]", value)]
    return as_json(value) if is_dataclass(value) else value


def _read(wanted: Any, given: object, path: str) -> object:
    if wanted == Details:
        return _object(given, path)
    if get_origin(wanted) in (UnionType, Union):  # Only ever with None.
        return None if given is None else _read(get_args(wanted)[0], given, path)
    if get_origin(wanted) is Literal:
        return _one_of(get_args(wanted), given, path)
    if get_origin(wanted) is tuple:
        return _list(get_args(wanted)[0], given, path)
    if is_dataclass(wanted):
        return as_shape(cast("type[object]", wanted), given, path)
    return _plain(wanted, given, path)


def _object(given: object, path: str) -> object:
    if not isinstance(given, dict):
        raise InvalidRequest(f"`{path}` must be an object.")
    return cast("object", given)


def _one_of(names: tuple[str, ...], given: object, path: str) -> str:
    if given not in names:
        raise InvalidRequest(f"`{path}` must be one of {', '.join(names)}.")
    return cast("str", given)


def _list(wanted: Any, given: object, path: str) -> tuple[object, ...]:
    if not isinstance(given, list):
        raise InvalidRequest(f"`{path}` must be a list.")
    return tuple(_read(wanted, each, f"{path}[{place}]") for place, each in enumerate(cast("list[object]", given)))


def _plain(wanted: type, given: object, path: str) -> object:
    """A JSON number without a fraction is one all the same; a truth value is no number."""
    is_too_large = isinstance(given, int) and abs(given) >= 1 << 63
    if wanted is float and type(given) is int and not is_too_large:
        return float(given)
    if type(given) is not wanted or is_too_large:
        raise InvalidRequest(f"`{path}` must be {_SAID[wanted]}.")
    return given
