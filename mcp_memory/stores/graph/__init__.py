"""The relation graph, in memory."""
