"""Ways to get somewhere at once: screens, an id, a search, a project. The palette of the script shows what is here.

Without scripts it is a page like any other, whose field goes to what is typed into it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from mcp_memory.domain.model.kind_words import kind_in_words
from mcp_memory.domain.model.records import KINDS, Instant
from mcp_memory.domain.model.scopes import Right
from mcp_memory.entrypoints.page.listing import MAX_FIELD, list_request
from mcp_memory.entrypoints.page.visits import Screen, Visit
from mcp_memory.errors import InvalidRequest

PROJECTS_SHOWN: Final = 200
FOUND_SHOWN: Final = 5
"""Records that the palette lists."""
FOUND_TOKENS: Final = 1_000
LEAST_CHARACTERS: Final = 3
"""Characters from which on the palette searches: a letter or two begin a command."""
_IDS: Final[Mapping[str, re.Pattern[str]]] = {
    "record": re.compile(r"r0[0-9a-z]{5}"),
    "task": re.compile(r"t0[0-9a-z]{5}"),
    "context": re.compile(r"c[0-9a-f]{8,40}"),
}
"""Forms of ids that are no words: "r00001a", "t00001k", "c0f4b6a5d1e"; what has that id is at this path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A way to get to a page; one with a right is shown to who has it."""

    title: str
    path: str
    right: Right = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProject:
    """A project to choose; its folder, records and last change are known to who has the memory's files alone."""

    namespace: str
    folder: str
    is_gone: bool
    records: int | None
    changed_at: Instant | None


COMMANDS: Final = (
    Command(title="Add a memory", path="/add", right="write"),
    Command(title="Topics, and the path between two things", path="/topics"),
    Command(title="Pinned memories", path="/?pinned=yes"),
    Command(title="Memories that were retired", path="/?status=retired"),
    Command(title="Memories that were wrong", path="/?status=inactive"),
    Command(title="What would be given now", path="/contexts/would"),
    Command(title="Memories of the last seven days", path="/?since=7+days+ago"),
    Command(title="Check the memory now", path="/health#check-up", right="admin"),
    *(Command(title=f"Memories of the kind {kind_in_words(kind)}", path=f"/?kind={kind}") for kind in KINDS),
    Command(title="Questions that agents ask you", path="/review?asked=1"),
)
"""Commands beside the screens, in the order of the list."""


def show_commands(visit: Visit) -> Response:
    """Show all commands; go to what the field names: an id, a screen or command, and else a search."""
    wanted = visit.asked("to")[:MAX_FIELD]
    commands = _commands(visit)
    if wanted:
        return visit.see(_place_of(wanted, commands))
    return visit.page("commands.html", here="", commands=commands, projects=_projects(visit)[:PROJECTS_SHOWN])


def _commands(visit: Visit) -> Sequence[Command]:
    screens = [
        Command(title=screen.title, path=screen.path, right=screen.takes) for screen in visit.nav if screen.title
    ]
    elsewhere = [Command(title="Look at another project", path="/projects")] if visit.may_switch else []
    return [command for command in (*screens, *COMMANDS, *elsewhere) if visit.may(command.right)]


def show_found(visit: Visit) -> Response:
    """Answer with the records, and the open work, that a search finds first: a part of a page, for the palette."""
    if len(visit.asked("q")) < LEAST_CHARACTERS:
        raise InvalidRequest("Write more of what is looked for.")
    request = replace(list_request(visit), limit=FOUND_SHOWN, max_tokens=FOUND_TOKENS, detail="micro")
    return visit.page("found.html", found=[each.data for each in visit.app.recall(request, visit.caller).shown])


def _place_of(wanted: str, commands: Sequence[Command]) -> str:
    """Return where a text leads: to what has that id, to the screen or command of that name, else to a search."""
    for kind, pattern in _IDS.items():
        if pattern.fullmatch(wanted):
            return f"/{kind}/{wanted}"
    named = (command.path for command in commands if command.title.casefold() == wanted.casefold())
    return next(named, f"/?{urlencode({'q': wanted})}")


def show_projects(visit: Visit) -> Response:
    """Show the projects by the names that people know, with what the owner of the files may know of each."""
    known = visit.app.projects if visit.visitor.is_owner else None
    folders, records = (known.folders(), known.live_records()) if known else ({}, {})
    changes = known.last_changes() if known else {}
    projects = [
        ShownProject(
            namespace=name,
            folder=folders[name][0] if name in folders else "",
            is_gone=name in folders and not folders[name][1],
            records=records.get(name, 0) if known else None,
            changed_at=changes.get(name),
        )
        for name in _projects(visit)
    ]
    projects.sort(key=lambda each: (each.namespace != visit.caller.namespace, -(each.changed_at or 0)))
    return visit.page("projects.html", here="", projects=projects)


def _projects(visit: Visit) -> Sequence[str]:
    """Return the namespaces to choose from. Not for each page: those of a whole memory take all its records."""
    grant = visit.visitor.sender.grant
    known = grant.namespaces if grant else visit.app.projects.names() if visit.visitor.is_owner else ()
    return sorted({*known, visit.caller.namespace})


SCREENS: Final = (
    Screen(path="/go", answer=show_commands),
    Screen(path="/go/found", answer=show_found),
    Screen(path="/projects", answer=show_projects),
)
