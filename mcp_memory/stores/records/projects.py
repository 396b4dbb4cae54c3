"""Keeps the folders in which projects are, and the names of namespaces: implements `ProjectStore`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from mcp_memory.domain.model.projects import FormerName, MovedProject, ProjectFolder
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import partition_of, scope_key
from mcp_memory.errors import Conflict, NotFound
from mcp_memory.stores.records.database import NO_PARTITION, Connection, Cursor, Database, Write
from mcp_memory.stores.records.partitions import PartitionTally
from mcp_memory.stores.records.rows import path_from_column, path_to_column
from mcp_memory.stores.records.transaction import advance

_PLAIN = (
    "move_records", "move_namespace_of_versions", "move_task_changes", "move_places", "drop_places", "move_moves",
    "drop_moves", "move_sessions", "drop_sessions", "drop_met_contexts", "move_contexts", "move_assemblies",
    "move_reads", "drop_logs_left",
    "move_exclusions", "move_pass_runs", "drop_met_project_folders", "move_project_folders", "move_name", "drop_name",
    "move_quota", "drop_moved_quota",
    "move_shared_lines", "drop_shared_lines", "move_taken_back", "drop_taken_back",
)  # fmt: skip
"""Statements that need the two names alone, in their order."""
_OF_SCOPES = (
    "move_scope", "move_scope_of_versions", "move_tombstones", "move_erased_texts", "drop_erased_texts",
)  # fmt: skip


class SqlProjects:
    """Implements `ProjectStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def folders(self) -> Sequence[ProjectFolder]:
        rows = self._database.rows("list_project_folders")
        return [
            ProjectFolder(
                namespace=row["namespace"], folder=path_from_column(row["folder"]),
                repository=path_from_column(row["repository"]), mark=row["mark"], noted_at=row["noted_at"],
            )
            for row in rows
        ]  # fmt: skip

    def note(self, folder: ProjectFolder) -> None:
        paths = {"folder": path_to_column(folder.folder), "repository": path_to_column(folder.repository)}
        noted = asdict(folder) | paths
        known = self._database.rows("project_folder_mark", noted)
        if not known or known[0]["mark"] != folder.mark:
            with self._database.write(durable=False, partition=NO_PARTITION) as connection:
                connection.run("note_project_folder", noted)

    def is_used(self, namespace: str) -> bool:
        return bool(self._database.rows("is_used_namespace", {"namespace": namespace})[0][0])

    def live_records(self) -> Mapping[str, int]:
        return {row["namespace"]: row["live"] for row in self._database.rows("count_live")}

    def last_changes(self) -> Mapping[str, Instant]:
        return {row["namespace"]: row["at"] for row in self._database.rows("last_changes")}

    def private_of_others(self, namespace: str, own: str) -> int:
        return self._database.rows("count_private_of_others", {"namespace": namespace, "own": own})[0][0]

    def former(self, name: str) -> FormerName | None:
        rows = self._database.rows("former_namespace", (name,))
        return FormerName(namespace=rows[0]["namespace"], at=rows[0]["at"], mark=rows[0]["mark"]) if rows else None

    def move(self, old: str, new: str, at: Instant, mark: str, *, merges: bool) -> MovedProject:
        with self._database.write() as connection:
            if not holds_anything(connection, old):
                raise NotFound(f"No project {old!r} holds anything; `mcp-memory projects` lists those that do.")
            if not merges and holds_anything(connection, new):
                raise Conflict(f"{new!r} holds a memory already; `mcp-memory projects merge` puts the two together.")
            return _Move(connection, old, new).all(at, mark)


class _Move:
    """Moves all that is of one namespace to another, in the open transaction."""

    def __init__(self, connection: Write, old: str, new: str) -> None:
        self._db = connection
        self._names = {"old": old, "new": new}

    def all(self, at: Instant, mark: str) -> MovedProject:
        self._run("defer_foreign_keys")  # Replacements name their compaction by its namespace, too.
        rows = self._run("records_of_namespace", (self._names["old"],)).fetchall()
        ids, live = [row["id"] for row in rows], sum(bool(row["is_live"]) for row in rows)
        scopes = list(self._scopes())
        asked = {**self._names, "at": at, "is_two": holds_anything(self._db, self._names["new"])}
        readers = [row["name"] for row in self._run("readers_of_one", asked)]
        tokens = list(self._move_tokens())
        self._depart()
        for pair in scopes:
            self._move_scope(pair)
        self._move_logs()
        for name in _PLAIN:
            self._run(name, self._names)
        tasks = self._run("move_tasks", self._numbered()).rowcount
        self._run("put_former_name", {**self._names, "at": at, "mark": mark})
        self._run("touch_relations", {**self._numbered(), "ids": json.dumps(ids)})
        advance(self._db, ids)
        self._count_moved()
        return MovedProject(
            records=live, not_live=len(ids) - live, tasks=tasks, tokens=tuple(tokens), readers=tuple(readers)
        )  # fmt: skip

    def _scopes(self) -> Iterator[Mapping[str, str]]:
        """Yield each scope of the namespace, and the one that it becomes; the scope of a person is of none."""
        old, new = self._names["old"], self._names["new"]
        yield {"old": scope_key("shared", old, ""), "new": scope_key("shared", new, "")}
        for row in self._run("private_scopes", self._names).fetchall():
            _, agent, namespace = row["scope"].split("/", 2)
            if namespace == old:
                yield {"old": row["scope"], "new": scope_key("private", new, agent)}

    def _move_scope(self, pair: Mapping[str, str]) -> None:
        for name in _OF_SCOPES:
            self._run(name, pair)
        for same in self._run("same_entities", pair).fetchall():
            both = {"old": same["old"], "new": same["new"]}
            for name in ("merge_mentions", "merge_sources", "merge_targets", "drop_entity"):
                self._run(name, both)
        self._run("move_entities", {**self._numbered(), **pair})

    def _depart(self) -> None:
        """Tell those that follow the old partition that nothing is in it any more."""
        old, new = (partition_of(self._shared(name)) for name in ("old", "new"))
        departing = {"old": old, "new": new, "change": self._numbered()["change"]}
        self._run("depart_all", departing)
        self._run("come_back_all", departing)

    def _count_moved(self) -> None:
        """Count all that the old partition held in the new one."""
        change, tally = self._db.next_change(), PartitionTally()
        held = self._run("size_of_partition", (partition_of(self._shared("old")),)).fetchone()
        records, size = held or (0, 0)
        tally.note(self._shared("old"), change, -records, -size)
        tally.note(self._shared("new"), change, records, size)
        tally.put(self._db)

    def _shared(self, which: str) -> str:
        return scope_key("shared", self._names[which], "")

    def _move_logs(self) -> None:
        for log in self._run("compacted_logs", self._names).fetchall():
            moved = {**self._numbered(), "agent": log["agent"], "session_id": log["session_id"], "shift": log["shift"]}
            for name in ("move_compactions", "move_replacements", "move_compacting_runs"):
                self._run(name, moved)
        self._run("drop_left_replacements", self._names)

    def _move_tokens(self) -> Iterator[str]:
        """Put the new name in place of the old one in each token, and yield the tokens' names."""
        for row in self._run("tokens_of_namespace", self._names).fetchall():
            held: list[str] = json.loads(row["namespaces"])
            renamed = dict.fromkeys(self._names["new"] if each == self._names["old"] else each for each in held)
            self._run("rename_in_token", {"id": row["id"], "namespaces": json.dumps([*renamed])})
            yield row["name"]

    def _numbered(self) -> dict[str, str | int]:
        """Return the two names, and the number of a new change."""
        return {**self._names, "change": self._db.next_change()}

    def _run(self, name: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> Cursor:
        return self._db.run(name, parameters)


def holds_anything(connection: Connection, namespace: str) -> bool:
    """Return True where records, tasks or logs have this namespace."""
    return bool(connection.run("holds_anything", {"namespace": namespace}).fetchone()[0])
