"""The MCP server: its tools and resources, over standard input and output or attached to a remote one."""
