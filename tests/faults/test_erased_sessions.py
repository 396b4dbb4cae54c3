"""A message that was erased is in no file, whatever its client's hooks, forks and summaries make of it."""

import json
import time
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest

from mcp_memory.app import open_app
from mcp_memory.bridge.door import owner_of
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.settings import load_settings
from mcp_memory.stores.vectors.chroma import store
from tests.chroma import ForkedChroma
from tests.e2e.hook_session import Session
from tests.faults.test_erase import needles, traces

WORD = "zqvaultxyqv"
SAID = f"Never print the vault word {WORD} in any log of ours."
SUMMARY = f"<summary>The user said: {SAID} We went on.</summary>"


def forked(session: Session, folder: Path) -> Path:
    """Copy the session into a new file, as the client does, with a line more."""
    lines = [json.loads(line) for line in session.transcript.read_text("utf-8").splitlines()]
    more = {"type": "user", "uuid": "f1", "message": {"role": "user", "content": "Export the notes."}}
    copy = folder / "fork.jsonl"
    copy.write_text("".join(json.dumps({**line, "sessionId": "fork"}) + "\n" for line in [*lines, more]), "utf-8")
    return copy


@pytest.mark.parametrize(("erases", "index"), [("message", "exact"), ("fact", "exact"), ("message", "chroma")])
def test_no_file_of_the_memory_has_an_erased_message_again(
    tmp_path: Path, erases: str, index: str, embedder: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G2.1, P2.1: hooks are processes of their own, before and after; a migration's copy goes as well.

    So does what others state of things, and an index of vectors, in which none has the erased ones.
    """
    monkeypatch.setattr(store, "ChromaProcess", ForkedChroma)
    data = tmp_path / "data"
    environment = {
        "MCP_MEMORY_DATA_DIR": str(data),
        "MCP_MEMORY_NAMESPACE": "test",
        "MCP_MEMORY_CONFIG": str(tmp_path / "none.toml"),
        "MCP_MEMORY_SEMANTIC_STORE": index,
        "MCP_MEMORY_IDLE_MINUTES": "0",
    }
    session = Session(tmp_path, environment)
    for number in range(6):
        session.say(
            str(uuid5(NAMESPACE_URL, f"u{number}")), "user", SAID if number == 3 else f"Step {number} of the export."
        )
    session.hook("Stop")
    session.hook("PreCompact", trigger="auto")
    session.hook("PostCompact", compact_summary=SUMMARY)
    copy = forked(session, tmp_path)
    for event in ("SessionStart", "Stop", "PreCompact"):
        session.hook(event, session_id="fork", transcript_path=str(copy), source="fork", trigger="auto")
    while owner_of(str(data)):  # The hooks' owner ends with the last of them.
        time.sleep(0.01)
    app = open_app(load_settings(data_dir=data, namespace="test", semantic_store=index), embedder=embedder)
    fact = app.remember([NewRecord(text=SAID)], app.caller())[0].id
    told = Entity(name="Vault", properties={"note": SAID, "aliases": [SAID]})
    related = [
        Relation(source="Vault", type="asks for", target=SAID),
        Relation(source="Log", type=SAID, target="Vault"),
    ]
    app.remember([NewRecord(text="A vault.", entities=(told,), relations=tuple(related))], app.caller())
    wanted = [WORD.encode()]
    if index == "chroma":
        app.warm()
        assert app.index.settle(60)
        wanted += [each for each in needles(app, SAID) if each.isascii() is False]
        assert any(name.startswith("chroma/") for name, _ in traces(data, wanted))
    app.records.backup(str(data / "memory.db.schema-1"))
    assert traces(data, [WORD.encode()])
    where = RecordFilter(scopes=app.caller().scopes, kinds=frozenset({"message"}))
    said = [each.id for each in app.records.list(where, "created", 50) if WORD in each.text]
    assert len(said) == 1
    app.forget([fact] if erases == "fact" else said, "erase", app.caller())
    assert traces(data, wanted) == []
    app.close()
    session.transcript.write_text(session.transcript.read_text("utf-8") + "\n", "utf-8")
    session.hook("Stop", session_id="resumed")
    session.hook("Stop", session_id="fork", transcript_path=str(copy))
    session.hook("PreCompact", trigger="auto")
    session.hook("PostCompact", compact_summary=SUMMARY)
    session.hook("SessionEnd", reason="other")
    assert traces(data, wanted) == []
