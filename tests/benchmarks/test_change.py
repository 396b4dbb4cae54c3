"""The benchmark of change, over a few of its cases."""

from typing import TYPE_CHECKING

from benchmarks.change import cases, settle_and_undo

if TYPE_CHECKING:
    from mcp_memory.app import App


async def test_settled_groups_taken_back_leave_the_export_as_it_was(app: "App") -> None:
    """N2.1: byte for byte, in four languages, whatever the way."""
    chosen = cases("groups")[::5]
    outcome = await settle_and_undo(app, chosen)
    assert outcome.settled.total() == outcome.undone > len(chosen) // 2
    assert outcome.is_restored
