"""Memory servers that are measured beside this one: how each is installed, started and called. Measures nothing.

Each goes into a folder of its own, with a virtual environment or with npm, and never into this project's environment.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_memory.encoders.embed_minilm import MODEL_FOLDER

Call = tuple[str, Mapping[str, Any]]
"""A tool's name and its arguments."""

LIMIT = 5
RESHAPE = """
import sys, onnx
from onnx import TensorProto, helper
model = onnx.load(sys.argv[1])
graph = model.graph
hidden = [node for node in graph.node if node.op_type == "MatMul"][-1].input[1]
graph.input.append(helper.make_tensor_value_info("token_type_ids", TensorProto.INT64, ["b", "s"]))
del graph.output[:]
graph.output.append(helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["b", "s", 384]))
onnx.save(model, sys.argv[2])
"""
"""Gives our model the inputs and the output of the published one: peers take the mean over the places by themselves."""
MODEL_FILES = ("config.json", "special_tokens_map.json", "tokenizer_config.json", "vocab.txt")
"""Chroma only looks whether they are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """How to install a server, start it and call it. `{home}` stands for its home folder."""

    name: str
    packages: Sequence[str] = ()
    is_npm: bool = False
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    model: str = ""
    embedding: str
    prepare: Sequence[Call] = ()
    store: Callable[[int, str], Call]
    search: Callable[[str], Call]

    @property
    def binaries(self) -> str:
        return "node_modules/.bin" if self.is_npm else "bin"


def in_service(number: int, text: str) -> Call:
    """In a conversation, or else it refuses texts whose meaning is like that of another."""
    return "memory_store", {"content": text, "conversation_id": "benchmark"}


def from_service(query: str) -> Call:
    return "memory_search", {"query": query, "limit": LIMIT}


def entity(number: int, text: str) -> Call:
    """A record as the knowledge graphs take it: an entity with one observation."""
    made = {"name": f"memory {number}", "entityType": "memory", "observations": [text]}
    return "create_entities", {"entities": [made]}


_OF_OURS = {
    "MCP_MEMORY_DATA_DIR": "{home}/data",
    "MCP_MEMORY_NAMESPACE": "benchmark",
    "MCP_MEMORY_IDLE_MINUTES": "0",
}
OURS = Peer(
    name="this server", command=(sys.executable, "-m", "mcp_memory"), embedding="MiniLM, 8 bits",
    environment={"PYTHONPATH": str(Path(__file__).parents[1]), **_OF_OURS},
    store=lambda number, text: ("remember", {"text": text}),
    search=lambda query: ("recall", {"query": query, "limit": LIMIT}),
)  # fmt: skip
PEERS = (
    Peer(
        name="mcp-memory-service", packages=("mcp-memory-service",), embedding="hash fallback",
        environment={"MCP_MEMORY_ALLOW_HASH_EMBEDDINGS": "1"},
        command=("memory", "server"), store=in_service, search=from_service,
    ),
    Peer(
        name="mcp-memory-service-onnx", packages=("mcp-memory-service", "onnxruntime", "tokenizers"),
        environment={"MCP_MEMORY_USE_ONNX": "true"}, embedding="MiniLM, 8 bits",
        model=".cache/mcp_memory/onnx_models/all-MiniLM-L6-v2/onnx",
        command=("memory", "server"), store=in_service, search=from_service,
    ),
    Peer(
        name="mempalace", packages=("mempalace",), command=("mempalace-mcp",), embedding="MiniLM, 8 bits",
        model=".cache/chroma/onnx_models/all-MiniLM-L6-v2/onnx",
        store=lambda number, text: ("mempalace_add_drawer", {"wing": "work", "room": "notes", "content": text}),
        search=lambda query: ("mempalace_search", {"query": query, "limit": LIMIT}),
    ),
    Peer(
        # mcp 1.6.0, which it asks for exactly, imports what pydantic took away in 2.12.
        name="chroma-mcp", packages=("chroma-mcp", "pydantic<2.12"), embedding="MiniLM, 8 bits",
        command=("chroma-mcp", "--client-type", "persistent", "--data-dir", "{home}/data"),
        model=".cache/chroma/onnx_models/all-MiniLM-L6-v2/onnx",
        prepare=(("chroma_create_collection", {"collection_name": "memory"}),),
        store=lambda number, text: (
            "chroma_add_documents", {"collection_name": "memory", "documents": [text], "ids": [str(number)]},
        ),
        search=lambda query: (
            "chroma_query_documents", {"collection_name": "memory", "query_texts": [query], "n_results": LIMIT},
        ),
    ),
    Peer(
        name="mcp-server-qdrant", packages=("mcp-server-qdrant",), command=("mcp-server-qdrant",),
        environment={"QDRANT_LOCAL_PATH": "{home}/data", "COLLECTION_NAME": "memory", "HF_HUB_OFFLINE": "1"},
        embedding="MiniLM from a hub",
        store=lambda number, text: ("qdrant-store", {"information": text}),
        search=lambda query: ("qdrant-find", {"query": query}),
    ),
    Peer(
        name="server-memory", packages=("@modelcontextprotocol/server-memory",), is_npm=True,
        command=("mcp-server-memory",), environment={"MEMORY_FILE_PATH": "{home}/memory.jsonl"}, embedding="none",
        store=entity, search=lambda query: ("search_nodes", {"query": query}),
    ),
    Peer(
        name="mcp-memory-libsql", packages=("mcp-memory-libsql",), is_npm=True, command=("mcp-memory-libsql",),
        environment={"LIBSQL_URL": "file:{home}/memory.db"}, embedding="none",
        store=entity, search=lambda query: ("search_nodes", {"query": query, "limit": LIMIT}),
    ),
)  # fmt: skip


def install(peer: Peer, folder: Path, python: str) -> None:
    """Into a folder of its own, unless it is there."""
    mark, wanted = folder / "installed", " ".join(peer.packages)
    if not peer.packages or (mark.exists() and mark.read_text() == wanted):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = [python, "-m", "venv", str(folder)]
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", *peer.packages]
    npm = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), *peer.packages]
    for command in [npm] if peer.is_npm else [environment, pip]:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    mark.write_text(wanted)


def version(peer: Peer, folder: Path) -> str:
    """As installed: from package.json, or from the name of the folder beside the package."""
    if peer.is_npm:
        return json.loads((folder / "node_modules" / peer.packages[0] / "package.json").read_text())["version"]
    name = peer.packages[0].replace("-", "_") if peer.packages else ""
    found = next(folder.glob(f"lib/python*/site-packages/{name}-*.dist-info"), None)
    return found.name.removesuffix(".dist-info").rpartition("-")[2] if name and found else ""


def reshape_model(peers_dir: Path, python: str) -> Path:
    """A folder that a peer takes for its download, with our model in the published one's form."""
    tool = Peer(name="onnx", packages=("onnx",), command=(), embedding="", store=entity, search=lambda query: ("", {}))
    install(tool, peers_dir / "onnx", python)
    made = peers_dir / "model"
    made.mkdir(exist_ok=True)
    program = [str(peers_dir / "onnx" / "bin" / "python"), "-c", RESHAPE]
    subprocess.run([*program, str(MODEL_FOLDER / "model.onnx"), str(made / "model.onnx")], check=True)
    shutil.copy(MODEL_FOLDER / "tokenizer.json", made)
    for name in MODEL_FILES:
        (made / name).write_text("{}")
    return made
