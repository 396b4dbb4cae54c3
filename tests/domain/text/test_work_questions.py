"""Questions about open work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.text.work_questions import work_question

OPEN = [
    "what is open?", "what's still unfinished", "who is working on it?", "where did we stop?",
    "woran arbeiten wir gerade?", "was bleibt noch zu tun?", "wer sitzt gerade daran?",
    "现在谁在做？", "还有什么没做完？", "où en sommes-nous ?", "¿qué queda por hacer?",
    "над чем мы сейчас работаем?", "残っている作業は何ですか？",
]  # fmt: skip
BLOCKED = ["what is blocked?", "is anything stuck?", "worauf warten wir?", "什么卡住了？", "qu'est-ce qui coince ?"]
OTHERS = [
    "which database do we use?", "welche Ports sind offen?", "Migrate the crane slot service to gRPC",
    "who wrote the parser?", "how do I open a file in Python?", "谁喜欢喝咖啡？", "", "?!",
    "what did Ann decide about the cache?",
]  # fmt: skip


@pytest.mark.parametrize("query", OPEN + BLOCKED)
def test_a_question_about_open_work_is_told(query: str) -> None:
    """W4.1: and none of its words is a subject."""
    found = work_question(query)
    assert found is not None
    assert found.subjects == ()
    assert found.is_blocked == (query in BLOCKED)


@pytest.mark.parametrize("query", OTHERS)
def test_any_other_query_is_none(query: str) -> None:
    assert work_question(query) is None


def test_a_subject_is_told_from_the_question() -> None:
    """W4.1: then what bears on it is asked."""
    found = work_question("what is blocked on the harbour elevator?")
    assert found is not None
    assert "elevator" in found.subjects


@given(st.text(max_size=80))
def test_any_text_is_read(text: str) -> None:
    """S3.1."""
    work_question(text)
