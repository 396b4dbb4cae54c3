"""The language of a query, and the names in it."""

import pytest

from mcp_memory.domain.text.query_names import is_english, names_in


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("Which Kafka version feeds the cluster?", ["Kafka"]),
        ("Who owns parse_config and log4j?", ["parse_config", "log4j"]),
        ("What does --auto-unlock do, and -v?", ["--auto-unlock"]),
        ("What did the 'vault' role do in the UK?", ["vault", "UK"]),
        ("What is the office's rule on Monday?", []),
        ("Terraform module staging environment", ["Terraform"]),
        ("¿Cuánto es el alquiler de Kranich?", ["Kranich"]),
        ("Show the module of staging", []),
        ("IMPORTANT: where is the TODO list?", []),
        ("Was kostet ein Tag an der Laserablation?", []),
        ("Wer betreut den SAML-Anbieter und die Redis-Caches?", ["SAML", "Redis"]),
        ("¿Cuántas veces ganó la copa el Polonia?", ["Polonia"]),
        ("Redis 的缓存策略是什么？", ["Redis"]),
        ("Где хранится ключ от Redis?", ["Redis"]),
        ("Welcher Port?", []),
    ],
)
def test_names_in_a_query(query: str, names: list[str]) -> None:
    """W3.1: capitals in languages that write nouns small, technical words, quotations, Latin words in other scripts."""
    assert names_in(query) == names


@pytest.mark.parametrize(
    ("query", "english"),
    [
        ("What was in the box on Monday?", True),
        ("postgres port", True),
        ("Was war in der Kiste am Montag?", False),
        ("¿Dónde está la llave?", False),
        ("Où est la clé ?", False),
    ],
)
def test_the_language_shows_in_function_words(query: str, english: bool) -> None:
    """W3.1: "was" and "in" are words of both languages."""
    assert is_english(query) is english
