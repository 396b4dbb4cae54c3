"""The relation graph, on NetworkX."""
