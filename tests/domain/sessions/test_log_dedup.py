"""What of a conversation told again is new."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.sessions.log_dedup import LogLine, held_as, new_places, replaced_by


def _lines(contents: str) -> list[LogLine]:
    return [LogLine(content=content) for content in contents]


def _new(told: str, said: str, live: str | None = None) -> str:
    return "".join(told[place] for place in new_places(_lines(told), _lines(said), said if live is None else live))


@pytest.mark.parametrize(
    ("told", "said", "new"),
    [
        ("abc", "", "abc"),
        ("abcde", "abc", "de"),
        ("abc", "abc", ""),
        ("de", "abc", "de"),
        ("cde", "abc", "de"),
        ("a", "aab", "a"),
        ("aab", "aaa", "b"),
        ("aabaac", "aabaa", "c"),
        ("", "abc", ""),
        ("abab", "ababab", ""),
    ],
)
def test_what_goes_on_where_the_log_ends_is_new(told: str, said: str, new: str) -> None:
    assert _new(told, said) == new


def test_a_compacted_conversation_goes_on_where_the_log_ends() -> None:
    """The client shows a summary S in the place of a to c, and a mask M in that of e."""
    assert _new("SdMfgh", "abcdefg", live="SdMfg") == "h"


def test_a_summary_told_alone_is_never_new() -> None:
    assert _new("S", "abc", live="Sc") == ""
    assert _new("xS", "abc", live="Sc") == "x"


def test_a_line_with_an_id_is_known_by_it() -> None:
    said = [LogLine(content="a", id="1"), LogLine(content="b", id="2")]
    told = [
        LogLine(content="a", id="1"),
        LogLine(content="b", id="3"),
        LogLine(content="c", id="4"),
        LogLine(content="c", id="4"),
    ]
    assert new_places(told, said, "ab") == [1, 2]


def test_what_was_told_without_ids_is_known_by_content_as_often_as_it_was_said() -> None:
    said = _lines("aab")
    told = [LogLine(content=content, id=str(number)) for number, content in enumerate("aaabc")]
    assert new_places(told, said, "aab") == [2, 4]


def test_a_line_without_an_id_among_some_with_one_is_known_by_content() -> None:
    told = [LogLine(content="a"), LogLine(content="a"), LogLine(content="b", id="1")]
    assert new_places(told, _lines("a"), "a") == [1, 2]


@pytest.mark.parametrize(
    ("told", "said", "new"),
    [
        ("abcdefgh", "abdef", "cgh"),
        ("abXdefg", "abcdef", "Xg"),
        ("abcd", "abcdefg", ""),
        ("defg", "abcdefxyz", "g"),
        ("abcokok", "abcok", "ok"),
        ("abcdooop", "abcxdooo", "p"),
        ("ab", "abc", "ab"),
        ("aXbYcZ", "abcd", "aXbYcZ"),
        ("cba", "abcd", "cba"),
    ],
)
def test_of_a_conversation_that_differs_in_little_only_that_is_new(told: str, said: str, new: str) -> None:
    """R9: some of it was erased or changed, or it is told as it was earlier; a few lines in common may be chance."""
    assert _new(told, said) == new


@given(st.text(min_size=6, max_size=40), st.data())
def test_what_was_erased_from_a_log_brings_nothing_else_back(conversation: str, data: st.DataObject) -> None:
    lines = "".join(dict.fromkeys(conversation))
    erased = data.draw(st.sets(st.sampled_from(lines), max_size=len(lines) // 4)) if len(lines) >= 6 else set[str]()
    assert set(_new(lines, "".join(line for line in lines if line not in erased))) <= erased


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_no_longer_overlap_exists(said: str, told: str) -> None:
    known = len(told) - len(_new(told, said))
    assert said.endswith(told[:known])
    assert not any(said.endswith(told[:more]) for more in range(known + 1, len(told) + 1))


@given(st.text("abc", max_size=20), st.text("abc", max_size=8))
def test_telling_it_all_again_adds_what_came_since(said: str, since: str) -> None:
    """Whatever is told twice is stored once: the log then ends with all that was told."""
    log = said + _new(said + since, said)
    assert log == said + since
    assert _new(said + since, log) == ""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[CONTEXT SUMMARY x39692542d8] 29 messages", "x39692542d8"),
        ("[GOAL BATCH x4175782e0a] 3 turns", "x4175782e0a"),
        ("[DIALOGUE xe086a9a1c2] 104 messages", "xe086a9a1c2"),
        ("[SUMMARIZED] Ran it. (open xbc0) Then again. (open xbc1)", "xbc1"),
        ("[SUMMARIZED] Ran it.", None),
        ("[TOOL OUTPUT ARCHIVED id=r00002b tool=bash]", "r00002b"),
        ('{"archived":"[MESSAGE ARCHIVED id=x00002b role=user]"}', "x00002b"),
        ("As [GOAL BATCH x4175782e0a] says", None),
    ],
)
def test_the_text_of_a_replacement_names_an_id(text: str, names: str | None) -> None:
    assert replaced_by(text) == names


def test_each_told_line_is_the_latest_original_that_it_can_be() -> None:
    """D11.1: S stands for 1, 3 and 4; of equal lines the last counts, in order; z is in no log."""
    said = [(str(place), content) for place, content in enumerate("abacab", start=1)]
    assert held_as(_lines("Sbzab"), {0: ("1", "3", "4")}, said) == [("1", "3", "4"), ("2",), (), ("5",), ("6",)]
    assert held_as(_lines("ba"), {}, said[:2]) == [(), ("1",)]
