"""Entry points: MCP (stdio, HTTP), hooks, the command line. They turn input into requests and answers into output."""
