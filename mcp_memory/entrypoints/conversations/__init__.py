"""Clients' messages and transcripts, read as records of a session log."""
