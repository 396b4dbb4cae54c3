"""Stores, changes, forgets and maintains records and tasks."""
