"""Compares records: what supersedes, contradicts or depends on what, and the groups that wait for a review."""
