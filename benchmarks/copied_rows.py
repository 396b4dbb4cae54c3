"""Copies the rows of a small memory into the tables of a large one, on either engine: much quicker than storing.

Each namespace gets copies of the same records, with ids, rows and vectors of their own.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.stores.records import FILE_NAME, SqliteRecordStore

AT_ONCE = 5_000
NOISE = 0.5
"""The length of what is added to each copy of a vector, of length 1 itself."""

Put = Callable[[str, Sequence[str], Iterable[Sequence[Any]]], None]


def copied(original: Path, folder: Path, url: str, sizes: Sequence[int]) -> None:
    """Fill a new memory, in PostgreSQL where an address is given: namespaces p0, p1 … of these sizes."""
    if url:
        _fill_postgres(original, url, sizes)
        return
    SqliteRecordStore(folder, "made").close()
    with closing(sqlite3.connect(folder / FILE_NAME)) as there, there:
        there.execute("PRAGMA synchronous = OFF")

        def put(table: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
            marks = ",".join("?" * len(names))
            there.executemany(f"INSERT INTO {table} ({','.join(names)}) VALUES ({marks})", rows)  # noqa: S608

        _put_all(original, sizes, put)
        there.execute("UPDATE sequence SET value = ?", (2 * sum(sizes),))
    with closing(SqliteRecordStore(folder, "made")) as store, store._database.write() as connection:  # noqa: SLF001
        connection.run("fill_partitions", {"last_write": ""})


def _fill_postgres(original: Path, url: str, sizes: Sequence[int]) -> None:
    import psycopg

    from mcp_memory.stores.records.store_postgres import PostgresRecordStore

    with closing(PostgresRecordStore(url, "made")) as store:
        with psycopg.connect(url) as there:
            there.execute("SET CONSTRAINTS ALL DEFERRED")

            def put(table: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
                with there.cursor().copy(f"COPY {table} ({','.join(names)}) FROM STDIN".encode()) as copy:
                    for row in rows:
                        copy.write_row(row)

            _put_all(original, sizes, put)
            there.execute("SELECT setval('changes', %s)", (2 * sum(sizes),))
        with psycopg.connect(url, autocommit=True) as there:
            there.execute("VACUUM ANALYZE")
        with store._database.write() as connection:  # noqa: SLF001
            connection.run("fill_partitions", {"last_write": connection.mark})


def _put_all(original: Path, sizes: Sequence[int], put: Put) -> None:
    """Put records in an order in which namespaces take turns, then what belongs to them."""
    with closing(sqlite3.connect(original / FILE_NAME)) as source:
        source.row_factory = sqlite3.Row
        records = [dict(row) for row in source.execute("SELECT * FROM records ORDER BY row")]
        terms = dict(source.execute("SELECT row, terms FROM terms").fetchall())
        vectors = {
            row: np.frombuffer(blob, np.float32) for row, blob in source.execute("SELECT row, vector FROM vectors")
        }
        entities = {row["id"]: dict(row) for row in source.execute("SELECT * FROM entities")}
        mentions: dict[str, list[dict[str, Any]]] = {}
        for row in source.execute("SELECT * FROM mentions"):
            mentions.setdefault(row["record_id"], []).append(dict(row))
        embedder = source.execute("SELECT value FROM meta WHERE name = 'embedder'").fetchone()
    owners = [place for place, size in enumerate(sizes) for _ in range(size)]
    random.Random(3).shuffle(owners)
    drawn = np.random.default_rng(11)
    made, taken, known = list[tuple[int, dict[str, Any], str]](), [0] * len(sizes), dict[tuple[int, int], int]()
    for number, owner in enumerate(owners, start=1):
        made.append((owner, records[taken[owner] % len(records)], make_id(RECORD, number)))
        taken[owner] += 1
    names = [*records[0]]
    put("records", names, (_record(names, row, *each) for row, each in enumerate(made, start=1)))
    put("terms", ("row", "terms"), ((row, terms[record["row"]]) for row, (_, record, _) in enumerate(made, start=1)))
    put("vectors", ("row", "embedder", "windows", "vector"), _vectors(made, vectors, drawn))
    said = [
        (_entity(known, owner, mention["entity"]), made_id, mention["properties"], mention["found"])
        for owner, record, made_id in made
        for mention in mentions.get(record["id"], ())
    ]
    columns = ("id", "change", "scope", "name", "name_key", "type")
    put(
        "entities",
        columns,
        (
            (number, number, f"shared/p{owner}", *(entities[entity][name] for name in columns[3:]))
            for (owner, entity), number in known.items()
        ),
    )
    put("mentions", ("entity", "record_id", "properties", "found"), said)
    put("meta", ("name", "value"), [("embedder", embedder[0])] if embedder else [])


def _entity(known: dict[tuple[int, int], int], owner: int, entity: int) -> int:
    return known.setdefault((owner, entity), len(known) + 1)


def _record(names: Sequence[str], row: int, owner: int, record: dict[str, Any], made_id: str) -> list[Any]:
    own = {"row": row, "id": made_id, "change": row, "scope": f"shared/p{owner}", "namespace": f"p{owner}"}
    return [own.get(name, record[name]) for name in names]


def _vectors(
    made: Sequence[tuple[int, dict[str, Any], str]], vectors: dict[int, Any], drawn: np.random.Generator
) -> Iterable[Sequence[Any]]:
    row = 0
    for start in range(0, len(made), AT_ONCE):
        some = made[start : start + AT_ONCE]
        near = np.stack([vectors[record["row"]] for _, record, _ in some])
        noise = drawn.standard_normal(near.shape).astype(np.float32)
        near = near + NOISE * noise / np.linalg.norm(noise, axis=1, keepdims=True)
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        for vector in near:
            row += 1
            yield row, "made", 1, vector.tobytes()
