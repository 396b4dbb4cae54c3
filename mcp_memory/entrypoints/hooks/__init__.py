"""What a client's hooks run: `mcp-memory hook NAME`, a process of its own for each event of a session.

`running` starts and ends one whatever happens; `payload` is what the client says, `hooked` the memory it is about, and
`notes` what the processes of one session leave for each other. The rest is a module for each thing that hooks do.
"""
