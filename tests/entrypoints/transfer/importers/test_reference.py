"""The reference memory server's file."""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.entrypoints.transfer.importers import SHORTENED, fitted
from mcp_memory.entrypoints.transfer.importers.reference import MAX_ENTITY_BYTES, read_reference
from mcp_memory.errors import InvalidRequest


def written(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "memory.jsonl"
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines), "utf-8")
    return path


def read(path: Path) -> tuple[list[NewRecord], Counter[str]]:
    left_out = Counter[str]()
    return list(read_reference(path, None, left_out)), left_out


def test_every_observation_is_a_fact_that_names_what_it_is_about(tmp_path: Path) -> None:
    """S7.1: one that names it already stays as it is."""
    path = written(
        tmp_path,
        {"type": "entity", "name": "Mara", "entityType": "person", "observations": ["Mara sails", "likes tea", "  "]},
        {"type": "entity", "name": "Harbour", "entityType": "place", "observations": []},
        "",
    )
    items, left_out = read(path)
    assert [item.text for item in items] == ["Mara sails", "Mara: likes tea", "Harbour: is known as place"]
    assert items[1].entities == (Entity(name="Mara", type="person"),)
    assert {item.kind for item in items} == {"fact"}
    assert not left_out


def test_a_relation_is_a_fact_between_entities_of_the_file(tmp_path: Path) -> None:
    """S7.1: an end that the file has no entity for is one all the same."""
    path = written(
        tmp_path,
        {"type": "relation", "from": "Mara", "to": "Harbour", "relationType": "works_at"},
        {"type": "entity", "name": "Mara", "entityType": "person", "observations": []},
    )
    items, _ = read(path)
    assert items[0].text == "Mara works at Harbour"
    assert items[0].relations == (Relation(source="Mara", type="works_at", target="Harbour"),)
    assert items[0].entities == (Entity(name="Mara", type="person"), Entity(name="Harbour", type="thing"))


def test_lines_that_are_neither_are_counted(tmp_path: Path) -> None:
    """S7.1: and characters that no text may hold are taken out."""
    path = written(
        tmp_path,
        "{broken",
        "[]",
        {"type": "note", "name": "x"},
        {"type": "entity"},
        {"type": "relation", "from": "a", "to": "b"},
        '{"type": "entity", "name": "A\\u0000\\ud800", "entityType": 5, "observations": "none"}',
    )
    items, left_out = read(path)
    assert [item.text for item in items] == ["A\ufffd: is known as a thing"]
    assert left_out == {"lines that are neither an entity nor a relation": 5}


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """S7.1: as is a choice among projects, of which it has one."""
    for path, project in ((tmp_path, None), (written(tmp_path), "p")):
        with pytest.raises(InvalidRequest, match=r"memory\.jsonl"):
            list(read_reference(path, project, Counter()))


def test_a_line_that_is_too_long_or_too_deep_is_counted_and_the_next_is_read(tmp_path: Path) -> None:
    """X6.4: as is binary junk; a list of nothing but brackets, and one that only just can be read, too."""
    deep = "[" * 900 + "]" * 900
    path = written(
        tmp_path,
        '{"type": "entity", "name": "A", "x": "' + "y" * MAX_ENTITY_BYTES + '"}',
        '{"type": "entity", "name": "B", "observations": ["b"], "x": ' + deep + "}",
        "[" * 200_000,
        "\0\0\x07",
        "1" * 5000,
        {"type": "entity", "name": "Ann", "observations": ["sails"]},
    )
    items, left_out = read(path)
    assert [item.text for item in items] == ["Ann: sails"]
    assert left_out == {"lines of more than 16 MB": 1, "lines that are neither an entity nor a relation": 4}


def test_what_is_no_ordinary_file_or_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    """X6.4: without being read."""
    path = tmp_path / "memory.jsonl"
    os.mkfifo(path)
    with pytest.raises(InvalidRequest, match=r"memory\.jsonl"):
        read(path)
    path.unlink()
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(InvalidRequest, match=r"cannot be read \(larger than 4096 MB\)"):
        read(path)


def test_a_long_name_is_cut_before_it_is_repeated(tmp_path: Path) -> None:
    """X6.4: once for its entity, whose relations still find it; 300,000 characters would become 90 million."""
    name, kind = "n" * 300_000, "k" * 300
    path = written(
        tmp_path,
        {"type": "entity", "name": name, "entityType": kind, "observations": [f"o{each}" for each in range(300)]},
        {"type": "relation", "from": name, "to": "Ann", "relationType": kind},
    )
    items, left_out = read(path)
    assert sum(len(item.text) for item in items) < 300 * 210
    assert items[0].text == f"{'n' * 200}: o0"
    assert items[300].text == f"{'n' * 200} {'k' * 200} Ann"
    assert items[300].entities[0] == items[0].entities[0] == Entity(name="n" * 200, type="k" * 200)
    assert left_out == {"ends of names that were too long": 4}


def test_an_item_holds_no_more_than_a_call_could_store() -> None:
    """X6.4: text, tags, names and links are cut, and counted once for each item."""
    entities = tuple(Entity(name=f"{number} {'n' * 300}") for number in range(200))
    relations = (Relation(source="s" * 300, type="t" * 300, target="u" * 300),) * 200
    large = NewRecord(
        text="x" * 1_000_001,
        tags=tuple(f"{number}{'t' * 200}" for number in range(60)),
        entities=entities,
        relations=relations,
        details={"files": ["f" * 2_000_000] * 200, "context": "c"},
    )
    small = NewRecord(text="small", tags=("a",), entities=entities[:1][:0], details={"n": 1})
    left_out = Counter[str]()
    fit, same = fitted(iter([large, small]), "reference", left_out)
    assert same == replace(small, session_id="import-reference")
    assert len(fit.text) == 1_000_000
    assert fit.text.endswith("… [cut]")
    assert (len(fit.tags), max(map(len, fit.tags))) == (50, 100)
    assert (len(fit.entities), max(len(each.name) for each in fit.entities)) == (100, 200)
    assert (len(fit.relations), len(fit.relations[0].source)) == (100, 200)
    assert [len(each) for each in cast("list[str]", fit.details["files"])] == [1_000_000] * 100
    assert left_out == {SHORTENED: 1}
