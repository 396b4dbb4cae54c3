"""Named SQL: reads `sql/*.sql`, where a line `-- name: x` begins each statement.

A statement is SQLite's. PostgreSQL takes most of them by a few rules; those below a line `-- postgres` are its own.
A line `-- beyond: why` stands in a statement that reads beyond the scopes of the request, or above all that do so.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from mcp_memory.stores.records.rows import RECORD_PARTS

MIGRATED = "migrated"
"""Name in `meta` of what the last migrations counted, for people."""
ENTERED = "entered"
"""Name in `meta` of the newest number and row that an import into the empty memory brought, and its time."""
# e.g. "{lines_of_session}", a statement; "{order}" is filled in by who runs it
_PART = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)  # e.g. "-- name: get_meta"
_OTHER = "-- postgres\n"
_BEYOND = re.compile(r"^-- beyond\b", re.MULTILINE)  # e.g. "-- beyond: ids alone"
_CHANGES = re.compile(r"\s*(INSERT|UPDATE|DELETE)\b")
_RULES = (
    (re.compile(r"--[^\n]*"), ""),
    # What SQLite's planner is told, e.g. "INDEXED BY records_by_kind": PostgreSQL goes by its statistics.
    (re.compile(r"INDEXED BY \w+|NOT INDEXED"), ""),
    (re.compile(r"\bCROSS JOIN\b(?! LATERAL)"), "JOIN"),  # e.g. "near CROSS JOIN tasks AS t ON t.id = near.id"
    # Flags that are conditions, as SQLite's partial indexes have them, e.g. "WHERE branch".
    (re.compile(r"\bWHERE (g\.settled_in|branch)\b"), r"WHERE \1 <> 0"),
    (re.compile(r"\bAND r\.pinned\b(?! *[<=>])"), "AND r.pinned <> 0"),
    # The bytes of a text, e.g. "length(CAST(r.text AS BLOB))".
    (re.compile(r"length\(CAST\(((?:[^()]|\([^()]*\))*) AS BLOB\)\)"), r"octet_length(\1)"),
    # Lists as arrays, which the planner looks into, e.g. "r.scope IN (SELECT value FROM json_each(:scopes))".
    (re.compile(r"\bNOT IN \(SELECT value FROM json_each\((:\w+|\?\d*)\)\)"), r"<> ALL (\1::text[])"),
    (re.compile(r"\bIN \(SELECT value FROM json_each\((:\w+|\?\d*)\)\)"), r"= ANY (\1::text[])"),
    (re.compile(r"\bIN \(SELECT CAST\(value AS INTEGER\) FROM json_each\((:\w+|\?)\)\)"), r"= ANY (\1::bigint[])"),
    # Ids that are joined, e.g. "FROM json_each(:ids) AS i CROSS JOIN records AS r ON r.id = i.value".
    (re.compile(r"\bjson_each\((:ids|\?)\) AS (\w+)\b"), r"unnest(\1::text[]) AS \2 (value)"),
    # A list has a name of its own, as the same parameter may be read as JSON, too. E.g. ":scopes::text[]".
    (re.compile(r":(\w+)(?=::(?:text|bigint)\[\])"), r":list_\1"),
    (re.compile(r"\?(\d+)(?=::(?:text|bigint)\[\])"), r":list_p\1"),
    # The newest by scope alone, e.g. "ORDER BY r.row DESC LIMIT 10": by the key of rows PostgreSQL would pass by all
    # that others have stored since, for it takes a scope's rows to lie evenly among the others.
    (re.compile(r"\br\.row DESC(\s+LIMIT\b)"), r"(r.row + 0) DESC\1"),
    (re.compile(r"%"), "%%"),
    (re.compile(r"(?<![:\w]):(\w+)"), r"%(\1)s"),  # e.g. ":scope"
    (re.compile(r"\?(\d+)"), r"%(p\1)s"),  # e.g. "?4"
    (re.compile(r"\?"), "%s"),
)
"""The rules that make a statement of SQLite's one of PostgreSQL's, in this order."""


def statement(name: str, **parts: str) -> str:
    """Return the statement of that name, with the statements that it names as parts, and the fields of a record.

    `parts` replace its other markers, e.g. `where` that named `{where}`. Raises KeyError, a defect, where there is
    none, or where two have one name.
    """
    sql = _joined(name)
    for part, words in parts.items():
        sql = sql.replace(f"{{{part}}}", words)
    return sql


def names() -> Sequence[str]:
    """Return the names of all statements."""
    return sorted(_all_statements())


@cache
def is_beyond(name: str) -> bool:
    """Return True for a statement that reads beyond the scopes of the request that it works for."""
    return name in _all_beyond()


@cache
def is_change(name: str) -> bool:
    """Return True for a statement that changes rows."""
    return _CHANGES.match(postgres_statement(name)) is not None


@lru_cache(maxsize=1_024)
def postgres_statement(name: str, parts: tuple[tuple[str, str], ...] = ()) -> str:
    """Return the same for PostgreSQL, with its placeholders; a number `?4` is the parameter `p4`."""
    sql = _joined(name, is_postgres=True)
    for part, words in parts:
        sql = sql.replace(f"{{{part}}}", words)
    for pattern, words in _RULES:
        sql = pattern.sub(words, sql)
    return sql.strip().rstrip(";")


@cache
def _joined(name: str, *, is_postgres: bool = False) -> str:
    every = _all_statements()
    sql = _PART.sub(
        lambda part: _joined(part[1], is_postgres=is_postgres) if part[1] in every else part[0],
        every[name][is_postgres and len(every[name]) > 1],
    )
    for part, names in RECORD_PARTS.items():
        sql = sql.replace(part, names)
    return sql


@cache
def scripts_in(folder: str) -> tuple[str, ...]:
    """Return the numbered scripts of a folder beside `sql/`, in their order."""
    entries = (entry for entry in _beside(folder).iterdir() if entry.name.endswith(".sql"))
    return tuple(entry.read_text("utf-8") for entry in sorted(entries, key=lambda entry: entry.name))


@cache
def _all_statements() -> dict[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for entry in _beside("sql").iterdir():
        parts = _NAME.split(entry.read_text("utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise KeyError(f"{entry.name} names a statement {name!r}, as another one is named.")
            found[name] = [each.strip() for each in body.split(_OTHER)]
    return found


@cache
def _all_beyond() -> frozenset[str]:
    found: set[str] = set()
    for entry in _beside("sql").iterdir():
        head, *parts = _NAME.split(entry.read_text("utf-8"))
        named = zip(parts[::2], parts[1::2], strict=True)
        found |= {name for name, body in named if _BEYOND.search(head) or _BEYOND.search(body)}
    return frozenset(found)


def _beside(folder: str) -> Traversable:
    return files(__name__.rpartition(".")[0]) / folder
