"""Puts our server into the programs that agents run in, and takes it out again."""
