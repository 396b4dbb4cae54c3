"""export and import, and what other memory servers keep, through the command line."""

import json
import os
import re
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.entrypoints.cli import app as command_line
from mcp_memory.entrypoints.commands import transfer
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.text import Vectors
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.forked import ForkedProcess, run_forked
from tests.services.sessions.conversations import fed

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Ran, Run

OpenMemory = Callable[..., App]
BATCH = 8
IN_SMALL_BATCHES = f"""
from mcp_memory.__main__ import main
from mcp_memory.entrypoints.commands import transfer
transfer.IMPORT_BATCH = {BATCH}
main()
"""
"""The command line with a smaller `IMPORT_BATCH`: what happens behind it takes fewer records."""
IMPORTED = {"stored": 0, "known": 0, "embedded": 0, "left_out": dict[str, int](), "into": "test", "changes": 0}
"""What an import from another server tells that did nothing, with the number of its changes."""


def told_of(ran: "Ran") -> dict[str, Any]:
    return {**ran.json, "changes": len(ran.json["changes"])}


def live(memory: App) -> None:
    """A day's work: all kinds of things that a memory holds."""
    me = memory.caller("work")
    plan = memory.tasks.push(
        PushRequest(goal="Move the services", plan=("Read", "Write"), success_criteria="All up"), me
    )
    memory.tasks.push(PushRequest(task_id=plan.children[0].id, branch=False), me)
    anna = Entity(name="Anna", type="person", properties={"aliases": ["Annie"], "since": 2.0})
    stored = memory.remember(
        [
            NewRecord(text="Anna keeps the ports.", entities=(anna,), pinned=True, tags=("ports",)),
            NewRecord(text="Port 80.", kind="decision", details={"reasons": ["old clients"]}, confidence=0.7),
            NewRecord(text="Never restart all at once.", kind="censor", details={"trigger": "restart"}),
            NewRecord(text="Mine alone.", visibility="private"),
            NewRecord(text="I like tea. 🍵", kind="identity", visibility="user"),
            NewRecord(text="Gone soon."),
            NewRecord(text="A link.", relations=(Relation(source="Anna", type="knows", target="Bo"),)),
        ],
        me,
    )
    memory.revise(Revision(id=stored[1].id, text="Port 443."), me)
    memory.forget([stored[5].id], "erase", me)
    log = fed(memory, me, 6)
    memory.compact(CompactRequest(force=True, window=log.tokens), me)
    memory.tasks.pop(PopRequest(result="Read."), me)
    memory.remember([NewRecord(text="Anna keeps the ports.")], memory.caller("evening"))


def note(memory: App) -> None:
    """A few facts."""
    memory.remember([NewRecord(text=f"Note {number}.") for number in range(25)], memory.caller())


def program(*arguments: str, data_dir: Path, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """The program itself, over a memory of its own."""
    variables = {**os.environ, "MCP_MEMORY_DATA_DIR": str(data_dir), "MCP_MEMORY_NAMESPACE": "test"}
    return run_forked(*arguments, env=variables, input=stdin)


def test_export_import_export_gives_the_same_bytes(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """S7.1: real processes, through files and pipes; the copy is as sound as what it was made of, and is searched."""
    memory = open_memory()
    live(memory)
    file = tmp_path / "out" / "memory.jsonl"
    exported = program("export", str(file), "--json", data_dir=tmp_path / "data")
    assert exported.returncode == 0, exported.stderr
    told = json.loads(exported.stdout)
    written = file.read_bytes()
    assert (told["bytes"], told["pieces"]) == (len(written), written.count(b"\n") - 1)
    assert exported.stderr == b""  # Progress is for terminals.
    assert sys.platform == "win32" or stat.S_IMODE(file.stat().st_mode) == 0o600
    copy = tmp_path / "copy"
    imported = program("import", "-", "--json", data_dir=copy, stdin=written)
    assert imported.returncode == 0, imported.stderr
    outcome = json.loads(imported.stdout)
    assert outcome["restored"] == told["pieces"]
    assert outcome["embedded"] > 0
    there = ("--data-dir", str(copy))
    assert run("export", "-", *there).out.encode() == written
    assert {each["state"] for each in run("doctor", "--json", *there).json} == {"ok"}
    found = run("search", "who is responsible for ports?", "--json", *there).json
    assert found["degraded"] == []
    assert found["results"][0]["text"] == "Anna keeps the ports."


def test_an_export_touches_no_file_but_its_own(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """S7.1: not even one that is named like its unfinished part."""
    note(open_memory())
    (tmp_path / "memory.jsonl.part").write_text("mine", "utf-8")
    assert run("export", str(tmp_path / "memory.jsonl")).code == 0
    assert (tmp_path / "memory.jsonl.part").read_text("utf-8") == "mine"
    assert sorted(each.name for each in tmp_path.glob("m*")) == ["memory.jsonl", "memory.jsonl.part"]


def test_one_project_leaves_alone(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """S7.1: without what others keep, and without what is the person's everywhere."""
    memory = open_memory()
    note(memory)
    run("add", "Of another.", "--namespace", "other")
    ran = run("export", str(tmp_path / "one.jsonl"), "--namespace", "other")
    assert ran.out.startswith(str(tmp_path / "one.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "one.jsonl").read_text("utf-8").splitlines()]
    assert [line["record"]["text"] for line in lines if "record" in line] == ["Of another."]
    assert run("--namespace", "other", "export", str(tmp_path / "two.jsonl")).code == 0
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_what_a_memory_knows_is_added_to_another_once(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """S7.1."""
    live(open_memory())
    run("export", str(tmp_path / "memory.jsonl"))
    there = ("--data-dir", str(tmp_path / "there"))
    run("add", "Here already.", *there)
    outcome = run("import", str(tmp_path / "memory.jsonl"), *there, "--json").json
    assert (outcome["known"], outcome["tasks"]) == (0, 3)
    assert outcome["stored"] == outcome["embedded"] >= 5
    assert outcome["logged"] > 0
    ran = run("import", str(tmp_path / "memory.jsonl"), *there)
    told = f"{outcome['stored']} records known already, {outcome['logged']} records of a log left behind"
    assert ran.out == f"Imported: {told}, 3 tasks left behind.\n"
    texts = {each["text"] for each in run("list", *there, "--json").json["results"]}
    assert {"Here already.", "Port 443. Because: old clients (70 % sure)", "Anna keeps the ports."} <= texts


def test_a_file_that_is_wrong_in_the_middle_leaves_nothing(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """S7.1: one line says where and why."""
    note(open_memory())
    file = tmp_path / "memory.jsonl"
    run("export", str(file))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:20], b'{"record": {}}\n', *lines[21:]]))
    for folder in ("empty", "used"):
        there = ("--data-dir", str(tmp_path / folder))
        run("add", "Here.", *there) if folder == "used" else None
        before = run("export", str(tmp_path / f"{folder}-before"), *there)
        ran = run("import", str(file), *there)
        assert (ran.code, ran.out) == (1, "")
        [line] = [each for each in ran.err.splitlines() if each.startswith("mcp-memory: ")]
        assert line.startswith(f"mcp-memory: {file}, line 21: `record.id` is required")
        assert line.endswith("Nothing was imported.")
        run("export", str(tmp_path / f"{folder}-after"), *there)
        if before.code == 0:
            assert (tmp_path / f"{folder}-after").read_bytes() == (tmp_path / f"{folder}-before").read_bytes()
        else:
            assert len((tmp_path / f"{folder}-after").read_bytes().splitlines()) == 1


def test_what_is_no_exported_memory_makes_no_memory(run: "Run", tmp_path: Path) -> None:
    """S7.1."""
    (tmp_path / "notes.txt").write_text("Hello\n")
    for source, why in (
        (tmp_path / "notes.txt", "line 1: "),
        (tmp_path / "none", "cannot be read"),
        (tmp_path, "cannot"),
    ):
        ran = run("import", str(source), "--data-dir", str(tmp_path / "there"))
        assert (ran.code, len(ran.err.splitlines())) == (1, 1)
        assert why in ran.err
    assert not (tmp_path / "there").exists()


def test_export_overwrites_nothing_and_leaves_no_half_file(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """S7.1."""
    note(open_memory())
    (tmp_path / "precious").write_text("mine")
    ran = run("export", str(tmp_path / "precious"))
    assert (ran.code, (tmp_path / "precious").read_text()) == (1, "mine")
    assert "exists already" in ran.err
    assert "cannot be written" in run("export", str(tmp_path / "precious" / "below")).err
    assert "leave out --json" in run("export", "-", "--json").err
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".part")] == []


def test_an_import_is_kept_though_the_embedder_is_away(
    run: "Run", open_memory: OpenMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.1, S2.2: and says so."""
    note(open_memory())
    run("export", str(tmp_path / "memory.jsonl"))

    def away(self: MiniLMEmbedder, texts: Sequence[str]) -> Sequence[Vectors]:
        raise StoreUnavailable("The embedder is away.")

    monkeypatch.setattr(MiniLMEmbedder, "embed_many", away)
    ran = run("import", str(tmp_path / "memory.jsonl"), "--data-dir", str(tmp_path / "there"))
    assert (ran.code, "not embedded yet: The embedder is away." in ran.err) == (0, True)
    assert run("status", "--data-dir", str(tmp_path / "there"), "--json").json["unembedded"] > 0


def test_an_interrupted_import_says_how_to_go_on(
    open_memory: OpenMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: "Run"
) -> None:
    """S7.1."""
    note(open_memory())
    run("export", str(tmp_path / "memory.jsonl"))

    def interrupted(self: MiniLMEmbedder, texts: Sequence[str]) -> Sequence[Vectors]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MiniLMEmbedder, "embed_many", interrupted)
        ran = run("import", str(tmp_path / "memory.jsonl"), "--data-dir", str(tmp_path / "there"))
    assert ran.code == 130
    assert "Run the same command again" in ran.err
    again = run("import", str(tmp_path / "memory.jsonl"), "--data-dir", str(tmp_path / "there"), "--json").json
    assert (again["stored"], again["embedded"] > 0) == (0, True)


def test_another_servers_memory_is_imported_once(run: "Run", tmp_path: Path) -> None:
    """S7.1: as if an agent had said it; a second run changes nothing; what is left out is said."""
    file = tmp_path / "memory.jsonl"
    said = [f"watches gauge {number}" for number in range(12)]
    lines = [
        {"type": "entity", "name": "Mara", "entityType": "person", "observations": said},
        {"type": "relation", "from": "Mara", "to": "Harbour", "relationType": "works_at"},
        {"type": "mystery"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    first = run("import", str(file), "--from", "reference", "--json")
    left_out = "lines that are neither an entity nor a relation"
    assert told_of(first) == IMPORTED | {"stored": 13, "embedded": 13, "left_out": {left_out: 1}, "changes": 1}
    revision = run("status", "--json").json["store"]["revision"]
    ran = run("import", str(file), "--from", "reference")
    told = f"13 records known already. Left out: {left_out} (1)."
    assert ran.out == f"Imported: {told} The records are in the project test.\n"
    assert run("status", "--json").json["store"]["revision"] == revision
    graph = run("status", "--json").json["graph"]
    assert (graph["entities"], graph["relations"]) == (2, 1)
    assert run("undo", str(*first.json["changes"])).code == 0
    assert run("list").out.startswith("Nothing found.")


def reference_file(path: Path, count: int) -> Path:
    """What the reference server keeps of one entity with so many observations."""
    said = [f"watches gauge {number}" for number in range(count)]
    path.write_text(json.dumps({"type": "entity", "name": "Mara", "entityType": "person", "observations": said}))
    return path


@pytest.mark.parametrize("server", ["", "reference"])
def test_what_is_imported_is_found_by_its_words_before_it_has_vectors(
    run: "Run", open_memory: OpenMemory, tmp_path: Path, server: str
) -> None:
    """S7.1: after the import was killed, while it waited for an embedder that says nothing."""
    source = reference_file(tmp_path / "memory.jsonl", BATCH + 5)
    if server:
        arguments = ("import", str(source), "--from", server)
    else:
        run("import", str(source), "--from", "reference")
        run("export", str(tmp_path / "exported.jsonl"))
        arguments = ("import", str(tmp_path / "exported.jsonl"))
    there = ("--data-dir", str(tmp_path / "there"))

    def found() -> tuple[str, bool]:
        answer = run("search", "gauge 7", *there, "--json").json
        return answer["results"][0]["text"], "wait" in " ".join(answer["degraded"])

    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        embedder = {"EMBEDDER": "ollama", "EMBEDDER_MODEL": "m", "EMBEDDER_TIMEOUT_SECONDS": "600"}
        embedder["EMBEDDER_URL"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = {**os.environ, "NO_PROXY": "127.0.0.1", **{f"MCP_MEMORY_{name}": each for name, each in embedder.items()}}
        process = ForkedProcess(
            *arguments, *there, code=IN_SMALL_BATCHES, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with process as importing, silent.accept()[0]:
            importing.kill()
    assert found() == ("Mara: watches gauge 7", True)
    again = run(*arguments, *there, "--json").json
    assert (again["stored"], again["embedded"]) == (0, BATCH + 5)
    assert found() == ("Mara: watches gauge 7", False)


def test_progress_is_shown_on_a_terminal(run: "Run", tmp_path: Path) -> None:
    """S7.1: what is stored, and apart from it what is embedded, out of what there is to do; nothing elsewhere."""
    pty = pytest.importorskip("pty")
    source = reference_file(tmp_path / "memory.jsonl", BATCH + 5)
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    arguments = "import", str(source), "--from", "reference"
    with (
        os.fdopen(ours, "rb", buffering=0) as shown,
        ForkedProcess(*arguments, code=IN_SMALL_BATCHES, env=env, stderr=theirs, stdout=subprocess.PIPE),
    ):
        os.close(theirs)
        text = b""
        with suppress(OSError):  # Linux ends a terminal so.
            while part := shown.read(4096):
                text += part
    counts = re.findall(r"(Storing|Embedding).*?(\d+)/(\d+)", text.decode())
    assert {total for _, _, total in counts} == {str(BATCH + 5)}
    assert [name for name, _ in groupby(counts, itemgetter(0))] == ["Storing", "Embedding"]
    assert {name for name, done, total in counts if done == total} == {"Storing", "Embedding"}


@pytest.mark.parametrize("server", ["basic-memory", "claude-mem"])
def test_a_second_import_of_the_same_changes_nothing(run: "Run", tmp_path: Path, server: str) -> None:
    """S7.1."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tide.md").write_text(
        "---\ntags: [sea]\n---\nProse about [[Sea]].\n- [fact] High at noon #tide\n", "utf-8"
    )
    database = tmp_path / "claude-mem.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE observations (id INTEGER PRIMARY KEY, project, type, title, facts)")
        row = ("tides", "change", "Moved the gauge", '["It stands on the pier"]')
        connection.execute("INSERT INTO observations (project, type, title, facts) VALUES (?, ?, ?, ?)", row)
        connection.commit()
    source = str(notes if server == "basic-memory" else database)
    counts = {"stored": 2, "embedded": 2, "changes": 1}
    assert told_of(run("import", source, "--from", server, "--json")) == IMPORTED | counts
    revision = run("status", "--json").json["store"]["revision"]
    assert told_of(run("import", source, "--from", server, "--json")) == IMPORTED | {"known": 2}
    assert run("status", "--json").json["store"]["revision"] == revision


def test_other_servers_are_chosen_by_name(run: "Run", tmp_path: Path) -> None:
    """S7.1: a wrong name, and a wrong file, are one line; no memory is made for them."""
    ran = run("import", str(tmp_path), "--from", "nobody")
    known = "reference, basic-memory, claude-mem, markdown"
    assert ran.err == f"mcp-memory: There is no importer for 'nobody'; choose one of {known}.\n"
    assert "name its file" in run("import", str(tmp_path), "--from", "claude-mem").err
    (tmp_path / "notes").mkdir()
    assert run("import", str(tmp_path / "notes"), "--from", "basic-memory").out == "Imported: nothing.\n"


def test_an_exported_memory_is_not_moved_to_another_project(run: "Run", tmp_path: Path) -> None:
    """S7.1: its records keep the project and the agent that they are of."""
    for option in ("--project", "--namespace", "--agent"):
        assert "only with --from" in run("import", str(tmp_path / "memory.jsonl"), option, "x").err


def test_a_store_that_fails_half_way_says_how_to_go_on(
    run: "Run", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.1, R1: what was stored until then stays."""
    file = reference_file(tmp_path / "memory.jsonl", BATCH + 1)
    remember = App.remember

    def fails_later(self: App, items: Sequence[NewRecord], caller: Caller, **options: Any) -> list[Remembered]:
        if len(items) < BATCH:
            raise StoreUnavailable("The disk is full; free space and call again.")
        return remember(self, items, caller, **options)

    monkeypatch.setattr(transfer, "IMPORT_BATCH", BATCH)
    with monkeypatch.context() as patched:
        patched.setattr(App, "remember", fails_later)
        ran = run("import", str(file), "--from", "reference")
    assert ran.code == 1
    assert f"free space and call again. {BATCH} are done. Run the same command again" in ran.err
    counts = {"stored": 1, "known": BATCH, "embedded": BATCH + 1, "changes": 1}
    assert told_of(run("import", str(file), "--from", "reference", "--json")) == IMPORTED | counts


def test_import_reads_standard_input_in_this_process_too(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """S7.1: and says of it what is wrong."""
    note(open_memory())
    result = CliRunner().invoke(command_line, ["import", "-", "--data-dir", str(tmp_path / "there")], input=b"{}\n")
    assert "Standard input, line 1: This is not an exported memory" in result.stderr
    assert run("export", "-").out.startswith('{"memory":')


def test_what_is_no_memory_is_refused_before_it_is_kept(run: "Run", tmp_path: Path) -> None:
    """X6.4: a stream that never ends fills no disk, and a pipe that nobody writes to makes nobody wait."""
    os.mkfifo(tmp_path / "pipe")
    ran = run("import", str(tmp_path / "pipe"), "--data-dir", str(tmp_path / "there"))
    why = "cannot be read (not an ordinary file); name an exported memory, or pipe it in and name -."
    assert (ran.code, ran.err) == (1, f"mcp-memory: {tmp_path / 'pipe'} {why}\n")
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        arguments = "import", "-", "--data-dir", str(tmp_path / "there")
        with ForkedProcess(*arguments, stdin=endless.stdout, stderr=subprocess.PIPE) as refused:
            _, told = refused.communicate(timeout=60)
        endless.kill()
    assert b"Standard input, line 1: It is not JSON" in told
    assert not (tmp_path / "there").exists()


def test_an_item_that_no_memory_takes_hinders_no_other(run: "Run", tmp_path: Path) -> None:
    """X6.4: and is counted."""
    shown = '<memory-context id="c1">\n- [r0zzzzz fact 2026-01-01] old\n</memory-context>'
    file = tmp_path / "memory.jsonl"
    entity = {"type": "entity", "name": "M", "entityType": "p", "observations": ["M first", shown, "M last"]}
    file.write_text(json.dumps(entity), "utf-8")
    outcome = told_of(run("import", str(file), "--from", "reference", "--json"))
    left_out = {"records that no memory takes": 1}
    assert outcome == IMPORTED | {"stored": 2, "embedded": 2, "left_out": left_out, "changes": 2}


def test_an_import_says_in_which_projects_the_records_are(run: "Run", open_memory: OpenMemory, tmp_path: Path) -> None:
    """P4.2: on a new machine a folder's memory has another name, and looks lost."""
    for name, count in (("app-one", 2), ("test", 1)):
        for number in range(count):
            run("add", f"Number {number} of {name} is stored.", "--namespace", name)
    file = str(tmp_path / "all.jsonl")
    run("export", file)
    told = run("import", file, "--data-dir", str(tmp_path / "copy"))
    assert "The records are in the projects they were in: app-one (2), test (1). This folder's is test:" in told.out
    assert "`mcp-memory list --namespace app-one`" in told.out
    assert "undo" not in told.out + run("import", file, "--data-dir", str(tmp_path / "copy")).out
    run("add", "This is new.")
    run("export", str(tmp_path / "more.jsonl"))
    more = run("import", str(tmp_path / "more.jsonl"), "--data-dir", str(tmp_path / "copy")).out
    assert more.endswith(" `mcp-memory ui` lists it under New, where all of it is retired as one change.\n")
    assert "`mcp-memory projects merge app-one test` brings them here, for good." in told.out
    again = run("import", file, "--data-dir", str(tmp_path / "another"), "--json").json
    assert (again["projects"], again["here"]) == ({"app-one": 2, "test": 1}, "test")
    assert run("list", "--namespace", "app-one", "--data-dir", str(tmp_path / "copy")).out.count("app-one") == 2
    one = str(tmp_path / "one.jsonl")
    run("export", one, "--namespace", "test")
    assert "projects they were in" not in run("import", one, "--data-dir", str(tmp_path / "third")).out
