"""How much a thing stands out, what distance takes from a relation, and the other names of an entity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.graph import aliases_of, damped, entity_salience

SHARES = st.floats(0, 1)


@given(st.integers(1, 500), SHARES, SHARES)
def test_salience_grows_with_links_weight_and_recency(links: int, weight: float, recency: float) -> None:
    """B4.5: in (0, 1]; no part of it undoes another."""
    value = entity_salience(links, 500, weight, recency)
    assert 0 < value <= 1
    assert entity_salience(links + 1, 501, weight, recency) >= value * 0.99
    assert entity_salience(min(links + 1, 500), 500, weight, recency) >= value
    assert entity_salience(links, 500, 1.0, recency) >= value
    assert entity_salience(links, 500, weight, 1.0) >= value
    assert entity_salience(links, 500, 0.0, 0.0) >= value / 2 * 0.999


def test_salience_has_a_scale() -> None:
    """B4.5: 1 for the most linked, strongly related and just mentioned; half of that without the last two."""
    assert entity_salience(500, 500, 1.0, 1.0) == 1.0
    assert entity_salience(500, 500, 0.0, 0.0) == 0.5
    assert entity_salience(1, 500, 0.0, 1.0) == pytest.approx(0.0836, abs=1e-4)


def test_each_step_away_halves_a_relation() -> None:
    """B4.3: the first counts whole."""
    assert [damped(0.8, depth) for depth in (1, 2, 3)] == [0.8, 0.4, 0.2]


def test_aliases_are_a_text_or_texts() -> None:
    """B2.1: anything else in their place is none."""
    assert aliases_of({"aliases": ["PG", 3, "Postgres"]}) == ("PG", "Postgres")
    assert aliases_of({"aliases": "PG"}) == ("PG",)
    assert aliases_of({"aliases": 3}) == aliases_of({}) == ()
