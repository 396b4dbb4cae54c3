"""Recall: turns a query into ranked results."""
