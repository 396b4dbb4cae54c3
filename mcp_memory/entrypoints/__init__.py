"""Entry points: MCP over stdio and HTTP, hooks, the command line. They turn words into requests, and back."""
