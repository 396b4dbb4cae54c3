"""The question that a context answers, and which records may answer it at all."""

from collections.abc import Iterable
from dataclasses import dataclass

from mcp_memory.domain.memory.harness import is_own_traffic
from mcp_memory.domain.model.records import Instant, Kind, Record, is_valid
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
    With `then` it shows what was believed at that time, which is `now`. `true_at` is the time whose truth is asked for,
    where that is another. `shortens` is True where short forms are asked for.
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
    true_at: Instant | None = None

    def holds_true(self, record: Record) -> bool:
        """Return True where the record is true at the time that is asked about."""
        return is_valid(record, self.now if self.true_at is None else self.true_at)

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


def refused(record: Record, question: ContextQuestion) -> str:
    """Return the reason why a candidate is refused; empty where it is not.

    What was replaced enters where its own dates say that it was true at the time that is asked about.
    """
    if is_own_traffic(record):
        return OWN_TRAFFIC
    is_dated = record.valid_from is not None or record.valid_until is not None
    was_true = question.true_at is not None and is_dated and question.holds_true(record)
    if record.status == "superseded" and not was_true:
        return f"superseded by {record.superseded_by or 'another'}"
    if record.outcome == "failure" and not question.strategy.failures:
        return "failed, which the strategy leaves out"
    return ""


def among(where: RecordFilter, kinds: Iterable[Kind]) -> frozenset[Kind]:
    """Return the kinds that the filter admits."""
    return frozenset(kinds) & where.kinds if where.kinds else frozenset(kinds)
