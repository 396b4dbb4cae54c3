"""The screens of one record: what it says and stands on, its versions as word diffs, and every way to correct it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from starlette.responses import Response

from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.domain.model.lifecycle import NOTED, first_status, stage_of
from mcp_memory.domain.model.records import Details, GivenKind, NewRecord, Outcome, Record, Status, Visibility
from mcp_memory.domain.model.versions import TOLD, Version, before
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.domain.text.times import iso_day, validity
from mcp_memory.entrypoints.page.doors import CLIENT
from mcp_memory.entrypoints.page.rendering import DiffPart, WordDiff
from mcp_memory.entrypoints.page.surroundings import NEAR_SHOWN, contexts_naming, drawn
from mcp_memory.entrypoints.page.visits import TEXT_BYTES, Screen, Visit, checked_id
from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.wire import ItemArgument, ReviseArguments, request_of
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.status.overview import neighbourhood
from mcp_memory.services.tasks.branch_visibility import hidden_branches

if TYPE_CHECKING:
    from mcp_memory.domain.model.scopes import Caller
    from mcp_memory.ports.records import MemoryReader
    from mcp_memory.services.memory.forget import ForgetMode

SHOWN_CHARACTERS: Final = 20_000
"""Characters of a record's text that its page shows before it is asked for all."""
VERSIONS_SHOWN: Final = 50
VERSIONS_AT_ONCE: Final = 4
MOST_CHARACTERS: Final = 3_000_000
"""Characters of earlier texts from which on a page takes in no more versions."""
NAME: Final = "Memories"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersion:
    """A version for a person: when, by whom, why; what it was before, by field; and its text against the next one."""

    version: Version
    by: str
    before: Mapping[str, str]
    diff: Sequence[DiffPart] = ()
    is_gone: bool = False
    has_made: bool = False
    """True where a person put a new record in its place by this change, which goes with an undo."""


def show_record(visit: Visit) -> Response:
    app, caller, record_id = visit.app, visit.caller, visit.record_id()
    until, text_in = _number(visit.asked("before")), _number(visit.asked("text_in"))
    with app.follower.snapshot():
        record = app.inspect.visible(record_id, caller)
        around = neighbourhood(record, caller, hidden_branches(app.records, caller), app.records, app.graph, NEAR_SHOWN)
        footing = app.inspect.footing(record_id, caller)
        given = contexts_naming(visit, record_id)
        excluded = app.exclusions.of(record_id, caller)
        tasks = {task.id: task.goal for task in app.tasks.tree(caller)} if excluded else {}
        versions, is_more = _taken(_versions(app.records, record_id, until or None))
        newer = app.records.latest_versions(record_id, 1, text_in + 1) if until and text_in else ()
        beside = _changed_beside(visit, record_id, versions[0].write) if versions and not until else 0
    text = str(newer[0].before.get("text", "")) if newer else record.text
    shown, text_before = _shown_versions(versions, text, record, caller)
    older = f"before={versions[-1].change}&text_in={text_before or text_in or ''}" if is_more else ""
    return visit.page(
        "record.html",
        here=NAME,
        record=record,
        beside=beside,
        is_whole=bool(visit.asked("all")) or len(record.text) <= SHOWN_CHARACTERS,
        shown_characters=SHOWN_CHARACTERS,
        facts=_facts(record, visit.now),
        details=_details(record.details),
        around=around,
        footing=footing,
        given=given,
        drawing=drawn(around),
        excluded=[(each, tasks.get(each.task_id, "")) for each in excluded],
        versions=shown,
        is_first_page=not until,
        older=older,
        promotion=promotion_of(record),
        may_supersede=record.kind in get_args(GivenKind),
        is_readable_only=record.namespace != caller.namespace and record.visibility != "user",
    )


def _versions(records: MemoryReader, record_id: str, until: int | None = None) -> Iterator[Version]:
    """Yield the versions of a record, newest first, read a few at a time: each may hold a text of a million signs."""
    while some := records.latest_versions(record_id, VERSIONS_AT_ONCE, until):
        yield from some
        until = some[-1].change


def _taken(versions: Iterable[Version]) -> tuple[list[Version], bool]:
    """Return as many versions as one page shows, and True where there are more."""
    taken: list[Version] = []
    characters = 0
    for each in versions:
        if len(taken) == VERSIONS_SHOWN or characters > MOST_CHARACTERS:
            return taken, True
        taken.append(each)
        characters += len(str(each.before.get("text", "")))
    return taken, False


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else 0


def _shown_versions(
    versions: Sequence[Version], text: str, record: Record, caller: Caller
) -> tuple[list[ShownVersion], int]:
    """Return versions for a person, newest first; and the change of the last one that says an earlier text."""
    compare, text_before = WordDiff(), 0
    shown: list[ShownVersion] = []
    for each in versions:
        diff: Sequence[DiffPart] = ()
        if "text" in each.before:
            earlier = str(each.before["text"])
            diff, text, text_before = compare(earlier, text), earlier, each.change
        fields = {name: _value(value) for name, value in each.before.items() if name in TOLD}
        is_gone = "normal_hash" in each.before and "text" not in each.before
        by = (author(each.agent, caller) or each.agent) if each.session_id else each.agent or "unknown"
        has_made = each.client == CLIENT and record.superseded_by == make_id(RECORD, each.write)
        shown.append(ShownVersion(version=each, by=by, before=fields, diff=diff, is_gone=is_gone, has_made=has_made))
    return shown, text_before


def _changed_beside(visit: Visit, record_id: str, write: int) -> int:
    """Return how many other records that the visitor sees the same write changed: an undo takes all of them back."""
    written = visit.app.records.written(write)
    return len(visit.app.records.get([*written], visit.caller.scopes).keys() - {record_id})


def _facts(record: Record, now: float) -> dict[str, str]:
    """Return the short fields of a record that say something, by the words that people read."""
    counters = record.counters
    used = (
        f"used {counters.used}, ignored {counters.ignored}, opened {counters.accessed}, met again {counters.confirmed}"
    )
    judged = f", applied {counters.activated}, of which it worked {counters.succeeded}" if counters.activated else ""
    told: dict[str, Any] = {
        "True": validity(record.valid_from, record.valid_until, now),
        "Importance": f"{record.importance:g} of 10",
        "Confidence": "" if record.confidence is None else f"{record.confidence:.0%}",
        "Outcome": record.outcome,
        "Feedback": used + judged,
        "Said by": record.speaker,
        "Tool": record.tool,
        "Session": record.session_id,
        "Stored with": record.client,
    }
    return {name: value for name, value in told.items() if value}


def _details(details: Details) -> dict[str, str]:
    return {name: _value(value) for name, value in details.items() if value not in (None, "", (), [])}


def _value(value: object) -> str:
    """Return a stored value in words: a list with dots, as a tag may hold a comma; anything nested as it is stored."""
    if value in (None, "", [], ()):
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in cast("Sequence[object]", value)):
        return " · ".join(cast("Sequence[str]", value))
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def promotion_of(record: Record) -> Status | None:
    """Return the status that a person may promote the record to, None where there is none."""
    if stage_of(record) == NOTED:
        return first_status(record.kind)
    return "core" if record.kind == "fact" and record.status in ("new", "confirmed") else None


def show_edit(visit: Visit) -> Response:
    return _edit_page(visit, visit.app.inspect.visible(visit.record_id(), visit.caller))


def _edit_page(visit: Visit, record: Record, status: int = 200, **values: Any) -> Response:
    return visit.page(
        "edit.html",
        status,
        here=NAME,
        record=record,
        given=_form_of(record) | values.pop("given", {}),
        outcomes=get_args(Outcome),
        visibilities=get_args(Visibility),
        **{"said": "", "differs": {}, "diff": (), "is_mine": False, **values},
    )


def _form_of(record: Record) -> dict[str, str]:
    """Return the fields of the form as the record fills them; a tag may hold a comma, so that each has a line."""
    return {
        "text": record.text,
        "tags": "\n".join(record.tags),
        "importance": f"{record.importance:g}",
        "confidence": "" if record.confidence is None else f"{record.confidence:g}",
        "outcome": record.outcome or "",
        "visibility": record.visibility,
        "valid_from": "" if record.valid_from is None else iso_day(record.valid_from),
        "valid_until": "" if record.valid_until is None else iso_day(record.valid_until - 1),  # its last day
    }


def edit(visit: Visit) -> Response:
    """Apply what the person changed in the form, and nothing else."""
    version = visit.number("version")
    record, base, _ = _since(visit, version)
    given = _form_of(base)
    said = {name: value for name in given if (value := visit.given(name)) is not None}
    changed = {name: value for name, value in said.items() if value != _as_sent(given[name])}
    if not changed:
        return visit.see(f"/record/{record.id}", done="unchanged")
    reason = (visit.given("reason") or "").strip()
    try:
        revision = _revision(visit, record.id, changed, reason=reason, version=version)
        revised = visit.app.revise.advised(revision, visit.caller)
    except (InvalidRequest, Conflict) as error:  # The form keeps what the person wrote.
        now, base, is_changed = _since(visit, version)
        if is_changed:
            return _conflict(visit, now, base, changed)
        return _edit_page(visit, now, 400, given=changed, said=str(error))
    return visit.see(f"/record/{record.id}", done="changed", change=revised.change)


def _since(visit: Visit, version: int) -> tuple[Record, Record, bool]:
    """Return the record as it is, as it was at that version, and True where somebody has changed it since."""
    with visit.app.follower.snapshot():
        now = base = visit.app.inspect.visible(visit.record_id(), visit.caller)
        is_changed = False
        for each in takewhile(lambda each: each.change > version, _versions(visit.app.records, now.id)):
            base, is_changed = before(base, each), is_changed or each.takes_back
    return now, base, is_changed


def _as_sent(text: str) -> str:
    """Return a field's text as a browser gives it back: with one kind of line break."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _conflict(visit: Visit, now: Record, base: Record, changed: Mapping[str, str]) -> Response:
    """Show the form again as the record is now, with what the person changed, beside what somebody else did."""
    was, given = ({"status": each.status, **_form_of(each)} for each in (base, now))
    differs = {name: (was[name], given[name]) for name in given if name != "text" and was[name] != given[name]}
    mine = changed.get("text")
    diff: Sequence[DiffPart] = ()
    if mine is not None:
        diff = WordDiff()(now.text, mine)
    elif base.text != now.text:
        diff = WordDiff()(base.text, now.text)
    why = "Somebody changed this record while you wrote. Nothing was stored yet: compare, then save again."
    return _edit_page(visit, now, 409, given=changed, said=why, diff=diff, is_mine=mine is not None, differs=differs)


def _revision(visit: Visit, record_id: str, changed: Mapping[str, str], *, reason: str, version: int) -> Revision:
    """Return the revision that fields of the form ask for, checked as an agent's are. Raises InvalidRequest."""
    asked: dict[str, object] = {"id": record_id, "version": version}
    if reason:
        asked["reason"] = reason
    if "text" in changed:
        asked["text"] = changed["text"]
        if not changed["text"].strip():
            raise InvalidRequest("The text is empty; retire the record instead.")
    if "tags" in changed:
        asked["tags"] = [line.strip() for line in changed["tags"].split("\n") if line.strip()]
    for name in ("importance", "confidence"):
        if changed.get(name):
            asked[name] = _decimal(changed[name])
    asked |= {name: changed[name] for name in ("outcome", "visibility") if changed.get(name)}
    if emptied := [name for name in ("importance", "confidence", "outcome") if changed.get(name) == ""]:
        raise InvalidRequest(f"The {emptied[0]} cannot be taken away once it is given; give another one.")
    if any(changed.get(name) == "" for name in ("valid_from", "valid_until")):
        raise InvalidRequest("A beginning or an end cannot be taken away once it is given; give another one.")
    valid = visit.app.searcher.validity(changed.get("valid_from", ""), changed.get("valid_until", ""))
    return request_of(Revision, read_arguments(ReviseArguments, asked), **valid)


def _decimal(text: str) -> float:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        raise InvalidRequest(f"{text.strip()[:40]!r} is no number.") from None


def _revising(done: str, **fixed: object) -> Callable[[Visit], Response]:
    """Return a screen that makes one fixed change of a record, from its page or from a line that shows it."""

    def act(visit: Visit) -> Response:
        record_id = visit.record_id()
        asked = {"id": record_id, "version": visit.number("version"), **fixed}
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


def show_supersede(visit: Visit) -> Response:
    record = visit.app.inspect.visible(visit.record_id(), visit.caller)
    return visit.page("supersede.html", here=NAME, record=record, theirs=None, mine="")


def supersede(visit: Visit) -> Response:
    """Put a record in its place: one that is there already, or one with the text of the form."""
    app, caller = visit.app, visit.caller
    version, text, other = visit.number("version"), visit.given("text") or "", (visit.given("by") or "").strip()
    old, _, is_changed = _since(visit, version)
    if bool(text.strip()) == bool(other):
        raise InvalidRequest("Write what holds now, or give the id of the record that says it.")
    if is_changed:
        page = {"record": old, "mine": text, "theirs": WordDiff()(text, old.text)}
        return visit.page("supersede.html", 409, here=NAME, **page)
    app.saw([old.id], version, caller)
    if other:
        newer = app.inspect.visible(checked_id(other, RECORD), caller)
        if newer.id == old.id:
            raise InvalidRequest("A record does not take its own place; give the id of another one.")
        change = app.revise.advised(Revision(id=newer.id, supersedes=(old.id,), version=newer.version), caller).change
        return visit.see(f"/record/{old.id}", done="superseded", change=change)
    checked = read_arguments(ItemArgument, {"text": text, "kind": old.kind, "visibility": old.visibility})
    item = NewRecord(
        text=checked.text, kind=old.kind, visibility=old.visibility, supersedes=(old.id,), tags=old.tags,
        importance=old.importance, pinned=old.pinned, details=old.details, speaker=old.speaker, reassert=True,
    )  # fmt: skip
    [remembered] = app.remember([item], caller)
    now = app.inspect.visible(old.id, caller)
    if now.superseded_by != remembered.id:
        raise Conflict(f"Record {remembered.id} says this already, and nothing was changed; look at it first.")
    [latest] = app.records.latest_versions(old.id, 1)
    is_made = remembered.id == make_id(RECORD, latest.write)
    return visit.see(f"/record/{old.id}", done="superseded", change=latest.write, made=int(is_made))


def show_erase(visit: Visit) -> Response:
    return visit.page("erase.html", here=NAME, record=visit.app.inspect.visible(visit.record_id(), visit.caller))


def erase(visit: Visit) -> Response:
    """Destroy a record, once the person has typed its id."""
    record_id = visit.record_id()
    if (visit.given("typed") or "").strip() != record_id:
        raise InvalidRequest(f"Nothing was erased: to erase the record, type its id, {record_id}.")
    forgotten = visit.app.forget([record_id], "erase", visit.caller, visit.number("version"))
    if not forgotten.done:
        raise NotFound("There is no such record any more.")
    return visit.see("/", done="erased" if forgotten.purged else "pending")


def undo(visit: Visit) -> Response:
    """Take a change back; with it the record that the same person had put in another's place by it."""
    app, caller, change = visit.app, visit.caller, visit.number("change")
    made = make_id(RECORD, change) if visit.given("made") else ""
    app.undo(change, caller)
    if made and not _withdrawn(visit, made):
        return visit.see(f"/record/{made}", done="kept")
    return visit.see(visit.back(), done="undone")


def _withdrawn(visit: Visit, made: str) -> bool:
    """Take away what the person had put in another's place; return False where others rely on it by now."""
    app, caller = visit.app, visit.caller
    if app.inspect.footing(made, caller)["dependents"]:
        return False
    return app.withdraw(made, caller, erases=visit.may("admin"))


SCREENS: Final = (
    Screen(path="/record/{id}", answer=show_record),
    Screen(path="/record/{id}/edit", answer=show_edit, right="write"),
    Screen(path="/record/{id}/edited", answer=edit, changes=True, most_bytes=TEXT_BYTES),
    Screen(path="/record/{id}/supersede", answer=show_supersede, right="write"),
    Screen(path="/record/{id}/superseded", answer=supersede, changes=True, most_bytes=TEXT_BYTES),
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
