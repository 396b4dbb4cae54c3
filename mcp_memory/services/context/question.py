"""The question that a context answers, and which records may answer it at all."""

from collections.abc import Iterable
from dataclasses import dataclass

from mcp_memory.domain.memory.harness import is_own_traffic
from mcp_memory.domain.model.records import Instant, Kind, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.strategy import Strategy
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.services.retrieval.as_of import PastView
from mcp_memory.services.retrieval.search import ParsedQuery

OWN_TRAFFIC = "the memory's own traffic"
RAW_CALL = "a call, of which the result is told"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextQuestion:
    """The question that a context answers, and its caller. `read` is None without a query.

    `opens` is True where the caller asked nothing, or "what next?" of a task: the block begins with where things stood.
    With `then` it shows what was believed at that time, which is `now`. `shortens` is True where short forms are asked
    for.
    """

    read: ParsedQuery | None
    where: RecordFilter
    stack: Stack
    strategy: Strategy
    caller: Caller
    budget: int
    now: Instant
    opens: bool = False
    shortens: bool = False
    then: PastView | None = None

    @property
    def is_asked(self) -> bool:
        """True where the caller asked something: then relevance fills the block."""
        return self.read is not None and not self.opens

    @property
    def text(self) -> str:
        return self.read.query.text if self.read else ""

    @property
    def terms(self) -> tuple[str, ...]:
        return self.read.query.terms if self.read else ()


def refused(record: Record, strategy: Strategy) -> str:
    """Return the reason why a candidate is refused; empty where it is not."""
    if is_own_traffic(record):
        return OWN_TRAFFIC
    if record.status == "superseded":
        return f"superseded by {record.superseded_by or 'another'}"
    if record.outcome == "failure" and not strategy.failures:
        return "failed, which the strategy leaves out"
    return ""


def among(where: RecordFilter, kinds: Iterable[Kind]) -> frozenset[Kind]:
    """Return the kinds that the filter admits."""
    return frozenset(kinds) & where.kinds if where.kinds else frozenset(kinds)
