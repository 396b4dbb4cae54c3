"""The benchmark of compaction, over a session that is small enough for a test."""

import io

from rich.console import Console

from benchmarks.compaction import costs_table, measured, passes_table, ways_table
from benchmarks.sessions import made_session
from benchmarks.survival import EXACT, surviving, together
from mcp_memory.app import App
from mcp_memory.services.sessions.compact import CompactRequest


def test_a_session_is_stored_compacted_asked_and_made_whole_again() -> None:
    size = 5_000
    figures = measured(size, 5, load=False)
    probes = together(figures.found).of
    assert probes >= 5
    assert together(figures.found).found == probes
    assert figures.ways["compacted"].tokens < figures.tokens
    assert figures.ways["oldest dropped, to as few tokens"].tokens <= figures.ways["compacted"].tokens
    assert all(together(way.read).of == probes for way in figures.ways.values())
    assert figures.runs[0].name == "mask"
    console = Console(file=io.StringIO(), width=150)
    for table in (ways_table(size, [figures]), costs_table(size, [figures]), passes_table(figures)):
        console.print(table)
        assert table.row_count >= 5


def test_a_log_of_fifty_thousand_tokens_shrinks_by_two_fifths_and_says_what_was_planted(app: App) -> None:
    """E6.1, E4.1: with the default preset, in a window that it fills."""
    session = made_session(52_000, 3, app.counter.count)
    app.feed(session.records, app.caller())
    done = app.compact(CompactRequest(window=int(1.1 * session.tokens)), app.caller())
    assert done.after.tokens <= 0.6 * done.before.tokens
    exact = together(surviving(app.logs.log(app.caller()), session.probes), EXACT)
    assert exact.found >= 0.95 * exact.of
