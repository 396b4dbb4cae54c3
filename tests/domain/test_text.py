"""Words of a text, and digests that tell texts apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.text import MAX_QUERY_TERMS, content_hash, index_terms, normal_hash, query_terms, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("parseConfig fails", ["parseConfig", "parse", "Config", "fails"]),
        ("HTTPServer2Go", ["HTTPServer2Go", "HTTP", "Server2", "Go"]),
        ("snake_case/and-path.py", ["snake", "case", "and", "path", "py"]),
        ("数据库", ["数", "据", "库", "数据", "据库"]),
        ("v2数x", ["v2", "数", "x"]),
        ("…!? _ ", []),
        ("", []),
    ],
)
def test_identifiers_come_apart_and_unspaced_scripts_become_characters_and_pairs(text: str, words: list[str]) -> None:
    """R5: what the keyword index stores."""
    assert split_words(text) == words
    assert index_terms(text) == " ".join(words)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Where is the Port of the port?", ["port"]),
        ("the of and", ["the", "of", "and"]),
        ("parseConfig", ["parseconfig", "parse", "config"]),
        ("数据库", ["数据", "据库"]),
        ("数", ["数"]),
        ("?! 🙂 \n", []),
    ],
)
def test_a_query_is_its_distinct_words_without_stop_words(query: str, terms: list[str]) -> None:
    """B2.1: stop words stay where nothing else is there."""
    assert query_terms(query) == terms


def test_a_long_query_is_looked_up_by_a_bounded_number_of_words() -> None:
    """R5: a pasted log is a query too."""
    query = " ".join(f"word{n}" for n in range(5_000))
    assert len(query_terms(query)) == MAX_QUERY_TERMS
    assert len(query_terms(query, limit=None)) == 5_000


@given(st.text(max_size=40))
def test_a_text_in_whatever_unicode_form_and_with_space_around_it_is_the_same_text(text: str) -> None:
    """R2: stored once."""
    assert content_hash(f" \n{text}\t") == content_hash(text)


def test_digests_tell_texts_apart_that_differ_in_anything_else() -> None:
    """R2: exactly the same text; R3: near-duplicates by case, space and punctuation."""
    assert content_hash("caf\u00e9") == content_hash("cafe\u0301")
    assert content_hash("The port is 5432.") != content_hash("the port is 5432")
    assert normal_hash("The  port is 5432.") == normal_hash("the port is: 5432")
    assert normal_hash("The port is 5432.") != normal_hash("The port is 5433.")
    assert normal_hash("!!!") != normal_hash("???")
    assert content_hash("\ud800") != content_hash("\ud801")


def test_words_of_scripts_with_vowel_signs_stay_whole() -> None:
    """R5: Hindi, Tamil, Arabic with vowels; and ß is looked up as it is stored."""
    assert split_words("हिन्दी") == ["हिन्दी"]
    assert split_words("தமிழ்") == ["தமிழ்"]
    assert query_terms("Straße") == ["straße"]
