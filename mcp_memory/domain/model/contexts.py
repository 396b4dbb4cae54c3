"""The components of an assembled context, and the report of every candidate's fate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from mcp_memory.domain.model.records import Instant, Json, ShownDetail


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One item of the assembled context.

    `tokens` are in the client's unit and cover the item's own lines. `score` is its strategy's. `parts` gives what
    each signal adds to the score. `agent` names the other agent that stored the item; `section` is the title above it,
    "" in accounts of earlier versions.
    """

    source: str
    kind: str
    id: str
    tokens: int
    score: float
    detail: ShownDetail
    agent: str = ""
    section: str = ""
    text: str = ""
    parts: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """A candidate left out of the context, with the reason in one word or two.

    `score` in [0, 1] is what was too low, its relevance or its chance to help, and `needed` what was enough, None where
    nothing was.
    """

    id: str
    reason: str
    score: float | None = None
    needed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The time, reader and task of a block, and how it came about, as its report's metadata has them.

    `budget` is in the client's tokens. `asked` says whether there was a question. A report that is not kept, or is of
    an earlier version, lacks some.
    """

    at: Instant | None = None
    occasion: str = ""
    agent: str = ""
    session: str = ""
    client: str = ""
    budget: int = 0
    asked: bool | None = None
    task: str = ""
    as_of: Instant | None = None
    picked: str = ""
    follow_up: str = ""
    previous: str = ""
    reason: str = ""
    degraded: Sequence[str] = ()


BlockPart = tuple[str, str]
"""A line or a few of a block, and before it the id of the component that it shows; "" for the fence and for titles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """The account of one context, kept under its id: ids, numbers, reasons, and the block until something is erased.

    `metadata` is kept as JSON and shown as it was written; what the program itself reads of it are `circumstances`.
    `block` is what the agent read, part by part, each a line below the one before. It is empty in accounts of earlier
    versions, where a record changed while the block was made, and, with `is_erased`, once anything in the memory was
    erased.
    """

    id: str
    token_count: int
    truncated: bool
    strategy: str
    components: tuple[Component, ...]
    omitted: tuple[Omission, ...]
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    block: tuple[BlockPart, ...] = ()
    is_erased: bool = False

    @property
    def circumstances(self) -> Circumstances:
        told: Mapping[str, Any] = self.metadata
        return Circumstances(**{each.name: told[each.name] for each in fields(Circumstances) if each.name in told})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A person's word that contexts give a record no more: those of a task and the tasks below it, or of an agent.

    The agent is "" where there is a task, and the task "" where there is an agent. `write` is the number of the write
    that made it, 0 before.
    """

    record_id: str
    namespace: str
    task_id: str
    agent: str
    at: Instant
    by_agent: str
    write: int = 0
