"""Runs a client's hooks: `mcp-memory hook NAME`, a process of its own for each event of a session.

`runner` starts and ends one whatever happens; `session` is what the client says and the memory it is about; `events`
has a function for each event, and the table of them; `session_notes` are what the processes of one session leave for
each other.
"""
