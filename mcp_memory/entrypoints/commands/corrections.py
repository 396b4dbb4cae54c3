"""Commands by which a person corrects a memory: edit, supersede, pin, forget, and restore for records."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mcp_memory.entrypoints.commands.console import complain, is_asked, output, require_yes, undoable, way_back
from mcp_memory.entrypoints.commands.options import (
    KNOWN_DETAILS,
    AsJson,
    Deny,
    opened,
    over_memory,
    over_settings,
    with_options,
)
from mcp_memory.entrypoints.commands.records import given_details, given_text, show_account_of
from mcp_memory.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.records import Json
    from mcp_memory.domain.model.requests import ForgetMode
    from mcp_memory.services.memory.forget import Forgotten
    from mcp_memory.settings import Settings

RecordId = Annotated[str, typer.Argument(metavar="ID", help="The record's id, which every list shows.")]
RecordIds = Annotated[list[str], typer.Argument(metavar="ID…", help="The records' ids.")]
Text = Annotated[str | None, typer.Option("--text", metavar="TEXT|-", help="- reads it from standard input.")]


@over_memory("namespace", "agent")
def edit(
    memory: "App",
    record_id: RecordId,
    text: Text = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="All its tags; repeatable.")] = None,
    importance: Annotated[float | None, typer.Option("--importance", metavar="N", help="0 to 10.")] = None,
    confidence: Annotated[float | None, typer.Option("--confidence", metavar="P", help="0 to 1.")] = None,
    outcome: Annotated[str | None, typer.Option("--outcome", metavar="WORD", help="success, failure, …")] = None,
    visibility: Annotated[
        str | None, typer.Option("--visibility", metavar="WHO", help="shared, private, user.")
    ] = None,
    feedback: Annotated[str | None, typer.Option("--feedback", metavar="WORD", help="helpful, wrong, …")] = None,
    details: Annotated[
        str | None,
        typer.Option("--details", metavar="JSON", help=f"Further fields to set; the others stay. {KNOWN_DETAILS}"),
    ] = None,
    deny: Deny = None,
    as_json: AsJson = False,
) -> None:
    """Correct a record, as an agent's `revise` does.

    An earlier text is kept, and `mcp-memory show` shows it.
    """
    changes = {"text": given_text(text) if text is not None else None, "tags": tag or None}
    changes |= {"importance": importance, "confidence": confidence}
    changes |= {"outcome": outcome, "visibility": visibility, "feedback": feedback}
    if deny and show_account_of(memory, record_id)["kind"] != "censor":
        raise InvalidRequest(f"--deny is a guardrail's, and {record_id} is none; `mcp-memory list --kind guardrail`.")
    _revise(memory, as_json, record_id, given_details(details, deny), **changes)


@over_memory("namespace", "agent")
def pin(
    memory: "App",
    record_id: RecordId,
    off: Annotated[bool, typer.Option("--off", help="Pin it no longer.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let contexts take a record first, while it fits."""
    account = show_account_of(memory, record_id)
    if bool(account.get("pinned")) != off:
        output(as_json, account, f"{record_id} is {'not ' * off}pinned already.")
        return
    _revise(memory, as_json, record_id, pinned=not off)


@over_memory("namespace", "agent")
def supersede(
    memory: "App",
    old: Annotated[str, typer.Argument(metavar="OLD", help="The record that no longer holds.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The record that holds instead.")],
    as_json: AsJson = False,
) -> None:
    """Say that the record NEW replaces OLD: searches then show NEW above OLD."""
    _revise(memory, as_json, new, supersedes=[old])


@with_options("data_dir", "namespace", "agent")
def forget(
    chosen: Mapping[str, Any],
    context: typer.Context,
    record_ids: RecordIds,
    erase: Annotated[
        bool, typer.Option("--erase", help="For good: no file keeps its text, but earlier backups.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Erase without a question; needed where nobody is at a terminal.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take records out of the memory; `mcp-memory restore ID` brings them back.

    With --erase nothing brings them back.
    """
    if erase and not yes:
        if not is_asked():
            raise InvalidRequest(
                "Erasing cannot be taken back, and nobody is at a terminal to confirm it; --yes erases without a"
                " question. Nothing was changed."
            )
        erasure_shown(context, record_ids=record_ids, **chosen)
        require_yes(f"Erase {', '.join(record_ids)} for good?")
    forget_records(context, record_ids=record_ids, erase=erase, as_json=as_json, **chosen)


@over_memory("namespace", "agent")
def erasure_shown(memory: "App", record_ids: list[str]) -> None:
    """Say what records are, and what their erasure takes along: "With it go r00002w (says the same)."."""
    for record_id, record in memory.records.get(record_ids, memory.caller().scopes).items():
        complain(f"{record_id} says “{record.micro}”.")
    reach = memory.erasure_reach(record_ids, memory.caller())
    told = [f"{each} ({'says the same' if each in reach.same else 'made from it'})" for each in reach.made]
    if told:
        complain(f"With {', '.join(record_ids)} {'go' if len(told) > 1 else 'goes'} {', '.join(told)}.")


@over_memory("namespace", "agent")
def forget_records(memory: "App", record_ids: list[str], erase: bool = False, as_json: AsJson = False) -> None:
    """Retire records, or erase them."""
    forgotten = _move(memory, record_ids, "erase" if erase else "retire")
    done = [*forgotten.done, *forgotten.extracted]
    name = "erased" if erase else "retired"
    pending = "" if forgotten.purged else "Other processes use the files; the bytes go once they allow it."
    copies = {"copies_deleted": list(forgotten.copies)} if forgotten.copies else {}
    cut = f"Quotations cut from: {', '.join(forgotten.cut)}." if forgotten.cut else ""
    left = f"A rare word of it is still in: {', '.join(forgotten.left)}." if forgotten.left else ""
    back = way_back(forgotten.change)
    told = (f"{name.capitalize()}: {', '.join(done)}.", back, cut, left, forgotten.copies_told, pending)
    elsewhere = {"quotation_cut_from": list(forgotten.cut), "maybe_left_in": list(forgotten.left)}
    output(
        as_json,
        {name: done, **{key: ids for key, ids in elsewhere.items() if ids}, **copies, **undoable(forgotten.change)},
        " ".join(filter(None, told)),
    )


@over_settings("data_dir", "namespace", "agent", asks=True)
def restore_records(settings: "Settings", targets: list[str], as_json: AsJson = False) -> None:
    """Bring back records that were forgotten."""
    with opened(settings) as memory:
        moved = _move(memory, targets, "restore")
    back = [each for each in moved.done if each not in moved.unmoved]
    told = f"Restored: {', '.join(back)}. {way_back(moved.change)}".strip() if back else ""
    same = [f"{each} is not retired." for each in moved.unmoved]
    output(as_json, {"restored": back, **undoable(moved.change)}, " ".join(each for each in (told, *same) if each))


def _revise(memory: "App", as_json: bool, record_id: str, details: Any = None, **changes: object) -> None:
    """Apply the changes that are not None, checked as an agent's are, and show the record."""
    from mcp_memory.domain.model.requests import Revision
    from mcp_memory.entrypoints.commands.screens import record_screen
    from mcp_memory.entrypoints.server.arguments import read_arguments
    from mcp_memory.entrypoints.server.request_arguments import request_of
    from mcp_memory.entrypoints.server.wire import ReviseArguments

    asked = {"id": record_id} | {name: value for name, value in changes.items() if value is not None}
    person = replace(memory.caller(), is_admin=True)  # Who has the memory's files may do anything with them.
    if details is not None and not isinstance(details, dict):
        raise InvalidRequest("--details must be an object.")
    fields = cast("dict[str, Json] | None", details)
    request = request_of(Revision, read_arguments(ReviseArguments, asked), details=fields)
    revised = memory.revise.advised(request, person)
    shown = {**show_account_of(memory, revised.record.id), **undoable(revised.change)}
    output(as_json, shown, *record_screen(shown), *filter(None, [way_back(revised.change)]))


def _move(memory: "App", record_ids: list[str], mode: "ForgetMode") -> "Forgotten":
    """Retire, restore or erase. Raises NotFound where none of the ids exists here, and names those that do not."""
    forgotten = memory.forget(record_ids, mode, memory.caller())
    if forgotten.not_found:
        others = "the others are done" if forgotten.done else "nothing was changed"
        raise NotFound(f"No record {', '.join(forgotten.not_found)} here; {others}. `mcp-memory list` shows ids.")
    return forgotten
