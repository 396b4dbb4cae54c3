"""The code of each client of a memory's owner, windows and hooks: it needs the standard library alone."""
