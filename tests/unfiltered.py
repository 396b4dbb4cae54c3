"""Takes what asks for scopes out of every statement, by hand: what is found then, the walls let pass."""

from __future__ import annotations

import json
import re

import pytest

from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.stores.records import sql_files, where_clause

CONDITION = re.compile(
    r"\b(?:\w+\.)?scope (= ANY \(%\(list_scopes\)s::text\[\]\)|= json_extract\(%\(scopes\)s, '\$\[0\]'\))"
)
"""What a statement asks of scopes."""


def take_filter_out(patch: pytest.MonkeyPatch) -> None:
    """Let no statement of PostgreSQL's ask for scopes any more."""
    original = sql_files.postgres_statement

    def unfiltered(name: str, parts: tuple[tuple[str, str], ...] = ()) -> str:
        return CONDITION.sub("TRUE", original(name, parts))

    def scopes_of(where: RecordFilter) -> str:
        return json.dumps(where.scopes)

    for module in ("postgres_connection", "postgres_journeys"):
        patch.setattr(f"mcp_memory.stores.records.{module}.postgres_statement", unfiltered)
    patch.setitem(where_clause._CLAUSES, "scopes", ("TRUE", scopes_of))  # noqa: SLF001
    patch.delitem(where_clause._SINGLE, "scopes")  # noqa: SLF001
    for scopes in (("a",), ("a", "b")):
        assert "scope" not in where_clause.where_clauses(RecordFilter(scopes=scopes))[0]["where"]
