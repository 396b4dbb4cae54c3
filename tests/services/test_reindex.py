"""Texts that an embedder refuses for good, next to those it takes."""

from collections.abc import Callable, Sequence

import pytest

from mcp_memory.app import App
from mcp_memory.domain.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import StoreUnavailable, TextRefused
from mcp_memory.ports import Vectors
from mcp_memory.services.recall import RecallRequest
from mcp_memory.services.reindex import BATCH, Reindex
from mcp_memory.services.remember import Remembered
from mcp_memory.services.revise import Revision

RememberOne = Callable[..., Remembered]


class Choosy:
    """The built-in embedder, which refuses a batch that holds one of some words, and can be away."""

    def __init__(self, inner: MiniLMEmbedder) -> None:
        self._inner = inner
        self.refused: frozenset[str] = frozenset()
        self.is_away = False
        self.requests = 0
        self.id, self.dimensions, self.embed_query = inner.id, inner.dimensions, inner.embed_query

    def embed(self, text: str) -> Vectors:
        return self.embed_many([text])[0]

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        self.requests += 1
        if self.is_away:
            raise StoreUnavailable("The embedder is away.")
        if any(word in text for word in self.refused for text in texts):
            raise TextRefused("The embedder refused the text.")
        return self._inner.embed_many(texts)


@pytest.fixture
def embedder(embedder: MiniLMEmbedder) -> Choosy:
    return Choosy(embedder)


def texts_waiting(app: App, embedder: Choosy) -> list[str]:
    return [text for _, _, text in app.records.unembedded(embedder.id, 1000)]


def test_one_refused_text_of_many_costs_the_others_nothing(app: App, embedder: Choosy) -> None:
    """S2.2: they are remembered with their vectors, in few requests."""
    embedder.refused = frozenset({"poison"})
    texts = [f"note {number}" for number in range(15)] + ["a poison"]
    remembered = app.remember([NewRecord(text=text) for text in texts], app.caller())
    assert [each.degraded for each in remembered] == [""] * 15 + ["vector: The embedder refused the text."]
    assert texts_waiting(app, embedder) == ["a poison"]
    assert embedder.requests <= 1 + 2 * 4


def test_refused_texts_do_not_stand_in_the_way_of_later_ones(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """S2.2: not even a batch full of them, and they are not asked for again."""
    embedder.is_away = True
    for number in range(BATCH):
        remember(f"poison {number}")
    remember("The dog barks.")
    embedder.is_away, embedder.refused = False, frozenset({"poison"})
    assert app.reindex.catch_up() == 1
    assert texts_waiting(app, embedder) == []
    assert app.reindex.refused() == BATCH
    before = embedder.requests
    assert app.reindex.catch_up() == 0
    assert embedder.requests == before


def test_an_embedder_that_refuses_everything_is_told(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """S2.2: the fault is not with the texts, and none of them is passed over once it is mended."""
    embedder.is_away = True
    remember("The dog barks.")
    with pytest.raises(StoreUnavailable, match="away"):
        app.reindex.catch_up()
    embedder.is_away, embedder.refused = False, frozenset({""})
    with pytest.raises(TextRefused):
        app.reindex.catch_up()
    embedder.refused = frozenset()
    assert app.reindex.catch_up() == 1


def test_a_new_embedder_takes_over_without_what_it_refuses(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """S2.2: the refused record stays, and waits for nothing."""
    remember("a poison")
    remember("The dog barks.")
    embedder.id, embedder.refused = "another", frozenset({"poison"})
    assert Reindex(app.records, embedder)(2, lambda done, total: None) == 1
    assert app.records.embedder_id() == "another"
    assert app.records.count_unembedded() == 0
    assert app.records.count_refused("another") == 1


def test_a_refused_text_is_found_by_its_words_and_nothing_is_promised(
    app: App, embedder: Choosy, remember: RememberOne, open_memory: Callable[..., App]
) -> None:
    """S2.2: in other processes neither, which do not ask for it again."""
    embedder.refused = frozenset({"poison"})
    bad = remember("a poison")
    remember("The dog barks.")
    for memory in (app, open_memory(session="later")):
        before = embedder.requests
        assert memory.reindex.catch_up() == 0
        assert embedder.requests == before
        answer = memory.recall(RecallRequest(query="poison"), memory.caller())
        assert (answer.results[0]["id"], answer.degraded) == (bad.id, ())


def test_a_refused_text_is_asked_for_again_where_it_may_help(app: App, embedder: Choosy, remember: RememberOne) -> None:
    """S2.2: by who embeds everything anew, and by who corrects it; interrupted, it waits as before it was refused."""
    embedder.refused = frozenset({"poison"})
    one, two = remember("a poison"), remember("another poison")
    remember("The dog barks.")
    embedder.refused = frozenset()
    app.revise(Revision(id=one.id, text="an antidote"), app.caller())
    assert app.reindex.refused() == 1
    embedder.is_away = True
    with pytest.raises(StoreUnavailable):
        app.reindex(0, lambda done, total: None)
    assert (app.reindex.refused(), app.records.count_unembedded()) == (0, 1)
    embedder.is_away = False
    assert app.reindex(1, lambda done, total: None) == 1
    assert (app.reindex.refused(), app.reindex.waiting()) == (0, 0)
    embedded = {change.id for change in app.records.vector_changes(0, embedder.id)}
    assert {one.id, two.id} <= embedded
