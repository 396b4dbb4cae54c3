"""Turns a RecordFilter into a WHERE clause over `records AS r`, with named parameters.

Only fields in use enter the clause, so that indexes stay usable. Values never do: they are parameters.
"""

import json
from collections.abc import Callable, Iterable, Mapping

from mcp_memory.domain.model.field_marks import Compares, Comparison, marked
from mcp_memory.domain.model.scopes import ISOLATED_KINDS, RecordFilter
from mcp_memory.domain.text.words import entity_key

Parameter = str | int | float | None

_COMPARED: Mapping[Comparison, str] = {
    "equal": "{column} = :{name}",
    "any of": "{column} IN (SELECT value FROM json_each(:{name}))",
    "none of": "({column} IS NULL OR {column} NOT IN (SELECT value FROM json_each(:{name})))",
    "from": "{column} >= :{name}",
    "before": "{column} < :{name}",
}
_EXPRESSIONS = {
    "author": "coalesce(nullif(r.rewritten_by, ''), r.agent)",
    "event_type": "CASE WHEN r.kind = 'event' THEN json_extract(r.details, '$.type') END",
}
"""No column: an author wrote the present text, or else stored it; a type stands in an event's details."""
_BY_HAND: Mapping[str, tuple[str, Callable[[RecordFilter], Parameter]]] = {
    "scopes": ("r.scope IN (SELECT value FROM json_each(:scopes))", lambda f: json.dumps(f.scopes)),
    "tags": (
        "r.row IN (SELECT row FROM record_tags WHERE tag IN (SELECT value FROM json_each(:tags)))",
        lambda f: _array(f.tags),
    ),
    "all_tags": (
        "r.row IN (SELECT row FROM record_tags WHERE tag IN (SELECT value FROM json_each(:all_tags))"
        " GROUP BY row HAVING count(DISTINCT tag) = json_array_length(:all_tags))",
        lambda f: _array(f.all_tags),
    ),
    "without_tags": (
        "r.row NOT IN (SELECT row FROM record_tags WHERE tag IN (SELECT value FROM json_each(:without_tags)))",
        lambda f: _array(f.without_tags),
    ),
    "entities": (
        # By name or alias, either way round; what an open branch calls it counts once the branch is closed.
        "EXISTS (SELECT 1 FROM mentions AS m JOIN entities AS e ON e.id = m.entity"
        " WHERE m.record_id = r.id AND e.name_key IN ("
        " WITH named (name, alias) AS (SELECT n.name_key, a.name_key"
        " FROM aliases AS a JOIN entities AS n ON n.id = a.entity JOIN records AS said ON said.id = a.record_id"
        " WHERE n.scope IN (SELECT value FROM json_each(:scopes)) AND said.status NOT IN ('inactive', 'retired')"
        " AND (said.branch_id IS NULL OR said.branch_id NOT IN"
        " (SELECT id FROM tasks WHERE branch AND status NOT IN ('complete', 'failed', 'abandoned'))))"
        " SELECT value FROM json_each(:entities)"
        " UNION SELECT name FROM named WHERE alias IN (SELECT value FROM json_each(:entities))"
        " UNION SELECT alias FROM named WHERE name IN (SELECT value FROM json_each(:entities))))",
        lambda f: _array(entity_key(name) for name in f.entities),
    ),
    "entity_types": (
        "EXISTS (SELECT 1 FROM mentions AS m JOIN entities AS e ON e.id = m.entity"
        " WHERE m.record_id = r.id AND e.type IN (SELECT value FROM json_each(:entity_types)))",
        lambda f: _array(f.entity_types),
    ),
    "session_id": (
        "r.row IN (SELECT row FROM records WHERE session_id = :session_id"
        " UNION ALL SELECT row FROM shared_lines WHERE session_id = :session_id)",
        lambda f: f.session_id,
    ),
    "own_of": (
        "(coalesce(nullif(r.rewritten_by, ''), r.agent) = :own_of OR r.visibility = 'user')",
        lambda f: f.own_of,
    ),
    "pinned": ("r.pinned", lambda f: int(f.pinned)),  # As the partial index has it.
    "noted_in": ("(r.status <> 'noted' OR r.agent || '/' || r.session_id = :noted_in)", lambda f: f.noted_in),
    "isolated_tasks": (
        "(r.task_id IS NULL OR r.task_id NOT IN (SELECT value FROM json_each(:isolated_tasks, '$.tasks'))"
        " OR r.kind NOT IN (SELECT value FROM json_each(:isolated_tasks, '$.kinds')))",
        lambda f: json.dumps({"tasks": sorted(f.isolated_tasks), "kinds": sorted(ISOLATED_KINDS)}),
    ),
    "exclude": ("r.id NOT IN (SELECT value FROM json_each(:exclude))", lambda f: _array(f.exclude)),
    "only": ("r.id IN (SELECT value FROM json_each(:only))", lambda f: _array(f.only or ())),
}
"""For each field that compares no column, by name: its condition and its parameter."""


def _compared(name: str, compares: Compares) -> tuple[str, Callable[[RecordFilter], Parameter]]:
    """Return the condition and the parameter of a field that compares a column."""
    column = _EXPRESSIONS.get(compares.column, f"r.{compares.column}")
    return _COMPARED[compares.how].format(column=column, name=name), lambda f: _parameter(getattr(f, name))


def _parameter(value: Parameter | frozenset[str]) -> Parameter:
    return _array(value) if isinstance(value, frozenset) else value


_CLAUSES = {
    **_BY_HAND,
    **{name: _compared(name, compares) for name, compares in marked(RecordFilter, Compares).items()},
}
_NO_CLAUSE = frozenset({"include_inactive", "passing"})
_SINGLE = {"scopes": "r.scope = json_extract(:scopes, '$[0]')", "kinds": "r.kind = json_extract(:kinds, '$[0]')"}


def where_clauses(where: RecordFilter) -> tuple[Mapping[str, str], dict[str, Parameter]]:
    """Return the parts `where` and `where_found` of a statement, and the filter's parameters.

    The second is the same for rows that something else finds: SQLite would try all rows of a session for each.
    """
    clause, parameters = _where_clause(where)
    return {"where": clause, "where_found": clause.replace("r.row IN", "+r.row IN")}, parameters


def _where_clause(where: RecordFilter) -> tuple[str, dict[str, Parameter]]:
    """Return the clause and its parameters. An empty `only` passes nothing; any other empty field passes everything."""
    asked = {name: _CLAUSES[name] for name in ("scopes", *where.in_use) if name not in _NO_CLAUSE}
    # Of one scope and one kind, rows come in the order of an index; of several they have to be sorted.
    single = {name: sql for name, sql in _SINGLE.items() if len(getattr(where, name)) == 1}
    clauses = [single.get(name, sql) for name, (sql, _) in asked.items()]
    if not where.include_inactive:
        clauses.append("r.status NOT IN ('inactive', 'retired')")
    return " AND ".join(clauses), {name: value(where) for name, (_, value) in asked.items()}


def _array(values: Iterable[str]) -> str:
    return json.dumps(sorted(values))
