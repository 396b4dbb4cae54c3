"""The JSON form of a memory's status, and of a log against its window."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from mcp_memory.domain.model.health_figures import USAGE_DAYS, Figure
from mcp_memory.domain.model.projects import Membership, State
from mcp_memory.domain.model.records import Json
from mcp_memory.services.sessions.fullness import LogStanding
from mcp_memory.services.status.overview import ClientStatus

_NEXT_STEPS: Final[Mapping[State, str]] = {
    "free": "Nobody uses the claimed namespace yet: the next server, hook, `add` or `import` in this folder takes it.",
    "refused": "If it is your project, run `mcp-memory trust` in this folder, then restart the client.",
}


def show_status(status: ClientStatus) -> dict[str, Json]:
    """Show what is stored where, how well memory serves the agent, and what is configured for the client."""
    caller, seen, factor, index = status.caller, status.memory, status.factor, status.index
    stored = seen.summary
    return {
        "namespace": caller.namespace,
        "agent": caller.agent,
        "session": caller.session_id,
        "records": dict(stored.records),
        "statuses": dict(stored.statuses),
        "promoted": stored.promoted,
        "tasks": dict(stored.tasks),
        "sessions": stored.sessions,
        "reviews": {"waiting": seen.waiting, "asked": seen.asked},
        "graph": {"entities": seen.graph.entities, "relations": seen.graph.relations},
        "topics": seen.topics,
        "store": {
            "path": stored.path,
            "bytes": stored.file_bytes,
            "engine": stored.engine,
            "schema": stored.schema_version,
            "revision": stored.revision,
            "embedder": stored.embedder,
        },
        "health": {figure.name: _show_figure(figure) for figure in seen.figures},
        "contexts": {
            "days": USAGE_DAYS,
            "given": seen.contexts.contexts,
            "strategies": dict(seen.contexts.strategies),
            "picked": dict(seen.contexts.picked),
        },
        "folder": show_folder(status.membership, status.former),
        "tokens": {
            "encoding": status.encoding,
            "family": factor.family,
            "factor": factor.factor,
            "known_error": factor.known_error,
        },
        # The index's counts cover every namespace; what it says, the caller's scopes.
        "index": {"mode": index.mode, "state": index.state, "says": index.says, "reason": index.reason},
        "session_log": show_standing(status.log) | {"passes": {name: asdict(of) for name, of in status.passes.items()}},
    }


def show_folder(membership: Membership, former: str = "") -> dict[str, Json]:
    """Show a process's folder, its namespace and the reason for it, and your next step; `former` is one, too."""
    shown: dict[str, Json] = {"state": membership.state, "namespace": membership.namespace}
    if (project := membership.project) is None:
        return shown
    return shown | {
        "path": project.folder,
        "repository": project.repository or None,
        "claims": project.claim or None,
        "is_proven": project.is_proven,
        "next_step": former or _NEXT_STEPS.get(membership.state),
    }


def show_standing(standing: LogStanding) -> dict[str, Json]:
    """Show a log against its window; advice where there is some."""
    shown: dict[str, Json] = {**asdict(standing)}
    return shown if standing.warnings else {name: each for name, each in shown.items() if name != "warnings"}


def _show_figure(figure: Figure) -> Json:
    value = None if figure.value is None else round(figure.value, 3)
    return {"value": value, "target": str(figure.band) if figure.band else None, "verdict": figure.verdict}
