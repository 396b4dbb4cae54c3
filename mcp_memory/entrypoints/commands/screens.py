"""Screens for people: counts, lists, one record, the tree of tasks. Knows no command."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.health_figures import conclusion
from mcp_memory.domain.model.kind_words import counted_in_words, kind_in_words
from mcp_memory.domain.model.lifecycle import LIFECYCLES, first_status
from mcp_memory.domain.model.records import OUT_OF_SEARCH
from mcp_memory.domain.text.control_characters import visible

if TYPE_CHECKING:
    from mcp_memory.domain.model.contexts import Component
    from mcp_memory.services.status.context_account import Account

STATUS_STYLES: Mapping[str, str] = {
    "active": "bold cyan",
    "complete": "green",
    "failed": "red",
    "abandoned": "red",
    "blocked": "yellow",
}
INDENT = 4
LEAST_PART = 0.005
"""A smaller part of a score would read "0.00"."""
DAY_CHARS = 10
"""Length of the date in an ISO time."""
_SIGNAL_NAMES: Mapping[str, str] = {"keyword": "words", "vector": "meaning"}
_PAST_STATUSES = ("superseded", "inactive", "retired")
_SHOWN_STATUSES = (*_PAST_STATUSES, "ineffective", "escalated", "archived", "summarized")
"""Statuses shown beside a record; the text of past ones is dimmed as well."""
_FOLDER_STATES: Mapping[str, str] = {
    "own": "its own memory",
    "inside": "the memory of the folder that it lies in",
    "joined": "the memory of the project it belongs to",
    "free": "its own memory for now",
    "refused": "its own memory, not that of the project it claims to be",
}
FIRST_STATUSES = frozenset(map(first_status, LIFECYCLES))
"""The names by which kinds call the stage of a record that is as it was stored: new, active, created, recorded."""
_DEAD_ENDS = ("failed", "abandoned")
_SHOWN_FIELDS: Mapping[str, str] = {
    "visibility": "Seen by", "tags": "Tags", "pinned": "Pinned", "outcome": "Outcome", "tool": "Tool",
    "valid_from": "True from", "valid_until": "True until", "check": "To be checked", "session_id": "Session",
}  # fmt: skip
"""A record's fields that its screen shows, and their names there."""
_NAMED_FIELDS: Mapping[str, str] = {
    "task": "Task", "superseded_by": "Replaced by", "supersedes": "Replaces", "depends_on": "Depends on",
    "dependents": "What depends on it", "entities": "Names", "near": "Near it", "covers": "Made from",
}  # fmt: skip
"""The same for what it is linked to."""
_COUNTED: Mapping[str, str] = {
    "accessed": "opened", "activated": "applied", "succeeded": "worked", "false_positives": "wrong"
}  # fmt: skip
"""Words for a counter whose own name does not say what it counts."""


def _owner(owner: Mapping[str, Any]) -> str:
    """Say which process serves client windows."""
    if not owner:
        return "no process; the next client starts one"
    return f"process {owner['pid']} of version {owner['version']}; `mcp-memory stop` ends it"


def status_screen(status: Mapping[str, Any]) -> Table:
    """Return the counts and the state of the store."""
    store, waiting = status["store"], status["unembedded"]
    reviews = status["reviews"]
    path: str = " > ".join(goal["goal"] for goal in status["path"])
    rows = {
        "Project": status["namespace"],
        **_folder(status["folder"]),
        "Agent": status["agent"],
        "Memories": _counts(counted_in_words(status["records"])),
        "Their stages": _counts(_stages(status["statuses"])),
        "Not counted": listed(
            {name: n for name, n in status["statuses"].items() if name in OUT_OF_SEARCH}
            | ({"private to other agents": of_others} if (of_others := status["private_to_others"]) else {})
        ),
        "Tasks": _counts(status["tasks"]),
        "Current task": path or "none in this session",
        "Sessions": str(status["sessions"]),
        "To review": f"{counted(reviews['waiting'], 'group')}, {reviews['asked']} for you: `mcp-memory review`"
        if reviews["waiting"]
        else "nothing",
        "Hooks that failed": listed(status["failed_hooks"]),
        "Contexts given": _contexts(status["contexts"]),
        "Topics": "; ".join(", ".join(names) for names in status["topics"]) or "none yet",
        "Kept in": f"{store['path']}" + (f", {status['place']}" if status["place"] else ""),
        "Size": f"{store['bytes'] / 1e6:.1f} MB",
        "Served by": _owner(status["owner"]),
        "Search by meaning": f"{status['index']['says']}{_directory(status['index_directory'], store['revision'])}"
        + (f"; {counted(waiting, 'memory')} not yet in it" if waiting else ""),
        "Its model": store["embedder"] or "none yet",
    }
    return _fields({name: value for name, value in rows.items() if value})


def _stages(statuses: Mapping[str, int]) -> dict[str, int]:
    """Return how many live records are as they were stored, whatever their kinds call that, and in later stages."""
    first = {"as first stored": sum(statuses.get(name, 0) for name in FIRST_STATUSES)}
    later = {name: n for name, n in statuses.items() if name not in (*OUT_OF_SEARCH, *FIRST_STATUSES)}
    return {name: n for name, n in (first | later).items() if n}


def _folder(folder: Mapping[str, Any]) -> dict[str, str]:
    """Return the folder and, where it was refused the namespace that it claims, that namespace and the next step."""
    if "path" not in folder:
        return {"Named by": "you: an option, a variable or the file of settings"}
    rows = {"Folder": f"{folder['path']} ({_FOLDER_STATES[folder['state']]})"}
    if not folder["next_step"]:
        return rows
    return (
        rows | {"It says it is": f"{folder['claims']}. {folder['next_step']}"}
        if folder["claims"]
        else rows | {"Next step": folder["next_step"]}
    )


def health_screen(status: Mapping[str, Any]) -> Table:
    """Return what needs attention, then each figure with its target range, and whether it is inside."""
    verdicts = [figure["verdict"] for figure in status["health"].values()]
    waiting, failed = status["reviews"]["waiting"], status["failed_hooks"]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title_justify="left", title_style="")
    table.title = conclusion(verdicts, waiting=waiting, failed_hooks=len(failed))
    for title in ("Measure", "Value", "Target", ""):
        table.add_column(title, style="dim" if title == "Measure" else "")
    for name, figure in status["health"].items():
        value, verdict = figure["value"], figure["verdict"] or ""
        label = name.replace("_", " ").capitalize()
        shown = "not known yet" if value is None else f"{value:g}"
        if value is not None and figure["target"] and not verdict:
            table.add_row(label, shown, figure["target"], Text("of too few cases yet", "dim"))
            continue
        table.add_row(label, shown, figure["target"] or "", Text(verdict, "green" if verdict == "inside" else "yellow"))
    return table


def row_screen(rows: Sequence[Mapping[str, Any]], nothing: str) -> Text:
    """Return a line for each row below a heading, however long: names are there to be copied. Or the text for none."""
    if not rows:
        return Text(nothing)
    heading = tuple("Project" if name == "namespace" else name.capitalize() for name in rows[0])
    return Text("\n").join(_aligned([heading, *(tuple(map(_cell, row.values())) for row in rows)]))


def _cell(value: Any) -> str:
    return "yes" if value is True else visible(" ".join(_value(value or "").split()))


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[Text]:
    """Return a line for each row, the first as a heading, in columns as wide as their widest cell."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(set_cell_size, row, widths)).rstrip() for row in rows]
    return [Text(line, "" if number else "dim") for number, line in enumerate(lines)]


_CONNECTED: Mapping[str, str] = {
    "supersedes": "Replaces",
    "superseded_by": "Replaced by",
    "records": "Named in",
    "relations": "Related",
    "near": "Near it",
    "depends_on": "It depends on",
    "dependents": "What depends on it",
    "further": "What depends on these",
}


def connection_screen(shown: Mapping[str, Any]) -> list[RenderableType]:
    """Return the path between two things or the words of one, and below it their connections."""
    parts: list[RenderableType] = [Text(visible(str(shown.get("tie") or shown.get("name") or shown["text"])), "bold")]
    for name, title in _CONNECTED.items():
        if rows := shown.get(name):
            several = cast("Sequence[Any]", [rows] if isinstance(rows, str) else rows)
            parts += [Text(f"\n{title}", "dim"), *(Text(visible(_connection(each))) for each in several)]
    return parts


def _connection(each: Mapping[str, Any] | str) -> str:
    if isinstance(each, str):
        return each
    if "target" in each:
        return f"{each['source']} {each['type']} {each['target']}"
    via = f" (through {', '.join(each['via'])})" if each.get("via") else ""
    return f"{each['id']} {kind_in_words(each['kind'])}: {each['text']}{via}"


def record_lines(record: Mapping[str, Any]) -> list[RenderableType]:
    """Return a record as two paragraphs that fit any width: its heading and its text."""
    score = f"{record['score']:.2f}" if "score" in record else ""
    shares: Mapping[str, float] = record.get("signals", {})
    why = ", ".join(f"{name} {shares[signal]:.2f}" for signal, name in _SIGNAL_NAMES.items() if shares.get(signal))
    status = record["status"] if record.get("status") in _SHOWN_STATUSES else ""
    heading = Text.assemble((score, "bold"), f" ({why})" if why else "", " " if score else "")
    heading.append(f"{record['id']} {kind_in_words(record['kind'])} {record['occurred_at'][:10]}".rstrip(), "dim")
    heading.append(f" by {record['agent']}" if record.get("agent") else "")
    heading.append(f" {status}" if status else "", "yellow")
    speaker = f"{record['speaker']}: " if record.get("speaker") else ""
    line = visible(" ".join(f"{speaker}{record['text']}".split()))
    return [heading, Padding(Text(line, "dim" if status in _PAST_STATUSES else ""), (0, 0, 0, INDENT), expand=False)]


def record_screen(record: Mapping[str, Any]) -> list[RenderableType]:
    """Return one record: its heading, its text, and what else is stored of it; `--json` shows every field."""
    parts = [*record_lines({"occurred_at": "", "kind": "", **record})]
    rows = {label: _value(record[name]) for name, label in _SHOWN_FIELDS.items() if record.get(name)}
    details: Mapping[str, Any] = record.get("details") or {}
    rows |= {name.replace("_", " ").capitalize(): _value(value) for name, value in details.items()}
    rows |= {label: names for name, label in _NAMED_FIELDS.items() if (names := _names_in(record.get(name)))}
    if used := _used(record.get("counters") or {}):
        rows["Use"] = used
    parts += ["", _fields(rows)] if rows else []
    parts += [
        Text(f"\nuntil {old['until']} (by {old['by']}): {visible(old['text'])}", "dim")
        for old in record.get("earlier", ())
    ]
    return [*parts, *(Text(line, "dim") for line in _history_lines(record.get("history", ())))]


def _names_in(linked: Any) -> str:
    """Return the ids or names of what a record is linked to: a list of them, of objects that have one, or one."""
    several = cast("Sequence[Any]", linked if isinstance(linked, (list, tuple)) else [linked] if linked else [])
    return ", ".join(filter(None, map(_name_of, several)))


def _name_of(linked: Any) -> str:
    if not isinstance(linked, dict):
        return str(linked)
    each = cast("Mapping[str, Any]", linked)
    return str(each.get("goal") or each.get("id") or each.get("name") or "")


def _used(counters: Mapping[str, int]) -> str:
    """Say how often a record was opened and judged: "opened 3 times, confirmed once"."""
    times = {1: "once", 2: "twice"}
    return ", ".join(
        f"{_COUNTED.get(name, name)} {times.get(count, f'{count} times')}" for name, count in counters.items() if count
    )


def one_task_screen(task: Mapping[str, Any], history: Sequence[str]) -> list[RenderableType]:
    """Return a task: its goal, what it came to, its steps, and what was done to it."""
    parts: list[RenderableType] = [Text.assemble((f"{task['id']} ", "dim"), (visible(task["goal"]), "bold"))]
    since = task["updated_at"][:DAY_CHARS]
    rows = {"State": f"{_state(task['status'])}, since {since}", "Agent": task["agent"]}
    told = (("Part of", "parent_id"), ("Done when", "success_criteria"), ("Result", "result"))
    rows |= {name: visible(str(task[key])) for name, key in told if task[key]}
    parts.append(_fields(rows))
    if task["steps"]:
        parts += [Text("\nSteps", "dim"), task_screen(task["steps"])]
    if history:
        parts += [Text("\nHistory", "dim"), *(Text(visible(line)) for line in history)]
    return parts


def context_screen(account: "Account", *, why: bool = False) -> list[RenderableType]:
    """Return a block as its agent read it, section by section, and below it what was left out, and why.

    With `why` it is one that would be given: each line is followed by its source and its score.
    """
    report = account.report
    agent = f" for {report.circumstances.agent}" if report.circumstances.agent else ""
    heading = (
        f"{'Would be given' if why else report.id}{agent}: {report.token_count} tokens, strategy {report.strategy}"
    )
    parts: list[RenderableType] = [Text(visible(heading), "bold")]
    for section in account.sections:
        parts.append(Text(f"\n{section.title} ({section.tokens} tokens)", "dim"))
        for line in section.lines:
            parts.append(Text(visible(line.text or line.component.text) or f"- [{line.component.id}] (erased)"))
            parts += [Text(f"{' ' * INDENT}{_weighed(line.component)}", "dim")] if why else []
    if report.omitted:
        parts.append(Text(f"\nLeft out: {len(report.omitted)}", "dim"))
    parts += [
        Text(visible(f"{each.id} {kind_in_words(each.kind)}: {each.reason}. {each.text}"), "dim")
        for each in account.left_out
    ]
    return parts


def _weighed(component: "Component") -> str:
    """Return a line's source and its score: "recall, 24 tokens, score 0.61 = cosine 0.41 + recency 0.20"."""
    told = f"{kind_in_words(component.source)}, {component.tokens} tokens"
    if not component.score:
        return told
    largest = sorted(component.parts.items(), key=lambda each: -each[1])
    parts = " + ".join(f"{name} {part:.2f}" for name, part in largest if abs(part) >= LEAST_PART)
    return f"{told}, score {component.score:.2f}" + (f" = {parts}" if len(largest) > 1 else "")


def review_screen(groups: Sequence[Any]) -> list[RenderableType]:
    """Return each group with its records, and how to settle one."""
    parts: list[RenderableType] = []
    for group in groups:
        parts.append(Text.assemble((group["id"], "bold"), f" {group['kind']}: {visible(group['why'])}"))
        if "question" in group:
            parts.append(Text(f"for you: {visible(group['question'])}", "yellow"))
        for record in group["records"]:
            parts += record_lines({"occurred_at": record.get("day", ""), "kind": "", **record})
    how = "Settle one: mcp-memory review settle GROUP merge|supersedes|both-true|unrelated|ask"
    return [*parts, Text(how, "dim")] if parts else [Text("Nothing waits for a review.")]


def _history_lines(history: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each version, oldest first: "12 2026-11-20T12:00:00Z by bob (ide): status was new"."""
    lines: list[str] = []
    for each in history:
        client = f" ({visible(each['client'])})" if "client" in each else ""
        was = [_was(name, value) for name, value in each["before"].items()]
        told = "; ".join([*(["new text"] if each["rewritten"] else []), *was]) or "stored"
        reason = f" ({visible(each['reason'])})" if "reason" in each else ""
        lines.append(f"{each['version']} {each['at']} by {each['by']}{client}: {told}{reason}")
    return ["", *lines] if len(lines) > 1 else []


def _was(name: str, value: Any) -> str:
    """Say what a field was until a change: "tags were none"."""
    told = "none" if value in (None, "", [], {}) else f"{value:g}" if isinstance(value, float) else _value(value)
    return f"{name.replace('_', ' ')} {'were' if name in ('tags', 'details') else 'was'} {told}"


def result_screen(answer: Mapping[str, Any], elsewhere: str = "") -> list[RenderableType]:
    """Return the records found or listed, and how to see more; or that there are none, and where there are some."""
    nothing = Text(visible(f"Nothing found. {elsewhere}".strip()))
    parts = [part for record in answer["results"] for part in record_lines(record)] or [nothing]
    if answer["next_offset"]:
        parts.append(Text(f"More with --offset {answer['next_offset']}.", "dim"))
    return parts


def task_screen(tasks: Sequence[Any]) -> Tree:
    """Return goals below their parents, each with its status and result."""
    root = Tree("", hide_root=True)
    for task in tasks:
        _grow(root, task)
    return root


def place_line(place: Mapping[str, Any]) -> Text:
    """Return the line that names the current task, from the root down."""
    path = visible(" > ".join(str(goal["goal"]) for goal in place["path"]))
    return Text(f"Current task: {path}." if path else "No current task in this session.", "dim")


def token_lines(tokens: Sequence[Mapping[str, Any]]) -> list[Text]:
    """Return a line for each token below a heading, however long; its dates are days."""
    return _aligned([("Name", "State", "Right", "Agent", "Projects"), *map(_token_row, tokens)])


def folder_lines(folders: Sequence[Mapping[str, Any]]) -> list[Text]:
    """Return each namespace, and below it the folders that are trusted with it; their dates are days."""
    lines: list[Text] = []
    for namespace, group in groupby(folders, key=itemgetter("namespace")):
        lines.append(Text(visible(namespace), "bold"))
        for each in group:
            how = "first to use it" if each["is_first"] else "let in by you"
            gone = "" if each["exists"] else ", gone"
            lines.append(Text(visible(f"  {each['folder']} ({how}, {each['since'][:DAY_CHARS]}{gone})")))
    return lines


def _token_row(token: Mapping[str, Any]) -> tuple[str, ...]:
    ends: str = (token["revoked_at"] or token["expires_at"] or "")[:DAY_CHARS]
    until = f" to {ends}" if token["state"] == "valid" and ends else f" {ends}"
    worker = token["agent"] if token["person"] == token["agent"] else f"{token['agent']} for {token['person']}"
    cells = (token["name"], f"{token['state']}{until}", token["right"], worker, ", ".join(token["namespaces"]))
    return tuple(visible(cell) for cell in cells)


def _state(status: str) -> str:
    """Return a task's status, by which a dead end is known: "dead end: failed"."""
    return f"dead end: {status}" if status in _DEAD_ENDS else status


def _grow(branch: Tree, task: Mapping[str, Any]) -> None:
    status: str = task["status"]
    line = Text.assemble(
        (f"[{_state(status)}]", STATUS_STYLES.get(status, "")), (f" {task['id']}", "dim"), f" {visible(task['goal'])}"
    )
    if task.get("result"):
        line.append(f"\n-> {visible(task['result'])}", "dim")
    node = branch.add(line)
    for subtask in task["subtasks"]:
        _grow(node, subtask)


def _fields(rows: Mapping[str, str]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(visible(value)))
    return table


def _directory(directory: Mapping[str, Any] | None, revision: int) -> str:
    """Describe the index directory, and the newest change applied, where there is one."""
    return f" (change {directory['applied']} of {revision}; {directory['bytes'] / 1e6:.1f} MB)" if directory else ""


def _contexts(contexts: Mapping[str, Any]) -> str:
    """Count recent contexts, by strategy."""
    if not contexts["given"]:
        return f"none in {contexts['days']} days"
    picked = f"; auto picked {listed(contexts['picked'])}" if contexts["picked"] else ""
    return f"{contexts['given']} in {contexts['days']} days: {listed(contexts['strategies'])}{picked}"


def _counts(counts: Mapping[str, int]) -> str:
    parts = listed(counts)
    return f"{sum(counts.values())} ({parts})" if len(counts) > 1 else parts or "none"


def listed(counts: Mapping[str, int]) -> str:
    """Return counts in words, such as "2 active, 1 blocked"."""
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def _value(value: Any) -> str:
    """Show a list as a line, and an object as JSON."""
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in cast("Sequence[object]", value)):
        return ", ".join(cast("Sequence[str]", value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
