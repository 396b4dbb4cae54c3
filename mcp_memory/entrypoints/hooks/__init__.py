"""Runs a client's hooks: `mcp-memory hook NAME`, a process of its own for each event of a session.

`runner` starts and ends a hook whatever happens. It lets a running server answer (`live_sockets`, and `answering` on
the server's side), or opens the memory itself; `remote` asks a memory over HTTP. `once` lets one of several hooks of
the same event act. `hook_call` reads the client's input; `events` has a function for each event, and their table;
`session_notes` carry state between a session's processes.
"""
