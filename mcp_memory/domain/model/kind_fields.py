"""What a kind needs beside its text, and how details are checked."""

from collections.abc import Callable, Mapping, Sequence

from mcp_memory.domain.model.records import Details, Json, Kind
from mcp_memory.errors import InvalidRequest

_TEXT, _TEXTS = "a text", "a list of texts"
KNOWN_DETAILS: Mapping[Kind, Mapping[str, str]] = {
    "procedure": {"name": _TEXT, "description": _TEXT},
    "censor": {"trigger": _TEXT, "reason": _TEXT, "action": "warn or block", "domain": _TEXT},
    "decision": {"reasons": _TEXTS, "alternatives": _TEXTS},
    "event": dict.fromkeys(("type", "path", "command", "stdout", "stderr", "message", "stack"), _TEXT),
}
"""Details with a fixed meaning, per kind. Others are kept as they are."""


def checked_details(kind: Kind, details: Details) -> dict[str, Json]:
    """The details, a single text where a list is meant made into one.

    Raises:
        InvalidRequest: a detail with a fixed meaning has another type.
    """
    checked = dict(details)
    for name, wanted in KNOWN_DETAILS.get(kind, {}).items():
        if name not in checked:
            continue
        value = checked[name]
        if wanted == _TEXTS and isinstance(value, str):
            checked[name] = value = [value]
        if not _fits(value, wanted):
            raise InvalidRequest(f"details.{name} of a {kind} must be {wanted}.")
    return checked


def map_strings(details: Details, change: Callable[[str], str]) -> dict[str, Json]:
    """The details with every text inside changed, names included."""

    def walk(value: Json) -> Json:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, Mapping):
            return {change(key): walk(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [walk(item) for item in value]
        return value

    return {change(key): walk(item) for key, item in details.items()}


def _fits(value: Json, wanted: str) -> bool:
    if wanted == _TEXT:
        return isinstance(value, str)
    if wanted == _TEXTS:
        return (
            isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value)
        )
    return value in ("warn", "block")
