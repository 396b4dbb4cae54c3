"""Ways to make the log of a session shorter, one pass a file."""
