"""The JSON form of one record with its surroundings, of connections, of a session, and of a context's report."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import Entity, Json, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.versions import TOLD, Version, is_storing
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.server.answers import unless_empty
from mcp_memory.entrypoints.server.status_answers import show_standing
from mcp_memory.services.retrieval.result_rendering import record_result, stand_in_result
from mcp_memory.services.sessions.fullness import LogStanding
from mcp_memory.services.sessions.session_account import StoredSession
from mcp_memory.services.status.overview import EntityAccount, Neighbourhood, RecordAccount, RecordFooting, Support

_CONNECTED = ("supersedes", "entities", "relations", "near", "depends_on", "dependents", "further")


def show_account(account: RecordAccount, caller: Caller) -> dict[str, Json]:
    """Show a record in full, with its versions, earlier texts, counters and links."""
    record = account.record
    return (
        record_result(record, "full", caller)
        | {
            "summary": record.summary,
            "micro": record.micro,
            "importance": record.importance,
            "status": record.status,
            "visibility": record.visibility,
            "agent": author(record.agent, caller) or record.agent,
            "session_id": record.session_id,
            "created_at": iso(record.created_at),
            "updated_at": iso(record.updated_at),
            "counters": asdict(record.counters),
            "history": _show_history(record, account.history, caller),
            "earlier": _show_earlier(record, account.history, caller),
        }
        | unless_empty(**_show_footing(account.footing))
        | _show_neighbourhood(account.neighbourhood)
    )


def show_connections(of: RecordAccount | EntityAccount) -> dict[str, Json]:
    """Show the connections of a record or of an entity, and what depends on it."""
    if isinstance(of, RecordAccount):
        linked = _show_neighbourhood(of.neighbourhood) | _show_footing(of.footing)
        after = of.record.superseded_by
        return unless_empty(
            id=of.record.id, text=of.record.text, superseded_by=after, **{name: linked[name] for name in _CONNECTED}
        )
    return unless_empty(
        name=of.name,
        records=_show_briefly(of.records),
        relations=[asdict(each) for each in of.relations],
        dependents=[_show_support(each) for each in of.dependents],
        further=[_show_support(each) for each in of.further],
    )


def show_tie(tie: str, records: Sequence[Record]) -> dict[str, Json]:
    """Show the path between two things, in words, and its records."""
    return {"tie": tie, "records": _show_briefly(records)}


def show_session(stored: StoredSession, standing: LogStanding, caller: Caller) -> dict[str, Json]:
    """Show what one session stored, and how full its log is."""
    compactions: list[Json] = [
        {"number": one.number, "at": iso(one.at), "trigger": one.trigger, "before": one.before, "after": one.after}
        | ({"undone_at": iso(one.undone_at)} if one.undone_at else {})
        for one in stored.compactions
    ]
    summaries: list[Json] = [
        stand_in_result(each.entry, stored.log) | {"compaction": each.compaction, "compacted_at": iso(each.made_at)}
        for each in stored.stand_ins
    ]
    return {
        "session_id": stored.session_id,
        "compactions": compactions,
        "summaries": summaries,
        "records": [record_result(record, "summary", caller) for record in stored.records],
        "log": show_standing(standing),
    }


def show_report(report: ContextReport) -> dict[str, Json]:
    """Show a context's report, which has no texts."""
    return {
        "id": report.id,
        "token_count": report.token_count,
        "truncated": report.truncated,
        "strategy": report.strategy,
        "components": [
            {"source": c.source, "kind": c.kind, "id": c.id, "tokens": c.tokens, "score": c.score, "detail": c.detail}
            | ({"parts": {name: round(part, 4) for name, part in c.parts.items()}} if len(c.parts) > 1 else {})
            | ({"agent": c.agent} if c.agent else {})
            for c in report.components
        ],
        "omitted": [{"id": omission.id, "reason": omission.reason} for omission in report.omitted],
        "metadata": dict(report.metadata),
    }


def _show_footing(footing: RecordFooting) -> dict[str, Any]:
    """Show each part, and how many more there are, by the names of the fields."""
    parts = ((each.name, getattr(footing, each.name)) for each in fields(footing))
    return {name: value if isinstance(value, int) else [_show_support(each) for each in value] for name, value in parts}


def _show_support(support: Support) -> Json:
    return {name: value for name, value in asdict(support).items() if value is not None}


def _show_neighbourhood(around: Neighbourhood) -> dict[str, Json]:
    task = around.task
    return {
        "entities": [_show_entity(entity) for entity in around.entities],
        "relations": [asdict(relation) for relation in around.relations],
        "task": {"id": task.id, "goal": task.goal, "status": task.status} if task else None,
        "supersedes": around.supersedes,
        "near": [asdict(each) for each in around.near],
    }


def _show_entity(entity: Entity) -> Json:
    """Show the caller's statements about an entity, or that the text mentions it."""
    if entity.found:
        return {"name": entity.name, "type": entity.type, "found": True}
    return {"name": entity.name, "type": entity.type, "properties": dict(entity.properties)}


def _show_briefly(records: Sequence[Record]) -> list[Mapping[str, Json]]:
    return [{"id": each.id, "kind": each.kind, "text": each.micro} for each in records]


def _show_history(record: Record, history: Sequence[Version], caller: Caller) -> list[Json]:
    """Show the versions of a record, oldest first: author, client and time of each, and the values it replaced.

    `write` is the number that an undo takes.
    """
    first = Version(
        change=number_of(record.id), write=0, at=record.created_at, agent=record.agent, client=record.client,
        session_id=record.session_id, before={},
    )  # fmt: skip
    if history and is_storing(history[0], record.id):
        storing, *history = history
        first = replace(first, write=storing.write, reason=storing.reason, undone=storing.undone)
    return [
        {"version": each.change, "at": iso(each.at), "by": _author_of(each, caller)}
        | {name: value for name in ("client", "reason", "write", "undone") if (value := getattr(each, name))}
        | {"before": {name: value for name, value in each.before.items() if name in TOLD}}
        | {"rewritten": "text" in each.told}
        for each in (first, *history)
    ]


def _author_of(version: Version, caller: Caller) -> str:
    """Return the name of who made a change; upkeep and those that are not known have no session."""
    if not version.session_id:
        return version.agent or "unknown"
    return author(version.agent, caller) or version.agent


def _show_earlier(record: Record, history: Sequence[Version], caller: Caller) -> list[Json]:
    """Show the earlier texts that are kept, newest first, each with its author."""
    told: list[Json] = []
    for each in reversed(history):
        if "text" in each.before:
            agent = str(each.before.get("rewritten_by") or record.agent)
            told.append({"until": iso(each.at), "text": each.before["text"], "by": author(agent, caller) or agent})
    return told
