"""What a query names and no record does."""

from mcp_memory.services.retrieval.asked import is_absent


def test_a_name_written_with_parts_is_absent_where_both_are() -> None:
    """W3.1: "sql" alone names no PostgreSQL, and "git hub" names GitHub."""
    assert is_absent("PostgreSQL", {"postgresql", "postgre"})
    assert not is_absent("PostgreSQL", {"postgre"})
    assert not is_absent("GitHub", {"github"})
    assert is_absent("Sistine Chapel", {"sistine"})
    assert not is_absent("Redis", {"kafka"})
