"""MCP over HTTP: access, monitoring, and a shutdown in which calls finish."""
