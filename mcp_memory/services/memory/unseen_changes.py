"""Unseen changes: refuses to change records that somebody else has changed since the caller saw them."""

from collections.abc import Callable, Sequence

from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.versions import Version
from mcp_memory.domain.text.prompt_safety import author, one_line
from mcp_memory.domain.text.times import iso_minute
from mcp_memory.errors import Conflict
from mcp_memory.ports.shown import ShownTexts
from mcp_memory.ports.transaction import VersionReader


def refuse_unseen(
    records: Sequence[Record], version: int | None, caller: Caller, shown_texts: ShownTexts, versions: VersionReader
) -> None:
    """Refuse where a record has changed after `version` or, without one, unseen by the caller's session.

    What a session saw last is what it was shown or, where it was shown nothing, the session's own last change.
    Upkeep and confirmations take nothing back, so they count as seen.

    Raises:
        Conflict: names the newer version with its text, author and time. The caller has seen it now, and may go on.
    """
    histories = versions.versions([record.id for record in records])
    deeds = {each.id: [one for one in histories.get(each.id, ()) if one.takes_back] for each in records}
    at_stake = [record_id for record_id, some in deeds.items() if some and version is None]
    seen = shown_texts.seen(caller, at_stake) if at_stake else dict[str, int]()
    newer = [
        (record, unseen)
        for record in records
        if (unseen := _unseen(record, deeds[record.id], version, caller, seen.get(record.id, 0), shown_texts.begun))
    ]
    if newer:
        latest = max(unseen[-1].change for _, unseen in newer)
        shown_texts.see(caller, [record.id for record, _ in newer], latest)
        raise Conflict(_newer_version(*newer[0], len(newer) - 1, version, caller))


def _unseen(
    record: Record,
    deeds: Sequence[Version],
    version: int | None,
    caller: Caller,
    seen: int,
    begun: Callable[[Caller], int],
) -> list[Version]:
    if not deeds or version is not None:
        return [each for each in deeds if each.change > (version or 0)]
    session = (caller.agent, caller.session_id)
    own = [each.change for each in deeds if (each.agent, each.session_id) == session]
    if (record.agent, record.session_id) == session:
        own.append(number_of(record.id))
    since = max([seen, *own]) if seen or own else begun(caller)
    return [each for each in deeds if each.change > since and each.change not in own]


def _newer_version(record: Record, unseen: Sequence[Version], others: int, version: int | None, caller: Caller) -> str:
    """Return an error's words: "Record r00017 was changed by bob at … (text, tags); it is new now and reads …"."""
    by = " and ".join(dict.fromkeys(author(each.agent, caller) or "another session of yours" for each in unseen))
    what = ", ".join(dict.fromkeys(name for each in unseen for name in each.told))
    now = f"{record.status} now" + (f" (by {record.superseded_by})" if record.superseded_by else "")
    more = f" So were {others} more of these records." if others else ""
    again = "repeat the call" if version is None else f"repeat the call with version={record.version}"
    return (
        f"Record {record.id} was changed by {by} at {iso_minute(unseen[-1].at)} ({what}), after you last saw it. It is"
        f' {now} and reads: "{one_line(record.text)}".{more} Nothing was done; if you still want it, {again}.'
    )
