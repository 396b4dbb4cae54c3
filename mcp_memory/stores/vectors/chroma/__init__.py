"""Chroma as the index behind vector search, embedded in a process of its own or on a server.

store → sync_thread → sync → index → worker_client | worker → open_index → collections: what is left of the bar runs in
the server, what is right of it in the index process.
"""

from mcp_memory.stores.vectors.chroma.location import IndexPlace
from mcp_memory.stores.vectors.chroma.store import ChromaVectorStore

__all__ = ["ChromaVectorStore", "IndexPlace"]
