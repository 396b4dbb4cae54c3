"""Forgetting: for a while, or for good."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, Kind
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.model.session_log import replacing
from mcp_memory.errors import StoreBusy
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.forget import ForgetMode, Forgotten
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.stores.records import SqliteRecordStore, store_sqlite

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]


def found(app: App, query: str, *, include_inactive: bool = False) -> list[str]:
    request = RecallRequest(query=query, include_inactive=include_inactive)
    return [str(result["id"]) for result in app.recall(request, app.caller()).results]


@pytest.mark.uncounted
@pytest.mark.parametrize("kind", ["fact", "decision", "message"])
def test_a_retired_record_is_out_of_sight_until_it_is_restored(app: App, remember: RememberOne, kind: Kind) -> None:
    """R9: in search, lists and contexts; asked for, it is still there."""
    record = remember("The port is 5432.", kind=kind)
    assert app.forget([record.id], "retire", app.caller()) == Forgotten(done=(record.id,), not_found=())
    assert found(app, "port") == []
    assert app.recall(RecallRequest(), app.caller()).results == ()
    shown = app.assemble_context(ContextRequest(query="port"), app.caller()).report.components
    assert [each.id for each in shown] == ["nothing"]  # the line that says so
    assert found(app, "port", include_inactive=True) == [record.id]
    assert app.forget([record.id], "restore", app.caller()).done == (record.id,)
    assert found(app, "port") == [record.id]


def test_forgetting_twice_is_forgetting_once(app: App, remember: RememberOne) -> None:
    """R9: in each way; restoring what is there changes nothing, so that there is nothing to undo."""
    record = remember("The port is 5432.")
    modes: list[tuple[ForgetMode, bool]] = [
        ("restore", False), ("retire", True), ("retire", False), ("restore", True), ("restore", False)
    ]  # fmt: skip
    for mode, changes in modes:
        forgotten = app.forget([record.id, record.id], mode, app.caller())
        assert (forgotten.done, forgotten.change > 0) == ((record.id,), changes)
    assert found(app, "port") == [record.id]
    assert app.forget([record.id], "erase", app.caller()).done == (record.id,)
    for mode in ("erase", "retire", "restore"):
        assert app.forget([record.id], mode, app.caller()) == Forgotten(done=(), not_found=(record.id,))


def test_an_unknown_id_is_named_and_hinders_nothing(app: App, remember: RememberOne) -> None:
    """R9: the others are forgotten."""
    record = remember("The port is 5432.")
    assert app.forget(["r00zzzz", record.id], "retire", app.caller()) == Forgotten(
        done=(record.id,), not_found=("r00zzzz",)
    )


def test_an_erased_record_is_in_no_file_and_no_answer(app: App, remember: RememberOne) -> None:
    """R9: nor its earlier text, entities and details."""
    record = remember(
        "Zanzibar is the code word.", details={"why": "Quetzalcoatl"}, entities=(Entity(name="Xylophone"),)
    )
    app.revise(Revision(id=record.id, text="Timbuktu is the code word."), app.caller())
    app.assemble_context(ContextRequest(query="Timbuktu code word"), app.caller())
    app.forget([record.id], "erase", app.caller())
    assert found(app, "code word", include_inactive=True) == []
    app.close()
    words = [b"zanzibar", b"timbuktu", b"quetzalcoatl", b"xylophone"]
    for path in (path for path in app.settings.data_dir.rglob("*") if path.is_file()):
        content = path.read_bytes().lower()
        assert not [word for word in words if word in content]


def test_a_forgotten_old_value_comes_back_as_an_old_value(app: App, remember: RememberOne) -> None:
    """R8: restoring what was superseded does not bring the error back as truth."""
    old = remember("The port is 5432.")
    new = remember("The port is 6543.", supersedes=(old.id,))
    for mode in ("retire", "restore"):
        app.forget([old.id], mode, app.caller())
    assert found(app, "which port") == [new.id]
    assert [c.id for c in app.assemble_context(ContextRequest(), app.caller()).report.components] == [new.id]


@pytest.mark.uncounted
def test_what_an_erased_episode_stated_is_erased_with_it(app: App, remember: RememberOne, clock: "Clock") -> None:
    """R9, R8: its words are in no file; what was made of them since stays, and so does what names it otherwise."""
    stated = ["The code word is Zanzibar.", "The vault word is Quetzalcoatl.", "The gate word is Xylophone."]
    episode = remember("\n".join(["We met.", *stated]), kind="episode")
    # Earlier versions extracted facts from archived episodes.
    code, vault, gate = (remember(text, details={"source": episode.id}).id for text in stated)
    clock.advance(days=91)
    where = RecordFilter(scopes=app.caller().scopes)
    app.revise(Revision(id=vault, text="The vault has no word."), app.caller())
    app.revise(Revision(id=code, feedback="used"), app.caller())
    app.revise(Revision(id=gate, text="The gate."), app.caller())
    app.revise(Revision(id=gate, text="The gate word is Xylophone."), app.caller())
    noted = remember("I was there.", details={"source": episode.id})
    assert app.forget([episode.id, code], "erase", app.caller()) == Forgotten(
        done=(episode.id, code), not_found=(), extracted=(gate,)
    )
    assert app.records.matching_ids(where) == {vault, noted.id}
    assert remember("The vault word is Quetzalcoatl.").status == "superseded"
    app.close()
    words = [b"zanzibar", b"quetzalcoatl", b"xylophone"]
    for path in (path for path in app.settings.data_dir.rglob("*") if path.is_file()):
        content = path.read_bytes().lower()
        assert not [word for word in words if word in content]


def test_a_retired_episode_keeps_what_it_stated(app: App, remember: RememberOne) -> None:
    """R9: only what is erased takes its words along."""
    episode = remember("We met.", kind="episode")
    remember("The port is 5432.", details={"source": episode.id})
    assert app.forget([episode.id], "retire", app.caller()).extracted == ()
    assert len(found(app, "port")) == 1


def test_what_a_summary_says_of_an_erased_message_goes_and_the_earlier_one_holds_again(
    app: App, remember: RememberOne
) -> None:
    """R9, D3.2: in the log and as a record; what does not say it stays in both."""
    me = app.caller()
    assert isinstance(app.records, SqliteRecordStore)
    logs = app.records.session_logs()
    messages = [remember(text, kind="message", role="user").id for text in ("Hello.", "It is Zanzibar.", "Well.")]

    def summarize(ids: Sequence[str], record_id: str) -> str:
        entries = tuple(entry for entry in logs.log(me).entries if entry.id in ids)
        made = replacing(entries, "summary", lambda own: f"Said so: {own}", len)
        with app.records.write() as transaction:
            number = transaction.begin_compaction(me, "call", 1.0, 100)
            transaction.replace_entries([made], number, "threshold", me, 1.0, {made.entry.id: record_id})
        return made.entry.id

    earlier = remember("They greeted.", kind="summary")
    standing = summarize(messages[:1], earlier.id)
    later = remember("They greeted, and said Zanzibar.", kind="summary", supersedes=(earlier.id,))
    summarize([standing, messages[1]], later.id)
    assert app.forget([messages[1]], "erase", me) == Forgotten(done=(messages[1],), not_found=(), extracted=(later.id,))
    assert [entry.id for entry in logs.log(me).entries] == [standing, messages[2]]
    (held,) = app.records.get([earlier.id, later.id], me.scopes).values()
    assert (held.id, held.status, held.superseded_by) == (earlier.id, "active", None)


def test_forgetting_on_an_empty_store_finds_nothing(app: App) -> None:
    """S3.1: no error."""
    assert app.forget(["r000001"], "erase", app.caller()) == Forgotten(done=(), not_found=("r000001",))
    assert app.forget([], "retire", app.caller()) == Forgotten(done=(), not_found=())


@pytest.mark.parametrize("gone", ["", "; copies that held it were deleted: memory.db.schema-1"])
def test_what_is_erased_while_the_files_are_in_use_goes_from_them_later(
    app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """R9, G1.1: it is erased all the same; upkeep and the check-up see to the rest, and say so."""
    monkeypatch.setattr(store_sqlite, "PURGE_PATIENCE_SECONDS", 0.0)
    record = remember("The word is Zanzibar.")
    remember("Another.")
    if gone:
        app.records.backup(str(app.settings.data_dir / "memory.db.schema-1"))
    reading = app.records.changes(0, str(app.records.embedder_id()))
    next(reading)
    assert app.forget([record.id], "erase", app.caller()) == Forgotten(done=(record.id,), not_found=(), purged=False)
    assert app.stirred.is_set()
    pending = ("ok", "what was erased is still in the files, as other processes keep them in use")
    for repair in (False, True):
        told = [(each.state, each.says) for each in app.examine(repair=repair) if each.part == "database"]
        assert told[1:] == [pending]
    assert app.records.is_purge_pending()
    assert list(reading)
    repaired = [(each.state, each.says) for each in app.examine(repair=True) if each.part == "database"]
    assert repaired[1:] == [("repaired", f"what was erased was taken out of the files{gone}")]
    assert not app.records.is_purge_pending()
    assert not app.keep_up()


def test_copies_that_went_with_what_was_erased_are_named(app: App, remember: RememberOne) -> None:
    """R9, G1.1: in one sentence; none where no copy held it."""
    first, second = remember("The word is Zanzibar."), remember("The word is Samarkand.")
    app.records.backup(str(app.settings.data_dir / "memory.db.schema-1"))
    forgotten = app.forget([first.id], "erase", app.caller())
    assert forgotten.copies_told == "Copies beside the memory that held it were deleted with it: memory.db.schema-1."
    assert app.forget([second.id], "erase", app.caller()).copies_told == ""


def test_upkeep_finishes_what_could_not_be_finished(
    app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: of whichever process, and only once."""
    monkeypatch.setattr(store_sqlite, "PURGE_PATIENCE_SECONDS", 0.0)
    record = remember("The word is Zanzibar.")
    remember("Another.")
    reading = app.records.changes(0, str(app.records.embedder_id()))
    next(reading)
    app.forget([record.id], "erase", app.caller())
    with pytest.raises(StoreBusy):
        app.keep_up()
    assert list(reading)
    assert (app.keep_up(), app.keep_up()) == (True, False)


@pytest.mark.parametrize("erases", [True, False])
def test_what_a_session_stored_is_withdrawn_unless_it_was_used_since(
    app: App, remember: RememberOne, *, erases: bool
) -> None:
    caller = app.caller()
    record, changed, other = remember("The port is 5432."), remember("Tea is at four."), remember("Bob sings.")
    app.revise(Revision(id=changed.id, importance=4.0), caller)
    assert not app.withdraw(changed.id, caller, erases=erases)
    assert not app.withdraw("r00zzzz", caller, erases=erases)
    assert not app.withdraw(other.id, caller.in_session("another"), erases=erases)
    assert app.withdraw(record.id, caller, erases=erases)
    assert record.id not in found(app, "port")
    assert (record.id in found(app, "port", include_inactive=True)) is not erases
    assert {changed.id, other.id} <= {*found(app, "tea at four"), *found(app, "bob sings")}
