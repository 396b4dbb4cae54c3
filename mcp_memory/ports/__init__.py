"""Every seam of the system: what services need, said without naming who provides it, a theme a module.

Implementations are named in `app.py` alone. All of them are safe to call from several threads at once, and translate
their libraries' errors into `McpMemoryError`. Vectors are float32 and of unit length; higher scores are better.
"""

from mcp_memory.ports.access_tokens import Token, TokenStore
from mcp_memory.ports.changes import RecordChange, TaskLink
from mcp_memory.ports.encoders import Embedder, TokenCounter, Vectors
from mcp_memory.ports.filters import FilterIndex
from mcp_memory.ports.folders import FolderStore
from mcp_memory.ports.graph import Connection, GraphNode, GraphStore, GraphSummary
from mcp_memory.ports.indexes import Finding, IndexDifference, IndexDirectory, IndexExaminer, IndexState, VectorIndex
from mcp_memory.ports.keywords import KeywordStore, Rarity
from mcp_memory.ports.language import Clock, DateReader, Redactor
from mcp_memory.ports.records import (
    Mention,
    Outline,
    RecordOrder,
    RecordStore,
    Snapshot,
    Snapshots,
    Statement,
    StoreSummary,
)
from mcp_memory.ports.session_logs import (
    Compaction,
    LogSize,
    PassRun,
    PassTally,
    Said,
    SessionLogStore,
    StandIn,
    Trigger,
    Undone,
)
from mcp_memory.ports.source import Source
from mcp_memory.ports.summarizers import Summarized, Summarizer, SummaryRequest
from mcp_memory.ports.transaction import Transaction
from mcp_memory.ports.transfer import (
    EarlierText,
    EntityMentioned,
    ErasedRecord,
    KnownEntity,
    KnownPlace,
    KnownSession,
    Origin,
    Piece,
    RelationSaid,
    Transfer,
    UndoneSummary,
    WholeCompaction,
    WholeRecord,
    WholeReplacement,
)
from mcp_memory.ports.vectors import UsualCosine, VectorStore

__all__ = [
    "Clock",
    "Compaction",
    "Connection",
    "DateReader",
    "EarlierText",
    "Embedder",
    "EntityMentioned",
    "ErasedRecord",
    "FilterIndex",
    "Finding",
    "FolderStore",
    "GraphNode",
    "GraphStore",
    "GraphSummary",
    "IndexDifference",
    "IndexDirectory",
    "IndexExaminer",
    "IndexState",
    "KeywordStore",
    "KnownEntity",
    "KnownPlace",
    "KnownSession",
    "LogSize",
    "Mention",
    "Origin",
    "Outline",
    "PassRun",
    "PassTally",
    "Piece",
    "Rarity",
    "RecordChange",
    "RecordOrder",
    "RecordStore",
    "Redactor",
    "RelationSaid",
    "Said",
    "SessionLogStore",
    "Snapshot",
    "Snapshots",
    "Source",
    "StandIn",
    "Statement",
    "StoreSummary",
    "Summarized",
    "Summarizer",
    "SummaryRequest",
    "TaskLink",
    "Token",
    "TokenCounter",
    "TokenStore",
    "Transaction",
    "Transfer",
    "Trigger",
    "Undone",
    "UndoneSummary",
    "UsualCosine",
    "VectorIndex",
    "VectorStore",
    "Vectors",
    "WholeCompaction",
    "WholeRecord",
    "WholeReplacement",
]
