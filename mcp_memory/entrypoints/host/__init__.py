"""Serves the clients of a memory, in the process that owns it."""
