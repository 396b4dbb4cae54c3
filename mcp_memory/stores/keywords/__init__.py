"""Keyword search in memory."""
