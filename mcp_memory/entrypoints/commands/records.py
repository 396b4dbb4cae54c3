"""Commands over records and tasks: status, search, show, list, tasks, add."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.ids import CONTEXT, TASK
from mcp_memory.domain.model.kind_words import kinds_named
from mcp_memory.domain.model.limits import MAX_TEXT_CHARS
from mcp_memory.domain.model.records import KINDS, Json, Kind, NewRecord
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.model.session_log import REPLACEMENT
from mcp_memory.domain.text.times import iso
from mcp_memory.domain.text.words import REDACTED
from mcp_memory.entrypoints.commands.console import complain, output, print_json, say, terminal, way_back
from mcp_memory.entrypoints.commands.options import (
    KNOWN_DETAILS,
    AsJson,
    Deny,
    Inactive,
    KindOptions,
    Limit,
    Offset,
    Since,
    TagOptions,
    Until,
    known_kinds,
    local_settings,
    opened,
    over_memory,
    over_settings,
    with_options,
)
from mcp_memory.entrypoints.commands.performing import is_served
from mcp_memory.errors import InvalidRequest, NotFound
from mcp_memory.locations import beside_usual, place_in_words

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.services.memory.remember import Remembered
    from mcp_memory.settings import Settings

UNLIMITED_TOKENS = 10_000_000
"""A person's screen has no budget."""
STDIN = "-"
PROJECTS_NAMED = 8
CHANGES_SHOWN = 20
_MAX_BYTES_OF_A_CHAR = 4
_ADDED = "added by hand"
_LOGGED: frozenset[Kind] = frozenset({"event", "message", "tool_call", "tool_result"})
"""Record kinds that make up a session's log."""
_WHAT_BECAME: dict[str, str] = {
    "confirmed": "This was known already, as the record named above.",
    "superseded": "This was superseded before; it was not stored again.",
}


@with_options("data_dir", "namespace", "agent")
def status(chosen: Mapping[str, Any], context: typer.Context, as_json: AsJson = False) -> None:
    """Show what is stored, and the current task."""
    # What names the folder is in the environment of who asks, not in that of the memory's owner.
    place = place_in_words(str(local_settings(chosen).data_dir), chosen)
    status_shown(context, place=place, as_json=as_json, **chosen)


@over_memory("namespace", "agent")
def status_shown(memory: "App", place: str, as_json: bool = False) -> None:
    """Show the status of the memory at this place."""
    from mcp_memory.bridge.door import owner_of
    from mcp_memory.entrypoints.commands import screens
    from mcp_memory.entrypoints.hooks.session_notes import KEPT_SECONDS, failed_hooks
    from mcp_memory.entrypoints.server.answers import list_goals, task_tree
    from mcp_memory.entrypoints.server.status_answers import show_status

    caller, directory = memory.caller(), memory.index_examiner().directory()
    tree = task_tree(memory.tasks.tree(caller), caller)
    shown = show_status(memory.status(caller, of_all=True)) | {
        "place": place or ("the usual folder" if memory.settings.database_url is None else ""),
        "private_to_others": memory.projects.private_of_others(caller),
        "path": list_goals(memory.tasks.stack(caller).path, caller),
        "task_tree": tree,
        "failed_hooks": failed_hooks(memory.settings.data_dir, memory.now() - KEPT_SECONDS),
        # Of all projects together: who opens the file may know.
        "index_directory": asdict(directory) if directory else None,
        "unembedded": memory.reindex.queued(),
        "owner": dict(owner_of(str(memory.settings.data_dir))) if is_served() else dict[str, object](),
    }
    parts = (screens.status_screen(shown), "", screens.health_screen(shown), "", screens.task_screen(tree))
    output(as_json, shown, *parts)


@over_memory("namespace", "agent")
def search(
    memory: "App",
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words, or a question.")],
    limit: Limit = 10,
    kind: KindOptions = None,
    tag: TagOptions = None,
    since: Since = None,
    until: Until = None,
    inactive: Inactive = False,
    as_of: Annotated[
        str | None, typer.Option(metavar="TIME", help="What was believed then, in the words of then.")
    ] = None,
    valid_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="What was true then, as far as is known.")
    ] = None,
    offset: Offset = 0,
    as_json: AsJson = False,
) -> None:
    """Find records by word and by meaning.

    Ranked as for agents. Looking does not count as opening, so that it changes no ranking.
    """
    from mcp_memory.domain.model.requests import RecallRequest
    from mcp_memory.entrypoints.commands.screens import result_screen

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
        as_of=as_of,
        valid_at=valid_at,
        offset=offset,
        max_tokens=UNLIMITED_TOKENS,
        only_looks=True,
    )
    found = memory.recall(request, memory.caller())
    answer = {
        "results": found.results,
        "truncated": found.truncated,
        "degraded": found.degraded,
        "next_offset": found.next_offset,
    }
    for reason in found.degraded:
        complain(f"Searched in part only; {reason}")
    output(as_json, answer, *result_screen(answer, _elsewhere(memory, answer)))


def _elsewhere(memory: "App", answer: Mapping[str, Json]) -> str:
    """Say where the memory has records, for who finds none here; "" for who does.

    A second clone and another folder have a project of their own, and so has what was imported.
    """
    here = memory.caller().namespace
    if answer["results"] or memory.inspect.listed(RecordFilter(scopes=()), memory.caller(), 1, 0):
        return ""
    others = [each for each in memory.records.shared_namespaces() if each != here]
    if not others:
        return ""
    names = ", ".join(others[:PROJECTS_NAMED]) + (", …" if len(others) > PROJECTS_NAMED else "")
    return f"{here} has no records. Other projects have: {names}. Name one with --namespace."


@over_memory("namespace", "agent")
def list_records(
    memory: "App",
    limit: Limit = 20,
    kind: KindOptions = None,
    tag: TagOptions = None,
    session: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this session stored.")] = None,
    since: Since = None,
    until: Until = None,
    inactive: Inactive = False,
    offset: Offset = 0,
    as_json: AsJson = False,
) -> None:
    """List records, newest first.

    Not what was said and called in sessions, unless --kind or --session names it. They do not count as opened.
    """
    from mcp_memory.domain.model.scopes import tags_asked
    from mcp_memory.entrypoints.commands.screens import result_screen
    from mcp_memory.services.retrieval.result_rendering import result_of

    caller = memory.caller()
    begin, end = memory.searcher.between(since, until) if since or until else (None, None)
    where = RecordFilter(
        scopes=(),
        kinds=frozenset(known_kinds(kind)) if kind or session else frozenset(KINDS) - _LOGGED,
        session_id=session,
        since=begin,
        until=end,
        include_inactive=inactive,
        **tags_asked(tag or ()),
    )
    records = memory.inspect.listed(where, caller, limit + 1, offset)
    more = len(records) > limit
    results: list[Json] = [result_of(record, "summary", caller, memory.now()).data for record in records[:limit]]
    answer = {"results": results, "truncated": more, "next_offset": offset + limit if more else None}
    output(as_json, answer, *result_screen(answer, _elsewhere(memory, answer)))


@over_memory("namespace", "agent")
def tasks(memory: "App", as_json: AsJson = False) -> None:
    """Show the tree of goals, and the current task.

    Agents push and pop them.
    """
    from mcp_memory.entrypoints.commands import screens
    from mcp_memory.entrypoints.server.answers import show_place, task_tree

    caller = memory.caller()
    stack = memory.tasks.stack(caller)
    tree = task_tree(memory.tasks.tree(caller), caller)
    shown = {"current": stack.current.id if stack.current else None} | show_place(stack, caller) | {"tasks": tree}
    output(as_json, shown, screens.task_screen(tree) if tree else "No task yet.", screens.place_line(shown))


@over_memory("namespace", "agent")
def show(
    memory: "App",
    record_id: Annotated[
        str, typer.Argument(metavar="ID", help="Of a record, a task, a context or a summary in a log.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show all of one record, task or context, or of a summary in a session's log."""
    from mcp_memory.entrypoints.commands import screens
    from mcp_memory.entrypoints.server.record_answers import show_report

    if record_id.startswith(CONTEXT):
        account = memory.accounts(record_id, memory.caller(), of_all=True)
        output(as_json, show_report(account.report), *screens.context_screen(account))
    elif record_id.startswith(TASK):
        task, history = _task_shown(memory, record_id)
        output(as_json, task, *screens.one_task_screen(task, history))
    else:
        shown = _describe(memory, record_id)
        output(as_json, shown, *screens.record_screen(shown))


def _task_shown(memory: "App", some_id: str) -> tuple[dict[str, Any], Sequence[str]]:
    """Return a task with its steps, and what was done to it, latest last. Raises NotFound."""
    from mcp_memory.entrypoints.server.answers import task_tree
    from mcp_memory.services.tasks.task_owners import told_changes

    caller = memory.caller()
    tasks = memory.tasks.tree(caller)
    found = next((task for task in tasks if task.id == some_id), None)
    if found is None:
        raise NotFound(f"No task {some_id!r}; `mcp-memory tasks` shows them all.")
    below = set[str]()
    for task in tasks:  # Parents come first.
        if task.parent_id == some_id or task.parent_id in below:
            below.add(task.id)
    shown = asdict(found) | {"created_at": iso(found.created_at), "updated_at": iso(found.updated_at)}
    changes = memory.waiting_tasks.changes(found.namespace, [some_id], CHANGES_SHOWN)
    steps = task_tree([task for task in tasks if task.id in below], caller)
    return shown | {"steps": steps}, told_changes(changes[::-1], caller)


def _describe(memory: "App", some_id: str) -> Mapping[str, Json]:
    return _stand_in(memory, some_id) if some_id.startswith(REPLACEMENT) else show_account_of(memory, some_id)


def show_account_of(memory: "App", record_id: str) -> Mapping[str, Json]:
    """Return a record with its history, as JSON. Raises NotFound."""
    from mcp_memory.entrypoints.server.record_answers import show_account

    caller = memory.caller()
    return show_account(memory.inspect.record(record_id, caller), caller)


def _stand_in(memory: "App", some_id: str) -> Mapping[str, Json]:
    """Describe a replacement, with the ids of the originals that it covers, which `show` opens."""
    from mcp_memory.services.retrieval.result_rendering import stand_in_result

    entry = memory.session_accounts.block(some_id, memory.caller())
    if entry is None:
        raise NotFound(f"No {some_id!r} in a session's log; a context or `compact` names those there are.")
    return {**stand_in_result(entry), "covers": list(entry.covers)}


@over_settings("data_dir", "namespace", "agent", asks=True)
def add(
    settings: "Settings",
    text: Annotated[str, typer.Argument(metavar="TEXT|-", help="What to remember; - reads it from standard input.")],
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="fact, decision, procedure, event, guardrail, preference …")
    ] = "fact",
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="May be repeated.")] = None,
    importance: Annotated[float, typer.Option("--importance", metavar="N", help="0 to 10.")] = 1.0,
    pin: Annotated[bool, typer.Option("--pin", help="Contexts hold it, as long as it fits.")] = False,
    details: Annotated[
        str | None, typer.Option("--details", metavar="JSON", help=f"Further fields, as an object. {KNOWN_DETAILS}")
    ] = None,
    deny: Deny = None,
    visibility: Annotated[
        str, typer.Option("--visibility", metavar="WHO", help="shared: the project; private: the agent; user: you.")
    ] = "shared",
    occurred: Annotated[str | None, typer.Option("--occurred", metavar="TIME", help="A date or a phrase.")] = None,
    reassert: Annotated[
        bool, typer.Option("--reassert", help="Store it although it was corrected or erased before.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remember one thing; prints its id.

    As an agent would: what is known is not stored twice, and secrets are taken out.
    """
    from mcp_memory.domain.retrieval.guardrails import has_form
    from mcp_memory.entrypoints.server.arguments import read_arguments
    from mcp_memory.entrypoints.server.request_arguments import given
    from mcp_memory.entrypoints.server.wire import ItemArgument

    asked = {
        "text": given_text(text),
        "kind": kinds_named(kind)[0],
        "tags": tag or [],
        "importance": importance,
        "pinned": pin,
        "reassert": reassert,
    }
    given_fields = given_details(details, deny)
    if deny and asked["kind"] != "censor":
        raise InvalidRequest("--deny is a guardrail's; add --kind guardrail.")
    asked |= {"details": {} if given_fields is None else given_fields, "visibility": visibility}
    fields = given(read_arguments(ItemArgument, asked))
    _tell_new(settings)
    with opened(settings) as memory:
        if occurred is not None:
            fields["occurred_at"] = memory.searcher.instant(occurred)
        [remembered] = memory.remember([NewRecord(**fields)], memory.caller(), undoable=_ADDED)
        agent = memory.caller().agent
        cut = _placeholders(memory, remembered) if remembered.redacted else ()
    if cut:
        complain(f"{counted(len(cut), 'secret')} {'was' if len(cut) == 1 else 'were'} cut out: {', '.join(cut)}.")
    if remembered.degraded:
        complain(f"For now it can be found by its words only: {remembered.degraded}")
    if as_json:
        print_json(asdict(remembered))
        return
    say(remembered.id)
    stops = asked["kind"] != "censor" or has_form(fields["text"], fields["details"])
    for note in _notes(remembered, stops=stops):
        complain(note)
    denies = asked["kind"] == "censor" and fields["details"].get("action") == "block"
    if stops and denies and remembered.status == "stored":
        complain(_whose_calls(remembered.id, visibility, agent))


def _whose_calls(record_id: str, visibility: str, agent: str) -> str:
    """Say whose calls a guardrail denies, and how it denies those of all agents of the person who adds it."""
    by_hooks = "where the client has hooks (`mcp-memory install CLIENT --hooks`)"
    if visibility == "user":
        return f"It denies calls of all your agents, {by_hooks}."
    all_of_them = f"`mcp-memory edit {record_id} --visibility user` has it deny all your agents, in every project."
    return f"It denies calls of the agent {agent} alone, {by_hooks}, and only warns others; {all_of_them}"


def _tell_new(settings: "Settings") -> None:
    """Say at a terminal where a memory begins that somebody named: a name may be a slip, or relative to the folder."""
    from mcp_memory.wiring import memory_exists

    if terminal().stderr.isatty() and not memory_exists(settings) and beside_usual(str(settings.data_dir)):
        complain(f"A new memory begins in {settings.data_dir}.")


def _notes(remembered: "Remembered", *, stops: bool) -> Iterator[str]:
    """Yield what a person may do next about what they added; `stops` is False of a guardrail that can stop no call."""
    if terminal().stderr.isatty() and remembered.change:
        yield way_back(remembered.change)
    if near := _nearest(remembered):
        yield f"Near it: {near}; `mcp-memory supersede {near} {remembered.id}` has this replace it."
    if note := _WHAT_BECAME.get(remembered.status):
        yield note
    if not stops:
        form = f"`mcp-memory edit {remembered.id} --deny 'rm -rf build/*'` gives it a form to deny"
        yield f"Agents are told it, but it stops no call; {form}."
    if remembered.added:
        yield f"It keeps what is new: {', '.join(remembered.added)}."


def _placeholders(memory: "App", remembered: "Remembered") -> Sequence[str]:
    """Return the marks that a record has instead of its secrets: "[REDACTED GitHub Token]"."""
    record = memory.inspect.visible(remembered.id, memory.caller())
    return REDACTED.findall(json.dumps([record.text, *record.tags, record.details], ensure_ascii=False))


def given_text(text: str) -> str:
    """Return the text, or what standard input holds for `-`. Raises InvalidRequest."""
    if text != STDIN:
        return text
    given = terminal().stdin.buffer.read(_MAX_BYTES_OF_A_CHAR * MAX_TEXT_CHARS + 1)
    if len(given) > _MAX_BYTES_OF_A_CHAR * MAX_TEXT_CHARS:
        raise InvalidRequest(f"Standard input holds more than {MAX_TEXT_CHARS:,} characters; add it in parts.")
    try:
        return given.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InvalidRequest("Standard input is not UTF-8 text.") from error


def _nearest(remembered: "Remembered") -> str:
    """Return the id of the record nearest to one that was stored, the surest contradiction first; "" for none."""
    contradicted = [each.id for each in remembered.conflicts]
    near = [*contradicted, *remembered.similar, *(each.id for each in remembered.near)]
    return near[0] if near and remembered.status == "stored" else ""


def given_details(details: str | None, deny: Sequence[str] | None) -> Any:
    """Return the details that options give, with the patterns of calls to deny; None where they give none.

    The check of all arguments refuses anything but an object. Raises InvalidRequest.
    """
    given = _object(details)
    if not deny:
        return given
    if given is not None and not isinstance(given, dict):
        raise InvalidRequest("--details must be an object.")
    return {**cast("dict[str, Json]", given or {}), "pattern": list(deny), "action": "block"}


def _object(details: str | None) -> Any:
    try:
        return json.loads(details) if details is not None else None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"--details is not JSON ({error}).") from error
