"""What a sentence is about, by its words."""

import pytest

from mcp_memory.domain.text.statements import comes_to_nothing, decides


@pytest.mark.parametrize(
    "sentence",
    [
        "We chose Postgres for the reports.",
        "Let's go with the second design.",
        "It was decided to wait.",
        "Decision: amounts are kept in cents.",
        "The team agreed on trunk-based development.",
        "We decided not to use Redis.",
        "我们决定使用SQLite。",
    ],
)
def test_a_choice_is_a_decision(sentence: str) -> None:
    """D9.1: a denial behind the word is what was decided."""
    assert decides(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "We haven't decided to use Redis yet.",
        "We have not yet decided on the name of the queue.",
        "Bob never decided to use Redis.",
        "We used to think that we decided to use Redis.",
        "Have we decided to use Redis?",
        'The page says: "We decided to use MongoDB."',
        "我们还没有决定使用SQLite。",
        "Then we ran all of the tests.",
        "Let's use the `find_file` command to locate the handler.",
    ],
)
def test_what_was_not_decided_is_no_decision(sentence: str) -> None:
    """D9.1: nor what is asked or quoted."""
    assert not decides(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Tried the pool of 40 connections but it failed because the server caps at 30.",
        "A second workaround with symlinks did not fix the build.",
        "Disabling the cache doesn’t help.",
        "The Redis route turned out to be a dead end.",
        "Reverted the pool change because it broke login.",
        "We have abandoned the plugin idea.",
        "We ruled out DNS as the cause.",
        "试过增加超时时间，但还是失败。",
        "缓存方案行不通，因为数据太大。",
        "接続プールの変更は元に戻した。",
    ],
)
def test_a_sentence_tells_of_a_dead_end(sentence: str) -> None:
    """E4.1: in whatever way it was put."""
    assert comes_to_nothing(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "If the flag did not help, restart the server.",
        "We tried the new build and it works.",
        'The page says: "We tried a bigger pool, but it failed."',
        "The queue is full.",
    ],
)
def test_what_may_have_come_to_something_is_no_dead_end(sentence: str) -> None:
    """E4.1."""
    assert not comes_to_nothing(sentence)


@pytest.mark.uncounted
@pytest.mark.parametrize("unit", ["tried but ", "did not ", "We have ", "not decided ", '"', "`", " ", "x", "试但"])
def test_no_text_takes_long_to_look_through(unit: str) -> None:
    """X3.1: each is read to its end once; one that was read again and again would hang here."""
    text = "The list " + unit * (20_000 // len(unit)) + " x"
    assert isinstance(decides(text) or comes_to_nothing(text), bool)
