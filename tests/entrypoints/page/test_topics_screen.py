"""Topics are drawn beside their list, and the path between two things leads to the records that tie them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.page.topics import drawn_topic, show_topics
from mcp_memory.services.status.overview import Topic
from tests.entrypoints.page.conftest import asked, memory_of, words_of


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[App]:
    opened = memory_of(tmp_path / "data")
    yield opened
    opened.close()


def stored(memory: App, *texts: str) -> list[str]:
    items = [NewRecord(text=text) for text in texts]
    return [each.id for each in memory.remember(items, memory.caller(), embed=False)]


def test_a_topic_is_a_list_of_names_with_an_arc_for_each_pair(memory: App) -> None:
    """U1.1: the list says what the drawing shows."""
    assert "No topics yet" in words_of(asked(memory, show_topics))
    stored(memory, *(f"Kafka feeds Redis on host {number}." for number in range(3)))
    page = asked(memory, show_topics)
    assert "Kafka and Redis 2 names" in words_of(page).replace("Redis and Kafka", "Kafka and Redis")
    assert "Redis with Kafka (3)" in words_of(page).replace("Kafka with Redis", "")
    assert '<a href="/ui/?q=Kafka">Kafka</a>' in page
    assert len(re.findall(r'<path d="M106,[^"]+" stroke-width="4.0">', page)) == 1


def test_the_arc_of_the_pair_that_is_mentioned_most_is_the_widest() -> None:
    drawing = drawn_topic(Topic(names=["a", "b", "c"], more=2, together=[("a", "b", 8), ("c", "a", 2)]))
    assert [width for _, width in drawing.arcs] == [4, 1.8]
    assert drawing.arcs[1][0] == "M106,70C4,70 4,14 106,14"
    assert [(each.name, each.beside) for each in drawing.names] == [
        ("a", [("b", 8), ("c", 2)]),
        ("b", [("a", 8)]),
        ("c", [("a", 2)]),
    ]
    assert (drawing.height, drawing.more) == (84, 2)


def test_the_path_between_two_things_names_the_records_that_tie_them(memory: App) -> None:
    """U1.1: by names or ids; what is not there is said in the same place."""
    first, second = stored(memory, "Acme Foods uses tide-api.", "An outage of tide-api was INC-7.")
    page = asked(memory, show_topics, query={"from": "acme foods", "to": "INC-7"})
    path = page.partition("<ol")[2].partition("</ol>")[0]
    assert re.findall(r'href="/ui/(?:\?q=|record/)([^"]+)"', path) == ["Acme+Foods", first, "tide-api", second, "INC-7"]
    assert "Nothing here names" in words_of(asked(memory, show_topics, query={"from": first, "to": "Zeta"}))
    assert "<ol" not in asked(memory, show_topics, query={"from": first})
