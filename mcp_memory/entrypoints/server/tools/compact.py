"""The `compact` tool."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mcp.types import CallToolResult

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.requests import CompactRequest
from mcp_memory.entrypoints.server.answers import unless_empty
from mcp_memory.entrypoints.server.arguments import Arguments
from mcp_memory.entrypoints.server.compaction_answers import nothing_to_do, show_compacted, show_step
from mcp_memory.entrypoints.server.identity import asking, require_local
from mcp_memory.entrypoints.server.request_arguments import request_of
from mcp_memory.entrypoints.server.strict_tool import ClientSide, StrictTool, annotations, make_tool, with_text
from mcp_memory.entrypoints.server.wire import BesideCompact, CompactArguments
from mcp_memory.errors import Conflict, InvalidRequest, SummaryIncomplete

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.scopes import Caller
    from mcp_memory.domain.model.session_log import Entry, SessionLog
    from mcp_memory.services.sessions.compact import Compacted
    from mcp_memory.services.sessions.feed import Fed
    from mcp_memory.services.sessions.summarize_span import Asked

SAMPLED_TOKENS = 8_000
_Told: TypeAlias = list[tuple[tuple[str, ...], str]]
"""For each told entry the originals that it is or replaces, and its text."""
DESCRIPTION = """\
Use when a conversation fills its window: logs it and makes the log shorter, old tool output first, then summaries. \
Put each replacement where what it `covers` was (messages, calls, results, as told, from 1); recall opens originals."""


def build(app: App) -> StrictTool:
    """The tool over this app."""

    def answer(arguments: Arguments, client: ClientSide) -> CallToolResult | dict[str, Json]:
        beside = request_of(BesideCompact, arguments)
        caller = asking(app, client.name, beside.session_id)
        with app.idle_compaction.kept_off(caller):
            return compacted(arguments, beside, client, caller)

    def compacted(
        arguments: Arguments, given: BesideCompact, client: ClientSide, caller: Caller
    ) -> CallToolResult | dict[str, Json]:
        factor = app.factor(caller).factor
        request = _request(arguments, given)

        def compact(asked: CompactRequest) -> Compacted:
            from mcp_memory.services.sessions.summarize_span import Written

            done = app.compact(asked, caller, lambda step: client.progress(*show_step(step, factor)))
            by = "client's model" if given.summarizer == "sampling" else "caller"
            return replace(done, written=Written(by=by, note="", spent=0)) if asked.summary else done

        beside, told = _feed(given, app, caller)
        done = compact(request)
        if given.summarizer == "sampling" and done.asked:
            done, error = _summarised(done, done.asked, request, compact, client)
            beside |= {"sampling": error} if error else {}
            # In the newer era the call was sent twice, and what the first one replaced was never answered.
            done = replace(done, made=tuple(each.entry for each in app.session_accounts.stand_ins(caller)))
        if told and done.log is not None:
            beside |= {"told": done.log.numbered(covers for covers, _ in told)}
            done = replace(done, made=_made_of(told, done, done.log))
        shown = show_compacted(done, beside, int(given.max_tokens / done.factor), app.counter)
        line = "" if "sampling" in beside else nothing_to_do(done)
        return with_text(line, "compact", shown, shows_text=not client.hides_text) if line else shown

    return make_tool("compact", "Compact", DESCRIPTION, CompactArguments, answer, annotations())  # pyrefly: ignore[not-callable] - taken for that of __future__


def _feed(given: BesideCompact, app: App, caller: Caller) -> tuple[dict[str, Json], _Told]:
    """Add the conversation, if there is one, to the session's log; messages are returned as they stand there."""
    if given.messages and given.transcript:
        raise InvalidRequest("Give either messages or transcript, not both.")
    if given.messages:
        from mcp_memory.entrypoints.conversations.messages import read_messages

        records = read_messages(given.messages)
        fed = app.feed(records, caller)
        held = app.held(fed, caller)
        return {"fed": _told(fed)}, [(covers, record.text) for covers, record in zip(held, records, strict=True)]
    if not given.transcript:
        return {}, []
    from mcp_memory.entrypoints.conversations.transcripts import read_transcript

    require_local("send what the transcript says as messages instead.")
    transcript = read_transcript(Path(given.transcript))
    fed = _told(app.feed(transcript.records, caller))
    if transcript.goes_back:
        from mcp_memory.entrypoints.conversations.rewound import branches_in

        branches = branches_in(Path(given.transcript))
        app.take_back(branches.left, caller, branches.standing)
    return {"fed": fed | {"skipped": transcript.skipped, "skipped_kinds": dict(transcript.skipped_kinds)}}, []


def _made_of(told: _Told, done: Compacted, log: SessionLog) -> tuple[Entry, ...]:
    """Return what was made, and all that it takes to make the told messages what the log now is."""
    texts = {text for _, text in told}
    originals = {covered for covers, _ in told for covered in covers}
    made = {entry.id for entry in done.made}
    return tuple(
        entry
        for entry in log.entries
        if entry.id in made
        or (entry.form != "original" and entry.text not in texts and not originals.isdisjoint(entry.covers))
    )


def _told(fed: Fed) -> dict[str, Json]:
    """Return what became of a conversation; that nothing had to be cleaned or cut is not worth telling."""
    shown = {"stored": fed.stored, "known": fed.known, "redacted": fed.redacted}
    files = {"files": fed.files, "files_too_large": fed.refused_files}
    return shown | unless_empty(cleaned=fed.cleaned, harness=fed.harness, **files)


def _request(arguments: Arguments, given: BesideCompact) -> CompactRequest:
    summarizer = "caller" if given.summarizer == "sampling" else given.summarizer
    request = request_of(CompactRequest, arguments, summarizer=summarizer)
    if bool(request.summary) != bool(request.span):
        raise InvalidRequest('summary and span go together: call with summarizer="caller" to be given a span.')
    return request


def _summarised(
    done: Compacted,
    asked: Asked,
    request: CompactRequest,
    compact: Callable[[CompactRequest], Compacted],
    client: ClientSide,
) -> tuple[Compacted, str]:
    """The compaction with the summary by the client's model; or as it was, where none is to be had, and why."""
    try:
        client.check_sampling()
        summary = client.sample(f"{asked.prompt}\n\n<span>\n{asked.text}\n</span>", SAMPLED_TOKENS)
        second_request = replace(request, summary=summary, span=asked.span)
        with suppress(SummaryIncomplete):
            return _joined(done, compact(second_request)), ""
        # A model that is asked again writes the same again: what it left out is found by a query.
        return _joined(done, compact(second_request)), ""
    except (InvalidRequest, Conflict) as error:
        return done, str(error)


def _joined(first: Compacted, second: Compacted) -> Compacted:
    """Return two steps of one compaction as one."""
    runs, extracted = first.runs + second.runs, first.extracted + second.extracted
    return replace(second, before=first.before, runs=runs, extracted=extracted)
