"""Commands that look: status, search, show, list, tasks. None of them changes a record."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.model.compaction import REPLACEMENT
from mcp_memory.domain.model.ids import CONTEXT, TASK
from mcp_memory.domain.model.records import KINDS, Json, Kind
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.cli.console import complain, errors_in_one_line, print_json, screen
from mcp_memory.entrypoints.cli.options import (
    Agent,
    AsJson,
    DataDir,
    Inactive,
    Kinds,
    Limit,
    Namespace,
    Offset,
    Since,
    Tags,
    Until,
    known_kinds,
    opened_existing,
    settings_for,
)
from mcp_memory.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from mcp_memory.app import App

UNLIMITED_TOKENS = 10_000_000
"""A person's screen has no budget."""
_SAID: frozenset[Kind] = frozenset({"event", "message", "tool_call", "tool_result"})
"""What a session's log is made of."""


@errors_in_one_line()
def status(
    context: typer.Context,
    data_dir: DataDir = None,
    namespace: Namespace = None,
    agent: Agent = None,
    as_json: AsJson = False,
) -> None:
    """Show what is stored and where the work stands."""
    from mcp_memory.entrypoints.cli import screens
    from mcp_memory.entrypoints.server.answers import list_goals, task_tree

    with opened_existing(settings_for(context, data_dir, namespace, agent)) as memory:
        caller = memory.caller()
        tree = task_tree(memory.tasks.tree(caller), caller)
        path = list_goals(memory.tasks.stack(caller).path, caller)
        shown = memory.status(caller) | {
            "path": path,
            "task_tree": tree,
            # Of all projects together: who opens the file may know.
            "index_directories": [asdict(each) for each in memory.index_examiner().directories()],
            "unembedded": memory.records.count_unembedded(),
        }
    if as_json:
        print_json(shown)
    else:
        screen().print(screens.status_screen(shown), "", screens.health_screen(shown), "", screens.task_screen(tree))


@errors_in_one_line()
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words, or a question.")],
    limit: Limit = 10,
    kind: Kinds = None,
    tag: Tags = None,
    since: Since = None,
    until: Until = None,
    inactive: Inactive = False,
    offset: Offset = 0,
    data_dir: DataDir = None,
    namespace: Namespace = None,
    agent: Agent = None,
    as_json: AsJson = False,
) -> None:
    """Find records by word and by meaning.

    Ranked as for agents; what is found counts as opened.
    """
    from mcp_memory.services.retrieval.recall import RecallRequest

    if not query.strip():
        raise InvalidRequest("QUERY is empty; say what to look for, or use `mcp-memory list`.")
    request = RecallRequest(
        query=query,
        limit=limit,
        kinds=known_kinds(kind),
        tags=tuple(tag or ()),
        since=since,
        until=until,
        include_inactive=inactive,
        offset=offset,
        max_tokens=UNLIMITED_TOKENS,
    )
    with opened_existing(settings_for(context, data_dir, namespace, agent)) as memory:
        answer = memory.recall(request, memory.caller())
    for reason in answer.degraded:
        complain(f"Searched in part only; {reason}")
    _print_records(asdict(answer), as_json)


@errors_in_one_line()
def list_records(
    context: typer.Context,
    limit: Limit = 20,
    kind: Kinds = None,
    tag: Tags = None,
    session: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this session stored.")] = None,
    since: Since = None,
    until: Until = None,
    inactive: Inactive = False,
    offset: Offset = 0,
    data_dir: DataDir = None,
    namespace: Namespace = None,
    agent: Agent = None,
    as_json: AsJson = False,
) -> None:
    """List records, newest first.

    Not what was said and called in sessions, unless --kind or --session names it. They do not count as opened.
    """
    from mcp_memory.domain.model.scopes import RecordFilter
    from mcp_memory.services.memory.visibility import hidden_branches
    from mcp_memory.services.retrieval.results import shown_record

    with opened_existing(settings_for(context, data_dir, namespace, agent)) as memory:
        caller = memory.caller()
        begin, end = memory.querying.between(since, until) if since or until else (None, None)
        where = RecordFilter(
            scopes=caller.scopes,
            kinds=frozenset(known_kinds(kind)) if kind or session else frozenset(KINDS) - _SAID,
            tags=frozenset(tag or ()),
            session_id=session,
            since=begin,
            until=end,
            include_inactive=inactive,
            hidden_branches=hidden_branches(memory.records, caller),
        )
        records = memory.records.list(where, "occurred", limit + 1, offset)
    more = len(records) > limit
    results: list[Json] = [shown_record(record, "summary", caller) for record in records[:limit]]
    _print_records({"results": results, "truncated": more, "next_offset": offset + limit if more else None}, as_json)


@errors_in_one_line()
def tasks(
    context: typer.Context,
    data_dir: DataDir = None,
    namespace: Namespace = None,
    agent: Agent = None,
    as_json: AsJson = False,
) -> None:
    """Show the tree of goals, and where the work stands.

    Agents push and pop them.
    """
    from mcp_memory.entrypoints.cli import screens
    from mcp_memory.entrypoints.server.answers import show_place, task_tree

    with opened_existing(settings_for(context, data_dir, namespace, agent)) as memory:
        caller = memory.caller()
        stack = memory.tasks.stack(caller)
        tree = task_tree(memory.tasks.tree(caller), caller)
    shown = {"current": stack.current.id if stack.current else None} | show_place(stack, caller) | {"tasks": tree}
    if as_json:
        print_json(shown)
    else:
        screen().print(screens.task_screen(tree) if tree else "No task yet.", screens.place_line(shown), sep="\n")


@errors_in_one_line()
def show(
    context: typer.Context,
    record_id: Annotated[
        str, typer.Argument(metavar="ID", help="Of a record, a task, a context or a summary in a log.")
    ],
    data_dir: DataDir = None,
    namespace: Namespace = None,
    agent: Agent = None,
    as_json: AsJson = False,
) -> None:
    """Show all of one record, task or context, or of what stands in a session's log for a part of it."""
    from mcp_memory.entrypoints.cli import screens

    with opened_existing(settings_for(context, data_dir, namespace, agent)) as memory:
        shown = _describe(memory, record_id)
    if as_json:
        print_json(shown)
    else:
        screen().print(*screens.record_screen(shown), sep="\n")


def _describe(memory: "App", some_id: str) -> Mapping[str, Json]:
    caller = memory.caller()
    if some_id.startswith(CONTEXT):
        return memory.inspect.context(some_id, caller)
    if some_id.startswith(REPLACEMENT):
        return _stand_in(memory, some_id)
    if not some_id.startswith(TASK):
        return memory.inspect.record(some_id, caller)
    for task in memory.tasks.tree(caller):
        if task.id == some_id:
            return asdict(task) | {"created_at": iso(task.created_at), "updated_at": iso(task.updated_at)}
    raise NotFound(f"No task {some_id!r}; `mcp-memory status` shows them all.")


def _stand_in(memory: "App", some_id: str) -> Mapping[str, Json]:
    """With the ids of the originals that it stands for, which `show` opens."""
    from mcp_memory.services.memory.visibility import readable
    from mcp_memory.services.retrieval.results import shown_stand_in

    caller = memory.caller()
    entries = readable(memory.logs.entries([some_id], caller), memory.records, caller)
    if some_id not in entries:
        raise NotFound(f"No {some_id!r} in a session's log; a context or `compact` names those there are.")
    return {**shown_stand_in(entries[some_id]), "covers": list(entries[some_id].covers)}


def _print_records(answer: Mapping[str, Json], as_json: bool) -> None:
    from mcp_memory.entrypoints.cli import screens

    if as_json:
        print_json(answer)
    else:
        screen().print(*screens.result_screen(answer), sep="\n")
