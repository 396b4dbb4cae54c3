"""The forms that reword a record: edit and supersede, each beside what somebody else changed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from starlette.responses import Response

from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.domain.model.records import NewRecord, Outcome, Record, Visibility
from mcp_memory.domain.model.requests import RecallRequest, Revision
from mcp_memory.domain.text.times import iso_day, last_day
from mcp_memory.entrypoints.page.kind_fields import KIND_FIELDS, may_say_fields, read_fields, shown_fields
from mcp_memory.entrypoints.page.listing import LASTING, MAX_FIELD
from mcp_memory.entrypoints.page.rendering import DiffPart, WordDiff
from mcp_memory.entrypoints.page.visits import TEXT_BYTES, Screen, Visit, checked_id
from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.request_arguments import given, request_of
from mcp_memory.entrypoints.server.wire import ItemArgument, ReviseArguments
from mcp_memory.errors import Conflict, InvalidRequest, NotFound

NAME: Final = "Memories"
NEAREST_SHOWN: Final = 5
"""Records that may take the place of one, shown for a choice."""


def show_edit(visit: Visit) -> Response:
    return _edit_page(visit, visit.app.inspect.visible(visit.record_id(), visit.caller))


def _edit_page(visit: Visit, record: Record, status: int = 200, **values: Any) -> Response:
    may_say = may_say_fields(visit, record)
    return visit.page(
        "edit.html",
        status,
        here=NAME,
        record=record,
        given=_form_of(record) | values.pop("given", {}),
        kind_fields=KIND_FIELDS.get(record.kind, ()) if may_say else (),
        may_say_fields=may_say,
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
        "valid_until": "" if record.valid_until is None else last_day(record.valid_until),  # its last day
        **shown_fields(record.details, record.kind),
    }


def edit(visit: Visit) -> Response:
    """Apply what the person changed in the form, and nothing else."""
    version = visit.number("version")
    record, base, _ = visit.app.inspect.since(visit.record_id(), version, visit.caller)
    given = _form_of(base)
    fixed = () if may_say_fields(visit, record) else shown_fields(record.details, record.kind)
    said = {name: value for name in given if name not in fixed and (value := visit.given(name)) is not None}
    changed = {name: value for name, value in said.items() if value != _as_sent(given[name])}
    if not changed:
        return visit.see(f"/record/{record.id}", done="unchanged")
    reason = (visit.given("reason") or "").strip()
    try:
        revision = _revision(visit, record, changed, reason=reason, version=version)
        revised = visit.app.revise.advised(revision, visit.caller)
    except (InvalidRequest, Conflict) as error:  # The form keeps what the person wrote.
        now, base, is_changed = visit.app.inspect.since(visit.record_id(), version, visit.caller)
        if is_changed:
            return _conflict(visit, now, base, changed)
        return _edit_page(visit, now, 400, given=changed, said=str(error))
    return visit.see(f"/record/{record.id}", done="changed", change=revised.change)


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


def _revision(visit: Visit, record: Record, changed: Mapping[str, str], *, reason: str, version: int) -> Revision:
    """Return the revision that fields of the form ask for, checked as an agent's are. Raises InvalidRequest."""
    asked: dict[str, object] = {"id": record.id, "version": version}
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
    details = read_fields(changed, record.kind) or None
    return request_of(Revision, read_arguments(ReviseArguments, asked), details=details, **valid)


def _decimal(text: str) -> float:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        raise InvalidRequest(f"{text.strip()[:40]!r} is no number.") from None


def show_supersede(visit: Visit) -> Response:
    record = visit.app.inspect.visible(visit.record_id(), visit.caller)
    return _supersede_page(visit, record, mine=record.text)


def _supersede_page(visit: Visit, record: Record, status: int = 200, **values: Any) -> Response:
    """Show the form, with the records nearest to this one, one of which may say already what holds now."""
    query = (visit.asked("q") or record.text)[:MAX_FIELD]
    asked = RecallRequest(query=query, kinds=LASTING, limit=NEAREST_SHOWN + 1, detail="micro", only_looks=True)
    near = {each.id: each.data["text"] for each in visit.app.recall(asked, visit.caller).shown}
    if not visit.asked("q"):  # A search answers what is meant; what is near by the names it mentions is more than that.
        beside = visit.app.inspect.neighbourhood(record, visit.caller, NEAREST_SHOWN).near
        near |= {each.id: each.text for each in beside}
    nearest = [(each, text) for each, text in near.items() if each.startswith(RECORD) and each != record.id]
    return visit.page(
        "supersede.html",
        status,
        here=NAME,
        record=record,
        near=nearest[:NEAREST_SHOWN],
        **{"theirs": None, "said": "", **values},
    )


def supersede(visit: Visit) -> Response:
    """Put a record in its place: one that is there already, or one with the text of the form."""
    app, caller = visit.app, visit.caller
    version, text = visit.number("version"), visit.given("text") or ""
    other = (visit.given("by") or visit.given("near") or "").strip()
    old, base, is_changed = visit.app.inspect.since(visit.record_id(), version, visit.caller)
    is_new = bool(text.strip()) and text.strip() != _as_sent(base.text).strip()
    if is_new == bool(other):
        raise InvalidRequest("Write what holds now in place of the text, or choose the record that says it; not both.")
    if is_changed:
        return _supersede_page(visit, old, 409, mine=text, theirs=WordDiff()(text, old.text))
    app.saw([old.id], version, caller)
    if other:
        try:
            newer = app.inspect.visible(checked_id(other, RECORD), caller)
        except NotFound:
            return _supersede_page(
                visit, old, 404, mine=text, said="There is no record of that id; search for it above."
            )
        if newer.id == old.id:
            raise InvalidRequest("A record does not take its own place; give the id of another one.")
        change = app.revise.advised(Revision(id=newer.id, supersedes=(old.id,), version=newer.version), caller).change
        return visit.see(f"/record/{newer.id}", done="superseded", change=change)
    checked = given(read_arguments(ItemArgument, {"text": text, "kind": old.kind, "visibility": old.visibility}))
    item = NewRecord(
        text=checked["text"], kind=old.kind, visibility=old.visibility, supersedes=(old.id,), tags=old.tags,
        importance=old.importance, pinned=old.pinned, details=old.details, speaker=old.speaker, reassert=True,
    )  # fmt: skip
    [remembered] = app.remember([item], caller)
    now = app.inspect.visible(old.id, caller)
    if now.superseded_by != remembered.id:
        raise Conflict(f"Record {remembered.id} says this already, and nothing was changed; look at it first.")
    latest = next(app.inspect.versions(old.id))
    is_made = remembered.id == make_id(RECORD, latest.write)
    return visit.see(f"/record/{remembered.id}", done="superseded", change=latest.write, made=int(is_made))


SCREENS: Final = (
    Screen(path="/record/{id}/edit", answer=show_edit, right="write"),
    Screen(path="/record/{id}/edited", answer=edit, changes=True, most_bytes=TEXT_BYTES),
    Screen(path="/record/{id}/supersede", answer=show_supersede, right="write"),
    Screen(path="/record/{id}/superseded", answer=supersede, changes=True, most_bytes=TEXT_BYTES),
)
