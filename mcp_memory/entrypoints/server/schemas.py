"""Input schemas as short as they can be: a model reads all of them in every session. Knows no tool."""

from collections.abc import Mapping
from typing import Any, cast

_SAYS_NOTHING = frozenset(
    {"title", "additionalProperties", "minLength", "maxLength", "minItems", "maxItems", "exclusiveMinimum"}
)
"""What is checked anyway and answered with a clear error."""
_NO_REAL_LIMIT = 1_000_000
_PLAIN_DEFAULTS: tuple[object, ...] = (None, "", False, [], {})


def slim_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with definitions put in place, and without titles, null, sizes and defaults that mean 'not given'."""
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
    return key in _SAYS_NOTHING or key == "$defs" or (key == "default" and value in _PLAIN_DEFAULTS)
