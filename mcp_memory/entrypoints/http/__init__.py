"""MCP over HTTP: who is let in, what is told of the server's state, and an end in which calls finish."""
