"""The built-in embedder, on the packaged model."""

import hashlib
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.encoders import embed_minilm
from mcp_memory.encoders.embed_minilm import (
    MAX_CHARACTERS,
    MAX_WINDOWS,
    MODEL_DIGEST,
    MODEL_FOLDER,
    OVERLAP,
    WINDOW,
    MiniLMEmbedder,
    open_session,
    window_bounds,
)
from mcp_memory.errors import StoreUnavailable

EMBEDDER = MiniLMEmbedder()

FILLER = (
    "The harbour office keeps the tide tables on paper. ",
    "Two ferries cross the bay before noon and three after it. ",
    "Fishermen mend their nets along the quay while gulls wait. ",
    "A bakery on the corner sells dark bread and plum cake. ",
)


def similarity(first: str, second: str) -> float:
    return float(EMBEDDER.embed_query(first) @ EMBEDDER.embed_query(second))


def filler(characters: int) -> str:
    return ("".join(FILLER) * (characters // len("".join(FILLER)) + 1))[:characters]


def test_the_packaged_files_are_the_ones_their_checksums_name() -> None:
    for line in (MODEL_FOLDER / "SHA256SUMS").read_text("utf-8").splitlines():
        checksum, name = line.split()
        assert hashlib.sha256((MODEL_FOLDER / name).read_bytes()).hexdigest() == checksum


def test_the_id_names_the_packaged_weights_and_the_windowing() -> None:
    assert (MODEL_FOLDER / "SHA256SUMS").read_text("utf-8").startswith(MODEL_DIGEST)
    assert EMBEDDER.id == "all-MiniLM-L6-v2/int8-1a1b6714/254-32-64"


def test_the_model_is_small_enough_for_the_package() -> None:
    assert (MODEL_FOLDER / "model.onnx").stat().st_size <= 25_000_000


@pytest.mark.parametrize(
    ("text", "paraphrase", "unrelated"),
    [
        ("The deploy failed.", "Our release did not go through.", "The cake needs four eggs."),
        ("He is allergic to nuts.", "Peanuts make him ill.", "The index is rebuilt every night."),
        ("open a file and read its lines", "with open(path) as f: return f.readlines()", "SELECT count(*) FROM users"),
    ],
)
def test_paraphrases_are_nearer_than_unrelated_texts(text: str, paraphrase: str, unrelated: str) -> None:
    assert similarity(text, paraphrase) > similarity(text, unrelated) + 0.1


def test_a_short_text_is_one_unit_vector_equal_to_its_query_vector() -> None:
    vectors = EMBEDDER.embed("Use tabs in Go files.")
    assert vectors.shape == (1, EMBEDDER.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(vectors[0], EMBEDDER.embed_query("Use tabs in Go files."), atol=1e-6)


def test_the_same_text_has_the_same_vector_to_the_last_bit_in_another_embedder() -> None:
    text = "Invoices are sent on the first working day."
    assert np.array_equal(EMBEDDER.embed(text), MiniLMEmbedder().embed(text))


def test_a_vector_does_not_depend_on_what_was_embedded_before() -> None:
    before = EMBEDDER.embed("The build is red.")
    EMBEDDER.embed(filler(3_000))
    assert np.array_equal(before, EMBEDDER.embed("The build is red."))


def test_several_threads_get_the_vectors_that_one_gets_and_load_the_model_once() -> None:
    texts = [f"Note {i}: {filler(i * 20)}" for i in range(24)]
    alone = [EMBEDDER.embed(text) for text in texts]
    shared = MiniLMEmbedder()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(shared.embed, texts))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


@pytest.mark.parametrize(
    "text", ["", " \t\n ", "\x00", "\u200b", "\ud800", "a\udfffb", "[CLS]", "x" * 500, "👩‍👩‍👧", "é\u0301" * 300]
)
def test_odd_texts_have_unit_vectors(text: str) -> None:
    for vectors in (EMBEDDER.embed(text), EMBEDDER.embed_query(text)[None]):
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_texts_without_a_word_all_have_the_empty_text_s_vector() -> None:
    assert np.array_equal(EMBEDDER.embed(""), EMBEDDER.embed("  \n\t "))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("Where is the key? 3.5", 1.0, 1.0),
        ("…? 3,5 €", 1.0, 1.0),
        ("Wo liegt der Schlüssel für die Tür?", 0.35, 0.5),
        ("Où se trouve la clé de la maison ?", 0.35, 0.5),
        ("Wie hoch ist die Miete in Kiel?", 0.5, 0.5),
        ("数据库的密码放在哪里？", 0.0, 0.1),
        ("データベースはどこですか？", 0.0, 0.1),
        ("أين كلمة مرور قاعدة البيانات؟", 0.0, 0.1),
        ("Где хранится пароль от базы?", 0.0, 0.1),
        ("PostgreSQL 的密码", 0.2, 0.9),
    ],
)
def test_words_of_other_languages_mean_half_to_the_model_and_those_spelled_letter_by_letter_nothing(
    text: str, low: float, high: float
) -> None:
    assert low <= EMBEDDER.share_known(text) <= high


def test_the_name_of_a_mark_is_ordinary_text() -> None:
    assert not np.allclose(EMBEDDER.embed("[SEP]"), EMBEDDER.embed(""), atol=1e-3)


def test_something_said_once_in_a_long_text_is_found_by_windows_and_not_by_truncation() -> None:
    text = filler(4_000) + "The password of the telescope is kept in the blue safe. " + filler(2_000)
    query = EMBEDDER.embed_query("Where is the telescope's password?")
    vectors = EMBEDDER.embed(text)
    scores = vectors @ query
    mean = vectors.mean(0)
    assert scores.max() > 2 * scores[0]
    assert scores.max() > mean / np.linalg.norm(mean) @ query + 0.05


def test_a_long_query_is_the_mean_of_its_windows_at_unit_length() -> None:
    mean = EMBEDDER.embed(filler(3_000)).mean(0)
    assert np.allclose(EMBEDDER.embed_query(filler(3_000)), mean / np.linalg.norm(mean), atol=1e-6)


@given(st.integers(0, 5_000_000))
def test_windows_are_equal_in_size_fit_the_model_and_reach_both_ends(pieces: int) -> None:
    bounds = window_bounds(pieces)
    assert len(bounds) <= MAX_WINDOWS
    assert bounds[0][0] == 0
    assert bounds[-1][1] == pieces
    assert len({end - start for start, end in bounds}) == 1
    assert bounds[0][1] <= WINDOW


@given(st.integers(WINDOW + 1, WINDOW + (MAX_WINDOWS - 1) * (WINDOW - OVERLAP)))
def test_windows_overlap_as_long_as_there_are_enough_of_them(pieces: int) -> None:
    bounds = window_bounds(pieces)
    overlaps = [end - start for (_, end), (start, _) in pairwise(bounds)]
    assert min(overlaps) >= OVERLAP - 1  # rounding


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_finite_unit_vectors(text: str) -> None:
    vectors = EMBEDDER.embed(text)
    assert np.isfinite(vectors).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("unit", ["hello world this is ", "中文", "a", "= "])
def test_five_megabytes_are_covered_by_a_bounded_number_of_windows_and_no_more_is_tokenized(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = EMBEDDER.embed_query("a")
    read: list[int] = []

    class Recorded(embed_minilm._Model):  # noqa: SLF001
        def pieces(self, text: str) -> list[int]:
            read.append(len(text))
            return super().pieces(text)

        def vector(self, pieces: list[int]) -> Vector:  # The model takes as long for one window as for another.
            assert 0 < len(pieces) <= WINDOW
            return made

    monkeypatch.setattr(embed_minilm, "_Model", Recorded)
    text = unit * (5_000_000 // len(unit))
    assert MiniLMEmbedder().embed(text).shape == (MAX_WINDOWS, EMBEDDER.dimensions)
    assert sum(read) <= MAX_CHARACTERS


def test_the_graph_alone_gives_the_vectors_of_the_whole_model_to_the_last_bit() -> None:
    whole, graph = (open_session(str(MODEL_FOLDER / name)) for name in ("model.onnx", "graph.onnx"))
    for size in (1, 30, 254):
        ids = np.arange(1_000, 1_000 + size, dtype=np.int64)[np.newaxis]
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        assert whole.run(None, inputs)[0].tobytes() == graph.run(None, inputs)[0].tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's account of a process's memory")
def test_the_word_table_is_mapped_from_its_file_and_not_copied() -> None:
    """Servers share its 11 MB."""
    EMBEDDER.embed("hello")
    maps = psutil.Process().memory_maps(grouped=False)
    mapped = [each for each in maps if each.path == str(MODEL_FOLDER / "model.onnx")]
    assert max(each.size for each in mapped) >= 30_522 * 384
    assert not sum(each.private_dirty for each in mapped)


def test_a_package_without_its_model_is_reported_as_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed_minilm, "MODEL_FOLDER", tmp_path)
    with pytest.raises(StoreUnavailable, match="install mcp-memory-stack again"):
        MiniLMEmbedder().load()


def test_encoding_and_counting_need_no_network_print_nothing_and_import_nothing_early() -> None:
    program = textwrap.dedent("""
        import socket, sys

        def refuse(*_arguments, **_options):
            raise AssertionError("the network was used")

        socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse

        from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
        from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter

        assert not {"numpy", "onnxruntime", "tokenizers", "tiktoken"} & set(sys.modules)
        assert MiniLMEmbedder().embed("hello").shape == (1, 384)
        assert [TiktokenCounter(name).count("hello world") for name in ("cl100k_base", "o200k_base")] == [2, 2]
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nothing_is_reported_to_anybody(tmp_path: Path) -> None:
    """S4.3: the runtime's usage reports are off, so it leaves no device id in the home directory."""
    code = "from mcp_memory.encoders.embed_minilm import MiniLMEmbedder; MiniLMEmbedder().embed_query('x')"
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    assert list(tmp_path.rglob("*")) == []
