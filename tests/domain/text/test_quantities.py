"""Values that can be compared: what they are, in base units, whatever the language."""

import pytest

from mcp_memory.domain.text.quantities import is_equal, quantities_in


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It waits 90 s.", [("time", 90.0)]),
        ("Er wartet zwei Minuten.", [("time", 120.0)]),
        ("attendre une heure", [("time", 3600.0)]),
        ("等待十五分钟", [("time", 900.0)]),
        ("cache_ttl 45m", [("time", 2700.0)]),
        ("the rope is 45 m", [("length", 45.0)]),
        ("100 requests per minute", [("number a time", 100 / 60)]),
        ("每小时最多 60 次", [("rhythm", "hour"), ("number a time", 60 / 3600)]),
        ("4 GB per day", [("size a time", 4e9 / 86_400)]),
        ("$20", [("dollars", 20.0)]),
        ("20,50 €", [("euros", 20.5)]),
        ("30.000 Zeilen", [("number", 30_000.0)]),
        ("12 500 lignes", [("number", 12_500.0)]),
        ("10k rows", [("number", 10_000.0)]),
        ("3 million users", [("number", 3e6)]),
        ("5M rows", [("number", 5e6)]),
        ("5-8 %", [("share", 8.0)]),
        ("open 9 to 17", [("number", 9.0), ("number", 17.0)]),
        ("a single reviewer", [("number", 1.0)]),
        ("Python 3.10", [("program", "python"), ("number", "3.10")]),
        ("v2.1.0", [("version", "2.1.0")]),
        ("1.2.3", [("version", "1.2.3")]),
        ("on 2026-05-12", [("date", (2026, 5, 12))]),
        ("12.5.2026", [("date", (2026, 5, 12))]),
        ("am 12.5. geht es los", [("date", (None, 5, 12))]),
        ("3 May 2026", [("date", (2026, 5, 3))]),
        ("le 3 mai", [("date", (None, 5, 3))]),
        ("May 3", [("date", (None, 5, 3))]),
        ("in March", [("date", (None, 3, None))]),
        ("it may be 3 of them", [("number", 3.0)]),
        ("3 may fail", [("number", 3.0)]),
        ("since 2024", [("date", (2024, None, None))]),
        ("It ends in 2026.", [("date", (2026, None, None))]),
        ("2026年5月3日", [("date", (2026, 5, 3))]),
        ("十二月五号", [("date", (None, 12, 5))]),
        ("14:30", [("clock", "870")]),
        ("2 pm", [("clock", "840")]),
        ("um halb zehn", [("clock", "570")]),
        ("halb fertig", []),
        ("à 14 h", [("clock", "840")]),
        ("下午3点半", [("clock", "930")]),
        ("每周三", [("weekday", "3")]),
        ("每周", [("rhythm", "week")]),
        ("Tuesdays", [("weekday", "2")]),
        ("every two weeks", [("rhythm", "fortnight")]),
        ("alle 3 Tage", [("rhythm", "259200")]),
        ("every 15 minutes", [("time", 900.0)]),
        ("Ask Mrs. Osei or 周老师.", [("person", "osei"), ("person", "周")]),
        ("at desk@acme.example", [("mailbox", "desk@acme.example")]),
        ("https://api.acme.example/v1 is up", [("host", "https://api.acme.example/v1")]),
        ("in #ops-night", [("channel", "#ops-night")]),
        ("in us-gov-west-1", [("region", "us-gov-west-1")]),
        ("run `make test`", [("command", "make test")]),
        ("in /etc/hosts", [("path", "/etc/hosts")]),
        ("二百五十人", [("number", 250.0)]),
    ],
)
def test_values_are_read_in_their_base_units(text: str, found: list[tuple[str, object]]) -> None:
    """N1.1: numbers with units, dates, times, versions, in figures and in words."""
    assert [(each.sort, pytest.approx(each.value)) for each in quantities_in(text)] == found


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("15 minutes", "900 s", True),
        ("12 months", "a term of 1 year", True),
        ("30 days", "31 days", False),
        ("1 GB", "1000 MB", True),
        ("3 May", "3 May 2026", True),
        ("3 May 2025", "3 May 2026", False),
        ("Monday", "montags", True),
    ],
)
def test_equal_values_are_equal_in_any_unit(one: str, other: str, equal: bool) -> None:
    """N1.1: "expires after 15 minutes" repeats "after 900 s"."""
    assert is_equal(quantities_in(one)[0], quantities_in(other)[0]) is equal
