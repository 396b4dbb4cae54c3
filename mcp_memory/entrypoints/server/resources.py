"""The resources: JSON about the memory, for people and programs, and the plugin's skill. Knows no tool.

The skill is served to every client by the extension Skills (SEP-2640): a skill is a resource, and `skills/list` and
`skills/get` tell its front matter and its digest. One skill of one file needs no listing of directories.
https://modelcontextprotocol.io/seps/2640-skills-extension.md
"""

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, get_args

from mcp.server import MCPServer
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

from mcp_memory.domain.model.records import Json
from mcp_memory.entrypoints.conversations.media import Interface, listed
from mcp_memory.entrypoints.conversations.rendering import rendered
from mcp_memory.entrypoints.server.identity import asking, is_local, require, seat_at_hand, told
from mcp_memory.entrypoints.server.json_lines import MAX_ECHO_CHARS, shorten
from mcp_memory.entrypoints.server.plugin_texts import front_matter, plugin_file
from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import McpMemoryError, NotFound
from mcp_memory.services.access.served_requests import gave, gave_in, present_request

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.scopes import Caller

_MIME_TYPE = "application/json"
SKILLS: Final = "io.modelcontextprotocol/skills"
"""The extension by which the skill is served."""
SKILL_URI: Final = "skill://memory/SKILL.md"
_SKILL_FRESH_MS: Final = 3_600_000
"""It changes with the version of the program alone."""
_OF_FILES: Final[Mapping[str, frozenset[str]]] = {
    "store": frozenset({"path", "bytes", "engine"}),
    "index": frozenset({"reason", "says"}),
}
"""Fields of the status about the server's files, which an index that failed may name, or about all that scopes hold."""


def add_to(server: MCPServer, app: "App") -> None:
    """Register the resources over this app, and the skill. Their functions run in worker threads."""
    _add_skill(server)

    def resource(uri: str, title: str, description: str, read: Callable[..., dict[str, Json]]) -> None:
        name = uri.removeprefix("memory://").replace("/{id}", "").replace("/", "-")

        def whole() -> str:
            return _answer(name, read)

        def one(id: str) -> str:  # noqa: A002 - the name in the template
            return _answer(name, lambda: read(_checked(id), asking(app)))

        add = server.resource(uri, name=name, title=title, description=description, mime_type=_MIME_TYPE)
        add(one if "{id}" in uri else whole)

    def tasks() -> dict[str, Json]:
        from mcp_memory.entrypoints.server.answers import show_tasks  # Slow to load: after the handshake.

        caller = asking(app)
        return show_tasks(app.tasks.tree(caller), app.tasks.stack(caller), caller)

    def review() -> dict[str, Json]:
        from mcp_memory.entrypoints.server.review_answers import show_queue

        return show_queue(app, asking(app))

    def messages(interface: Interface) -> Callable[..., dict[str, Json]]:
        def read(session_id: str, caller: "Caller") -> dict[str, Json]:
            log = app.live_log(session_id, caller)
            gave(each.id for each in log.entries)
            return rendered(log, interface, app.attachments.of_log(log, caller))

        return read

    resource("memory://status", "Status", "What is stored where, and what is configured", lambda: _status(app))
    resource("memory://tasks", "Tasks", "The tree of tasks, where you stand in it, and what comes next", tasks)
    resource("memory://review", "Review", "The group of records to look at next, and how many wait", review)
    resource(
        "memory://record/{id}",
        "Record",
        "Everything stored about one record",
        partial(_record, app),
    )
    resource(
        "memory://record/{id}/files",
        "Files of a record",
        "The images and documents of one message, with their bytes in base64",
        partial(_files, app),
    )
    for interface in get_args(Interface):
        described = "The log of one session as it stands, as messages to send"
        resource(f"memory://session/{{id}}/{interface}", f"Messages for {interface}", described, messages(interface))
    resource("memory://session/{id}", "Session", "The log of one session", partial(_session, app))
    account = "What went into an assembled context, what did not, and why"
    resource("memory://context/{id}", "Context", account, partial(_context, app))


def _record(app: "App", record_id: str, caller: "Caller") -> dict[str, Json]:
    from mcp_memory.entrypoints.server.record_answers import show_account  # Slow to load, as those below.

    return show_account(app.inspect.record(record_id, caller), caller)


def _files(app: "App", record_id: str, caller: "Caller") -> dict[str, Json]:
    record = app.inspect.visible(record_id, caller)
    gave([record.id])
    return {"files": listed(app.attachments.opened(record))}


def _session(app: "App", session_id: str, caller: "Caller") -> dict[str, Json]:
    from mcp_memory.entrypoints.server.record_answers import show_session

    stored = app.session_accounts.stored(session_id, caller)
    return show_session(stored, app.log_standing(caller.in_session(session_id)), caller)


def _context(app: "App", context_id: str, caller: "Caller") -> dict[str, Json]:
    from mcp_memory.entrypoints.server.record_answers import show_report

    return show_report(app.inspect.context(context_id, caller))


def _checked(some_id: str) -> str:
    """The id as it is. Raises NotFound for one that nothing can have, which no answer repeats."""
    if len(some_id) > MAX_ECHO_CHARS:
        raise NotFound("No id is that long; call `recall` to find ids.")
    return some_id


def _status(app: "App") -> dict[str, Json]:
    """Show the status; over HTTP without the server's files, which hold what belongs to others too."""
    from mcp_memory.entrypoints.server.status_answers import show_status  # Slow to load: after the handshake.

    shown = show_status(app.status(asking(app), seat_at_hand()))
    if is_local():
        return shown
    shown.pop("folder")
    return {part: _without(_OF_FILES.get(part, frozenset()), value) for part, value in shown.items()}


def _without(names: Collection[str], value: Json) -> Json:
    return {name: each for name, each in value.items() if name not in names} if isinstance(value, dict) else value


def _answer(name: str, read: Callable[[], dict[str, Json]]) -> str:
    """The JSON text.

    Raises:
        ResourceNotFoundError: nothing has that id.
        ResourceError: it cannot be read; says why in words meant for the caller.
    """
    if request := present_request():
        request.way = f"resource {name}"
    try:
        require("read")
        shown = read()
        gave_in(shown)
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    except NotFound as error:
        raise ResourceNotFoundError(str(error)) from error
    except McpMemoryError as error:
        raise ResourceError(told(error)) from error
    except Exception as error:  # noqa: BLE001 - the edge
        log_defect(f"Resource {name}", error)
        raise ResourceError("Internal error; it was logged. Try again.") from None


class GetSkillParams(RequestParams):
    """The arguments of `skills/get`."""

    uri: str


def skill_file() -> bytes:
    """Return the skill's file; b"" where the package lies without it."""
    return plugin_file("skills/memory/SKILL.md")


def skill_entry() -> Mapping[str, Json]:
    """Return what the extension reports on the skill: its front matter as it stands, and the digest of each file."""
    digest = f"sha256:{sha256(skill_file()).hexdigest()}"
    return {
        "uri": SKILL_URI,
        "frontmatter": dict(front_matter(skill_file())),
        "resources": [{"uri": SKILL_URI, "digest": digest}],
    }


async def list_skills(_: ServerRequestContext[Any, Any], __: PaginatedRequestParams) -> dict[str, Any]:
    """Answer `skills/list`: there is one page."""
    return {"resultType": "complete", "skills": [skill_entry()], "ttlMs": _SKILL_FRESH_MS, "cacheScope": "public"}


async def get_skill(_: ServerRequestContext[Any, Any], params: GetSkillParams) -> dict[str, Any]:
    """Answer `skills/get`. Raises MCPError where the address is no skill's."""
    if params.uri != SKILL_URI:
        raise MCPError(INVALID_PARAMS, f"There is no skill {shorten(params.uri)}; the only one is {SKILL_URI}.")
    return {"resultType": "complete", "skill": skill_entry()}


def _add_skill(server: MCPServer) -> None:
    """Serve the skill, where the package has it."""
    if not skill_file():
        return
    protocol = server._lowlevel_server  # noqa: SLF001
    protocol.extensions[SKILLS] = {}
    protocol.add_request_handler("skills/list", PaginatedRequestParams, list_skills)
    protocol.add_request_handler("skills/get", GetSkillParams, get_skill)
    told = front_matter(skill_file())["description"]
    server.resource(SKILL_URI, name="memory", description=told, mime_type="text/markdown")(
        lambda: skill_file().decode()
    )
