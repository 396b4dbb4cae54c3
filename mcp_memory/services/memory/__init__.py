"""Storing, changing, forgetting and maintaining records and tasks."""
