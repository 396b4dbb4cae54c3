"""Makes the log of a session shorter, one pass a file."""
