"""Reads a call's arguments strictly, with one short sentence about what is wrong, and slims their schemas.

Knows no single tool.
"""

import math
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from mcp_memory.domain.text.control_characters import visible, whole_characters
from mcp_memory.entrypoints.server.json_lines import MAX_JSON_DEPTH, UNREADABLE
from mcp_memory.errors import InvalidRequest

MAX_ERROR_CHARS: Final = 300
_FIELD_NAME = re.compile(r"\w{1,40}", re.ASCII)

_PROBLEMS: Final = {
    "missing": "is required",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "finite_number": "must be a finite number",
    "literal_error": "must be one of {expected}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long: at most {max_length} characters; split it up",
    "too_short": "must not be empty",
    "too_long": "has too many items: at most {max_length}; split the call up",
    "value_error": "{error}",
    "extra_forbidden": "is not a known field",
}
"""Words for each kind of error; the rest is 'is not valid'. Never the value itself, but for a word in place of one of a
fixed list."""
_SHOWN_CHARACTERS: Final = 40

_IDLE_KEYWORDS = frozenset(
    {"title", "additionalProperties", "minLength", "maxLength", "minItems", "maxItems", "exclusiveMinimum"}
)
"""Keywords that are checked anyway and answered with a clear error."""
_NO_REAL_LIMIT = 1_000_000
_PLAIN_DEFAULTS: tuple[object, ...] = (None, "", False, [], {})


class Arguments(BaseModel):
    """Arguments of a tool, or an object inside them: nothing unknown, nothing converted, null taken as not given."""

    # What reads a tool's arguments is built at its first call, or for its schema.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        fields = cast("dict[str, object]", given)
        return {name: value for name, value in fields.items() if value is not None or name not in cls.model_fields}


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


def read_arguments(model: type[ArgumentsT], given: Mapping[str, Any]) -> ArgumentsT:
    """Read the arguments as the model.

    Raises:
        InvalidRequest: they do not fit; names the first field at fault and what to do, in at most 300 characters.
    """
    try:
        return model.model_validate(checked(given))
    except ValidationError as error:
        errors = error.errors(include_url=False)
    raise InvalidRequest(_explain(errors, model))


def checked(value: object, path: str = "", depth: int = 0) -> object:
    """Return the value with texts that can be stored and shown: U+FFFD replaces half of a surrogate pair.

    Control characters stay: the services take them out.

    Raises:
        InvalidRequest: a value inside could not be read, is no finite number, or is nested too deep; names the first.
    """
    where = f"`{path[:100]}`" if path else "The call"
    if isinstance(value, str):
        if value == UNREADABLE:
            raise InvalidRequest(f"{where} is nested too deep, or holds a number of too many digits. Simplify it.")
        return whole_characters(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequest(f"{where} must be a finite number.")
    if not isinstance(value, (Mapping, Sequence)):
        return value
    if depth > MAX_JSON_DEPTH:
        raise InvalidRequest(f"{where.partition('.')[0].strip('`')} is nested too deep. Flatten it.")
    if isinstance(value, Mapping):
        named = cast("Mapping[str, object]", value).items()
        return {whole_characters(key): checked(part, _join(path, key), depth + 1) for key, part in named}
    parts = cast("Sequence[object]", value)
    return [checked(part, f"{path}[{index}]", depth + 1) for index, part in enumerate(parts)]


def _explain(errors: Sequence[ErrorDetails], model: type[Arguments]) -> str:
    more = f" ({len(errors) - 1} more after that.)" if len(errors) > 1 else ""
    first = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    if first["type"] == "extra_forbidden":
        what = _unknown_field(first["loc"], model)
    else:
        what = f"`{path_of(first['loc'])}` {problem_of(first)}." if first["loc"] else f"{problem_of(first)}."
    return what[: MAX_ERROR_CHARS - len(more)] + more


def problem_of(error: ErrorDetails) -> str:
    """Return the words for an error, to stand behind the name of its field."""
    said = _PROBLEMS.get(error["type"], "is not valid").format(**error.get("ctx", {}))
    given = error.get("input")
    if error["type"] != "literal_error" or not isinstance(given, str):
        return said
    shown = " ".join(visible(given[: 2 * _SHOWN_CHARACTERS]).split())[:_SHOWN_CHARACTERS]
    return f"{said}, not {shown!r}"


def _unknown_field(location: Sequence[int | str], model: type[Arguments]) -> str:
    name = str(location[-1])
    shown = f"`{name}`" if _FIELD_NAME.fullmatch(name) else "of that name"
    parent = path_of(location[:-1])
    known = _model_at(location[:-1], model).model_fields
    near = get_close_matches(name.lower()[:40], known, 1)
    nearest = f"; the nearest is `{near[0]}`" if near else ""
    return f"There is no field {shown}{f' in `{parent}`' if parent else ''}{nearest}. Known: {', '.join(known)}."


def _model_at(location: Sequence[int | str], model: type[Arguments]) -> type[Arguments]:
    """Find the model of the object at a place among the arguments."""
    for step in location:
        if isinstance(step, str) and step in model.model_fields:
            model = _inner_model(model.model_fields[step].annotation) or model
    return model


def _inner_model(annotation: object) -> type[Arguments] | None:
    if isinstance(annotation, type) and issubclass(annotation, Arguments):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner_model(part))), None)


def path_of(location: Sequence[int | str]) -> str:
    """Return the place of an error, such as `items[2].text`."""
    path = ""
    for step in location:
        path = f"{path}[{step}]" if isinstance(step, int) else _join(path, step)
    return path


def _join(path: str, key: str) -> str:
    name = key if _FIELD_NAME.fullmatch(key) else "…"
    return f"{path}.{name}" if path else name


def slim_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema as short as it can be: a model reads all of them in every session.

    Definitions are put in place; titles, null, sizes and defaults that mean 'not given' are left out.
    """
    return cast("dict[str, Any]", _slim(schema, schema.get("$defs", {})))


def _slim(node: object, definitions: Mapping[str, Any]) -> object:
    if isinstance(node, list):
        return [_slim(part, definitions) for part in cast("list[object]", node)]
    if not isinstance(node, Mapping):
        return node
    schema = _without_null(_resolved(cast("Mapping[str, Any]", node), definitions))
    kept = {key: value for key, value in schema.items() if not _is_idle(key, value, schema)}
    return {
        key: {name: _slim(part, definitions) for name, part in value.items()}
        if key == "properties"
        else value
        if key in ("default", "enum", "required")
        else _slim(value, definitions)
        for key, value in kept.items()
    }


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    definition = definitions[reference.rpartition("/")[2]]
    return {**definition, **{key: value for key, value in schema.items() if key != "$ref"}}


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """An optional value's schema is that of the value: null is taken as not given, and needs no mention."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return schema
    return {**choices[0], **{key: value for key, value in schema.items() if key != "anyOf"}}


def _is_idle(key: str, value: object, schema: Mapping[str, Any]) -> bool:
    if key == "description":
        return "properties" in schema  # the docstring of a model, meant for the reader of its code
    if key in ("maximum", "minimum"):
        return value == 0 or abs(cast("float", value)) >= _NO_REAL_LIMIT
    return key in _IDLE_KEYWORDS or key == "$defs" or (key == "default" and value in _PLAIN_DEFAULTS)
