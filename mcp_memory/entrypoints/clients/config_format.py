"""The seam between what is written and how: a client's file as text. Knows neither JSON nor TOML."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

Table: TypeAlias = Mapping[str, object]
"""A parsed object: strings, numbers, truths, None, lists and further tables (TOML: also dates)."""


class NotEditable(Exception):
    """The text is not what the notation says, or an edit would change more than one entry. Says why."""


def servers_in(document: Table, key: str) -> Table:
    """The servers of a file, by name; none where the key is not there. Raises NotEditable."""
    servers = as_table(document.get(key, {}))
    if servers is None:
        raise NotEditable(f"`{key}` holds something other than servers")
    return servers


def as_table(value: object) -> Table | None:
    """A parsed value as the table that it is, or None."""
    return cast(Table, value) if isinstance(value, Mapping) else None


def check_edit(read: Callable[[str], Table], before: str, after: str, key: str, name: str, entry: object) -> str:
    """The text after an edit, if it says what the one before said, but for the entry. Raises NotEditable."""
    former = read(before)
    try:
        now = read(after)
        is_right = _others(former, key, name) == _others(now, key, name) and servers_in(now, key).get(name) == entry
    except NotEditable:
        is_right = False
    if not is_right:
        raise NotEditable("it is written in a way that cannot be edited safely")
    return after


def _others(document: Table, key: str, name: str) -> tuple[Table, Table]:
    """Return what an edit must not touch: the rest of the file, and the other servers."""
    servers = {server: value for server, value in servers_in(document, key).items() if server != name}
    return {field: value for field, value in document.items() if field != key}, servers
