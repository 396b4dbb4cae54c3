"""What goes wrong with an index. None of it reaches a caller: the exact search answers meanwhile."""

from mcp_memory.errors import StoreUnavailable


class IndexFailure(StoreUnavailable):
    """The index cannot be asked at present: it is broken, gone, or does not answer.

    With `keep`, what it holds is not in doubt, as where no directory could be had or a server could not be reached.
    """

    def __init__(self, reason: str, *, keep: bool = False) -> None:
        super().__init__(reason)
        self.keep = keep
