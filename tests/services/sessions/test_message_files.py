"""Images and documents of a conversation are files by digest, for as long as a message names them."""

import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.message_files import Attachment, attached
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.errors import NotFound, StoreUnavailable
from mcp_memory.ports.transfer import Origin
from mcp_memory.wiring import files_beside

PIXELS = bytes(range(256)) * 200
IMAGE = attached("image", "image/png", PIXELS)
PLAN = attached("document", "application/pdf", b"%PDF-1.7 plan", "Plan.pdf")


def message(*files: Attachment, words: str = "Look.") -> NewRecord:
    text = "\n".join((words, *(file.mark for file in files)))
    return NewRecord(kind="message", role="user", text=text, files=files)


def folder_of(app: App) -> Path:
    return app.settings.data_dir / "files"


def names(app: App) -> list[str]:
    return sorted(each.name for each in folder_of(app).iterdir())


def opened(app: App, record_id: str) -> list[tuple[str, bytes]]:
    return [
        (file.type, content) for file, content in app.attachments.opened(app.inspect.visible(record_id, app.caller()))
    ]


def files_found(app: App) -> list[tuple[str, str]]:
    return [(one.state, one.says) for one in app.examine(repair=False) if one.part == "files"]


def test_a_mark_says_what_a_file_is() -> None:
    assert IMAGE.mark == f"[image sha256:{IMAGE.digest[:12]}… 51 kB image/png]"
    assert PLAN.mark.startswith("[document: Plan.pdf sha256:")
    assert PLAN.mark.endswith(" 1 kB application/pdf]")


def test_a_file_is_written_once_and_opened_by_each_record(app: App) -> None:
    """D11.1: the digest names it, whoever sends it, in any session; nobody else may read it."""
    me, other = app.caller("one"), app.caller("two")
    fed = app.feed([message(IMAGE, PLAN), message(IMAGE, words="Again.")], me)
    assert (fed.files, fed.refused_files) == (3, 0)
    app.feed([message(IMAGE)], other)
    assert names(app) == sorted([IMAGE.digest, PLAN.digest])
    if sys.platform != "win32":
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder_of(app).iterdir()} == {0o600}
        assert stat.S_IMODE(folder_of(app).stat().st_mode) == 0o700
    first, second = (entry.id for entry in app.logs.log(me).entries)
    assert opened(app, first) == [("image/png", PIXELS), ("application/pdf", b"%PDF-1.7 plan")]
    assert opened(app, second) == [("image/png", PIXELS)]
    assert {entry: len(files) for entry, files in app.attachments.of_log(app.logs.log(me), me).items()} == {
        first: 2,
        second: 1,
    }
    assert app.feed([message(IMAGE, PLAN), message(IMAGE, words="Again.")], me).known == 2


def test_one_that_is_too_large_is_named_and_nothing_of_the_text_is_lost(open_memory: Callable[..., App]) -> None:
    app = open_memory(file_max_mb=0.05)
    fed = app.feed([message(IMAGE, PLAN)], app.caller("one"))
    assert (fed.stored, fed.files, fed.refused_files) == (1, 1, 1)
    (entry,) = app.logs.log(app.caller("one")).entries
    assert entry.text == message(IMAGE, PLAN).text
    assert opened(app, entry.id) == [("application/pdf", b"%PDF-1.7 plan")]
    assert files_found(app) == []


def test_who_may_not_see_the_message_may_not_open_its_file(open_memory: Callable[..., App]) -> None:
    """S4.1: not by its id, nor by naming a digest that somebody quoted."""
    app, stranger = open_memory(agent="ann"), open_memory(agent="bob", namespace="elsewhere")
    app.feed([message(IMAGE)], app.caller("one"))
    (entry,) = app.logs.log(app.caller("one")).entries
    with pytest.raises(NotFound):
        opened(stranger, entry.id)
    stolen = replace(message(words=IMAGE.mark), files=(), details={"files": [IMAGE.detail()]})
    (remembered,) = stranger.remember([stolen], stranger.caller())
    assert opened(stranger, remembered.id) == []


def test_erasing_deletes_a_file_that_nothing_else_names(app: App) -> None:
    """R9."""
    me = app.caller("one")
    app.feed([message(IMAGE, PLAN), message(IMAGE, words="Again.")], me)
    first, second = (entry.id for entry in app.logs.log(me).entries)
    app.forget([first], "erase", me)
    assert names(app) == [IMAGE.digest]
    app.forget([second], "retire", me)
    assert opened(app, second) == [("image/png", PIXELS)]
    app.forget([second], "erase", me)
    assert names(app) == []


def test_a_check_names_files_that_are_missing_damaged_or_named_by_nothing(app: App) -> None:
    me = app.caller("one")
    assert files_found(app) == []
    app.feed([message(IMAGE), message(PLAN)], me)
    first, second = (entry.id for entry in app.logs.log(me).entries)
    (folder_of(app) / IMAGE.digest).unlink()
    (folder_of(app) / PLAN.digest).write_bytes(b"other")
    (folder_of(app) / "0.unfinished").write_bytes(b"half")
    assert files_found(app) == [
        ("wrong", f"missing or damaged, named by 2 ({first}, {second})"),
        ("wrong", "named by no record: 1"),
    ]
    assert opened(app, first) == []
    repaired = [one.state for one in app.examine(repair=True) if one.part == "files"]
    assert repaired == ["wrong", "repaired"]
    assert names(app) == [PLAN.digest]


def test_where_a_file_cannot_be_kept_its_message_is_not_stored(app: App) -> None:
    """S2.3: sent again, both are."""
    me = app.caller("one")
    folder_of(app).touch()
    with pytest.raises(StoreUnavailable, match="cannot be kept"):
        app.feed([message(IMAGE)], me)
    assert not app.logs.log(me).entries
    folder_of(app).unlink()
    app.feed([message(IMAGE)], me)
    assert names(app) == [IMAGE.digest]


def test_files_go_along_with_a_copy_of_the_memory(open_memory: Callable[..., App], tmp_path: Path) -> None:
    """S7.1: only what the records of the copy name, and what is really that file."""
    app, other = open_memory(), open_memory(folder="other")
    app.feed([message(IMAGE)], app.caller("one"))
    elsewhere = open_memory(namespace="elsewhere")
    elsewhere.feed([message(PLAN)], elsewhere.caller("one"))
    beside = files_beside(tmp_path / "memory.jsonl")
    assert app.attachments.copy_to(beside, "test") == 1
    assert beside.digests() == {IMAGE.digest}
    assert app.attachments.copy_to(beside) == 2
    other.records.transfer().enter(piece for piece in app.records.transfer().leave() if not isinstance(piece, Origin))
    (tmp_path / "memory.jsonl.files" / PLAN.digest).write_bytes(b"other")
    assert other.attachments.take_from(beside) == 1
    assert names(other) == [IMAGE.digest]
    assert other.attachments.take_from(beside) == 0
