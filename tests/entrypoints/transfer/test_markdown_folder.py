"""A folder of Markdown files: what it says comes back as it was, and nothing of somebody else's is read or touched."""

import os
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.records import Entity, Json, NewRecord, Relation
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.entrypoints.transfer.markdown_folder import (
    MANIFEST,
    MAX_FILE_BYTES,
    Changes,
    MarkdownFolder,
    changes_of,
    read_folder,
    write_changes,
)
from mcp_memory.entrypoints.transfer.markdown_format import (
    MAX_FRONT_CHARS,
    file_bytes,
    file_name,
    id_in,
    is_record_file,
    read_file,
)
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.file_copies import Compared, HeldCopy, in_order

ID, OTHER = "r00003m-4f2a1c", "r00004n-0123ab"
HEAD = f"---\nid: {ID}\nbase: 0123456789ab\nkind: fact\n"
HARD = (
    "---", "\n---\n", "a: b", "1e5", "007", "null", "yes", "2026-01-01", "12:30", "\u2028", "x\u2028y", "# x", "- y",
    " x", "\n  x\n", "\t", "'", '"', "\\", "|", "> y", "😀", "\ufeff", "<<", "=", "%x", "@x", "`x", "!x", "&a", "*a",
    "\n", "<<<<<<< HEAD\n",
)  # fmt: skip
"""What YAML, or a reader of lines, takes for more than text."""
TEXTS = st.lists(st.text(max_size=40).map(visible) | st.sampled_from(HARD), max_size=4).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def written(item: NewRecord, copy_id: str = ID) -> str:
    content = file_bytes(copy_id, item)
    assert content is not None
    return content.decode()


def hold(*texts: str, **fields: Any) -> list[HeldCopy]:
    made = (f"r00000{number}-4f2a1c" for number in range(1, 9))
    return [
        HeldCopy(id=copy_id, record_id=copy_id[:7], item=in_order(NewRecord(text=text, occurred_at=1.0, **fields)))
        for copy_id, text in zip(made, texts, strict=False)
    ]


def export(root: Path, held: list[HeldCopy], state: Any = "same") -> Changes:
    """An export of these records, where the memory says the same of every file that has the id of one."""
    folder, by_id = read_folder(root), {each.id: each for each in held}
    compared = [
        Compared(copy=copy, state=state, record_id=by_id[copy.id].record_id, item=copy.item)
        if copy.id in by_id
        else Compared(copy=copy, state="gone" if copy.id else "new", item=copy.item)
        for copy in folder.copies
    ]
    changes = changes_of(folder, held, compared)
    write_changes(folder, changes)
    return changes


def files(root: Path) -> dict[str, bytes]:
    return {each.relative_to(root).as_posix(): each.read_bytes() for each in root.rglob("*") if each.is_file()}


@settings(max_examples=25)
@example("x\u2028 " * 3_333 + "y", {"said": "y\n" * 5_000}, ["a"])
@given(TEXTS.filter(str.strip), st.dictionaries(TEXTS, VALUES, max_size=3), st.lists(st.sampled_from(HARD[:12])))
def test_what_a_file_says_comes_back_as_it_was(text: str, details: dict[str, Json], tags: list[str]) -> None:
    item = in_order(NewRecord(text=text, details=details, tags=tuple(tags), occurred_at=1.7e9))
    there = written(item)
    copy = read_file("x.md", there)
    assert (copy.id, copy.item, copy.is_edited, id_in(there)) == (ID, item, False, ID)
    assert is_record_file(there)


def test_a_file_reads_well() -> None:
    item = NewRecord(
        text="Cells that begin with = get an apostrophe.\n\n- except amounts",
        kind="decision",
        occurred_at=1_772_532_900.0,
        valid_until=1_775_000_000.0,
        importance=8.0,
        confidence=0.7,
        pinned=True,
        tags=("export", "cells"),
        entities=(Entity(name="Anna", type="person", properties={"team": "ports"}),),
        relations=(Relation(source="Anna", type="keeps", target="ports"),),
        details={"reasons": ["a formula ran", "two\nlines"]},
    )
    assert written(item) == (
        f"---\nid: {ID}\nbase: {read_file('', written(item)).base}\nkind: decision\n"
        "occurred_at: 2026-03-03T10:15:00Z\nvalid_until: 2026-03-31T23:33:20Z\n"
        "importance: 8\nconfidence: 0.7\npinned: true\ntags: [export, cells]\n"
        "entities:\n- name: Anna\n  type: person\n  properties:\n    team: ports\n"
        "relations:\n- source: Anna\n  type: keeps\n  target: ports\n"
        "details:\n  reasons:\n  - a formula ran\n  - |-\n    two\n    lines\n---\n\n"
        "Cells that begin with = get an apostrophe.\n\n- except amounts\n"
    )
    assert file_name(ID, item) == f"decisions/cells-that-begin-with-get-an-apostrophe-{ID}.md"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("../../etc/passwd", "etc-passwd-"),
        ("CON", "con-"),
        ("?\n<>", ""),
        ("端口是8081。" * 40, f"{('端口是8081' * 7)[:48]}-"),
        ("a" * 900, f"{'a' * 48}-"),
        ("😀" * 60, ""),
    ],
)
def test_a_name_is_one_on_every_system(text: str, name: str) -> None:
    made = file_name(ID, NewRecord(text=text, kind="censor"))
    assert made.startswith("guardrails/")
    assert made.endswith(f"{ID}.md")
    assert len(made.encode()) < 240
    if "端" not in text:
        assert made == f"guardrails/{name}{ID}.md"


def test_a_second_export_writes_nothing_and_a_third_what_changed(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    held = hold("The port is 80.", "the port is 80", "Gone soon.")
    assert len(export(root, held).write) == 3
    before = files(root)
    assert len({name.casefold() for name in before}) == 4
    assert export(root, held).unchanged == 3
    assert files(root) == before
    renamed = [replace(held[0], item=replace(held[0].item, text="Another title.")), held[1]]
    changes = export(root, renamed)
    assert (len(changes.write), len(changes.remove), changes.unchanged) == (1, 1, 1)
    after = files(root)
    assert after.keys() == before.keys() - {next(name for name in before if "gone" in name)}
    assert held[2].id not in after[MANIFEST].decode()
    for name, content in after.items():  # As git gives it on Windows.
        (root / name).write_bytes(content.replace(b"\n", b"\r\n"))
    assert export(root, renamed).unchanged == 2


def test_what_people_did_stays(tmp_path: Path) -> None:
    """An edited file, a damaged one, a deleted one, a moved one, and what is no record's."""
    root = tmp_path / "notes"
    held = hold("One.", "Two.", "Three.", "Four.", "Five.")
    export(root, held)
    one, two, three, four, five = (next(root.glob(f"facts/*{each.id}.md")) for each in held)
    one.write_text(one.read_text("utf-8").replace("One.", "Won."), "utf-8")
    two.write_text(two.read_text("utf-8").replace("kind: fact", "kind: [fact"), "utf-8")
    three.unlink()
    four.rename(root / "elsewhere.md")
    five.write_text(five.read_text("utf-8").replace("Five.", "V."), "utf-8")
    (root / "README.md").write_text("# Ours", "utf-8")
    (root / ".hidden.md").write_text(HEAD, "utf-8")
    before = files(root)
    changes = export(root, held[:4], "edited")
    assert (len(changes.edited), changes.deleted, changes.write, changes.remove) == (4, 1, {}, [])
    assert files(root) == before
    folder = read_folder(root)
    assert folder.deleted == {held[2].id}
    assert [*folder.unreadable] == [two.relative_to(root).as_posix()]
    assert folder.left_out == {"Markdown files without `kind` in front matter": 1}


def test_a_copy_of_a_file_is_named(tmp_path: Path) -> None:
    export(tmp_path, hold("One."))
    [there] = tmp_path.glob("facts/*.md")
    (tmp_path / "zz.md").write_bytes(there.read_bytes())
    assert read_folder(tmp_path).unreadable == {
        "zz.md": f"facts/{there.name} has the same id; take it out of the copy."
    }


def test_nothing_is_written_where_something_else_lies(tmp_path: Path) -> None:
    held, elsewhere = hold("One."), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "a" / "facts").mkdir(parents=True)
    (tmp_path / "a" / file_name(held[0].id, held[0].item)).write_text("Mine.", "utf-8")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "facts").symlink_to(elsewhere, target_is_directory=True)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "facts").write_text("Mine.", "utf-8")
    before = files(tmp_path)
    for name in "abc":
        with pytest.raises(InvalidRequest, match="is there, and no file of a record; move it"):
            export(tmp_path / name, held)
    with pytest.raises(InvalidRequest, match="is no folder"):
        read_folder(tmp_path / "c" / "facts")
    assert files(tmp_path) == before
    assert not [*elsewhere.iterdir()]


def test_no_link_is_followed_and_hostile_files_end_quickly(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(f"{HEAD}---\nSecret.", "utf-8")
    root = tmp_path / "notes"
    root.mkdir()
    (root / "linked.md").symlink_to(outside / "secret.md")
    (root / "linked").symlink_to(outside, target_is_directory=True)
    (root / "binary.md").write_bytes(b"---\nkind: fact\n---\n\xff\xfe\x00")
    with (root / "large.md").open("wb") as file:
        file.truncate(100 * MAX_FILE_BYTES)
    if sys.platform != "win32":
        os.mkfifo(root / "pipe.md")
    (root / "nothing.md").write_bytes(b"")
    folder = read_folder(root)
    assert (folder.copies, folder.contents) == ([], {})
    assert folder.left_out["links, which are never followed"] == 2
    assert folder.left_out["files that cannot be read as text in UTF-8"] == 1
    assert folder.left_out["files that cannot be read: larger than 8 MB"] == 1
    (root / MANIFEST).symlink_to(outside / "secret.md")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read_folder(root)


BOMB = "a: &a [x, x, x, x, x, x]\n" + "".join(
    f"{there}: &{there} [*{here}, *{here}, *{here}, *{here}]\n" for here, there in pairwise("abcdefgh")
)


@pytest.mark.parametrize(
    ("file", "named"),
    [
        (f"{HEAD}{BOMB}---\nx", "it has an alias"),
        (f"{HEAD}details: {'[' * 5000}\n---\nx", "Its front matter"),
        (f"{HEAD}details: {'x' * MAX_FRONT_CHARS}\n---\nx", "longer than 200,000 characters"),
        (f"{HEAD}tags: [a\n---\nx", r"is no YAML \(.* in line \d\); mend it"),
        (f"{HEAD}details: !!python/object/apply:os.system [ls]\n---\nx", "is no YAML"),
        (f"{HEAD}details: !!binary aGk=\n---\nx", "`details` must be an object"),
        (f"{HEAD}importance: {'9' * 5000}\n---\nx", "Its front matter cannot be read|importance"),
        (f"{HEAD}importance: high\n---\nx", "`importance` must be a number"),
        (f"{HEAD}title: x\n---\nx", "There is no field `title`; known are id, base, kind"),
        (f"{HEAD}occurred_at: yesterday\n---\nx", "`occurred_at` must be a date or a time"),
        (f"{HEAD}---\n \n", "It has no text"),
        (f"{HEAD}---", "It has no text"),
        (HEAD, "Its front matter does not end"),
        ("---\n- kind: fact\n---\nx", "is no list of fields"),
        ("---\nid: ../../x\nkind: fact\n---\nx", "`id` is none that an export writes"),
        ("---\nkind: message\n---\nx", "`kind` must be one of censor, decision"),
        (f"{HEAD}---\n<<<<<<< ours\nx\n>>>>>>> theirs\n", "git's marks of a conflict"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(file: str, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        read_file("x.md", file)


def test_a_record_that_no_file_can_hold_is_named(tmp_path: Path) -> None:
    large = hold("One.", details={"log": "x" * MAX_FRONT_CHARS})
    assert export(tmp_path, large).too_large == [large[0].record_id]
    small = hold("One.")
    export(tmp_path, small)
    assert export(tmp_path, large).too_large == [large[0].record_id]
    assert isinstance(read_folder(tmp_path), MarkdownFolder)


def test_a_file_by_hand_takes_dates_and_needs_little() -> None:
    copy = read_file("x.md", "---\nkind: decision\noccurred_at: 2026-03-03\ntags: [no, 12:30]\n---\nWe use pnpm.\n")
    assert (copy.id, copy.item.kind, copy.item.text, copy.item.tags) == (
        "",
        "decision",
        "We use pnpm.",
        ("no", "12:30"),
    )
    assert copy.item.occurred_at == 1_772_496_000.0
    assert read_file("x.md", f"---\nid: {OTHER}\nkind: fact\noccurred_at:\n---\nx").item.occurred_at is None
