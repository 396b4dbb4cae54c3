"""Exports and imports a memory as JSON Lines; docs/moving.md describes the format."""
