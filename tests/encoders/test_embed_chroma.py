"""Chroma's embedding functions behind our port, with the real client packages against a service on loopback."""

import importlib
import sys
import traceback
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest

from mcp_memory.encoders.chroma_functions import ChosenFunction
from mcp_memory.encoders.embed_chroma import MAX_WINDOWS, ChromaEmbedder
from mcp_memory.encoders.remote_calls import REST_SECONDS
from mcp_memory.errors import InvalidRequest, StoreUnavailable, TextRefused
from mcp_memory.settings import EmbedderName
from mcp_memory.shielded_chroma import import_chromadb
from tests.conftest import Clock
from tests.encoders.conftest import KEY, EmbeddingService, hashed, refusing, with_vectors

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Json


def embedder(
    service: EmbeddingService,
    name: str = "openai",
    *,
    model: str = "some-model",
    options: "dict[str, Json] | None" = None,
    timeout_seconds: float = 20,
    batch: int = 64,
    clock: Clock | None = None,
) -> ChromaEmbedder:
    """Chroma's function of that name, asking the service on loopback."""
    url = f"{service.url}/v1" if name == "openai" else service.url
    function = ChosenFunction(name=name, model=model, url=url, options=options or {})
    clock = clock or Clock()
    return ChromaEmbedder(function, timeout_seconds=timeout_seconds, batch=batch, window_characters=200, clock=clock)


def failure(embedder: ChromaEmbedder, text: str = "one") -> str:
    """What the caller is told; nothing of it, nor of its traceback, holds the key."""
    with pytest.raises(StoreUnavailable) as caught:
        embedder.embed(text)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


@pytest.mark.parametrize(("name", "path"), [("openai", "/v1/embeddings"), ("ollama", "/api/embed")])
def test_vectors_are_those_of_the_service_at_unit_length(name: str, path: str, service: EmbeddingService) -> None:
    """S2.2: of the model that was named; float32, a row for each window."""
    vectors = embedder(service, name).embed("the cat sleeps")
    expected = np.array(hashed("the cat sleeps"))
    assert vectors.shape == (1, 16)
    assert vectors.dtype == np.float32
    assert np.allclose(vectors[0], expected / float(np.linalg.norm(expected)), atol=1e-6)
    assert service.requests == [(path, "some-model", ["the cat sleeps"])]


def test_the_key_comes_from_the_environment_and_goes_to_the_service_alone(service: EmbeddingService) -> None:
    """S4.3: it is in no id."""
    chosen = embedder(service)
    chosen.embed("one")
    assert service.keys == {f"Bearer {KEY}"}
    assert KEY not in chosen.id


def test_a_long_text_gets_a_vector_for_each_of_its_windows(service: EmbeddingService) -> None:
    """S2.2: windows overlap, reach from beginning to end, and are never more than 64."""
    text = "".join(f"word{number} " for number in range(60)).strip()
    vectors = embedder(service).embed(text)
    [(_, _, windows)] = service.requests
    assert len(vectors) == len(windows) == 3
    assert text.startswith(windows[0])
    assert text.endswith(windows[-1])
    assert windows[0][-20:] in windows[1]
    assert len(embedder(service).embed("many words " * 5_000)) == MAX_WINDOWS


def test_many_texts_share_requests_and_get_the_vectors_they_get_alone(service: EmbeddingService) -> None:
    """S2.2: what a text becomes depends on nothing but the text."""
    texts = ["one", "two three " * 40, "four", "", "a lone \ud800 surrogate"]
    chosen = embedder(service, batch=3)
    together = chosen.embed_many(texts)
    assert [len(windows) for _, _, windows in service.requests] == [3, 3, 1]
    for text, vectors in zip(texts, together, strict=True):
        assert np.allclose(vectors, chosen.embed(text))
    assert chosen.embed_many([]) == []


def test_a_query_longer_than_a_window_has_one_vector(service: EmbeddingService) -> None:
    """R5: the mean of its windows, at unit length."""
    chosen = embedder(service, "ollama")
    text = "which database did we choose " * 20
    mean = chosen.embed(text).mean(0)
    assert np.allclose(chosen.embed_query(text), mean / np.linalg.norm(mean), atol=1e-6)
    assert chosen.share_known("数据库") == 1.0, "which words its model knows is not told"


def test_a_function_with_its_own_way_for_queries_is_asked_in_that_way(
    service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: some models tell a question from a text that answers it."""
    import_chromadb()
    functions = importlib.import_module("chromadb.utils.embedding_functions")

    class Asymmetric(functions.EmbeddingFunction):  # pyrefly: ignore[unknown-base-class] - imported late
        def __init__(self, model_name: str) -> None:
            self.model_name = model_name

        def __call__(self, input: list[str]) -> list[list[float]]:  # noqa: A002 - Chroma's name
            return [[2.0, 0.0] for _ in input]

        def embed_query(self, input: list[str]) -> list[list[float]]:  # noqa: A002
            return [[0.0, 2.0] for _ in input]

        @staticmethod
        def build_from_config(config: dict[str, str]) -> "Asymmetric":
            return Asymmetric(config["model_name"])

        def get_config(self) -> dict[str, str]:
            return {"model_name": self.model_name}

    monkeypatch.setitem(functions.known_embedding_functions, "asymmetric", Asymmetric)
    function = ChosenFunction(name="asymmetric", model="m", url=None, options={})
    chosen = ChromaEmbedder(function, timeout_seconds=20, batch=8, window_characters=200)
    assert chosen.embed("text").tolist() == [[1.0, 0.0]]
    assert chosen.embed_query("text").tolist() == [0.0, 1.0]


def test_the_id_names_what_makes_the_vectors_and_nothing_else(service: EmbeddingService) -> None:
    """S2.2: vectors of different ids are never compared, those of one id always can be."""
    plain = embedder(service)
    assert plain.id == "openai/some-model/200-20-64"
    small = embedder(service, options={"dimensions": 256, "organization_id": "ours", "api_key_env_var": "OUR_KEY"})
    assert small.id == "openai/some-model/dimensions=256/200-20-64"
    assert service.requests == []


def test_the_dimensions_are_asked_once(service: EmbeddingService) -> None:
    """S2.2: or not at all where a text has been embedded before."""
    chosen = embedder(service)
    assert (chosen.dimensions, chosen.dimensions) == (16, 16)
    assert len(service.requests) == 1


def test_a_service_that_stays_silent_is_given_up_at_the_deadline(service: EmbeddingService) -> None:
    """S2.2: the message says what to change."""
    service.answer = service.stay_silent
    said = failure(embedder(service, "ollama", timeout_seconds=0.3))
    assert said == (
        "Embedder ollama did not answer within 0.3 s. Check that it runs, or raise embedder_timeout_seconds."
    )


def test_a_service_that_failed_is_left_alone_for_a_while(service: EmbeddingService) -> None:
    """S2.2: calls fail at once, for the same reason; afterwards it is asked again."""
    clock = Clock()
    chosen = embedder(service, "ollama", clock=clock)
    service.answer = refusing(401)
    said = failure(chosen)
    service.answer = with_vectors
    clock.advance(seconds=REST_SECONDS / 2)
    assert failure(chosen, "two") == said
    assert len(service.requests) == 1
    clock.advance(seconds=REST_SECONDS)
    assert chosen.embed("two").shape == (1, 16)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failure_that_passes_is_not_noticed(status: int, service: EmbeddingService) -> None:
    """S2.2: the request is repeated."""
    service.next_answers = [refusing(status)]
    assert embedder(service, "ollama").embed("one").shape == (1, 16)
    assert [texts for _, _, texts in service.requests] == [["one"], ["one"]]


def test_a_failure_that_stays_is_told_after_three_attempts(service: EmbeddingService) -> None:
    """S2.2."""
    service.answer = refusing(500)
    assert failure(embedder(service, "ollama")) == "Embedder ollama answered HTTP 500. Try again in a minute."
    assert len(service.requests) == 3


def test_repetitions_end_at_the_deadline(service: EmbeddingService) -> None:
    """S2.2: no pause is begun that would outlast it."""
    service.answer = refusing(500)
    assert "HTTP 500" in failure(embedder(service, "ollama", timeout_seconds=0.2))
    assert len(service.requests) == 1


def test_a_wrong_key_is_told_without_the_key(service: EmbeddingService) -> None:
    """S4.3: though the service repeats it; asking again would not help."""
    service.answer = refusing(401)
    assert failure(embedder(service)) == (
        "Embedder openai refused the key (HTTP 401). Set the right one in OPENAI_API_KEY."
    )
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("status", "remedy"), [(404, "Check embedder_model and embedder_url"), (400, "lower embedder_window_characters")]
)
def test_a_refusal_names_the_settings_to_look_at(status: int, remedy: str, service: EmbeddingService) -> None:
    """S2.2."""
    service.answer = refusing(status)
    assert remedy in failure(embedder(service))
    assert len(service.requests) == 1


def test_a_refused_text_does_not_keep_others_from_being_embedded(service: EmbeddingService) -> None:
    """S2.2: it says nothing about the service."""
    chosen = embedder(service)
    service.next_answers = [refusing(400)]
    failure(chosen)
    assert chosen.embed("two").shape == (1, 16)


def test_a_service_that_is_not_there_is_told(service: EmbeddingService) -> None:
    """S2.2: with what to check."""
    function = ChosenFunction(name="ollama", model="m", url="http://127.0.0.1:9", options={})
    chosen = ChromaEmbedder(function, timeout_seconds=20, batch=8, window_characters=200)
    assert (
        failure(chosen) == "Embedder ollama could not be used (ConnectionError). Check that it runs, and embedder_url."
    )


@pytest.mark.parametrize(
    ("vector", "what"),
    [
        ([0.0] * 16, "answered with a vector that points nowhere"),
        ([float("nan")] * 16, "answered with a vector that points nowhere"),
        ([], "could not be used (ValueError)"),
    ],
)
def test_a_vector_that_cannot_be_compared_is_refused(vector: list[float], what: str, service: EmbeddingService) -> None:
    """S2.2: a zero vector would be near everything."""
    service.answer = lambda texts: with_vectors(texts, lambda _text: vector)
    assert what in failure(embedder(service, "ollama"))


def test_vectors_of_another_number_are_refused(service: EmbeddingService) -> None:
    """S2.2: nobody knows whose they are."""
    service.answer = lambda texts: with_vectors([*texts, "another"])
    assert "other than one vector for each text" in failure(embedder(service, "ollama"))


def test_a_model_that_changes_its_dimensions_is_refused(service: EmbeddingService) -> None:
    """S2.2: its vectors cannot be compared with those before."""
    chosen = embedder(service)
    chosen.embed("one")
    service.answer = lambda texts: with_vectors(texts, lambda text: hashed(text, 8))
    assert "8 dimensions, where it had 16" in failure(chosen)


@pytest.mark.parametrize(
    ("name", "module", "remedy"),
    [
        ("openai", "openai", "Install mcp-memory-stack[openai]."),
        ("ollama", "ollama", "Install mcp-memory-stack[ollama]."),
        ("google_gemini", "google.genai", "Install the package google-genai beside mcp-memory-stack."),
    ],
)
def test_a_missing_package_is_told_with_what_to_install(
    name: str, module: str, remedy: str, service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: the extra, where there is one."""
    monkeypatch.setitem(sys.modules, module, None)
    function = ChosenFunction(name=name, model="m", url=None, options={})
    said = failure(ChromaEmbedder(function, timeout_seconds=20, batch=8, window_characters=200))
    assert said == f"Embedder {name} needs the Python module {module}. {remedy}"


def test_a_missing_key_is_told_with_the_variable(service: EmbeddingService, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.2: also where the settings name another one."""
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("CHROMA_OPENAI_API_KEY", raising=False)
    assert failure(embedder(service)) == (
        "Embedder openai finds no key. Set the environment variable CHROMA_OPENAI_API_KEY."
    )
    assert "OUR_KEY" in failure(embedder(service, options={"api_key_env_var": "OUR_KEY"}))


def test_a_function_that_lacks_what_it_needs_says_so(service: EmbeddingService) -> None:
    """S2.2: its own message is not shown, since it may hold more than it should."""
    function = ChosenFunction(name="cloudflare_workers_ai", model="m", url=None, options={})
    assert "cannot be made ready" in failure(
        ChromaEmbedder(function, timeout_seconds=20, batch=8, window_characters=200)
    )


@pytest.mark.parametrize(
    ("name", "url", "options", "what"),
    [
        ("nobody", None, {}, "no embedder 'nobody'; it has .*ollama, .*openai"),
        ("openai", None, {"colour": "red"}, "no option 'colour'; its options are .*dimensions"),
        ("sentence_transformer", "http://127.0.0.1:9", {}, "takes no address; leave embedder_url out"),
    ],
)
def test_what_a_function_does_not_take_is_refused(
    name: str, url: str | None, options: "dict[str, Json]", what: str, service: EmbeddingService
) -> None:
    """S3.1: with what it does take."""
    function = ChosenFunction(name=name, model="m", url=url, options=options)
    with pytest.raises(InvalidRequest, match=what):
        ChromaEmbedder(function, timeout_seconds=20, batch=8, window_characters=200).embed("one")


def test_the_settings_name_every_function_that_chroma_ships() -> None:
    """S2.2: but those that no settings can describe, and second names of the same."""
    import_chromadb()
    known = importlib.import_module("chromadb.utils.embedding_functions").known_embedding_functions
    unnamed = {"chroma_langchain", "default", "google_genai"}
    assert set(get_args(EmbedderName)) == {"minilm", "e5", "minilm+e5", *known} - unnamed


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_text_refused_for_good_is_told_from_a_service_that_fails(status: int, service: EmbeddingService) -> None:
    """S2.2: so that others can be embedded without it."""
    service.next_answers = [refusing(status)]
    chosen = embedder(service)
    with pytest.raises(TextRefused, match=f"HTTP {status}"):
        chosen.embed("one")
    assert len(chosen.embed("two")) == 1
