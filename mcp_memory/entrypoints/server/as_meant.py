"""Understands arguments that clients send in another form than the schema says, before they are validated.

Taken are numbers and truth values as strings, whole floats, one value for a list, JSON text for lists and objects, and
common names of fields and kinds. What could mean two things is refused; what is nothing of these stays as it came, for
the validation to refuse. Knows no tool by name: it walks the model of a tool's arguments.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from pydantic import BaseModel, JsonValue

from mcp_memory.errors import InvalidRequest

Notes: TypeAlias = list[str]

FIELD_NAMES: Final[Mapping[str, str]] = {
    "content": "text",
    "memory": "text",
    "note": "text",
    "records": "items",
    "memories": "items",
    "budget": "max_tokens",
    "token_budget": "max_tokens",
    "kind": "kinds",
    "id": "ids",
    "tag": "tags",
    "entity": "entities",
    "top_k": "limit",
    "k": "limit",
}
"""Names that other memories have for a field, where a tool has that field and none of the other name."""
KIND_NAMES: Final[Mapping[str, str]] = {
    "preference": "identity",
    "profile": "identity",
    "rule": "censor",
    "guardrail": "censor",
    "constraint": "censor",
    "warning": "censor",
    "note": "fact",
    "lesson": "fact",
    "event_log": "event",
    "howto": "procedure",
    "how_to": "procedure",
    "incident": "episode",
}
_TO_DO: Final = frozenset({"todo", "to_do"})
_KINDS_MARK: Final = frozenset({"fact", "censor", "identity"})
"""Words among which a list of words is that of the kinds."""
MOST_NOTES: Final = 12
_EMPTY: Final[Sequence[object]] = (None, "", [], ())
# e.g. "r000001", an id of a record or a task
_ID = re.compile(r"(?=[a-z]*\d[a-z]*\d)[a-z][0-9a-z]{6,12}")
# e.g. "3", "-2", "3.0"
_WHOLE = re.compile(r"[+-]?\d{1,15}(?:\.0{1,15})?", re.ASCII)
# e.g. "0.5", ".5", "7", "1e-3"
_NUMBER = re.compile(r"[+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,2})?", re.ASCII)
# e.g. "[wip] exports", which is a name; "[a" and "[a]" may be a list
_HEADED = re.compile(r"\[[^\[\]{}\"]{1,100}\]\s{0,9}[^\s,\]}]")
_MOST = 10**15
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]", re.ASCII)


def as_meant(model: type[BaseModel], given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the arguments as the model has them, and a sentence on how they were understood; "" where as they stand.

    Raises:
        InvalidRequest: two fields say different things of the same, or a kind is kept elsewhere.
    """
    notes: Notes = []
    meant = _object(model, given, notes)
    told = list(dict.fromkeys(notes))[:MOST_NOTES]
    return meant, f"Understood: {', '.join(told)}." if told else ""


def _object(model: type[BaseModel], given: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    fields = _by_known_names(model, given, notes)
    for name, value in fields.items():
        if name in model.model_fields:
            fields[name] = _value(name, _types(model.model_fields[name].annotation), value, notes)
    return fields


def _by_known_names(model: type[BaseModel], given: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    named: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    for name, value in given.items():
        known = _known_name(model, name)
        if known in named and value not in _EMPTY and named[known] not in _EMPTY and not _same(named[known], value):
            one, other = (said_by[known], name) if said_by[known] != known else (name, known)
            raise InvalidRequest(f"`{one}` means `{known}` here, and says something else than `{other}`. Give one.")
        if known not in named or named[known] in _EMPTY:
            named[known], said_by[known] = value, name
    notes += [f"`{name}` as `{known}`" for known, name in said_by.items() if known != name]
    return named


def _known_name(model: type[BaseModel], name: str) -> str:
    """Return the field that a name means; the name itself where it means none."""
    if name in model.model_fields:
        return name
    plain = _HUMP.sub(lambda hump: f"_{hump[0].lower()}", name)
    return next((each for each in (plain, FIELD_NAMES.get(plain, "")) if each in model.model_fields), name)


def _same(one: Any, other: Any) -> bool:
    return one == other or [one] == other or one == [other] or str(one) == str(other)


class _Types:
    """The types that a field takes: plain ones, words, and what a list or an object in it holds."""

    def __init__(self, annotation: Any) -> None:
        self.plain: set[type] = set()
        self.words: list[str] = []
        self.items: Any = None
        self.model: type[BaseModel] | None = None
        self._add(annotation)

    def _add(self, annotation: Any) -> None:
        origin: Any = get_origin(annotation)
        inner = get_args(annotation)
        if origin is Annotated:
            self._add(inner[0])
        elif origin is Literal:
            self.words += [word for word in inner if isinstance(word, str)]
        elif origin is tuple:
            self.items = inner[0]
        elif origin is dict:
            self.plain.add(dict)
        elif inner and origin is not None and (origin is Union or origin.__name__ == "UnionType"):
            for each in inner:
                self._add(each)
        elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
            self.model = annotation
        elif annotation in (str, int, float, bool):
            self.plain.add(annotation)
        elif annotation is JsonValue:
            self.plain |= {dict, list}


_known: dict[int, tuple[Any, _Types]] = {}


def _types(annotation: Any) -> _Types:
    """Return what an annotation takes; kept, as the models are few and live as long as the process."""
    found = _known.get(id(annotation))
    if found is None or found[0] is not annotation:
        found = _known[id(annotation)] = (annotation, _Types(annotation))
    return found[1]


def _value(name: str, types: _Types, value: Any, notes: Notes) -> Any:
    if types.items is not None:
        return _list(name, types.items, value, notes)
    if types.model is not None:
        opened = _opened(value, "{")
        return _object(types.model, cast("dict[str, Any]", opened), notes) if isinstance(opened, dict) else opened
    openings = ("{" if dict in types.plain else "") + ("[" if list in types.plain else "")
    if (opened := _opened(value, openings)) is not value:
        return opened
    if isinstance(value, str) and types.words:
        return _word(name, types.words, value, notes)
    if str in types.plain or isinstance(value, bool):
        return value
    meant = _scalar(types.plain, value)
    if meant is not value:
        notes.append(f"`{name}` as {json.dumps(meant)}")
    return meant


def _list(name: str, item: Any, value: Any, notes: Notes) -> Any:
    opened: Any = _opened(value, "[{")
    types = _types(item)
    if isinstance(opened, str):
        if not opened.strip():
            return []
        is_text = bool(types.words) or str in types.plain or bool(_text_field(types))
        if not is_text or _is_cut_off(opened):
            return opened
        parts = [part.strip() for part in opened.split(",")]
        is_words = len(parts) > 1 and all(_ID.fullmatch(part) or _known_word(types.words, part) for part in parts)
        opened = parts if is_words else [opened]
        notes.append(f"`{name}` as a list")
    elif types.model is not None and isinstance(opened, dict):
        opened = [cast("object", opened)]
        notes.append(f"`{name}` as a list")
    if isinstance(opened, (list, tuple)):
        return [_item(name, types, each, notes) for each in cast("Sequence[Any]", opened)]
    return opened


def _item(name: str, types: _Types, value: Any, notes: Notes) -> Any:
    """Return an item of a list; one string for an object is the only text that it has to have: "Ann", {name: Ann}."""
    if isinstance(value, str) and not _is_cut_off(value) and (field := _text_field(types)):
        notes.append(f"a text in `{name}` as `{field}`")
        return {field: value}
    return _value(name, types, value, notes)


def _text_field(types: _Types) -> str:
    """Return the one field that an object has to have, where that is a text; "" where there is none or more."""
    if types.model is None or str in types.plain or types.words:
        return ""
    required = [(name, field) for name, field in types.model.model_fields.items() if field.is_required()]
    texts = [name for name, field in required if _types(field.annotation).plain == {str}]
    return texts[0] if texts and len(required) == 1 else ""


def _opened(value: Any, openings: str) -> Any:
    """Return the list or the object that a text of JSON holds; the value itself where it is none."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {*openings}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _is_cut_off(text: str) -> bool:
    """Return True for what may be JSON that was cut off, and so no name."""
    text = text.lstrip()
    return text.startswith(("[", "{")) and not _HEADED.match(text)


def _scalar(plain: set[type], value: Any) -> Any:
    text = value.strip() if isinstance(value, str) else ""
    if bool in plain and text.lower() in ("true", "false"):
        return text.lower() == "true"
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _MOST
    if int in plain and (is_whole or _WHOLE.fullmatch(text)):
        return int(float(text or value))
    if float in plain and _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return value


def _known_word(words: Sequence[str], value: str) -> str:
    """Return the word that a value means, "" for none: in another case, in the plural, or another name of a kind."""
    plain = re.sub(r"[\s-]+", "_", value.strip().lower())
    by_plain = {word.replace("-", "_"): word for word in words}
    for each in (plain, plain.removesuffix("s")):
        if each in by_plain:
            return by_plain[each]
        if {*words} >= _KINDS_MARK and each in KIND_NAMES:
            return KIND_NAMES[each]
    return ""


def _word(name: str, words: Sequence[str], value: str, notes: Notes) -> str:
    if value in words:
        return value
    plain = re.sub(r"[\s-]+", "_", value.strip().lower()).removesuffix("s")
    if plain in _TO_DO and {*words} >= _KINDS_MARK:
        raise InvalidRequest(f"`{name}` {value.strip()[:20]}: push_task (plan) keeps what is to be done.")
    if not (known := _known_word(words, value)):
        return value
    notes.append(f"`{name}` {value.strip()} as {known}")
    return known
