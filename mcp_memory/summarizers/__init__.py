"""Writes summaries of a session's span: by sentences chosen from it, or by asking a model."""
