"""The error tree. Every message ends in the caller's next move; the edge shows it as it stands."""


class McpMemoryError(Exception):
    """Anything the caller can act on. What is not one of these is a defect and goes to the log."""


class InvalidRequest(McpMemoryError):
    """The request itself is wrong; sending it again unchanged cannot help."""


class NotFound(McpMemoryError):
    """An id or a name that does not exist, or that this caller may not see."""


class Conflict(McpMemoryError):
    """The request is well formed, but the present state does not allow it."""


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
    """Another process held the write lock for the whole patience of this one."""


class SchemaTooNew(StoreUnavailable):
    """A newer version of mcp_memory has written this store."""


class TextRefused(StoreUnavailable):
    """The embedder takes other texts, but not this one, however often it is asked."""


class SummaryFailed(StoreUnavailable):
    """Nobody could summarise the span; the log is as it was."""


class EmbedderMismatch(StoreUnavailable):
    """The store's vectors were made by another embedder than the one configured."""
