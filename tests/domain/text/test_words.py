"""Words of a text, and digests that tell texts apart."""

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.text.words import (
    MAX_COUNT,
    MAX_MARKS,
    MAX_QUERY_TERMS,
    asked_terms,
    content_hash,
    has_name,
    index_terms,
    latin_language,
    normal_hash,
    normalized,
    packed_terms,
    query_terms,
    split_words,
    stems,
    term_number,
)


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
    """R5: what the keyword index stores, as stems."""
    assert split_words(text) == words
    assert index_terms(text) == stems(words)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Where is the Port of the port?", ["port"]),
        ("the of and", ["the", "of", "and"]),
        ("parseConfig", ["parseconfig", "parse", "config"]),
        ("数据库", ["数据", "据库"]),
        ("数", ["数"]),
        ("数据库用的是什么", ["数据", "据库", "库用"]),
        ("是的", ["是的"]),
        ("don't I'm it'd", ["don", "t", "i", "m", "it", "d"]),
        ("I don't use tabs", ["use", "tabs"]),
        ("?! 🙂 \n", ["🙂"]),
    ],
)
def test_a_query_is_its_distinct_words_without_stop_words(query: str, terms: list[str]) -> None:
    """B2.1: stop words stay where nothing else is there."""
    assert query_terms(query) == terms


@pytest.mark.parametrize(
    ("words", "stem"),
    [
        (["run", "runs", "running", "Running", "RUNNING"], "run"),
        (["database", "databases", "DATABASES"], "databas"),
        (["migration", "migrate", "migrating"], "migrat"),
        (["café", "cafe\u0301", "CAFÉ", "cafe"], "cafe"),
        (["Việt", "viet"], "viet"),
        (["Straße", "STRASSE"], "strass"),
        (["İstanbul", "istanbul"], "istanbul"),
        (["за\u0301мок", "замок"], "замок"),
        (["порт", "порты", "портами", "ПОРТОВ"], "порт"),
        (["яркий", "яркие"], "ярк"),
        (["مدينة", "المدينة"], "مدين"),
        (["λιμάνι", "λιμάνια"], "λιμαν"),
        (["लड़का", "लड़के"], "लड़क"),
        (["ภาษา"], "ภาษา"),
        (["数据"], "数据"),
        (["9000"], "9000"),
    ],
)
def test_the_forms_of_a_word_have_one_stem(words: list[str], stem: str) -> None:
    """R5: inflections, case, accents that people leave out; letters that only look accented stay what they are."""
    assert stems(words) == [stem] * len(words)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Die Häuser stehen am Hafen, und der ist geschlossen.", "de"),
        ("El puerto de la ciudad está cerrado por la tormenta.", "es"),
        ("Le port de la ville est fermé pour une semaine.", "fr"),
        ("Il porto della città è chiuso per una settimana.", "it"),
        ("O porto da cidade está fechado para uma semana.", "pt"),
        ("De haven van de stad is gesloten en het blijft zo.", "nl"),
        ("The port of the city is closed for a week.", "en"),
        ("La Jolla", "en"),
        ("Hafen geschlossen", "en"),
        ("The song is called La vie en rose, and we like it.", "en"),
        ("порт закрыт", "en"),
    ],
)
def test_a_text_in_latin_letters_tells_its_language_by_its_function_words(text: str, language: str) -> None:
    """R5: where it does not tell, English is assumed."""
    assert latin_language(split_words(text)) == language


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Die Häuser stehen am Hafen, und die sind leer.", "Haus"),
        ("Los puertos de la ciudad están en el norte.", "puerto"),
        ("The ports are closed.", "Port"),
        ("Порты города закрыты.", "портов"),
        ("المدارس في المدينة مغلقة", "مدينة"),
        ("Die Datei parseConfig.py ist nicht da.", "parseConfig"),
    ],
)
def test_a_word_of_a_query_stands_for_its_inflections_in_any_language(text: str, query: str) -> None:
    """R5: whether it tells its language or not; the language of the text decides by whose rules."""
    assert all(not set(index_terms(text)).isdisjoint(terms) for terms in asked_terms(query_terms(query)))


def test_the_rules_of_one_language_join_no_words_of_another() -> None:
    """R5: Spanish takes "planes" for "plan", English does not."""
    (planes,) = asked_terms(["planes"])
    assert set(index_terms("The plan of the house is here.")).isdisjoint(planes)
    assert not set(index_terms("El plan de la casa está en la mesa.")).isdisjoint(planes)


def test_stems_are_the_same_in_every_thread() -> None:
    """S1.1: stores of several threads share the stemmer."""
    texts = [f"running migrations {number} carefully considered databases" for number in range(300)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(index_terms, texts)) == [index_terms(text) for text in texts]


def test_a_text_is_packed_as_its_terms_and_how_often_each_occurs() -> None:
    """R5: every process must read what another one wrote, so the bytes are spelled out."""
    assert packed_terms("Ports, a port") == bytes.fromhex("cc5d914302 43beb7e801")
    assert packed_terms("a port of ports") != packed_terms("a port of port authorities")
    assert packed_terms("one two") == packed_terms("two one")
    assert packed_terms("port " * 1000) == packed_terms("port " * MAX_COUNT)
    assert packed_terms("…!?") == b""


@given(st.text(max_size=60))
def test_whatever_a_text_holds_its_words_have_stems_and_numbers(text: str) -> None:
    """R1: nothing that can be stored cannot be indexed."""
    assert len(stems(split_words(text))) == len(split_words(text))
    assert len(packed_terms(text)) == 5 * len({term_number(stem) for stem in index_terms(text)})


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


def test_joiners_break_up_a_row_of_accents_that_no_letter_bears() -> None:
    """X3.1: each part has at most MAX_MARKS of them."""
    parts = normalized("NFC", "x" + "\u0323" * 3 * MAX_MARKS).split("\u034f")
    assert len(parts) > 2
    assert max(map(len, parts)) <= MAX_MARKS + 1


@pytest.mark.uncounted
@pytest.mark.parametrize("accents", ["\u0301\u0323", "\uff9e\u0301", "\u0f73\u0301"])
def test_a_letter_with_many_accents_is_read_in_linear_time(accents: str) -> None:
    """X3.1: Python would sort them for a minute and a half, a million of them for a quarter of an hour."""
    text = f"e{accents * (300_000 // len(accents))}"
    assert content_hash(text)
    assert len(split_words(text)) < 100


@given(st.text(st.characters(categories=["L", "M", "P", "S"]), max_size=MAX_MARKS))
def test_a_text_with_no_more_accents_than_letters_bear_has_the_form_that_unicode_gives_it(text: str) -> None:
    """R2: what was stored before is recognised."""
    for form in ("NFC", "NFD", "NFKC"):
        assert normalized(form, f"{text} ─ {'─' * 40}") == unicodedata.normalize(form, f"{text} ─ {'─' * 40}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It takes its time from ntp-brae.", True),
        ("ntp-brae", True),
        ("The ntp-braes are two; (ntp-brae) is one.", True),
        ("The ntp-brae-2 and my-ntp-brae are others.", False),
        ("", False),
    ],
)
def test_a_name_stands_whole_in_a_text(text: str, expected: bool) -> None:
    """R7: not as a part of a longer one."""
    assert has_name(text, "ntp-brae") is expected
