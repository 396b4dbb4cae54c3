"""The screens of one record: what it says and stands on, its versions, and every change of it by one button."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from markupsafe import Markup
from starlette.responses import Response

from mcp_memory.domain.model.ids import RECORD, TASK, is_id, make_id
from mcp_memory.domain.model.lifecycle import NOTED, first_status, stage_of
from mcp_memory.domain.model.records import Details, GivenKind, Record, Status
from mcp_memory.domain.model.requests import Revision
from mcp_memory.domain.text.times import validity
from mcp_memory.entrypoints.page.edit import NAME
from mcp_memory.entrypoints.page.kind_fields import effect_of
from mcp_memory.entrypoints.page.markdown import MOST_DRAWN, drawn, has_markup
from mcp_memory.entrypoints.page.reads import reads_of
from mcp_memory.entrypoints.page.review import title_of
from mcp_memory.entrypoints.page.surroundings import NEAR_SHOWN, contexts_naming, drawing_of, in_rows
from mcp_memory.entrypoints.page.versions import (
    reason_of_status,
    shown_versions,
    taken,
    value_in_words,
)
from mcp_memory.entrypoints.page.visits import Screen, Visit
from mcp_memory.entrypoints.page.wording import goal_in_words, times
from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.request_arguments import request_of
from mcp_memory.entrypoints.server.wire import ReviseArguments
from mcp_memory.errors import Conflict, NotFound

if TYPE_CHECKING:
    from mcp_memory.domain.model.requests import ForgetMode
    from mcp_memory.domain.model.versions import Version
    from mcp_memory.services.status.overview import Neighbour, RecordFooting

SHOWN_CHARACTERS: Final = MOST_DRAWN
"""Characters of a record's text that its page shows before it is asked for all."""


def show_record(visit: Visit) -> Response:
    app, caller, record_id = visit.app, visit.caller, visit.record_id()
    until, text_in = _number(visit.asked("before")), _number(visit.asked("text_in"))
    record = app.inspect.visible(record_id, caller)
    around = app.inspect.neighbourhood(record, caller, NEAR_SHOWN)
    footing = app.inspect.footing(record_id, caller)
    near, ties = _apart(around.near, footing)
    given = contexts_naming(visit, record_id)
    reads = reads_of(visit, record_id)
    beside_it = app.inspect.seen_of([*around.supersedes, *filter(None, [record.superseded_by])], caller)
    groups = [each.review for each in app.reviews.waiting(caller, record_id=record_id)]
    excluded = app.exclusions.of(record_id, caller)
    through = (label for each in around.near for label in each.via)
    names_tasks = excluded or record.kind == "result" or any(is_id(each, TASK) for each in through)
    tasks = {task.id: goal_in_words(task.goal) for task in app.tasks.tree(caller)} if names_tasks else {}
    versions, is_more = taken(app.inspect.versions(record_id, until or None))
    newer = next(app.inspect.versions(record_id, text_in + 1), None) if until and text_in else None
    wrong_because = reason_of_status(app.inspect.versions(record_id)) if record.status == "inactive" else ""
    beside = app.undo.beside(record_id, versions[0].write, caller) if versions and not until else 0
    has_log = record.namespace == caller.namespace and visit.has_log(record.session_id, record.agent)
    visit.reading.close()
    text = str(newer.before.get("text", "")) if newer else record.text
    shown, text_before = shown_versions(versions, text, record, caller, is_older=bool(until))
    older = f"before={versions[-1].change}&text_in={text_before or text_in or ''}" if is_more else ""
    return visit.page(
        "record.html",
        here=NAME,
        record=record,
        beside=beside,
        wrong_because=wrong_because,
        **_text(record, whole=bool(visit.asked("all"))),
        facts=_facts(record, visit.now),
        has_log=has_log,
        details=_details(record.details),
        effect=effect_of(record),
        edited_by=_editor(visit, record, versions),
        result_of=_result_of(record, tasks),
        around=around,
        replaced=[beside_it[each] for each in around.supersedes if each in beside_it],
        successor=beside_it.get(record.superseded_by or ""),
        footing=footing,
        given=given,
        reads=reads,
        groups=[(each, title_of(each, record)) for each in groups],
        near=near,
        ties=ties,
        goals=tasks,
        drawing=drawing_of(near, tasks),
        excluded=[(each, tasks.get(each.task_id, "")) for each in excluded],
        versions=shown,
        is_first_page=not until,
        older=older,
        promotion=promotion_of(record),
        may_supersede=record.kind in get_args(GivenKind),
        is_readable_only=record.namespace != caller.namespace and record.visibility != "user",
    )


def _apart(
    near: Sequence[Neighbour], footing: RecordFooting
) -> tuple[Sequence[Neighbour], Mapping[str, Sequence[str]]]:
    """Return the neighbours that the footing does not list, in rows; and of those that it lists what ties them."""
    listed = {each.id for part in (footing.depends_on, footing.dependents, footing.further) for each in part}
    ties = {each.id: each.via for each in near if each.id in listed}
    return in_rows([each for each in near if each.id not in listed]), ties


def _editor(visit: Visit, record: Record, versions: Sequence[Version]) -> str:
    """Return who wrote the text as it is now, where that is not who stored it."""
    last = next((each for each in versions if "normal_hash" in each.before), None)
    return visit.name_of(record.rewritten_by, last.client if last else "") if record.rewritten_by else ""


def _text(record: Record, *, whole: bool) -> dict[str, Any]:
    """Return the text as its page shows it: drawn where it is short enough, else as it is stored, at first in part."""
    is_drawn = len(record.text) <= SHOWN_CHARACTERS
    text = drawn(record.text) if is_drawn else Markup()
    return {
        "text": text,
        "is_drawn": is_drawn,
        "has_markup": has_markup(text),
        "is_whole": whole or is_drawn,
        "shown_characters": SHOWN_CHARACTERS,
    }


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else 0


def _facts(record: Record, now: float) -> dict[str, str]:
    """Return the short fields of a record that say something, by the words that people read."""
    counters = record.counters
    used = {
        "used": counters.used, "ignored": counters.ignored, "opened": counters.accessed,
        "confirmed": counters.confirmed, "applied": counters.activated, "worked": counters.succeeded,
    }  # fmt: skip
    told: dict[str, Any] = {
        "True": validity(record.valid_from, record.valid_until, now),
        "Importance": f"{record.importance:g} of 10",
        "Confidence": "" if record.confidence is None else f"{record.confidence:.0%}",
        "Outcome": record.outcome,
        "Use": ", ".join(f"{what} {times(count)}" for what, count in used.items() if count) or "not used yet",
        "Said by": record.speaker,
        "Tool": record.tool,
        "Session": record.session_id,
        "Stored with": record.client,
    }
    return {name: value for name, value in told.items() if value}


def _details(details: Details) -> dict[str, str]:
    return {name: value_in_words(value) for name, value in details.items() if value not in (None, "", (), [])}


def _result_of(record: Record, goals: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the id and the goal of the task whose result the record is, where it is in the visitor's namespace."""
    task_id = str(record.details.get("task", "")) if record.kind == "result" else ""
    return (task_id, goals[task_id]) if task_id in goals else None


def promotion_of(record: Record) -> Status | None:
    """Return the status that a person may promote the record to, None where there is none."""
    if stage_of(record) == NOTED:
        return first_status(record.kind)
    return "core" if record.kind == "fact" and record.status in ("new", "confirmed") else None


def _revising(done: str, **fixed: object) -> Callable[[Visit], Response]:
    """Return a screen that makes one fixed change of a record, from its page or from a line that shows it.

    A form may give the reason, which is kept with the version.
    """

    def act(visit: Visit) -> Response:
        record_id = visit.record_id()
        asked = {"id": record_id, "version": visit.number("version"), **fixed}
        if reason := (visit.given("reason") or "").strip():
            asked["reason"] = reason
        revised = visit.app.revise.advised(request_of(Revision, read_arguments(ReviseArguments, asked)), visit.caller)
        return visit.see(visit.back(f"/record/{record_id}"), done=done, change=revised.change)

    return act


def promote(visit: Visit) -> Response:
    status = promotion_of(visit.app.inspect.visible(visit.record_id(), visit.caller))
    if not status:
        raise Conflict("This record is promoted already.")
    return _revising("promoted", status=status)(visit)


def _moving(mode: ForgetMode, done: str) -> Callable[[Visit], Response]:
    def act(visit: Visit) -> Response:
        record_id = visit.record_id()
        forgotten = visit.app.forget([record_id], mode, visit.caller, visit.number("version"))
        if not forgotten.done:
            raise NotFound("There is no such record any more.")
        return visit.see(f"/record/{record_id}", done=done, change=forgotten.change)

    return act


def show_erase(visit: Visit, problem: str = "", typed: str = "") -> Response:
    """Ask for the record's id; after a wrong one with the `problem` beside the field."""
    record = visit.app.inspect.visible(visit.record_id(), visit.caller)
    status = 400 if problem else 200
    return visit.page("erase.html", status, here=NAME, record=record, problem=problem, typed=typed)


def erase(visit: Visit) -> Response:
    """Destroy a record, once the person has typed its id."""
    record_id = visit.record_id()
    typed = (visit.given("typed") or "").strip()
    if typed != record_id:
        return show_erase(visit, f"Nothing was erased: this is not {record_id}.", typed)
    forgotten = visit.app.forget([record_id], "erase", visit.caller, visit.number("version"))
    if not forgotten.done:
        raise NotFound("There is no such record any more.")
    done = "erased_copies" if forgotten.copies else "erased"
    return visit.see("/", done=done if forgotten.purged else "pending")


def undo(visit: Visit) -> Response:
    """Take a change back; with it the record that the same person had put in another's place by it."""
    app, caller, change = visit.app, visit.caller, visit.number("change")
    made = make_id(RECORD, change) if visit.given("made") else ""
    taken = app.undo(change, caller)
    if made and not _withdrawn(visit, made):
        return visit.see(f"/record/{made}", done="kept")
    back = visit.back()
    if made and back.partition("?")[0] == f"/record/{made}":  # It is gone; what it had replaced holds again.
        back = next((f"/record/{each.id}" for each in taken.records if each.id != made), "/")
    if taken.groups and back.startswith("/review"):  # It waits there again.
        return visit.see(f"{back.partition('#')[0]}#{taken.groups[0]}", done="waits_again")
    if len(taken.records) == 1:
        return visit.see(back, done="undone_one", was=taken.records[0].id)
    return visit.see(back, done="undone_some" if taken.records else "undone", number=len(taken.records))


def _withdrawn(visit: Visit, made: str) -> bool:
    """Take away what the person had put in another's place; return False where others rely on it by now."""
    app, caller = visit.app, visit.caller
    if app.inspect.footing(made, caller).dependents:
        return False
    return app.withdraw(made, caller, erases=visit.may("admin"))


SCREENS: Final = (
    Screen(path="/record/{id}", answer=show_record),
    Screen(path="/record/{id}/wrong", answer=_revising("wrong", feedback="wrong"), changes=True),
    Screen(path="/record/{id}/pin", answer=_revising("pinned", pinned=True), changes=True),
    Screen(path="/record/{id}/unpin", answer=_revising("unpinned", pinned=False), changes=True),
    Screen(path="/record/{id}/promote", answer=promote, changes=True),
    Screen(path="/record/{id}/retire", answer=_moving("retire", "retired"), changes=True),
    Screen(path="/record/{id}/restore", answer=_moving("restore", "restored"), changes=True),
    Screen(path="/record/{id}/erase", answer=show_erase, right="admin"),
    Screen(path="/record/{id}/erased", answer=erase, changes=True, right="admin"),
    Screen(path="/undo", answer=undo, changes=True),
)
