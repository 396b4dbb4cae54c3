"""What a query names and no record does."""

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.services.retrieval.asked import is_absent
from mcp_memory.services.retrieval.recall import RecallRequest


def test_a_name_written_with_parts_is_absent_where_both_are() -> None:
    """W3.1: "sql" alone names no PostgreSQL, and "git hub" names GitHub."""
    assert is_absent("PostgreSQL", {"postgresql", "postgre"})
    assert not is_absent("PostgreSQL", {"postgre"})
    assert not is_absent("GitHub", {"github"})
    assert is_absent("Sistine Chapel", {"sistine"})
    assert not is_absent("Redis", {"kafka"})


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("What is sent to PUMP_TELEMETRY_URL?", ("PUMP_TELEMETRY_URL",)),
        ("What is PUMP_URL?", ()),
        ("What went wrong on old Raspberry Pis?", ()),
        ("What does --telemetry-url do?", ("--telemetry-url",)),
    ],
)
def test_a_name_is_said_where_all_its_parts_are(app: App, query: str, unknown: tuple[str, ...]) -> None:
    """W3.1: "pump" says nothing of PUMP_TELEMETRY_URL; a plural is said by its singular."""
    texts = ("The pump reads its URL at start.", "The binary crashed on a Raspberry Pi.", "PUMP_URL names the pump.")
    app.remember([NewRecord(text=text) for text in texts], app.caller())
    assert app.recall(RecallRequest(query=query), app.caller()).unknown == unknown
