"""Runs a client's hooks: `mcp-memory hook NAME`, a process of its own for each event of a session.

`runner` starts and ends a hook whatever happens; `session` reads the client's input and opens the memory; `events`
has a function for each event, and the table of them; `session_notes` carry state between a session's processes.
"""
