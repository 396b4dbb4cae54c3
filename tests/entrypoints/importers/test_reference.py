"""The reference memory server's file."""

import json
from collections import Counter
from pathlib import Path

import pytest

from mcp_memory.domain.records import Entity, NewRecord, Relation
from mcp_memory.entrypoints.importers.reference import read_reference
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
    assert [item.text for item in items] == ["A\ufffd\ufffd: is known as a thing"]
    assert left_out == {"lines that are neither an entity nor a relation": 5}


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """S7.1: as is a choice among projects, of which it has one."""
    for path, project in ((tmp_path, None), (written(tmp_path), "p")):
        with pytest.raises(InvalidRequest, match=r"memory\.jsonl"):
            list(read_reference(path, project, Counter()))
