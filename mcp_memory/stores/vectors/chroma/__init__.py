"""Chroma as the index behind vector search, embedded in a process of its own or on a server.

store → sync_thread → sync → index → worker_client | worker → open_index → collections: what is left of the bar runs in
the server, what is right of it in the index process.
It exports nothing, so that the index process imports only what it needs (3 MB less).
"""
