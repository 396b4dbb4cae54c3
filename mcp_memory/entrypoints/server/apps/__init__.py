"""MCP Apps: documents that a host draws beside the results of tools, and what offers them. Knows no tool."""
