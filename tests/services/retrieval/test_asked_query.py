"""What a query names and no record does."""

from collections.abc import Callable

import numpy as np
import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.services.retrieval.asked_query import is_absent, language_of
from mcp_memory.services.retrieval.recall import RecallRequest
from tests.embedders import HashingEmbedder


def test_a_name_written_with_parts_is_absent_where_both_are() -> None:
    """W3.1: "sql" alone names no PostgreSQL, and "git hub" names GitHub."""
    assert is_absent("PostgreSQL", {"postgresql", "postgre"})
    assert not is_absent("PostgreSQL", {"postgre"})
    assert not is_absent("GitHub", {"github"})
    assert is_absent("Sistine Chapel", {"sistine"})
    assert not is_absent("Redis", {"kafka"})


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("What is sent to PUMP_TELEMETRY_URL?", ("PUMP_TELEMETRY_URL",)),
        ("What is PUMP_URL?", ()),
        ("What went wrong on old Raspberry Pis?", ()),
        ("What does --telemetry-url do?", ("--telemetry-url",)),
    ],
)
def test_a_name_is_said_where_all_its_parts_are(app: App, query: str, unknown: tuple[str, ...]) -> None:
    """W3.1: "pump" says nothing of PUMP_TELEMETRY_URL; a plural is said by its singular."""
    texts = ("The pump reads its URL at start.", "The binary crashed on a Raspberry Pi.", "PUMP_URL names the pump.")
    app.remember([NewRecord(text=text) for text in texts], app.caller())
    assert app.recall(RecallRequest(query=query), app.caller()).unknown == unknown


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wer darf im Lager den Gabelstapler fahren?", "de"),
        ("Who may drive the forklift in the warehouse?", "en"),
        ("Forklift: two drivers", "en"),
        ("¿Quién puede conducir la carretilla en el almacén?", "es"),
        ("我们为什么没有用 Kafka 和 Redis？", "CJK"),
        ("倉庫でフォークリフトを運転できるのは誰ですか", "ja"),
        ("Кто может водить погрузчик?", "CYRILLIC"),
        ("12 + 30", "en"),
    ],
)
def test_function_words_or_the_script_tell_a_language(text: str, language: str) -> None:
    """F4.1: each Chinese character counts as a word, so that two Latin names make it no English."""
    assert language_of(text) == language


class Translating(HashingEmbedder):
    """Places a text about drivers in any language at a cosine of 0.3 to the question about them, all others at 0."""

    def __init__(self, known: float) -> None:
        self._known = known

    def embed_query(self, text: str) -> Vector:
        vector = super().embed_query(text)
        vector[:2] = 0.0
        vector /= np.linalg.norm(vector)
        if "driv" in text or "fahren" in text:
            vector *= 0.0 if text.endswith("?") else np.sqrt(1 - 0.3**2)
            vector[0] = 1.0 if text.endswith("?") else 0.3
        return vector

    def share_known(self, text: str) -> float:
        return 1.0 if language_of(text) == "en" else self._known


@pytest.mark.parametrize(
    ("record", "known", "is_found"),
    [
        ("Das fahren in der Halle nur Leute mit Schein, zurzeit Wang und Chen.", 1.0, True),
        ("Das fahren in der Halle nur Leute mit Schein, zurzeit Wang und Chen.", 0.4, False),
        ("Forklifts: driving needs a licence.", 1.0, False),
    ],
)
def test_a_record_in_another_language_needs_no_word_in_common(
    open_memory: Callable[..., App], record: str, known: float, is_found: bool
) -> None:
    """F4.1: where the embedder's model knows both languages; within one, words are missing for a reason."""
    app = open_memory(embedder=Translating(known))
    others = [NewRecord(text=f"Menu {number}: soup number {number}, bread and tea.") for number in range(40)]
    stored = app.remember([NewRecord(text=record), *others], app.caller(), advise=False)[0].id
    results = app.recall(RecallRequest(query="Which trolley may you drive?"), app.caller()).results
    assert (stored in [each["id"] for each in results]) is is_found


def test_where_nothing_passes_the_filter_no_language_is_compared(open_memory: Callable[..., App]) -> None:
    """F4.1."""
    app = open_memory(embedder=Translating(1.0))
    app.remember([NewRecord(text="Das fahren in der Halle nur Leute mit Schein.")], app.caller())
    request = RecallRequest(query="Which trolley may you drive?", kinds=("decision",))
    assert app.recall(request, app.caller()).results == ()
