"""export --markdown and import --from markdown: a folder in git, and an edit by hand, through the command line."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.services.memory.file_copies import COPY_ID
from mcp_memory.services.memory.revise import Revision

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

OpenMemory = Callable[..., App]
PORT = "The port is 8081."
HARD = (
    PORT,
    "---\nid: x\n---\nkind: fact",
    "a: b, c: [d",
    "Zeile eins\u2028Zeile zwei, 端口 🍵 ünï",
    "<<<<<<< HEAD\nis what git writes",
    "line\r\nline",
)


def store(memory: App, *items: NewRecord) -> list[str]:
    return [each.id for each in memory.remember(items, memory.caller("work"), embed=False)]


def edit(folder: Path, old: str, new: str) -> None:
    [file] = [each for each in folder.rglob("*.md") if old in each.read_text("utf-8")]
    file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout


def test_an_empty_memory_gets_the_records_of_a_folder(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """And its own export gives the same bytes."""
    anna = Entity(name="Anna", type="person", properties={"aliases": ["Annie"]})
    says = Relation(source="Anna", type="keeps", target="ports", weight=0.5)
    memory = open_memory()
    full = NewRecord(
        text="Anna keeps the ports.", kind="decision", entities=(anna, Entity(name="ports")), relations=(says,),
        tags=("ports", "on"), details={"reasons": ["old clients", "a\n\nb"]}, importance=7, confidence=0.25,
        outcome="success", speaker="Cleo", occurred_at=1.7e9, valid_from=1.6e9, valid_until=1.9e9, pinned=True,
    )  # fmt: skip
    store(memory, full, *(NewRecord(text=text) for text in HARD), NewRecord(text="Mine.", visibility="private"))
    memory.close()
    notes, there = tmp_path / "notes", ("--data-dir", str(tmp_path / "copy"))
    exported = run("export", "--markdown", str(notes), "--json").json
    assert (exported["written"], exported["edited"], exported["too_large"]) == (7, [], [])
    assert not [each for each in notes.rglob("*.md") if "Mine." in each.read_text("utf-8")]
    imported = run("import", "--from", "markdown", str(notes), "--json", *there).json
    assert (len(imported["stored"]), imported["refused"], imported["embedded"]) == (7, {}, 7)
    assert run("import", "--from", "markdown", str(notes), *there).out == "Imported into test: nothing.\n"
    again = tmp_path / "again"
    run("export", "--markdown", str(again), *there)
    both = [{each.relative_to(root): each.read_bytes() for each in root.rglob("*.md")} for root in (notes, again)]
    assert both[0] == both[1]
    ours, theirs = told(open_memory()), told(open_memory({"data_dir": tmp_path / "copy"}))
    assert (len(ours), ours) == (7, theirs)


def told(memory: App) -> dict[str, object]:
    """All that files carry, by text."""
    where = RecordFilter(scopes=(memory.caller().scope("shared"),))
    records = memory.records.list(where, "created", 50)
    fields = ("kind", "importance", "confidence", "tags", "outcome", "pinned", "speaker", "valid_from", "valid_until")
    return {
        each.text: (
            [getattr(each, name) for name in fields],
            int(each.occurred_at),
            {name: value for name, value in each.details.items() if name != COPY_ID},
            [sorted(map(repr, links)) for links in memory.records.links(each.id)],
        )
        for each in records
    }


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_a_folder_in_git_changes_only_where_the_memory_does(
    run: "Run", open_memory: OpenMemory, tmp_path: Path
) -> None:
    memory = open_memory()
    port, tab, gone = store(memory, *(NewRecord(text=text) for text in (PORT, "Indent by tabs.", "Gone soon.")))
    notes = tmp_path / "notes"
    export = ("export", "--markdown", str(notes))
    assert run(*export).out == f"{notes}: 3 written, 0 removed, 0 unchanged.\n"
    git(notes, "init", "-q")
    git(notes, "add", "-A")
    git(notes, "commit", "-qm", "Keep the memory")
    run(*export)
    assert git(notes, "status", "--short") == ""
    memory.revise(Revision(id=port, text="A new title, on port 8443."), memory.caller("work"))
    memory.forget([gone], "erase", memory.caller("work"))
    assert run(*export).out == f"{notes}: 1 written, 1 removed, 1 unchanged.\n"
    changed = {line[:2].strip(): line[3:] for line in git(notes, "status", "--short").splitlines() if ".md" in line}
    assert (changed["M"].startswith("facts/the-port-is-8081-r"), changed["D"].startswith("facts/gone-soon-r")) == (
        True,
        True,
    )
    assert tab in git(notes, "ls-files")


def test_an_edit_by_hand_comes_back_as_a_revision(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory()
    [record_id] = store(memory, NewRecord(text=PORT))
    memory.close()
    notes = tmp_path / "notes"
    run("export", "--markdown", str(notes))
    edit(notes, PORT, "The port is 9090.")
    held_back = run("export", "--markdown", str(notes)).out
    assert "Edited by hand, and left so: facts/the-port-is-8081-" in held_back
    assert f"`mcp-memory import --from markdown {notes}` takes that in." in held_back
    planned = run("import", "--from", "markdown", str(notes), "--dry-run").out
    assert planned.startswith(f"revise {record_id} (text): The port is 9090.  [facts/the-port")
    assert run("show", record_id, "--json").json["text"] == PORT
    told = run("import", "--from", "markdown", str(notes)).out.splitlines()
    assert told[1] == "Imported into test: 1 revised."
    shown = run("show", record_id, "--json").json
    assert (shown["text"], PORT in json.dumps(shown)) == ("The port is 9090.", True)  # The old version stays.
    run("undo", told[2].rpartition("undo ")[2].partition("`")[0])
    assert run("show", record_id, "--json").json["text"] == PORT
    run("edit", record_id, "--text", "The port is 22.")
    edit(notes, "9090", "9091")
    refused = run("import", "--from", "markdown", str(notes), "--json").json
    [why] = refused["refused"].values()
    assert why.startswith(f"Record {record_id} changed in the memory as well; nothing was taken.")
    assert run("show", record_id, "--json").json["text"] == "The port is 22."


def test_files_by_hand_are_stored_and_deleted_ones_retired_on_demand(
    run: "Run", open_memory: OpenMemory, tmp_path: Path
) -> None:
    memory = open_memory()
    [record_id] = store(memory, NewRecord(text=PORT))
    memory.close()
    notes = tmp_path / "notes"
    run("export", "--markdown", str(notes))
    for file in notes.rglob("*.md"):
        file.unlink()
    (notes / "pnpm.md").write_text("---\nkind: decision\n---\nWe use pnpm.\n", "utf-8")
    (notes / "README.md").write_text("# Notes\n", "utf-8")
    assert "Deleted by hand: 1; with --retire-deleted" in run("export", "--markdown", str(notes)).out
    told = run("import", "--from", "markdown", str(notes)).out
    assert f"Deleted were the files of {record_id}; --retire-deleted retires these records." in told
    assert "Left out: Markdown files without `kind` in front matter (1)." in told
    assert "Imported into test: 1 stored." in told
    assert run("show", record_id, "--json").json["status"] == "new"
    retired = run("import", "--from", "markdown", str(notes), "--retire-deleted").out
    assert retired.splitlines()[0] == f"retire {record_id}"
    assert run("show", record_id, "--json").json["status"] == "retired"
    assert run("export", "--markdown", str(notes)).out == f"{notes}: 1 written, 0 removed, 0 unchanged.\n"
    assert (notes / "pnpm.md").read_text("utf-8").startswith("---\nid: r")
    assert run("export", "--markdown", str(notes)).out == f"{notes}: 0 written, 0 removed, 1 unchanged.\n"


def test_what_stands_in_the_way_is_named(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory({"namespace": "other"})
    store(memory, NewRecord(text=PORT))
    memory.close()
    notes = str(tmp_path / "notes")
    assert "Name a file, or a folder with --markdown" in run("export").err
    assert "Name a file, or a folder with --markdown" in run("export", "m.jsonl", "--markdown", notes).err
    assert "go with --from markdown" in run("import", "m.jsonl", "--dry-run").err
    assert "--project goes with" in run("import", "--from", "markdown", notes, "--project", "x").err
    assert "has no record's file" in run("import", "--from", "markdown", notes).err
    assert run("export", "--markdown", notes, "--json").json["written"] == 0
    assert run("export", "--markdown", notes, "--namespace", "other", "--json").json["written"] == 1
