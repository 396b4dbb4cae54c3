"""The log of reads on the page: who was given a record, and what an agent was given, for who has the memory's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.entrypoints.page import access, contexts, reads, record
from mcp_memory.errors import NotFound
from mcp_memory.ports.reads import ALL_RECORDS
from mcp_memory.services.access.served_requests import asked_by, gave
from mcp_memory.settings import load_settings
from tests.entrypoints.page.conftest import NAMESPACE, asked, memory_of, words_of

TEAM = Grant(agent="bob", person="eve", namespaces=(NAMESPACE,), right="read")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    made = open_app(load_settings(data_dir=tmp_path / "data", namespace=NAMESPACE, agent="ann", read_log_days=7))
    yield made
    made.close()


def give(memory: App, *ids: str, way: str = "tool recall", token: str = "") -> None:
    """Give bob these records."""
    with memory.serving(way, token=token):
        asked_by(TEAM.caller(NAMESPACE, "s1", ()))
        gave(ids)
    memory.reads.write()


def test_it_is_told_who_was_given_a_record_and_what_an_agent_was_given(memory: App) -> None:
    """U1.1, S4.1: ids and names, no text; page by page; the agent itself sees its own."""
    [stored] = memory.remember([NewRecord(text="The till is by the door.")], memory.caller())
    many = [f"r{number:06}" for number in range(1, 61)]
    for _ in range(reads.PAGE_READS):
        give(memory, stored.id)
    give(memory, *many, token="laptop")
    give(memory, ALL_RECORDS, way="page /record/{id}")
    page = asked(memory, reads.show_reads)
    assert "The till" not in page
    assert "bob of eve, by the page at /record/{id} every record of the memory" in words_of(page)
    assert f"{many[49]} and 10 more" in words_of(page)
    assert "token laptop" in words_of(page)
    place = page.partition('rel="next" href="/ui/reads?before=')[2].partition('"')[0].replace("%7E", "~")
    rest = words_of(asked(memory, reads.show_reads, query={"before": place}))
    assert rest.count("by the tool recall") == 2
    assert "Nothing was given." in words_of(asked(memory, reads.show_reads, query={"of": "ann"}))
    one = asked(memory, record.show_record, parts={"id": stored.id})
    assert words_of(one).count("by the tool recall") == reads.LATEST_READS - 1
    assert f'href="/ui/reads?record={stored.id}"' in one
    assert "Who was given" in words_of(asked(memory, reads.show_reads, query={"record": stored.id}))
    own = words_of(asked(memory, reads.show_reads, query={"of": "ann"}, grant=TEAM))
    assert "What bob was given" in own
    assert "the requests of the agent bob alone" in own
    assert "what it was given" in words_of(asked(memory, access.show_access))
    assert "Every request that gave records" in words_of(asked(memory, contexts.show_contexts))
    with pytest.raises(NotFound):
        asked(memory, reads.show_reads, query={"record": "the till"})


def test_without_a_log_the_page_says_how_to_keep_one(tmp_path: Path) -> None:
    plain = memory_of(tmp_path / "data")
    try:
        [stored] = plain.remember([NewRecord(text="The till is by the door.")], plain.caller())
        assert "MCP_MEMORY_READ_LOG_DAYS" in words_of(asked(plain, reads.show_reads))
        assert "given it" not in words_of(asked(plain, record.show_record, parts={"id": stored.id}))
        assert "/ui/reads" not in asked(plain, access.show_access) + asked(plain, contexts.show_contexts)
    finally:
        plain.close()
