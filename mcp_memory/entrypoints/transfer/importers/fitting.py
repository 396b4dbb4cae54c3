"""Cuts what importers read to what a call of `remember` may store, and counts what it cuts."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Final, TypeVar

from mcp_memory.domain.model.limits import MAX_NAME_CHARS, MAX_TAG_CHARS, MAX_TAGS, MAX_TEXT_CHARS
from mcp_memory.domain.model.records import Entity, Json, NewRecord, Relation

LinkT = TypeVar("LinkT", Entity, Relation)
MAX_IMPORTED_LINKS: Final = 100
CUT: Final = "… [cut]"
SHORTENED: Final = "ends of records that were too long"
SHORT_NAMES: Final = "ends of names that were too long"
FEWER_TAGS: Final = "tags that were too many or too long"


def short_name(name: str, left_out: Counter[str]) -> str:
    """The name of what a whole file or line is about, or its type, as long as `remember` takes one; a cut is counted.

    It is cut where it is read, as each record that is made of the file repeats it: a name of 300,000 characters with
    300 observations would make 90 million.
    """
    left_out.update([SHORT_NAMES] if len(name) > MAX_NAME_CHARS else [])
    return name[:MAX_NAME_CHARS]


def few_tags(tags: Iterable[str], left_out: Counter[str]) -> tuple[str, ...]:
    """The tags of a whole file, as many and as long as `remember` takes them; each that was cut or left is counted."""
    distinct = dict.fromkeys(tags)
    few = tuple(islice(dict.fromkeys(tag[:MAX_TAG_CHARS] for tag in distinct), MAX_TAGS))
    if cut := len(distinct) - sum(tag in distinct for tag in few):
        left_out[FEWER_TAGS] += cut
    return few


def fitted(items: Iterator[NewRecord], server: str, left_out: Counter[str]) -> Iterator[NewRecord]:
    """Yield the items, none of them holding more than a call could store; those that were shortened are counted.

    Each names its importer as its session, so that a second run finds every text known and confirms none.
    """
    for item in items:
        fit = _fit(item)
        left_out.update([SHORTENED] if fit != item else [])
        yield replace(fit, session_id=f"import-{server}")


def _fit(item: NewRecord) -> NewRecord:
    text = item.text
    return replace(
        item,
        text=text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - len(CUT)] + CUT,
        tags=tuple(dict.fromkeys(tag[:MAX_TAG_CHARS] for tag in item.tags[:MAX_TAGS])),
        entities=tuple(_short_names(each) for each in item.entities[:MAX_IMPORTED_LINKS]),
        relations=tuple(_short_names(each) for each in item.relations[:MAX_IMPORTED_LINKS]),
        details={name: _short(value) for name, value in item.details.items()},
    )


def _short_names(link: LinkT) -> LinkT:
    """Cut the names of an entity or a relation; other fields stay."""
    names = {each.name: value for each in fields(link) if isinstance(value := getattr(link, each.name), str)}
    return replace(link, **{name: value[:MAX_NAME_CHARS] for name, value in names.items()})


def _short(value: Json) -> Json:
    """A detail of an importer's: a text, or a list of texts."""
    if isinstance(value, list):
        return [_short(each) for each in value[:MAX_IMPORTED_LINKS]]
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) else value
