"""Reads what a project's history tells by its form: a git repository, its documents, and earlier sessions."""
