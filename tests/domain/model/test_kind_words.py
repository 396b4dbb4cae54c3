"""A person reads and types words for kinds that the database, exports and agents do not have."""

import pytest

from mcp_memory.domain.model.kind_words import counted_in_words, details_in_words, kind_in_words, kinds_named
from mcp_memory.domain.model.records import KINDS, KNOWN_DETAILS
from mcp_memory.errors import InvalidRequest


def test_each_kind_has_a_word_of_its_own_that_names_it_and_so_does_the_stored_word() -> None:
    """U3.1: of two kinds that a word may mean, the one that people call so comes first."""
    words = [kind_in_words(kind) for kind in KINDS]
    assert len(set(words)) == len(KINDS)
    for kind, word in zip(KINDS, words, strict=True):
        assert kinds_named(word)[0] == kind
        assert kind in kinds_named(kind)
    assert [kind_in_words(kind) for kind in ("censor", "identity", "episode", "fact")] == [
        *("guardrail", "preference", "event", "fact")
    ]
    assert kinds_named("event") == ("episode", "event")


@pytest.mark.parametrize(
    ("word", "kind"),
    [("Profile", "identity"), ("log-event", "event"), ("tool_call", "tool_call"), ("CENSOR", "censor")],
)
def test_words_are_taken_as_people_write_them(word: str, kind: str) -> None:
    """U3.1."""
    assert [*kinds_named(word)] == [kind]


def test_a_word_for_no_kind_is_refused_with_those_there_are() -> None:
    """S3.1: in words for people."""
    with pytest.raises(InvalidRequest, match=r"no kind 'rumour'; the kinds are fact, .*guardrail"):
        kinds_named("rumour")


def test_what_is_no_kind_keeps_its_name_and_several_are_named_so() -> None:
    """A context counts tasks beside records."""
    counts = {"task": 2, "censor": 1, "summary": 1_204}
    assert counted_in_words(counts) == {"tasks": 2, "guardrail": 1, "summaries": 1_204}


def test_the_details_of_each_kind_are_named_with_their_form() -> None:
    """U2.1: those that the model knows, by the words for people; a form that is no plain text is told."""
    told = details_in_words().split("; ")
    assert len(told) == len(KNOWN_DETAILS)
    assert "a decision takes reasons (a list of texts), alternatives (a list of texts)" in told
    assert "a procedure takes name, description" in told
    assert any(each.startswith("a guardrail takes ") and "action (warn or block)" in each for each in told)
