"""A session ends: the rest of its log, then upkeep in small steps, for as long as the client waits."""

from mcp_memory.entrypoints.hooks.feeding import feed
from mcp_memory.entrypoints.hooks.hooked import Hooked
from mcp_memory.errors import McpMemoryError


def end(hook: Hooked) -> None:
    """Feed the log, and move on what is due until nothing is, or the hook's deadline ends the process.

    Each step is one transaction: an end in the middle of one leaves all as it was before. What is left over is done by
    the next server, or by `mcp-memory maintain`.

    Raises StoreUnavailable.
    """
    failure: McpMemoryError | None = None
    try:
        feed(hook)
    except McpMemoryError as error:
        failure = error
    if hook.has_memory and hook.settings.maintain_minutes:
        while hook.app.keep_up():
            pass
    if failure:
        raise failure
