"""Stores, changes, forgets and maintains records."""
