"""Runs a client's hooks: `mcp-memory hook NAME`, a process of its own for each event of a session.

`bridge/hook.py` starts and ends a hook whatever happens, and `bridge/duplicate_hooks.py` lets one of several hooks of
the same event act. `answering` answers it in the memory's owner, or alone where there is none; `remote` asks a memory
over HTTP. `hook_call` reads the client's input; `events` has a function for each event, and their table;
`session_notes` carry state between a session's processes.
"""
