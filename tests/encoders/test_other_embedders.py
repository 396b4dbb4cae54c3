"""A memory whose embedder is a service: stored, found, restarted, changed, and without the service."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.chroma_functions import ChosenFunction
from mcp_memory.encoders.embed_chroma import ChromaEmbedder
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.encoders.remote_calls import REST_SECONDS
from mcp_memory.errors import EmbedderMismatch, InvalidRequest, StoreUnavailable
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallAnswer, RecallRequest
from mcp_memory.settings import load_settings
from tests.conftest import Clock
from tests.e2e.conftest import ServerProcess
from tests.encoders.conftest import KEY, EmbeddingService, hashed, refusing, with_vectors

WITH_OLLAMA = "ollama/some-model/2000-200-64"

OpenMemory = Callable[..., App]


def by_meaning(text: str) -> list[float]:
    """The service's idea of meaning: a feline is a cat."""
    return hashed(text.replace("feline", "cat").replace("naps", "sleeps"))


@pytest.fixture
def open_with(
    service: EmbeddingService, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenMemory]:
    """Open the same memory again and again, with the service as its embedder unless settings or an embedder say else.

    The embedder follows the test's clock.
    """
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    service.answer = lambda texts: with_vectors(texts, by_meaning)
    opened: list[App] = []

    def open_one(instead: MiniLMEmbedder | None = None, **chosen: object) -> App:
        function = ChosenFunction(name="ollama", model="some-model", url=service.url, options={})
        asked = ChromaEmbedder(function, timeout_seconds=20, batch=64, window_characters=2000, clock=clock)
        settings = load_settings(data_dir=tmp_path / "data", namespace="test", **chosen)
        opened.append(open_app(settings, clock, None if chosen else instead or asked))
        return opened[-1]

    yield open_one
    for memory in opened:
        memory.close()


def remember(memory: App, *texts: str) -> list[Remembered]:
    return memory.remember([NewRecord(text=text) for text in texts], memory.caller())


def recall(memory: App, query: str) -> RecallAnswer:
    return memory.recall(RecallRequest(query=query, explain=True), memory.caller())


def finds_by_meaning(memory: App, record_id: str) -> bool:
    """True where a query that shares no word with the record finds it."""
    return record_id in [result["id"] for result in recall(memory, "feline naps").results]


def test_what_a_service_embedded_is_found_by_meaning_also_after_a_restart(
    open_with: OpenMemory, service: EmbeddingService, tmp_path: Path
) -> None:
    """R1, S4.3: by settings alone; the key is in no file and in no status."""
    chosen = {"embedder": "openai", "embedder_model": "some-model", "embedder_url": f"{service.url}/v1"}
    memory = open_with(**chosen)
    [cat, _] = remember(memory, "the cat sleeps", "invoices are due in May")
    assert finds_by_meaning(memory, cat.id)
    memory.close()
    again = open_with(**chosen)
    again.warm()
    assert finds_by_meaning(again, cat.id)
    status = again.status(again.caller())
    assert "openai/some-model/2000-200-64" in str(status)
    assert KEY not in str(status)
    assert not [
        path.name for path in (tmp_path / "data").rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]


def test_a_batch_of_records_is_one_request(open_with: OpenMemory, service: EmbeddingService) -> None:
    """R1: and none for what is known already."""
    memory = open_with()
    remember(memory, *(f"note {number}" for number in range(20)))
    remember(memory, "note 7")
    assert [len(texts) for _, _, texts in service.requests] == [20]


def test_a_memory_switched_back_to_the_built_in_names_the_remedy_which_mends_it(
    open_with: OpenMemory, embedder: MiniLMEmbedder
) -> None:
    """S2.2: until then words answer, and nothing is mixed."""
    [cat] = remember(open_with(), "the cat sleeps")
    memory = open_with(embedder)
    with pytest.raises(EmbedderMismatch, match="mcp-memory reindex"):
        remember(memory, "the dog barks")
    answer = recall(memory, "cat")
    assert [result["id"] for result in answer.results] == [cat.id]
    assert WITH_OLLAMA in "".join(answer.degraded)
    assert memory.reindex(memory.reindex.waiting(), lambda _done, _total: None) == 1
    assert recall(memory, "kitten").degraded == ()
    remember(memory, "the dog barks")


def test_a_memory_moves_to_a_service_in_requests_of_many(
    open_with: OpenMemory, embedder: MiniLMEmbedder, service: EmbeddingService
) -> None:
    """S7.1."""
    stored = remember(open_with(embedder), "the cat sleeps", *(f"note {number}" for number in range(39)))
    memory = open_with()
    assert memory.reindex(memory.reindex.waiting(), lambda _done, _total: None) == 40
    assert [len(texts) for _, _, texts in service.requests] == [32, 8]
    assert finds_by_meaning(memory, stored[0].id)


def test_a_note_is_not_lost_because_a_service_is_down(open_with: OpenMemory, service: EmbeddingService) -> None:
    """R1, S2.2: it is stored, found by its words, and both answers say what is missing."""
    memory = open_with()
    service.answer = refusing(401)
    first, second = remember(memory, "the cat sleeps", "the dog barks")
    assert (first.status, second.status) == ("stored", "stored")
    assert first.degraded.startswith("vector: Embedder ollama refused the key")
    answer = recall(memory, "cat")
    assert [result["id"] for result in answer.results] == [first.id]
    assert any("2 records are not embedded yet" in reason for reason in answer.degraded)
    assert len(service.requests) == 1


def test_what_waits_for_its_vectors_gets_them_with_the_next_record(
    open_with: OpenMemory, service: EmbeddingService, clock: Clock
) -> None:
    """S1.2, S2.2: and is found by other processes that had looked before."""
    memory, other = open_with(), open_with()
    [known] = remember(memory, "a first record")
    service.answer = refusing(401)
    clock.advance(seconds=1)
    [cat] = remember(memory, "the cat sleeps")
    service.answer = lambda texts: with_vectors(texts, by_meaning)
    assert not finds_by_meaning(other, cat.id)
    assert recall(other, "first").degraded != ()
    clock.advance(seconds=REST_SECONDS)
    remember(memory, "the dog barks")
    assert finds_by_meaning(other, cat.id)
    assert finds_by_meaning(memory, cat.id)
    assert recall(other, "first").degraded == ()
    assert recall(other, "first").results[0]["id"] == known.id


def test_what_waits_for_its_vectors_gets_them_at_the_next_start(
    open_with: OpenMemory, service: EmbeddingService
) -> None:
    """S2.2: also in a memory that had no vector before."""
    service.answer = refusing(401)
    stored = remember(open_with(), "the cat sleeps", *(f"note {number}" for number in range(40)))
    service.answer = lambda texts: with_vectors(texts, by_meaning)
    memory = open_with()
    memory.warm()
    assert finds_by_meaning(memory, stored[0].id)
    assert recall(memory, "cat").degraded == ()
    assert memory.records.embedder_id() == WITH_OLLAMA


def test_reindex_gives_vectors_to_what_waits_for_them(open_with: OpenMemory, service: EmbeddingService) -> None:
    """S7.1: as recall says."""
    remember(open_with(), "invoices are due in May")
    service.answer = refusing(401)
    [cat] = remember(open_with(), "the cat sleeps")
    service.answer = lambda texts: with_vectors(texts, by_meaning)
    memory = open_with()
    assert memory.reindex(memory.reindex.waiting(), lambda _done, _total: None) == 1
    assert finds_by_meaning(memory, cat.id)
    assert recall(memory, "cat").degraded == ()


def test_a_start_without_the_service_is_a_start(open_with: OpenMemory, service: EmbeddingService) -> None:
    """S2.2: what does not need it is loaded."""
    service.answer = refusing(401)
    open_with().warm()


def test_a_correction_without_the_service_changes_nothing(open_with: OpenMemory, service: EmbeddingService) -> None:
    """S2.2: the caller is told why; unlike a new note, what was said before is still there."""
    memory = open_with()
    [cat] = remember(memory, "the cat sleeps")
    service.answer = refusing(401)
    with pytest.raises(StoreUnavailable, match="refused the key"):
        memory.revise(Revision(id=cat.id, text="the cat is awake"), memory.caller())
    assert memory.recall(RecallRequest(ids=(cat.id,)), memory.caller()).results[0]["text"] == "the cat sleeps"


def test_a_model_that_was_exchanged_behind_its_name_is_noticed(
    open_with: OpenMemory, service: EmbeddingService
) -> None:
    """S2.2: by its dimensions, before its vectors are mixed with others."""
    remember(open_with(), "the cat sleeps")
    service.answer = lambda texts: with_vectors(texts, lambda text: hashed(text, 8))
    memory = open_with()
    with pytest.raises(EmbedderMismatch, match="16 dimensions before, and now of 8; name the new model"):
        remember(memory, "the dog barks")
    assert memory.status(memory.caller()).memory.summary.records == {"fact": 1}


def test_a_server_is_configured_by_its_environment(service: EmbeddingService, tmp_path: Path) -> None:
    """S7.1: over stdio; what a note lacks is said in the tool's answer."""
    environment = {
        "MCP_MEMORY_EMBEDDER": "ollama",
        "MCP_MEMORY_EMBEDDER_MODEL": "some-model",
        "MCP_MEMORY_EMBEDDER_URL": service.url,
        "NO_PROXY": "127.0.0.1",
    }
    service.answer = lambda texts: with_vectors(texts, by_meaning)
    server = ServerProcess(tmp_path / "data", environment)
    try:
        [cat] = server.call("remember", text="the cat sleeps")["structuredContent"]["records"]
        found = server.call("recall", query="feline naps")["structuredContent"]
        assert [result["id"] for result in found["results"]] == [cat["id"]]
        service.answer = refusing(401)
        answer = server.call("remember", items=[{"text": "the dog barks"}, {"text": "a bird sings"}])
        [reason] = answer["structuredContent"]["degraded"]
        assert reason.startswith("vector: Embedder ollama refused the key (HTTP 401)")
        assert KEY not in server.log
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"embedder": "nobody"}, "'minilm'.*'ollama'.*'openai'"),
        ({"embedder": "ollama"}, "embedder ollama needs the name of a model.*MCP_MEMORY_EMBEDDER_MODEL"),
        ({"embedder_model": "bge-m3"}, "embedder minilm has no other model"),
        ({"embedder_options": {"api_key": KEY}}, "keys come from the environment alone; take api_key out"),
        ({"embedder_options": {"session_args": [{"aws_secret_access_key": KEY}]}}, "take aws_secret_access_key out"),
        ({"embedder_options": "{dimensions"}, "MCP_MEMORY_EMBEDDER_OPTIONS"),
        ({"embedder_timeout_seconds": 0}, "greater than 0"),
    ],
)
def test_wrong_settings_of_an_embedder_are_told_without_the_key(
    chosen: dict[str, object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3.1, S4.3."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(InvalidRequest, match=said) as caught:
        load_settings(**chosen)
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_options_are_read_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1: as JSON; one may name the key's variable."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("MCP_MEMORY_EMBEDDER_OPTIONS", '{"dimensions": 256, "api_key_env_var": "OUR_KEY"}')
    assert load_settings().embedder_options == {"dimensions": 256, "api_key_env_var": "OUR_KEY"}
