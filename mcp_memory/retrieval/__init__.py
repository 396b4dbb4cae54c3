"""Finds candidates, one source a file; their scores become one ranking."""
