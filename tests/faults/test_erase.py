"""What was erased is in no file of the data directory."""

import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import Entity, NewRecord, Record, Relation
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import replacing
from mcp_memory.domain.text.words import packed_terms
from mcp_memory.errors import StoreBusy
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings
from mcp_memory.stores.records import SqliteRecordStore, store_sqlite
from tests.forked import ForkedProcess

SECRET = "Quetzalcoatlus Zyzzyva hoards xylophones near Ouagadougou"
EARLIER = "Quetzalcoatlus Wapentake hoards balalaikas near Ouagadougou"
NAMES = ("Pneumonoultra", "Wassailer")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    opened = open_app(load_settings(data_dir=tmp_path / "data", namespace="test"))
    yield opened
    opened.close()


def traces(folder: Path, wanted: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Which of the byte strings are in which file, in whatever case."""
    files: dict[str, bytes] = {}
    for path in folder.rglob("*"):
        if path.is_socket():
            continue
        with suppress(FileNotFoundError, IsADirectoryError):  # A journal of the vector index comes and goes.
            files[path.relative_to(folder).as_posix()] = path.read_bytes().lower()
    return [(name, each) for name, lowered in files.items() for each in wanted if each.lower() in lowered]


def needles(app: App, *texts: str) -> list[bytes]:
    """The texts, their words in every encoding SQLite knows, their terms, and any eight numbers of their vectors."""
    words = [word for text in texts for word in (text, *text.split()) if len(word) > 4]
    found = [word.encode(code) for word in (*words, *NAMES) for code in ("utf-8", "utf-16-le", "utf-16-be")]
    embedder = app._embedder  # noqa: SLF001 - the very one whose bytes are looked for
    for text in texts:
        found.append(packed_terms(text))
        blob = embedder.embed(text).astype(np.float32).tobytes()
        found += [blob[start : start + 32] for start in range(0, len(blob), 256)]
    return found


def plant(app: App, me: Caller, *, others: int = 40) -> str:
    """A record that was updated, names entities, was recalled and assembled, among others."""
    rng = random.Random(5)
    fillers = [NewRecord(text=f"Filler {n} {rng.random()} " + "lorem " * rng.randrange(60)) for n in range(others)]
    app.remember(fillers[: others // 2], me)
    (stored,) = app.remember(
        [
            NewRecord(
                text=EARLIER, tags=("Ouagadougou-tag",), details={"note": "Ouagadougou detail"},
                entities=(Entity(name=NAMES[0], properties={"home": "Ouagadougou"}),),
                relations=(Relation(source=NAMES[0], type="fears", target=NAMES[1]),),
            )
        ],
        me,
    )  # fmt: skip
    app.remember(fillers[others // 2 :], me)
    app.revise(Revision(id=stored.id, text=SECRET), me)
    app.recall(RecallRequest(query=SECRET), me)
    app.assemble_context(ContextRequest(query="who hoards xylophones?"), me)
    return stored.id


def test_an_erased_record_is_in_no_file(app: App, tmp_path: Path) -> None:
    """R9: text, words, terms, vectors, earlier text, details, entities; in file, log and backups."""
    me = app.caller()
    record_id = plant(app, me)
    sought = RecallRequest(query="xylophones in Ouagadougou", limit=50)
    assert app.recall(sought, me).results[0]["id"] == record_id
    wanted = needles(app, SECRET, EARLIER)
    assert traces(tmp_path / "data", wanted)
    assert traces(tmp_path / "data", [packed_terms(SECRET)])
    assert app.forget([record_id], "erase", me).done == (record_id,)
    assert traces(tmp_path / "data", wanted) == []
    app.records.backup(str(tmp_path / "backup" / "memory.db"))
    assert traces(tmp_path / "backup", wanted) == []
    assert record_id not in [each["id"] for each in app.recall(sought, me).results]


@pytest.mark.parametrize("when", ["erased", "warm"])
def test_files_of_an_earlier_version_hold_nothing_for_long(app: App, tmp_path: Path, when: str) -> None:
    """R9: it kept its indexes in files, in which nobody erases any more."""
    me = app.caller()
    (stored,) = app.remember([NewRecord(text=SECRET)], me)
    for former in ("arrays/graph/000000000012-5e1f/keys.npy", "index/0/chroma.sqlite3"):
        (tmp_path / "data" / former).parent.mkdir(parents=True)
        (tmp_path / "data" / former).write_text(SECRET)
    if when == "erased":
        app.forget([stored.id], "erase", me)
        assert traces(tmp_path / "data", needles(app, SECRET)) == []
    else:
        app.warm()
    for folder in ("arrays", "index"):
        assert not (tmp_path / "data" / folder).exists()


def test_what_others_say_of_an_entity_stays_and_what_the_erased_said_goes(app: App, tmp_path: Path) -> None:
    """R9: an entity that another record names too loses exactly the properties that the erased one gave it."""
    me = app.caller()
    (kept,) = app.remember(
        [NewRecord(text="Bo plays chess", entities=(Entity(name="Bo", properties={"a": "Kept"}),))], me
    )
    told = Entity(name="Bo", properties={"b": "Zyzzyva"})
    (gone,) = app.remember([NewRecord(text="Bo has a pet", entities=(told,))], me)
    app.forget([gone.id], "erase", me)
    assert traces(tmp_path / "data", [b"Zyzzyva"]) == []
    assert traces(tmp_path / "data", [b"Kept"])
    found = app.recall(RecallRequest(entities=("Bo",)), me).results
    assert [result["id"] for result in found] == [kept.id]


def test_copies_beside_the_memory_that_hold_what_is_erased_are_deleted(app: App, tmp_path: Path) -> None:
    """R9, G1.1: of a migration and of `restore` alike; a damaged one stays, and so does one from before the record."""
    me, folder = app.caller(), tmp_path / "data"
    app.records.backup(str(folder / "memory.db.schema-1"))
    record_id = plant(app, me)
    wanted = needles(app, SECRET, EARLIER)
    for name in ("schema-2", "before-20261124-101500", "before-20261124-101600"):
        app.records.backup(str(folder / f"memory.db.{name}"))
    (folder / "memory.db.copying").write_text(SECRET)
    (folder / "memory.db.before-20261124-101500-shm").touch()
    damaged = folder / "memory.db.before-20261124-101600"
    damaged.write_bytes(damaged.read_bytes()[:4096] + b"x" * 4096)
    forgotten = app.forget([record_id], "erase", me)
    assert forgotten.copies == ("memory.db.schema-2", "memory.db.before-20261124-101500")
    assert forgotten.copies_told.endswith(": memory.db.schema-2, memory.db.before-20261124-101500.")
    assert traces(folder, wanted) == []
    kept = {path.name for path in folder.glob("memory.db.*")}
    assert kept == {"memory.db.schema-1", "memory.db.before-20261124-101600"}
    assert app.forget([record_id], "erase", me).copies == ()


def test_a_log_beside_a_copy_is_read_with_it(app: App, tmp_path: Path) -> None:
    """R9: what a killed server has written last is in the log of the file that `restore` has moved away."""
    me, folder = app.caller(), tmp_path / "data"
    record_id = plant(app, me)
    for suffix in ("", "-wal", "-shm"):  # As `restore` moves them; nothing is in the database itself yet.
        shutil.copy(folder / f"memory.db{suffix}", folder / f"memory.db.before-20261124-101500{suffix}")
    assert app.forget([record_id], "erase", me).copies == ("memory.db.before-20261124-101500",)
    assert traces(folder, needles(app, SECRET, EARLIER)) == []


HOLDER = """
import sys
from mcp_memory.app import open_app
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings
app = open_app(load_settings(data_dir=sys.argv[1], namespace="test"))
print(len(app.recall(RecallRequest(query="xylophones"), app.caller()).results), flush=True)
sys.stdin.readline()
print(len(app.recall(RecallRequest(query="xylophones"), app.caller()).results), flush=True)
app.close()
"""


def test_it_is_gone_while_another_process_has_the_store_open(app: App, tmp_path: Path) -> None:
    """R9: another server that has just read it keeps nothing of it in the files."""
    me = app.caller()
    record_id = plant(app, me, others=0)
    wanted = needles(app, SECRET, EARLIER)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    holder = ForkedProcess(str(tmp_path / "data"), code=HOLDER, **pipes, text=True)
    assert holder.stdout is not None
    assert int(holder.stdout.readline()) > 0
    app.forget([record_id], "erase", me)
    assert traces(tmp_path / "data", wanted) == []
    answer, _ = holder.communicate("\n")
    assert int(answer) == 0
    assert traces(tmp_path / "data", wanted) == []


def test_a_reader_that_never_pauses_delays_the_purge_but_does_not_undo_it(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: erased at once for every reader; the files follow with the next call, of whichever process."""
    monkeypatch.setattr(store_sqlite, "PURGE_PATIENCE_SECONDS", 0.05)
    me = app.caller()
    record_id = plant(app, me, others=4)
    wanted = needles(app, SECRET, EARLIER)
    app.keep_up()  # What a new memory is owed once is not the log's that is measured.
    reader = SqliteRecordStore(tmp_path / "data", app._embedder.id)  # noqa: SLF001
    changes = reader.changes(0, app._embedder.id)  # noqa: SLF001
    next(changes)
    forgotten = app.forget([record_id], "erase", me)
    assert (forgotten.done, forgotten.purged) == ((record_id,), False)
    assert app.recall(RecallRequest(ids=(record_id,)), me).results == ()
    assert traces(tmp_path / "data", wanted)
    with pytest.raises(StoreBusy, match="keep the files in use"):
        app.keep_up()
    assert list(changes)
    assert (app.keep_up(), app.keep_up()) == (True, False)
    assert traces(tmp_path / "data", wanted) == []
    reader.close()


PAGE_IN_LOG = 4_096 + 24


def test_the_file_is_rewritten_once_however_long_a_reader_stays(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: upkeep that is put off again and again costs a page of the log, not a copy of the memory."""
    monkeypatch.setattr(store_sqlite, "PURGE_PATIENCE_SECONDS", 0.05)
    me = app.caller()
    record_id = plant(app, me, others=4)
    wanted = needles(app, SECRET, EARLIER)
    app.keep_up()  # What a new memory is owed once is not the log's that is measured.
    reader = SqliteRecordStore(tmp_path / "data", app._embedder.id)  # noqa: SLF001
    changes = reader.changes(0, app._embedder.id)  # noqa: SLF001
    next(changes)
    app.forget([record_id], "erase", me)
    log = tmp_path / "data" / "memory.db-wal"
    size = log.stat().st_size
    for _ in range(3):
        with pytest.raises(StoreBusy):
            app.keep_up()
    assert log.stat().st_size - size <= 3 * PAGE_IN_LOG < size / 10
    assert list(changes)
    assert app.keep_up()
    assert traces(tmp_path / "data", wanted) == []
    reader.close()


def test_what_a_killed_process_left_is_purged_by_the_next(app: App, tmp_path: Path) -> None:
    """R9, S2.1: erased, but killed before the files were purged."""
    me = app.caller()
    record_id = plant(app, me, others=4)
    wanted = needles(app, SECRET, EARLIER)
    with app.records.write() as transaction:
        transaction.erase([record_id])
    assert traces(tmp_path / "data", wanted)
    app.warm()
    assert traces(tmp_path / "data", wanted) == []


def summarize(app: App, me: Caller, ids: Sequence[str], text: str) -> tuple[str, str]:
    """A compaction of the session's log that puts one summary, which is a record as well, in the place of these."""
    assert isinstance(app.records, SqliteRecordStore)
    log = app.records.session_logs().log(me)
    made = replacing(
        tuple(entry for entry in log.entries if entry.id in ids), "summary", lambda own: f"{text} {own}", len
    )
    (said,) = app.remember([NewRecord(text=text, kind="summary")], me)
    with app.records.write() as transaction:
        number = transaction.begin_compaction(me, "call", 1.0, log.tokens)
        transaction.replace_entries([made], number, "threshold", me, 1.0, {made.entry.id: said.id})
    return made.entry.id, said.id


def test_what_summaries_say_of_an_erased_message_is_in_no_file(app: App, tmp_path: Path) -> None:
    """R9, D3.2: in the log and as records, standing, merged into another or undone; the rest stands again."""
    me = app.caller()
    told = ["Good morning.", SECRET, "It is noon.", "Good night."]
    ids = [each.id for each in app.remember([NewRecord(text=text, kind="message", role="user") for text in told], me)]
    first, said_first = summarize(app, me, ids[2:3], "Noon was told.")
    second, said_second = summarize(app, me, [ids[1], first], f"{SECRET}, said at noon")
    _, said_third = summarize(app, me, [ids[0], second], f"A greeting, and {SECRET}")
    assert isinstance(app.records, SqliteRecordStore)
    with app.records.write() as transaction:
        assert transaction.undo_compaction(me, 2.0).record_ids == (said_third,)
    wanted = needles(app, SECRET, f"{SECRET}, said at noon", f"A greeting, and {SECRET}")
    assert traces(tmp_path / "data", wanted)
    forgotten = app.forget([ids[1]], "erase", me)
    assert (forgotten.done, forgotten.extracted) == ((ids[1],), (said_second, said_third))
    assert traces(tmp_path / "data", wanted) == []
    assert [entry.id for entry in app.records.session_logs().log(me).entries] == [ids[0], first, ids[3]]
    assert app.records.get([said_first, said_second, said_third], me.scopes).keys() == {said_first}


def test_erasing_nothing_costs_nothing(app: App, tmp_path: Path) -> None:
    """R9: ids unknown here rewrite no file."""
    me = app.caller()
    plant(app, me, others=4)
    before = (tmp_path / "data" / "memory.db").read_bytes()
    assert app.forget(["r-unknown"], "erase", me).not_found == ("r-unknown",)
    assert (tmp_path / "data" / "memory.db").read_bytes() == before


def test_many_records_erased_in_any_order_leave_no_copy_in_the_slack_of_a_page(tmp_path: Path) -> None:
    """R9: rows that SQLite moved from page to page, as corrections of many records in no order make it do."""
    rng = random.Random(11)
    with closing(SqliteRecordStore(tmp_path / "data", "model", lambda: 1.0)) as records:
        assert_no_copies(records, tmp_path / "data", rng)


def letters(rng: random.Random) -> str:
    return "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=12))


def assert_no_copies(records: SqliteRecordStore, folder: Path, rng: random.Random) -> None:
    vector = np.full((1, 4), 0.5, np.float32)
    words: dict[str, tuple[str, str]] = {}
    blank = Record(
        id="", scope="shared/test", namespace="test", visibility="shared", agent="ann", session_id="s", task_id=None,
        branch_id=None, kind="fact", text="", summary="", micro="", text_tokens=1, summary_tokens=1, micro_tokens=1,
        importance=1.0, confidence=None, status="new", outcome=None, pinned=False, tags=(), details={}, speaker=None,
        role=None, tool=None, call_id=None, superseded_by=None, created_at=1.0, updated_at=1.0, accessed_at=1.0,
        occurred_at=1.0,
    )  # fmt: skip
    with records.write() as transaction:
        for _ in range(1500):
            record = replace(blank, id=transaction.next_id("r"), text=f"{letters(rng)} " * rng.randint(1, 12))
            words[record.id] = (record.text.split()[0], letters(rng))
            transaction.insert(record, vector, [Entity(name=words[record.id][1])], ())
    order = sorted(words, key=lambda _: rng.random())
    for start in range(0, len(order), 50):
        with records.write() as transaction:
            for record_id in order[start : start + 50]:
                record = transaction.get(record_id)
                assert record is not None
                transaction.update(replace(record, text=f"changed {words[record_id][0][::-1]}"), vector)
    gone = order[::3]
    with records.write() as transaction:
        transaction.erase(gone)
    records.purge()
    wanted = [form for i in gone for word in words[i] for form in (word.encode(), word[::-1].encode())]
    assert traces(folder, wanted[:400]) == []
