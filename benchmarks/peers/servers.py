"""Memory servers that are measured beside this one: how each is started, called and shared. Measures nothing."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Call = tuple[str, Mapping[str, Any]]
"""A tool's name and its arguments."""

ROOT = Path(__file__).parents[2]
CHROMA_MODEL = ".cache/chroma/onnx_models/all-MiniLM-L6-v2/onnx"
HTTP_CLIENT = (sys.executable, str(Path(__file__).with_name("http_client.py")), "http://127.0.0.1:{port}/mcp")
MINILM, NO_MODEL = "MiniLM, 8 bits", "none"
SAME_FILE = "every client starts a server on the same file"
NOT_SAID = f"nothing is documented; {SAME_FILE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """How to start a server, call it and share its memory. `{home}` is its home folder, `{port}` a free port.

    `store_many` and `listed` (all texts) spare a slow server calls that are not timed.
    `search` takes a query and how many results are wanted; `whole` is the same with whole texts, where `search`
    shortens them. `block` takes a query and a budget in tokens. `shared` says how clients share a memory: each by
    `shared_command` (or `command`), beside one process `hub` where they need one. It is empty where they cannot, and
    `alone` says why.
    """

    name: str
    purpose: str
    packages: Sequence[str] = ()
    is_npm: bool = False
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    model: str = ""
    embedding: str
    prepare: Sequence[Call] = ()
    store: Callable[[int, str], Call]
    store_many: Callable[[Sequence[str]], Call] | None = None
    search: Callable[[str, int], Call]
    whole: Callable[[str, int], Call] | None = None
    block: Callable[[str, int], Call] | None = None
    listed: Call | None = None
    shared: str = SAME_FILE
    alone: str = ""
    shared_command: Sequence[str] = ()
    hub: Sequence[str] = ()

    @property
    def binaries(self) -> str:
        return "node_modules/.bin" if self.is_npm else "bin"


def in_service(number: int, text: str) -> Call:
    """In a conversation, or else it refuses texts whose meaning is like that of another."""
    return "memory_store", {"content": text, "conversation_id": "benchmark"}


def from_service(query: str, limit: int) -> Call:
    return "memory_search", {"query": query, "limit": limit}


def in_chroma(number: int, text: str) -> Call:
    return "chroma_add_documents", {"collection_name": "memory", "documents": [text], "ids": [str(number)]}


def from_chroma(query: str, limit: int) -> Call:
    return "chroma_query_documents", {"collection_name": "memory", "query_texts": [query], "n_results": limit}


def entity(number: int, text: str) -> Call:
    """A record as the knowledge graphs take it: an entity with one observation."""
    made = {"name": f"memory {number}", "entityType": "memory", "observations": [text]}
    return "create_entities", {"entities": [made]}


def note(number: int, text: str) -> Call:
    made = {"title": f"memory {number}", "content": text, "directory": "notes", "project": "main"}
    return "write_note", made


def recall(query: str, limit: int, **more: object) -> Call:
    return "recall", {"query": query, "limit": limit, **more}


_OF_OURS = {
    "MCP_MEMORY_DATA_DIR": "{home}/data",
    "MCP_MEMORY_NAMESPACE": "benchmark",
    "MCP_MEMORY_IDLE_MINUTES": "0",
}
OURS = Peer(
    name="this server", purpose="a memory of several agents, shown to each inside a budget of tokens",
    command=(sys.executable, "-m", "mcp_memory"), embedding=MINILM,
    environment={"PYTHONPATH": str(ROOT), **_OF_OURS},
    store=lambda number, text: ("remember", {"text": text}),
    search=recall,
    whole=lambda query, limit: recall(query, limit, detail="full", max_tokens=20_000),
    block=lambda query, budget: ("assemble_context", {"query": query, "max_tokens": budget}),
    shared="every client starts a thin server; one process owns the file",
)  # fmt: skip
_SERVICE = "a memory service with tags, quality scores and a web page"
PEERS = (
    Peer(
        name="mcp-memory-service", packages=("mcp-memory-service",), embedding="hash fallback",
        purpose=f"{_SERVICE}; as installed plainly, without a model",
        environment={"MCP_MEMORY_ALLOW_HASH_EMBEDDINGS": "1"},
        command=("memory", "server"), store=in_service, search=from_service,
    ),
    Peer(
        name="mcp-memory-service-onnx", packages=("mcp-memory-service", "onnxruntime", "tokenizers"),
        purpose=f"{_SERVICE}; the same with a model",
        environment={"MCP_MEMORY_USE_ONNX": "true"}, embedding=MINILM,
        model=".cache/mcp_memory/onnx_models/all-MiniLM-L6-v2/onnx",
        command=("memory", "server"), store=in_service, search=from_service,
    ),
    Peer(
        name="mempalace", packages=("mempalace",), command=("mempalace-mcp",), embedding=MINILM, model=CHROMA_MODEL,
        purpose="verbatim texts in a palace of wings and rooms, mined from files and sessions",
        store=lambda number, text: ("mempalace_add_drawer", {"wing": "work", "room": "notes", "content": text}),
        search=lambda query, limit: ("mempalace_search", {"query": query[:250], "limit": limit}),
        shared="clients of one server over HTTP", shared_command=HTTP_CLIENT,
        hub=("mempalace-mcp", "--transport", "http", "--port", "{port}"),
    ),
    Peer(
        # mcp 1.6.0, which it asks for exactly, imports what pydantic took away in 2.12.
        name="chroma-mcp", packages=("chroma-mcp", "pydantic<2.12"), embedding=MINILM, model=CHROMA_MODEL,
        purpose="Chroma's collections as tools: a vector database, not a memory",
        command=("chroma-mcp", "--client-type", "persistent", "--data-dir", "{home}/data"),
        prepare=(("chroma_create_collection", {"collection_name": "memory"}),),
        store=in_chroma, search=from_chroma,
        store_many=lambda texts: (
            "chroma_add_documents",
            {"collection_name": "memory", "documents": list(texts), "ids": [str(place) for place in range(len(texts))]},
        ),
        listed=("chroma_get_documents", {"collection_name": "memory", "limit": 1_000}),
        shared="a Chroma server, to which every client's server connects",
        shared_command=(
            "chroma-mcp", "--client-type", "http", "--host", "127.0.0.1", "--port", "{port}", "--ssl", "false",
        ),
        hub=("chroma", "run", "--path", "{home}/data", "--host", "127.0.0.1", "--port", "{port}"),
    ),
    Peer(
        name="mcp-server-qdrant", packages=("mcp-server-qdrant",), command=("mcp-server-qdrant",),
        purpose="store and find over a Qdrant database",
        environment={"QDRANT_LOCAL_PATH": "{home}/data", "COLLECTION_NAME": "memory", "HF_HUB_OFFLINE": "1"},
        embedding="MiniLM from a hub", shared="", alone="its local folder takes one process",
        store=lambda number, text: ("qdrant-store", {"information": text}),
        search=lambda query, limit: ("qdrant-find", {"query": query}),
    ),
    Peer(
        name="basic-memory", packages=("basic-memory",), command=("basic-memory", "mcp"), embedding=NO_MODEL,
        purpose="notes as Markdown files, which a person and an agent write together",
        environment={"BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false"},
        store=note, search=lambda query, limit: (
            "search_notes", {"query": query, "page_size": limit, "project": "main", "output_format": "json"},
        ),
    ),
    Peer(
        name="server-memory", packages=("@modelcontextprotocol/server-memory",), is_npm=True, embedding=NO_MODEL,
        purpose="the protocol's example: a small knowledge graph in a file, read as a whole",
        shared=NOT_SAID, command=("mcp-server-memory",), environment={"MEMORY_FILE_PATH": "{home}/memory.jsonl"},
        store=entity, search=lambda query, limit: ("search_nodes", {"query": query}),
    ),
    Peer(
        name="mcp-memory-libsql", packages=("mcp-memory-libsql",), is_npm=True, command=("mcp-memory-libsql",),
        purpose="a knowledge graph in libSQL, on the disk or at a service",
        environment={"LIBSQL_URL": "file:{home}/memory.db"}, embedding=NO_MODEL, shared=NOT_SAID,
        store=entity, search=lambda query, limit: ("search_nodes", {"query": query, "limit": limit}),
    ),
)  # fmt: skip
