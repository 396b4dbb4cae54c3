"""What PostgreSQL reads for each statement: rows of the scope or the ids that it names, however much others store."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.walls import within
from mcp_memory.stores.records import sql_files
from mcp_memory.stores.records.database import Parameters
from mcp_memory.stores.records.database_postgres import PostgresDatabase
from mcp_memory.stores.records.postgres_journeys import given as with_lists
from mcp_memory.stores.records.pushed_vectors import DEEP
from mcp_memory.stores.records.store import _CHANGED_SINCE, _OF_PARTITION
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from mcp_memory.stores.records.walls_postgres import STAND, place_of
from mcp_memory.stores.records.where_clause import where_clauses
from tests.postgres import EXPANDED, expand, has_pgvector, require_pgvector, walled_database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")

LARGE, SMALL, SCOPES = 1_500, 20, 275
"""Records of the one large scope, of each small one, and how many small ones there are."""
ALL = LARGE + SMALL * SCOPES
DIMENSIONS = 100
MOST_OF_SMALL, MOST_OF_LARGE = 10 * SMALL, 3 * LARGE
"""Rows that a part of a plan may read for a scope. A scope's rows may be in a dozen tables, but not all of a table."""
OF_ALL: Mapping[str, str] = {
    "an index that begins reads all of its part": "index_all_vectors index_scopes",
    "every index reads every vector again": "touch_all_changes",
    "counts all, by its name": "count_all",
    "embeds all anew, or looks for what was lost": "lacking unembedded none_awaits_vectors drop_other_vectors",
    "upkeep of all scopes": "to_maintain expired agents_at_work",
    "telemetry grows old in all scopes": "prune_assemblies prune_contexts prune_pass_runs forget_calls",
    "a person erases in a scope that has a fifth of all": "maybe_quoting_mentions strip_extracted_versions",
    "words by a new rule, some at a time, and a check of the whole memory": (
        "terms_after count_orphans drop_orphans every_tombstone"
    ),
    "a person looks at all projects, or says which folders they have": (
        "shared_namespaces count_live last_changes count_private_of_others list_folders list_project_folders"
        " revoke_folder folders_of private_scopes"
    ),
    "a person exports a project": "leaving_reviews leaving_tombstones leaving_sessions leaving_undone_summaries",
    "a person renames a project": (
        "move_assemblies move_namespace_of_versions move_scope_of_versions move_shared_lines move_tombstones"
        " drop_shared_lines move_moves drop_moves move_exclusions depart_all"
    ),
    "an import has filled the empty memory": "fill_partitions",
    "an erasure forgets every block, whichever may show what is erased": "forget_shown_contexts forget_blocks",
    "one short row for each partition": "progress touch_all_partitions list_quotas",
    "`doctor` compares what is pushed, and drops it": "compare_pushed drop_pushed_scopes drop_all_pushed",
    "a record has several rows among what is pushed": "count_pushed drop_pushed_vectors",
    "few groups wait for a review": "waiting_reviews settled_reviews",
    "few records wait for their vectors": "count_awaiting_in awaiting_vectors_in",
}
"""Statements that read more than a scope, by the reason."""
VALUES_OF_COLUMNS = {
    "change": "since",
    "created_at": "at",
    "valid_until": "at",
    "superseded_by": "id",
    "vouched": "write",
}
"""The parameter that stands for a column where a statement numbers its parameters."""
_TYPED = ("nearest_pushed", "compare_pushed")
"""Statements with a type of pgvector's."""
_FOLLOWS = re.compile(r"\{(changed|of_changed|of_scopes)\}")  # What an index follows: the memory, or a partition.
_MARK = re.compile(r"%(\(\w+\))?s")
_OLD = re.compile(r"\b(id|entity|source|target|namespace) = %\((?:old|new)\)s")
_OF_OLD = {"namespace": "namespace"}
_OWN: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "fill_partitions": lambda _: {"last_write": "w"},
    "nearest_pushed": lambda _: {"vector": str([0.1] * DIMENSIONS)},
    "push_more": lambda given: {"after": given["row"]},
    "keep_shown_texts": lambda given: {"revision": given["change"], "shown": '[["r1", "d1"]]'},
    "prune_shown_contexts": lambda _: {"until": 0.0},
    "prune_shown_texts": lambda _: {"until": 0.0},
    "task_changes": lambda given: {"p2": given["task_ids"], "p3": 10},
    "terms_after": lambda given: {"after": given["row"]},
}
"""Parameters that mean something else in one statement."""
_COMPARED = re.compile(r"(\w+)\s*(?:=|<=|>=|<>|<|>)\s*$")


def values(namespace: str, first: int) -> dict[str, Any]:
    """Parameters by their names, about the records from a number on."""
    scope, ids, thing = f"shared/{namespace}", [f"r{first + number}" for number in (2, 5, 9)], (first + 5) // 5 * 5
    task = f"t{(first + 9) // 10 * 10}"
    return {
        "namespace": namespace, "scope": scope, "scopes": json.dumps([scope, f"private/a0/{namespace}", "user"]),
        "agent": "a0", "session_id": f"s{(first + 9) // 10}", "sessions": json.dumps([f"s{(first + 9) // 10}"]),
        "ids": json.dumps(ids), "id": ids[1], "record_id": ids[1], "ground_id": ids[0], "row": first + 5, "change": ALL,
        "write": first + 5, "since": ALL - 5, "until": ALL, "before": ALL, "at": 5.0, "stored_since": 0.0, "limit": 10,
        "task_id": task, "task_ids": json.dumps([task]), "digest": f"c{first + 3}", "normal_digest": f"h{first + 3}",
        "pairs": json.dumps([[scope, f"c{first + 3}"]]), "keys": json.dumps([f"e{thing}"]), "name_key": f"e{thing}",
        "type": "thing", "entity": thing, "found_by": json.dumps(ids), "compaction": 1, "replacement": thing,
        "replaced": json.dumps([thing]), "message_ids": json.dumps([f"m{first + 2}"]), "message_id": f"m{first + 2}",
        "embedder": "model", "kind": "fact", "statuses": '["new"]', "words": '["text"]', "word": "text",
        "tags": '["a"]',
        "old": scope, "new": "shared/new", "after": ids[0], "review": f"g{thing}", "looked_at": 1_000,
        "most_steps": 5, "most_paths": 2_000, "most": 10, "each": 3, "look_back": 50, "of_all": 0, "hidden": "[]",
        "whatever_status": 1, "changed": 1, "seconds": 10.0, "entered_row": 0, "entered_at": 0.0, "naming": "x",
        "offset": 0, "name": "x", "folder": f"/{namespace}", "tools": '["x"]', "key": "k10", "revision": "v",
        "partition": f"namespace/{namespace}", "names": json.dumps([f"namespace/{namespace}", "user"]),
        "digests": json.dumps([f"d{first + 2}"]), "request": f"q{first + 5}", "client": "",
        "is_two": 0, "role": "", "call_id": "", "p1": namespace, "p2": "a0", "p3": "", "p4": task, "dropped": first + 5,
    }  # fmt: skip


@cache
def database() -> Mapping[str, str]:
    """The addresses of one filled memory, whose owner no wall holds, and its role for upkeep."""
    walled = walled_database()
    opened(walled).close()
    if EXPANDED in os.environ:
        expand(walled["owner_url"])
    sql = Path(__file__).with_name("many_scopes.sql").read_text("utf-8")
    for name, value in (("large", LARGE), ("small", SMALL), ("all", ALL)):
        sql = sql.replace(f":{name}", str(value))
    with psycopg.connect(walled["owner_url"], autocommit=True) as connection:
        connection.execute(sql.encode())
    if has_pgvector():
        push(walled["owner_url"])
    return walled


def opened(walled: Mapping[str, str]) -> PostgresDatabase:
    return PostgresDatabase(walled["database_url"], walled["migrate_url"], walled["upkeep_role"])


@pytest.fixture(params=["", "memory_upkeep"], ids=["without walls", "within walls"])
def role(request: pytest.FixtureRequest) -> str:
    """The role for upkeep, where walls stand."""
    return request.param


def push(url: str) -> None:
    """Push a small scope, and so many vectors of the large one that an index pays."""
    with closing(PostgresRecordStore(url, "model")) as records:
        records.pushed_vectors().fill(f"shared/small{SCOPES // 2}", "model", lambda: False)
    made = f"(SELECT array_agg(random() - 0.5) FROM generate_series(1, {DIMENSIONS} + 0 * r.row + 0 * place))"
    with psycopg.connect(url, autocommit=True) as connection:
        index = connection.execute("SELECT pg_get_indexdef('pushed_vectors_near'::regclass)").fetchone()
        assert index is not None
        connection.execute("DROP INDEX pushed_vectors_near")
        # A page holds as few as it would of 1,500 dimensions, whose index would take long to make.
        connection.execute("ALTER TABLE pushed_vectors SET (fillfactor = 10)")
        connection.execute("INSERT INTO pushed_scopes VALUES ('shared/large', 'model', TRUE)")
        connection.execute(
            f"INSERT INTO pushed_vectors (row, place, scope, vector) SELECT r.row, place, r.scope, {made}"
            " FROM records AS r, generate_series(1, 2) AS place WHERE r.scope = 'shared/large'".encode()
        )
        connection.execute(index[0])
        connection.execute("VACUUM ANALYZE pushed_vectors")


@pytest.fixture
def connection(role: str) -> Iterator[psycopg.Connection[Any]]:
    url = database()["database_url" if role else "owner_url"]
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as opened:
        # As on a disk without moving parts: by default a small table is read as a whole rather than by its index.
        opened.execute("SET random_page_cost = 1.1")
        yield opened


def stand(connection: psycopg.Connection[Any], name: str, given: Mapping[str, Any], role: str) -> None:
    """Let the transaction stand where a server lets this statement stand, within the scopes that are asked for."""
    with within(tuple(json.loads(given["scopes"]))):
        place = place_of(name.partition(" ")[0], role) if role else None
    if place:
        connection.execute(STAND, place)


def statements(given: Mapping[str, Any]) -> Iterator[tuple[str, str, Parameters]]:
    """Each statement that reads a table, as it is run for this scope: name, text and parameters."""
    parts, filtered = where_clauses(RecordFilter(scopes=tuple(json.loads(given["scopes"]))))
    parts = {**parts, "columns": "r.id, r.text"}
    # The store asks for them scope by scope.
    of_one = {**parts, "where": "r.scope = :scope", "order": "r.row DESC", "index": ""}
    is_large = given["namespace"] == "large"
    for name, parted in ((name, each) for name in sql_files.names() for each in (_CHANGED_SINCE, _OF_PARTITION)):
        plain, every = sql_files.postgres_statement(name), {**(of_one if name == "list_ids" else parts), **parted}
        if parted is _OF_PARTITION and (name == "index_erasures" or not _FOLLOWS.search(plain)):
            continue
        if name in _TYPED and not has_pgvector():
            continue
        # An index begins with all of a partition; of a fifth of the memory it may read all.
        since = {"since": 0} if parted is _OF_PARTITION and not is_large else {}
        sql = sql_files.postgres_statement(name, tuple(every.items()))
        if re.match(r"(?i)(SELECT|UPDATE|DELETE|WITH|INSERT(?!.*\bVALUES\b))\b", sql.strip().replace("\n", " ")):
            named = _OLD.sub(
                lambda found: f"{found[1]} = %({_OF_OLD.get(found[1], 'entity')})s", _MARK.sub(_by_column, sql)
            )
            if name in ("covers", "drop_replacements", "drop_unmentioned_entities"):
                named = named.replace("%(list_ids)s", "%(list_replaced)s")
            wanted = {each[1:-1].removeprefix("list_") for each in _MARK.findall(named)}
            own = _OWN[name](given) if name in _OWN else {}
            known = {**given, **filtered, **since, **own}
            asked = with_lists(named, {each: known.get(each) for each in wanted})
            yield f"{name} of a partition" if since else name, named, asked


def _by_column(mark: re.Match[str]) -> str:
    """Name a parameter that has only a place, by what it is compared with."""
    before = mark.string[: mark.start()]
    if mark[1]:
        return mark[0]
    if mark.string.startswith("::", mark.end()):
        return "%(list_ids)s"
    if before.endswith("json_each("):
        return "%(ids)s"
    if before.endswith("LIMIT "):
        return "%(limit)s"
    column = found[1] if (found := _COMPARED.search(before)) else "none"
    return f"%({VALUES_OF_COLUMNS.get(column, column)})s"


def rows_read(node: Mapping[str, Any], tables: Mapping[str, float], *, is_run: bool) -> Iterator[tuple[float, str]]:
    """The rows that each part of a plan reads, and its description; of one that was not run, those of whole tables."""
    where = f"{node['Node Type']} of {node.get('Relation Name') or node.get('Index Name') or ''}"
    if is_run:
        kept = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")
        yield sum(node.get(each, 0) for each in kept) * node["Actual Loops"], where
    elif node["Node Type"] == "Seq Scan":
        yield tables[node["Relation Name"]], where
    for below in node.get("Plans", ()):
        yield from rows_read(below, tables, is_run=is_run)


def too_much(connection: psycopg.Connection[Any], given: Mapping[str, Any], most: int, role: str) -> list[str]:
    """Statements that read more rows than that, with the part of the plan that does."""
    tables = dict(connection.execute("SELECT relname, reltuples FROM pg_class WHERE relkind = 'r'").fetchall())
    exceptions = set(" ".join(OF_ALL.values()).split())
    found: list[str] = []
    for name, sql, parameters in statements(given):
        is_run = re.match(r"(?i)\s*(SELECT|WITH)", sql) is not None
        how = "ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT JSON" if is_run else "FORMAT JSON"
        with connection.transaction():
            stand(connection, name, given, role)
            row = connection.execute(f"EXPLAIN ({how}) {sql}".encode(), parameters, binary=True).fetchone()
        assert row is not None
        read, where = max(rows_read(row[0][0]["Plan"], tables, is_run=is_run), default=(0.0, ""))
        if read > most and name not in exceptions:
            found.append(f"{name}: {read:.0f} rows by {where}")
    return found


def test_a_statement_reads_what_its_small_scope_holds(connection: psycopg.Connection[Any], role: str) -> None:
    """M1.4, M4.2: of joins, too; a scope is as quick beside a large one and hundreds of others as alone."""
    given = values(f"small{SCOPES // 2}", LARGE + SMALL * (SCOPES // 2) + 1)
    assert too_much(connection, given, MOST_OF_SMALL, role) == []


def test_a_statement_reads_what_its_large_scope_holds(connection: psycopg.Connection[Any], role: str) -> None:
    """M1.4, M4.2: its rows are the oldest, and what others have stored since is not read to find its newest."""
    assert too_much(connection, values("large", LARGE // 2), MOST_OF_LARGE, role) == []


def searches(namespace: str, first: int) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Each statement that looks for something in scopes, as it is run for this one."""
    for name, sql, parameters in statements(values(namespace, first)):
        assert isinstance(parameters, Mapping)  # Each is named above.
        if (
            name != "push_more"
            and re.match(r"(?i)\s*(SELECT|WITH)", sql)
            and {"scope", "scopes", "list_scopes"} & parameters.keys()
        ):
            yield name, sql, parameters


def shape(node: Mapping[str, Any]) -> Any:
    """A plan without its figures: they follow the statistics, which the database renews by itself."""
    return node["Node Type"], node.get("Index Name"), [shape(below) for below in node.get("Plans", ())]


def test_the_twentieth_run_is_planned_as_the_first() -> None:
    """M1.4, M4.2: a statement that PostgreSQL had prepared would by then have one plan for all scopes.

    The driver prepares the sixth run, and after five more PostgreSQL may keep one plan. Over a connection of a server's
    own, each run within the walls of its scope.
    """
    role = database()["upkeep_role"]
    with closing(opened(database())) as memory, memory.read() as lent:
        connection = lent.raw

        def plans(namespace: str, first: int) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for name, sql, parameters in searches(namespace, first):
                stand(connection, name, values(namespace, first), role)
                row = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode(), parameters, binary=True).fetchone()
                assert row is not None
                found[name] = shape(row[0][0]["Plan"])
            return found

        small, large = ("small1", LARGE + SMALL + 1), ("large", LARGE // 2)
        before = plans(*small), plans(*large)
        asked = [(f"small{number}", LARGE + SMALL * number + 1) for number in range(10)]
        runs = [[each[1:] for each in searches(*here)] for here in asked]
        for number in range(20):
            stand(connection, "get_records", values(*asked[number % 10]), role)
            with connection.pipeline():  # All within: what a server runs beyond is planned for the same scope.
                for sql, parameters in runs[number % 10]:
                    connection.execute(sql.encode(), parameters, binary=True)
        assert (plans(*small), plans(*large)) == before
        assert len(before[0]) > 30
        assert before[0]["count_matching"] != before[1]["count_matching"]
        assert connection.execute("SELECT name FROM pg_prepared_statements").fetchall() == []


def test_candidates_come_by_the_rows_of_a_small_scope_and_by_the_index_of_a_large_one(
    connection: psycopg.Connection[Any], role: str
) -> None:
    """M1.4: one index for all; a policy hides the scope from the planner, and the statement names it."""
    require_pgvector()
    sql = sql_files.postgres_statement("nearest_pushed")
    indexes: dict[str, set[str]] = {}
    for namespace in ("large", f"small{SCOPES // 2}"):
        given = values(namespace, 1)
        with connection.transaction():
            stand(connection, "nearest_pushed", given, role)
            connection.execute(DEEP)
            asked = with_lists(sql, {**given, "vector": str([0.1] * DIMENSIONS)})
            row = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode(), asked, binary=True).fetchone()
        assert row is not None
        indexes[namespace] = {*re.findall(r"pushed_vectors_\w+", json.dumps(row[0]))}
    assert [*indexes.values()] == [{"pushed_vectors_near"}, {"pushed_vectors_by_scope"}]


def test_a_cursor_is_planned_for_all_of_its_rows() -> None:
    """M1.4: an index reads its part by one, which PostgreSQL by itself plans as if most of it were never fetched."""
    walled = database()
    role, given = walled["upkeep_role"], values("large", LARGE // 2)
    asked = {name: (sql, parameters) for name, sql, parameters in statements(given)}
    sql, parameters = asked["index_scopes"]  # The last of that name, of a partition.
    with closing(opened(walled)) as memory, memory.read() as lent:
        lent.raw.execute("SET LOCAL random_page_cost = 1.1")
        stand(lent.raw, "index_scopes", given, role)
        cursor = f"EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT JSON) DECLARE each CURSOR FOR {sql}"
        row = lent.raw.execute(cursor.encode(), parameters, binary=True).fetchone()
    assert row is not None
    read, where = max(rows_read(row[0][0]["Plan"], {}, is_run=True))
    assert read <= MOST_OF_LARGE, where
