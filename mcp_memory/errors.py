"""The error tree. Every message ends with the caller's next move, and the entrypoints show it unchanged."""

from collections.abc import Sequence
from typing import Final, cast

CHOOSE_FOLDER: Final = "make it writable or set MCP_MEMORY_DATA_DIR to a local folder that is."
"""The remedy where a data directory cannot be used."""


class McpMemoryError(Exception):
    """An error that the caller can act on. Every other exception is a defect and goes to the log."""


class InvalidRequest(McpMemoryError):
    """The request itself is wrong; sending it again unchanged cannot help."""


class NotFound(McpMemoryError):
    """An id or a name does not exist, or this caller may not see it."""


class SummaryIncomplete(InvalidRequest):
    """A summary leaves out what the session holds; the next one for the same span is taken."""


class Conflict(McpMemoryError):
    """The request is well formed, but the present state does not allow it."""


class QuotaReached(Conflict):
    """A project or a person has as much, or asks as often, as it may; nothing was stored."""


class CallDone(McpMemoryError):
    """A repeated call was done before; its answer was lost. `made` are the ids of what it made then."""

    def __init__(self, made: Sequence[str]) -> None:
        super().__init__("This call was done before; nothing was done again.")
        self.made = made


class BudgetTooSmall(McpMemoryError):
    """The token budget cannot hold what must always be there.

    `least` is the smallest budget, in the client's tokens, that works.
    """

    def __init__(self, least: int) -> None:
        super().__init__(f"max_tokens is too small for this context; ask for at least {least}.")
        self.least = least


class StoreUnavailable(McpMemoryError):
    """The store cannot be read or written at present; the message names the remedy."""


class StoreBusy(StoreUnavailable):
    """Another process came in between: it held the write lock for too long, or renamed the project meanwhile."""


class SchemaTooNew(StoreUnavailable):
    """A newer version of mcp_memory has written this store."""


class TextRefused(StoreUnavailable):
    """The embedder accepts other texts, but never this one."""


class SummaryFailed(StoreUnavailable):
    """No summarizer could summarise the span; the log is unchanged."""


class EmbedderMismatch(StoreUnavailable):
    """A different embedder than the configured one made the store's vectors."""


def is_starved(error: BaseException) -> bool:
    """True where the system gives this process no more memory or threads: `ulimit -v` of who started it may say so."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_starved, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    # What Python says, and nothing more special: "can't start new thread".
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error))
