"""basic-memory's folder of notes."""

import os
from collections import Counter
from pathlib import Path

import pytest

from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.entrypoints.transfer.importers.basic_memory import read_basic_memory
from mcp_memory.errors import InvalidRequest

NOTE = """\
---
title: "Tide Gauge"
type: component
tags:
  - sensors
  - "#harbour"
permalink: sensors/tide-gauge
created: 2026-03-05T10:00:00+00:00
---

# Tide Gauge

Measures the water twice a minute. See [[Buoy Network|the buoys]] and [[Harbour#North]].

## Observations
- [decision] Sample every thirty seconds #sampling #power (agreed in March)
- [fact] Runs on #solar cells
- Reads well in storms #weather
- [ ] order a spare
- [00:12] a transcript line
- plain item

```
- [fact] not an observation, but code
# no heading
```

## Relations
- part_of [[Buoy Network]]
- "reports to" [[Harbour Office]] (since 2024)
- relates to [[Something]] in prose
"""


def read(folder: Path) -> tuple[list[NewRecord], Counter[str]]:
    left_out = Counter[str]()
    return list(read_basic_memory(folder, None, left_out)), left_out


@pytest.fixture
def notes(tmp_path: Path) -> dict[str, NewRecord]:
    """What the note says, by text."""
    (tmp_path / "sensors").mkdir()
    (tmp_path / "sensors" / "gauge.md").write_text(NOTE, "utf-8")
    items, _ = read(tmp_path)
    return {item.text: item for item in items}


def test_observations_keep_category_tags_and_context(notes: dict[str, NewRecord]) -> None:
    """S7.1: each with the title of its note, without which it says little."""
    decided = notes["Tide Gauge: Sample every thirty seconds"]
    assert decided.kind == "decision"
    assert decided.tags == ("decision", "sampling", "power", "sensors", "harbour")
    assert decided.details == {"file": "sensors/gauge.md", "context": "agreed in March"}
    assert decided.entities == (Entity(name="Tide Gauge", type="component"),)
    assert decided.occurred_at == 1772704800.0
    assert notes["Tide Gauge: Runs on #solar cells"].tags == ("fact", "solar", "sensors", "harbour")
    assert notes["Tide Gauge: Reads well in storms"].tags == ("weather", "sensors", "harbour")


def test_relations_join_notes_by_title(notes: dict[str, NewRecord]) -> None:
    """S7.1."""
    part = Relation(source="Tide Gauge", type="part_of", target="Buoy Network")
    assert notes["Tide Gauge part of Buoy Network"].relations == (part,)
    told = notes["Tide Gauge reports to Harbour Office (since 2024)"].relations
    assert told == (Relation(source="Tide Gauge", type="reports to", target="Harbour Office"),)


def test_what_is_neither_stays_together_below_its_heading(notes: dict[str, NewRecord]) -> None:
    """S7.1: with the notes that it links to; tasks, times and code are no observations."""
    [prose] = [item for text, item in notes.items() if "Measures" in text]
    assert prose.text.startswith("Tide Gauge\nMeasures the water")
    assert {each.target for each in prose.relations} == {"Buoy Network", "Harbour"}
    [rest] = [item for text, item in notes.items() if text.startswith("Tide Gauge — Observations")]
    for line in ("- [ ] order a spare", "- [00:12] a transcript line", "- plain item", "# no heading", "but code"):
        assert line in rest.text
    [related] = [item for text, item in notes.items() if text.startswith("Tide Gauge — Relations")]
    assert related.relations == (Relation(source="Tide Gauge", type="links_to", target="Something"),)
    assert len(notes) == 8


def test_a_note_without_frontmatter_is_named_after_its_file(tmp_path: Path) -> None:
    """S7.1: and dated by it."""
    (tmp_path / "Moorings.md").write_text("- [fact] Four of them\n", "utf-8")
    (tmp_path / "Empty.md").write_text("---\ntitle:\ncreated: someday\ntags: [a, 'b c']\n---\n- one #x\n", "utf-8")
    items, left_out = read(tmp_path)
    assert [item.text for item in items] == ["Empty: one", "Moorings: Four of them"]
    assert items[0].tags == ("x", "a", "b c")
    assert items[1].occurred_at == (tmp_path / "Moorings.md").stat().st_mtime
    assert not left_out


def test_other_files_are_counted_and_hidden_folders_are_not_read(tmp_path: Path) -> None:
    """S7.1."""
    (tmp_path / ".obsidian").mkdir()
    (tmp_path / ".obsidian" / "note.md").write_text("- [fact] hidden", "utf-8")
    (tmp_path / "chart.png").write_bytes(b"\x89PNG")
    (tmp_path / "latin.md").write_bytes("- [fact] Zoë".encode("latin-1"))
    items, left_out = read(tmp_path)
    assert items == []
    assert left_out == {"files that are not Markdown": 1, "files that cannot be read as text in UTF-8": 1}


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    """S7.1: as is a choice among projects, of which it has one."""
    for path, project in ((tmp_path / "none", None), (tmp_path, "p")):
        with pytest.raises(InvalidRequest, match="folder of Markdown"):
            list(read_basic_memory(path, project, Counter()))


def test_a_date_beyond_the_years_is_the_files(tmp_path: Path) -> None:
    """S7.1: every answer with such a record in it would fail."""
    file = tmp_path / "far.md"
    file.write_text("---\ncreated: 9999-12-31T23:59:59-12:00\n---\n- [fact] It is far.\n", "utf-8")
    [item] = read_basic_memory(tmp_path, None, Counter())
    assert item.occurred_at == file.stat().st_mtime


def test_no_link_is_followed(tmp_path: Path) -> None:
    """X6.4: neither to a file nor to a folder, outside or inside; the folder that was named may be a link itself."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("- [fact] outside", "utf-8")
    notes = tmp_path / "notes"
    (notes / "sub").mkdir(parents=True)
    (notes / "sub" / "note.md").write_text("- [fact] inside", "utf-8")
    (notes / "link.md").symlink_to(outside / "secret.md")
    (notes / "folder").symlink_to(outside)
    (notes / "sub" / "up").symlink_to("..")
    (notes / "gone.md").symlink_to("nowhere")
    (tmp_path / "alias").symlink_to(notes)
    for folder in (notes, tmp_path / "alias"):
        items, left_out = read(folder)
        assert [item.text for item in items] == ["note: inside"]
        assert left_out == {"links, which are never followed": 4}


def test_what_is_no_note_is_counted_and_the_next_is_read(tmp_path: Path) -> None:
    """X6.4: a pipe, a folder with a note's name, one larger than a note may be, which are not read to be told."""
    os.mkfifo(tmp_path / "a.md")
    (tmp_path / "b.md").mkdir()
    (tmp_path / "c.md").touch()
    os.truncate(tmp_path / "c.md", 1 << 40)
    (tmp_path / "d.md").write_text("- [fact] here\r\n- [fact] there\r", "utf-8")
    items, left_out = read(tmp_path)
    assert [item.text for item in items] == ["d: here", "d: there"]
    assert left_out == {
        "files that cannot be read: not an ordinary file": 1,
        "files that cannot be read: larger than 16 MB": 1,
    }


@pytest.mark.parametrize("hostile", ["#a ", " ", "( ", "[[", "[a] ", '"', "- ", "#", ": ", "a [[b]] ", "(a) "])
def test_a_note_of_signs_is_read_once(tmp_path: Path, hostile: str) -> None:
    """X6.4, X3.1: whatever it repeats. Looked at again for each sign, it would take minutes."""
    signs = hostile * (100_000 // len(hostile))
    (tmp_path / "n.md").write_text(
        f"---\ntitle: {signs}\ntags: {signs}\n---\n- [x] y {signs}\n- {signs}\n{signs}", "utf-8"
    )
    items, _ = read(tmp_path)
    assert items


def test_tags_at_the_end_are_no_words_of_it(tmp_path: Path) -> None:
    """S7.1: one in the middle is, as is one that is all there is."""
    (tmp_path / "n.md").write_text("- [f] Reads #well in storms  #sea #ice\n- [f] #alone\n- [f] #a #b\n", "utf-8")
    items, _ = read(tmp_path)
    assert [item.text for item in items] == ["n: Reads #well in storms", "n: #alone", "n: #a"]
    assert items[0].tags == ("f", "well", "sea", "ice")


def test_what_a_note_says_of_all_its_items_is_cut_before_it_is_repeated(tmp_path: Path) -> None:
    """X6.4: once for the note; a title of 500,000 characters would become 150 million, tags 600 million."""
    tags = ", ".join(["a" * 101, *(f"t{number}" for number in range(300_000)), "t1"])
    front = f"---\ntitle: {'n' * 500_000}\ntype: {'k' * 300}\ntags: {tags}\n---\n"
    (tmp_path / "n.md").write_text(front + "- [f] said\n" * 2000, "utf-8")
    left_out = Counter[str]()
    records = read_basic_memory(tmp_path, None, left_out)
    first = next(records)
    assert first.text == f"{'n' * 200}: said"
    assert first.tags == ("f", "a" * 100, *(f"t{number}" for number in range(49)))
    assert first.entities == (Entity(name="n" * 200, type="k" * 200),)
    assert [(item.text, item.tags) for item in records] == [(first.text, first.tags)] * 1999
    assert left_out == {"ends of names that were too long": 2, "tags that were too many or too long": 299_952}


TWO_BLOCKS = """\
---
permalink: p/two
tags: [alpha]
title: Old
---

---
title: Storage choice
# written by the sync
tags:
  - beta
  - '#alpha'
metadata:
  by: sync
type: decision
---

# Storage choice
- [decision] We pick SQLite #db
"""


def test_a_note_with_two_blocks_of_frontmatter_has_the_fields_of_both(tmp_path: Path) -> None:
    """basicmachines-co/basic-memory#1171: its own sync writes such notes. The later block's title holds."""
    (tmp_path / "two.md").write_text(TWO_BLOCKS, "utf-8")
    [item], _ = read(tmp_path)
    assert (item.text, item.kind) == ("Storage choice: We pick SQLite", "decision")
    assert item.tags == ("decision", "db", "alpha", "beta")
    assert item.entities == (Entity(name="Storage choice", type="decision"),)


@pytest.mark.parametrize(
    "body",
    [
        "---\nA quotation, between two rules.\n---",
        "---\n---",
        "---\ntitle: never closed",
        "text\n---\ntitle: x\n---",
        "---\n  \nNote: this and that\nbut also this\n---",
    ],
)
def test_what_stands_between_two_rules_is_text_of_the_note(tmp_path: Path, body: str) -> None:
    (tmp_path / "note.md").write_text(f"---\ntitle: T\n---\n\n{body}\n\nEnd.\n", "utf-8")
    [item], _ = read(tmp_path)
    assert item.text == f"T\n{body}\n\nEnd."


def test_a_rule_at_the_head_of_a_note_without_frontmatter_is_text(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("\n---\ntitle: T\n---\nEnd.\n", "utf-8")
    [item], _ = read(tmp_path)
    assert item.text == "note\n---\ntitle: T\n---\nEnd."
