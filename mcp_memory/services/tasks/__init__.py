"""Keeps the task tree: moves callers through it, and says which branches hide what from whom."""
